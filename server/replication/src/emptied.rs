//! What says in a chain that all rows of its workspace are gone (`format-spec/remote.md`, Emptying).

use engine::far::Listing;

use crate::core::Found;
use crate::edge::Edge;
use crate::record::{Full, Kind, Record};

/// Whether a full record, its number and that of the record before say that all rows are gone.
pub(crate) fn says_so(full: &Full, number: u64) -> bool {
    full.erased + 1 == number
        && full.files.is_empty()
        && full.logs.is_empty()
        && Listing::read(&full.manifest).is_ok_and(|listing| listing.is_empty())
}

impl Found {
    /// The epoch that emptied the chain, where all rows are gone and none came since (REM-72).
    #[must_use]
    pub fn emptied_by(&self) -> Option<u64> {
        emptied_by(&self.records)
    }

    /// Whether all is gone that such a record ended, as the chain's edge tells.
    #[must_use]
    pub fn is_gone(&self, edge: &Edge) -> bool {
        self.emptied_by().is_some() && edge.gone + 1 >= self.newest.head.base
    }
}

/// The same of the records that lead to one from its base, those that bring something.
pub(crate) fn emptied_by(records: &[Record]) -> Option<u64> {
    let [record] = records else { return None };
    let Kind::Full(full) = &record.kind else { return None };
    says_so(full, record.head.number).then_some(record.head.epoch)
}
