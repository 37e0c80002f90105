//! What a salvage tells: file by file what was read, what was lost and why.

use crate::reading::walk::Record;

/// Reasons that are told of one file; the rest is counted.
pub const LOSSES_MAX: usize = 16;

/// Numbers of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rows {
    /// Sources.
    pub sources: u64,
    /// Items.
    pub items: u64,
    /// Edges.
    pub edges: u64,
    /// Tombstones.
    pub tombstones: u64,
}

impl Rows {
    /// All together.
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

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileReport {
    /// Its name.
    pub name: String,
    /// Rows that it has, as far as that is known; those that other files have too, too.
    pub rows: Rows,
    /// Rows of them that could not be read, and that no other file is known to have.
    pub lost: Rows,
    /// Whether more rows than that may be lost, of which nothing tells how many.
    pub is_more_lost: bool,
    /// What is damaged, each told once, at most [`LOSSES_MAX`].
    pub reasons: Vec<String>,
    /// How many more reasons there are.
    pub more_reasons: u64,
}

impl FileReport {
    pub(super) fn tell(&mut self, why: String) {
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

/// What was read and is not given, and what rows say no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Rows of what was to be erased, and edges that join it.
    pub erased: u64,
    /// Edges one of whose ends is lost.
    pub edges: u64,
    /// Sources in leftover files that nothing names.
    pub sources: u64,
    /// Items that others replace and that are lost: the others name them no longer.
    pub supersedes: u64,
    /// Sources that items or edges name and that are lost: they name them no longer.
    pub source_names: u64,
    /// Items whose successors are lost: they stand as current now.
    pub successors: u64,
}

/// What a salvage brought out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Salvaged {
    /// Rows that were given.
    pub given: Rows,
    /// What was not, and why.
    pub left_out: LeftOut,
    /// Every file of the store, in the order in which they were read.
    pub files: Vec<FileReport>,
}

impl Salvaged {
    /// Whether nothing was lost.
    pub fn is_whole(&self) -> bool {
        let left = LeftOut { erased: 0, sources: 0, ..self.left_out };
        left == LeftOut::default()
            && self.files.iter().all(|file| file.lost.total() == 0 && file.reasons.is_empty())
    }
}
