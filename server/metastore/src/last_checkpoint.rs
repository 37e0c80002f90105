//! What the store knows of the end of a ledger.

/// What the last checkpoint of a ledger said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastCheckpoint {
    /// The last entry that it covers.
    pub seq: u64,
    /// That entry's hash.
    pub head: [u8; 32],
    /// When it was made, in seconds since 1970.
    pub at: u64,
    /// The hash of the ledger's first entry, which tells it from another one of the same workspace; `None` where
    /// nobody said.
    pub first: Option<[u8; 32]>,
}
