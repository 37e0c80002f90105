//! Errors of private files.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Error of reading or writing credentials. Never contains a secret.
#[derive(Debug)]
#[non_exhaustive]
pub enum CredentialsError {
    /// Users other than the owner have access.
    TooOpen {
        /// The file or folder.
        path: PathBuf,
        /// The permission bits.
        mode: u32,
        /// The permission bits that are required.
        wanted: u32,
    },
    /// The content is invalid.
    Malformed {
        /// The file.
        path: PathBuf,
        /// Description of the defect.
        why: String,
    },
    /// The operating system rejected an operation.
    Disk {
        /// The operation.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl CredentialsError {
    /// Creates the error of a failed operation on a file.
    pub fn disk(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Disk { doing, path: path.to_owned(), source }
    }
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooOpen { path, mode, wanted } => {
                let path = path.display();
                write!(
                    f,
                    "others can get at {path} (mode {mode:03o}); run: chmod {wanted:03o} {path}"
                )
            }
            Self::Malformed { path, why } => write!(
                f,
                "{} is damaged: {why}. Restore it, or move it away to have a new one made",
                path.display()
            ),
            Self::Disk { doing, path, source } => {
                write!(f, "could not {doing} {}: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for CredentialsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Disk { source, .. } => Some(source),
            _ => None,
        }
    }
}
