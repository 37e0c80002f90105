//! The write-ahead log: append, sync, replay (`format-spec/log.md`).
//!
//! Owns frames, marks and their checksums; does not know what a payload means.

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
