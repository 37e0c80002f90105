//! Why a data directory, a model or the service did not open.

use std::fmt;
use std::path::PathBuf;

/// Why the service did not start.
#[derive(Debug)]
pub enum StartError {
    /// Another process, very likely a running server, has the store.
    Busy(PathBuf),
    /// Anything else; the message ends with what to do.
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

/// The message, which ends with what to do.
pub fn failed(why: impl fmt::Display) -> StartError {
    StartError::Failed(why.to_string())
}
