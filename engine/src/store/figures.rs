//! What a store tells of itself to whoever watches it: counted as it works, read without waiting.
//!
//! Knows numbers only. The gauges are as of the last look that found the writer free, because nobody
//! who only watches may wait for a write, or make one wait.

use std::sync::atomic::{AtomicU64, Ordering};

use super::rows::Rows;

/// Counted since the opening.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) syncs: AtomicU64,
    pub(crate) seals: AtomicU64,
    pub(crate) merges: AtomicU64,
    segments: AtomicU64,
    tail_bytes: AtomicU64,
    log_bytes: AtomicU64,
}

impl Tally {
    /// Notes how the rows are, and how long the logs.
    pub(super) fn note(&self, rows: &Rows, log_bytes: u64) {
        let tail = Rows::bytes(rows.tail()) as u64;
        self.segments.store(rows.sealed_parts().len() as u64, Ordering::Relaxed);
        self.tail_bytes.store(tail, Ordering::Relaxed);
        self.log_bytes.store(log_bytes, Ordering::Relaxed);
    }

    pub(super) fn figures(&self, bytes_on_disk: u64) -> Figures {
        let read = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Figures {
            syncs: read(&self.syncs),
            seals: read(&self.seals),
            merges: read(&self.merges),
            segments: read(&self.segments),
            tail_bytes: read(&self.tail_bytes),
            log_bytes: read(&self.log_bytes),
            bytes_on_disk,
        }
    }

    pub(crate) fn count(of: &AtomicU64) {
        of.fetch_add(1, Ordering::Relaxed);
    }
}

/// How a store is, and what it has done since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Times that the log was brought to disk for writers who waited, or at an interval.
    pub syncs: u64,
    /// Tails that became a segment.
    pub seals: u64,
    /// Segments that were made of others, by compaction and erasure.
    pub merges: u64,
    /// Sealed segments.
    pub segments: u64,
    /// Heap of the rows that are not sealed.
    pub tail_bytes: u64,
    /// Bytes of all logs.
    pub log_bytes: u64,
    /// Bytes of all files.
    pub bytes_on_disk: u64,
}
