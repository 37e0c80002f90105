//! A log open for appending.
//!
//! Appending and syncing are apart, so that one sync can serve the frames of many writers. Knows
//! what is on disk only from who synced; does not decide when that happens.

use std::sync::Arc;

use super::Durability;
use super::frame::{Check, HEADER_BYTES, Header};
use crate::error::{DiskError, Remedy};
use crate::ids::{Seq, StoreId};
use crate::layout::{self, FileKind};
use crate::limits::LOG_RESERVE_STEP;
use crate::manifest::{READ_VERSION, WRITE_VERSION};
use crate::os::disk::{Disk, DiskFile};

/// A log open for appending.
#[derive(Debug)]
pub(crate) struct LogWriter {
    file: Arc<dyn DiskFile>,
    number: u64,
    check: Check,
    bytes: u64,
    synced_bytes: u64,
    /// How long the file has been made; `None` where no room is reserved.
    reserved: Option<u64>,
    last_seq: Seq,
}

/// Syncs a log without its writer.
#[derive(Debug, Clone)]
pub(crate) struct LogSyncer {
    file: Arc<dyn DiskFile>,
}

impl LogSyncer {
    /// Returns once all that was appended before the call survives a power cut.
    pub(crate) fn sync(&self) -> Result<(), DiskError> {
        self.file.sync()
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
        Ok(Self {
            file,
            number,
            check: Check::placed(store, number),
            bytes,
            synced_bytes: bytes,
            reserved: (durability == Durability::Sync).then_some(bytes),
            last_seq: first_seq - 1,
        })
    }

    /// Appends one frame without syncing; gives the offset of its end.
    pub(crate) fn append(
        &mut self,
        seq: Seq,
        payload: &[u8],
        records: u32,
    ) -> Result<u64, DiskError> {
        assert_eq!(seq, self.last_seq + 1, "commits are logged in their order");
        self.put(seq, payload, records)?;
        self.last_seq = seq;
        Ok(self.bytes)
    }

    /// Notes that all before offset `end` is on disk: a sync that began after the append which gave
    /// `end` has returned.
    pub(crate) fn mark_synced(&mut self, end: u64) {
        assert!(end <= self.bytes, "what was not appended cannot be on disk");
        self.synced_bytes = self.synced_bytes.max(end);
    }

    /// Waits until all frames are on disk.
    pub(crate) fn sync(&mut self) -> Result<(), DiskError> {
        if self.synced_bytes < self.bytes {
            self.file.sync()?;
            self.synced_bytes = self.bytes;
        }
        Ok(())
    }

    /// Ends the log with a mark. Only for a log whose appends and syncs have all succeeded.
    pub(crate) fn close(mut self) -> Result<(), DiskError> {
        // The mark says that all before it is on disk, so it is made to be.
        self.sync()?;
        self.put(self.last_seq, &[], 0)?;
        self.file.sync()
    }

    /// A handle that syncs while the writer appends.
    pub(crate) fn syncer(&self) -> LogSyncer {
        LogSyncer { file: Arc::clone(&self.file) }
    }

    /// Number of the log.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Bytes of header and frames so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Length of the file: its frames and the room behind them.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.bytes.max(self.reserved.unwrap_or_default())
    }

    fn put(&mut self, seq: Seq, payload: &[u8], records: u32) -> Result<(), DiskError> {
        let frame = self.check.frame(self.bytes, seq, self.synced_bytes, records, payload);
        let end = self.bytes + frame.len() as u64;
        self.make_room(end)?;
        self.file.append(&frame)?;
        self.bytes = end;
        Ok(())
    }

    /// Where there is no space for a whole step there may be enough for the frame.
    fn make_room(&mut self, end: u64) -> Result<(), DiskError> {
        if self.reserved.is_none_or(|reserved| end <= reserved) {
            return Ok(());
        }
        let wanted = end.next_multiple_of(LOG_RESERVE_STEP);
        match self.file.reserve(wanted) {
            Ok(()) => self.reserved = Some(wanted),
            Err(error) if error.remedy() == Remedy::FreeSpace => self.reserved = None,
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
