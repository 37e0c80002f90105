//! Last checkpoint of a ledger, as recorded in the metastore.

/// The last checkpoint of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastCheckpoint {
    /// Sequence number of the last covered entry.
    pub seq: u64,
    /// Hash of the last covered entry.
    pub head: [u8; 32],
    /// Time of the checkpoint, in seconds since 1970.
    pub at: u64,
    /// Hash of the ledger's first entry, which distinguishes ledgers of the same workspace; `None` if unknown.
    pub first: Option<[u8; 32]>,
}
