//! Every tool of the catalog is as agreed and behaves as declared. The tests are the same for all tools, and read the
//! expectations from the catalog.

use std::sync::Arc;

use recalld_common::scope::Scope;
use recalld_policy::plans::Plans;
use recalld_policy::rate::key_of;
use recalld_policy::{Caller, Metered};
use recalld_tool_framework::args::Field;
use recalld_tool_framework::{Change, Profile, Tool};
use recalld_tools::CATALOG;
use serde_json::{Map, Value, json};
use support_server::contract::agreed;
use support_server::desk::{Desk, operator};
use support_server::sample_catalog;
use support_server::schema::rows;

/// The arguments of a tool's example.
fn example(row: &Tool) -> Map<String, Value> {
    serde_json::from_str(row.example).unwrap()
}

/// Returns true if an agreed tool is in this build.
fn is_there(name: &str) -> bool {
    rows().any(|row| row.name == name)
}

/// Names of a caller's tools, sorted.
fn names_of(caller: &Caller) -> Vec<&'static str> {
    let mut names: Vec<&str> =
        CATALOG.visible_to(caller, Profile::Full).map(|tool| tool.name).collect();
    names.sort_unstable();
    names
}

/// Names of the agreed tools that match `has`, sorted.
fn agreed_names(has: impl Fn(&str, &str, Option<Scope>) -> bool) -> Vec<&'static str> {
    let there = agreed().filter(|(_, name, _)| is_there(name));
    let names = there.filter(|&(family, name, scope)| has(family, name, scope));
    let mut names: Vec<&str> = names.map(|(_, name, _)| name).collect();
    names.sort_unstable();
    names
}

/// A caller with this plan and all its scopes.
fn of_plan(name: &str) -> Caller {
    let plan = Arc::clone(Plans::built_in().find(name).unwrap());
    Caller { plan: name.to_owned(), scopes: plan.scopes.clone(), entitled: plan, ..operator() }
}

#[test]
fn the_catalog_is_what_was_agreed() {
    let families = CATALOG.families();
    let there: Vec<_> = families
        .flat_map(|family| family.tools.iter().map(|tool| (family.name, tool.name, tool.scope)))
        .collect();
    let missing: Vec<&str> =
        agreed().map(|(_, name, _)| name).filter(|name| !is_there(name)).collect();
    println!("{} of 75; not there yet: {missing:?}", there.len());
    assert_eq!(there, agreed().filter(|(_, name, _)| is_there(name)).collect::<Vec<_>>());
    assert_eq!(there.len() + missing.len(), 75);
}

#[test]
fn plans_and_scopes_have_the_tools_that_were_agreed() {
    assert_eq!(names_of(&operator()), agreed_names(|_, _, _| true));
    assert_eq!(names_of(&of_plan("operator")), agreed_names(|_, _, _| true));
    assert_eq!(names_of(&of_plan("free")), ["brain_recall", "brain_remember", "tenant_info"]);
    let is_teams =
        |family: &str, _: &str, scope| family != "bench" && scope != Some(Scope::AuditRead);
    assert_eq!(names_of(&of_plan("team")), agreed_names(is_teams));
    for &only in Scope::ALL {
        let caller = Caller { scopes: vec![only], ..operator() };
        let wants =
            |_: &str, _: &str, scope: Option<Scope>| scope.is_none_or(|scope| scope == only);
        assert_eq!(names_of(&caller), agreed_names(wants), "{only:?}");
    }
}

#[test]
fn every_example_runs_and_has_its_entry_in_the_ledger() {
    let desk = sample_catalog::desk();
    for row in rows() {
        let answer = desk.call(row.name, Value::Object(example(row)));
        let entry = desk.entry(&answer["receipt"]);
        assert_eq!((&*entry.tool, &*entry.principal), (row.name, "operator"));
        assert_eq!(answer["receipt"]["decision"], entry.decision.word(), "{}", row.name);
        assert_eq!(answer["receipt"]["rule"], entry.rule, "{}", row.name);
        assert_eq!(entry.outcome.word(), "done", "{}", row.name);
    }
}

/// For each limit of a field: a value beyond it, and one on it.
fn bounds(field: &Field) -> Vec<(Value, Value)> {
    let schema = &field.schema;
    let mut bounds = Vec::new();
    if let Some((min, max)) = field.chars {
        bounds.push((json!("x".repeat(max + 1)), json!("x".repeat(max))));
        if min > 0 {
            bounds.push((json!("x".repeat(min - 1)), json!("x".repeat(min))));
        }
    }
    for (name, step) in [("minimum", -1), ("maximum", 1)] {
        let Some(bound) = schema.get(name) else { continue };
        let beyond = match bound.as_i64() {
            Some(bound) => json!(bound + step),
            None => json!(bound.as_f64().unwrap() + f64::from(i32::try_from(step).unwrap())),
        };
        bounds.push((beyond, bound.clone()));
    }
    if let Some(most) = schema["maxItems"].as_u64() {
        let member = member_of(&schema["items"]);
        let list = |count: u64| json!(vec![member.clone(); usize::try_from(count).unwrap()]);
        bounds.push((list(most + 1), list(most)));
        if let Some(fewest) = schema["minItems"].as_u64() {
            bounds.push((list(fewest - 1), list(fewest)));
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        bounds.extend(words.iter().map(|word| (json!("no such word"), word.clone())));
    }
    bounds
}

/// A valid member of a list.
fn member_of(schema: &Value) -> Value {
    match schema["type"].as_str().unwrap() {
        "string" if schema.get("enum").is_some() => schema["enum"][0].clone(),
        "string" => json!("itm_00000000000000000000000001"),
        "object" => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            fields.map(|(name, schema)| (name.clone(), member_of(schema))).collect()
        }
        "array" => json!([]),
        "boolean" => json!(true),
        _ => json!(schema.get("minimum").and_then(Value::as_i64).unwrap_or(1)),
    }
}

/// A value of another type than the field's; `None` for the one field that accepts any JSON.
fn other_type(row: &Tool, field: &Field) -> Option<Value> {
    match field.schema["type"].as_str().unwrap() {
        "string" => Some(json!(7)),
        "integer" => Some(json!(1.5)),
        _ if (row.name, field.name) == ("agent_state_write_tool", "value") => None,
        _ => Some(json!("no such thing")),
    }
}

/// The error of a tool's example with one argument replaced.
fn refusal_with(desk: &Desk, row: &Tool, field: &Field, value: &Value) -> Option<String> {
    let mut raw = example(row);
    raw.insert(field.name.to_owned(), value.clone());
    let answer = desk.try_call(&operator(), row.name, Value::Object(raw));
    answer.err().map(|refused| refused.to_string())
}

#[test]
fn every_bound_of_every_argument_holds_on_both_sides() {
    let desk = sample_catalog::desk();
    let seq = || desk.started().parts.local.get().store.snapshot().seq();
    let words = ["are allowed", "is allowed", "is wanted"];
    for row in rows() {
        for field in (row.shape)() {
            let before = seq();
            let beyond = bounds(&field).into_iter().map(|(beyond, _)| beyond);
            for value in beyond.chain(other_type(row, &field)) {
                let why = refusal_with(&desk, row, &field, &value);
                let why =
                    why.unwrap_or_else(|| panic!("{}.{} takes {value}", row.name, field.name));
                assert!(why.starts_with(field.name), "{}.{}: {why}", row.name, field.name);
                assert!(words.iter().any(|word| why.contains(word)), "{}: {why}", row.name);
                assert!(why.len() < 400, "{}: {why}", row.name);
            }
            if field.required {
                let mut raw = example(row);
                raw.remove(field.name);
                let why = desk.refusal(row.name, Value::Object(raw));
                assert!(why.starts_with(&format!("{}: is missing", field.name)), "{why}");
            }
            assert_eq!(seq(), before, "{}: a refused call writes nothing", row.name);
        }
    }
    // Each tool has its own service, because a value on a limit may take effect.
    for row in rows() {
        let fields = (row.shape)();
        if fields.iter().all(|field| bounds(field).is_empty()) {
            continue;
        }
        let desk = sample_catalog::desk();
        for field in fields {
            for (_, value) in bounds(&field) {
                let Some(why) = refusal_with(&desk, row, &field, &value) else { continue };
                let is_bounds =
                    why.starts_with(field.name) && words[..2].iter().any(|word| why.contains(word));
                assert!(!is_bounds, "{}.{} refuses {value}: {why}", row.name, field.name);
            }
        }
    }
}

#[test]
fn a_caller_without_a_rows_scope_is_told_that_there_is_no_such_tool() {
    for row in rows() {
        let Some(scope) = row.scope else { continue };
        let mut caller = operator();
        caller.scopes.retain(|has| *has != scope);
        let error = CATALOG.find(&caller, row.name).err().unwrap();
        assert!(error.starts_with(&format!("Unknown tool: {}", row.name)), "{error}");
        caller.scopes.push(scope);
        assert_eq!(CATALOG.find(&caller, row.name).map(|tool| tool.name), Ok(row.name));
    }
}

#[test]
fn nobody_writes_before_the_address_is_confirmed() {
    let desk = sample_catalog::desk();
    let metered =
        Metered { bucket: key_of(b"unverified"), calls_per_month: None, may_write: false };
    let caller = Caller { metered: Some(metered), ..operator() };
    let before = desk.started().parts.local.get().store.snapshot().seq();
    for row in rows().filter(|row| row.change != Change::Nothing) {
        let why = desk.refusal_as(&caller, row.name, Value::Object(example(row)));
        assert!(why.contains("is confirmed"), "{}: {why}", row.name);
    }
    assert_eq!(desk.started().parts.local.get().store.snapshot().seq(), before);
}

#[test]
fn a_key_makes_a_repeat_of_any_write_harmless() {
    let desk = sample_catalog::desk();
    let seq = || desk.started().parts.local.get().store.snapshot().seq();
    for row in rows() {
        let has_key = (row.shape)().iter().any(|field| field.name == "idempotency_key");
        let takes_one = row.change != Change::Nothing;
        assert_eq!(has_key, takes_one, "{}: who writes takes a key", row.name);
        if !has_key {
            continue;
        }
        let mut raw = example(row);
        raw.insert("idempotency_key".to_owned(), json!("k"));
        let told = |raw: &Map<String, Value>| {
            let mut answer = desk.call(row.name, Value::Object(raw.clone()));
            answer.as_object_mut().unwrap().remove("receipt").unwrap();
            // A nested call has its own entry and receipt.
            if let Some(within) = answer.get_mut("result").and_then(Value::as_object_mut) {
                within.remove("receipt");
            }
            answer
        };
        let first = told(&raw);
        let after = seq();
        assert_eq!(told(&raw), first, "{}", row.name);
        assert_eq!(seq(), after, "{}: a repeat writes nothing", row.name);
        let texts = (row.shape)().into_iter().filter(|field| field.chars.is_some());
        let text = texts
            .map(|field| field.name)
            .find(|name| *name != "idempotency_key" && raw.contains_key(*name));
        if let Some(name) = text {
            let other = format!("{} ", raw[name].as_str().unwrap());
            raw.insert(name.to_owned(), json!(other));
            let why = desk.refusal(row.name, Value::Object(raw));
            assert!(why.starts_with("idempotency_key: was used before with other"), "{why}");
        }
    }
}
