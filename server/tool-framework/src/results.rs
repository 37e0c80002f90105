//! Result fields of a tool: one list of fields generates `outputSchema`, and tests check the answers against the list.
//!
//! Every byte of the catalog enters a model's context. The schema is therefore terse: types, but not which fields are
//! required. [`Output::always`] states the required fields, and the tests check them.

use serde_json::{Map, Value, json};

/// JSON types of a result field. Each field has one type, because some clients do not support union types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// JSON string.
    Text,
    /// JSON integer.
    Integer,
    /// JSON number.
    Number,
    /// JSON boolean.
    Flag,
    /// JSON array.
    List,
    /// JSON object.
    Object,
}

impl Kind {
    /// Type name in JSON Schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Flag => "boolean",
            Self::List => "array",
            Self::Object => "object",
        }
    }
}

/// One field of a tool's result.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Field name.
    pub name: &'static str,
    /// JSON type of the field.
    pub kind: Kind,
    /// True if every answer has the field; false if the field is omitted when empty.
    pub always: bool,
    /// Description for people: shown on the catalog page, omitted from the list that models read.
    pub about: &'static str,
}

impl Output {
    /// Sets the description.
    pub const fn says(self, about: &'static str) -> Self {
        Self { about, ..self }
    }
}

/// A required field.
pub const fn always(name: &'static str, kind: Kind) -> Output {
    Output { name, kind, always: true, about: "" }
}

/// A field that is omitted when empty.
pub const fn sometimes(name: &'static str, kind: Kind) -> Output {
    Output { name, kind, always: false, about: "" }
}

/// Proof of the call's ledger entry; every audited answer has this field.
pub const RECEIPT: Output = always("receipt", Kind::Object)
    .says("Proof of the call's entry in the ledger: receipt_id, seq, decision, rule, at.");

/// True if a bound cut the list in the answer.
pub const TRUNCATED: Output = always("truncated", Kind::Flag).says("Whether a bound cut the list.");
/// Cursor at which the list continues.
pub const NEXT_CURSOR: Output =
    sometimes("next_cursor", Kind::Text).says("Where the list goes on.");
/// The bounds that cut a list.
pub const BOUNDS: Output =
    sometimes("bounds", Kind::Object).says("The bounds that cut it: rows, bytes.");

/// Builds the `outputSchema` of a tool with these fields and a receipt.
pub(super) fn output_schema(fields: &[Output]) -> Value {
    let fields = fields.iter().chain([&RECEIPT]);
    let properties: Map<String, Value> =
        fields.map(|field| (field.name.to_owned(), json!({"type": field.kind.name()}))).collect();
    json!({"type": "object", "properties": properties})
}

/// Removes the null fields of an object.
pub fn without_nulls(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !value.is_null());
    }
    object
}
