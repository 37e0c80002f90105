//! What the whole-system tests stand on: a still ground, disks in memory, drafts, listings.

pub mod failing_disk;
pub mod golden;
pub mod ground;
pub mod listing;
pub mod memory_disk;
pub mod sample;
