//! Write-ahead log: append, sync, replay (`format-spec/log.md`).
//!
//! Covers frames, closing marks and their checksums; payloads are opaque bytes here.

mod frame;
mod mark;
mod pieces;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use mark::LogMark;
pub(crate) use pieces::pieces;
pub(crate) use reader::{Frame, Frames, LOG_FILE_BYTES_MAX, LogEnd, LogReader};
pub use writer::Durability;
pub(crate) use writer::{LogSyncer, LogWriter};
