use std::fmt;

/// Damage: bytes on object storage that break a rule of the remote layout and that no correct writer can have written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Broken rule of `format-spec/remote.md`, such as `REM-02`.
    pub rule: &'static str,
    /// Found and expected value.
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
