//! Everyday commands: remember, stats, doctor, connect, config, completions, man; in-process and through a server.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use support_wire::tree::workspace;

use serde_json::{Value, json};
use support_wire::kept::assert_fails;
use support_wire::service::{Service, binary, command, run, run_json, scratch, write};

fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn what_is_remembered_is_recalled_and_counted_alone_and_beside_a_server() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let first = run_json(
        &data,
        &["remember", "The boat crosses at slack water.", "--kind", "decision", "--tag", "boat"],
    );
    let item = &first["item"];
    assert_eq!((&item["kind"], &item["tags"]), (&json!("decision"), &json!(["boat"])));
    assert_eq!(item["provenance"]["via"], "brain_remember");
    let service = Service::start(&data, &[]);
    let id = item["id"].as_str().unwrap();
    let next = [
        "remember",
        "The boat crosses at high water.",
        "--supersedes",
        id,
        "--source",
        "https://a.example/7",
    ];
    let next = run_json(&data, &next);
    assert_eq!(next["item"]["supersedes"], json!([id]));
    assert_eq!(next["item"]["source"]["uri"], "https://a.example/7");
    let wrong = run(&data, &["remember", "x", "--supersedes", "itm_00000000000000000000000009"]);
    assert_fails(&wrong, 1, &["supersedes", "no such item"]);
    let stats = run_json(&data, &["stats"]);
    assert_eq!((&stats["memory_items"], &stats["superseded"]), (&json!(2), &json!(1)));
    let table = printed(&run(&data, &["stats"]));
    assert!(table.lines().any(|line| line.split_whitespace().eq(["superseded", "1"])), "{table}");
    let found = run_json(&data, &["recall", "when does the boat cross?"]);
    assert_eq!(found["items"][0]["id"], next["item"]["id"], "{found}");
    drop(service);
}

#[test]
fn a_text_comes_from_standard_input_too_and_a_repeat_with_its_key_stores_nothing() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let told = |text: &str| {
        let mut child = command(&data, &["remember", "-", "--json", "--idempotency-key", "k1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let item = |output: &Output| -> Value {
        let said: Value = serde_json::from_str(&printed(output)).unwrap();
        said["item"].clone()
    };
    let first = item(&told("Kelp grows\nby the pier."));
    assert_eq!(
        (&first["title"], &first["text"]),
        (&json!("Kelp grows"), &json!("Kelp grows\nby the pier."))
    );
    assert_eq!(item(&told("Kelp grows\nby the pier."))["id"], first["id"]);
    let other = told("Another text.");
    assert_eq!(other.status.code(), Some(2), "{}", String::from_utf8_lossy(&other.stderr));
    let blank = run(&data, &["remember", "  "]);
    assert_fails(&blank, 2, &["text", "blank"]);
}

/// The doctor's finding of this name.
fn finding(said: &Value, name: &str) -> Value {
    let findings = said["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {said}")).clone()
}

fn examined(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_doctor_looks_at_everything_and_makes_nothing() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let first = Command::new(binary())
        .args(["doctor", "--json"])
        .env("XDG_STATE_HOME", scratch.path())
        .env_remove("RECALLD_DATA")
        .output()
        .unwrap();
    let named = examined(&first);
    assert_eq!(finding(&named, "data")["state"], "warn", "{named}");
    assert_eq!(first.status.code(), Some(0), "{named}");
    let named = run(&data, &["doctor", "--json"]);
    assert_eq!(named.status.code(), Some(1));
    assert_eq!(finding(&examined(&named), "data")["state"], "fail");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "a look makes nothing");
    run_json(&data, &["remember", "The gate is green."]);
    let service = Service::start(&data, &[]);
    let beside = run_json(&data, &["doctor"]);
    assert_eq!(beside["ok"], true, "{beside}");
    assert!(finding(&beside, "server")["detail"].as_str().unwrap().ends_with("runs and is ok"));
    drop(service);
    let alone = run_json(&data, &["doctor"]);
    for name in [
        "data",
        "store",
        "encoder",
        "ledger",
        "control store",
        "disk space",
        "clock",
        "ledger entries",
    ] {
        assert_eq!(finding(&alone, name)["state"], "ok", "{name}: {alone}");
        assert_eq!(finding(&beside, name)["state"], "ok", "{name}: {beside}");
    }
    assert_eq!(finding(&alone, "backups")["state"], "warn");
    run_json(&data, &["backup", scratch.path().join("backup").to_str().unwrap()]);
    assert_eq!(finding(&run_json(&data, &["doctor"]), "backups")["state"], "ok");
}

#[test]
fn the_doctor_says_what_is_wrong_and_what_to_do() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    run_json(&data, &["remember", "The gate is green."]);
    let bad = write(scratch.path(), "recalld.toml", "[oauth]\n\nkey_prefiks = \"a\"\n");
    let output = run(&data, &["doctor", "--config", bad.to_str().unwrap()]);
    assert_fails(&output, 1, &["1 thing is wrong"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("fail settings")
            && text.contains("line 3")
            && text.contains("-> mend that line"),
        "{text}"
    );
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    let open = run_json(&data, &["doctor"]);
    let data_finding = finding(&open, "data");
    assert_eq!(data_finding["state"], "warn");
    assert!(data_finding["remedy"].as_str().unwrap().starts_with("chmod 700"), "{data_finding}");
    let ledger = data.join("tenants/local/ledger");
    for entry in fs::read_dir(&ledger).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() && fs::metadata(&path).unwrap().len() > 64 {
            let mut bytes = fs::read(&path).unwrap();
            bytes[60] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
    }
    let output = command(&data, &["doctor", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    let said = examined(&output);
    assert_eq!(said["ok"], false);
    let failed = said["findings"].as_array().unwrap().iter().filter(|one| one["state"] == "fail");
    assert!(
        failed.clone().count() > 0 && failed.clone().all(|one| one["remedy"].is_string()),
        "{said}"
    );
}

#[test]
fn the_doctor_looks_at_the_certificate_and_at_the_addresses_that_a_server_would_take() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    fs::create_dir(&data).unwrap();
    support_wire::tls::renew(scratch.path());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let settings = |certificate: &str| {
        let text = format!(
            "[local]\naddress = \"{taken}\"\n[hosted]\naddress = \"127.0.0.1:0\"\n\
             tls_cert = \"{certificate}\"\ntls_key = \"key.pem\"\n"
        );
        write(scratch.path(), "recalld.toml", text).to_str().unwrap().to_owned()
    };
    let file = settings("certificate.pem");
    let said = run_json(&data, &["doctor", "--config", &file]);
    let detail = |name: &str| finding(&said, name)["detail"].as_str().unwrap().to_owned();
    assert!(detail("certificate").contains("certificate.pem ends 4096-01-01"), "{said}");
    assert_eq!(finding(&said, "local address")["state"], "warn", "{said}");
    assert!(detail("local address").contains(&taken.to_string()), "{said}");
    assert_eq!(finding(&said, "hosted address")["state"], "ok", "{said}");
    let file = settings("key.pem");
    let output = command(&data, &["doctor", "--json", "--config", &file]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(finding(&examined(&output), "certificate")["state"], "fail");
}

#[test]
fn each_client_is_told_where_the_service_is_and_a_test_asks_there() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let service = Service::start(&data, &["--hosted", "127.0.0.1:0"]);
    let url = format!("http://{}/mcp", service.local());
    for client in ["claude-code", "claude-desktop", "cursor", "vscode", "codex"] {
        let said = run_json(&data, &["connect", client, "--test"]);
        assert_eq!(said["url"], url, "{client}");
        assert!(said["config"].as_str().unwrap().contains(&url), "{said}");
        let tested = said["test"].as_str().unwrap();
        assert!(
            tested.starts_with("recalld answers, with ")
                && tested.contains("tools; retrieval_arbitrate_tool was asked and gave"),
            "{tested}"
        );
    }
    for (client, place) in [("cursor", "/mcpServers/gulls/url"), ("vscode", "/servers/gulls/url")] {
        let said = run_json(&data, &["connect", client, "--name", "gulls", "--core"]);
        let config: Value = serde_json::from_str(said["config"].as_str().unwrap()).unwrap();
        assert_eq!(config.pointer(place).unwrap(), &json!(format!("{url}?profile=core")));
    }
    let hosted = format!("http://{}/mcp", service.hosted());
    let asked = run_json(&data, &["connect", "codex", "--url", &hosted, "--test"]);
    let page = format!("http://{}/authorize", service.hosted());
    assert_eq!(asked["test"], format!("It is there, and will ask you to sign in, at {page}."));
    let person = printed(&run(&data, &["connect", "claude-code"]));
    assert!(
        person.contains(&format!("claude mcp add --scope user --transport http recalld '{url}'")),
        "{person}"
    );
    assert_fails(
        &run(&data, &["connect", "chatgpt"]),
        2,
        &["--hosted", "https://recall.example/mcp"],
    );
    let public = run_json(&data, &["connect", "chatgpt", "--url", "https://recall.example"]);
    assert_eq!(public["url"], "https://recall.example/mcp");
    assert_fails(
        &run(&data, &["connect", "cursor", "--url", "http://recall.example/mcp"]),
        2,
        &["https://HOST/mcp"],
    );
    assert_fails(&run(&data, &["connect", "cursor", "--name", "a b"]), 2, &["letters, digits"]);
    drop(service);
    let gone = run(&data, &["connect", "cursor", "--url", &url, "--test"]);
    assert_fails(&gone, 3, &[&url, "recalld serve"]);
}

/// If a client would get no answer, the test reports the fault and its remedy.
#[test]
fn a_client_that_would_not_be_answered_is_told_why_and_what_to_do() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    run_json(&data, &["remember", "Razorbills are auks."]);
    let service = Service::start(&data, &["--hosted", "127.0.0.1:0"]);
    let local = format!("http://{}/mcp", service.local());
    let test = |url: &str| run(&data, &["connect", "cursor", "--url", url, "--test"]);

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = format!("http://{}", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"}}") {
            let mut some = [0; 1024];
            let count = std::io::Read::read(&mut stream, &mut some).unwrap();
            asked.extend_from_slice(&some[..count]);
        }
        let page = "HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\nconnection: close\r\n\r\nnope\n";
        stream.write_all(page.as_bytes()).unwrap();
    });
    let stranger = ["does not speak MCP", "404", "listens at", &local, "leave --url out"];
    assert_fails(&test(&other), 3, &stranger);
    answering.join().unwrap();
    // The listener is closed, so the port is unused now.
    assert_fails(&test(&other), 3, &["nothing listens there", "listens at", &local]);
    let path = format!("http://{}/nowhere", service.local());
    assert_fails(&test(&path), 3, &["404", &local]);

    let hosted = format!("http://{}/mcp", service.hosted());
    run_json(&data, &["tenant", "create", "gulls"]);
    let key = run_json(&data, &["key", "issue", "gulls", "--kind", "bearer"]);
    let secret = key["secret"].as_str().unwrap().to_owned();
    let by = |bearer: &str| {
        let with = ["connect", "codex", "--url", &hosted, "--test", "--bearer-env", "GULLS"];
        command(&data, &with).env("GULLS", bearer).stdin(Stdio::null()).output().unwrap()
    };
    let taken = printed(&by(&secret));
    assert!(taken.contains("recalld answers, with") && taken.contains("was asked"), "{taken}");
    let wrong = by(&secret.replace(&secret[secret.len() - 4..], "aaaa"));
    assert_fails(&wrong, 3, &["401", "expired or revoked", "recalld key issue"]);
    assert_fails(&by(""), 2, &["--bearer-env GULLS", "holds no bearer"]);
    let id = key["id"].as_str().unwrap();
    run_json(&data, &["key", "revoke", "gulls", id]);
    assert_fails(&by(&secret), 3, &["401", "revoked", "recalld key issue"]);
    let untested = run(&data, &["connect", "codex", "--bearer-env", "GULLS"]);
    assert_fails(&untested, 2, &["--test"]);
}

#[test]
fn relative_paths_in_the_settings_begin_at_their_file_wherever_it_is_named_from() {
    let scratch = scratch();
    let root = std::fs::canonicalize(scratch.path()).unwrap();
    write(&root, "etc/recalld.toml", "[backup]\nto = \"kept\"\n");
    for (here, file) in
        [("etc", "recalld.toml"), ("etc", "./recalld.toml"), ("", "etc/recalld.toml")]
    {
        let mut asked = command(&root.join("data"), &["config", "show", "--config", file]);
        let shown = printed(&asked.current_dir(root.join(here)).output().unwrap());
        let wanted = format!("to = \"{}\"", root.join("etc/kept").display());
        assert!(shown.contains(&wanted), "{here:?} {file}: {shown}");
    }
}

#[test]
fn settings_are_checked_by_line_and_shown_so_that_they_are_taken() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let shown = printed(&run(&data, &["config", "show"]));
    let file = write(scratch.path(), "recalld.toml", &shown);
    let path = file.to_str().unwrap();
    assert!(printed(&run(&data, &["config", "check", path])).ends_with(": all good\n"));
    let again = printed(&run(&data, &["config", "show", "--config", path]));
    let bare = |shown: &str| -> Vec<String> {
        shown.lines().map(|line| line.split("  # ").next().unwrap().to_owned()).collect()
    };
    assert_eq!(bare(&again), bare(&shown));
    assert!(shown.contains("\ncall_time_seconds = 120  # default\n"), "{shown}");
    assert!(again.contains("\ncall_time_seconds = 120  # file, line "), "{again}");
    // Flags override variables, and variables override the file; each origin is printed.
    let mut asked = command(&data, &["config", "show", "--config", path, "--call-time", "5"]);
    asked.args(["--set", "backup.to=/b", "--set", "backup.keep=3"]).env("RECALLD_CALL_TIME", "6");
    let told = printed(&asked.env("RECALLD_LOG_LEVEL", "warn").output().unwrap());
    for line in [
        "call_time_seconds = 5  # flag --call-time",
        "level = \"warn\"  # variable RECALLD_LOG_LEVEL",
        "to = \"/b\"  # flag --set backup.to",
        "keep = 3  # flag --set backup.keep",
    ] {
        assert!(told.lines().any(|it| it == line), "{line}: {told}");
    }
    assert_fails(
        &run(&data, &["config", "show", "--set", "backup.kep=3"]),
        2,
        &["did you mean `backup.keep`"],
    );
    let example =
        write(scratch.path(), "example.toml", printed(&run(&data, &["config", "example"])));
    let of_example =
        printed(&run(&data, &["config", "show", "--config", example.to_str().unwrap()]));
    assert_eq!(of_example, shown, "the example changes nothing");
    for (text, words) in [
        ("[log]\nlevle = \"info\"\n", ["line 2, column 1", "did you mean `log.level`"]),
        (
            "[oauth]\n# a comment\naccess_token_seconds = 5\n",
            ["line 3, column 24", "oauth.access_token_seconds"],
        ),
        ("[oauth]\nkey_prefix = \"a\"\n[audit]\nsync = \"never\"\n", ["line 4", "audit.sync"]),
        ("\n[oauth\n", ["line 2", "TOML"]),
        ("[mail]\nhost = \"m.example\"\n", ["line 1", "mail.from"]),
    ] {
        write(scratch.path(), "recalld.toml", text);
        assert_fails(&run(&data, &["config", "check", path]), 1, &words);
    }
    assert_fails(
        &run(&data, &["config", "check", "/no/such.toml"]),
        3,
        &["/no/such.toml", "name a file"],
    );
    assert!(!data.exists(), "settings are looked at without a data directory");
}

#[test]
fn every_command_is_in_the_completions_and_in_the_manual() {
    let described = |arguments: &[&str]| Command::new(binary()).args(arguments).output().unwrap();
    let help = printed(&described(&["--help"]));
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = commands
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 20, "{help}");
    let manual = printed(&described(&["man"]));
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let words = printed(&described(&["completions", shell]));
        for name in &commands {
            assert!(words.contains(name), "{shell}: {name}");
        }
    }
    for name in commands.iter().filter(|name| **name != "help") {
        assert!(
            manual.contains(&format!("recalld\\-{}(1)", name.replace('-', "\\-"))),
            "{name}: {manual}"
        );
        let page = printed(&described(&["man", name]));
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
    assert_fails(&described(&["man", "fly"]), 2, &["no command `fly`", "recalld help"]);
}

#[test]
fn a_model_is_shown_checked_and_what_is_not_used_goes() {
    let scratch = scratch();
    let (data, cache) = (scratch.path().join("data"), scratch.path().join("cache"));
    let before = run_json(&data, &["model"]);
    assert_eq!((&before["store"], &before["matches"]), (&Value::Null, &json!(true)), "{before}");
    assert!(!data.exists(), "a look makes no data directory");
    run_json(&data, &["remember", "The gate is green."]);
    let service = Service::start(&data, &[]);
    let shown = run_json(&data, &["model", "show"]);
    assert_eq!(
        shown["store"]["fingerprint"], shown["model"]["fingerprint"],
        "beside a server: {shown}"
    );
    assert_eq!(shown["store"]["dimensions"], 384);
    drop(service);
    let fetched = run_json(&data, &["model", "fetch"]);
    assert_eq!(fetched["directory"], shown["model"]["directory"]);
    let verified = run_json(&data, &["model", "verify"]);
    assert_eq!(
        (&verified["good"], &verified["weights_sha256"]),
        (&json!(true), &shown["model"]["weights_sha256"])
    );
    // A separate cache that contains an unused model.
    fs::create_dir_all(cache.join("models/another-000000000000")).unwrap();
    fs::write(cache.join("models/another-000000000000/config.json"), "{}").unwrap();
    let of_cache = |arguments: &[&str]| {
        let directory = shown["model"]["directory"].as_str().unwrap();
        let mut command = command(&data, arguments);
        command
            .args(["--json", "--model", directory])
            .env("RECALLD_CACHE", &cache)
            .output()
            .unwrap()
    };
    let said = |output: Output| -> Value { serde_json::from_str(&printed(&output)).unwrap() };
    let would = said(of_cache(&["model", "prune", "--dry-run"]));
    assert_eq!(would["removed"][0]["kind"], "model", "{would}");
    let listed = said(of_cache(&["model", "list"]));
    assert!(
        listed["kept"].as_array().unwrap().iter().any(|it| it == &would["removed"][0]),
        "{listed}"
    );
    let gone = said(of_cache(&["model", "prune"]));
    assert_eq!(gone["removed"], would["removed"]);
    let left = said(of_cache(&["model", "list"]));
    assert!(left["kept"].as_array().unwrap().iter().all(|it| it["kind"] == "packed"), "{left}");
    // If the model is missing, the command reports that and fetches nothing.
    let mut missing = command(&scratch.path().join("other"), &["model", "show"]);
    let missing = missing.env("RECALLD_CACHE", scratch.path().join("empty")).output().unwrap();
    assert_fails(&missing, 1, &["recalld model fetch"]);
}

/// The page is generated from the list of settings: `RECALLD_TEST_BLESS=1` rewrites it.
#[test]
fn the_page_of_settings_is_what_the_list_says_and_every_flag_of_serve_is_in_it() {
    let page = workspace().join("docs/configuration.md");
    let wanted = recalld_config::written::reference();
    if std::env::var_os("RECALLD_TEST_BLESS").is_some() {
        fs::write(&page, &wanted).unwrap();
    }
    assert_eq!(
        fs::read_to_string(&page).unwrap_or_default(),
        wanted,
        "bless it: RECALLD_TEST_BLESS=1"
    );
    let help = printed(&Command::new(binary()).args(["serve", "--help"]).output().unwrap());
    let flags = help.lines().filter(|line| line.trim_start().starts_with('-'));
    let flags = flags.filter_map(|line| line.split_once("--").map(|(_, rest)| rest));
    let flags: std::collections::BTreeSet<&str> =
        flags.filter_map(|rest| rest.split([' ', '=', '<']).next()).collect();
    assert!(flags.len() > 15, "{help}");
    // Flags that are no settings: the location of data and settings, the output format, `--set`, and clap's own.
    const OTHERS: [&str; 6] = ["data", "config", "json", "set", "help", "version"];
    for flag in flags.iter().filter(|flag| !OTHERS.contains(flag)) {
        assert!(
            wanted.contains(&format!("`--{flag}`")),
            "--{flag} is no setting with a key and a variable"
        );
    }
    for setting in recalld_config::settings::SETTINGS {
        if let Some(flag) = setting.flag {
            assert!(flags.contains(flag), "--{flag} is no flag of serve");
        }
        assert!(wanted.contains(&setting.variable()));
    }
}
