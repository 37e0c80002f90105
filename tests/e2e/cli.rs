//! The command line of the real program, with and without a running server, and its failures.

use std::fs::{self, OpenOptions, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use support_wire::documents;
use support_wire::kept;
use support_wire::mcp_client::McpClient;
use support_wire::service::{Service, command, run, run_json, scratch, write};
use support_wire::wire::{self, Ask};

fn ids(answer: &Value) -> Vec<&str> {
    let items = answer["items"].as_array().unwrap();
    items.iter().map(|item| item["id"].as_str().unwrap()).collect()
}

/// Runs every query command and checks its answer.
fn ask_all(data: &Path) -> Vec<Value> {
    let question = "when may the keeper's boat cross the reef?";
    let plain = run_json(data, &["recall", question]);
    assert!(plain["items"].as_array().unwrap().len() <= 8);
    assert_eq!(plain["routing"]["route"], "governed");
    assert!(plain["receipt"]["seq"].is_u64(), "{plain}");
    let words: Vec<&str> = std::iter::once("recall").chain(question.split(' ')).collect();
    assert_eq!(ids(&run_json(data, &words)), ids(&plain), "without quotes, too");
    let limited = run_json(data, &["recall", question, "--limit", "2"]);
    assert_eq!(ids(&limited), ids(&plain)[..2], "the same, cut off");
    let code = run_json(data, &["recall", question, "--modality", "code"]);
    assert!(!ids(&code).is_empty(), "{code}");
    let uri = |item: &Value| item["source"]["uri"].as_str().unwrap().to_owned();
    let mut uris = code["items"].as_array().unwrap().iter().map(uri);
    assert!(uris.all(|uri| uri.ends_with(".rs") || uri.ends_with(".py")), "{code}");
    let meaning = run_json(data, &["recall", question, "--semantic"]);
    assert_eq!(meaning["routing"]["route"], "semantic");
    assert_eq!(meaning["routing"]["lanes"].as_array().unwrap().len(), 1);
    let graph = run_json(data, &["recall", "trims the wick at dusk", "--limit", "2", "--graph"]);
    let neighbours = |item: &Value| item["neighbors"].as_array().map_or(0, Vec::len);
    let shown: usize = graph["items"].as_array().unwrap().iter().map(neighbours).sum();
    assert!(shown > 0, "--graph shows neighbours: {graph}");
    let person = run(data, &["recall", "trims the wick at dusk", "--limit", "2", "--graph"]);
    let person = String::from_utf8(person.stdout).unwrap();
    assert!(person.contains("trims the wick") && person.contains("items in"), "{person}");
    assert!(person.contains("-> ") || person.contains("<- "), "{person}");
    vec![plain, limited, code, meaning, graph]
}

#[test]
fn answers_are_the_same_beside_a_server_and_without_one() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("documents"));
    documents::write_all(&folder);
    let report = run_json(&data, &["ingest", folder.to_str().unwrap()]);
    assert!(report["items"].as_u64().unwrap() > 0, "{report}");
    let alone = ask_all(&data);

    let service = Service::start(&data, &[]);
    let beside = ask_all(&data);
    for (alone, beside) in alone.iter().zip(&beside) {
        assert_eq!(ids(alone), ids(beside));
    }
    // If the server runs, a new folder becomes an allowed root at once.
    let other = scratch.path().join("other");
    write(&other, "auks.md", "# Auks\n\nRazorbills are auks.\n");
    let report = run_json(&data, &["ingest", other.to_str().unwrap()]);
    assert_eq!((&report["files"], &report["items"]), (&json!(1), &json!(2)), "{report}");
    let answer = run_json(&data, &["recall", "razorbills"]);
    assert!(answer["items"][0]["text"].as_str().unwrap().contains("Razorbills"), "{answer}");
    let again = McpClient::open(&service).call("ingest_paths_tool", &json!({"paths": [other]}));
    assert_eq!(again["unchanged"], 1, "{again}");
    let nothing = run(&data, &["recall", "zyzzyva", "--modality", "image"]);
    assert_eq!(nothing.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&nothing.stdout).starts_with("Nothing on record"));

    let serving = data.join("serving.json");
    assert!(serving.exists());
    let status = service.terminate();
    assert_eq!(status.code(), Some(0), "{status}");
    assert!(!serving.exists(), "a server that ended says no longer where it is");
    let answer = run_json(&data, &["recall", "razorbills"]);
    assert!(answer["items"][0]["text"].as_str().unwrap().contains("Razorbills"), "{answer}");
}

/// Asserts the exit code and message, and that standard output is empty.
#[track_caller]
fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    kept::assert_fails(output, code, words);
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn wrong_use_ends_with_2() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    assert_fails(&run(&data, &["serve", "--loocal", "off"]), 2, &["--loocal", "--local"]);
    assert_fails(&run(&data, &["recal", "x"]), 2, &["recal", "recall"]);
    assert_fails(&run(&data, &["recall"]), 2, &["QUESTION"]);
    assert_fails(&run(&data, &["recall", "x", "--limit", "51"]), 2, &["51", "1..=50"]);
    assert_fails(&run(&data, &["recall", ""]), 2, &["query", "1 to 4096"]);
    assert_fails(&run(&data, &["ingest", "/no/such/folder"]), 2, &["/no/such/folder", "No such"]);
    assert_fails(
        &run(&data, &["ingest", "/tmp", "--include", "[a"]),
        2,
        &["`[a`", "globs such as"],
    );
    let missing = run(&data, &["serve", "--local", "127.0.0.1:0", "--ingest", "/no/such/folder"]);
    assert_fails(&missing, 2, &["--ingest", "/no/such/folder"]);
    assert_fails(&run(&data, &["serve", "--local", "nowhere"]), 2, &["nowhere", "127.0.0.1:8788"]);
    assert_fails(&run(&data, &["serve", "--local", "off"]), 2, &["give one an address"]);
    assert_fails(&run(&data, &["serve", "--local", "0.0.0.0:0"]), 2, &["loopback", "--hosted"]);
    assert!(!data.exists(), "wrong use leaves nothing behind");
}

#[test]
fn what_cannot_be_done_ends_with_3_and_says_what_to_do() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = run(&data, &["serve", "--local", &address]);
    assert_fails(&output, 3, &[&address, "in use", "choose another"]);

    let service = Service::start(&data, &[]);
    let second = run(&data, &["serve", "--local", "127.0.0.1:0"]);
    assert_fails(&second, 3, &["in use by another recalld", "--data"]);
    assert!(data.join("serving.json").exists(), "the first server's file is left alone");
    assert!(run_json(&data, &["recall", "anything"])["items"].is_array());
    assert_eq!(service.terminate().code(), Some(0));

    let credentials = data.join("credentials.toml");
    fs::set_permissions(&credentials, Permissions::from_mode(0o644)).unwrap();
    for command in [&["credentials", "show"][..], &["serve", "--local", "127.0.0.1:0"]] {
        assert_fails(&run(&data, command), 3, &["credentials.toml", "chmod"]);
    }
    fs::set_permissions(&credentials, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(run(&data, &["credentials", "show"]).status.code(), Some(0));

    let nowhere = scratch.path().join("no-model");
    let arguments = ["recall", "x", "--model", nowhere.to_str().unwrap()];
    assert_fails(&run(&data, &arguments), 3, &["no-model", "--model"]);
}

/// A mistyped data directory is reported, and no empty store is created there.
#[test]
fn a_command_that_reads_makes_no_store_and_says_that_there_is_none() {
    let scratch = scratch();
    let (typo, empty) = (scratch.path().join("typo"), scratch.path().join("empty"));
    fs::create_dir(&empty).unwrap();
    let other = scratch.path().join("other").to_str().unwrap().to_owned();
    let commands: [&[&str]; 17] = [
        &["stats"],
        &["stats", "--workspace", "gulls"],
        &["recall", "razorbills"],
        &["verify"],
        &["verify", "--erased", "itm_0000000000000000000000000a"],
        &["export"],
        &["export", "--vault", &other],
        &["salvage", "--to", &other],
        &["compact"],
        &["backup", &other],
        &["backup", "--list"],
        &["erase", "itm_0000000000000000000000000a", "--reason", "asked", "--yes"],
        &["tenant", "list"],
        &["tenant", "create", "No Slug"],
        &["key", "list", "gulls"],
        &["quota", "show", "gulls"],
        &["clock", "accept"],
    ];
    for command in commands {
        assert_fails(
            &run(&typo, command),
            3,
            &["typo is not there", "--data DIR", "recalld serve"],
        );
        let said = ["empty: there is no store yet", "recalld serve", "--data DIR"];
        assert_fails(&run(&empty, command), 3, &said);
    }
    for command in [&["ledger", "verify"][..], &["ledger", "verify", "--all"], &["ledger", "show"]]
    {
        assert_fails(&run(&typo, command), 3, &["typo is not there", "--data DIR"]);
        assert_eq!(run(&empty, command).status.code(), Some(3), "{command:?}");
    }
    assert_fails(&run(&typo, &["credentials", "show"]), 3, &["typo is not there", "--data DIR"]);
    let doctor = run(&typo, &["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert!(said.contains("typo is not there") && said.contains("recalld serve"), "{said}");
    let said = run_json(&empty, &["doctor"]).to_string();
    assert!(said.contains("there is none yet"), "{said}");
    let file = write(scratch.path(), "file", "");
    assert_fails(&run(&file, &["stats"]), 3, &["file is no folder", "--data DIR"]);
    assert!(!typo.exists(), "nothing was made");
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0, "nothing was made");
    assert!(!Path::new(&other).exists());
}

/// The first workspace may be created before the first start, which uses it.
#[test]
fn a_workspace_can_be_made_before_the_first_start() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let made = run(&data, &["tenant", "create", "gulls"]);
    let told = String::from_utf8(made.stderr).unwrap();
    assert_eq!(made.status.code(), Some(0), "{told}");
    assert!(told.contains(&format!("made a store in {}", data.display())), "{told}");
    let key = run_json(&data, &["key", "issue", "gulls", "--kind", "bearer"]);
    assert!(key["secret"].is_string(), "{key}");
    run_json(&data, &["remember", "Razorbills are auks.", "--workspace", "gulls"]);
    let service = Service::start(&data, &[]);
    let answer = run_json(&data, &["recall", "razorbills", "--workspace", "gulls"]);
    assert!(answer["items"][0]["text"].as_str().unwrap().contains("auks"), "{answer}");
    assert_eq!(run_json(&data, &["stats"])["memory_items"], 0);
    assert_eq!(service.terminate().code(), Some(0));
    assert_eq!(run_json(&data, &["verify"])["clean"], true);
    assert_eq!(run_json(&data, &["ledger", "verify", "--all"])["ok"], true);
}

/// No report uses a plural for a count of one.
#[test]
fn one_thing_is_told_as_one() {
    let scratch = scratch();
    let at = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let data = scratch.path().join("data");
    write(
        scratch.path(),
        "lines.jsonl",
        "{\"type\":\"item\",\"ref\":\"a\",\"text\":\"razorbills\"}\n",
    );
    let said = |data: &Path, arguments: &[&str]| {
        let output = run(data, arguments);
        let both = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(both).unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
        for line in text.lines() {
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric()).collect();
            for pair in words.windows(2).filter(|pair| pair[0] == "1") {
                // The last digits of a time may be 1 as well.
                let is_other = ["is", "was", "verifies", "ms", "s"].contains(&pair[1]);
                assert!(is_other || !pair[1].ends_with('s'), "1 {}: {text}", pair[1]);
            }
        }
        text
    };
    let imported = said(&data, &["import", &at("lines.jsonl")]);
    assert!(imported.contains("1 item (0 superseded)"), "{imported}");
    let recalled = said(&data, &["recall", "razorbills"]);
    assert!(recalled.contains("\n1 item in "), "{recalled}");
    let shown = said(&data, &["ledger", "show"]);
    assert!(shown.contains("  1 item  "), "{shown}");
    let exported = said(&data, &["export", &at("all.jsonl")]);
    assert!(exported.contains("1 item, 0 edges"), "{exported}");
    let vault = said(&data, &["export", "--vault", &at("vault")]);
    assert!(vault.contains("1 note, 0 links"), "{vault}");
    let kept = said(&data, &["backup", &at("backup")]);
    assert!(kept.contains("1 workspace in "), "{kept}");
    said(&data, &["verify"]);
    said(&data, &["salvage", "--to", &at("salvaged.jsonl")]);
    let restored = said(&scratch.path().join("restored"), &["restore", &at("backup")]);
    assert!(restored.starts_with("1 item in "), "{restored}");
    let row: Value = fs::read_to_string(at("all.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|row| row["type"] == "item")
        .unwrap();
    let id = row["id"].as_str().unwrap();
    let erased = said(&data, &["erase", id, "--reason", "asked", "--yes"]);
    assert!(erased.contains("1 item was erased from the store"), "{erased}");
}

/// Progress output is for people: with `--json`, standard error stays empty.
#[test]
fn a_program_is_told_of_no_progress() {
    let scratch = scratch();
    let at = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let data = scratch.path().join("data");
    write(scratch.path(), "facts.jsonl", "{\"text\":\"razorbills\"}\n{\"text\":\"puffins\"}\n");
    run_json(&data, &["import", &at("facts.jsonl")]);
    let quiet = |data: &Path, arguments: &[&str]| {
        let output = run(data, &[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.is_empty(), "{arguments:?}: {said}");
    };
    quiet(&data, &["import", &at("facts.jsonl")]);
    quiet(&data, &["salvage", "--to", &at("salvaged.jsonl")]);
    quiet(&data, &["export", &at("all.jsonl")]);
    quiet(&data, &["export", "--vault", &at("vault")]);
    quiet(&data, &["ledger", "verify"]);
    quiet(&data, &["ledger", "show"]);
    quiet(&data, &["backup", &at("backup")]);
    quiet(&data, &["verify"]);
    quiet(&data, &["verify", &at("backup")]);
    quiet(&data, &["compact"]);
    quiet(&data, &["recall", "razorbills"]);
    quiet(&scratch.path().join("restored"), &["restore", &at("backup")]);
}

/// Runs a command with the given standard output, and returns its exit code and standard error.
fn ends(data: &Path, arguments: &[&str], stdout: Stdio) -> (Option<i32>, String) {
    let mut command = command(data, arguments);
    let output = command.stdin(Stdio::null()).stdout(stdout).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// The work is done before the report: a reader that has gone is no failure, but a lost report is reported.
#[test]
fn a_report_that_nobody_reads_is_no_failure_and_one_that_is_lost_is() {
    let scratch = scratch();
    let at = scratch.path();
    let data = at.join("data");
    let text = |name: &str| at.join(name).to_str().unwrap().to_owned();
    write(at, "lines.jsonl", "{\"type\":\"item\",\"ref\":\"a\",\"text\":\"razorbills\"}\n");
    write(at, "bad.jsonl", "nonsense\n");
    write(&at.join("notes"), "auks.md", "# Auks\n\nRazorbills are auks.\n");
    let (lines, bad, notes, backup) =
        (text("lines.jsonl"), text("bad.jsonl"), text("notes"), text("backup"));
    let (one, two) = (text("one.jsonl"), text("two.jsonl"));
    let commands: [(&[&str], i32); 12] = [
        (&["import", &lines], 0),
        (&["import", &bad], 1),
        (&["ingest", &notes], 0),
        (&["recall", "razorbills"], 0),
        (&["credentials", "show"], 0),
        (&["verify"], 0),
        (&["verify", "--erased", "itm_0000000000000000000000000a"], 1),
        (&["backup", &backup], 0),
        (&["compact"], 0),
        (&["export", &one], 0),
        (&["salvage", "--to", &two, "--json"], 0),
        (&["export"], 0),
    ];
    for (arguments, code) in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = ends(&data, arguments, writer.into());
        assert_eq!(ended.0, Some(code), "{arguments:?}: {}", ended.1);
    }
    assert!(fs::read_to_string(&one).unwrap().contains("razorbills"), "the work is done");
    for arguments in [&["verify"][..], &["compact"], &["credentials", "show"], &["recall", "x"]] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (code, said) = ends(&data, arguments, full.into());
        assert_eq!(code, Some(3), "{arguments:?}: {said}");
        assert!(said.contains("standard output: "), "{said}");
    }
    let item = fs::read_to_string(&one).unwrap();
    let row: Value = serde_json::from_str(item.lines().next().unwrap()).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let erase = ["erase", row["id"].as_str().unwrap(), "--reason", "asked", "--yes"];
    assert_eq!(ends(&data, &erase, writer.into()).0, Some(0));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(ends(&at.join("restored"), &["restore", &backup], writer.into()).0, Some(0));
    assert!(at.join("restored/tenants").is_dir());
}

#[test]
fn the_data_directory_is_private_and_credentials_stay() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    run_json(&data, &["remember", "Razorbills are auks."]);
    let shown = run_json(&data, &["credentials", "show"]);
    let keys: Vec<&String> = shown.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["bearer", "gateway_client_id", "gateway_client_secret"]);
    assert_eq!(run_json(&data, &["credentials", "show"]), shown);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&data.join("credentials.toml")), 0o600);
    assert_eq!(mode(&data.join("keys/signing.key")), 0o600);
    let plain = String::from_utf8(run(&data, &["credentials", "show"]).stdout).unwrap();
    for (name, value) in shown.as_object().unwrap() {
        assert!(plain.contains(&format!("{name} = {}", value.as_str().unwrap())), "{name}");
    }
}

/// A limit may be lowered but not raised, and the error states the allowed range.
#[test]
fn the_bounds_of_a_server_are_held_to_their_range() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    for (flag, range) in [("--call-time", "1..=120"), ("--peer-connections", "1..=16384")] {
        for wrong in ["0", "16385", "soon"] {
            let refused = run(&data, &["serve", flag, wrong]);
            let said = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(2), "{flag} {wrong}: {said}");
            assert!(said.contains(flag) && said.contains(wrong), "{said}");
            assert!(wrong == "soon" || said.contains(range), "{said}");
        }
    }
    assert!(!data.exists());
}

/// Flags or variables force the level and the precision, and the status shows them; unsupported values are rejected
/// before anything is opened. Vectors of one precision find vectors of another.
#[test]
fn level_and_precision_are_forced() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("documents"));
    for (arguments, wanted) in [
        (["--kernel", "mmx"], "--kernel: `mmx` is no level; auto, "),
        (["--precision", "f8"], "--precision: `f8` is no precision; auto, f32, f16, int8"),
    ] {
        for command in [
            &["recall", "why?"][..],
            &["serve", "--local", "127.0.0.1:0"],
            &["reembed", "--model", "."],
        ] {
            let refused = run(&data, &[command, &arguments].concat());
            let said = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(2), "{command:?}: {said}");
            assert!(said.contains(wanted), "{said}");
        }
    }
    assert!(!data.exists());

    documents::write_all(&folder);
    let mut ingesting = command(&data, &["ingest", folder.to_str().unwrap()]);
    let ingested = ingesting.env("RECALLD_PRECISION", "int8").output().unwrap();
    assert!(ingested.status.success(), "{}", String::from_utf8_lossy(&ingested.stderr));
    let asked = ["recall", "when may the keeper's boat cross the reef?"];
    let plain = run_json(&data, &asked);
    let service = Service::start(&data, &["--kernel", "scalar", "--precision", "f16"]);
    let health = wire::ask(service.local(), &Ask::get("/health")).json();
    assert_eq!(health["encoder"]["kernel"], "scalar", "{health}");
    assert_eq!(health["encoder"]["precision"], "f16", "{health}");
    assert_eq!(ids(&run_json(&data, &asked)), ids(&plain));
}

const NOBODY_READS_THE_BOARD: &str = "[[rule]]\nname = \"acme/board\"\nplan_not = \"operator\"\ngate = \"board\"\n\
    actions = [\"read\"]\nverdict = \"deny\"\n\n[[rule]]\nname = \"acme/read\"\nscope = \"tenant:read\"\n\
    up_to = \"confidential\"\nactions = [\"read\"]\nverdict = \"allow\"\n";

#[test]
fn a_policy_file_is_checked_and_explained_without_a_store() {
    let scratch = scratch();
    let (at, data) = (scratch.path(), scratch.path().join("data"));
    write(at, "rules.toml", NOBODY_READS_THE_BOARD);
    write(at, "bad.toml", "[[rule]]\nname = \"acme/x\"\nverdict = \"denie\"\n");
    let path = |name: &str| at.join(name).to_str().unwrap().to_owned();
    let (rules, bad, gone) = (path("rules.toml"), path("bad.toml"), path("gone.toml"));
    assert_eq!(run_json(&data, &["policy", "check", &rules]), json!({"good": true, "rules": 2}));
    let words = ["bad.toml", "acme/x", "verdict", "denie", "deny"];
    assert_fails(&run(&data, &["policy", "check", &bad]), 1, &words);
    assert_fails(&run(&data, &["policy", "check", &gone]), 3, &["gone.toml", "No such file"]);

    let base = ["policy", "explain", "--file", &rules, "--principal", "user:ada"];
    let asked = [&base[..], &["--plan", "team", "--scope", "tenant:read", "--action"]].concat();
    let read = [&asked[..], &["read"]].concat();
    let allowed = run_json(&data, &read);
    assert_eq!((&allowed["decision"], &allowed["rule"]), (&json!("allow"), &json!("acme/read")));
    assert_eq!(
        allowed["rules"],
        json!([
            {"rule": "acme/board", "verdict": "deny", "matches": false},
            {"rule": "acme/read", "verdict": "allow", "matches": true},
        ])
    );
    let denied = run(&data, &[&read[..], &["--gate", "board"]].concat());
    let told = String::from_utf8(denied.stdout).unwrap();
    assert_eq!(denied.status.code(), Some(1));
    assert!(told.ends_with("deny by acme/board\n"), "{told}");
    let unknown = run(&data, &[&read[..], &["--gate", "secret"]].concat());
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("fixed/unknown-gate"));
    assert_fails(&run(&data, &[&asked[..], &["raed"]].concat()), 2, &["raed", "read"]);
    let plan = [&base[..], &["--plan", "tema", "--action", "read"]].concat();
    assert_fails(&run(&data, &plan), 2, &["tema", "team"]);

    // The initial rules as printed are a valid policy file.
    let shown = run(&data, &["policy", "show"]);
    write(at, "initial.toml", String::from_utf8(shown.stdout).unwrap());
    assert_eq!(run_json(&data, &["policy", "check", &path("initial.toml")])["good"], true);
    assert!(!data.exists(), "a look at rules leaves nothing behind");
}
