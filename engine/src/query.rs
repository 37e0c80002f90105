//! Reads of a snapshot: look-ups, searches and traversals over the segments of a store as of one commit.
//!
//! A snapshot never changes. Reads are evaluated as of a transaction time and a valid time, and are independent of how
//! the segments were made and of the writer.

pub(crate) mod ann_policy;
pub(crate) mod as_of;
pub(crate) mod erased_tombstones;
pub(crate) mod filter;
pub(crate) mod graph;
pub(crate) mod per_segment_cache;
pub(crate) mod records;
pub(crate) mod scan_cursor;
pub(crate) mod score;
pub(crate) mod snapshot;
pub(crate) mod source_paths;
pub(crate) mod sources;
pub(crate) mod supersession;
pub(crate) mod time_range;
pub(crate) mod visibility;

limit_table::limits! {
    pub(crate) const LIMITS = [graph, visibility, source_paths, score, supersession];
}
