//! Keeping a store, through the real program: backup, restore, compaction and erasure, each alone
//! and beside a running server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use engine::{Batch, Durability, Ground, ItemDraft, Options, Store};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tests::documents;
use tests::mcp_client::McpClient;
use tests::service::{Service, run, run_json, scratch, write};
use tests::wire::Ask;

const QUESTIONS: [&str; 3] =
    ["when may the keeper's boat cross the reef?", "diaphone compressor", "rule of twelfths"];

/// Ids that each question finds, in order.
fn answers(data: &Path) -> Vec<Vec<String>> {
    let ids = |question: &&str| {
        let answer = run_json(data, &["recall", question]);
        let items = answer["items"].as_array().unwrap();
        items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    };
    QUESTIONS.iter().map(ids).collect()
}

/// A data directory with documents in it.
fn documented(scratch: &Path) -> PathBuf {
    let (data, folder) = (scratch.join("data"), scratch.join("documents"));
    documents::write_all(&folder);
    run_json(&data, &["ingest", folder.to_str().unwrap()]);
    data
}

/// Imports lines, and gives their ids by ref.
fn imported(data: &Path, lines: &[Value]) -> impl Fn(&str) -> String + use<> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let file = write(data.parent().unwrap(), "lines.jsonl", text);
    run_json(data, &["import", file.to_str().unwrap()]);
    let rows = exported(data);
    move |reference| {
        let row = rows.iter().find(|row| row["ref"] == reference).unwrap();
        row["id"].as_str().unwrap().to_owned()
    }
}

fn exported(data: &Path) -> Vec<Value> {
    let output = run(data, &["export"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn item(reference: &str, text: &str) -> Value {
    json!({"type": "item", "ref": reference, "title": format!("About {reference}"), "text": text})
}

/// Files beneath a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// Files beneath a folder that hold these bytes.
fn holding(folder: &Path, needle: &str) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap();
        bytes.windows(needle.len()).any(|window| window.eq_ignore_ascii_case(needle.as_bytes()))
    };
    files(folder).into_iter().filter(holds).collect()
}

#[track_caller]
fn assert_gone(folder: &Path, needle: &str) {
    let found = holding(folder, needle);
    assert!(found.is_empty(), "{needle} is still in {found:?}");
}

/// The exit code, and each word in what it said on standard error.
#[track_caller]
fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[test]
fn a_restored_backup_gives_the_same_answers() {
    let scratch = scratch();
    let data = documented(scratch.path());
    let (backup, restored) = (scratch.path().join("backup"), scratch.path().join("restored"));
    let before = answers(&data);
    let first = run_json(&data, &["backup", backup.to_str().unwrap()]);
    assert!(first["files"].as_u64().unwrap() > 2 && first["reused"] == 0, "{first}");
    assert!(!backup.join("credentials.toml").exists() && !backup.join("keys").exists());
    let again = run_json(&data, &["backup", backup.to_str().unwrap()]);
    assert_eq!(again["id"], first["id"]);
    assert!(again["reused"].as_u64().unwrap() >= 1, "{again}");
    assert!(again["bytes"].as_u64() < first["bytes"].as_u64(), "only what is new: {again}");

    let said = run(&restored, &["restore", backup.to_str().unwrap()]);
    assert_eq!(said.status.code(), Some(0), "{}", String::from_utf8_lossy(&said.stderr));
    let said = String::from_utf8(said.stdout).unwrap();
    let start = format!("recalld serve --data {}\n", restored.display());
    assert!(said.ends_with(&start) && said.contains("new credentials"), "{said}");
    assert_eq!(exported(&restored), exported(&data));
    assert_eq!(answers(&restored), before);
    // The new signing key goes on where the old one ended, and both are trusted.
    let next = scratch.path().join("next");
    let report = run_json(&restored, &["backup", next.to_str().unwrap()]);
    assert!(report["ledger_entries"].as_u64() > again["ledger_entries"].as_u64(), "{report}");

    let used = files(&restored).len();
    let refused = run(&restored, &["restore", backup.to_str().unwrap()]);
    assert_fails(&refused, 3, &["nothing is overwritten", "--data"]);
    assert_eq!(files(&restored).len(), used);
    let nothing = scratch.path().join("nothing");
    let none = run(&nothing, &["restore", scratch.path().to_str().unwrap()]);
    assert_fails(&none, 2, &["no backup.json"]);
    assert!(!nothing.exists() && !scratch.path().join("nothing.restoring").exists());
}

#[test]
fn a_backup_beside_a_server_can_hold_the_keys() {
    let scratch = scratch();
    let data = documented(scratch.path());
    let (backup, restored) = (scratch.path().join("backup"), scratch.path().join("restored"));
    let service = Service::start(&data, &[]);
    let report = run_json(&data, &["backup", backup.to_str().unwrap(), "--with-keys"]);
    assert_eq!(report["with_keys"], true, "{report}");
    let before = answers(&data);
    drop(service);
    for path in files(&backup) {
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    run_json(&restored, &["restore", backup.to_str().unwrap()]);
    assert_eq!(answers(&restored), before);
    let shown = |data: &Path| run_json(data, &["credentials", "show"]);
    assert_eq!(shown(&restored), shown(&data));

    for wrong in [data.join("inside"), scratch.path().to_owned()] {
        let refused = run(&data, &["backup", wrong.to_str().unwrap()]);
        assert_fails(&refused, 2, &["lies in the data directory, or around it"]);
    }
    let documents = scratch.path().join("documents");
    let refused = run(&data, &["backup", documents.to_str().unwrap()]);
    assert_fails(&refused, 2, &["holds something, but no backup"]);
    let other = scratch.path().join("other");
    let _ids = imported(&other, &[item("a", "of another store")]);
    let refused = run(&other, &["backup", backup.to_str().unwrap()]);
    assert_fails(&refused, 3, &["holds another store", "choose another folder"]);
    assert!(!other.join("backups.json").exists() || holding(&other, "/backup\"").is_empty());
}

#[test]
fn a_backup_is_whole_while_others_write() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let service = Service::start(&data, &[]);
    let (written, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = McpClient::open(&service);
            while !enough.load(Ordering::Acquire) {
                let n = written.load(Ordering::Acquire);
                client.call("brain_remember", &json!({"text": format!("note number {n}")}));
                written.store(n + 1, Ordering::Release);
            }
        });
        let backup = scratch.path().join("backup");
        for round in 0..3 {
            let before = written.load(Ordering::Acquire);
            run_json(&data, &["backup", backup.to_str().unwrap()]);
            let restored = scratch.path().join(format!("restored-{round}"));
            run_json(&restored, &["restore", backup.to_str().unwrap()]);
            let rows = exported(&restored);
            let texts: Vec<&str> = rows.iter().filter_map(|row| row["text"].as_str()).collect();
            let wanted: Vec<String> =
                (0..texts.len()).map(|n| format!("note number {n}")).collect();
            assert_eq!(texts, wanted, "all up to one moment, none after it");
            assert!(texts.len() >= before, "{before} were written before it began");
        }
        enough.store(true, Ordering::Release);
    });
    assert!(written.load(Ordering::Acquire) > 0);
}

#[test]
fn damage_in_a_backup_is_named_and_healed() {
    let scratch = scratch();
    let data = documented(scratch.path());
    let (backup, restored) = (scratch.path().join("backup"), scratch.path().join("restored"));
    run_json(&data, &["backup", backup.to_str().unwrap()]);
    for (part, rule) in [("segment-", "MAN-03"), ("ledger-", "BAK-03"), ("backup.json", "BAK-01")] {
        let named = |path: &&PathBuf| path.to_str().unwrap().contains(part);
        let all = files(&backup);
        let path = all.iter().find(named).unwrap();
        let sound = fs::read(path).unwrap();
        let mut bytes = sound.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        if part == "backup.json" {
            bytes.truncate(middle);
        }
        fs::write(path, &bytes).unwrap();
        let refused = run(&restored, &["restore", backup.to_str().unwrap()]);
        assert_fails(&refused, 3, &[rule, "use another backup"]);
        assert!(!restored.exists(), "{part}");
        if part == "backup.json" {
            fs::write(path, &sound).unwrap();
        } else {
            run_json(&data, &["backup", backup.to_str().unwrap()]);
        }
        run_json(&restored, &["restore", backup.to_str().unwrap()]);
        assert_eq!(exported(&restored), exported(&data), "{part}: the next backup heals it");
        fs::remove_dir_all(&restored).unwrap();
    }
}

/// Erases, and gives the report.
fn erase(data: &Path, ids: &[&str], more: &[&str]) -> Value {
    let arguments = [&["erase"], ids, &["--reason", "asked to be forgotten", "--yes"], more];
    run_json(data, &arguments.concat())
}

/// An erased member of a chain is its id and a time on every surface; the chain runs on.
#[test]
fn a_chain_is_recalled_through_what_was_erased() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let replacing = |reference: &str, text: &str, old: &str| json!({"type": "item", "ref": reference, "text": text, "supersedes": [old]});
    let lines = [
        item("first", "the gimbal ring is brass"),
        replacing("second", "the gimbal ring is zephyrine bronze", "first"),
        replacing("third", "the gimbal ring is steel", "second"),
        item("lone", "the paraffin pump leaks"),
        replacing("newest", "the paraffin pump is zephyrine dry", "lone"),
    ];
    let id = imported(&data, &lines);
    let service = Service::start(&data, &[]);
    erase(&data, &[&id("second"), &id("newest")], &[]);
    let seeds = |query: &str| service.post("/recall", &json!({"query": query}));
    let of = |found: &Value, reference: &str| {
        let id = id(reference);
        let found = found.as_array().unwrap().iter().find(|one| one["id"] == id.as_str());
        found.unwrap_or_else(|| panic!("{reference} is not found")).clone()
    };
    let is_erased = |found: &Value, reference: &str| {
        let [erased] = &found["erased"].as_array().unwrap()[..] else { panic!("{found}") };
        assert_eq!(erased["id"], id(reference).as_str(), "{found}");
        assert!(erased["erased_at"].as_str().unwrap().ends_with('Z'), "{found}");
        assert_eq!(erased.as_object().unwrap().len(), 2, "nothing else is left");
    };
    let gimbal = seeds("gimbal ring");
    assert!(!gimbal.to_string().contains("zephyrine"), "{gimbal}");
    let (first, third) = (of(&gimbal, "first"), of(&gimbal, "third"));
    assert_eq!((&first["status"], &first["superseded_by"]), (&json!("superseded"), &third["id"]));
    assert_eq!(first.get("erased"), None, "what stands in its place is there");
    assert_eq!(third["supersedes"], json!([id("second")]));
    is_erased(&third, "second");
    let lone = of(&seeds("paraffin pump"), "lone");
    assert_eq!(lone["status"], "superseded", "nothing stands in its place");
    assert_eq!(lone["superseded_by"], id("newest").as_str());
    is_erased(&lone, "newest");

    let mut mcp = McpClient::open(&service);
    let question = json!({"query": "is the paraffin pump leaking?"});
    let answer = mcp.call("retrieval_arbitrate_tool", &question);
    is_erased(&of(&answer["items"], "lone"), "newest");
    let wanted = json!({"document_id": id("newest")});
    let refusal = mcp.refusal("docstore_get_document_tool", &wanted);
    assert!(refusal.contains("it was erased at"), "{refusal}");
    let again = json!({"text": "the pump again", "supersedes": id("newest")});
    let refusal = mcp.refusal("brain_remember", &again);
    assert!(refusal.contains("was erased"), "{refusal}");
}

#[test]
fn what_is_erased_is_gone_from_the_data_and_from_backups() {
    let scratch = scratch();
    let data = documented(scratch.path());
    let lines = [
        item("old", "the quincunx zephyrine was first"),
        json!({"type": "item", "ref": "new", "text": "the quincunx vermilion replaced it",
               "supersedes": ["old"]}),
        item("other", "the mandrake abides"),
        json!({"type": "edge", "from": "other", "to": "new", "relation": "links_to",
               "note": "quincunxlike"}),
    ];
    let id = imported(&data, &lines);
    let backup = scratch.path().join("backup");
    run_json(&data, &["backup", backup.to_str().unwrap()]);
    assert!(!holding(&data, "quincunx").is_empty() && !holding(&backup, "quincunx").is_empty());

    // Nothing goes unasked.
    let unasked = run(&data, &["erase", &id("new"), "--reason", "x", "--chain"]);
    assert_fails(&unasked, 2, &["nothing was erased", "--yes"]);
    let plan = String::from_utf8(unasked.stdout).unwrap();
    assert!(plan.contains("2 items would be erased") && plan.contains("About old"), "{plan}");
    let unknown = id("new").replace(|c: char| c.is_ascii_digit(), "0");
    let refused = run(&data, &["erase", &id("other"), &unknown, "--reason", "x", "--yes"]);
    assert_fails(&refused, 2, &["there is no item", &unknown]);

    let report = erase(&data, &[&id("new")], &["--chain", "--by", "the keeper"]);
    assert_eq!((&report["erased"], &report["everywhere"]), (&json!(2), &json!(true)), "{report}");
    assert_eq!(report["backups"][0]["erased"], 2, "{report}");
    assert_gone(&data, "quincunx");
    assert_gone(&backup, "quincunx");
    assert!(!holding(&data, "mandrake").is_empty() && !holding(&backup, "mandrake").is_empty());
    let again = erase(&data, &[&id("new")], &[]);
    assert_eq!((&again["erased"], &again["already"]), (&json!(0), &json!(1)), "{again}");

    // A document goes with its chunks, beside a server, and a backup made before it is still one.
    let service = Service::start(&data, &[]);
    let found = run_json(&data, &["recall", "a diaphone was ruled out", "--limit", "1"]);
    let uri = &found["items"][0]["source"]["uri"];
    let rows = exported(&data);
    let source = rows.iter().find(|row| row["type"] == "source" && row["uri"] == *uri).unwrap();
    let document = rows
        .iter()
        .find(|row| row["kind"] == "document" && row["source"]["id"] == source["id"])
        .unwrap();
    assert!(!holding(&data, "diaphone").is_empty());
    let report = erase(&data, &[document["id"].as_str().unwrap()], &[]);
    assert!(report["erased"].as_u64().unwrap() > 1, "its chunks, too: {report}");
    assert_gone(&data, "diaphone");
    assert_gone(&backup, "diaphone");
    drop(service);
    let restored = scratch.path().join("restored");
    run_json(&restored, &["restore", backup.to_str().unwrap()]);
    assert!(answers(&restored)[1].iter().all(|found| *found != document["id"]));
    let stones =
        |data: &Path| exported(data).into_iter().filter(|row| row["type"] == "tombstone").count();
    assert_eq!(stones(&restored), stones(&data), "who, when and why stay");
    assert!(run_json(&data, &["backup", backup.to_str().unwrap()])["reused"].is_u64());
}

#[track_caller]
fn assert_keys(report: &Value, whole: &[&str]) {
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    assert_eq!(keys, whole, "{report}");
}

/// Whatever an erasure comes to, its report has the same keys, and counts items alone.
#[test]
fn reports_of_erasures_are_alike() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let mut held = item("held", "the affidavit");
    held["gates"] = json!(["legal_hold"]);
    let mut lines = vec![held, item("hub", "the hub")];
    for n in 0..3 {
        let mut line = item(&format!("n{n}"), &format!("number {n}"));
        line["source"] = json!({"kind": "file", "uri": format!("file:///{n}")});
        lines.push(line);
        let (from, to) = (format!("n{n}"), "hub");
        lines.push(json!({"type": "edge", "from": from, "to": to, "relation": "links_to"}));
    }
    let id = imported(&data, &lines);
    let whole =
        ["already", "backups", "erased", "everywhere", "held", "items", "missing", "pending"];
    let refused = run(&data, &["erase", &id("held"), "--reason", "x", "--yes", "--json"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_keys(&serde_json::from_slice(&refused.stdout).unwrap(), &whole);
    let unasked = run(&data, &["erase", &id("n0"), "--reason", "x", "--json"]);
    assert_eq!(unasked.status.code(), Some(2));
    assert_keys(&serde_json::from_slice(&unasked.stdout).unwrap(), &whole);
    let report = erase(&data, &[&id("n0")], &[]);
    assert_keys(&report, &whole);
    assert_eq!((&report["erased"], &report["pending"]), (&json!(1), &json!(0)), "{report}");

    // One that was cut short: an item, its source and its edge are still to go.
    let number = server::names::parse_item(&id("n1")).unwrap();
    let ground = Ground::real(&data.join("tenants/local/store")).unwrap();
    // Sealing leaves the segments to the job that is ended.
    let unmerged = Options { merge_bytes_max: 0, ..Options::default() };
    let store = Store::open(ground, unmerged).unwrap();
    store.erase(&[number.0], "officer", "asked", &Never).unwrap();
    assert!(store.erasures_pending().unwrap() > 1, "its source, too");
    drop(store);
    let report = run_json(&data, &["erase", "--pending"]);
    assert_keys(&report, &whole);
    assert_eq!((&report["erased"], &report["already"]), (&json!(1), &json!(0)), "{report}");
    assert_eq!(report["everywhere"], true, "{report}");

    // The way to prove it names the data that was named.
    let said = run(&data, &["erase", &id("n2"), "--reason", "x", "--yes"]);
    let said = String::from_utf8(said.stdout).unwrap();
    let proof = format!("recalld verify --erased {} --data {}\n", id("n2"), data.display());
    assert!(said.ends_with(&proof), "{said}");
    assert_eq!(run(&data, &["verify", "--erased", &id("n2")]).status.code(), Some(0));
}

/// Ends every job.
struct Never;

impl engine::Pace for Never {
    fn wrote(&self, _bytes: usize) -> bool {
        false
    }
}

/// A folder that is there stays: it may be a mount point, or what a link leads to.
#[test]
fn a_backup_is_restored_into_an_empty_folder_that_is_there() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let _ids = imported(&data, &[item("a", "the quincunx zephyrine")]);
    let backup = scratch.path().join("backup");
    run_json(&data, &["backup", backup.to_str().unwrap(), "--with-keys"]);
    let rows = exported(&data);
    let restore = |to: &Path| run(to, &["restore", backup.to_str().unwrap()]);

    let (there, link) = (scratch.path().join("there"), scratch.path().join("link"));
    fs::create_dir(&there).unwrap();
    fs::create_dir(there.join("lost+found")).unwrap();
    symlink(&there, &link).unwrap();
    let before = fs::metadata(&there).unwrap().ino();
    let done = restore(&link);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(fs::metadata(&there).unwrap().ino(), before, "it is the same folder");
    assert!(link.is_symlink() && !there.join("restoring").exists());
    assert_eq!(exported(&there), rows);

    // One that was cut short is no data, and is not gone on with.
    let half = scratch.path().join("half");
    fs::create_dir_all(half.join("restoring/tenants")).unwrap();
    for command in [&["recall", "x"][..], &["credentials", "show"], &["export"]] {
        assert!(run(&half, command).status.code() == Some(3), "{command:?}");
    }
    assert_fails(&run(&half, &["credentials", "show"]), 3, &["cut short", "restore again"]);
    assert_fails(&restore(&half), 3, &["cut short"]);
    assert!(fs::read_dir(&half).unwrap().count() == 1, "nothing was made");

    let nowhere = scratch.path().join("nowhere");
    symlink(scratch.path().join("gone"), &nowhere).unwrap();
    assert_fails(&restore(&nowhere), 3, &["is a link to what is not there"]);
    assert!(nowhere.is_symlink() && !scratch.path().join("nowhere.restoring").exists());
}

#[test]
fn a_backup_out_of_reach_is_told_and_tried_again() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let id = imported(&data, &[item("a", "the quincunx zephyrine"), item("b", "the mandrake")]);
    let (backup, away) = (scratch.path().join("backup"), scratch.path().join("away"));
    run_json(&data, &["backup", backup.to_str().unwrap()]);
    fs::rename(&backup, &away).unwrap();
    let part = run(&data, &["erase", &id("a"), "--reason", "asked", "--yes"]);
    assert_fails(&part, 1, &["not gone everywhere", backup.to_str().unwrap(), "--pending"]);
    assert_gone(&data, "quincunx"); // from the store
    assert_fails(&run(&data, &["erase", "--pending"]), 1, &["is the disk mounted"]);

    // Another folder in its place is not taken for it, and nothing is made there.
    fs::create_dir(&backup).unwrap();
    assert_fails(&run(&data, &["erase", "--pending"]), 1, &["is the disk mounted"]);
    assert!(files(&backup).is_empty());
    fs::remove_dir(&backup).unwrap();
    fs::rename(&away, &backup).unwrap();
    assert!(!holding(&backup, "quincunx").is_empty());
    let service = Service::start(&data, &[]);
    let report = run_json(&data, &["erase", "--pending"]);
    assert_eq!(report["everywhere"], true, "{report}");
    assert_gone(&backup, "quincunx");

    fs::remove_dir_all(&backup).unwrap();
    let part = run(&data, &["erase", &id("b"), "--reason", "asked", "--yes"]);
    assert_fails(&part, 1, &["--forget"]);
    assert_fails(&run(&data, &["backup", "--forget", "/elsewhere"]), 2, &["not a known backup"]);
    run_json(&data, &["backup", "--forget", backup.to_str().unwrap()]);
    assert_eq!(run_json(&data, &["erase", "--pending"])["everywhere"], true);
    drop(service);
}

/// A backup that was deleted and made again is one backup, and none that is there is forgotten.
#[test]
fn a_backup_that_takes_the_place_of_another_is_known_alone() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let id = imported(&data, &[item("a", "the quincunx zephyrine"), item("b", "the mandrake")]);
    let (backup, other) = (scratch.path().join("backup"), scratch.path().join("other"));
    let make = |place: &Path| run_json(&data, &["backup", place.to_str().unwrap()]);
    let listed = || {
        let listed = run_json(&data, &["backup", "--list"]);
        let rows = listed["backups"].as_array().unwrap().iter();
        rows.map(|row| (row["path"].clone(), row["seen"].clone(), row["pending"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(make(&backup)["replaced"], 0);
    fs::remove_dir_all(&backup).unwrap();
    assert_eq!(make(&backup)["replaced"], 1);
    assert_eq!(listed(), [(json!(backup), json!("there"), json!(0))]);
    let refused = run(&data, &["backup", "--forget", backup.to_str().unwrap()]);
    assert_fails(&refused, 2, &["is there", "delete the folder first"]);
    let report = erase(&data, &[&id("a")], &[]);
    assert_eq!(report["everywhere"], true, "{report}");
    assert_gone(&backup, "quincunx");

    // Two disks that take turns in one place are two backups, and both are known from then on.
    let away = scratch.path().join("away");
    fs::rename(&backup, &away).unwrap();
    make(&backup);
    let second = scratch.path().join("second");
    fs::rename(&backup, &second).unwrap();
    fs::rename(&away, &backup).unwrap();
    assert_eq!(make(&backup)["replaced"], 0);
    assert_eq!(listed().len(), 2);
    let part = run(&data, &["erase", &id("b"), "--reason", "asked", "--yes"]);
    assert_fails(&part, 1, &["not gone everywhere", "another backup is there now"]);
    assert_gone(&backup, "mandrake");
    let seen = |seen: &str, pending: u64| (json!(backup), json!(seen), json!(pending));
    assert_eq!(listed(), [seen("another", 1), seen("there", 0)]);
    let text = String::from_utf8(run(&data, &["backup", "--list"]).stdout).unwrap();
    assert!(text.contains("another backup is in its place; 1 erased ids"), "{text}");

    // Beside a server, too: what is gone is forgotten, what is there stays.
    make(&other);
    fs::remove_dir_all(&other).unwrap();
    let service = Service::start(&data, &[]);
    let forgotten = run_json(&data, &["backup", "--forget-missing"]);
    assert_eq!(forgotten, json!({"forgotten": [backup, other]}));
    assert_eq!(listed(), [seen("there", 0)]);
    let again = run(&data, &["backup", "--forget-missing"]);
    assert!(String::from_utf8_lossy(&again.stdout).contains("is in its place"), "{again:?}");
    assert_eq!(run_json(&data, &["erase", "--pending"])["everywhere"], true);
    drop(service);
    assert_fails(&run(&data, &["backup"]), 2, &["DIR"]);
}

/// A backup is no data directory: whoever takes it for one is told so, and changes nothing.
#[test]
fn nobody_works_in_a_backup() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let id = imported(&data, &[item("a", "the quincunx zephyrine")])("a");
    let backup = scratch.path().join("backup");
    run_json(&data, &["backup", backup.to_str().unwrap()]);
    let tree = |folder: &Path| -> Vec<(PathBuf, Vec<u8>)> {
        files(folder).into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    };
    let before = tree(&backup);
    let (lines, next) = (scratch.path().join("lines.jsonl"), scratch.path().join("next"));
    let commands: [&[&str]; 8] = [
        &["serve", "--local", "127.0.0.1:0"],
        &["recall", "quincunx"],
        &["import", lines.to_str().unwrap()],
        &["export"],
        &["compact"],
        &["credentials", "show"],
        &["erase", &id, "--reason", "x", "--yes"],
        &["backup", next.to_str().unwrap()],
    ];
    for command in commands {
        assert_fails(&run(&backup, command), 3, &["is a backup", "recalld restore"]);
        assert!(tree(&backup) == before, "{command:?} changed it");
    }
    let verified = run_json(&backup, &["verify"]);
    assert_eq!((&verified["clean"], &verified["backup"]["clean"]), (&json!(true), &json!(true)));
    assert!(tree(&backup) == before);
}

/// What has no end is not opened by the server, and read by the command before it asks.
#[test]
fn lines_are_imported_from_a_pipe() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let fifo = scratch.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let service = Service::start(&data, &[]);
    let job = Ask::post("/operator/import", &json!({"path": fifo}));
    let events = service.ask(&service.signed(job)).events();
    let why = events.last().unwrap()["detail"].as_str().unwrap();
    assert!(why.contains("not a regular file"), "{events:?}");
    let told = std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&fifo, format!("{}\n", item("a", "through a pipe"))).unwrap());
        run_json(&data, &["import", fifo.to_str().unwrap()])
    });
    assert_eq!((&told["items"], &told["bad_count"]), (&json!(1), &json!(0)), "{told}");
    let folder = run(&data, &["import", scratch.path().to_str().unwrap()]);
    assert_fails(&folder, 2, &["is a folder"]);
    drop(service);
    assert_eq!(exported(&data).iter().filter(|row| row["text"] == "through a pipe").count(), 1);
}

#[test]
fn a_backup_that_was_cut_short_loses_its_text_too() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let id = imported(&data, &[item("a", "the quincunx zephyrine"), item("b", "the mandrake")]);
    // The first copy ended before its manifest; a second one left a segment that nothing names.
    let (first, second) = (scratch.path().join("first"), scratch.path().join("second"));
    for backup in [&first, &second] {
        run_json(&data, &["backup", backup.to_str().unwrap()]);
    }
    let catalogue = first.join("backup.json");
    let mut said: Value = serde_json::from_slice(&fs::read(&catalogue).unwrap()).unwrap();
    said["made_at"] = Value::Null;
    fs::write(&catalogue, said.to_string()).unwrap();
    let named = |folder: &Path, part: &str| {
        let mut all = files(folder).into_iter();
        all.rfind(|path| path.to_str().unwrap().contains(part)).unwrap()
    };
    fs::remove_file(named(&first, "manifest-")).unwrap();
    let segment = named(&second, "segment-");
    fs::copy(&segment, segment.with_file_name("segment-00000000000000000077")).unwrap();
    let refused = run(&scratch.path().join("new"), &["restore", first.to_str().unwrap()]);
    assert_fails(&refused, 3, &["never finished"]);

    let report = erase(&data, &[&id("a")], &[]);
    assert_eq!(report["everywhere"], true, "{report}");
    for folder in [&data, &first, &second] {
        assert_gone(folder, "quincunx");
    }
    run_json(&data, &["backup", first.to_str().unwrap()]);
    for (at, backup) in [&first, &second].into_iter().enumerate() {
        let restored = scratch.path().join(format!("restored-{at}"));
        run_json(&restored, &["restore", backup.to_str().unwrap()]);
        assert_eq!(exported(&restored), exported(&data));
    }
}

#[test]
fn answers_that_name_an_erased_item_go_with_it() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let service = Service::start(&data, &[]);
    let mut client = McpClient::open(&service);
    let text = "The quincunx zephyrine is kept in the north shed.";
    let first = client.call("brain_remember", &json!({"text": text}));
    let id = first["item"]["id"].as_str().unwrap();
    let copy = json!({"text": text, "idempotency_key": "k"});
    let second = client.call("brain_remember", &copy);
    assert_eq!(second["possible_duplicates"][0]["id"], id, "{second}");
    let other = second["item"]["id"].as_str().unwrap();
    let report = erase(&data, &[id, other], &[]);
    assert_eq!(report["erased"], 3, "two items and an answer: {report}");
    assert_gone(&data, "quincunx");
    let stats = client.call("recall_stats", &json!({}));
    let store = &stats["store"];
    assert_eq!((&store["erasures_pending"], &store["takes_writes"]), (&json!(0), &json!(true)));
}

#[test]
fn what_is_held_is_not_erased() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let mut held = item("held", "the affidavit");
    held["gates"] = json!(["legal_hold"]);
    let id = imported(&data, &[held, item("free", "the mandrake")]);
    let before = exported(&data);
    let both = [id("free"), id("held")];
    let refuse = || {
        let arguments = ["erase", &both[0], &both[1], "--reason", "asked", "--yes"];
        let refused = run(&data, &arguments);
        assert_fails(&refused, 1, &[&both[1], "fixed/legal-hold", "nothing was erased"]);
        assert!(!String::from_utf8_lossy(&refused.stderr).contains(&both[0]));
    };
    refuse();
    let service = Service::start(&data, &[]);
    refuse();
    drop(service);
    assert_eq!(exported(&data), before);
}

#[test]
fn compaction_goes_to_its_end() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    run_json(&data, &["credentials", "show"]);
    let options =
        Options { durability: Durability::Sync, merge_bytes_max: 0, ..Options::default() };
    let folder = data.join("tenants/local/store");
    let store = Store::open(Ground::real(&folder).unwrap(), options).unwrap();
    for n in 0..6 {
        let draft = ItemDraft {
            kind: "note".to_owned(),
            modality: "text".to_owned(),
            text: format!("note number {n}"),
            ..ItemDraft::default()
        };
        store.write(Batch { items: vec![draft], ..Batch::default() }).unwrap();
        store.seal().unwrap();
    }
    drop(store);
    let rows = exported(&data);
    let report = run_json(&data, &["compact"]);
    assert_eq!((&report["segments_before"], &report["segments"]), (&json!(6), &json!(1)));
    assert!(report["bytes"].as_u64() < report["bytes_before"].as_u64(), "{report}");
    assert_eq!(exported(&data), rows);
    let service = Service::start(&data, &[]);
    let again = run(&data, &["compact"]);
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
    let said = String::from_utf8(again.stdout).unwrap();
    assert!(said.contains("segments: 1 before, 1 now") && said.contains("no merge"), "{said}");
    drop(service);
    let nowhere = run(&scratch.path().join("nowhere"), &["compact"]);
    assert_fails(&nowhere, 3, &["there is no store", "--data"]);
}
