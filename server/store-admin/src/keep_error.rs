//! Errors of jobs on a whole store.

use serde_json::{Value, json};

/// The reason for which a job did not start or finish. The text ends with the remedy.
#[derive(Debug)]
pub enum KeepError {
    /// The request is invalid.
    Wrong(String),
    /// The job failed.
    Failed(String),
}

impl KeepError {
    /// Returns a failure with its cause and remedy.
    pub(super) fn failed(why: impl std::fmt::Display, remedy: &str) -> Self {
        Self::Failed(format!("{why}; {remedy}"))
    }

    /// The error as an event of the operator's routes.
    pub fn to_json(&self) -> Value {
        json!({"detail": self.to_string(), "wrong_use": matches!(self, Self::Wrong(_))})
    }
}

impl std::fmt::Display for KeepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wrong(why) | Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for KeepError {}
