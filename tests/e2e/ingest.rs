//! Ingest and restart: stored items stay unchanged, changed documents supersede.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support_wire::documents;
use support_wire::mcp_client::McpClient;
use support_wire::service::{Service, command, run_json, scratch, write};

const QUERIES: [&str; 6] = [
    "undersea cable winter storm",
    "diaphone compressor",
    "yellow flag black ball",
    "causeway floods",
    "rule of twelfths",
    "salted herring",
];

/// Ids and statuses of each query's results.
fn found(service: &Service) -> BTreeMap<&'static str, Vec<(String, String)>> {
    let seeds = |query: &'static str| {
        let seeds = service.post("/recall", &json!({"query": query, "limit": 10}));
        let text = |seed: &Value, name: &str| seed[name].as_str().unwrap().to_owned();
        let seeds = seeds.as_array().unwrap().iter();
        (query, seeds.map(|seed| (text(seed, "id"), text(seed, "status"))).collect())
    };
    QUERIES.into_iter().map(seeds).collect()
}

fn first(service: &Service, query: &str) -> Value {
    let mut seed = service.post("/recall", &json!({"query": query, "limit": 1}))[0].take();
    // Word rarity depends on the whole store, so scores change with every write.
    seed["score"] = Value::Null;
    seed
}

fn ingest(service: &Service, folder: &Path) -> Value {
    McpClient::open(service).call("ingest_paths_tool", &json!({"paths": [folder]}))
}

#[test]
fn a_second_start_finds_nothing_new_and_everything_old() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("documents"));
    documents::write_all(&folder);
    let report = run_json(&data, &["ingest", folder.to_str().unwrap()]);
    assert_eq!(report["files"], documents::READABLE + documents::UNREADABLE, "{report}");
    assert_eq!((&report["unchanged"], &report["superseded"]), (&json!(0), &json!(0)));
    assert!(report["items"].as_u64().unwrap() > 2 * documents::READABLE, "{report}");
    assert!(report["links"].as_u64().unwrap() >= 5, "{report}");
    let skipped: Vec<&str> = report["skipped"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["path"].as_str().unwrap())
        .collect();
    assert_eq!(skipped.len() as u64, documents::UNREADABLE, "{report}");
    assert!(skipped.iter().any(|path| path.ends_with("lamp.tif")), "{skipped:?}");
    assert!(skipped.iter().any(|path| path.ends_with("clockwork.bin")), "{skipped:?}");
    assert_eq!(report["errors"], json!([]));

    let service = Service::start(&data, &["--ingest", folder.to_str().unwrap()]);
    let again = ingest(&service, &folder);
    assert_eq!((&again["items"], &again["superseded"]), (&json!(0), &json!(0)), "{again}");
    assert_eq!(again["unchanged"], documents::READABLE);
    let before = found(&service);
    assert!(before.values().all(|seeds| !seeds.is_empty()), "{before:?}");
    assert!(service.terminate().success());

    let service = Service::start(&data, &[]);
    assert_eq!(found(&service), before, "a restart changes nothing");

    let unchanged = first(&service, "Three short flashes tell the harbour master");
    let old = first(&service, "undersea cable winter storm");
    let changed = documents::DECISIONS.replace("undersea cable", "overhead cable");
    write(&folder, "decisions.md", changed);
    let report = ingest(&service, &folder);
    assert_eq!((&report["superseded"], &report["unchanged"]), (&json!(1), &json!(7)), "{report}");

    let new = first(&service, "overhead cable winter storm");
    assert_ne!(new["id"], old["id"]);
    assert_eq!(new["supersedes"], json!([old["id"]]), "{new}");
    assert_eq!((&new["status"], &new["superseded_by"]), (&json!("current"), &Value::Null));
    let old_now = first(&service, "undersea cable");
    assert_eq!((&old_now["id"], &old_now["status"]), (&old["id"], &json!("superseded")));
    assert_eq!(old_now["superseded_by"], new["id"]);
    let still = first(&service, "Three short flashes tell the harbour master");
    assert_eq!(still, unchanged, "another file's items are as they were");
    // An unchanged section is in the new version as well, verbatim. The section is returned once, in its current
    // version, with or without `prefer_replacements`.
    for prefer in [true, false] {
        let asked = json!({"query": "diaphone compressor needs two men", "limit": 5,
            "prefer_replacements": prefer});
        let horns = service.post("/recall", &asked);
        let text = &horns[0]["text"];
        assert!(text.as_str().is_some_and(|text| text.contains("two men")), "{horns}");
        assert_eq!(
            (&horns[0]["status"], horns[0]["supersedes"][0].is_string()),
            (&json!("current"), true)
        );
        let same = horns.as_array().unwrap().iter().filter(|horn| &horn["text"] == text);
        assert_eq!(same.count(), 1, "{horns}");
    }
    // On the governed path, the old words still find the current version.
    let asked = json!({"query": "does the undersea cable fail?"});
    let answer = McpClient::open(&service).call("retrieval_arbitrate_tool", &asked);
    let ids: Vec<&Value> =
        answer["items"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
    let at = |id: &Value| ids.iter().position(|other| *other == id);
    let (old, new) = (at(&old["id"]), at(&new["id"]));
    assert!(new.is_some() && (old.is_none() || new < old), "{new:?} before {old:?}");
}

#[test]
fn an_ingest_of_one_file_reads_that_file_only() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("documents"));
    write(&folder, "a.md", "# A\n\nalpha\n");
    let file = write(&folder, "b.md", "# B\n\nbravo\n");
    let dry = run_json(&data, &["ingest", "--dry-run", folder.to_str().unwrap()]);
    assert_eq!((&dry["files"], &dry["job_id"]), (&json!(2), &Value::Null), "{dry}");
    let report = run_json(&data, &["ingest", file.to_str().unwrap()]);
    assert_eq!((&report["files"], &report["items"]), (&json!(1), &json!(2)), "{report}");
}

#[test]
fn sigterm_ends_the_ingest_of_a_start_that_is_not_ready_yet() {
    const FILES: u64 = 400;
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("notes"));
    for count in 0..FILES {
        write(&folder, &format!("{count}.md"), format!("# Note {count}\n\nkelp {count}\n"));
    }
    let mut starting = command(&data, &["serve", "--local", "127.0.0.1:0"])
        .arg("--ingest")
        .arg(&folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(starting.stderr.take().unwrap()).lines();
    let far = format!("of {FILES} files");
    let before: Vec<String> =
        said.by_ref().map(|line| line.unwrap()).take_while(|line| !line.contains(&far)).collect();
    let pid = Pid::from_raw(i32::try_from(starting.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let rest: Vec<String> = said.map(|line| line.unwrap()).collect();
    let output = starting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{before:?} {rest:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "it was never ready");
    assert!(!data.join("serving.json").exists());

    let left = run_json(&data, &["ingest", "--dry-run", folder.to_str().unwrap()]);
    let unchanged = left["unchanged"].as_u64().unwrap();
    assert!((1..FILES).contains(&unchanged), "it ended early, and what it read is kept: {left}");
    assert_eq!(left["superseded"], 0, "{left}");
}
