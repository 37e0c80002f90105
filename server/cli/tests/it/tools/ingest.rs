//! `ingest`: files and texts are ingested, tombstoned when their files disappear, and restored.

use std::fs;

use engine::Sensitivity;
use serde_json::{Value, json};
use support_server::desk::{Desk, member};
use support_wire::service::write;

use super::texts;

const PATHS: &str = "ingest_paths_tool";
const TEXT: &str = "ingest_text_tool";
const STATUS: &str = "ingest_status_tool";
const TOMBSTONE: &str = "tombstone_paths_tool";
const SWEEP: &str = "tombstone_reconcile_sweep_tool";

/// A service with three ingested files: two in a folder, one beside it.
fn desk() -> Desk {
    let desk = Desk::new();
    let files = desk.files();
    write(&files, "docs/lamp.md", "# Lamp\n\nThe lamp burns paraffin.\n");
    write(&files, "docs/boat.md", "# Boat\n\nThe boat crosses at slack water.\n");
    write(&files, "notes.txt", "Kelp grows by the pier.\n");
    desk.call(PATHS, json!({"paths": [files]}));
    desk
}

fn path(desk: &Desk, name: &str) -> Value {
    json!(desk.files().join(name))
}

fn found(desk: &Desk, query: &str) -> Vec<String> {
    let found = desk.call("retrieval_arbitrate_tool", json!({"query": query}));
    texts(&found, "items", "text").into_iter().map(str::to_owned).collect()
}

fn manifest(desk: &Desk) -> Vec<String> {
    let listed = desk.call("docstore_manifest_tool", json!({}));
    let folder = format!("{}/", desk.files().display());
    texts(&listed, "documents", "path").into_iter().map(|path| path.replace(&folder, "")).collect()
}

fn seq(desk: &Desk) -> u64 {
    desk.started().parts.local.get().store.snapshot().seq()
}

#[test]
fn a_repeated_ingest_with_its_key_is_told_the_first_answer() {
    let desk = desk();
    write(&desk.files(), "new.md", "# New\n\nA new one.\n");
    let call = json!({"paths": [desk.files()], "idempotency_key": "k"});
    let first = desk.call(PATHS, call.clone());
    assert_eq!(first["items"], 2, "{first}");
    write(&desk.files(), "newer.md", "# Newer\n\nAnother.\n");
    let before = seq(&desk);
    let again = desk.call(PATHS, call);
    assert_eq!((&again["items"], &again["job_id"]), (&first["items"], &first["job_id"]));
    assert_eq!(seq(&desk), before, "nothing was read");
    let other = json!({"paths": [path(&desk, "newer.md")], "idempotency_key": "k"});
    assert!(desk.refusal(PATHS, other).starts_with("idempotency_key: was used before"));
}

#[test]
fn a_given_text_is_a_document_with_pieces_and_versions() {
    let desk = Desk::new();
    let given = json!({
        "title": "Tide tables", "uri": "https://example.org/tides", "modality": "markdown",
        "text": "# May\n\nHigh water is at noon.\n\n# June\n\nHigh water is at one.\n",
    });
    let first = desk.call(TEXT, given.clone());
    let document = &first["document"];
    assert_eq!((&first["items"], &document["chunks"]), (&json!(2), &json!(1)), "{first}");
    assert_eq!(
        (&document["path"], &document["version"]),
        (&json!("https://example.org/tides"), &json!(1))
    );
    assert_eq!(document["format"], "markdown");
    let hits = found(&desk, "When is high water in June?");
    assert!(hits[0].contains("at one"), "{hits:?}");
    let hits = desk.call("docstore_search_tool", json!({"query": "noon"}));
    assert_eq!(hits["hits"][0]["path"], "https://example.org/tides", "{hits}");
    let read =
        desk.call("docstore_get_document_tool", json!({"document_id": document["document_id"]}));
    assert!(read["text"].as_str().unwrap().contains("High water is at noon."), "{read}");
    let before = seq(&desk);
    let again = desk.call(TEXT, given.clone());
    assert_eq!((&again["unchanged"], &again["items"]), (&json!(true), &json!(0)));
    assert_eq!(again["document"]["document_id"], document["document_id"]);
    assert_eq!(seq(&desk), before);
    let mut newer = given;
    newer["text"] = json!("# May\n\nHigh water is at eleven.\n");
    let newer = desk.call(TEXT, newer);
    assert_eq!(newer["document"]["version"], 2);
    let hits = found(&desk, "high water in May");
    assert!(hits.iter().any(|text| text.contains("eleven")), "{hits:?}");
    assert!(!hits[0].contains("noon"), "{hits:?}");
    // Without a URI, title and text identify a document.
    let plain = json!({"title": "Log", "text": "Calm sea."});
    let one = desk.call(TEXT, plain.clone());
    assert_eq!(desk.call(TEXT, plain)["document"], one["document"]);
    let other = desk.call(TEXT, json!({"title": "Log", "text": "Rough sea."}));
    assert_ne!(other["document"]["document_id"], one["document"]["document_id"]);
}

#[test]
fn a_given_text_stands_in_no_files_place_and_holds_no_secret_openly() {
    let desk = desk();
    let uri = format!("file://{}/notes.txt", desk.files().display());
    for uri in [&*uri, "FILE:///x", "memory://item/x", "notes.txt", "a:b c"] {
        let why = desk.refusal(TEXT, json!({"title": "x", "text": "y", "uri": uri}));
        assert!(why.starts_with("uri: "), "{why}");
    }
    let why = desk.refusal(TEXT, json!({"title": "x", "text": " \n"}));
    assert_eq!(why, "text: is blank; at least one visible character is wanted");
    let long = "\u{e9}".repeat(600_000);
    let why = desk.refusal(TEXT, json!({"title": "x", "text": long}));
    assert!(why.contains("1200000 bytes; 1048576 are allowed"), "{why}");
    let key = ["AKIA", "QX7ZJ2M4TBWNPL6D"].concat();
    let told =
        desk.call(TEXT, json!({"title": "Keys", "text": format!("aws_access_key_id = {key}\n")}));
    assert_eq!(told["secrets"][0]["line"], 1, "{told}");
    assert!(!told.to_string().contains(&key));
    let why = desk.refusal_as(
        &member(),
        "docstore_get_lines_tool",
        json!({"path": "Keys", "line_start": 1, "line_end": 1}),
    );
    assert!(!why.contains(&key));
    let entry = desk.entry(&told["receipt"]);
    assert!(entry.rule.starts_with("secrets/"), "{}", entry.rule);
}

#[test]
fn jobs_are_told_newest_first_and_one_by_its_id() {
    let desk = desk();
    write(&desk.files(), "more.md", "# More\n\nAnd more.\n");
    let last = desk.call(PATHS, json!({"paths": [path(&desk, "more.md")]}));
    let jobs = desk.call(STATUS, json!({}))["jobs"].clone();
    let jobs = jobs.as_array().unwrap();
    assert_eq!((jobs.len(), &jobs[0]["job_id"]), (2, &last["job_id"]), "{jobs:?}");
    assert_eq!((&jobs[0]["state"], &jobs[0]["items"]), (&json!("done"), &json!(2)));
    assert_eq!(
        (&jobs[1]["files"], &jobs[0]["paths"]),
        (&json!(3), &json!([path(&desk, "more.md")]))
    );
    let one = desk.call(STATUS, json!({"job_id": last["job_id"]}));
    assert_eq!(one["jobs"], json!([jobs[0]]));
    let why = desk.refusal(STATUS, json!({"job_id": "job_00000000000000000000000009"}));
    assert_eq!(why, "job_id: there is no such item");
    let note = desk.remember_as("x", Sensitivity::Internal);
    let why = desk.refusal(STATUS, json!({"job_id": note}));
    assert!(why.contains("that of a job is wanted"), "{why}");
}

#[test]
fn answers_about_many_long_paths_stay_within_their_bytes() {
    const RESULT_BYTES_MAX: usize = 64 << 10;
    let desk = desk();
    let folder = ["deep"; 4].map(|name| name.repeat(50)).join("/");
    let name = |n: usize, ending: &str| format!("{folder}/{n:03}.{ending}");
    for n in 0..70 {
        write(&desk.files(), &name(n, "bin"), "\0\0\0\0");
        write(&desk.files(), &name(n, "pdf"), "%PDF-1.7 nothing more");
        write(&desk.files(), &name(n, "md"), "# A\n\nWords.\n");
    }
    let short = |answer: &Value| assert!(answer.to_string().len() <= RESULT_BYTES_MAX);
    let told = desk.call(PATHS, json!({"paths": [desk.files()]}));
    short(&told);
    assert_eq!((&told["skipped_count"], &told["errors_count"]), (&json!(70), &json!(70)));
    assert_eq!(told["truncated"], true);
    let rows = told["errors"].as_array().unwrap();
    assert!(rows.len() > 10 && rows[0]["path"].is_string() && rows[0]["why"].is_string());
    let many: Vec<Value> = (0..64).map(|n| path(&desk, &name(n, "md"))).collect();
    let again = desk.call(PATHS, json!({"paths": many, "sensitivity": "public"}));
    let job = desk.call(STATUS, json!({"job_id": again["job_id"]}));
    short(&job);
    let listed = job["jobs"][0]["paths"].as_array().unwrap().len() as u64;
    assert_eq!(Some(64 - listed), job["jobs"][0]["paths_left_out"].as_u64(), "{job}");
    short(&desk.call(STATUS, json!({})));
    let gone = desk.call(TOMBSTONE, json!({"paths": many, "reason": "moved", "dry_run": true}));
    short(&gone);
    assert_eq!(gone["documents"], 128, "two versions of each");
    fs::remove_dir_all(desk.files().join("deep".repeat(50))).unwrap();
    let swept = desk.call(SWEEP, json!({}));
    short(&swept);
    assert_eq!((&swept["missing_count"], &swept["truncated"]), (&json!(70), &json!(true)));
}

#[test]
fn an_error_says_which_path_it_is_about() {
    let desk = desk();
    std::os::unix::fs::symlink("docs", desk.files().join("aside")).unwrap();
    for (path, why) in [
        ("aside/lamp.md", "symbolic links are not followed"),
        ("nowhere.md", "no such file"),
        ("../x", "`..` is not followed"),
        ("/etc/passwd", "outside the folders"),
    ] {
        let told = desk.refusal(PATHS, json!({"paths": ["notes.txt", path]}));
        assert!(told.starts_with(&format!("paths: {path}: {why}")), "{told}");
    }
    let told = desk.refusal(PATHS, json!({"paths": ["a\nerror: b"]}));
    assert_eq!(told, "paths: a\u{FFFD}error: b: the path holds a control character");
    for (tool, field) in [(SWEEP, "path_prefix"), (TOMBSTONE, "paths")] {
        let given = if field == "paths" { json!(["../x"]) } else { json!("../x") };
        let mut wanted = json!({field: given});
        if tool == TOMBSTONE {
            wanted["reason"] = json!("moved");
        }
        let told = desk.refusal(tool, wanted);
        assert!(told.starts_with(&format!("{field}: ../x: `..` is not followed")), "{told}");
    }
    write(&desk.files(), "notes:1.md", "# Colon\n\nA name with a colon.\n");
    desk.call(PATHS, json!({"paths": ["notes:1.md"]}));
    let gone = json!({"paths": ["notes:1.md"], "reason": "moved", "dry_run": true});
    assert_eq!(desk.call(TOMBSTONE, gone)["documents"], 1, "it is no URI");
}

#[test]
fn who_may_not_write_a_document_does_not_replace_it_and_lowering_is_on_record() {
    let desk = desk();
    let notes = json!([path(&desk, "notes.txt")]);
    let given = |more: &str, sensitivity: &str| {
        let text = format!("The vault is under the stairs. {more}");
        json!({"title": "Vault", "text": text, "uri": "vault:1", "sensitivity": sensitivity})
    };
    desk.call(PATHS, json!({"paths": notes, "sensitivity": "restricted"}));
    desk.call(TEXT, given("", "restricted"));
    let before = seq(&desk);
    let why = desk.refusal_as(&member(), TEXT, given("", "public"));
    assert!(why.starts_with("text: policy rule "), "{why}");
    let told = desk.call_as(&member(), PATHS, json!({"paths": notes, "sensitivity": "public"}));
    assert_eq!((&told["items"], &told["errors_count"]), (&json!(0), &json!(1)), "{told}");
    let why = told["errors"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("policy rule ") && why.ends_with(" does not allow it"), "{why}");
    let open = json!({"paths": [path(&desk, "docs/lamp.md")], "sensitivity": "restricted"});
    assert_eq!(desk.call_as(&member(), PATHS, open)["errors_count"], 1, "nor make it its own");
    let events = |desk: &Desk| {
        let events = desk.call("sensitivity_events_tool", json!({}));
        texts(&events, "events", "what").iter().filter(|what| **what == "lowered").count()
    };
    // Only the job's record was written.
    assert_eq!((seq(&desk) <= before + 2, events(&desk)), (true, 0));
    desk.call(PATHS, json!({"paths": notes, "sensitivity": "public"}));
    assert_eq!(events(&desk), 1);
    desk.call(TEXT, given("It is open.", "internal"));
    assert_eq!(events(&desk), 2);
    let found = desk.call_as(
        &member(),
        "retrieval_arbitrate_tool",
        json!({"query": "where is the vault?"}),
    );
    assert!(found.to_string().contains("under the stairs"), "{found}");
}

#[test]
fn paths_are_tombstoned_with_all_that_lies_in_them() {
    let desk = desk();
    let docs = path(&desk, "docs");
    let dry = desk
        .call(TOMBSTONE, json!({"paths": [docs, "nowhere"], "reason": "moved", "dry_run": true}));
    assert_eq!((&dry["documents"], &dry["items"]), (&json!(2), &json!(4)), "{dry}");
    assert_eq!(dry["paths"][1], json!({"path": "nowhere", "documents": 0, "items": 0}));
    assert_eq!(manifest(&desk).len(), 3);
    // A deleted file, a folder whose name has the same prefix, and an older version.
    fs::remove_dir_all(desk.files().join("docs")).unwrap();
    write(&desk.files(), "docs2/x.md", "# X\n\nStays.\n");
    desk.call(PATHS, json!({"paths": [desk.files()]}));
    let told = desk
        .call(TOMBSTONE, json!({"paths": ["docs/"], "reason": "moved", "idempotency_key": "k"}));
    assert_eq!(told["documents"], 2, "{told}");
    assert_eq!(manifest(&desk), ["docs2/x.md", "notes.txt"]);
    assert_eq!(
        found(&desk, "when does the boat cross?")
            .iter()
            .filter(|text| text.contains("slack"))
            .count(),
        0
    );
    let again = desk
        .call(TOMBSTONE, json!({"paths": ["docs/"], "reason": "moved", "idempotency_key": "k"}));
    assert_eq!(again["documents"], 2, "a repeat is told the same");
    let why = desk.refusal(TOMBSTONE, json!({"paths": ["../x"], "reason": "y"}));
    assert!(why.contains("`..` is not followed"), "{why}");
    // A sweep does not restore explicitly tombstoned documents.
    write(&desk.files(), "docs/lamp.md", "# Lamp\n\nThe lamp burns paraffin.\n");
    let swept = desk.call(SWEEP, json!({"dry_run": false}));
    assert_eq!(
        (&swept["returned_count"], &swept["missing_count"]),
        (&json!(0), &json!(0)),
        "{swept}"
    );
    assert_eq!(
        desk.call(PATHS, json!({"paths": [path(&desk, "docs")]}))["items"],
        2,
        "by an ingest it does"
    );
}

#[test]
fn a_sweep_follows_the_disk_there_and_back() {
    let desk = desk();
    let lamp = desk.files().join("docs/lamp.md");
    let text = fs::read(&lamp).unwrap();
    fs::remove_file(&lamp).unwrap();
    write(&desk.files(), "notes.txt", "Kelp grows by the jetty.\n");
    let before = seq(&desk);
    let dry = desk.call(SWEEP, json!({}));
    assert_eq!(dry["dry_run"], true);
    assert_eq!(texts(&dry, "missing", "path"), [lamp.to_str().unwrap()]);
    assert_eq!(texts(&dry, "changed", "path"), [path(&desk, "notes.txt").as_str().unwrap()]);
    assert_eq!((&dry["unchanged"], seq(&desk)), (&json!(1), before));
    let done = desk.call(SWEEP, json!({"dry_run": false}));
    assert_eq!(done["missing"][0]["items"], 2, "{done}");
    assert_eq!(manifest(&desk), ["docs/boat.md", "notes.txt"]);
    assert_eq!(desk.call(SWEEP, json!({}))["missing_count"], 0);
    fs::write(&lamp, text).unwrap();
    let dry = desk.call(SWEEP, json!({}));
    assert_eq!((&dry["returned_count"], manifest(&desk).len()), (&json!(1), 2));
    let back = desk.call(SWEEP, json!({"dry_run": false, "idempotency_key": "back"}));
    assert_eq!(texts(&back, "returned", "path"), [lamp.to_str().unwrap()]);
    assert_eq!(manifest(&desk).len(), 3);
    assert!(found(&desk, "what does the lamp burn?")[0].contains("paraffin"));
    let again = desk.call(SWEEP, json!({"dry_run": false, "idempotency_key": "back"}));
    assert_eq!(again["returned_count"], 1, "a repeat is told the same");
    assert_eq!(desk.call(SWEEP, json!({}))["returned_count"], 0);
    // Only below a prefix.
    fs::remove_file(&lamp).unwrap();
    let other = desk.call(SWEEP, json!({"path_prefix": path(&desk, "notes.txt")}));
    assert_eq!((&other["missing_count"], &other["changed_count"]), (&json!(0), &json!(1)));
    assert_eq!(desk.call(SWEEP, json!({"path_prefix": "docs"}))["missing_count"], 1);
}

#[test]
fn what_comes_back_is_as_sensitive_as_it_was() {
    let desk = desk();
    write(&desk.files(), "closed.md", "# Closed\n\nThe safe is behind the clock.\n");
    let file = path(&desk, "closed.md");
    desk.call(PATHS, json!({"paths": [file], "sensitivity": "restricted"}));
    let text = fs::read(desk.files().join("closed.md")).unwrap();
    fs::remove_file(desk.files().join("closed.md")).unwrap();
    desk.call(SWEEP, json!({"dry_run": false}));
    fs::write(desk.files().join("closed.md"), text).unwrap();
    assert_eq!(desk.call(SWEEP, json!({"dry_run": false}))["returned_count"], 1);
    let item =
        desk.call("retrieval_arbitrate_tool", json!({"query": "where is the safe?"}))["items"][0]
            .clone();
    assert_eq!(item["sensitivity"], "restricted", "{item}");
}

#[test]
fn a_folder_that_looks_unmounted_takes_nothing_away() {
    let desk = desk();
    for name in ["docs/lamp.md", "docs/boat.md"] {
        fs::remove_file(desk.files().join(name)).unwrap();
    }
    let swept = desk.call(SWEEP, json!({"dry_run": false}));
    assert_eq!(
        (&swept["missing_count"], &swept["unreachable_count"]),
        (&json!(0), &json!(2)),
        "{swept}"
    );
    assert!(
        swept["unreachable"][0]["why"]
            .as_str()
            .unwrap()
            .contains("is empty, as a folder is whose disk")
    );
    assert_eq!(manifest(&desk).len(), 3);
    // An explicitly named folder is swept; a deleted folder is no mount point.
    let named = desk.call(SWEEP, json!({"path_prefix": path(&desk, "docs")}));
    assert_eq!(named["missing_count"], 2, "{named}");
    fs::remove_dir(desk.files().join("docs")).unwrap();
    assert_eq!(desk.call(SWEEP, json!({"dry_run": false}))["missing_count"], 2);
    assert_eq!(manifest(&desk), ["notes.txt"]);
}

#[test]
fn what_the_caller_may_not_read_is_neither_swept_nor_told() {
    let desk = desk();
    write(&desk.files(), "docs/closed.md", "# Closed\n\nThe safe is behind the clock.\n");
    let file = path(&desk, "docs/closed.md");
    desk.call(PATHS, json!({"paths": [file], "sensitivity": "restricted"}));
    fs::remove_file(desk.files().join("docs/closed.md")).unwrap();
    let mut caller = member();
    caller.scopes.push(recalld_common::scope::Scope::IngestWrite);
    let swept = desk.call_as(&caller, SWEEP, json!({"dry_run": false}));
    assert_eq!((&swept["missing_count"], &swept["unchanged"]), (&json!(0), &json!(3)), "{swept}");
    let told =
        desk.call_as(&caller, TOMBSTONE, json!({"paths": ["docs/closed.md"], "reason": "x"}));
    assert_eq!(told["documents"], 0, "{told}");
    assert_eq!(desk.call(SWEEP, json!({}))["missing_count"], 1);
}
