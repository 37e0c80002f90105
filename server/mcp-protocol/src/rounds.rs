//! The rounds of a request that needs something from its client first.

use serde_json::{Map, Value};

/// What came of a request that may need something from the client.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The result.
    Done(Value),
    /// Questions first. The request comes again with their answers.
    NeedsInput(NeedsInput),
}

/// Questions to the client.
#[derive(Debug, Clone, Default)]
pub struct NeedsInput {
    /// By key: `{method, params}` of a request that a client answers.
    pub requests: Map<String, Value>,
    /// What the host wants back with the answers. It travels through the client sealed, not hidden.
    pub state: Option<Value>,
}

/// Answers to questions of an earlier round.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// By key, as the client gave them: objects.
    pub responses: Map<String, Value>,
    /// The state of the round before.
    pub state: Option<Value>,
}
