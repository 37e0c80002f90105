//! Requirements on every tool of the catalog: accepted by the strictest known client, and short enough for a model's
//! context.

use std::collections::HashSet;

use recalld_common::scope::Scope;
use recalld_policy::Caller;
use recalld_tool_framework::{Change, Profile, Tool};
use recalld_tools::CATALOG;
use serde_json::{Map, Value, json};
use support_server::schema::rows;
use support_wire::schema::conforms;

/// Characters of a tool's name: some clients add the server's name and allow 64.
const NAME_CHARS_MAX: usize = 60;
/// Tokens of the whole tool list, in the vocabulary `o200k_base`.
const LIST_TOKENS_MAX: usize = 16_000;
/// Tokens of the core profile's tool list.
const CORE_TOKENS_MAX: usize = 4_000;

/// Planned size of the catalog: tools, arguments of all tools, result fields of all tools.
const PLANNED: [usize; 3] = [75, 200, 430];
/// Mean tokens allowed for each: a tool has its name, title, hints and description, an argument its name, schema and
/// description, a result field its name and type.
const TOKENS_EACH: [usize; 3] = [100, 24, 8];

const fn allowed([tools, arguments, results]: [usize; 3]) -> usize {
    tools * TOKENS_EACH[0] + arguments * TOKENS_EACH[1] + results * TOKENS_EACH[2]
}
const _: () = assert!(allowed(PLANNED) <= LIST_TOKENS_MAX, "the whole catalog must fit");

fn properties(schema: &Value) -> &Map<String, Value> {
    schema["properties"].as_object().unwrap()
}

/// Checks that a schema has no reference, no combination, and one type per value, at any depth.
fn assert_plain(tool: &str, schema: &Value) {
    const KEYWORDS: [&str; 13] = [
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "description",
        "default",
        "format",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
    ];
    for keyword in schema.as_object().unwrap().keys() {
        assert!(KEYWORDS.contains(&keyword.as_str()), "{tool}: `{keyword}` in {schema}");
    }
    let types = ["object", "array", "string", "integer", "number", "boolean"];
    assert!(types.contains(&schema["type"].as_str().unwrap_or_default()), "{tool}: {schema}");
    for member in schema.get("properties").into_iter().flat_map(|all| all.as_object().unwrap()) {
        assert_plain(tool, member.1);
    }
    for required in schema.get("required").into_iter().flat_map(|all| all.as_array().unwrap()) {
        let known = properties(schema).contains_key(required.as_str().unwrap());
        assert!(known, "{tool}: {required} is required and not described");
    }
    if let Some(items) = schema.get("items") {
        assert_plain(tool, items);
    }
}

#[test]
fn names_are_short_plain_and_used_once() {
    let mut seen = HashSet::new();
    for row in rows() {
        assert!((1..=NAME_CHARS_MAX).contains(&row.name.len()), "{}", row.name);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        assert!(row.name.bytes().all(plain), "{}", row.name);
        assert!(seen.insert(row.name), "{} is there twice", row.name);
    }
}

#[test]
fn schemas_are_flat_objects_that_any_client_reads() {
    for row in rows() {
        let tool = row.describe();
        let (input, output) = (&tool["inputSchema"], &tool["outputSchema"]);
        for schema in [input, output] {
            assert_plain(row.name, schema);
            assert_eq!(schema["type"], "object", "{}", row.name);
            jsonschema::draft202012::new(schema).unwrap();
        }
        assert_eq!(input["additionalProperties"], false, "{}", row.name);
        for (name, schema) in properties(input) {
            let about = schema["description"].as_str().unwrap_or_default();
            assert!(!about.is_empty(), "{}.{name} is not described", row.name);
            if let Some(default) = schema.get("default") {
                conforms(row.name, name, schema, default);
            }
        }
        assert!(properties(output).contains_key("receipt"), "{}", row.name);
        assert_eq!(properties(output).len(), row.results.len() + 1, "{}", row.name);
        let example: Value = serde_json::from_str(row.example).unwrap();
        conforms(row.name, "inputSchema", input, &example);
    }
}

#[test]
fn hints_are_explicit_and_say_what_the_row_does() {
    for row in rows() {
        let tool = row.describe();
        assert!(!row.title.is_empty() && !row.about.is_empty(), "{}", row.name);
        assert_eq!((&tool["title"], &tool["description"]), (&json!(row.title), &json!(row.about)));
        let hints = json!({
            "title": row.title, "readOnlyHint": row.change == Change::Nothing,
            "destructiveHint": row.change == Change::Removes,
            "idempotentHint": matches!(row.change, Change::Nothing | Change::AddsOnce),
            "openWorldHint": false,
        });
        assert_eq!(tool["annotations"], hints, "{}", row.name);
    }
}

/// Tokens of a tool list, as serialized for `tools/list`.
fn tokens(tools: &[&Tool]) -> usize {
    let list = json!({"tools": tools.iter().map(|tool| tool.describe()).collect::<Vec<_>>()});
    tiktoken_rs::o200k_base_singleton().encode_ordinary(&list.to_string()).len()
}

fn allowance(row: &Tool) -> usize {
    allowed([1, (row.shape)().len(), row.results.len() + 1])
}

#[test]
fn the_list_costs_a_model_no_more_than_it_may() {
    let all: Vec<&Tool> = rows().collect();
    let core: Vec<&Tool> = rows().filter(|row| row.core).collect();
    for row in &all {
        println!("{:>5} of {:>5} tokens: {}", tokens(&[row]), allowance(row), row.name);
    }
    let (whole, daily) = (tokens(&all), tokens(&core));
    let allowed: usize = all.iter().map(|row| allowance(row)).sum();
    println!("{whole} of {allowed} tokens for {} tools, {daily} for the core", all.len());
    assert!(whole <= LIST_TOKENS_MAX, "{whole} tokens");
    assert!(whole <= allowed, "{whole} tokens; {} tools of this shape have {allowed}", all.len());
    assert!(daily <= CORE_TOKENS_MAX, "{daily} tokens in the core profile");
}

#[test]
fn a_caller_is_told_of_tools_that_it_may_use_and_of_no_others() {
    let mut caller = Caller::local_operator("local");
    let meant = |caller: &Caller, name: &str| CATALOG.find(caller, name).map(|tool| tool.name);
    assert_eq!(meant(&caller, "brain_remember"), Ok("brain_remember"));
    let error = meant(&caller, "brain_rember").unwrap_err();
    assert_eq!(error, "Unknown tool: brain_rember; did you mean `brain_remember`?");
    caller.scopes = vec![Scope::BrainProxy];
    for name in ["brain_remember", "brain_rember"] {
        let error = meant(&caller, name).unwrap_err();
        assert_eq!(error, format!("Unknown tool: {name}; tools/list names those there are"));
    }
    for profile in Profile::ALL {
        assert!(
            CATALOG
                .visible_to(&caller, *profile)
                .all(|tool| tool.scope.is_none_or(|scope| scope == Scope::BrainProxy))
        );
    }
    let long = meant(&caller, &"x".repeat(10_000)).unwrap_err();
    assert!(long.len() < 200, "{long}");
}
