//! Single items: complete, as of a time, superseded, and in their chain.

mod contradictions;
mod duplicates;
mod forget;
mod sources;
mod timeline;

use engine::Sensitivity;
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member, operator};

use super::texts;

/// Supersedes an item and returns the new version's id.
fn supersede(desk: &Desk, id: &str, text: &str) -> String {
    let wanted = json!({"item_id": id, "text": text, "reason": format!("now: {text}")});
    let answer = desk.call("supersede_item_tool", wanted);
    answer["item"]["id"].as_str().unwrap().to_owned()
}

fn get(desk: &Desk, id: &str) -> Value {
    desk.call("get_item_tool", json!({"item_id": id}))["item"].clone()
}

#[test]
fn an_item_is_given_whole() {
    let desk = Desk::new();
    let source = json!({"uri": "https://example.org/wells", "title": "Wells"});
    let wanted = json!({
        "text": "The well is 40 m deep.", "kind": "fact", "title": "Depth", "tags": ["well"],
        "gates": [VEILED], "source": source, "valid_from": "2025-01-01T00:00:00Z",
    });
    let remembered = desk.call("brain_remember", wanted)["item"].clone();
    let id = remembered["id"].as_str().unwrap();
    let mut whole = get(&desk, id);
    assert_eq!(whole["edges"], json!({"count": 0, "more": false}));
    whole.as_object_mut().unwrap().remove("edges");
    assert_eq!(whole, remembered, "it is what brain_remember said");
    assert_eq!(whole["provenance"]["via"], "brain_remember");
    assert_eq!(whole["source"]["uri"], "https://example.org/wells");

    let long = "x ".repeat(16_000) + "\u{e9}";
    let answer = desk.call("get_item_tool", json!({"item_id": desk.remember(&long)}));
    assert_eq!((&answer["item"]["text"], &answer["truncated"]), (&json!(long), &json!(false)));
    let none = json!({"item_id": "itm_0000000000000000000000002k"});
    assert_eq!(desk.refusal("get_item_tool", none), "item_id: there is no such item");
}

#[test]
fn what_replaces_an_item_is_as_closed_as_it_unless_that_is_asked_for() {
    let desk = Desk::new();
    let wanted =
        json!({"text": "The safe is blue.", "sensitivity": "confidential", "gates": [VEILED]});
    let old = desk.call("brain_remember", wanted)["item"]["id"].clone();
    let wanted = json!({"text": "The safe is green.", "supersedes": old});
    let answer = desk.call("brain_remember", wanted);
    let kept = json!({"sensitivity": "confidential", "gates": [VEILED]});
    assert_eq!(answer["item"]["policy"], kept, "{answer}");
    let events = desk.call("sensitivity_events_tool", json!({}));
    assert_eq!(events["events"], json!([]));
    let wanted = json!({
        "text": "The safe is red.", "supersedes": answer["item"]["id"], "sensitivity": "public", "gates": [],
    });
    let lowered = desk.call("brain_remember", wanted)["item"].clone();
    assert_eq!(lowered["policy"], json!({"sensitivity": "public", "gates": []}));
    let events = desk.call("sensitivity_events_tool", json!({}));
    assert_eq!(texts(&events, "events", "what"), ["lowered"], "whoever lowers it is on record");
    assert_eq!(texts(&events, "events", "item_id"), [lowered["id"].as_str().unwrap()]);
}

#[test]
fn texts_and_attributes_that_are_too_long_are_cut_and_that_is_said() {
    let desk = Desk::new();
    let id = desk.remember("short");
    desk.revise(&id, |item| {
        item.text = "\u{e9}".repeat(30_000);
        item.attributes = json!({"long": "y".repeat(13_000)}).to_string();
    });
    let chain = desk.call("supersession_chain_tool", json!({"item_id": id}));
    let newest = chain["chain"][1]["id"].as_str().unwrap();
    let answer = desk.call("get_item_tool", json!({"item_id": newest}));
    assert_eq!(answer["item"]["text"].as_str().unwrap().len(), 40 << 10);
    assert_eq!((&answer["item"]["attributes"], &answer["truncated"]), (&Value::Null, &json!(true)));
}

#[test]
fn a_new_version_keeps_what_is_not_given_anew_and_says_why() {
    let desk = Desk::new();
    let source = json!({"uri": "https://example.org/wells"});
    let wanted = json!({
        "text": "The well is 40 m deep.", "kind": "fact", "title": "Depth", "tags": ["well"],
        "gates": ["pii"], "source": source, "sensitivity": "confidential",
    });
    let old = desk.call("brain_remember", wanted)["item"].clone();
    desk.set_time("2026-01-15T08:00:00Z");
    let wanted =
        json!({"item_id": old["id"], "text": "The well is 42 m deep.", "reason": "measured"});
    let answer = desk.call("supersede_item_tool", wanted);
    let new = &answer["item"];
    for field in ["kind", "title", "tags", "policy", "source", "modality"] {
        assert_eq!(new[field], old[field], "{field}");
    }
    assert_eq!(new["text"], "The well is 42 m deep.");
    assert_eq!(new["supersedes"], json!([old["id"]]));
    assert!(new.get("ref").is_none(), "a ref of ours is nothing for callers: {new}");
    assert_eq!(texts(&answer, "chain", "status"), ["superseded", "current"]);
    assert_eq!(answer["chain"][1]["reason"], "measured");
    assert!(answer["chain"][0].get("reason").is_none());
    assert_eq!(texts(&answer, "chain", "at")[1], "2026-01-15T08:00:00Z");
    let whole = get(&desk, new["id"].as_str().unwrap());
    assert_eq!(whole["attributes"]["change_reason"], "measured");
    let found = desk.call("retrieval_arbitrate_tool", json!({"query": "how deep is the well"}));
    assert_eq!(found["items"][0]["id"], new["id"]);

    let first_line = desk.remember("The first line.\nAnd more.");
    let next = get(&desk, &supersede(&desk, &first_line, "Another line.\nAnd less."));
    assert_eq!(next["title"], "Another line.", "a title made from the text goes with it");
    let entry = desk.entry(&answer["receipt"]);
    assert_eq!(entry.touched[0].effect.word(), "written");
}

#[test]
fn what_is_superseded_is_not_replaced_again_and_the_error_names_what_stands() {
    let desk = Desk::new();
    let first = desk.remember("one");
    let second = supersede(&desk, &first, "two");
    let third = supersede(&desk, &second, "three");
    let again = |id: &str| json!({"item_id": id, "text": "four", "reason": "r"});
    for id in [&first, &second] {
        let why = desk.refusal("supersede_item_tool", again(id));
        assert_eq!(why, format!("item_id: is superseded; {third} stands in its place"));
    }
    desk.revise(&third, |item| item.sensitivity = Sensitivity::Restricted);
    let why = desk.refusal_as(&member(), "supersede_item_tool", again(&first));
    assert_eq!(why, "item_id: is superseded; only what stands can be replaced");
    let attempt = desk.call("record_task_attempt_tool", json!({"task": "t"}));
    let id = attempt["attempt"]["attempt_id"].as_str().unwrap();
    let why = desk.refusal("supersede_item_tool", again(id));
    assert!(why.starts_with("item_id: is the id of a task_attempt"), "{why}");
    let blank = json!({"item_id": third, "text": " \n", "reason": "r"});
    assert!(desk.refusal("supersede_item_tool", blank).starts_with("text: is blank"));
}

#[test]
fn of_two_that_replace_the_same_item_one_is_refused() {
    let desk = Desk::new();
    for _ in 0..20 {
        let id = desk.remember("raced");
        let done: Vec<bool> = std::thread::scope(|scope| {
            let movers = ["left", "right"].map(|text| {
                let (desk, id) = (&desk, &id);
                let wanted = json!({"item_id": id, "text": text, "reason": "r"});
                scope.spawn(move || {
                    desk.try_call(&operator(), "supersede_item_tool", wanted).is_ok()
                })
            });
            movers.into_iter().map(|mover| mover.join().unwrap()).collect()
        });
        assert_eq!(done.iter().filter(|&&done| done).count(), 1, "{done:?}");
        let chain = desk.call("supersession_chain_tool", json!({"item_id": id}));
        assert_eq!(texts(&chain, "chain", "status"), ["superseded", "current"]);
    }
}

#[test]
fn a_repeat_with_the_key_supersedes_once() {
    let desk = Desk::new();
    let id = desk.remember("one");
    let wanted = json!({"item_id": id, "text": "two", "reason": "r", "idempotency_key": "k"});
    let first = desk.call("supersede_item_tool", wanted.clone());
    let again = desk.call("supersede_item_tool", wanted);
    assert_eq!((&again["item"], &again["chain"]), (&first["item"], &first["chain"]));
    let other = json!({"item_id": id, "text": "three", "reason": "r", "idempotency_key": "k"});
    let why = desk.refusal("supersede_item_tool", other);
    assert!(why.starts_with("idempotency_key: was used before"), "{why}");
}

#[test]
fn an_item_is_shown_as_it_was() {
    let desk = Desk::new();
    let mut ids = vec![desk.remember("one")];
    for (day, text) in [(15, "two"), (16, "three")] {
        desk.set_time(&format!("2026-01-{day}T00:00:00Z"));
        ids.push(supersede(&desk, ids.last().unwrap(), text));
    }
    let then = |id: &str, at: &str| {
        desk.call("get_item_tool", json!({"item_id": id, "as_of": at}))["item"].clone()
    };
    for id in &ids {
        for (at, text) in [
            ("2026-01-14T09:30:00Z", "one"),
            ("2026-01-14T23:59:59Z", "one"),
            ("2026-01-15T00:00:00Z", "two"),
            ("2026-01-16T12:00:00Z", "three"),
            ("2030-01-01T00:00:00Z", "three"),
        ] {
            let item = then(id, at);
            assert_eq!((&item["text"], &item["status"]), (&json!(text), &json!("current")), "{at}");
            assert_eq!(item["superseded_by"], Value::Null, "what came later was not known");
        }
        let before = json!({"item_id": id, "as_of": "2026-01-14T09:29:59Z"});
        let why = desk.refusal("get_item_tool", before);
        assert_eq!(why, "as_of: no version of the item stood then");
    }
    assert_eq!(
        get(&desk, &ids[0])["text"],
        "one",
        "without a time it is the one that was asked for"
    );
    desk.revise(&ids[2], |item| item.sensitivity = Sensitivity::Restricted);
    let now = json!({"item_id": ids[0], "as_of": "2026-02-01T00:00:00Z"});
    let why = desk.refusal_as(&member(), "get_item_tool", now);
    assert_eq!(why, "as_of: no version of the item stood then", "one that is denied is not there");
}

#[test]
fn a_long_chain_is_cut_to_its_newest_versions() {
    let desk = Desk::new();
    let first = desk.remember("v0");
    let mut id = first.clone();
    for n in 1..=100 {
        id = supersede(&desk, &id, &format!("v{n}"));
    }
    let chain = desk.call("supersession_chain_tool", json!({"item_id": first}));
    assert_eq!(chain["truncated"], true);
    let reasons = texts(&chain, "chain", "reason");
    assert_eq!((reasons.len(), reasons[0], reasons[99]), (100, "now: v1", "now: v100"));
    let middle = chain["chain"][50]["id"].as_str().unwrap();
    assert_eq!(
        desk.call("supersession_chain_tool", json!({"item_id": middle}))["chain"],
        chain["chain"]
    );
    let wide = "\u{1f600}".repeat(500);
    let mut id = desk.remember("w0");
    for n in 1..40 {
        let wanted = json!({"item_id": id, "text": format!("w{n}"), "reason": wide});
        id = desk.call("supersede_item_tool", wanted)["item"]["id"].as_str().unwrap().to_owned();
    }
    let chain = desk.call("supersession_chain_tool", json!({"item_id": id}));
    let rows = chain["chain"].as_array().unwrap();
    assert_eq!((&chain["truncated"], rows.len()), (&json!(true), 29));
    assert_eq!(rows[28]["status"], "current");
    assert!(chain["chain"].to_string().len() <= 60 << 10);
}

#[test]
fn what_policy_hides_of_a_chain_stays_hidden() {
    let desk = Desk::new();
    let one = desk.remember("one");
    let two = supersede(&desk, &one, "two");
    desk.revise(&two, |item| item.gates = vec![VEILED.to_owned()]);
    let chain = desk.call("supersession_chain_tool", json!({"item_id": one}));
    let veiled = chain["chain"][2]["id"].as_str().unwrap().to_owned();
    desk.revise(&veiled, |item| item.sensitivity = Sensitivity::Restricted);
    let chain = desk.call("supersession_chain_tool", json!({"item_id": one}));
    assert_eq!(chain["chain"].as_array().unwrap().len(), 4);
    let secret = chain["chain"][3]["id"].as_str().unwrap().to_owned();

    let seen = desk.call_as(&member(), "supersession_chain_tool", json!({"item_id": one}));
    assert_eq!(texts(&seen, "chain", "id"), [&*one, &*two, &*veiled]);
    assert_eq!(seen["chain"][2]["reason"], "[redacted by policy]");
    let effects: Vec<_> =
        desk.entry(&seen["receipt"]).touched.iter().map(|one| one.effect.word()).collect();
    assert_eq!(effects, ["redacted", "read", "read"]);
    let item = desk.call_as(&member(), "get_item_tool", json!({"item_id": veiled}));
    assert_eq!(item["item"]["text"], "[redacted by policy]");
    assert_eq!(item["item"].get("attributes"), None);
    assert_eq!(item["item"]["superseded_by"], Value::Null, "what is denied is not named");
    assert_eq!(item["receipt"]["decision"], "redact");
    for tool in ["get_item_tool", "supersession_chain_tool"] {
        let why = desk.refusal_as(&member(), tool, json!({"item_id": secret}));
        assert_eq!(why, "item_id: there is no such item");
    }
    let wanted = json!({"item_id": secret, "text": "x", "reason": "r"});
    let why = desk.refusal_as(&member(), "supersede_item_tool", wanted);
    assert_eq!(why, "item_id: there is no such item");
}
