//! Errors of the metastore.

use std::fmt;

/// Pseudo table name for errors of the whole file.
pub(super) const FILE: &str = "file";

/// Reason for which a query or a change failed. Never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlError {
    /// The file cannot be used now: 503. Retried automatically.
    Unavailable {
        /// Cause and remedy.
        why: String,
    },
    /// The file is damaged: 503. Damaged content is never replaced by defaults.
    Damaged {
        /// Damaged table, or `file`.
        table: &'static str,
        /// Description of the damage.
        why: String,
    },
    /// A newer build wrote the file: 503.
    TooNew {
        /// Version of the file.
        found: u32,
        /// Newest supported version.
        known: u32,
    },
    /// Another node is the leader, the replica is too stale, or the replication failed: 503. The file is unchanged.
    Far {
        /// Cause and remedy.
        why: String,
    },
    /// Invalid request: the caller's fault; nothing was changed.
    Refused {
        /// The invalid field.
        field: &'static str,
        /// The fault, and the permitted values.
        why: String,
    },
}

impl ControlError {
    /// An `Unavailable` error.
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable { why: why.into() }
    }

    /// A `Far` error: the leader of the store is unreachable.
    pub fn far(why: impl Into<String>) -> Self {
        Self::Far { why: why.into() }
    }

    pub(crate) fn damaged(table: &'static str, why: impl Into<String>) -> Self {
        Self::Damaged { table, why: why.into() }
    }

    pub(super) fn refused(field: &'static str, why: impl Into<String>) -> Self {
        Self::Refused { field, why: why.into() }
    }

    /// Returns true if the store is at fault, and the response is 503.
    pub fn is_fault(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }

    /// Returns true if the file or a record is at fault, so that reopening the file may help.
    pub(super) fn is_of_record(&self) -> bool {
        self.is_fault() && !matches!(self, Self::Far { .. })
    }

    /// Returns true if the file is unusable until reopened.
    pub(super) fn is_of_file(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Damaged { table: FILE, .. })
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable { why } => write!(f, "the control store cannot be used: {why}"),
            Self::Damaged { table, why } => write!(
                f,
                "the control store is damaged in `{table}`: {why}; put a copy from a backup in its place"
            ),
            Self::TooNew { found, known } => write!(
                f,
                "the control store has version {found}, and this build reads up to {known}; \
                 run the build that wrote it, or a newer one"
            ),
            Self::Far { why } => f.write_str(why),
            Self::Refused { field, why } => write!(f, "`{field}`: {why}"),
        }
    }
}

impl std::error::Error for ControlError {}
