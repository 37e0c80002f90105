//! Calls that are not answered.

use crate::Response;
use crate::limits::RETRY_AFTER_SECONDS;

/// Why a call is not answered: the status and body that say so.
#[derive(Clone, Debug)]
pub struct Refusal(Response);

impl Refusal {
    /// `{"detail": ...}` with a status.
    pub fn new(status: u16, detail: &str) -> Self {
        Self::of(status, &serde_json::json!({"detail": detail}))
    }

    /// A body of its own with a status: an object with `detail`.
    pub fn of(status: u16, body: &serde_json::Value) -> Self {
        Self(Response::json(status, body.to_string().into_bytes()))
    }

    /// The same with one more header.
    #[must_use]
    pub fn with(self, name: &'static str, value: impl Into<String>) -> Self {
        Self(self.0.header(name, value.into()))
    }

    /// 429: too often. Tried again after so many seconds, it may pass.
    pub fn too_many(retry_after_seconds: u32) -> Self {
        let wait = retry_after_seconds.to_string();
        Self::new(429, "Too Many Requests").with("Retry-After", wait)
    }

    /// 503: something that every governed call needs is not there now.
    pub fn unavailable(detail: &str) -> Self {
        Self::new(503, detail).with("Retry-After", RETRY_AFTER_SECONDS.to_string())
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        refusal.0
    }
}
