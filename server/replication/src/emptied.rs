//! Full record by which a record log says that its workspace is purged (`format-spec/remote.md`, Purge).

use engine::replication_sink::ManifestView;

use crate::core::Found;
use crate::edge::Edge;
use crate::record::{Full, Kind, Record};

/// Returns true if a full record with this number says that all rows of the workspace are gone.
pub(crate) fn says_so(full: &Full, number: u64) -> bool {
    full.erased + 1 == number
        && full.files.is_empty()
        && full.logs.is_empty()
        && ManifestView::parse(&full.manifest).is_ok_and(|listing| listing.is_empty())
}

impl Found {
    /// Epoch that purged the workspace, if all rows are gone and none were written since (REM-72).
    #[must_use]
    pub fn emptied_by(&self) -> Option<u64> {
        emptied_by(&self.records)
    }

    /// Returns true if the low watermark confirms that everything before the purge record is removed.
    #[must_use]
    pub fn is_gone(&self, edge: &Edge) -> bool {
        self.emptied_by().is_some() && edge.gone + 1 >= self.newest.head.base
    }
}

/// Purge epoch from the records from the base to the newest one, without acquisition and release records.
pub(crate) fn emptied_by(records: &[Record]) -> Option<u64> {
    let [record] = records else { return None };
    let Kind::Full(full) = &record.kind else { return None };
    says_so(full, record.head.number).then_some(record.head.epoch)
}
