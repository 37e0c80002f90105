//! Why lines that a command writes ended before their end.

use std::io;

use engine::{Damage, SearchError};

use super::failure::Failure;

/// What ended them.
pub(super) enum Cut {
    /// The file or pipe takes no more.
    Writing(io::Error),
    /// A row cannot be read.
    Damaged(Damage),
    /// Anything else, with what to do.
    Other(Failure),
}

impl From<io::Error> for Cut {
    fn from(error: io::Error) -> Self {
        Self::Writing(error)
    }
}

impl From<Damage> for Cut {
    fn from(damage: Damage) -> Self {
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
    /// What to tell: `file` is where the lines went, `damaged` what to say of a row that cannot be read.
    pub(super) fn failure(self, file: &str, damaged: fn(&Damage) -> String) -> Failure {
        match self {
            Self::Writing(error) => Failure::Could(format!(
                "{file}: {error}; make sure that there is space and that it may be written"
            )),
            Self::Damaged(damage) => Failure::Could(damaged(&damage)),
            Self::Other(failure) => failure,
        }
    }
}
