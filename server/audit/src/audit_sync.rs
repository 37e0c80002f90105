//! Sync policy of the ledger.

/// Sync policy for entries of reads. Entries of writes are always synced before the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditSync {
    /// Within 50 ms, in batches.
    #[default]
    Batched,
    /// Before the response.
    Always,
}

impl AuditSync {
    /// All values, in the order of the documentation.
    pub const ALL: &'static [Self] = &[Self::Batched, Self::Always];

    /// The word in the settings file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Batched => "batched",
            Self::Always => "always",
        }
    }
}
