//! When the ledger is on disk.

/// When the ledger's entries of reads are on disk; those of writes always are before the answer leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditSync {
    /// Within 50 ms, many together.
    #[default]
    Batched,
    /// Before the answer leaves.
    Always,
}

impl AuditSync {
    /// Every value, in the order of the documentation.
    pub const ALL: &'static [Self] = &[Self::Batched, Self::Always];

    /// The value as the settings file spells it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Batched => "batched",
            Self::Always => "always",
        }
    }
}
