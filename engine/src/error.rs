//! Public error types of the engine, one for each operation, and the [`Remedy`] for each error.

use std::fmt;
use std::io;

/// Corruption: bytes that break a rule of the format. `rule` is an id of `format-spec/`, for example `SEG-06`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorruptionError {
    /// Id of the broken rule.
    pub rule: &'static str,
    /// The finding and its position, as text for a person.
    pub detail: String,
}

impl CorruptionError {
    /// Rule id for pages of a lazy file that could not be fetched this time, which is no corruption.
    pub const UNAVAILABLE_RULE: &'static str = "FAR-01";

    /// Returns true if the bytes are only unavailable for now ([`CorruptionError::UNAVAILABLE_RULE`]) and not corrupt.
    pub fn is_unavailable(&self) -> bool {
        self.rule == Self::UNAVAILABLE_RULE
    }

    /// Returns [`Remedy::RetryLater`] for unavailable bytes, [`Remedy::Restore`] for corrupt bytes.
    pub fn remedy(&self) -> Remedy {
        if self.is_unavailable() { Remedy::RetryLater } else { Remedy::Restore }
    }

    /// Formats the error as a sentence about the store.
    fn fmt_in_store(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_unavailable() {
            true => write!(f, "a part of the store is not here yet: {self}"),
            false => write!(f, "the store is damaged: {self}"),
        }
    }

    /// Makes an error for the broken `rule`, described by `detail`.
    pub fn new(rule: &'static str, detail: impl Into<String>) -> Self {
        Self { rule, detail: detail.into() }
    }

    /// Prefixes the detail with the file's name.
    pub(crate) fn in_file(mut self, file: &str) -> Self {
        self.detail = format!("{file}: {}", self.detail);
        self
    }
}

impl fmt::Display for CorruptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

impl std::error::Error for CorruptionError {}

/// Error of a search, a traversal or a count.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SearchError {
    /// Stored bytes break a rule of the format.
    Damaged(CorruptionError),
    /// The [`CancelToken`](crate::CancelToken) of the read was triggered.
    Interrupted,
}

impl SearchError {
    /// Returns the [`Remedy`] for this error.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Damaged(damage) => damage.remedy(),
            Self::Interrupted => Remedy::RetryLater,
        }
    }

    /// Applies `name` to the corruption, if any, to prefix the name of its file.
    pub(crate) fn map_damage(self, name: impl FnOnce(CorruptionError) -> CorruptionError) -> Self {
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

impl From<CorruptionError> for SearchError {
    fn from(damage: CorruptionError) -> Self {
        Self::Damaged(damage)
    }
}

/// Action by which a caller can resolve an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Retry later; nothing needs changing.
    RetryLater,
    /// Correct the request.
    FixRequest,
    /// Free disk space, or make the disk writable.
    FreeSpace,
    /// Install a newer build, which reads the store's format version.
    Upgrade,
    /// Restore the store from a backup, or salvage it: stored bytes are corrupt.
    Restore,
    /// Reopen the store: its writer has stopped, and reopening recovers it.
    Reopen,
    /// Send the unchanged request to the leader.
    AskLeader,
    /// Look up the request's records by id or ref before a retry: the write may have succeeded.
    CheckOutcome,
}

/// A failed operation on the store's directory.
#[derive(Debug)]
pub struct DiskError {
    /// The failed operation, as a verb: `sync`, `rename`, ...
    pub action: &'static str,
    /// The file's name within the store directory, or the directory's path.
    pub name: String,
    /// The error of the operating system.
    pub source: io::Error,
}

impl DiskError {
    pub(crate) fn new(action: &'static str, name: impl Into<String>, source: io::Error) -> Self {
        Self { action, name: name.into(), source }
    }

    /// Duplicates the error for a further caller that it concerns; `io::Error` is not `Clone`.
    pub(crate) fn duplicate(&self) -> Self {
        let source = match self.source.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(self.source.kind(), self.source.to_string()),
        };
        Self::new(self.action, &self.name, source)
    }

    /// Returns [`Remedy::FreeSpace`] for a full, over-quota or read-only disk, else [`Remedy::RetryLater`].
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

/// Error of opening a store. No acknowledged data has been changed on disk.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process holds the directory's lock.
    Locked,
    /// The directory holds no store.
    NoStore,
    /// A file needs a build that reads a newer version of the format.
    TooNew {
        /// Name of the file.
        file: String,
        /// Format version that the file requires.
        version: u16,
    },
    /// Bytes break a rule of the format.
    Damaged(CorruptionError),
    /// An operation of the operating system failed.
    Disk(DiskError),
    /// Recovery could not rewrite the files of an earlier process: the failure and its remedy.
    Recovery(String, Remedy),
}

impl OpenError {
    /// Returns the [`Remedy`] for this error.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Locked => Remedy::RetryLater,
            Self::NoStore => Remedy::FixRequest,
            Self::TooNew { .. } => Remedy::Upgrade,
            Self::Damaged(damage) => damage.remedy(),
            Self::Disk(error) => error.remedy(),
            Self::Recovery(_, remedy) => *remedy,
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
            Self::Damaged(damage) => damage.fmt_in_store(f),
            Self::Disk(error) => error.fmt(f),
            Self::Recovery(why, _) => write!(f, "what the last process left: {why}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// Recovery rewrites files, so an open can fail as a write does.
impl From<WriteError> for OpenError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Damaged(damage) => Self::Damaged(damage),
            WriteError::Disk(error) => Self::Disk(error),
            // Nothing is lost: no caller waits for the outcome of a write made by recovery.
            WriteError::Indeterminate(why) => Self::Recovery(why, Remedy::RetryLater),
            other => Self::Recovery(other.to_string(), other.remedy()),
        }
    }
}

impl From<CorruptionError> for OpenError {
    fn from(damage: CorruptionError) -> Self {
        Self::Damaged(damage)
    }
}

impl From<DiskError> for OpenError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

/// Error of a batch that was not acknowledged. The batch is not stored, except possibly after [`WriteError::Disk`],
/// [`WriteError::Stopped`] and [`WriteError::Indeterminate`]. After the first two, reopening the store may recover all
/// of the batch, or none of it. Look up its records by id or ref before writing the batch again.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The batch breaks a rule; `field` names the offending field.
    Refused {
        /// The field by its name in requests: `supersedes`, `title`, ...
        field: &'static str,
        /// The rejected value, and the allowed values.
        why: String,
    },
    /// Stored bytes that the check had to read are corrupt.
    Damaged(CorruptionError),
    /// The disk failed during this write. The writer has stopped: reopen the store.
    Disk(DiskError),
    /// An earlier failure, whose message this is, stopped the writer: reopen the store.
    Stopped(String),
    /// Background work failed on a file that no manifest lists yet, or other writers took the log space that this write
    /// waited for. The writer continues, and the work can be retried.
    Postponed {
        /// The failure.
        why: String,
        /// The remedy for the failure.
        remedy: Remedy,
    },
    /// Indeterminate write: the batch is logged here, but its replication outcome is unknown. All of the batch may be
    /// visible now or later, or none of it ever. The message says why.
    Indeterminate(String),
    /// This store is a [replica](crate::Store::open_replica), which rejects writes. The message names the leader, or
    /// the reason.
    NotLeader(String),
}

impl WriteError {
    pub(crate) fn refused(field: &'static str, why: impl Into<String>) -> Self {
        Self::Refused { field, why: why.into() }
    }

    pub(crate) fn postponed(error: &DiskError) -> Self {
        Self::Postponed { why: error.to_string(), remedy: error.remedy() }
    }

    /// Returns the [`Remedy`] for this error.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Refused { .. } => Remedy::FixRequest,
            Self::Postponed { remedy, .. } => *remedy,
            Self::Damaged(damage) => damage.remedy(),
            Self::Indeterminate(_) => Remedy::CheckOutcome,
            Self::NotLeader(_) => Remedy::AskLeader,
            // The writer has stopped, but reopening helps only once a full disk has space again.
            Self::Disk(error) if error.remedy() == Remedy::FreeSpace => Remedy::FreeSpace,
            Self::Disk(_) | Self::Stopped(_) => Remedy::Reopen,
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { field, why } => write!(f, "{field}: {why}"),
            Self::Damaged(damage) => damage.fmt_in_store(f),
            Self::Disk(error) => write!(f, "{error}; the writer has stopped, reopen the store"),
            Self::Stopped(why) => write!(f, "the writer has stopped ({why}); reopen the store"),
            Self::Postponed { why, .. } => write!(f, "{why}; it can be tried again"),
            Self::NotLeader(why) => f.write_str(why),
            Self::Indeterminate(why) => {
                write!(
                    f,
                    "{why}; it may stand or not: look for it by id or ref before trying again"
                )
            }
        }
    }
}

impl std::error::Error for WriteError {}

/// If bytes to be read first are unavailable, nothing was written yet.
impl From<CorruptionError> for WriteError {
    fn from(damage: CorruptionError) -> Self {
        match damage.is_unavailable() {
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
