//! Errors of opening a data directory, a model or the service.

use std::fmt;
use std::path::PathBuf;

/// Error of the start.
#[derive(Debug)]
pub enum StartError {
    /// Another process, probably a running server, has opened the store.
    Busy(PathBuf),
    /// Any other error; the message ends with the action to take.
    Failed(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(data) => write!(
                f,
                "{} is in use by another recalld process; stop it, or use another --data directory",
                data.display()
            ),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for StartError {}

/// Creates an error from a message that ends with the action to take.
pub fn failed(why: impl fmt::Display) -> StartError {
    StartError::Failed(why.to_string())
}
