//! What a tool gives: one list of fields gives `outputSchema`, and tests hold the answers to it.
//!
//! Every byte of the catalog lands in a model's context, so the schema is terse: the type of each
//! field, and not which of them are always there. That is known here, and tested.

use serde_json::{Map, Value, json};

/// The types that a field may have. One for each field: some clients know no unions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A whole number.
    Integer,
    /// A number, with a fraction or without.
    Number,
    /// True or false.
    Flag,
    /// A list.
    List,
    /// An object.
    Object,
}

impl Kind {
    /// Its name in JSON Schema.
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
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Whether every answer has it; else it is left out where there is nothing to say.
    pub always: bool,
    /// What it says, for people: the catalog's page has it, the list that models read does not.
    pub about: &'static str,
}

impl Output {
    /// With what it says.
    pub const fn says(self, about: &'static str) -> Self {
        Self { about, ..self }
    }
}

/// A field that every answer has.
pub const fn always(name: &'static str, kind: Kind) -> Output {
    Output { name, kind, always: true, about: "" }
}

/// A field that is left out where there is nothing to say.
pub const fn sometimes(name: &'static str, kind: Kind) -> Output {
    Output { name, kind, always: false, about: "" }
}

/// The proof of the call's entry in the ledger, which every governed answer carries.
pub const RECEIPT: Output = always("receipt", Kind::Object)
    .says("Proof of the call's entry in the ledger: receipt_id, seq, decision, rule, at.");

/// Whether a bound cut the list that the answer has.
pub const TRUNCATED: Output = always("truncated", Kind::Flag).says("Whether a bound cut the list.");
/// Where a list goes on.
pub const NEXT_CURSOR: Output =
    sometimes("next_cursor", Kind::Text).says("Where the list goes on.");
/// The bounds that cut a list.
pub const BOUNDS: Output =
    sometimes("bounds", Kind::Object).says("The bounds that cut it: rows, bytes.");

/// `outputSchema` of a tool that gives these fields and a receipt.
pub(super) fn output_schema(fields: &[Output]) -> Value {
    let fields = fields.iter().chain([&RECEIPT]);
    let properties: Map<String, Value> =
        fields.map(|field| (field.name.to_owned(), json!({"type": field.kind.name()}))).collect();
    json!({"type": "object", "properties": properties})
}

/// An object without the fields that have nothing to say.
pub fn without_nulls(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !value.is_null());
    }
    object
}
