//! Events of items in chronological order.

use engine::ledger::{Decision, Effect, Outcome, TouchedItem};
use engine::{Batch, EdgeDraft, ItemId, Sensitivity};
use recalld_audit::Trace;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_policy::Caller;
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member, operator, time};

use super::supersede;
use crate::tools::texts;

fn number(id: &str) -> ItemId {
    names::parse_item(id).unwrap()
}

fn link(desk: &Desk, from: &str, to: &str, at: &str) {
    let edge = EdgeDraft {
        id: None,
        from: number(from),
        to: number(to),
        relation: "kept_by".to_owned(),
        weight: 1.0,
        source: None,
        recorded_at: Some(time(at)),
        recorded_by: "user:ada".to_owned(),
        valid_from: None,
        valid_to: None,
        note: String::new(),
    };
    desk.write(Batch { edges: vec![edge], ..Batch::default() });
}

/// The `what` and the item of each event.
fn told(answer: &Value) -> Vec<(String, String)> {
    let events = answer["events"].as_array().unwrap().iter();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    events.map(|event| (word(&event["what"]), word(&event["item"]["id"]))).collect()
}

/// Records a verification of an item and returns its receipt.
fn verify(desk: &Desk, id: &str, principal: &str) -> Value {
    let item = number(id).0.to_le_bytes();
    let trace = Trace {
        tool: "brain_verify_claims_tool",
        principal: principal.to_owned(),
        arguments: [0; 32],
        decision: Decision::Allow,
        rule: "scope".to_owned(),
        touched: vec![TouchedItem { effect: Effect::Read, item }],
        outcome: Outcome::Done,
    };
    json!(desk.started().parts.local.get().audit.record(&trace, false).unwrap())
}

#[test]
fn an_item_has_all_that_happened_to_its_versions() {
    let desk = Desk::new();
    let other = desk.remember("another");
    let old = desk.remember("one");
    desk.set_time("2026-01-15T00:00:00Z");
    let new = supersede(&desk, &old, "two");
    link(&desk, &new, &other, "2026-01-16T00:00:00Z");
    let verified = verify(&desk, &new, "operator");
    desk.set_time("2026-01-18T00:00:00Z");
    let before = desk.call("item_timeline_tool", json!({"item_id": old}));
    let event = |what: &str, id: &str| (what.to_owned(), id.to_owned());
    let wanted = [
        event("created", &old),
        event("created", &new),
        event("superseded", &old),
        event("linked", &new),
        event("verified", &new),
    ];
    assert_eq!(told(&before), wanted);
    let events = &before["events"];
    assert_eq!((&events[2]["with"], &events[2]["by"]), (&json!(new), &json!("operator")));
    let linked = ["with", "relation", "by", "at"].map(|name| events[3][name].clone());
    let at = "2026-01-16T00:00:00Z";
    assert_eq!(linked, [json!(other), json!("kept_by"), json!("user:ada"), json!(at)]);
    assert_eq!(events[4]["at"], verified["at"]);
    assert_eq!(events[0]["item"]["title"], "one");

    desk.call("forget_item_tool", json!({"item_id": new, "reason": "r"}));
    let after = desk.call("item_timeline_tool", json!({"item_id": new}));
    assert!(told(&after).contains(&event("tombstoned", &new)), "{after}");
    assert!(told(&after).iter().all(|(what, _)| what != "linked"), "{after}");
    assert!(after["events"][1]["item"].get("title").is_none(), "what is hidden is not shown");
}

#[test]
fn events_are_of_a_period_and_come_in_pages() {
    let desk = Desk::new();
    let mut id = desk.remember("v0");
    let first = id.clone();
    for n in 1..30 {
        desk.set_time(&format!("2026-03-{n:02}T00:00:00Z"));
        id = supersede(&desk, &id, &format!("v{n}"));
    }
    let mut arguments = json!({"item_id": first});
    let mut all = Vec::new();
    loop {
        let page = desk.call("item_timeline_tool", arguments.clone());
        all.extend(texts(&page, "events", "at").iter().map(|at| (*at).to_owned()));
        assert_eq!(page["truncated"], page.get("next_cursor").is_some());
        let Some(cursor) = page.get("next_cursor") else { break };
        arguments["cursor"] = cursor.clone();
    }
    assert_eq!(all.len(), 30 + 29);
    assert!(all.is_sorted());
    let some = json!({
        "item_id": first, "from": "2026-03-03T00:00:00Z", "to": "2026-03-05T00:00:00Z",
    });
    let some = desk.call("item_timeline_tool", some);
    let wanted = ["2026-03-03T00:00:00Z", "2026-03-04T00:00:00Z"].map(|at| [at; 2]).concat();
    assert_eq!(texts(&some, "events", "at"), wanted);
    let none = json!({
        "item_id": first, "from": "2026-03-03T00:00:00Z", "to": "2026-03-02T00:00:00Z",
    });
    let why = desk.refusal("item_timeline_tool", none);
    assert!(why.starts_with("to: is 2026-03-02T00:00:00Z, which is before"), "{why}");
    let why = desk.refusal("item_timeline_tool", json!({}));
    assert_eq!(why, "item_id: is missing; item_id or query is wanted");
    let both = json!({"item_id": first, "query": "v"});
    assert!(desk.refusal("item_timeline_tool", both).starts_with("query: is given together"));
}

#[test]
fn verifications_are_looked_for_in_so_much_of_the_ledger() {
    let desk = Desk::new();
    let id = desk.remember("the lamp");
    verify(&desk, &id, "user:ada");
    let whats = |answer: &Value| texts(answer, "events", "what").join(" ");
    let told = desk.call("item_timeline_tool", json!({"item_id": id}));
    assert_eq!((whats(&told).as_str(), &told["truncated"]), ("created verified", &json!(false)));
    let trace = Trace {
        tool: "recall",
        principal: "ada".to_owned(),
        arguments: [0; 32],
        decision: Decision::Allow,
        rule: "scope".to_owned(),
        touched: Vec::new(),
        outcome: Outcome::Done,
    };
    for _ in 0..131_072 {
        desk.started().parts.local.get().audit.record(&trace, false).unwrap();
    }
    let told = desk.call("item_timeline_tool", json!({"item_id": id}));
    assert_eq!((whats(&told).as_str(), &told["truncated"]), ("created", &json!(true)));
    assert_eq!(told["bounds"]["ledger_entries"], 131_072, "{told}");
}

#[test]
fn words_lead_to_what_the_caller_may_read_alone() {
    let desk = Desk::new();
    let open = desk.remember("the zephyrine lamp");
    for gate in ["operator_only", VEILED] {
        desk.call("brain_remember", json!({"text": "a zephyrine secret", "gates": [gate]}));
    }
    let wanted = json!({"query": "zephyrine"});
    assert_eq!(told(&desk.call("item_timeline_tool", wanted.clone())).len(), 3);
    let seen = desk.call_as(&member(), "item_timeline_tool", wanted);
    assert_eq!(told(&seen), [("created".to_owned(), open)]);
}

#[test]
fn what_policy_hides_of_a_timeline_stays_hidden() {
    let desk = Desk::new();
    let open = desk.remember("open");
    let secret = desk.remember_as("secret", Sensitivity::Restricted);
    link(&desk, &open, &secret, "2026-01-16T00:00:00Z");
    let next = supersede(&desk, &open, "next");
    desk.revise(&next, |item| item.gates = vec![VEILED.to_owned()]);
    verify(&desk, &open, "user:ada");
    verify(&desk, &open, "user:bob");
    let member = Caller { scopes: vec![Scope::TenantRead], ..member() };
    let seen = desk.call_as(&member, "item_timeline_tool", json!({"item_id": open}));
    let whats = texts(&seen, "events", "what");
    assert!(!whats.contains(&"linked"), "{seen}");
    let by: Vec<&Value> = seen["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["what"] == "verified")
        .map(|event| &event["by"])
        .collect();
    assert_eq!(by, ["user:ada"], "what others did is for those who audit");
    let titles: Vec<&str> = seen["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["item"]["title"].as_str().unwrap())
        .collect();
    assert!(titles.contains(&"[redacted by policy]"), "{seen}");
    let all = desk.call_as(&operator(), "item_timeline_tool", json!({"item_id": open}));
    let whats = texts(&all, "events", "what");
    assert_eq!(whats.iter().filter(|what| **what == "verified").count(), 2);
    assert!(whats.contains(&"linked"));
    let why = desk.refusal_as(&member, "item_timeline_tool", json!({"item_id": secret}));
    assert_eq!(why, "item_id: there is no such item");
}
