//! Replication of a node's audit ledger of a workspace: upload to object storage piece by piece, and download.
//!
//! Treats volumes as files with a length. The ledger's owner knows the format of the entries.

mod bring;
mod memo;
mod there;

pub use bring::{LedgerBringer, LedgerSource, LedgerVolume, NotBrought};
pub use memo::was_brought;
pub use there::{LedgerThere, NotFetched, ledgers};

limit_table::limits! {
    pub(crate) const LIMITS = [memo];
}
