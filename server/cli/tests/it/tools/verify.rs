//! The ledger through tools: receipts, scans, the trail, withheld items and the reasons.

use std::fs;

use engine::Sensitivity;
use engine::ledger::{Decision, Effect, Outcome, TouchedItem};
use recalld_audit::Trace;
use recalld_common::scope::Scope;
use recalld_policy::Caller;
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member, operator};

use super::texts;

/// A member without `audit:read`.
fn plain_member() -> Caller {
    let mut member = member();
    member.scopes.retain(|scope| *scope != Scope::AuditRead);
    member
}

fn reconcile(desk: &Desk, caller: &Caller, receipts: &[Value]) -> Value {
    desk.call_as(caller, "receipt_reconcile_tool", json!({"receipts": receipts}))
}

#[test]
fn receipts_match_the_ledger_or_it_is_said_where_they_differ() {
    let desk = Desk::new();
    let receipts: Vec<Value> = (0..3)
        .map(|_| desk.call("list_task_attempts_tool", json!({}))["receipt"].clone())
        .collect();
    let mut changed = receipts[1].clone();
    changed["decision"] = "deny".into();
    changed["at"] = "2026-01-14T09:30:01Z".into();
    let mut other = receipts[2].clone();
    other["receipt_id"] = receipts[0]["receipt_id"].clone();
    let mut beyond = receipts[2].clone();
    beyond["seq"] = json!(1_000_000);
    let short = json!({"receipt_id": receipts[0]["receipt_id"], "seq": receipts[0]["seq"]});
    let asked = [receipts[2].clone(), changed, other, beyond, short, receipts[2].clone()];
    let answer = reconcile(&desk, &operator(), &asked);
    let verdicts = ["match", "mismatch", "mismatch", "missing", "match", "match"];
    assert_eq!(texts(&answer, "receipts", "verdict"), verdicts, "in the order given");
    assert_eq!(answer["receipts"][1]["differs"], json!(["decision", "at"]));
    assert_eq!(answer["receipts"][2]["differs"], json!(["receipt_id"]));
    assert_eq!(answer["ok"], false);
    let ledger = &answer["receipts"][0]["ledger"];
    for field in ["receipt_id", "seq", "decision", "rule", "at"] {
        assert_eq!(ledger[field], receipts[2][field], "{field}");
    }
    assert_eq!(ledger["tool"], "list_task_attempts_tool");
    assert!(answer["receipts"][3].get("ledger").is_none());
    assert_eq!(reconcile(&desk, &operator(), &receipts)["ok"], true);
    let none = json!({"receipts": vec![receipts[0].clone(); 101]});
    let why = desk.refusal("receipt_reconcile_tool", none);
    assert_eq!(why, "receipts: has 101 members; 1 to 100 are allowed");
}

#[test]
fn receipts_of_others_are_for_those_who_audit() {
    let desk = Desk::new();
    let theirs = desk.call("tenant_info", json!({}))["receipt"].clone();
    let own = desk.call_as(&plain_member(), "tenant_info", json!({}))["receipt"].clone();
    let guessed = json!({"receipt_id": own["receipt_id"], "seq": theirs["seq"]});
    let asked = [theirs, own, guessed];
    let seen = reconcile(&desk, &plain_member(), &asked);
    assert_eq!(texts(&seen, "receipts", "verdict"), ["missing", "match", "missing"]);
    assert!(seen["receipts"][2].get("ledger").is_none(), "{seen}");
    let seen = reconcile(&desk, &member(), &asked);
    assert_eq!(texts(&seen, "receipts", "verdict"), ["match", "match", "mismatch"]);
}

#[test]
fn no_receipt_tells_a_denial_from_what_is_not_there() {
    let desk = Desk::new();
    let secret = desk.call(
        "brain_remember",
        json!({"text": "The vault opens with left turns.", "sensitivity": "restricted"}),
    );
    let denied = secret["item"]["id"].clone();
    let receipts = |caller: &Caller| {
        [denied.clone(), json!("itm_00000000000000000000000099")].map(|id| {
            let answer = desk.try_call(caller, "get_item_tool", json!({"item_id": id}));
            json!(answer.unwrap_err().receipt)
        })
    };
    let names =
        |receipt: &Value| -> Vec<String> { receipt.as_object().unwrap().keys().cloned().collect() };
    let own = receipts(&plain_member());
    assert_eq!(names(&own[0]), ["at", "receipt_id", "seq"]);
    assert_eq!(names(&own[0]), names(&own[1]));
    for decision in ["allow", "deny"] {
        let asked = own.clone().map(|mut receipt| {
            receipt["decision"] = decision.into();
            receipt
        });
        let seen = reconcile(&desk, &plain_member(), &asked);
        assert_eq!(texts(&seen, "receipts", "verdict"), ["match", "match"], "{decision}");
        for row in seen["receipts"].as_array().unwrap() {
            assert!(row["ledger"].get("decision").or(row["ledger"].get("rule")).is_none(), "{row}");
        }
    }
    // An auditor sees the decisions.
    assert_eq!(receipts(&member())[0]["decision"], "deny");
    let seen = reconcile(&desk, &member(), &own);
    assert_eq!(texts(&seen, "receipts", "verdict"), ["match", "match"]);
    assert_eq!(seen["receipts"][0]["ledger"]["decision"], "deny");
    assert_eq!(seen["receipts"][1]["ledger"]["decision"], "allow");
}

#[test]
fn a_ledger_that_was_changed_is_found_out() {
    let desk = Desk::new();
    for n in 0..20 {
        desk.remember(&format!("number {n}"));
    }
    let files = desk.started().parts.local.get().audit.settled_files().unwrap();
    let sound = desk.call("ledger_integrity_scan_tool", json!({}));
    assert_eq!(
        (&sound["ok"], &sound["entries"], &sound["head_seq"]),
        (&json!(true), &json!(20), &json!(20))
    );
    assert!(sound.get("first_bad_seq").is_none() && sound.get("fault").is_none());
    assert_eq!(sound["head_hash"].as_str().unwrap().len(), 64);
    assert_eq!(sound["checkpoints"]["ok"], true);
    assert!(sound["checkpoints"]["count"].as_u64().unwrap() > 0, "{sound}");
    let part = desk.call("ledger_integrity_scan_tool", json!({"from_seq": 5, "to_seq": 9}));
    assert_eq!(
        (&part["entries"], &part["head_seq"], &part["ok"]),
        (&json!(5), &json!(9), &json!(true))
    );
    let why = desk.refusal("ledger_integrity_scan_tool", json!({"from_seq": 5, "to_seq": 4}));
    assert_eq!(why, "to_seq: is 4, which is before from_seq, 5");

    // Changes the tool's name in the twelfth entry.
    let [(path, _)] = &files[..] else { panic!("one volume is wanted") };
    let mut bytes = fs::read(path).unwrap();
    let name = b"brain_remember";
    let starts = bytes.windows(name.len()).enumerate().filter(|(_, window)| window == name);
    let start = starts.map(|(at, _)| at).nth(11).unwrap();
    bytes[start] = b'B';
    fs::write(path, bytes).unwrap();
    let bad = desk.call("ledger_integrity_scan_tool", json!({}));
    assert_eq!((&bad["ok"], &bad["first_bad_seq"]), (&json!(false), &json!(12)), "{bad}");
    assert_eq!((&bad["entries"], &bad["head_seq"]), (&json!(11), &json!(11)));
    let fault = bad["fault"].as_str().unwrap();
    assert!(fault.starts_with("LED-") && !fault.contains('/'), "no file is named: {fault}");
}

#[test]
fn the_trail_is_read_newest_first_in_pages() {
    let desk = Desk::new();
    let call = |n: usize| {
        let caller = if n.is_multiple_of(2) { operator() } else { member() };
        desk.call_as(&caller, "tenant_info", json!({}))["receipt"].clone()
    };
    let receipts: Vec<Value> = (0..45).map(call).collect();
    let mut arguments = json!({"tool": "tenant_info", "principal": "user:ada"});
    let mut seen: Vec<u64> = Vec::new();
    loop {
        let page = desk.call("audit_trail_tool", arguments.clone());
        let entries = page["entries"].as_array().unwrap();
        seen.extend(entries.iter().map(|entry| entry["seq"].as_u64().unwrap()));
        assert!(entries.iter().all(|entry| entry["principal"] == "user:ada"));
        let Some(cursor) = page.get("next_cursor") else { break };
        assert_eq!((entries.len(), &page["truncated"]), (20, &json!(true)));
        arguments["cursor"] = cursor.clone();
        desk.call_as(&member(), "tenant_info", json!({}));
    }
    assert_eq!(seen, (1..=45).rev().filter(|seq| seq % 2 == 0).collect::<Vec<u64>>());
    let some = json!({
        "tool": "tenant_info", "from": receipts[10]["at"], "to": receipts[12]["at"],
    });
    let some = desk.call("audit_trail_tool", some);
    let ids = [11, 10].map(|n: usize| receipts[n]["receipt_id"].as_str().unwrap());
    assert_eq!(texts(&some, "entries", "receipt_id"), ids);

    let secret = desk.remember_as("secret", Sensitivity::Restricted);
    let _none = desk.refusal_as(&member(), "get_item_tool", json!({"item_id": secret}));
    let denied = desk.call("audit_trail_tool", json!({"decision": "deny"}));
    let entry = &denied["entries"][0];
    assert_eq!(
        (&entry["tool"], &entry["rule"]),
        (&json!("get_item_tool"), &json!("fixed/restricted"))
    );
    assert_eq!(entry["touched"], json!([{"effect": "withheld", "item_id": secret}]));
    assert_eq!((&entry["outcome"], &entry["touched_total"]), (&json!("refused"), &json!(1)));
    assert_eq!(denied["entries"].as_array().unwrap().len(), 1);
}

#[test]
fn a_long_ledger_is_looked_through_window_by_window() {
    let desk = Desk::new();
    let first = desk.call("tenant_info", json!({}))["receipt"]["seq"].clone();
    let trace = Trace {
        tool: "recall",
        principal: "ada".to_owned(),
        arguments: [0; 32],
        decision: Decision::Allow,
        rule: "scope".to_owned(),
        touched: vec![TouchedItem { effect: Effect::Read, item: [7; 16] }],
        outcome: Outcome::Done,
    };
    for _ in 0..66_000 {
        desk.started().parts.local.get().audit.record(&trace, false).unwrap();
    }
    let last = desk.call("tenant_info", json!({}))["receipt"]["seq"].clone();
    let found = desk.call("audit_trail_tool", json!({"tool": "tenant_info"}));
    let seqs: Vec<&Value> =
        found["entries"].as_array().unwrap().iter().map(|entry| &entry["seq"]).collect();
    assert_eq!(seqs, [&last, &first]);
    assert_eq!(found["truncated"], false);
}

#[test]
fn sensitivity_events_are_told_one_by_one() {
    let desk = Desk::new();
    let veiled = json!({"text": "veiled", "gates": [VEILED]});
    let ids: Vec<String> = (0..25)
        .map(|_| {
            let item = desk.call("brain_remember", veiled.clone());
            item["item"]["id"].as_str().unwrap().to_owned()
        })
        .collect();
    let from = desk.call("tenant_info", json!({}))["receipt"]["at"].clone();
    for id in &ids {
        desk.call_as(&member(), "get_item_tool", json!({"item_id": id}));
        // An allowed read or write is no sensitivity event.
        desk.call("get_item_tool", json!({"item_id": id}));
    }
    let erased = desk.remember("gone");
    let wanted = json!({"item_id": erased, "reason": "r", "mode": "erase"});
    desk.call("forget_item_tool", wanted);

    let to = desk.call("tenant_info", json!({}))["receipt"]["at"].clone();
    let mut arguments = json!({"from": from, "to": to});
    let mut seen = Vec::new();
    loop {
        let page = desk.call("sensitivity_events_tool", arguments.clone());
        let word = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
        let events = page["events"].as_array().unwrap().iter();
        seen.extend(
            events.map(|event| {
                ["what", "item_id", "rule", "principal"].map(|name| word(event, name))
            }),
        );
        let Some(cursor) = page.get("next_cursor") else { break };
        arguments["cursor"] = cursor.clone();
    }
    let first = ["erased", &*erased, "scope", "operator"].map(str::to_owned);
    let rest =
        ids.iter().rev().map(|id| ["redacted", &**id, "veil", "user:ada"].map(str::to_owned));
    assert_eq!(seen, [first].into_iter().chain(rest).collect::<Vec<_>>());
    for none in [json!({"to": from}), json!({"from": to})] {
        assert_eq!(desk.call("sensitivity_events_tool", none)["events"], json!([]));
    }
}

#[test]
fn events_of_one_call_are_told_across_pages() {
    let desk = Desk::new();
    let touched: Vec<TouchedItem> =
        (0..50).map(|n| TouchedItem { effect: Effect::Withheld, item: [n; 16] }).collect();
    let trace = Trace {
        tool: "recall",
        principal: "ada".to_owned(),
        arguments: [0; 32],
        decision: Decision::Deny,
        rule: "rule".to_owned(),
        touched,
        outcome: Outcome::Done,
    };
    for _ in 0..2 {
        desk.started().parts.local.get().audit.record(&trace, false).unwrap();
    }
    let mut arguments = json!({});
    let mut seen = Vec::new();
    let mut sizes = Vec::new();
    loop {
        let page = desk.call("sensitivity_events_tool", arguments.clone());
        let events = page["events"].as_array().unwrap();
        sizes.push(events.len());
        seen.extend(events.iter().map(|event| (event["seq"].clone(), event["item_id"].clone())));
        let Some(cursor) = page.get("next_cursor") else { break };
        arguments["cursor"] = cursor.clone();
    }
    assert_eq!(sizes, [20; 5]);
    let mut once = seen.clone();
    once.dedup();
    assert_eq!(once.len(), 100, "each once");
    assert!(
        seen[..50].iter().all(|(seq, _)| *seq == 2) && seen[50..].iter().all(|(seq, _)| *seq == 1)
    );
    assert_eq!(seen[0].1, seen[50].1, "in the order of the entry");
}

#[test]
fn a_decision_is_explained_to_whoever_may_know_of_the_item() {
    let desk = Desk::new();
    let veiled = json!({"text": "veiled", "gates": [VEILED]});
    let veiled = desk.call("brain_remember", veiled)["item"]["id"].clone();
    let explain = |caller: &Caller, action: &str| {
        let wanted = json!({"item_id": veiled, "action": action});
        desk.call_as(caller, "policy_explain_tool", wanted)
    };
    for (caller, action, decision, rule) in [
        (operator(), "read", "allow", "default/operator"),
        (member(), "read", "redact", "veil"),
        (member(), "export", "allow", "default/export"),
        (member(), "write", "allow", "default/write"),
    ] {
        let answer = explain(&caller, action);
        let said = ["decision", "rule"].map(|name| answer[name].as_str().unwrap());
        assert_eq!(said, [decision, rule], "{action}");
        let tried = answer["tried"].as_array().unwrap();
        let local = desk.started().parts.local.get();
        let rules: Vec<&str> = local.rules.iter().map(|rule| &*rule.name).collect();
        assert_eq!(texts(&answer, "tried", "rule"), rules, "all of them, in their order");
        let decided = tried.iter().find(|one| one["rule"] == rule).unwrap();
        assert_eq!((&decided["matches"], &decided["decision"]), (&json!(true), &json!(decision)));
        let of_operator = tried.iter().find(|one| one["rule"] == "default/operator").unwrap();
        assert_eq!(of_operator["matches"], caller.plan == "operator");
    }
    let by_default = desk.call("policy_explain_tool", json!({"item_id": veiled}));
    assert_eq!(by_default["tried"], explain(&operator(), "read")["tried"]);
    let secret = desk.remember_as("secret", Sensitivity::Restricted);
    for id in [secret.as_str(), "itm_0000000000000000000000002k"] {
        for action in ["read", "write"] {
            let wanted = json!({"item_id": id, "action": action});
            let why = desk.refusal_as(&member(), "policy_explain_tool", wanted);
            assert_eq!(why, "item_id: there is no such item");
        }
    }
}
