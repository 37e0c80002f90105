//! Errors of the protocol: code, words, data for programs, and the HTTP status that goes with them.

use std::time::Duration;

use serde_json::{Value, json};

/// A JSON-RPC error. The status counts where the request has an HTTP answer of its own, which is
/// always so in revision 2026-07-28 and for refusals of the transport.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    status: u16,
    code: i32,
    message: String,
    data: Option<Value>,
    /// What `WWW-Authenticate` says.
    challenge: Option<String>,
}

impl Fault {
    fn new(status: u16, code: i32, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), data: None, challenge: None }
    }

    /// -32700: not JSON.
    pub fn parse(message: &str) -> Self {
        Self::new(400, -32700, format!("Parse error: {message}"))
    }

    /// -32600: not a message, or not one that may stand here.
    pub fn invalid_request(message: &str) -> Self {
        Self::new(400, -32600, format!("Invalid Request: {message}"))
    }

    /// -32601.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(404, -32601, format!("Method not found: {}", shortened(method)))
    }

    /// -32602: wrong parameters of a method that is there.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(200, -32602, message)
    }

    /// -32602 for a request of revision 2026-07-28 whose `_meta` is not complete.
    pub fn envelope(message: &str) -> Self {
        Self::new(400, -32602, format!("Invalid params: {message}"))
    }

    /// -32603: a fault of ours.
    pub fn internal() -> Self {
        Self::new(200, -32603, "Internal error")
    }

    /// -32001: the call took longer than it may.
    pub fn timed_out(limit: Duration) -> Self {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Self::new(200, -32001, "Request timed out")
            .with_data(json!({"reason": "timed_out", "limit_ms": limit_ms}))
    }

    /// -32002: no such resource. Revision 2026-07-28 says -32602 instead.
    pub fn resource_not_found(uri: &str) -> Self {
        let uri = shortened(uri);
        Self::new(200, -32002, format!("Resource not found: {uri}")).with_data(json!({"uri": uri}))
    }

    /// -32020: a header is missing or says something else than the body.
    pub fn header_mismatch(message: impl Into<String>) -> Self {
        Self::new(400, -32020, message)
    }

    /// -32021: the client did not declare what the request needs.
    pub fn missing_capability(capability: &str) -> Self {
        let message =
            format!("this needs the client capability `{capability}`, which is undeclared");
        let mut required = serde_json::Map::new();
        required.insert(capability.to_owned(), json!({}));
        Self::new(400, -32021, message).with_data(json!({"requiredCapabilities": required}))
    }

    /// -32022: another revision than those that are served.
    pub fn unsupported_version(supported: &[&str], requested: &str) -> Self {
        let requested = shortened(requested);
        let message = format!("protocol version {requested} is not served");
        Self::new(400, -32022, message)
            .with_data(json!({"supported": supported, "requested": requested}))
    }

    /// -32000, one of ours, with its reason for programs.
    pub fn server(reason: &str, message: impl Into<String>) -> Self {
        Self::new(200, -32000, message).with_data(json!({"reason": reason}))
    }

    /// The same for a fault that only the operator can mend: 503, so that what stands before the server sees it too.
    pub fn unavailable(reason: &str, message: impl Into<String>) -> Self {
        Self::server(reason, message).with_status(503)
    }

    /// -32001 with 404: the session is over, or never was, or is another caller's.
    pub fn session_not_found() -> Self {
        let why = "Session not found: it is over or unknown; begin anew with initialize";
        Self::new(404, -32001, why).with_data(json!({"reason": "session_not_found"}))
    }

    /// The same with another HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// The same with a value of `WWW-Authenticate`, for an answer that holds nothing else.
    #[must_use]
    pub fn with_challenge(mut self, challenge: String) -> Self {
        self.challenge = Some(challenge);
        self
    }

    /// The same with one thing more for programs.
    #[must_use]
    pub fn with_fact(mut self, name: &'static str, value: Value) -> Self {
        self.data.get_or_insert_with(|| json!({}))[name] = value;
        self
    }

    /// What `WWW-Authenticate` says, if the answer has it.
    pub(super) fn challenge(&self) -> Option<&str> {
        self.challenge.as_deref()
    }

    fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The same as revision 2026-07-28 says it.
    #[must_use]
    pub(super) fn modern(mut self) -> Self {
        if self.code == -32002 {
            self.code = -32602;
        }
        self
    }

    /// The same as the handshake revisions say it: what a method answers has status 200, but for
    /// what is wrong with the transport, and undeclared capabilities have no code of their own.
    #[must_use]
    pub(super) fn handshake(mut self) -> Self {
        if self.code == -32021 {
            return Self::server("client_not_capable", self.message);
        }
        if self.code != -32000 {
            self.status = 200;
        }
        self
    }

    /// The HTTP status of an answer that holds nothing else.
    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// The `error` object.
    pub(super) fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }
}

/// What a client sent, short enough to send back.
fn shortened(text: &str) -> String {
    const SHOWN_CHARS: usize = 200;
    text.chars().take(SHOWN_CHARS).collect()
}
