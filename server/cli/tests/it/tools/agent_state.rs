//! `agent_state`: versioned values under policy.

use engine::Sensitivity;
use recalld_common::scope::Scope;
use recalld_policy::Caller;
use serde_json::{Value, json};
use support_server::desk::{Desk, member, operator};

use super::texts;

fn write(desk: &Desk, value: Value, more: Value) -> Value {
    let mut wanted = json!({"agent_id": "planner", "key": "goal", "value": value});
    wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    desk.call("agent_state_write_tool", wanted)
}

fn read_as(desk: &Desk, caller: &Caller, purpose: &str) -> Value {
    let wanted = json!({"agent_id": "planner", "key": "goal", "purpose": purpose});
    desk.call_as(caller, "agent_state_read_admit_tool", wanted)
}

#[test]
fn a_value_has_versions_and_the_newest_is_given() {
    let desk = Desk::new();
    let none = read_as(&desk, &operator(), "to go on");
    assert_eq!((&none["admitted"], &none["why"]), (&json!(false), &json!("not there")));
    assert_eq!(write(&desk, json!({"step": 1}), json!({}))["version"], 1);
    assert_eq!(write(&desk, json!({"step": 2}), json!({}))["version"], 2);
    let now = read_as(&desk, &operator(), "to go on");
    assert_eq!(
        (&now["admitted"], &now["value"], &now["version"]),
        (&json!(true), &json!({"step": 2}), &json!(2))
    );
    for value in [json!([1, 2]), json!("text"), json!(7.5), json!(null), json!(true)] {
        write(&desk, value.clone(), json!({}));
        let wanted = if value.is_null() { json!({"json": null}) } else { json!({"json": value}) };
        assert_eq!(read_as(&desk, &operator(), "x")["value"], wanted);
    }
    let other = json!({"agent_id": "plannerg", "key": "oal", "value": {}});
    assert_eq!(desk.call("agent_state_write_tool", other)["version"], 1, "another agent's");
    let lineage =
        desk.call("agent_state_lineage_tool", json!({"agent_id": "planner", "key": "goal"}));
    let versions: Vec<&Value> =
        lineage["versions"].as_array().unwrap().iter().map(|row| &row["version"]).collect();
    assert_eq!(versions, [7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(texts(&lineage, "versions", "status")[..2], ["current", "superseded"]);
    let large = json!({"agent_id": "a", "key": "k", "value": {"x": "x".repeat(65_529)}});
    let why = desk.refusal("agent_state_write_tool", large);
    assert_eq!(why, "value: has 65537 bytes as JSON; 65536 are allowed");
}

#[test]
fn a_value_may_have_so_many_bytes_and_no_more() {
    const VALUE_BYTES_MAX: usize = 64 << 10;
    let desk = Desk::new();
    let long = |bytes: usize| json!("v".repeat(bytes - 2)); // and two quotes
    let names = json!({"agent_id": "\u{e9}".repeat(128), "key": "\u{e9}".repeat(256)});
    let told = write(&desk, long(VALUE_BYTES_MAX), names.clone());
    assert_eq!(told["version"], 1);
    let wanted = json!({"agent_id": names["agent_id"], "key": names["key"], "purpose": "to see"});
    let read = desk.call("agent_state_read_admit_tool", wanted);
    assert_eq!(read["value"]["json"], long(VALUE_BYTES_MAX));
    let mut more = names;
    more["value"] = long(VALUE_BYTES_MAX + 1);
    let why = desk.refusal("agent_state_write_tool", more);
    assert!(why.starts_with("value: "), "{why}");
}

#[test]
fn another_version_than_the_expected_one_is_not_overwritten() {
    let desk = Desk::new();
    write(&desk, json!({"n": 1}), json!({"expected_version": 0}));
    let refused = |expected: u64| {
        let wanted = json!({"agent_id": "planner", "key": "goal", "value": {}, "expected_version": expected});
        desk.refusal("agent_state_write_tool", wanted)
    };
    assert_eq!(refused(0), "expected_version: is 0; the current version is 1");
    assert_eq!(refused(2), "expected_version: is 2; the current version is 1");
    write(&desk, json!({"n": 2}), json!({"expected_version": 1}));
    let wins: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|n| {
                let wanted = json!({"agent_id": "planner", "key": "goal", "value": {"by": n}, "expected_version": 2});
                scope.spawn(|| desk.try_call(&operator(), "agent_state_write_tool", wanted).is_ok())
            })
            .collect();
        writers.into_iter().map(|writer| usize::from(writer.join().unwrap())).sum()
    });
    assert_eq!(wins, 1, "one of those that expect the same version");
    assert_eq!(read_as(&desk, &operator(), "x")["version"], 3);
}

#[test]
fn a_value_whose_time_is_over_is_not_given_and_its_version_stays() {
    let desk = Desk::new();
    let written = write(&desk, json!({"n": 1}), json!({"ttl_s": 60}));
    assert_eq!(written["expires_at"], "2026-01-14T09:31:00Z");
    desk.set_time("2026-01-14T09:30:59Z");
    assert_eq!(read_as(&desk, &operator(), "x")["admitted"], true);
    desk.set_time("2026-01-14T09:31:00Z");
    let over = read_as(&desk, &operator(), "x");
    assert_eq!((&over["admitted"], &over["why"]), (&json!(false), &json!("expired")));
    assert!(over.get("value").is_none());
    let lineage =
        desk.call("agent_state_lineage_tool", json!({"agent_id": "planner", "key": "goal"}));
    assert_eq!(texts(&lineage, "versions", "status"), ["expired"]);
    assert_eq!(write(&desk, json!({"n": 2}), json!({"expected_version": 1}))["version"], 2);
    assert_eq!(read_as(&desk, &operator(), "x")["admitted"], true);
}

#[test]
fn only_the_scope_opens_a_value_by_whatever_way() {
    let desk = Desk::new();
    let written = write(&desk, json!({"goal": "zeppelin harbour"}), json!({}));
    let without = Caller { scopes: vec![Scope::TenantRead, Scope::BrainProxy], ..member() };
    let asked = json!({"query": "zeppelin harbour"});
    let mine = desk.call_as(&member(), "retrieval_arbitrate_tool", asked.clone());
    assert!(mine.to_string().contains("zeppelin"), "recall finds it: {mine}");
    let theirs = desk.call_as(&without, "retrieval_arbitrate_tool", asked);
    assert!(!theirs.to_string().contains("zeppelin"), "{theirs}");
    let near = json!({"item_id": written["item_id"]});
    let why = desk.refusal_as(&without, "graph_neighbors_tool", near);
    assert_eq!(why, "item_id: there is no such item");
}

#[test]
fn policy_decides_and_what_it_decided_is_told() {
    let desk = Desk::new();
    write(&desk, json!({"n": 1}), json!({"sensitivity": Sensitivity::Restricted.name()}));
    let denied = read_as(&desk, &member(), "curiosity");
    assert_eq!((&denied["admitted"], &denied["decision"]), (&json!(false), &json!("deny")));
    assert!(denied.get("value").is_none() && denied.get("version").is_none(), "{denied}");
    assert_eq!(denied["receipt"]["decision"], "deny", "and it is in the ledger: {denied}");
    assert_eq!(denied["receipt"]["rule"], denied["rule"], "{denied}");
    assert_eq!(read_as(&desk, &operator(), "to go on")["decision"], "allow");
    write(&desk, json!({"n": 2}), json!({"sensitivity": Sensitivity::Public.name()}));
    assert_eq!(read_as(&desk, &member(), "x")["decision"], "deny", "it never falls");

    let wanted = json!({"agent_id": "planner", "key": "goal", "purpose": "x"});
    let as_whom = |somebody: Value| {
        let mut wanted = wanted.clone();
        wanted["as"] = somebody;
        desk.call("agent_state_policy_simulate_tool", wanted)
    };
    let team = as_whom(json!({"scopes": ["agent:state"], "plan": "team"}));
    assert_eq!((&team["admitted"], &team["decision"]), (&json!(false), &json!("deny")));
    let own = desk.call("agent_state_policy_simulate_tool", wanted.clone());
    assert_eq!((&own["admitted"], &own["rule"]), (&json!(true), &json!("default/operator")));
    assert!(desk.entry(&own["receipt"]).touched.is_empty(), "nothing counts as read");
    let why = desk.refusal(
        "agent_state_policy_simulate_tool",
        json!({"agent_id": "planner", "key": "goal", "purpose": "x", "as": {"scopes": ["all"]}}),
    );
    assert!(why.starts_with("as: names the scope \"all\"; tenant:read"), "{why}");
    // To a caller who may not see the value, it is indistinguishable from a missing one.
    let try_as = |key: &str| {
        let wanted = json!({"agent_id": "planner", "key": key, "purpose": "x"});
        let mut answer = desk.call_as(&member(), "agent_state_policy_simulate_tool", wanted);
        answer.as_object_mut().unwrap().remove("receipt");
        answer
    };
    assert_eq!(try_as("goal"), try_as("no such key"));
}
