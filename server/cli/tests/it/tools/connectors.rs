//! `search` and `fetch`, as read by a connector.

use engine::Sensitivity;
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member, operator};
use support_wire::service::write;

use super::texts;

/// The text block, parsed as JSON, and the structured result without its receipt.
fn called(desk: &Desk, tool: &str, arguments: Value) -> (Value, Value) {
    let answer = desk.try_call(&operator(), tool, arguments).unwrap();
    assert!(answer.receipt.is_some());
    (serde_json::from_str(&answer.text).unwrap(), answer.structured)
}

fn remember(desk: &Desk, item: Value) -> String {
    desk.call("brain_remember", item)["item"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn what_search_gives_can_be_fetched() {
    let desk = Desk::new();
    let source = json!({"uri": "https://example.org/lens", "title": "On lenses"});
    let web = json!({"text": "The lens of the lamp is polished weekly.", "source": source});
    let ids = [remember(&desk, web), desk.remember("The lamp has a spare lens.")];
    let (text, structured) = called(&desk, "search", json!({"query": "lens of the lamp"}));
    assert_eq!(text, structured, "the block of text is the result");
    let results = text["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        let mut fields: Vec<&str> = result.as_object().unwrap().keys().map(|key| &**key).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["id", "title", "url"]);
        let (one, structured) = called(&desk, "fetch", json!({"id": result["id"]}));
        assert_eq!(one, structured);
        assert_eq!((&one["url"], &one["title"]), (&result["url"], &result["title"]));
        assert!(one["text"].as_str().unwrap().contains("lens"));
        let metadata = one["metadata"].as_object().unwrap();
        assert!(metadata.values().all(Value::is_string), "{metadata:?}");
        assert_eq!((&metadata["kind"], &metadata["status"]), (&json!("note"), &json!("current")));
    }
    let url = |id: &str| results.iter().find(|one| one["id"] == id).unwrap()["url"].clone();
    assert_eq!(url(&ids[0]), "https://example.org/lens");
    assert_eq!(url(&ids[1]), format!("memory://item/{}", ids[1]));
    let nothing = called(&Desk::new(), "search", json!({"query": "lens"})).0;
    assert_eq!(nothing, json!({"results": []}));
    let why = desk.refusal("search", json!({"query": "lens", "limit": 3}));
    assert!(why.starts_with("limit: is set by the router"), "{why}");
}

#[test]
fn documents_and_their_pieces_are_fetched_and_long_ones_say_where_they_go_on() {
    let desk = Desk::new();
    let line = "The relief boat comes on Monday. ";
    let long = format!("# Boats\n\n{}\n", format!("{line}\n\n").repeat(2_500));
    write(&desk.files(), "boats.md", &long);
    write(&desk.files(), "short.md", "# Short\n\nA word.\n");
    desk.call("ingest_paths_tool", json!({"paths": [desk.files()]}));
    let manifest = desk.call("docstore_manifest_tool", json!({}));
    let ids = texts(&manifest, "documents", "document_id");
    let long = desk.call("fetch", json!({"id": ids[0]}));
    let text = long["text"].as_str().unwrap();
    assert_eq!(text.len(), 64 << 10);
    assert_eq!(long["url"], format!("memory://document/{}", ids[0]));
    assert_eq!(long["metadata"]["truncated"], "true");
    let on = long["metadata"]["read_on"].as_str().unwrap();
    assert!(on.contains(ids[0]) && on.ends_with(&text.len().to_string()), "{on}");
    let rest = json!({"document_id": ids[0], "offset": text.len()});
    assert!(!desk.call("docstore_get_document_tool", rest)["text"].as_str().unwrap().is_empty());
    let short = desk.call("fetch", json!({"id": ids[1]}));
    assert_eq!(short["text"], "# Short\n\nA word.\n");
    assert_eq!(short["metadata"].get("truncated"), None);
    let hits = desk.call("docstore_search_tool", json!({"query": "word"}));
    let chunk = hits["hits"][0]["chunk_id"].as_str().unwrap();
    let piece = desk.call("fetch", json!({"id": chunk}));
    assert_eq!(
        (&piece["metadata"]["kind"], &piece["metadata"]["lines"]),
        (&json!("chunk"), &json!("1-3"))
    );
    assert_eq!(piece["url"], format!("memory://item/{chunk}"));
    let source = piece["metadata"]["source"].as_str().unwrap();
    assert!(source.starts_with("file:///") && source.ends_with("short.md"), "{source}");
}

#[test]
fn what_is_superseded_says_so_and_what_is_not_there_is_an_error() {
    let desk = Desk::new();
    let old = desk.remember("The lamp burns rape oil.");
    let new = json!({"item_id": old, "text": "The lamp burns paraffin.", "reason": "cleaner"});
    let new = desk.call("supersede_item_tool", new)["item"]["id"].clone();
    let metadata = &desk.call("fetch", json!({"id": old}))["metadata"];
    assert_eq!((&metadata["status"], &metadata["superseded_by"]), (&json!("superseded"), &new));
    assert_eq!(desk.call("fetch", json!({"id": new}))["metadata"].get("superseded_by"), None);
    for id in ["itm_0000000000000000000000zzzz", "doc_0000000000000000000000zzzz"] {
        let why = desk.refusal("fetch", json!({"id": id}));
        assert_eq!(why, "id: there is no such item, document or chunk");
    }
    let why = desk.refusal("fetch", json!({"id": "7"}));
    assert!(why.starts_with("id: not an id"), "{why}");
    desk.call("forget_item_tool", json!({"item_id": new, "reason": "r"}));
    assert_eq!(
        desk.refusal("fetch", json!({"id": new})),
        "id: there is no such item, document or chunk"
    );
}

#[test]
fn policy_holds_for_connectors_too() {
    let desk = Desk::new();
    let secret = desk.remember_as("The safe of the lamp opens with 4711.", Sensitivity::Restricted);
    let veiled = json!({"text": "The lamp was bought in secret.", "gates": [VEILED]});
    let veiled = remember(&desk, veiled);
    let found = desk.call_as(&member(), "search", json!({"query": "lamp"}));
    assert!(!found["results"].to_string().contains(&secret));
    assert!(!found["results"].to_string().contains("bought"));
    let why = desk.refusal_as(&member(), "fetch", json!({"id": secret}));
    assert_eq!(why, "id: there is no such item, document or chunk");
    let seen = desk.call_as(&member(), "fetch", json!({"id": veiled}));
    assert_eq!(
        (&seen["text"], &seen["title"]),
        (&json!("[redacted by policy]"), &json!("[redacted by policy]"))
    );
    assert_eq!(seen["receipt"]["decision"], "redact");
    let effects: Vec<_> =
        desk.entry(&seen["receipt"]).touched.iter().map(|one| one.effect.word()).collect();
    assert_eq!(effects, ["redacted"]);
    assert_eq!(
        desk.call("fetch", json!({"id": secret}))["text"],
        "The safe of the lamp opens with 4711."
    );
}
