//! Errors of the protocol: code, message, machine-readable data, and the HTTP status.

use std::time::Duration;

use serde_json::{Value, json};

/// A JSON-RPC error. The HTTP status applies if the response consists of this error alone. This is always the case in
/// revision 2026-07-28 and for errors of the transport.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    status: u16,
    code: i32,
    message: String,
    data: Option<Value>,
    /// Value of `WWW-Authenticate`.
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

    /// -32600: not a message, or a message that is not allowed here.
    pub fn invalid_request(message: &str) -> Self {
        Self::new(400, -32600, format!("Invalid Request: {message}"))
    }

    /// -32601: unknown method.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(404, -32601, format!("Method not found: {}", shortened(method)))
    }

    /// -32602: invalid parameters of a known method.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(200, -32602, message)
    }

    /// -32602 for a request of revision 2026-07-28 with an incomplete `_meta`.
    pub fn envelope(message: &str) -> Self {
        Self::new(400, -32602, format!("Invalid params: {message}"))
    }

    /// -32603: an error of the server.
    pub fn internal() -> Self {
        Self::new(200, -32603, "Internal error")
    }

    /// -32001: the request exceeded its time limit.
    pub fn timed_out(limit: Duration) -> Self {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Self::new(200, -32001, "Request timed out")
            .with_data(json!({"reason": "timed_out", "limit_ms": limit_ms}))
    }

    /// -32002: resource not found. Revision 2026-07-28 uses -32602 instead.
    pub fn resource_not_found(uri: &str) -> Self {
        let uri = shortened(uri);
        Self::new(200, -32002, format!("Resource not found: {uri}")).with_data(json!({"uri": uri}))
    }

    /// -32020: a header is missing or contradicts the body.
    pub fn header_mismatch(message: impl Into<String>) -> Self {
        Self::new(400, -32020, message)
    }

    /// -32021: the client did not declare a required capability.
    pub fn missing_capability(capability: &str) -> Self {
        let message =
            format!("this needs the client capability `{capability}`, which is undeclared");
        let mut required = serde_json::Map::new();
        required.insert(capability.to_owned(), json!({}));
        Self::new(400, -32021, message).with_data(json!({"requiredCapabilities": required}))
    }

    /// -32022: unsupported revision.
    pub fn unsupported_version(supported: &[&str], requested: &str) -> Self {
        let requested = shortened(requested);
        let message = format!("protocol version {requested} is not served");
        Self::new(400, -32022, message)
            .with_data(json!({"supported": supported, "requested": requested}))
    }

    /// -32000: an error specific to this server, with a machine-readable reason.
    pub fn server(reason: &str, message: impl Into<String>) -> Self {
        Self::new(200, -32000, message).with_data(json!({"reason": reason}))
    }

    /// -32000 with status 503, for an error that only the operator can fix, so that a gateway in front of the server
    /// notices.
    pub fn unavailable(reason: &str, message: impl Into<String>) -> Self {
        Self::server(reason, message).with_status(503)
    }

    /// -32001 with 404: the session has ended, never existed, or belongs to another caller.
    pub fn session_not_found() -> Self {
        let why = "Session not found: it is over or unknown; begin anew with initialize";
        Self::new(404, -32001, why).with_data(json!({"reason": "session_not_found"}))
    }

    /// Replaces the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a value of `WWW-Authenticate`, for a response that consists of this error alone.
    #[must_use]
    pub fn with_challenge(mut self, challenge: String) -> Self {
        self.challenge = Some(challenge);
        self
    }

    /// Adds a field to the machine-readable data.
    #[must_use]
    pub fn with_fact(mut self, name: &'static str, value: Value) -> Self {
        self.data.get_or_insert_with(|| json!({}))[name] = value;
        self
    }

    /// Value of `WWW-Authenticate`, if present.
    pub(super) fn challenge(&self) -> Option<&str> {
        self.challenge.as_deref()
    }

    fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Converts the error to the form of revision 2026-07-28.
    #[must_use]
    pub(super) fn modern(mut self) -> Self {
        if self.code == -32002 {
            self.code = -32602;
        }
        self
    }

    /// Converts the error to the form of the handshake revisions. Errors of methods have status 200, except errors of
    /// the transport; undeclared capabilities have no code of their own.
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

    /// HTTP status of a response that consists of this error alone.
    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// Returns the `error` object.
    pub(super) fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }
}

/// Truncates client input for the error message.
fn shortened(text: &str) -> String {
    const SHOWN_CHARS: usize = 200;
    text.chars().take(SHOWN_CHARS).collect()
}
