//! Task attempts: their state changes and their retained history.

use engine::Sensitivity;
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member};

use super::texts;

fn begin(desk: &Desk, task: &str, status: &str) -> String {
    let begun = desk.call("record_task_attempt_tool", json!({"task": task, "status": status}));
    begun["attempt"]["attempt_id"].as_str().unwrap().to_owned()
}

fn go(desk: &Desk, id: &str, status: &str) -> Value {
    let moved = json!({"attempt_id": id, "status": status, "note": format!("now {status}")});
    desk.call("update_task_attempt_status_tool", moved)["attempt"].clone()
}

#[test]
fn attempts_move_as_the_catalog_says_and_no_other_way() {
    const ALL: [&str; 6] = ["planned", "running", "blocked", "succeeded", "failed", "abandoned"];
    let allowed: [(&str, &[&str]); 6] = [
        ("planned", &["running", "abandoned"]),
        ("running", &["succeeded", "failed", "blocked", "abandoned"]),
        ("blocked", &["running", "abandoned"]),
        ("succeeded", &[]),
        ("failed", &[]),
        ("abandoned", &[]),
    ];
    let desk = Desk::new();
    for (from, to) in allowed {
        for next in ALL {
            let id =
                begin(&desk, "move the queue", if from == "planned" { from } else { "running" });
            if !["planned", "running"].contains(&from) {
                go(&desk, &id, from);
            }
            if to.contains(&next) {
                let attempt = go(&desk, &id, next);
                assert_eq!(attempt["status"], next, "{from} -> {next}");
                assert_eq!(attempt["attempt_id"], id, "the record keeps its id");
                assert_ne!(attempt["item_id"], id, "and each version has one of its own");
                continue;
            }
            let moved = json!({"attempt_id": id, "status": next});
            let why = desk.refusal("update_task_attempt_status_tool", moved);
            assert!(why.starts_with(&format!("status: is {next}; ")), "{from} -> {next}: {why}");
            let says = if to.is_empty() { "which is final".to_owned() } else { to.join(", ") };
            assert!(why.contains(&says), "{why}");
        }
    }
}

#[test]
fn an_attempt_has_its_history_by_whatever_version_it_is_named() {
    let desk = Desk::new();
    let parent = begin(&desk, "move the queue", "running");
    let approach = json!({
        "task": "measure the old one", "approach": "under load", "status": "planned",
        "parent_id": parent, "tags": ["queue"],
    });
    let begun = desk.call("record_task_attempt_tool", approach)["attempt"].clone();
    let id = begun["attempt_id"].as_str().unwrap();
    assert_eq!((&begun["parent_id"], &begun["tags"]), (&json!(parent), &json!(["queue"])));
    desk.set_time("2026-01-15T08:00:00Z");
    let running = go(&desk, id, "running");
    desk.set_time("2026-01-16T08:00:00Z");
    let done = json!({
        "attempt_id": running["item_id"], "status": "succeeded", "evidence": ["p99 is 4 ms"],
    });
    let done = desk.call("update_task_attempt_status_tool", done)["attempt"].clone();
    assert!(done.get("note").is_none(), "what was said of the version before is in it: {done}");
    for name in [&begun["item_id"], &running["item_id"], &done["item_id"]] {
        let whole = desk.call("get_task_attempt_tool", json!({"attempt_id": name}));
        assert_eq!(whole["attempt"], done);
        assert_eq!(texts(&whole, "history", "status"), ["planned", "running", "succeeded"]);
        let times = texts(&whole, "history", "at");
        assert_eq!(times[1..], ["2026-01-15T08:00:00Z", "2026-01-16T08:00:00Z"]);
        assert_eq!(whole["history"][1]["note"], "now running");
    }
    let found = desk.call("retrieval_arbitrate_tool", json!({"query": "p99 measured evidence"}));
    let ids = texts(&found, "items", "id");
    assert!(ids.contains(&done["item_id"].as_str().unwrap()), "{found}");
    let kind =
        desk.refusal("get_task_attempt_tool", json!({"attempt_id": desk.remember("a note")}));
    assert_eq!(kind, "attempt_id: is the id of a note; that of a task_attempt is wanted");
    let none = json!({"attempt_id": "tsk_0000000000000000000000002k"});
    assert_eq!(desk.refusal("get_task_attempt_tool", none), "attempt_id: there is no such item");
}

#[test]
fn a_long_history_and_much_evidence_are_cut_and_say_so() {
    let desk = Desk::new();
    let id = begin(&desk, "Mend the lens", "running");
    let evidence = vec!["e".repeat(2_048); 32];
    for n in 0..60 {
        let status = if n % 2 == 0 { "blocked" } else { "running" };
        let note = format!("{n} {}", "n".repeat(7_000));
        let wanted =
            json!({"attempt_id": id, "status": status, "note": note, "evidence": evidence});
        desk.call("update_task_attempt_status_tool", wanted);
    }
    let told = desk.call("get_task_attempt_tool", json!({"attempt_id": id}));
    let kept = told["attempt"]["evidence"].as_array().unwrap().len() as u64;
    assert!(kept > 0);
    assert_eq!(told["attempt"]["evidence_left_out"], 32 - kept, "{told}");
    assert_eq!(told["truncated"], true);
    for _ in 0..60 {
        desk.call(
            "update_task_attempt_status_tool",
            json!({"attempt_id": id, "status": "blocked"}),
        );
        desk.call(
            "update_task_attempt_status_tool",
            json!({"attempt_id": id, "status": "running"}),
        );
    }
    let told = desk.call("get_task_attempt_tool", json!({"attempt_id": id}));
    let history = told["history"].as_array().unwrap();
    assert_eq!((history.len(), &told["truncated"]), (100, &json!(true)));
    assert_eq!(history[99]["status"], "running", "the newest are told");
}

#[test]
fn arguments_that_are_too_much_together_are_refused_as_such() {
    let desk = Desk::new();
    let id = begin(&desk, "Mend the lens", "running");
    let evidence = vec!["\u{e9}".repeat(2_048); 32];
    let wanted = json!({"attempt_id": id, "status": "blocked", "evidence": evidence});
    let why = desk.refusal("update_task_attempt_status_tool", wanted);
    assert!(why.starts_with("arguments: come to ") && why.ends_with(" are allowed"), "{why}");
    let told = desk.call("get_task_attempt_tool", json!({"attempt_id": id}));
    assert_eq!(told["attempt"]["status"], "running", "nothing was written");
}

#[test]
fn attempts_are_listed_as_they_stand_the_newest_first() {
    let desk = Desk::new();
    for n in 0..45 {
        desk.set_time(&format!("2026-01-14T09:{n:02}:00Z"));
        let id = begin(&desk, &format!("task {n}"), "running");
        if n % 2 == 0 {
            go(&desk, &id, "failed");
        }
    }
    let mut seen = Vec::new();
    let mut arguments = json!({"status": "running"});
    loop {
        let page = desk.call("list_task_attempts_tool", arguments.clone());
        seen.extend(texts(&page, "attempts", "task").iter().map(|task| (*task).to_owned()));
        assert_eq!(page["truncated"], page.get("next_cursor").is_some());
        let Some(cursor) = page.get("next_cursor") else { break };
        arguments["cursor"] = cursor.clone();
        begin(&desk, "one that comes meanwhile", "running");
    }
    let wanted: Vec<String> =
        (0..45).rev().filter(|n| n % 2 == 1).map(|n| format!("task {n}")).collect();
    assert_eq!(seen, wanted);
    let named = desk.call("list_task_attempts_tool", json!({"task": "TASK 4"}));
    assert_eq!(
        texts(&named, "attempts", "task"),
        ["task 44", "task 43", "task 42", "task 41", "task 40", "task 4"]
    );
    let other = json!({"status": "failed", "cursor": arguments["cursor"]});
    assert!(desk.refusal("list_task_attempts_tool", other).starts_with("cursor: is none"));
}

#[test]
fn a_repeat_with_the_key_is_told_the_same_and_writes_nothing() {
    let desk = Desk::new();
    let first = json!({"task": "once", "idempotency_key": "k1"});
    let begun = desk.call("record_task_attempt_tool", first.clone());
    assert_eq!(desk.call("record_task_attempt_tool", first)["attempt"], begun["attempt"]);
    let other = json!({"task": "twice", "idempotency_key": "k1"});
    let why = desk.refusal("record_task_attempt_tool", other);
    assert!(why.starts_with("idempotency_key: was used before"), "{why}");
    let id = &begun["attempt"]["attempt_id"];
    let moved = json!({"attempt_id": id, "status": "failed", "idempotency_key": "k1"});
    let failed = desk.call("update_task_attempt_status_tool", moved.clone());
    assert_eq!(desk.call("update_task_attempt_status_tool", moved)["attempt"], failed["attempt"]);
    let list = desk.call("list_task_attempts_tool", json!({}));
    assert_eq!(texts(&list, "attempts", "status"), ["failed"]);
}

#[test]
fn of_two_that_move_the_same_attempt_one_is_refused() {
    let desk = Desk::new();
    for _ in 0..20 {
        let id = begin(&desk, "raced", "running");
        let to = ["succeeded", "failed"];
        let ends: Vec<bool> = std::thread::scope(|scope| {
            let movers = to.map(|status| {
                let (desk, id) = (&desk, &id);
                scope.spawn(move || {
                    let moved = json!({"attempt_id": id, "status": status});
                    let caller = support_server::desk::operator();
                    desk.try_call(&caller, "update_task_attempt_status_tool", moved).is_ok()
                })
            });
            movers.into_iter().map(|mover| mover.join().unwrap()).collect()
        });
        assert_eq!(ends.iter().filter(|&&done| done).count(), 1, "{ends:?}");
        let whole = desk.call("get_task_attempt_tool", json!({"attempt_id": id}));
        assert_eq!(whole["history"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn what_policy_hides_of_an_attempt_stays_hidden() {
    let desk = Desk::new();
    let ids: Vec<String> =
        ["public", "veiled", "secret"].iter().map(|task| begin(&desk, task, "running")).collect();
    // As from an import.
    desk.revise(&ids[1], |item| item.gates = vec![VEILED.to_owned()]);
    desk.revise(&ids[2], |item| item.sensitivity = Sensitivity::Restricted);
    let list = desk.call_as(&member(), "list_task_attempts_tool", json!({}));
    assert_eq!(texts(&list, "attempts", "task"), ["[redacted by policy]", "public"]);
    assert_eq!(list["receipt"]["decision"], "allow");
    let named = desk.call_as(&member(), "list_task_attempts_tool", json!({"task": "veiled"}));
    assert_eq!(named["attempts"], json!([]), "nobody finds by words what they may not read");
    let one = json!({"attempt_id": ids[2]});
    let why = desk.refusal_as(&member(), "get_task_attempt_tool", one.clone());
    assert_eq!(why, "attempt_id: there is no such item");
    let moved = json!({"attempt_id": ids[2], "status": "failed"});
    let why = desk.refusal_as(&member(), "update_task_attempt_status_tool", moved);
    assert_eq!(why, "attempt_id: there is no such item");
    assert_eq!(desk.call("get_task_attempt_tool", one)["attempt"]["task"], "secret");
}
