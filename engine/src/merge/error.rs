use crate::error::{CorruptionError, DiskError};

/// Error of a merge. The incomplete output in the sink is unusable.
#[derive(Debug)]
pub(crate) enum MergeError {
    /// An input breaks a rule of the format.
    Damaged(CorruptionError),
    /// The result would be larger than a segment can be (SEG-21, WRD-14).
    TooLarge(String),
    /// The sink failed.
    Disk(DiskError),
    /// The sink cancelled the merge.
    Cancelled,
}

impl std::fmt::Display for MergeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged(damage) => write!(f, "a segment to merge is damaged: {damage}"),
            Self::TooLarge(why) => write!(f, "the merged segment would be too large: {why}"),
            Self::Disk(error) => error.fmt(f),
            Self::Cancelled => write!(f, "it was called off"),
        }
    }
}

impl std::error::Error for MergeError {}

impl From<CorruptionError> for MergeError {
    fn from(damage: CorruptionError) -> Self {
        Self::Damaged(damage)
    }
}

impl From<DiskError> for MergeError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}
