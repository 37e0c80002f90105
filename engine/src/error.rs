//! The engine's public errors: one type for each act, and what to do about each.

use std::fmt;
use std::io;

/// Bytes that break a rule of the format. `rule` is an id of `format-spec/`, for example `SEG-06`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Id of the broken rule.
    pub rule: &'static str,
    /// What was found, and where, for a person to read.
    pub detail: String,
}

impl Damage {
    /// The rule of what is no damage: bytes that lie elsewhere did not come this time.
    pub const AWAY: &'static str = "FAR-01";

    /// Whether it is none, and bytes that lie elsewhere did not come this time ([`Damage::AWAY`]).
    pub fn is_away(&self) -> bool {
        self.rule == Self::AWAY
    }

    /// See [`Remedy`].
    pub fn remedy(&self) -> Remedy {
        if self.is_away() { Remedy::RetryLater } else { Remedy::Restore }
    }

    /// In a sentence about the store that it was found in.
    fn told(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_away() {
            true => write!(f, "a part of the store is not here yet: {self}"),
            false => write!(f, "the store is damaged: {self}"),
        }
    }

    /// Damage of `rule`, described by `detail`.
    pub fn new(rule: &'static str, detail: impl Into<String>) -> Self {
        Self { rule, detail: detail.into() }
    }

    /// The same damage with the name of the file it was found in.
    pub(crate) fn within(mut self, file: &str) -> Self {
        self.detail = format!("{file}: {}", self.detail);
        self
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

impl std::error::Error for Damage {}

/// Why a search, a walk or a count gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SearchError {
    /// Stored bytes break a rule of the format.
    Damaged(Damage),
    /// Its [`Stop`](crate::Stop) said that it is not wanted any more.
    Interrupted,
}

impl SearchError {
    /// See [`Remedy`].
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Damaged(damage) => damage.remedy(),
            Self::Interrupted => Remedy::RetryLater,
        }
    }

    /// The same damage with the name of the file it was found in.
    pub(crate) fn within(self, name: impl FnOnce(Damage) -> Damage) -> Self {
        match self {
            Self::Damaged(damage) => Self::Damaged(name(damage)),
            Self::Interrupted => Self::Interrupted,
        }
    }
}

impl fmt::Display for SearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(damage) => damage.fmt(f),
            Self::Interrupted => write!(f, "it was called off"),
        }
    }
}

impl std::error::Error for SearchError {}

impl From<Damage> for SearchError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Try again later; nothing needs changing.
    RetryLater,
    /// The request itself is wrong.
    FixRequest,
    /// The disk is full or refuses writes.
    FreeSpace,
    /// The store needs a newer build.
    Upgrade,
    /// Stored bytes are damaged: bring the store back from a backup, or salvage it.
    Restore,
    /// The writer has stopped; reopening the store recovers it.
    Reopen,
    /// Ask the one that has it: nothing needs changing but whom is asked.
    Elsewhere,
    /// It may have been done: look for what it was to make, by id or ref, before it is tried again.
    LookFirst,
}

/// A failed operation on the store's directory.
#[derive(Debug)]
pub struct DiskError {
    /// What was being done, as a verb: `sync`, `rename`, ...
    pub action: &'static str,
    /// The file's name within the store directory, or the directory's path.
    pub name: String,
    /// What the operating system said.
    pub source: io::Error,
}

impl DiskError {
    pub(crate) fn new(action: &'static str, name: impl Into<String>, source: io::Error) -> Self {
        Self { action, name: name.into(), source }
    }

    /// The same once more, for another one whom it concerns.
    pub(crate) fn again(&self) -> Self {
        let source = match self.source.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(self.source.kind(), self.source.to_string()),
        };
        Self::new(self.action, &self.name, source)
    }

    /// See [`Remedy`].
    pub fn remedy(&self) -> Remedy {
        match self.source.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::ReadOnlyFilesystem => Remedy::FreeSpace,
            _ => Remedy::RetryLater,
        }
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {} {}: {}", self.action, self.name, self.source)
    }
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Why a store did not open. Nothing that was acknowledged has been changed on disk.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process holds the directory's lock.
    Locked,
    /// The directory holds no store.
    NoStore,
    /// A file needs a build that reads this version of the format.
    TooNew {
        /// The file.
        file: String,
        /// The version it asks for.
        version: u16,
    },
    /// Bytes break a rule of the format.
    Damaged(Damage),
    /// The operating system refused something.
    Disk(DiskError),
    /// What an earlier process left could not be written anew: what failed, and what would help.
    Renewal(String, Remedy),
}

impl OpenError {
    /// See [`Remedy`].
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Locked => Remedy::RetryLater,
            Self::NoStore => Remedy::FixRequest,
            Self::TooNew { .. } => Remedy::Upgrade,
            Self::Damaged(damage) => damage.remedy(),
            Self::Disk(error) => error.remedy(),
            Self::Renewal(_, remedy) => *remedy,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked => write!(f, "the store is open in another process"),
            Self::NoStore => write!(f, "the directory holds no store"),
            Self::TooNew { file, version } => write!(
                f,
                "{file} needs a build that reads format version {version}; this one reads up to {}",
                crate::layout::READ_VERSION
            ),
            Self::Damaged(damage) => damage.told(f),
            Self::Disk(error) => error.fmt(f),
            Self::Renewal(why, _) => write!(f, "what the last process left: {why}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// What an opening writes anew can fail as a write does.
impl From<WriteError> for OpenError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Damaged(damage) => Self::Damaged(damage),
            WriteError::Disk(error) => Self::Disk(error),
            // Nothing is lost, and nobody waits for an answer of it.
            WriteError::Unsure(why) => Self::Renewal(why, Remedy::RetryLater),
            other => Self::Renewal(other.to_string(), other.remedy()),
        }
    }
}

impl From<Damage> for OpenError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<DiskError> for OpenError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

/// Why a batch was not acknowledged. Nothing of it is stored, except after [`WriteError::Disk`] and
/// [`WriteError::Stopped`]: then all of it or none may be there when the store is opened again, so ask
/// by id or ref before writing it once more.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The batch breaks a rule; `field` says where.
    Refused {
        /// The field, as a caller knows it: `supersedes`, `title`, ...
        field: &'static str,
        /// What was given and what is allowed.
        why: String,
    },
    /// Stored bytes that the check needed are damaged.
    Damaged(Damage),
    /// The disk failed during this write. The writer has stopped: reopen the store.
    Disk(DiskError),
    /// An earlier failure stopped the writer: reopen the store. Holds that failure's words.
    Stopped(String),
    /// Work in the background failed on a file that nothing names yet, or other writers took the room
    /// that this one waited for. The writer goes on; the work can be tried again.
    Postponed {
        /// What failed.
        why: String,
        /// What would help.
        remedy: Remedy,
    },
    /// The batch is logged here, and nobody knows whether it is carried. It may stand already, or later,
    /// or never; all of it or nothing. Holds why.
    Unsure(String),
    /// This store [follows](crate::Store::follow); somebody else writes it. Holds who, or why.
    NotHere(String),
}

impl WriteError {
    pub(crate) fn refused(field: &'static str, why: impl Into<String>) -> Self {
        Self::Refused { field, why: why.into() }
    }

    pub(crate) fn postponed(error: &DiskError) -> Self {
        Self::Postponed { why: error.to_string(), remedy: error.remedy() }
    }

    /// See [`Remedy`].
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Refused { .. } => Remedy::FixRequest,
            Self::Postponed { remedy, .. } => *remedy,
            Self::Damaged(damage) => damage.remedy(),
            Self::Unsure(_) => Remedy::LookFirst,
            Self::NotHere(_) => Remedy::Elsewhere,
            // The writer has stopped; with a full disk there is something to do first.
            Self::Disk(error) if error.remedy() == Remedy::FreeSpace => Remedy::FreeSpace,
            Self::Disk(_) | Self::Stopped(_) => Remedy::Reopen,
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { field, why } => write!(f, "{field}: {why}"),
            Self::Damaged(damage) => damage.told(f),
            Self::Disk(error) => write!(f, "{error}; the writer has stopped, reopen the store"),
            Self::Stopped(why) => write!(f, "the writer has stopped ({why}); reopen the store"),
            Self::Postponed { why, .. } => write!(f, "{why}; it can be tried again"),
            Self::NotHere(why) => f.write_str(why),
            Self::Unsure(why) => {
                write!(
                    f,
                    "{why}; it may stand or not: look for it by id or ref before trying again"
                )
            }
        }
    }
}

impl std::error::Error for WriteError {}

/// Nothing was written yet where something that must be read first did not come.
impl From<Damage> for WriteError {
    fn from(damage: Damage) -> Self {
        match damage.is_away() {
            true => Self::Postponed { why: damage.to_string(), remedy: damage.remedy() },
            false => Self::Damaged(damage),
        }
    }
}

impl From<DiskError> for WriteError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}
