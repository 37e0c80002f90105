//! Answers against the schemas that the catalog and the description of the HTTP API give.

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

/// A value is what a JSON Schema says; `root` is the document that its references point into. Knows the keywords
/// that ours use and no others.
///
/// # Panics
/// Where it is not, or where the schema has another keyword.
#[track_caller]
pub fn assert_fits(what: &str, value: &Value, schema: &Value, root: &Value) {
    if let Err(why) = fits(value, schema, root) {
        panic!("{what}: {why}");
    }
}

fn fits(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    let short = || value.to_string().chars().take(300).collect::<String>();
    let wants = |holds: bool| if holds { Ok(()) } else { Err(format!("{} but {schema}", short())) };
    for (keyword, wanted) in schema.as_object().unwrap() {
        let list = || wanted.as_array().unwrap();
        let number = || (value.as_f64(), wanted.as_f64().unwrap());
        match keyword.as_str() {
            "$ref" => {
                let to = root.pointer(wanted.as_str().unwrap().strip_prefix('#').unwrap());
                fits(value, to.unwrap(), root)?;
            }
            "type" => wants(has_type(value, schema))?,
            "enum" => wants(list().contains(value))?,
            "anyOf" => wants(list().iter().any(|one| fits(value, one, root).is_ok()))?,
            "required" => {
                wants(list().iter().all(|name| value.get(name.as_str().unwrap()).is_some()))?;
            }
            "minimum" => wants(number().0.is_none_or(|found| found >= number().1))?,
            "maximum" => wants(number().0.is_none_or(|found| found <= number().1))?,
            "pattern" => wants(is_hash(wanted, value.as_str().unwrap()))?,
            "items" => {
                for one in value.as_array().into_iter().flatten() {
                    fits(one, wanted, root)?;
                }
            }
            "properties" => {
                for (name, inner) in wanted.as_object().unwrap() {
                    if let Some(found) = value.get(name) {
                        fits(found, inner, root).map_err(|why| format!("{name}: {why}"))?;
                    }
                }
            }
            "additionalProperties" => {
                let named = |name: &String| schema["properties"].get(name).is_some();
                for (name, found) in value.as_object().into_iter().flatten() {
                    if !named(name) {
                        wants(*wanted != Value::Bool(false))
                            .map_err(|why| format!("{name}: {why}"))?;
                        if wanted.is_object() {
                            fits(found, wanted, root)?;
                        }
                    }
                }
            }
            "title" | "description" | "default" | "format" | "x-order" => {}
            other => return Err(format!("unknown keyword {other}")),
        }
    }
    Ok(())
}

/// The one pattern that we write: a SHA-256 in hexadecimal.
fn is_hash(pattern: &Value, text: &str) -> bool {
    assert_eq!(pattern, "^[0-9a-f]{64}$", "another pattern needs code here");
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// No object of a schema is closed: clients must expect fields that are not named.
///
/// # Panics
/// Where one is.
#[track_caller]
pub fn assert_open(name: &str, schema: &Value) {
    match schema {
        Value::Object(fields) => {
            assert_ne!(fields.get("additionalProperties"), Some(&Value::Bool(false)), "{name}");
            fields.values().for_each(|field| assert_open(name, field));
        }
        Value::Array(members) => members.iter().for_each(|member| assert_open(name, member)),
        _ => {}
    }
}
