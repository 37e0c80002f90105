//! A node's ledger of a workspace, brought to object storage piece by piece, and back.
//!
//! Knows volumes as files with a length. What is in them is the business of whoever keeps the ledger.

mod bring;
mod memo;
mod there;

pub use bring::{LedgerBringer, LedgerSource, LedgerVolume, NotBrought};
pub use memo::was_brought;
pub use there::{LedgerThere, NotFetched, ledgers};

limit_table::limits! {
    pub(crate) const LIMITS = [memo];
}
