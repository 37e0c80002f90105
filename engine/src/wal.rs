//! Write-ahead log: append, sync, replay (`format-spec/log.md`).
//!
//! Covers frames, closing marks and their checksums; payloads are opaque bytes here.

mod frame;
mod position;
mod reader;
mod salvage;
#[cfg(test)]
mod tests;
mod writer;

pub use position::WalPosition;
pub(crate) use reader::{Frame, Frames, WAL_FILE_BYTES_MAX, WalEnd, WalReader};
pub(crate) use salvage::salvage_frames;
pub use writer::Durability;
pub(crate) use writer::{WalSyncer, WalWriter};
