//! Maintenance of whole stores, beside reads and writes or in their place: nothing that a query or a write needs.
//!
//! Compaction, erasure, re-embedding, backup and restore, background workers, and for damaged stores verification and
//! salvage.

pub(crate) mod backup;
pub(crate) mod compact;
mod erase;
pub(crate) mod indexing;
mod readable;
pub(crate) mod reembed;
pub(crate) mod salvage;
pub(crate) mod upkeep;
pub(crate) mod verify;
