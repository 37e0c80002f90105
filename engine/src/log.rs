//! The write-ahead log: append, sync, replay (`format-spec/log.md`).
//!
//! Owns frames, marks and their checksums; does not know what a payload means.

mod frame;
mod pieces;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use frame::frame_bytes;
pub(crate) use pieces::pieces;
pub(crate) use reader::{Frame, Frames, LOG_FILE_BYTES_MAX, LogEnd, LogReader};
pub(crate) use writer::{LogSyncer, LogWriter};

use std::time::Duration;

use crate::ids::Seq;

/// How far one log goes: its whole frames, without a mark or room behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogMark {
    /// Number of the log.
    pub log: u64,
    /// The commit of its first frame, also while it has none.
    pub first_seq: Seq,
    /// Bytes of its header and frames.
    pub end: u64,
    /// The newest commit of these; one less than `first_seq` while it has none.
    pub seq: Seq,
}

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
