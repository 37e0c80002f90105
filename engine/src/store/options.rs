use crate::limits::{COMPACT_BYTES_MAX, MERGE_BYTES_MAX, TAIL_BYTES_SEAL};
use crate::query::ann_policy::AnnPolicy;
use crate::wal::Durability;

/// Settings of a store.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Durability of an acknowledged write.
    pub durability: Durability,
    /// Heap bytes at which the tail is sealed.
    pub tail_bytes_seal: usize,
    /// Maximum bytes of small segments and tail that a seal merges into one segment; 0 merges no segments.
    pub merge_bytes_max: usize,
    /// Maximum bytes of a compacted segment.
    pub compact_bytes_max: usize,
    /// Search mode of vector queries: exact or through indexes.
    pub ann_policy: AnnPolicy,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Sync,
            tail_bytes_seal: TAIL_BYTES_SEAL,
            merge_bytes_max: MERGE_BYTES_MAX,
            compact_bytes_max: COMPACT_BYTES_MAX,
            ann_policy: AnnPolicy::default(),
        }
    }
}
