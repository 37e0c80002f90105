//! A log open for appending.
//!
//! Appending and syncing are apart, so that one sync can serve the frames of many writers. Knows
//! what is on disk only from who synced; does not decide when that happens.
//!
//! An operating system tells of a failed sync once: the next one of the same file succeeds and brings
//! nothing to disk (Rebello et al., "Can applications recover from fsync failures?", ATC 2020). So
//! syncs of a log are done one at a time, and none is tried after one that failed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::frame::{Check, HEADER_BYTES, Header, frame_bytes};
use super::mark::LogMark;
use crate::error::{DiskError, Remedy};
use crate::ids::{Seq, StoreId};
use crate::layout::{self, FileKind};
use crate::limits::LOG_RESERVE_STEP;
use crate::manifest::{READ_VERSION, WRITE_VERSION};
use crate::os::disk::{Disk, DiskFile};

/// Whether an acknowledged write has reached the disk, or only the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Synced before it is acknowledged: survives a power cut.
    #[default]
    Sync,
    /// Written but not synced by the write itself: survives the end of the process. Upkeep syncs at
    /// this interval, so a power cut takes at most the writes of the last one.
    Interval(Duration),
}

/// A log open for appending.
#[derive(Debug)]
pub(crate) struct LogWriter {
    shared: Arc<Shared>,
    number: u64,
    check: Check,
    bytes: u64,
    /// How long the file has been made; `None` where no room is reserved.
    reserved: Option<u64>,
    first_seq: Seq,
    last_seq: Seq,
}

/// The file, and what all that sync it know of it.
#[derive(Debug)]
struct Shared {
    file: Arc<dyn DiskFile>,
    /// How many bytes are known to be on disk.
    synced_bytes: AtomicU64,
    /// Held while the file is synced; why it failed, which is the answer to all who come later.
    failed: Mutex<Option<DiskError>>,
}

impl Shared {
    /// Returns once the first `end` bytes survive a power cut.
    fn sync(&self, end: u64) -> Result<(), DiskError> {
        if self.synced_bytes() >= end {
            return Ok(());
        }
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &*failed {
            return Err(error.again());
        }
        // Whoever had the lock before may have done it.
        if self.synced_bytes() < end {
            self.file.sync().inspect_err(|error| *failed = Some(error.again()))?;
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
pub(crate) struct LogSyncer {
    shared: Arc<Shared>,
    /// How much had been appended when this was made.
    end: u64,
}

impl LogSyncer {
    /// Returns once all that was appended before this was made survives a power cut. Once this has
    /// failed for anyone it fails for all whose bytes are not known to be on disk.
    pub(crate) fn sync(&self) -> Result<(), DiskError> {
        self.shared.sync(self.end)
    }
}

impl LogWriter {
    /// A new log whose first frame will be `first_seq`. Its header is on disk; a manifest must name
    /// it before its first frame is written. Room is reserved only where syncs gain by it.
    pub(crate) fn create(
        disk: &dyn Disk,
        store: StoreId,
        number: u64,
        first_seq: Seq,
        durability: Durability,
    ) -> Result<Self, DiskError> {
        let file = disk.create(&layout::name(FileKind::Log, number))?;
        let log = Self::begin(file.into(), store, number, first_seq, durability)?;
        disk.sync_names()?;
        Ok(log)
    }

    /// Writes the header into an empty file, and syncs it.
    pub(super) fn begin(
        file: Arc<dyn DiskFile>,
        store: StoreId,
        number: u64,
        first_seq: Seq,
        durability: Durability,
    ) -> Result<Self, DiskError> {
        let (read_version, write_version) = (READ_VERSION, WRITE_VERSION);
        let header = Header { read_version, write_version, store, number, first_seq };
        file.append(&header.encode())?;
        file.sync()?;
        let bytes = HEADER_BYTES as u64;
        let synced_bytes = AtomicU64::new(bytes);
        Ok(Self {
            shared: Arc::new(Shared { file, synced_bytes, failed: Mutex::default() }),
            number,
            check: Check::placed(store, number),
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
        self.make_room(self.bytes + frame_bytes(payload))?;
        self.put(seq, payload, records)?;
        self.last_seq = seq;
        Ok(())
    }

    /// Waits until all frames are on disk.
    pub(crate) fn sync(&self) -> Result<(), DiskError> {
        self.shared.sync(self.bytes)
    }

    /// Ends the log with a mark. Only for a log whose appends and syncs have all succeeded.
    pub(crate) fn close(mut self) -> Result<(), DiskError> {
        // The mark says that all before it is on disk, so it is made to be.
        self.sync()?;
        // No room is made for it: what a power cut shows of room that was never on disk would follow the
        // mark, and nothing may.
        self.put(self.last_seq, &[], 0)?;
        self.sync()
    }

    /// A handle that syncs while the writer appends.
    pub(crate) fn syncer(&self) -> LogSyncer {
        LogSyncer { shared: Arc::clone(&self.shared), end: self.bytes }
    }

    /// Number of the log.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes of header and frames so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How far it goes.
    pub(crate) fn mark(&self) -> LogMark {
        let (log, first_seq, end, seq) = (self.number, self.first_seq, self.bytes, self.last_seq);
        LogMark { log, first_seq, end, seq }
    }

    /// Length of the file: its frames and the room behind them.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.bytes.max(self.reserved.unwrap_or_default())
    }

    fn put(&mut self, seq: Seq, payload: &[u8], records: u32) -> Result<(), DiskError> {
        let synced_bytes = self.shared.synced_bytes();
        let frame = self.check.frame(self.bytes, seq, synced_bytes, records, payload);
        self.shared.file.append(&frame)?;
        self.bytes += frame.len() as u64;
        Ok(())
    }

    /// Where there is no space for a whole step there may be enough for the frame.
    fn make_room(&mut self, end: u64) -> Result<(), DiskError> {
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
