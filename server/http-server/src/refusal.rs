//! Error responses.

use crate::Response;
use crate::limits::RETRY_AFTER_SECONDS;

/// An error response: status, header fields and body.
#[derive(Clone, Debug)]
pub struct Refusal(Response);

impl Refusal {
    /// Creates a response with a status and the body `{"detail": ...}`.
    pub fn new(status: u16, detail: &str) -> Self {
        Self::of(status, &serde_json::json!({"detail": detail}))
    }

    /// Creates a response with a status and a body of its own: an object with `detail`.
    pub fn of(status: u16, body: &serde_json::Value) -> Self {
        Self(Response::json(status, body.to_string().into_bytes()))
    }

    /// Adds a header field.
    #[must_use]
    pub fn with(self, name: &'static str, value: impl Into<String>) -> Self {
        Self(self.0.header(name, value.into()))
    }

    /// 429: too many requests, with the seconds after which a retry may succeed.
    pub fn too_many(retry_after_seconds: u32) -> Self {
        let wait = retry_after_seconds.to_string();
        Self::new(429, "Too Many Requests").with("Retry-After", wait)
    }

    /// 503: a dependency of every governed request is unavailable.
    pub fn unavailable(detail: &str) -> Self {
        Self::new(503, detail).with("Retry-After", RETRY_AFTER_SECONDS.to_string())
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        refusal.0
    }
}
