use std::fmt;

use engine::DiskError;

use crate::parts::Untransferred;

/// Error of an applied record. The done part stays, and the record can be applied again; after an error of the
/// directory only by a new [`LocalCopy`](super::LocalCopy).
#[derive(Debug)]
pub enum NotApplied {
    /// An object was not fetched.
    Untransferred(Untransferred),
    /// The record does not fit the local state, or its manifest is invalid.
    Wrong(String),
    /// The directory failed.
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
