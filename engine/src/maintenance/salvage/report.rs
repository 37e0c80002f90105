use crate::query::records::Record;

/// Maximum number of reasons listed per file; further reasons are only counted.
pub const LOSSES_MAX: usize = 16;

/// Row counts by record kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordCounts {
    /// Sources.
    pub sources: u64,
    /// Items.
    pub items: u64,
    /// Edges.
    pub edges: u64,
    /// Tombstones.
    pub tombstones: u64,
}

impl RecordCounts {
    /// Sum of all counts.
    pub fn total(&self) -> u64 {
        self.sources + self.items + self.edges + self.tombstones
    }

    pub(super) fn count(&mut self, record: &Record<'_>) {
        match record {
            Record::Source(_) => self.sources += 1,
            Record::Item(..) => self.items += 1,
            Record::Edge(..) => self.edges += 1,
            Record::Tombstone(_) => self.tombstones += 1,
        }
    }
}

/// Report on one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileReport {
    /// File name.
    pub name: String,
    /// Rows of the file as far as known, including rows that other files have too.
    pub rows: RecordCounts,
    /// Unreadable rows of the file that no other file is known to have.
    pub lost: RecordCounts,
    /// True if the file may have lost an unknown number of further rows.
    pub has_unknown_losses: bool,
    /// Descriptions of the damage without duplicates, at most [`LOSSES_MAX`].
    pub reasons: Vec<String>,
    /// Number of reasons beyond [`LOSSES_MAX`].
    pub more_reasons: u64,
}

impl FileReport {
    pub(super) fn add_reason(&mut self, why: String) {
        if self.reasons.contains(&why) {
            return;
        }
        if self.reasons.len() < LOSSES_MAX {
            self.reasons.push(why);
        } else {
            self.more_reasons += 1;
        }
    }
}

/// Rows that were read but not emitted, and references removed from emitted rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DroppedCounts {
    /// Rows pending erasure, and the edges attached to them.
    pub erased: u64,
    /// Edges with a lost end.
    pub edges: u64,
    /// Unreferenced sources in leftover files.
    pub sources: u64,
    /// Lost superseded items; references to these items were removed from their successors.
    pub supersedes: u64,
    /// Lost sources; references to these sources were removed from items and edges.
    pub source_references: u64,
    /// Items whose successors are lost; these items are emitted as current.
    pub successors: u64,
}

/// Result of a salvage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SalvageReport {
    /// Emitted rows.
    pub recovered: RecordCounts,
    /// Rows and references that were dropped, by reason.
    pub dropped: DroppedCounts,
    /// Every file of the store, in the order of reading.
    pub files: Vec<FileReport>,
}

impl SalvageReport {
    /// Returns true if nothing was lost; erased rows and unreferenced leftover sources are no loss.
    pub fn is_lossless(&self) -> bool {
        let left = DroppedCounts { erased: 0, sources: 0, ..self.dropped };
        left == DroppedCounts::default()
            && self.files.iter().all(|file| file.lost.total() == 0 && file.reasons.is_empty())
    }
}
