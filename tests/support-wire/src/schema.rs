//! Results checked against the schemas of the catalog and of the OpenAPI description.

use std::collections::BTreeMap;
use std::fs;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::tree::workspace;

/// Fields of a tool's result: name, type, and true if always present.
type Fields = Vec<(String, String, bool)>;

/// Result fields of each tool in `docs/tools.md`, which is generated from the rows of the catalog.
fn results() -> &'static BTreeMap<String, Fields> {
    static RESULTS: OnceLock<BTreeMap<String, Fields>> = OnceLock::new();
    RESULTS.get_or_init(|| {
        let page =
            fs::read_to_string(workspace().join("docs/tools.md")).expect("the page is there");
        let tools = page.split("\n### ").skip(1).map(|part| {
            let (name, rest) = part.split_once('\n').expect("a tool has a text");
            let (_, table) =
                rest.split_once("\n| result | what | type |\n|---|---|---|\n").expect(name);
            let rows = table.lines().take_while(|line| line.starts_with("| "));
            let field = |row: &str| {
                let (field, rest) = row.strip_prefix("| `")?.split_once("` | ")?;
                let (_, kind) = rest.strip_suffix(" |")?.rsplit_once(" | ")?;
                let always = kind.strip_suffix(SOMETIMES);
                Some((field.to_owned(), always.unwrap_or(kind).to_owned(), always.is_none()))
            };
            (name.to_owned(), rows.map(|row| field(row).expect(row)).collect())
        });
        tools.collect()
    })
}

/// Marker of the page for an optional field.
const SOMETIMES: &str = ", where there is something to say";

/// Asserts that a tool's structured result matches the page of tools: each field has its type, all required fields are
/// present, and no other field is.
///
/// # Panics
/// The result does not match.
#[track_caller]
pub fn assert_conforms(tool: &str, structured: &Value) {
    let fields = results().get(tool).expect("a tool of the page");
    let properties: Map<String, Value> =
        fields.iter().map(|(name, kind, _)| (name.clone(), json!({"type": kind}))).collect();
    let always: Vec<&String> =
        fields.iter().filter_map(|(name, _, always)| always.then_some(name)).collect();
    let schema = json!({"type": "object", "properties": properties, "required": always,
        "additionalProperties": false});
    conforms(tool, "its result", &schema, structured);
}

/// Asserts that a value conforms to a schema of the catalog, by JSON Schema 2020-12.
///
/// # Panics
/// The value does not conform.
#[track_caller]
pub fn conforms(tool: &str, which: &str, schema: &Value, value: &Value) {
    let schema = jsonschema::draft202012::new(schema)
        .unwrap_or_else(|error| panic!("{which} of {tool} is no schema: {error}"));
    if let Err(error) = schema.validate(value) {
        panic!("{which} of {tool}: {error} at `{}` in {value}", error.instance_path());
    }
}

/// Asserts that a value conforms to a schema of the OpenAPI description; `root` is the whole description, whose
/// components the references point to.
///
/// # Panics
/// The value does not conform.
#[track_caller]
pub fn assert_fits(what: &str, value: &Value, schema: &Value, root: &Value) {
    let mut whole = schema.clone();
    whole["components"] = root["components"].clone();
    conforms(what, "its schema", &whole, value);
}

/// Asserts that no object of a schema is closed: clients must expect unknown fields.
///
/// # Panics
/// An object is closed.
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
