//! The error of a file of which nothing could be made.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why nothing could be made of a file.
#[derive(Debug)]
pub enum ForeignError {
    /// It cannot be read.
    Reading(PathBuf, io::Error),
    /// The lines cannot be written.
    Writing(io::Error),
    /// It is not of the shape that it was said to be, or of none that is known.
    Wrong(String),
    /// Nobody waits for it any more.
    Cancelled,
}

impl fmt::Display for ForeignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reading(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Writing(error) => write!(f, "the lines that it becomes: {error}; set TMPDIR"),
            Self::Wrong(why) => f.write_str(why),
            Self::Cancelled => f.write_str("called off"),
        }
    }
}

impl std::error::Error for ForeignError {}
