//! Errors of ledger operations: one type per operation, each with its remedy.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use super::entry::DraftError;
pub use crate::error::{DiskError, Remedy};

/// Wraps a failed system call on the file or directory at `path`.
pub(super) fn disk_error(action: &'static str, path: &Path, source: io::Error) -> DiskError {
    DiskError::new(action, path.display().to_string(), source)
}

/// Violation of a rule of format-spec/ledger.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerCorruption {
    /// Id of the broken rule, e.g. `LED-09`.
    pub rule: &'static str,
    /// Sequence number of the entry expected at the damaged position.
    pub seq: u64,
    /// Offset in bytes from the start of the volume.
    pub at: u64,
    /// Path of the volume.
    pub volume: PathBuf,
    /// Found and expected content.
    pub detail: String,
}

impl fmt::Display for LedgerCorruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, seq, at, volume, detail: what } = self;
        write!(f, "{rule}: {} at byte {at} (entry {seq}): {what}", volume.display())
    }
}

/// Failure to read a ledger.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes break a rule of the format.
    Damaged(LedgerCorruption),
    /// The volume requires a newer build: the version that the volume names.
    TooNew(u32),
    /// A system call failed.
    Disk(DiskError),
}

impl ReadError {
    /// Returns the remedy for this error.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Damaged(_) => Remedy::Restore,
            Self::TooNew(_) => Remedy::Upgrade,
            Self::Disk(disk) => disk.remedy(),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(damage) => write!(f, "the ledger is damaged: {damage}"),
            Self::TooNew(version) => {
                write!(
                    f,
                    "the ledger needs a build that knows ledger version {version}; this one stops at 1"
                )
            }
            Self::Disk(disk) => disk.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<DiskError> for ReadError {
    fn from(disk: DiskError) -> Self {
        Self::Disk(disk)
    }
}

/// Failure to open a ledger. No entry on disk has been changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum LedgerOpenError {
    /// Another writer has locked the directory.
    Locked(PathBuf),
    /// The ledger is shorter than, or differs from, the anchor stored elsewhere (LED-19).
    AnchorBroken {
        /// Sequence number of the anchor.
        anchor_seq: u64,
        /// Sequence number of the ledger's last entry.
        head_seq: u64,
    },
    /// The existing ledger could not be read.
    Read(ReadError),
}

impl LedgerOpenError {
    /// Returns the remedy for this error.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Locked(_) => Remedy::RetryLater,
            Self::AnchorBroken { .. } => Remedy::Restore,
            Self::Read(read) => read.remedy(),
        }
    }
}

impl fmt::Display for LedgerOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked(folder) => {
                write!(
                    f,
                    "another process has the ledger in {} open; stop it first",
                    folder.display()
                )
            }
            Self::AnchorBroken { anchor_seq, head_seq } => write!(
                f,
                "LED-19: the ledger ends at entry {head_seq} and does not contain the signed checkpoint \
                 of entry {anchor_seq}: entries were cut off or rewritten"
            ),
            Self::Read(read) => read.fmt(f),
        }
    }
}

impl std::error::Error for LedgerOpenError {}

impl From<ReadError> for LedgerOpenError {
    fn from(read: ReadError) -> Self {
        Self::Read(read)
    }
}

impl From<DiskError> for LedgerOpenError {
    fn from(disk: DiskError) -> Self {
        Self::Read(ReadError::Disk(disk))
    }
}

/// Failure to record an entry. The audited call must not proceed.
#[derive(Debug)]
#[non_exhaustive]
pub enum AppendError {
    /// The draft is invalid. Nothing was written, and the ledger accepts further entries.
    Draft(DraftError),
    /// The ledger has reached its maximum number of volumes; nothing was written.
    Full,
    /// This write or sync failed. The ledger accepts no more entries.
    Failed(DiskError),
    /// An earlier write or sync failed with this message. Until the ledger is reopened, it accepts no more entries.
    Closed(String),
}

impl AppendError {
    /// Returns the remedy for this error.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Draft(_) => Remedy::FixRequest,
            Self::Full => Remedy::FreeSpace,
            Self::Failed(disk) => disk.remedy(),
            Self::Closed(_) => Remedy::RetryLater,
        }
    }
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Draft(draft) => draft.fmt(f),
            Self::Full => f.write_str(
                "the ledger has as many volumes as it may have; archive it and start a new one",
            ),
            Self::Failed(disk) => write!(f, "the ledger is closed: {disk}"),
            Self::Closed(why) => write!(f, "the ledger is closed since an earlier failure: {why}"),
        }
    }
}

impl std::error::Error for AppendError {}

impl From<DraftError> for AppendError {
    fn from(draft: DraftError) -> Self {
        Self::Draft(draft)
    }
}
