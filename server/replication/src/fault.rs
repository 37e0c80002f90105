//! Bytes that break a rule of the remote layout.

use std::fmt;

/// Bytes on object storage that cannot be what was written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The rule of `format-spec/remote.md` that they break, such as `REM-02`.
    pub rule: &'static str,
    /// What was found, and what was wanted.
    pub detail: String,
}

impl Damage {
    pub(crate) fn new(rule: &'static str, detail: impl Into<String>) -> Self {
        Self { rule, detail: detail.into() }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

impl std::error::Error for Damage {}
