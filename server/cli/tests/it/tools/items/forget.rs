//! Forgotten items are not found; erased items are in no file.

use engine::Sensitivity;
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member, time};
use support_wire::kept::{assert_gone, holding};
use support_wire::service::write;

use super::supersede;
use crate::tools::texts;

fn forget(desk: &Desk, id: &str, mode: &str) -> Value {
    let wanted = json!({"item_id": id, "reason": "asked for", "mode": mode});
    desk.call("forget_item_tool", wanted)
}

/// The ids found by recall.
fn recalled(desk: &Desk, query: &str) -> Vec<String> {
    let found = desk.call("retrieval_arbitrate_tool", json!({"query": query}));
    texts(&found, "items", "id").iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn what_is_tombstoned_is_found_by_nobody_and_stays_in_the_chain() {
    let desk = Desk::new();
    let old = desk.remember("the zephyrine gimbal is brass");
    let id = supersede(&desk, &old, "the zephyrine gimbal is steel");
    assert!(recalled(&desk, "zephyrine gimbal").contains(&id));
    desk.set_time("2026-01-15T08:00:00Z");
    let answer = forget(&desk, &id, "tombstone");
    assert_eq!((&answer["item_id"], &answer["status"]), (&json!(id), &json!("tombstoned")));
    assert_eq!((&answer["at"], &answer["forgotten"]), (&json!("2026-01-15T08:00:00Z"), &json!(1)));
    assert!(answer.get("gone_by").is_none() && answer.get("backups_waiting").is_none());
    assert!(!recalled(&desk, "zephyrine gimbal").contains(&id));
    let wanted = json!({"item_id": id});
    assert_eq!(desk.refusal("get_item_tool", wanted.clone()), "item_id: there is no such item");
    for asked in [&id, &old] {
        let chain = desk.call("supersession_chain_tool", json!({"item_id": asked}));
        assert_eq!(texts(&chain, "chain", "status"), ["superseded", "tombstoned"]);
        let row = &chain["chain"][1];
        assert_eq!((&row["reason"], &row["at"]), (&json!("asked for"), &answer["at"]));
    }
    let again = json!({"item_id": id, "reason": "r"});
    assert_eq!(desk.refusal("forget_item_tool", again), "item_id: there is no such item");
    let entry = desk.entry(&answer["receipt"]);
    assert_eq!(entry.touched.iter().map(|one| one.effect.word()).collect::<Vec<_>>(), ["written"]);
}

#[test]
fn what_is_erased_is_in_no_file_of_the_store() {
    let desk = Desk::new();
    let data = desk.files().parent().unwrap().join("data");
    let keyed = json!({
        "text": "the quincunx is hidden", "title": "A quincunx", "idempotency_key": "k",
        "source": {"uri": "https://example.org/quincunx"}, "tags": ["quincunx"],
    });
    let id = desk.call("brain_remember", keyed)["item"]["id"].as_str().unwrap().to_owned();
    let kept = desk.remember("the mandrake abides");
    desk.call("record_task_attempt_tool", json!({"task": "t", "idempotency_key": "k"}));
    assert!(!holding(&data, "quincunx").is_empty());
    desk.set_time("2026-01-15T08:00:00Z");
    let answer = forget(&desk, &id, "erase");
    assert_eq!(answer["status"], "erased", "{answer}");
    let told = ["at", "gone_by"].map(|name| answer[name].clone());
    assert_eq!(told, [json!("2026-01-15T08:00:00Z"), json!("2026-01-15T08:00:00Z")]);
    assert_eq!((&answer["forgotten"], &answer["backups_waiting"]), (&json!(1), &json!(0)));
    assert_gone(&data, "quincunx");
    assert!(!holding(&data, "mandrake").is_empty(), "the others stay: {kept}");
    let why = desk.refusal("get_item_tool", json!({"item_id": id}));
    assert_eq!(why, "item_id: it was erased at 2026-01-15T08:00:00Z");
    let chain = desk.call("supersession_chain_tool", json!({"item_id": id}));
    let erased = json!([{"id": id, "at": "2026-01-15T08:00:00Z", "status": "erased"}]);
    assert_eq!(chain["chain"], erased);
    let why = desk.refusal("forget_item_tool", json!({"item_id": id, "reason": "r"}));
    assert_eq!(why, "item_id: it was erased at 2026-01-15T08:00:00Z");
    let entry = desk.entry(&answer["receipt"]);
    assert_eq!(entry.touched[0].effect.word(), "erased", "a sensitivity event comes first");
}

#[test]
fn what_is_hidden_already_can_be_erased() {
    let desk = Desk::new();
    let data = desk.files().parent().unwrap().join("data");
    let id = desk.remember("the quincunx is hidden");
    forget(&desk, &id, "tombstone");
    assert!(!holding(&data, "quincunx").is_empty());
    assert_eq!(forget(&desk, &id, "erase")["status"], "erased");
    assert_gone(&data, "quincunx");
}

#[test]
fn a_document_goes_with_its_chunks_and_a_record_with_its_versions() {
    let desk = Desk::new();
    let data = desk.files().parent().unwrap().join("data");
    let store = data.join("tenants/local/store");
    write(&desk.files(), "A.md", "# The quincunx\n\nIt is here.\n\n## And there\n\nIt is, too.\n");
    desk.call("ingest_paths_tool", json!({"paths": [desk.files()]}));
    let source = desk.call("list_sources_tool", json!({}))["sources"][0]["source_id"].clone();
    let of_source = desk.call("source_provenance_tool", json!({"source_id": source}));
    let document = of_source["items"][0]["id"].as_str().unwrap();
    assert!(document.starts_with("doc_"), "{of_source}");
    let answer = forget(&desk, document, "erase");
    assert_eq!(answer["status"], "erased");
    assert!(answer["forgotten"].as_u64().unwrap() > 1, "{answer}");
    assert_gone(&store, "It is here");
    assert_eq!(recalled(&desk, "quincunx"), [] as [String; 0]);

    let begun = desk.call("record_task_attempt_tool", json!({"task": "mend the vermilion lamp"}));
    let id = begun["attempt"]["attempt_id"].as_str().unwrap();
    let moved = json!({"attempt_id": id, "status": "failed"});
    desk.call("update_task_attempt_status_tool", moved);
    assert_eq!(forget(&desk, id, "tombstone")["forgotten"], 2);
    let list = desk.call("list_task_attempts_tool", json!({}));
    assert_eq!(list["attempts"], json!([]));
}

#[test]
fn policy_says_who_may_forget_what() {
    let desk = Desk::new();
    let id = desk.remember("one");
    desk.revise(&id, |item| item.sensitivity = Sensitivity::Restricted);
    let chain = desk.call("supersession_chain_tool", json!({"item_id": id}));
    let secret = chain["chain"][1]["id"].as_str().unwrap().to_owned();
    for mode in ["tombstone", "erase"] {
        let wanted = json!({"item_id": secret, "reason": "r", "mode": mode});
        let why = desk.refusal_as(&member(), "forget_item_tool", wanted);
        assert_eq!(why, "item_id: there is no such item");
    }
    let held = json!({"text": "held", "gates": ["legal_hold"]});
    let held = desk.call("brain_remember", held)["item"]["id"].clone();
    let wanted = json!({"item_id": held, "reason": "r", "mode": "erase"});
    let why = desk.refusal("forget_item_tool", wanted);
    assert_eq!(why, "item_id: policy rule fixed/legal-hold does not allow it");
    assert_eq!(desk.call("get_item_tool", json!({"item_id": held}))["item"]["text"], "held");

    let veiled = json!({"text": "veiled", "gates": [VEILED]});
    let veiled = desk.call("brain_remember", veiled)["item"]["id"].clone();
    let wanted = json!({"item_id": veiled, "reason": "r"});
    let answer = desk.call_as(&member(), "forget_item_tool", wanted);
    assert!(!answer.to_string().contains("\"veiled\""), "its text is told nobody: {answer}");
    let none = json!({"item_id": "itm_0000000000000000000000002k", "reason": "r"});
    assert_eq!(desk.refusal("forget_item_tool", none), "item_id: there is no such item");
}

#[test]
fn a_repeat_with_the_key_forgets_once_and_is_told_the_same() {
    let desk = Desk::new();
    for mode in ["tombstone", "erase"] {
        let id = desk.remember(&format!("forgotten by {mode}"));
        let wanted = json!({"item_id": id, "reason": "r", "mode": mode, "idempotency_key": format!("k {mode}")});
        let told = || {
            let mut answer = desk.call("forget_item_tool", wanted.clone());
            answer.as_object_mut().unwrap().remove("receipt");
            answer
        };
        let first = told();
        let seq = desk.started().parts.local.get().store.snapshot().seq();
        assert_eq!(told(), first, "{mode}");
        assert_eq!(desk.started().parts.local.get().store.snapshot().seq(), seq, "{mode}");
        let other = json!({"item_id": id, "reason": "s", "mode": mode, "idempotency_key": format!("k {mode}")});
        let why = desk.refusal("forget_item_tool", other);
        assert!(why.starts_with("idempotency_key: was used before"), "{why}");
    }
    assert_eq!(time("2026-01-14T09:30:00Z"), desk.started().parts.clock.now());
}
