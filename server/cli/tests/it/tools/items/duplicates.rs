//! Groups of near duplicates, page by page.

use std::collections::BTreeSet;

use engine::Sensitivity;
use recalld_common::cancel::CancellationToken;
use recalld_policy::Caller;
use recalld_tool_framework::{ServiceError, ToolContext};
use recalld_tools::CATALOG;
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member, operator};

use super::supersede;

const TOOL: &str = "duplicate_scan_tool";

/// All groups, and the number of pages.
fn scan_as(desk: &Desk, caller: &Caller, threshold: f64) -> (Vec<Value>, usize) {
    let (mut groups, mut pages) = (Vec::new(), 0);
    let mut cursor = Value::Null;
    loop {
        let answer = desk.call_as(caller, TOOL, json!({"threshold": threshold, "cursor": cursor}));
        pages += 1;
        groups.extend(answer["groups"].as_array().unwrap().iter().cloned());
        assert!(pages < 100, "it comes to an end");
        match answer.get("next_cursor") {
            Some(next) => {
                assert_eq!(answer["truncated"], true);
                assert!(answer["bounds"]["items"].as_u64().unwrap() > 0);
                cursor = next.clone();
            }
            None => return (groups, pages),
        }
    }
}

fn scan(desk: &Desk) -> Vec<Value> {
    scan_as(desk, &operator(), 0.95).0
}

/// The ids of a group, the one to keep first.
fn ids(group: &Value) -> Vec<&str> {
    let others = group["others"].as_array().unwrap().iter();
    [&group["keep"]].into_iter().chain(others).map(|item| item["id"].as_str().unwrap()).collect()
}

fn remember(desk: &Desk, more: Value) -> String {
    let answer = desk.call("brain_remember", more);
    answer["item"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn what_says_the_same_is_one_group_with_the_one_to_keep() {
    let desk = Desk::new();
    let old = desk.remember("Trim the wick at dusk, fill the tank, and wind the clock.");
    desk.remember("The mail server listens on port 25.");
    desk.remember("The mail server listens on port 26.");
    desk.remember("The mail server does not listen on port 25.");
    desk.set_time("2026-01-15T00:00:00Z");
    let new = desk.remember("- trim the wick at dusk\n- fill the tank\n- and wind the clock");
    let found = scan(&desk);
    let [group] = &found[..] else { panic!("one group is wanted: {found:?}") };
    // The word count includes the list's bullets, so the newer item is longer.
    assert_eq!(ids(group), [&*new, &*old]);
    assert_eq!(
        group["keep"]["text"],
        "- trim the wick at dusk\n- fill the tank\n- and wind the clock"
    );
    let other = &group["others"][0];
    assert_eq!((&other["score"], &other["same"]), (&json!(1.0), &json!("words")));
    assert!(other.get("differs").is_none());
}

#[test]
fn what_is_kept_is_a_piece_of_a_file_then_what_is_linked_then_sourced_then_longer_then_newer() {
    let text = "The keeper writes the height of the tide into the large book at dawn, and hangs the \
                flag beside the door.";
    let why = |desk: &Desk| {
        let found = scan(desk);
        assert_eq!(found.len(), 1, "{found:?}");
        let keep = found[0]["keep"]["id"].as_str().unwrap().to_owned();
        (keep, found[0]["why"].as_str().unwrap().to_owned())
    };
    let desk = Desk::new();
    let first = desk.remember(text);
    desk.set_time("2026-01-15T00:00:00Z");
    let second = desk.remember(text);
    assert_eq!(why(&desk), (second.clone(), "it is the newest".to_owned()));
    let longer = desk.remember(&format!("{text} the"));
    let (kept, because) = why(&desk);
    assert_eq!(kept, longer);
    assert!(because.starts_with("it says more: 22 words, the next one 21"), "{because}");
    let source = json!({"uri": "https://example.org/tide", "title": "Tide"});
    let sourced = remember(&desk, json!({"text": text, "source": source}));
    assert_eq!(why(&desk), (sourced, "it has a source".to_owned()));
    let other = desk.remember("Herring is salted in barrels of oak.");
    let link = json!({"from_id": other, "to_id": first, "relation": "about"});
    desk.call("link_items_tool", link);
    assert_eq!(why(&desk), (first, "it has more edges: 1, the next one 0".to_owned()));
    let title = "Tide";
    let given = desk.call("ingest_text_tool", json!({"title": title, "text": text}));
    assert!(given["items"].as_u64().unwrap() > 0, "{given}");
    let (_, because) = why(&desk);
    assert!(because.starts_with("it is a piece of a file"), "{because}");
}

#[test]
fn a_slip_is_told_and_a_lower_threshold_finds_more() {
    let desk = Desk::new();
    let one = "The keeper writes the height of the tide into the large book at dawn.";
    desk.remember(one);
    desk.remember(&one.replace("height", "hieght"));
    desk.remember(&one.replace("large book", "small book"));
    let found = scan(&desk);
    let [group] = &found[..] else { panic!("one group is wanted: {found:?}") };
    let other = &group["others"][0];
    assert_eq!(other["same"], "most words");
    let words: BTreeSet<&str> =
        ["here", "kept"].map(|side| other["differs"][side][0].as_str().unwrap()).into();
    assert_eq!(words, BTreeSet::from(["height", "hieght"]));
    let (found, _) = scan_as(&desk, &operator(), 0.8);
    let sizes: Vec<usize> = found.iter().map(|group| ids(group).len()).collect();
    assert_eq!(sizes, [3]);
    assert_eq!(scan_as(&desk, &operator(), 1.0).0, Vec::<Value>::new());
}

#[test]
fn a_group_is_no_chain() {
    let desk = Desk::new();
    // Each is similar to the next; the first and the last are not.
    let words = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"];
    for n in 0..words.len() {
        let text: Vec<&str> = words[..=n].to_vec();
        desk.remember(&format!("wick tank clock lamp horn bell boat pier {}", text.join(" ")));
    }
    let (found, _) = scan_as(&desk, &operator(), 0.9);
    let all: Vec<&str> = found.iter().flat_map(ids).collect();
    let once: BTreeSet<&str> = all.iter().copied().collect();
    assert!(!found.is_empty() && all.len() == once.len(), "{found:?}");
    for group in &found {
        for other in group["others"].as_array().unwrap() {
            assert!(other["score"].as_f64().unwrap() >= 0.9, "{group}");
        }
        assert!(ids(group).len() < words.len(), "{group}");
    }
}

#[test]
fn versions_other_times_and_records_are_no_duplicates() {
    let desk = Desk::new();
    let old = desk.remember("The gateway listens on port 8080.");
    supersede(&desk, &old, "The gateway listens on port 8080!");
    let valid = |text: &str, from: &str, to: Option<&str>| {
        desk.call("brain_remember", json!({"text": text, "valid_from": from, "valid_to": to}));
    };
    valid("The relay is manned.", "2024-01-01T00:00:00Z", Some("2025-01-01T00:00:00Z"));
    valid("The relay is manned.", "2025-01-01T00:00:00Z", None);
    for _ in 0..2 {
        desk.call("record_task_attempt_tool", json!({"task": "Paint the beacon."}));
    }
    remember(&desk, json!({"text": "It is 8080.", "title": "Port of the gateway"}));
    remember(&desk, json!({"text": "It is 8080.", "title": "Port of the relay"}));
    assert_eq!(scan(&desk), Vec::<Value>::new());
}

#[test]
fn pages_go_through_the_whole_store_once() {
    let desk = Desk::new();
    let mut wanted = BTreeSet::new();
    for n in 0..70 {
        let text = format!("The keeper of beacon{n} is paid by the harbour.");
        let one = desk.remember(&text);
        if n % 2 == 0 {
            wanted.insert(BTreeSet::from([one, desk.remember(&text.to_uppercase())]));
        }
    }
    let (groups, pages) = scan_as(&desk, &operator(), 0.95);
    let of = |group: &Value| ids(group).into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(groups.len(), wanted.len());
    assert_eq!(groups.iter().map(of).collect::<BTreeSet<_>>(), wanted);
    assert!(pages >= 2, "{pages}");
    let again = scan_as(&desk, &operator(), 0.95).0;
    assert_eq!(again, groups, "it is stable");
    let cursor = desk.call(TOOL, json!({}))["next_cursor"].clone();
    let why = desk.refusal(TOOL, json!({"threshold": 0.8, "cursor": cursor}));
    assert!(why.starts_with("cursor: "), "{why}");
}

#[test]
fn of_more_copies_than_a_group_tells_the_rest_is_left_out_and_in_no_other() {
    let desk = Desk::new();
    for _ in 0..40 {
        desk.remember("Copyright of the keepers of the rock. All rights are theirs.");
    }
    let answer = desk.call(TOOL, json!({}));
    let groups = answer["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 1);
    assert_eq!(ids(&groups[0]).len(), 20);
    assert_eq!((&answer["truncated"], answer.get("next_cursor")), (&json!(true), None));
    assert_eq!(answer["bounds"]["items_of_a_group"], 20);
}

#[test]
fn what_policy_hides_is_in_no_group() {
    let desk = Desk::new();
    let text = "The vault is opened by two keepers.";
    desk.remember(text);
    remember(&desk, json!({"text": text, "gates": [VEILED]}));
    desk.remember("The safe is opened by nobody.");
    desk.remember_as("The safe is opened by nobody.", Sensitivity::Restricted);
    assert_eq!(scan(&desk).len(), 2);
    for threshold in [0.5, 0.95, 1.0] {
        let (found, _) = scan_as(&desk, &member(), threshold);
        assert_eq!(found, Vec::<Value>::new(), "{threshold}");
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
