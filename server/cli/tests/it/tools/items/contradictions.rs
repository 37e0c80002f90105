//! Pairs of contradicting items, page by page.

use std::collections::BTreeSet;

use engine::Sensitivity;
use recalld_common::cancel::CancellationToken;
use recalld_policy::Caller;
use recalld_tool_framework::{ServiceError, ToolContext};
use recalld_tools::CATALOG;
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member, operator};

use super::supersede;

const TOOL: &str = "contradiction_scan_tool";

/// All pairs, and the number of pages.
fn scan_as(desk: &Desk, caller: &Caller, topic: Option<&str>) -> (Vec<Value>, usize) {
    let (mut pairs, mut pages) = (Vec::new(), 0);
    let mut cursor = Value::Null;
    loop {
        let answer = desk.call_as(caller, TOOL, json!({"topic": topic, "cursor": cursor}));
        pages += 1;
        pairs.extend(answer["pairs"].as_array().unwrap().iter().cloned());
        assert!(pages < 100, "it comes to an end");
        match answer.get("next_cursor") {
            Some(next) => {
                assert_eq!(answer["truncated"], true);
                assert!(answer["bounds"]["items"].as_u64().unwrap() > 0);
                cursor = next.clone();
            }
            None => return (pairs, pages),
        }
    }
}

fn scan(desk: &Desk) -> Vec<Value> {
    scan_as(desk, &operator(), None).0
}

fn ids(pair: &Value) -> [&str; 2] {
    ["one", "other"].map(|side| pair[side]["id"].as_str().unwrap())
}

#[test]
fn pairs_that_differ_are_told_with_what_they_differ_in() {
    let desk = Desk::new();
    let old = desk.remember("The gateway listens on port 8080.");
    desk.remember("The mail server listens on port 25.");
    desk.remember("Backups are kept for 30 days.");
    desk.set_time("2026-01-15T00:00:00Z");
    let new = desk.remember("The gateway listens on port 9090.");
    let found = scan(&desk);
    let [pair] = &found[..] else { panic!("one pair is wanted: {found:?}") };
    assert_eq!(ids(pair), [&*new, &*old], "the newer one stands first");
    assert_eq!((&pair["why"], &pair["says"]), (&json!("number"), &json!(["9090", "8080"])));
    assert_eq!(pair["other"]["text"], "The gateway listens on port 8080.");
    assert!(pair["score"].as_f64().unwrap() > 0.5);
    let kinds = [
        ("Deploys on Friday are forbidden.", "Deploys on Friday are allowed.", "negation"),
        ("The audit starts in September.", "The audit starts on 3 October.", "date"),
        ("The default branch is main.", "The default branch is trunk.", "value"),
    ];
    for (one, other, why) in kinds {
        let desk = Desk::new();
        desk.remember(one);
        desk.remember(other);
        let found = scan(&desk);
        assert_eq!(found.len(), 1, "{one}");
        assert_eq!(found[0]["why"], why, "{one}");
    }
}

#[test]
fn versions_of_one_item_and_items_of_other_times_do_not_contradict_each_other() {
    let desk = Desk::new();
    let old = desk.remember("The gateway listens on port 8080.");
    supersede(&desk, &old, "The gateway listens on port 9090.");
    let valid = |text: &str, from: &str, to: Option<&str>| {
        desk.call("brain_remember", json!({"text": text, "valid_from": from, "valid_to": to}));
    };
    valid("The relay listens on port 25.", "2024-01-01T00:00:00Z", Some("2025-01-01T00:00:00Z"));
    valid("The relay listens on port 26.", "2025-01-01T00:00:00Z", None);
    assert_eq!(scan(&desk), Vec::<Value>::new());
}

#[test]
fn pages_go_through_the_whole_store_once() {
    let desk = Desk::new();
    for n in 0..90 {
        let name = format!("beacon{n}");
        desk.remember(&format!("The keeper of {name} is paid 40 crowns."));
        if n % 3 == 0 {
            desk.remember(&format!("The keeper of {name} is paid 41 crowns."));
        }
    }
    let (pairs, pages) = scan_as(&desk, &operator(), None);
    let once: BTreeSet<[&str; 2]> = pairs.iter().map(ids).collect();
    assert_eq!((pairs.len(), once.len()), (30, 30));
    assert!(pages >= 2, "{pages}");
    let (of_one, _) = scan_as(&desk, &operator(), Some("beacon33"));
    assert_eq!(of_one.len(), 1, "{of_one:?}");
    let cursor = desk.call(TOOL, json!({}))["next_cursor"].clone();
    let why = desk.refusal(TOOL, json!({"topic": "beacon33", "cursor": cursor}));
    assert!(why.starts_with("cursor: "), "{why}");
}

#[test]
fn what_policy_hides_is_in_no_pair() {
    let desk = Desk::new();
    desk.remember("The vault listens on port 8080.");
    desk.remember("The safe listens on port 7070.");
    desk.call(
        "brain_remember",
        json!({"text": "The vault listens on port 9090.", "gates": [VEILED]}),
    );
    desk.remember_as("The safe listens on port 7171.", Sensitivity::Restricted);
    assert_eq!(scan(&desk).len(), 2);
    for topic in [None, Some("vault"), Some("safe"), Some("9090")] {
        assert_eq!(scan_as(&desk, &member(), topic).0, Vec::<Value>::new(), "{topic:?}");
    }
}

#[test]
fn who_calls_it_off_is_not_kept_waiting() {
    let desk = Desk::new();
    desk.remember("The gateway listens on port 8080.");
    let error = desk.with_context(&operator(), |context| {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let context = ToolContext { cancel: &cancel, ..*context };
        CATALOG
            .find(&operator(), TOOL)
            .unwrap()
            .call(&context, &serde_json::Map::new())
            .unwrap_err()
            .error
    });
    assert!(matches!(error, ServiceError::Cancelled), "{error}");
}
