//! Maintenance of whole stores, beside reads and writes or in their place: nothing that a query or a write needs.
//!
//! Compaction, erasure, re-embedding, backup and restore, background workers, and for damaged stores verification and
//! salvage.

pub(crate) mod background;
pub(crate) mod backup;
mod bad_sectors;
pub(crate) mod compact;
mod erasure;
pub(crate) mod index_build;
pub(crate) mod reembed;
pub(crate) mod salvage;
pub(crate) mod verify;
