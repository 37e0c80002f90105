use crate::ids::Seq;

/// Position in a log: the end of its complete frames, without a closing mark or reserved space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalPosition {
    /// Number of the log.
    pub log: u64,
    /// Commit of the first frame, or of the next frame if the log has none.
    pub first_seq: Seq,
    /// Bytes of header and frames.
    pub end: u64,
    /// Newest commit of these frames; `first_seq` - 1 if the log has none.
    pub seq: Seq,
}
