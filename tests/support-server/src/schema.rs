//! Results checked against the rows of the catalog.

use recalld_tool_framework::Tool;
use recalld_tool_framework::results::RECEIPT;
use recalld_tools::CATALOG;
use serde_json::Value;
use support_wire::schema::conforms;

/// The rows of the catalog, in order.
pub fn rows() -> impl Iterator<Item = &'static Tool> {
    CATALOG.tools()
}

/// Asserts that a tool's structured result conforms to its output schema, has all required fields of the row, and no
/// field that the row does not name.
///
/// # Panics
/// The result does not conform.
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
