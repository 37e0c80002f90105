//! Facts of an answer: each a name, a value, and the counter or tool that the value is from.

use serde_json::{Value, json};

/// The words for a value that is not there.
pub(crate) const NOTHING: &str = "none";

/// The facts of an answer, in the order in which phrases use them.
#[derive(Debug, Default)]
pub struct Facts(Vec<Value>);

impl Facts {
    /// The facts so far, each `{name, value, from}`.
    pub fn all(&self) -> &[Value] {
        &self.0
    }

    /// Notes a fact; gives its value in words.
    pub(crate) fn note(&mut self, name: &str, value: Value, from: &str) -> String {
        let words = in_words(&value);
        self.0.push(json!({"name": name, "value": value, "from": from}));
        words
    }

    /// A field of what a tool gave, as a fact. Its name leads into what is deeper by `/`.
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
