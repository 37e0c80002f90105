//! Answers against the schemas that the catalog gives.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;

/// Whether a value is of the type that a schema names.
fn has_type(value: &Value, schema: &Value) -> bool {
    let is = |name: &str| match name {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    };
    match &schema["type"] {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().any(|name| is(name.as_str().unwrap())),
        _ => true,
    }
}

/// A tool's structured answer has what its output schema wants, and nothing that it does not name.
///
/// # Panics
/// Where it has not.
#[track_caller]
pub fn assert_conforms(tool: &str, structured: &Value, schemas: &[Value]) {
    let schema = &schemas.iter().find(|row| row["name"] == tool).unwrap()["outputSchema"];
    let object = structured.as_object().unwrap();
    for name in schema["required"].as_array().unwrap() {
        assert!(object.contains_key(name.as_str().unwrap()), "{tool} lacks {name}: {structured}");
    }
    for (name, value) in object {
        let known = &schema["properties"][name];
        assert!(has_type(value, known), "{tool}.{name} is {value}, {known} is wanted");
    }
}
