//! Answers against the rows of the catalog.

use recalld_tool_framework::Tool;
use recalld_tool_framework::results::RECEIPT;
use recalld_tools::CATALOG;
use serde_json::Value;
use support_wire::schema::conforms;

/// The rows of the catalog, in its order.
pub fn rows() -> impl Iterator<Item = &'static Tool> {
    CATALOG.tools()
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
