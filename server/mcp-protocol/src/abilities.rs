//! Capabilities of a client: the kinds of requests that the client can answer.

use serde_json::Value;

/// Declared capabilities of a client. Only these flags are stored, because the client may send a capabilities object as
/// large as a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Abilities {
    sampling: bool,
    elicitation: bool,
    roots: bool,
}

impl Abilities {
    /// Parses a client's capabilities object.
    pub(super) fn of(capabilities: &Value) -> Self {
        let has = |name: &str| capabilities.get(name).is_some_and(Value::is_object);
        Self { sampling: has("sampling"), elicitation: has("elicitation"), roots: has("roots") }
    }

    pub(super) fn has(self, capability: &str) -> bool {
        match capability {
            "sampling" => self.sampling,
            "elicitation" => self.elicitation,
            "roots" => self.roots,
            _ => false,
        }
    }
}

/// Returns the capability that a client needs to answer a method.
pub(super) fn capability_of(method: &str) -> Option<&'static str> {
    match method {
        "sampling/createMessage" => Some("sampling"),
        "elicitation/create" => Some("elicitation"),
        "roots/list" => Some("roots"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn abilities_are_what_is_declared_by_an_object() {
        let declared = json!({"sampling": {}, "elicitation": {"form": {}}, "roots": true, "x": {}});
        let abilities = Abilities::of(&declared);
        assert_eq!(abilities, Abilities { sampling: true, elicitation: true, roots: false });
        assert!(abilities.has("sampling") && abilities.has("elicitation"));
        assert!(!abilities.has("roots") && !abilities.has("x"));
        for nothing in [json!(null), json!([]), json!("sampling"), json!({})] {
            assert_eq!(Abilities::of(&nothing), Abilities::default(), "{nothing}");
        }
    }
}
