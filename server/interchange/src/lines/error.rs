use std::io;

use engine::{CorruptionError, SearchError, WriteError};

use recalld_embedding::inflow::Halt;

/// The reason for which an import ended early.
#[derive(Debug)]
pub enum ImportError {
    /// The file cannot be read.
    Reading(io::Error),
    /// The store refuses further writes; earlier batches remain stored.
    Writing(WriteError),
    /// Stored bytes are damaged.
    Damaged(CorruptionError),
    /// The import was cancelled; earlier batches remain stored.
    Cancelled,
}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> Self {
        Self::Reading(error)
    }
}

impl From<CorruptionError> for ImportError {
    fn from(damage: CorruptionError) -> Self {
        Self::Damaged(damage)
    }
}

impl From<SearchError> for ImportError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Damaged(damage) => Self::Damaged(damage),
            _ => Self::Cancelled,
        }
    }
}

impl From<Halt<Self>> for ImportError {
    fn from(halt: Halt<Self>) -> Self {
        match halt {
            Halt::Cancelled => Self::Cancelled,
            Halt::Failed(error) => error,
        }
    }
}
