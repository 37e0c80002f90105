//! Keeping: what is done to whole stores, beside reading and writing or instead of it.
//!
//! Compaction, erasure, the move to another model, backup and restore, upkeep that does some of that by
//! itself; and looking after damage: verify and salvage. Nothing that a question or a write needs.

pub(crate) mod backup;
pub(crate) mod compact;
mod erase;
pub(crate) mod indexing;
mod readable;
pub(crate) mod reembed;
pub(crate) mod salvage;
pub(crate) mod upkeep;
pub(crate) mod verify;
