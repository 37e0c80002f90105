//! Ingest jobs beside one another, cut off, and asked for what they must not do.

use std::path::Path;
use std::thread;

use serde_json::{Value, json};
use tests::mcp_client::McpClient;
use tests::service::{Service, run_json, scratch, write};

fn ingest(service: &Service, arguments: &Value) -> Value {
    McpClient::open(service).call("ingest_paths_tool", arguments)
}

fn stats(service: &Service) -> Value {
    McpClient::open(service).call("recall_stats", &json!({}))
}

fn notes(folder: &Path, files: u64) {
    for n in 0..files {
        write(folder, &format!("{n}.md"), format!("# Note {n}\n\nkelp number {n}\n"));
    }
}

#[test]
fn two_jobs_over_one_folder_store_it_once() {
    let scratch = scratch();
    let folder = scratch.path().join("notes");
    notes(&folder, 40);
    let (data, root) = (scratch.path().join("data"), scratch.path().to_str().unwrap().to_owned());
    write(scratch.path(), "empty/only.md", "# Only\n\none\n");
    let service = Service::start(&data, &["--ingest", &format!("{root}/empty")]);
    // The operator's ingest makes the folder a root; then four clients at once read it again.
    run_json(&data, &["ingest", "--dry-run", folder.to_str().unwrap()]);
    let done: Vec<Value> = thread::scope(|scope| {
        let job = || run_json(&data, &["ingest", folder.to_str().unwrap()]);
        let jobs: Vec<_> = (0..4).map(|_| scope.spawn(job)).collect();
        jobs.into_iter().map(|job| job.join().unwrap()).collect()
    });
    let items: u64 = done.iter().map(|report| report["items"].as_u64().unwrap()).sum();
    assert_eq!(items, 80, "{done:?}");
    let counted = stats(&service);
    assert_eq!(counted["by_kind"]["document"], 41, "{counted}");
    assert_eq!(counted["superseded"], 2, "only the marks of the two jobs: {counted}");
}

#[test]
fn links_that_a_killed_job_left_out_are_made_later() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("notes"));
    write(&folder, "a.md", "# Alpha\n\nSee [the other](b.md) about kelp.\n");
    let report = run_json(&data, &["ingest", folder.to_str().unwrap()]);
    assert_eq!((&report["items"], &report["links"]), (&json!(2), &json!(0)), "{report}");
    // The target comes later; the linking file is as it was.
    write(&folder, "b.md", "# Bravo\n\nMore about kelp.\n");
    let report = run_json(&data, &["ingest", folder.to_str().unwrap()]);
    assert_eq!((&report["unchanged"], &report["links"]), (&json!(1), &json!(1)), "{report}");
    let report = run_json(&data, &["ingest", folder.to_str().unwrap()]);
    assert_eq!((&report["items"], &report["links"]), (&json!(0), &json!(0)), "{report}");
}

#[test]
fn a_new_version_is_as_sensitive_as_the_one_before() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("notes"));
    let file = write(&folder, "pay.md", "# Pay\n\nquokka salaries\n");
    let service = Service::start(&data, &["--ingest", folder.to_str().unwrap()]);
    let sensitivity = || {
        let asked = json!({"query": "quokka salaries", "limit": 1, "prefer_replacements": true});
        let seeds = service.post("/recall", &asked);
        seeds[0]["policy"]["sensitivity"].clone()
    };
    assert_eq!(sensitivity(), "internal");
    let report = ingest(&service, &json!({"paths": [file], "sensitivity": "confidential"}));
    assert_eq!((&report["unchanged"], &report["superseded"]), (&json!(0), &json!(1)), "{report}");
    assert_eq!(sensitivity(), "confidential");
    write(&folder, "pay.md", "# Pay\n\nquokka salaries, raised\n");
    ingest(&service, &json!({"paths": [file]}));
    assert_eq!(sensitivity(), "confidential");
}

#[test]
fn naming_a_file_opens_neither_its_folder_nor_what_is_hidden() {
    let scratch = scratch();
    let (data, home) = (scratch.path().join("data"), scratch.path().join("home"));
    let todo = write(&home, "todo.md", "# Todo\n\nwalk\n");
    let key = write(&home, ".ssh/id", "wombat key\n");
    let beside = write(&home, "beside.md", "# Beside\n\nother\n");
    let service = Service::start(&data, &[]);
    let report = run_json(&data, &["ingest", todo.to_str().unwrap()]);
    assert_eq!(report["files"], 1, "{report}");
    let mut client = McpClient::open(&service);
    let refusal = client.refusal("ingest_paths_tool", &json!({"paths": [beside]}));
    assert!(refusal.starts_with("paths:"), "{refusal}");
    // The folder itself, once the operator asks for it; but never what is hidden in it.
    run_json(&data, &["ingest", home.to_str().unwrap()]);
    let refusal = client.refusal("ingest_paths_tool", &json!({"paths": [key]}));
    assert!(refusal.contains("hidden"), "{refusal}");
    assert_eq!(client.call("ingest_paths_tool", &json!({"paths": [beside]}))["unchanged"], 1);
}

#[test]
fn a_document_is_superseded_by_its_file_alone() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("notes"));
    let file = write(&folder, "a.md", "# Alpha\n\nkelp\n");
    let service = Service::start(&data, &["--ingest", folder.to_str().unwrap()]);
    let mut client = McpClient::open(&service);
    let document = client.call("docstore_get_document_tool", &json!({"path": file}));
    let refusal = client
        .refusal("brain_remember", &json!({"text": "no", "supersedes": document["document_id"]}));
    assert!(refusal.contains("supersedes") && refusal.contains("document"), "{refusal}");
    // Null stands for what is left out; a blank text is none.
    client.call("brain_remember", &json!({"text": "yes", "kind": null, "tags": null}));
    assert!(client.refusal("brain_remember", &json!({"text": " \n"})).contains("blank"));
}

#[test]
fn many_versions_of_a_file_take_one_place() {
    let scratch = scratch();
    let (data, folder) = (scratch.path().join("data"), scratch.path().join("notes"));
    write(&folder, "other.md", "# Other\n\nkelp grows by the pier\n");
    for version in 0..6 {
        let text = format!("# Limits\n\nkelp may grow to {version} metres\n");
        write(&folder, "limits.md", text);
        run_json(&data, &["ingest", folder.to_str().unwrap()]);
    }
    let service = Service::start(&data, &[]);
    let asked = json!({"query": "how far may kelp grow?"});
    let answer = McpClient::open(&service).call("retrieval_arbitrate_tool", &asked);
    let items = answer["items"].as_array().unwrap();
    assert!(items.iter().all(|item| item["status"] == "current"), "{answer}");
    let titles: Vec<&str> = items.iter().map(|item| item["title"].as_str().unwrap()).collect();
    assert!(titles.contains(&"Other"), "{titles:?}");
    assert!(items[0]["text"].as_str().unwrap().contains("5 metres"), "{answer}");
}
