//! How far a log goes.

use crate::ids::Seq;

/// How far one log goes: its whole frames, without a mark or room behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogMark {
    /// Number of the log.
    pub log: u64,
    /// The commit of its first frame, also while it has none.
    pub first_seq: Seq,
    /// Bytes of its header and frames.
    pub end: u64,
    /// The newest commit of these; one less than `first_seq` while it has none.
    pub seq: Seq,
}
