//! Why the control store did not do what was asked.

use std::fmt;

/// What an act calls the whole file.
pub(super) const FILE: &str = "file";

/// Why there is no answer, or nothing was changed. Never holds a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlError {
    /// The file cannot be used now: 503. Tried again by itself.
    Unavailable {
        /// What stands in the way, and what to do.
        why: String,
    },
    /// Something in the file does not read: 503. Nothing is made up in its place.
    Damaged {
        /// Where: a table, or `file`.
        table: &'static str,
        /// What is wrong there.
        why: String,
    },
    /// A newer build wrote the file: 503.
    TooNew {
        /// The version that it is of.
        found: u32,
        /// The newest that this build reads.
        known: u32,
    },
    /// Another node changes it, what is here is too old, or what carries it away did not answer: 503. The file is as it
    /// was.
    Far {
        /// What stands in the way, and what to do.
        why: String,
    },
    /// What was asked cannot be: the caller's fault, and nothing was changed.
    Refused {
        /// What of it.
        field: &'static str,
        /// What was found, and what is allowed.
        why: String,
    },
}

impl ControlError {
    /// The store cannot be used now.
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable { why: why.into() }
    }

    /// The node that writes the store cannot be asked.
    pub fn far(why: impl Into<String>) -> Self {
        Self::Far { why: why.into() }
    }

    pub(crate) fn damaged(table: &'static str, why: impl Into<String>) -> Self {
        Self::Damaged { table, why: why.into() }
    }

    pub(super) fn refused(field: &'static str, why: impl Into<String>) -> Self {
        Self::Refused { field, why: why.into() }
    }

    /// Whether it is the store that is at fault, and the answer is 503.
    pub fn is_fault(&self) -> bool {
        !matches!(self, Self::Refused { .. })
    }

    /// Whether something in the file is at fault, so that it helps to open it again.
    pub(super) fn is_of_record(&self) -> bool {
        self.is_fault() && !matches!(self, Self::Far { .. })
    }

    /// Whether nothing can be asked of the file any more until it is opened again.
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
