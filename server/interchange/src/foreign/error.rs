use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason for which an export was not converted.
#[derive(Debug)]
pub enum ForeignError {
    /// The file cannot be read.
    Reading(PathBuf, io::Error),
    /// The converted lines cannot be written.
    Writing(io::Error),
    /// The file is not of the stated format, or of no known one.
    Wrong(String),
    /// The conversion was cancelled.
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
