//! Answers against the schemas that the catalog and the description of the HTTP API give.

use recalld_tool_framework::Tool;
use recalld_tool_framework::results::RECEIPT;
use recalld_tools::FAMILIES;
use serde_json::Value;

/// The rows of the catalog, in its order.
pub fn rows() -> impl Iterator<Item = &'static Tool> {
    FAMILIES.iter().flat_map(|family| family.tools.iter())
}

/// A tool's structured answer conforms to its output schema, has what the row says is always there,
/// and nothing that the row does not name.
///
/// # Panics
/// Where it does not.
#[track_caller]
pub fn assert_conforms(tool: &str, structured: &Value) {
    let row = rows().find(|row| row.name == tool).expect("a tool of the catalog");
    conforms(tool, "outputSchema", &row.describe()["outputSchema"], structured);
    let object = structured.as_object().expect("its schema wants an object");
    let fields = || row.results.iter().chain([&RECEIPT]);
    for field in fields().filter(|field| field.always) {
        assert!(object.contains_key(field.name), "{tool} lacks {}: {structured}", field.name);
    }
    for name in object.keys() {
        assert!(fields().any(|field| field.name == name), "{tool} does not name {name}");
    }
}

/// A value conforms to a schema of the catalog, as JSON Schema 2020-12 has it.
///
/// # Panics
/// Where it does not.
#[track_caller]
pub fn conforms(tool: &str, which: &str, schema: &Value, value: &Value) {
    let schema = jsonschema::draft202012::new(schema)
        .unwrap_or_else(|error| panic!("{which} of {tool} is no schema: {error}"));
    if let Err(error) = schema.validate(value) {
        panic!("{which} of {tool}: {error} at `{}` in {value}", error.instance_path());
    }
}

/// A value is what a schema of the description of the HTTP API says; `root` is that description,
/// whose components its references point at.
///
/// # Panics
/// Where it is not.
#[track_caller]
pub fn assert_fits(what: &str, value: &Value, schema: &Value, root: &Value) {
    let mut whole = schema.clone();
    whole["components"] = root["components"].clone();
    conforms(what, "its schema", &whole, value);
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
