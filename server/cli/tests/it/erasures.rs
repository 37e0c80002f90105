//! Erasure through the program: removed bytes, reports and remnants.

use std::fs;
use std::path::Path;

use engine::{Env, Options, Store};
use serde_json::{Value, json};
use support_wire::kept::{
    answers, assert_fails, assert_gone, documented, erase, exported, files, holding, imported, item,
};
use support_wire::mcp_client::McpClient;
use support_wire::service::{Service, run, run_json, scratch};

/// An erased member of a chain is shown as its id and a time on every surface, and the chain continues.
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

    // Nothing is erased without confirmation.
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

    // With a running server, a document is erased with its chunks, and an earlier backup is still restorable.
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

/// Every outcome's report has the same keys, and its counts are of items only.
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
    let whole = [
        "already",
        "backups",
        "erased",
        "everywhere",
        "held",
        "items",
        "missing",
        "pending",
        "remote",
    ];
    let refused = run(&data, &["erase", &id("held"), "--reason", "x", "--yes", "--json"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_keys(&serde_json::from_slice(&refused.stdout).unwrap(), &whole);
    let unasked = run(&data, &["erase", &id("n0"), "--reason", "x", "--json"]);
    assert_eq!(unasked.status.code(), Some(2));
    assert_keys(&serde_json::from_slice(&unasked.stdout).unwrap(), &whole);
    let report = erase(&data, &[&id("n0")], &[]);
    assert_keys(&report, &whole);
    assert_eq!((&report["erased"], &report["pending"]), (&json!(1), &json!(0)), "{report}");

    // An interrupted erasure: an item, its source and its edge are still pending.
    let number = recalld_common::names::parse_item(&id("n1")).unwrap();
    let ground = Env::on_disk(&data.join("tenants/local/store")).unwrap();
    // Merges are off, so that sealing does not rewrite the segments before the interrupted job.
    let unmerged = Options { merge_bytes_max: 0, ..Options::default() };
    let store = Store::open(ground, unmerged).unwrap();
    store.erase(&[number.0], "officer", "asked", &Never).unwrap();
    assert!(store.erasures_pending().unwrap() > 1, "its source, too");
    drop(store);
    let report = run_json(&data, &["erase", "--pending"]);
    assert_keys(&report, &whole);
    assert_eq!((&report["erased"], &report["already"]), (&json!(1), &json!(0)), "{report}");
    assert_eq!(report["everywhere"], true, "{report}");

    // The suggested verify command names the given data directory.
    let said = run(&data, &["erase", &id("n2"), "--reason", "x", "--yes"]);
    let said = String::from_utf8(said.stdout).unwrap();
    let proof = format!("recalld verify --erased {} --data {}\n", id("n2"), data.display());
    assert!(said.ends_with(&proof), "{said}");
    assert_eq!(run(&data, &["verify", "--erased", &id("n2")]).status.code(), Some(0));
}

/// Cancels every job.
struct Never;

impl engine::Throttle for Never {
    fn after_write(&self, _bytes: usize) -> bool {
        false
    }
}

#[test]
fn a_backup_that_was_cut_short_loses_its_text_too() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let id = imported(&data, &[item("a", "the quincunx zephyrine"), item("b", "the mandrake")]);
    // The first backup was interrupted before its manifest; the second has a segment that no manifest references.
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
