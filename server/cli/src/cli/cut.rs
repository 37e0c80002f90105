//! The error that ends a command's stream of output lines.

use std::io;

use engine::{CorruptionError, SearchError};

use super::failure::Failure;

pub(super) enum Cut {
    /// The output file or pipe failed.
    Writing(io::Error),
    /// A row of the store is unreadable.
    Damaged(CorruptionError),
    /// Any other error, with its remedy.
    Other(Failure),
}

impl From<io::Error> for Cut {
    fn from(error: io::Error) -> Self {
        Self::Writing(error)
    }
}

impl From<CorruptionError> for Cut {
    fn from(damage: CorruptionError) -> Self {
        Self::Damaged(damage)
    }
}

impl From<SearchError> for Cut {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Damaged(damage) => Self::Damaged(damage),
            other => Self::Other(Failure::could(other)),
        }
    }
}

impl From<Failure> for Cut {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

impl Cut {
    /// Converts into a [`Failure`]. `file` names the output; `damaged` formats the message for an unreadable row.
    pub(super) fn failure(self, file: &str, damaged: fn(&CorruptionError) -> String) -> Failure {
        match self {
            Self::Writing(error) => Failure::Could(format!(
                "{file}: {error}; make sure that there is space and that it may be written"
            )),
            Self::Damaged(damage) => Failure::Could(damaged(&damage)),
            Self::Other(failure) => failure,
        }
    }
}
