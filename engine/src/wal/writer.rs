//! Writer of a log: appends frames and syncs them.
//!
//! Appends and syncs are separate, so that one sync can serve the frames of many writers. The callers decide when to
//! sync, and the writer only tracks the bytes known to be on disk.
//!
//! An operating system reports a failed sync once: the next sync of the same file succeeds without writing anything to
//! disk (Rebello et al., "Can applications recover from fsync failures?", ATC 2020). So syncs of a log run one at a
//! time, and no sync is attempted after a failed sync.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::frame::{FrameChecksum, HEADER_BYTES, WalHeader, frame_bytes};
use super::position::WalPosition;
use crate::error::{DiskError, Remedy};
use crate::ids::{Seq, StoreId};
use crate::layout::{self, FileKind};
use crate::limits::LOG_RESERVE_STEP;
use crate::manifest::{READ_VERSION, WRITE_VERSION};
use crate::os::disk::{Disk, DiskFile};

/// Durability of an acknowledged write: on disk, or only in the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Synced before the acknowledgement: survives a power cut.
    #[default]
    Sync,
    /// Written without a sync of its own: survives the end of the process. The background workers sync at this
    /// interval, so a power cut loses at most the writes of the last interval.
    Interval(Duration),
}

#[derive(Debug)]
pub(crate) struct WalWriter {
    shared: Arc<SharedFile>,
    number: u64,
    check: FrameChecksum,
    bytes: u64,
    /// File length including reserved space; `None` if no space is reserved.
    reserved: Option<u64>,
    first_seq: Seq,
    last_seq: Seq,
}

/// File and sync state, shared between the writer and its syncers.
#[derive(Debug)]
struct SharedFile {
    file: Arc<dyn DiskFile>,
    /// Bytes known to be on disk.
    synced_bytes: AtomicU64,
    /// Error of a failed sync, which every later sync returns. The lock is held during a sync.
    sync_error: Mutex<Option<DiskError>>,
}

impl SharedFile {
    /// Blocks until the first `end` bytes survive a power cut.
    fn sync(&self, end: u64) -> Result<(), DiskError> {
        if self.synced_bytes() >= end {
            return Ok(());
        }
        let mut failed = self.sync_error.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &*failed {
            return Err(error.duplicate());
        }
        // The previous lock holder may have synced these bytes.
        if self.synced_bytes() < end {
            self.file.sync().inspect_err(|error| *failed = Some(error.duplicate()))?;
            self.synced_bytes.fetch_max(end, Ordering::AcqRel);
        }
        Ok(())
    }

    fn synced_bytes(&self) -> u64 {
        self.synced_bytes.load(Ordering::Acquire)
    }
}

/// Syncs a log without its writer.
#[derive(Debug)]
pub(crate) struct WalSyncer {
    shared: Arc<SharedFile>,
    /// Appended bytes at the creation of this syncer.
    end: u64,
}

impl WalSyncer {
    /// Blocks until all bytes appended before the syncer's creation survive a power cut. Once a sync of the log has
    /// failed, this fails for all bytes not known to be on disk.
    pub(crate) fn sync(&self) -> Result<(), DiskError> {
        self.shared.sync(self.end)
    }
}

impl WalWriter {
    /// Creates a log whose first frame will be `first_seq`, and syncs its header. A manifest must list the log before
    /// its first frame is written. Space is reserved only with [`Durability::Sync`], where it makes syncs cheaper.
    pub(crate) fn create(
        disk: &dyn Disk,
        store: StoreId,
        number: u64,
        first_seq: Seq,
        durability: Durability,
    ) -> Result<Self, DiskError> {
        let file = disk.create(&layout::file_name(FileKind::Log, number))?;
        let log = Self::with_file(file.into(), store, number, first_seq, durability)?;
        disk.sync_names()?;
        Ok(log)
    }

    /// Writes the header into an empty file, and syncs it.
    pub(super) fn with_file(
        file: Arc<dyn DiskFile>,
        store: StoreId,
        number: u64,
        first_seq: Seq,
        durability: Durability,
    ) -> Result<Self, DiskError> {
        let (read_version, write_version) = (READ_VERSION, WRITE_VERSION);
        let header = WalHeader { read_version, write_version, store, number, first_seq };
        file.append(&header.encode())?;
        file.sync()?;
        let bytes = HEADER_BYTES as u64;
        let synced_bytes = AtomicU64::new(bytes);
        Ok(Self {
            shared: Arc::new(SharedFile { file, synced_bytes, sync_error: Mutex::default() }),
            number,
            check: FrameChecksum::placed(store, number),
            bytes,
            reserved: (durability == Durability::Sync).then_some(bytes),
            first_seq,
            last_seq: first_seq - 1,
        })
    }

    /// Appends one frame without syncing.
    pub(crate) fn append(
        &mut self,
        seq: Seq,
        payload: &[u8],
        records: u32,
    ) -> Result<(), DiskError> {
        assert_eq!(seq, self.last_seq + 1, "commits are logged in their order");
        self.reserve_room(self.bytes + frame_bytes(payload))?;
        self.write_frame(seq, payload, records)?;
        self.last_seq = seq;
        Ok(())
    }

    /// Blocks until all frames are on disk.
    pub(crate) fn sync(&self) -> Result<(), DiskError> {
        self.shared.sync(self.bytes)
    }

    /// Ends the log with a closing mark. All appends and syncs of the log must have succeeded.
    pub(crate) fn close(mut self) -> Result<(), DiskError> {
        // The mark declares all bytes before it synced, so they must be.
        self.sync()?;
        // No space is reserved for the mark: after a power cut, unsynced reserved space may read as any bytes, and only
        // zeros may follow the mark.
        self.write_frame(self.last_seq, &[], 0)?;
        self.sync()
    }

    /// Returns a handle that syncs while the writer appends.
    pub(crate) fn syncer(&self) -> WalSyncer {
        WalSyncer { shared: Arc::clone(&self.shared), end: self.bytes }
    }

    /// Number of the log.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes of the header and all frames.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Current position in the log.
    pub(crate) fn position(&self) -> WalPosition {
        let (log, first_seq, end, seq) = (self.number, self.first_seq, self.bytes, self.last_seq);
        WalPosition { log, first_seq, end, seq }
    }

    /// Length of the file: frames and reserved space.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.bytes.max(self.reserved.unwrap_or_default())
    }

    fn write_frame(&mut self, seq: Seq, payload: &[u8], records: u32) -> Result<(), DiskError> {
        let synced_bytes = self.shared.synced_bytes();
        let frame = self.check.encode_frame(self.bytes, seq, synced_bytes, records, payload);
        self.shared.file.append(&frame)?;
        self.bytes += frame.len() as u64;
        Ok(())
    }

    /// Reserves space for the log up to `end`. On a full disk a whole step may not fit while the frame does, so
    /// reservation is then given up.
    fn reserve_room(&mut self, end: u64) -> Result<(), DiskError> {
        if self.reserved.is_none_or(|reserved| end <= reserved) {
            return Ok(());
        }
        let wanted = end.next_multiple_of(LOG_RESERVE_STEP);
        match self.shared.file.reserve(wanted) {
            Ok(()) => self.reserved = Some(wanted),
            Err(error) if error.remedy() == Remedy::FreeSpace => self.reserved = None,
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
