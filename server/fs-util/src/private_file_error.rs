//! What stands between this installation and its secrets.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why there are no credentials. Never holds a secret.
#[derive(Debug)]
#[non_exhaustive]
pub enum CredentialsError {
    /// Others than the owner can get at it.
    TooOpen {
        /// The file or folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The bits it should have.
        wanted: u32,
    },
    /// It does not hold what it should.
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The operating system refused.
    Disk {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl CredentialsError {
    /// An operation on a file that the disk refused.
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
