//! Scan of all rows of a snapshot, in the order of `format-spec/export.md`.
//!
//! Commits are in write order; a commit has sources, items, edges, tombstones; tombstones of erased targets are emitted
//! as early as possible. The scan stores a position in each table of one segment, and the erased targets, so its memory
//! does not depend on the rest of the store.

use std::collections::VecDeque;

use crate::error::{Damage, SearchError};
use crate::ids::{EdgeId, ItemId, Row, Seq};
use crate::layout::{Column, EDGE_SEQ, ITEM_KIND, ITEM_SEQ, SOURCE_SEQ, TOMBSTONE_SEQ};
use crate::part::Part;
use crate::reading::gone::Gone;
use crate::reading::resume::Mark;
use crate::reading::snapshot::{Place, Snapshot, Status};
use crate::segment::{EdgeView, ItemView, SourceView, TombstoneView};

/// A row of a store.
#[derive(Debug, Clone, PartialEq)]
pub enum Record<'a> {
    /// A source, referenced or not.
    Source(SourceView<'a>),
    /// An item and its current status.
    Item(ItemView<'a>, Status),
    /// An edge, with true if the edge is tombstoned.
    Edge(EdgeView<'a>, bool),
    /// A tombstone.
    Tombstone(TombstoneView<'a>),
}

/// Target of a tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// An item of this kind.
    Item(&'a str),
    /// An edge.
    Edge,
    /// A target without a row: it was erased, or removed along with an erased item.
    Gone,
}

/// Tombstones between two cancellation checks; each is looked up in every segment.
const ROWS_TOGETHER: u32 = 64;
/// Commit column of each table, in the order within a commit.
pub(super) const SEQS: [Column; 4] = [SOURCE_SEQ, ITEM_SEQ, EDGE_SEQ, TOMBSTONE_SEQ];
const SOURCES: usize = 0;
pub(super) const ITEMS: usize = 1;
const EDGES: usize = 2;

/// Iterator over every row of a snapshot in commit order. Ends after corruption, and on cancellation.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) part: u32,
    /// Next row of each table of the segment.
    pub(super) next: [Row; SEQS.len()],
    /// Commit of the last row emitted in commit order.
    pub(super) seq: Seq,
    /// Erased targets; collected before the first row is emitted.
    pub(super) gone: Option<Gone<Place>>,
    /// Tombstones of erased targets to be emitted next.
    pub(super) ahead: VecDeque<Place>,
    /// Position of the scan.
    pub(super) mark: Mark,
    /// True once the last row was emitted, or an error ended the scan.
    is_done: bool,
}

impl Snapshot {
    /// Iterates over every source, item, edge and tombstone, tombstoned rows included, in commit order. Tombstones of
    /// erased targets come as early as the ids that they name allow.
    pub fn records(&self) -> Records<'_> {
        Records {
            snapshot: self,
            part: 0,
            next: [0; SEQS.len()],
            seq: 0,
            gone: None,
            ahead: VecDeque::new(),
            mark: Mark::default(),
            is_done: false,
        }
    }

    /// Collects the tombstones whose targets have no row.
    pub(super) fn gone(&self) -> Result<Gone<Place>, SearchError> {
        let mut gone = Gone::default();
        let mut steps = self.stop.each(ROWS_TOGETHER);
        for (part, it) in (0u32..).zip(self.parts.iter()) {
            for row in 0..it.segment.header().tombstones {
                steps.step()?;
                let target = it.segment.tombstone_target(row)?;
                if self.find_row(ItemId(target))?.is_none() && !self.has_edge(EdgeId(target))? {
                    let replaced = it.segment.replaced_by_erased(row)?;
                    gone.add(target, Place { part, row }, replaced.iter().copied());
                }
            }
        }
        gone.settle(|id| self.find_row(ItemId(id)).map(|place| place.is_some()))?;
        Ok(gone)
    }

    /// Kind of the item at a row address.
    ///
    /// # Errors
    /// Corruption.
    pub fn kind(&self, place: Place) -> Result<&str, Damage> {
        let segment = &self.parts[place.part as usize].segment;
        segment.symbol(segment.view::<u32>(ITEM_KIND)?.get(place.row as usize)?)
    }

    /// Resolves the target of a tombstone of `number`.
    ///
    /// # Errors
    /// Corruption.
    pub fn target(&self, number: u128) -> Result<Target<'_>, Damage> {
        if let Some(place) = self.find(ItemId(number))? {
            return self.kind(place).map(Target::Item);
        }
        Ok(if self.has_edge(EdgeId(number))? { Target::Edge } else { Target::Gone })
    }

    /// Finds an edge by id; the flag is true if the edge is tombstoned.
    ///
    /// # Errors
    /// Corruption.
    pub fn find_edge(&self, id: EdgeId) -> Result<Option<(EdgeView<'_>, bool)>, Damage> {
        for part in self.parts.iter() {
            if let Some(row) = part.segment.row_of_edge(id)? {
                let hidden = part.state.edges_tombstoned.contains(row);
                return part.segment.edge(row).map(|edge| Some((edge, hidden)));
            }
        }
        Ok(None)
    }
}

impl<'a> Records<'a> {
    /// Table of the segment's next row in commit order, and the row's commit.
    fn next_table(&self, part: &'a Part) -> Result<Option<(usize, Seq)>, Damage> {
        let header = part.segment.header();
        let rows = [header.sources, header.items, header.edges, header.tombstones];
        let mut first = None;
        for table in 0..SEQS.len() {
            let row = self.next[table];
            if row == rows[table] {
                continue;
            }
            let seq = part.segment.view::<Seq>(SEQS[table])?.get(row as usize)?;
            if first.is_none_or(|(_, least)| seq < least) {
                first = Some((table, seq));
            }
        }
        Ok(first)
    }

    fn record(&self, part: &'a Part, table: usize, row: Row) -> Result<Record<'a>, Damage> {
        let segment = &part.segment;
        Ok(match table {
            SOURCES => Record::Source(segment.source(row)?),
            ITEMS => {
                let status = self.snapshot.status(Place { part: self.part, row })?;
                Record::Item(segment.item(row)?, status)
            }
            EDGES => Record::Edge(segment.edge(row)?, part.state.edges_tombstoned.contains(row)),
            _ => Record::Tombstone(segment.tombstone(row)?),
        })
    }

    fn step(&mut self) -> Result<Option<Record<'a>>, SearchError> {
        self.snapshot.check()?;
        let mut gone = match self.gone.take() {
            Some(gone) => gone,
            None => {
                let gone = self.snapshot.gone()?;
                self.mark.gone = gone.stones();
                gone
            }
        };
        let step = self.step_with(&mut gone);
        self.gone = Some(gone);
        Ok(step?)
    }

    fn step_with(&mut self, gone: &mut Gone<Place>) -> Result<Option<Record<'a>>, Damage> {
        loop {
            let part = self.snapshot.parts.get(self.part as usize);
            if self.ahead.is_empty() {
                self.ahead.extend(gone.next(part.is_none()).unwrap_or_default());
            }
            if let Some(stone) = self.ahead.pop_front() {
                self.mark.stones += 1;
                let stone = self.snapshot.part(stone).segment.tombstone(stone.row)?;
                return Ok(Some(Record::Tombstone(stone)));
            }
            let Some(part) = part else { return Ok(None) };
            let Some((table, seq)) = self.next_table(part)? else {
                self.part += 1;
                self.next = [0; SEQS.len()];
                continue;
            };
            if seq < self.seq {
                let detail = format!("a row of commit {seq} follows one of {}", self.seq);
                return Err(Damage::new("SEG-14", detail).within(part.segment.name()));
            }
            self.seq = seq;
            let row = self.next[table];
            self.next[table] += 1;
            let record = self.record(part, table, row)?;
            self.mark.pass(table, seq, &record);
            match &record {
                Record::Item(item, _) => gone.note(item.id.0),
                Record::Tombstone(stone) if gone.has(stone.target) => continue, // it stands elsewhere
                _ => {}
            }
            return Ok(Some(record));
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, SearchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let step = self.step();
        self.is_done = !matches!(step, Ok(Some(_)));
        step.transpose()
    }
}

impl std::iter::FusedIterator for Records<'_> {}
