//! Why an act on a ledger did not happen. One type per act; each says what to do about it.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use super::entry::DraftError;
pub use crate::error::{DiskError, Remedy};

/// A failed call to the operating system, on the file or folder at `path`.
pub(super) fn disk(action: &'static str, path: &Path, source: io::Error) -> DiskError {
    DiskError::new(action, path.display().to_string(), source)
}

/// Bytes that break a rule of format-spec/ledger.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The rule, e.g. `LED-09`.
    pub rule: &'static str,
    /// The sequence number of the entry that was expected there.
    pub seq: u64,
    /// Where, in bytes from the start of the volume.
    pub at: u64,
    /// The file.
    pub volume: PathBuf,
    /// What was found and what was wanted.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, seq, at, volume, what } = self;
        write!(f, "{rule}: {} at byte {at} (entry {seq}): {what}", volume.display())
    }
}

/// Why reading stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// Bytes break a rule.
    Damaged(Damage),
    /// The volume wants a newer build; holds the version it names.
    TooNew(u32),
    /// The operating system refused.
    Disk(DiskError),
}

impl ReadError {
    /// What to do about it.
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

/// Why a ledger did not open. No entry on disk has been changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum LedgerOpenError {
    /// Another writer holds the folder.
    Locked(PathBuf),
    /// The ledger is shorter than, or differs from, the checkpoint kept elsewhere (LED-19).
    AnchorBroken {
        /// Sequence number of the kept checkpoint.
        anchor_seq: u64,
        /// Sequence number of the last entry found.
        head_seq: u64,
    },
    /// What is there could not be read.
    Read(ReadError),
}

impl LedgerOpenError {
    /// What to do about it.
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

/// Why an entry was not recorded. The call it belongs to must not go on.
#[derive(Debug)]
#[non_exhaustive]
pub enum AppendError {
    /// The entry breaks a bound; nothing was written and the ledger goes on.
    Draft(DraftError),
    /// The ledger has as many volumes as it may have; nothing was written.
    Full,
    /// This write or sync failed. The ledger takes no more entries.
    Failed(DiskError),
    /// An earlier write or sync failed, as said. The ledger takes no more entries until it is
    /// opened anew.
    Closed(String),
}

impl AppendError {
    /// What to do about it.
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
