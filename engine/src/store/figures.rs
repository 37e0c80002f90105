//! Metrics of a store: counted during its work, read without waiting.
//!
//! The gauges are as of the last read that found the writer free, as a metrics reader must neither wait for a write nor
//! delay one.

use std::sync::atomic::{AtomicU64, Ordering};

use super::rows::Rows;

/// Counters since the open, and the latest gauges.
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
    /// Records the segment count and the sizes of tail and logs.
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

/// Metrics of a store, with counters since the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Log syncs: for waiting writers, at an interval, or for a backup.
    pub syncs: u64,
    /// Tails sealed into a segment.
    pub seals: u64,
    /// Segments rewritten by compaction and erasure.
    pub merges: u64,
    /// Sealed segments.
    pub segments: u64,
    /// Heap bytes of the tail.
    pub tail_bytes: u64,
    /// Bytes of all logs.
    pub log_bytes: u64,
    /// Bytes of all files.
    pub bytes_on_disk: u64,
}
