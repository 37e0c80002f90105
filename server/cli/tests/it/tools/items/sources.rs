//! Sources: their list and their provenance.

use engine::Sensitivity;
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member};
use support_wire::service::write;

use crate::tools::texts;

fn remember_from(desk: &Desk, uri: &str, text: &str, gate: Option<&str>) -> Value {
    let gates: Vec<&str> = gate.into_iter().collect();
    let wanted = json!({"text": text, "source": {"uri": uri, "title": "T"}, "gates": gates});
    desk.call("brain_remember", wanted)["item"].clone()
}

#[test]
fn sources_are_listed_newest_first_in_pages() {
    let desk = Desk::new();
    for n in 0..45 {
        desk.set_time(&format!("2026-01-14T09:{n:02}:00Z"));
        let host = if n % 2 == 0 { "even" } else { "odd" };
        remember_from(&desk, &format!("https://{host}.example/{n}"), &format!("text {n}"), None);
    }
    let mut arguments = json!({"uri_prefix": "https://even."});
    let mut seen = Vec::new();
    loop {
        let page = desk.call("list_sources_tool", arguments.clone());
        seen.extend(texts(&page, "sources", "uri").iter().map(|uri| (*uri).to_owned()));
        assert_eq!(page["truncated"], page.get("next_cursor").is_some());
        let Some(cursor) = page.get("next_cursor") else { break };
        arguments["cursor"] = cursor.clone();
        remember_from(&desk, "https://even.example/meanwhile", "one more", None);
    }
    let wanted: Vec<String> =
        (0..45).rev().filter(|n| n % 2 == 0).map(|n| format!("https://even.example/{n}")).collect();
    assert_eq!(seen, wanted);
    let other = json!({"uri_prefix": "https://odd.", "cursor": arguments["cursor"]});
    assert!(desk.refusal("list_sources_tool", other).starts_with("cursor: is none"));
}

#[test]
fn a_file_says_by_which_job_it_came_in() {
    let desk = Desk::new();
    write(&desk.files(), "A.md", "# One\n\nText.\n\n## Two\n\nMore.\n");
    let job = desk.call("ingest_paths_tool", json!({"paths": [desk.files()]}));
    desk.set_time("2026-01-15T00:00:00Z");
    write(&desk.files(), "B.md", "# Later\n");
    desk.call("ingest_paths_tool", json!({"paths": [desk.files()]}));
    let sources = desk.call("list_sources_tool", json!({}));
    let [later, first] = &sources["sources"].as_array().unwrap()[..] else { panic!("{sources}") };
    assert!(first["uri"].as_str().unwrap().ends_with("/files/A.md"), "{first}");
    assert_eq!((&first["kind"], first["items"].as_u64()), (&json!("file"), Some(2)), "{first}");
    assert_eq!(first["content_sha256"].as_str().unwrap().len(), 64);
    let one = json!({"source_id": first["source_id"]});
    let one = desk.call("source_provenance_tool", one);
    assert_eq!(one["source"], *first);
    assert_eq!(one["came_in"]["job_id"], job["job_id"], "not that of the later one");
    assert_eq!(one["came_in"]["via"], "ingest_paths_tool");
    assert_eq!(one["came_in"]["by"], "operator");
    assert_eq!(texts(&one, "items", "kind"), ["document", "chunk"]);
    let other = desk.call("source_provenance_tool", json!({"source_id": later["source_id"]}));
    assert_ne!(other["came_in"]["job_id"], job["job_id"]);
}

#[test]
fn a_source_is_there_for_whoever_may_know_of_an_item_of_it() {
    let desk = Desk::new();
    let open = remember_from(&desk, "https://example.org/open", "open", None);
    let veiled = remember_from(&desk, "https://example.org/veiled", "veiled", Some(VEILED));
    let secret = remember_from(&desk, "https://example.org/secret", "secret", None);
    let id = secret["id"].as_str().unwrap();
    desk.revise(id, |item| item.sensitivity = Sensitivity::Restricted);
    desk.call("forget_item_tool", json!({"item_id": id, "reason": "the open version"}));
    let all = desk.call("list_sources_tool", json!({}));
    assert_eq!(all["sources"].as_array().unwrap().len(), 3);
    let seen = desk.call_as(&member(), "list_sources_tool", json!({}));
    let uris = texts(&seen, "sources", "uri");
    assert!(!uris.contains(&"https://example.org/secret") && uris.len() == 2, "{seen}");
    let one = |item: &Value| json!({"source_id": item["source"]["id"]});
    let why = desk.refusal_as(&member(), "source_provenance_tool", one(&secret));
    assert_eq!(why, "source_id: there is no such source");
    let refused = desk.try_call(&member(), "source_provenance_tool", one(&secret)).unwrap_err();
    assert_eq!(json!(refused.receipt)["decision"], "deny");
    let shown = desk.call_as(&member(), "source_provenance_tool", one(&veiled));
    assert_eq!(shown["items"][0]["title"], "[redacted by policy]");
    assert!(shown["source"].get("title").is_none(), "{shown}");
    let shown = desk.call_as(&member(), "source_provenance_tool", one(&open));
    assert_eq!(shown["source"]["title"], "T");
    assert!(shown["came_in"].get("job_id").is_none());
    let none = json!({"source_id": "src_0000000000000000000000002k"});
    let why = desk.refusal("source_provenance_tool", none);
    assert_eq!(why, "source_id: there is no such source");
}

#[test]
fn a_source_of_many_items_is_cut() {
    let desk = Desk::new();
    let sections: String = (0..1_200).map(|n| format!("# Section {n}\n\nText {n}.\n\n")).collect();
    write(&desk.files(), "A.md", &sections);
    desk.call("ingest_paths_tool", json!({"paths": [desk.files()]}));
    let source = desk.call("list_sources_tool", json!({}))["sources"][0].clone();
    let items = source["items"].as_u64().unwrap();
    let one = desk.call("source_provenance_tool", json!({"source_id": source["source_id"]}));
    let shown = one["items"].as_array().unwrap().len();
    assert_eq!((shown as u64, one["truncated"] == true), (items.min(100), items > 100), "{items}");
    assert!(items > 100, "{items}");
}
