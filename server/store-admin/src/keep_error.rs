//! Why a job on a whole store did not come about.

use serde_json::{Value, json};

/// Why a job did not come about, or stopped. The text ends with what to do.
#[derive(Debug)]
pub enum KeepError {
    /// What was asked for is wrong.
    Wrong(String),
    /// It could not be done.
    Failed(String),
}

impl KeepError {
    /// It could not be done: what was wrong, and what to do.
    pub(super) fn failed(why: impl std::fmt::Display, remedy: &str) -> Self {
        Self::Failed(format!("{why}; {remedy}"))
    }

    /// As events of the operator's routes tell it.
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
