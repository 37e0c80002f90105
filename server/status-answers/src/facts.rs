use serde::Serialize;
use serde_json::Value;

/// Text of a missing value.
pub(crate) const NOTHING: &str = "none";

/// A fact of an answer.
#[derive(Debug, Serialize)]
pub struct Fact {
    name: String,
    value: Value,
    /// The tool and field, or the counter, that supplied the value.
    pub(crate) from: String,
}

/// Facts of an answer, in the order of their use in phrases.
#[derive(Debug, Default)]
pub struct Facts(Vec<Fact>);

impl Facts {
    /// All recorded facts.
    pub fn all(&self) -> &[Fact] {
        &self.0
    }

    /// Records a fact, and returns the text of its value.
    pub(crate) fn note(&mut self, name: &str, value: Value, from: &str) -> String {
        let words = in_words(&value);
        self.0.push(Fact { name: name.to_owned(), value, from: from.to_owned() });
        words
    }

    /// Records a field of a tool's output as a fact; `/` in `field` separates the levels.
    pub(crate) fn field(&mut self, given: &Value, tool: &str, field: &str, name: &str) -> String {
        let value = given.pointer(&format!("/{field}")).cloned().unwrap_or(Value::Null);
        self.note(name, value, &format!("{tool}.{}", field.replace('/', ".")))
    }
}

fn in_words(value: &Value) -> String {
    match value {
        Value::Null => NOTHING.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) if list.is_empty() => NOTHING.to_owned(),
        Value::Array(list) => list.iter().map(in_words).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
