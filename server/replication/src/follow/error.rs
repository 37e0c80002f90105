//! Why a record was not applied.

use std::fmt;

use engine::DiskError;

use crate::parts::Untransferred;

/// Why a record was not applied. What was done of it is done, and it can be applied again; after a fault of the
/// directory by a new [`LocalCopy`](super::LocalCopy) alone.
#[derive(Debug)]
pub enum NotApplied {
    /// An object did not come.
    Untransferred(Untransferred),
    /// The record does not fit what is here, or its manifest is none.
    Wrong(String),
    /// The directory.
    Disk(DiskError),
}

impl fmt::Display for NotApplied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untransferred(why) => why.fmt(f),
            Self::Wrong(why) => f.write_str(why),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NotApplied {}

impl From<Untransferred> for NotApplied {
    fn from(why: Untransferred) -> Self {
        Self::Untransferred(why)
    }
}

impl From<DiskError> for NotApplied {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}
