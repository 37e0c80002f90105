//! Metrics of a store: counted during its work, read without waiting.
//!
//! The gauges are as of the last read that found the writer free, as a metrics reader must neither wait for a write nor
//! delay one.

use std::sync::atomic::{AtomicU64, Ordering};

use super::segment_list::SegmentList;

/// Counters since the open, and the latest gauges.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) syncs: AtomicU64,
    pub(crate) seals: AtomicU64,
    pub(crate) merges: AtomicU64,
    segments: AtomicU64,
    tail_bytes: AtomicU64,
    log_bytes: AtomicU64,
}

impl Counters {
    /// Records the segment count and the sizes of tail and logs.
    pub(super) fn record_sizes(&self, rows: &SegmentList, log_bytes: u64) {
        let tail = SegmentList::heap_bytes(rows.tail()) as u64;
        self.segments.store(rows.sealed().len() as u64, Ordering::Relaxed);
        self.tail_bytes.store(tail, Ordering::Relaxed);
        self.log_bytes.store(log_bytes, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self, bytes_on_disk: u64) -> StoreMetrics {
        let read = |of: &AtomicU64| of.load(Ordering::Relaxed);
        StoreMetrics {
            syncs: read(&self.syncs),
            seals: read(&self.seals),
            merges: read(&self.merges),
            segments: read(&self.segments),
            tail_bytes: read(&self.tail_bytes),
            log_bytes: read(&self.log_bytes),
            bytes_on_disk,
        }
    }

    pub(crate) fn increment(of: &AtomicU64) {
        of.fetch_add(1, Ordering::Relaxed);
    }
}

/// Metrics of a store, with counters since the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreMetrics {
    /// Log syncs: for waiting writers, at an interval, or for a backup. A sync counts even if no log was open.
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
