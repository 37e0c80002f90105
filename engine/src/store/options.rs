//! How a store behaves.

use crate::limits::{COMPACT_BYTES_MAX, MERGE_BYTES_MAX, TAIL_BYTES_SEAL};
use crate::log::Durability;
use crate::reading::searching::Searching;

/// How a store behaves.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// When a write is acknowledged.
    pub durability: Durability,
    /// Heap bytes of the tail at which it is sealed.
    pub tail_bytes_seal: usize,
    /// Bytes of small segments and tail that sealing makes one segment of; 0 leaves all segments
    /// as they are.
    pub merge_bytes_max: usize,
    /// Bytes of the largest segment that compaction makes.
    pub compact_bytes_max: usize,
    /// How it is searched by meaning.
    pub searching: Searching,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Sync,
            tail_bytes_seal: TAIL_BYTES_SEAL,
            merge_bytes_max: MERGE_BYTES_MAX,
            compact_bytes_max: COMPACT_BYTES_MAX,
            searching: Searching::default(),
        }
    }
}
