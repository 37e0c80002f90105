//! Requests that need input from the client before their result.

use serde_json::{Map, Value};

/// Outcome of a request that may need input from the client.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The result.
    Done(Value),
    /// Input is required first. The request comes again with the responses.
    NeedsInput(NeedsInput),
}

/// Requests for input to the client.
#[derive(Debug, Clone, Default)]
pub struct NeedsInput {
    /// Requests by key, each `{method, params}`, which the client must answer.
    pub requests: Map<String, Value>,
    /// State that the server handler needs with the responses. The state travels through the client authenticated, not
    /// encrypted.
    pub state: Option<Value>,
}

/// The client's responses to the input requests of an earlier round.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// Responses by key, as the client sent them: objects.
    pub responses: Map<String, Value>,
    /// The state of the previous round.
    pub state: Option<Value>,
}
