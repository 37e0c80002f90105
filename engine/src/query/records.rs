//! Scan of all rows of a snapshot, in the order of `format-spec/export.md`.
//!
//! Commits are in write order; a commit has sources, items, edges, tombstones; tombstones of erased targets are emitted
//! as early as possible. The scan stores a position in each table of one segment, and the erased targets, so its memory
//! does not depend on the rest of the store.

use std::collections::VecDeque;

use crate::error::{CorruptionError, SearchError};
use crate::ids::{EdgeId, ItemId, Row, Seq};
use crate::layout::{Column, EDGE_SEQ, ITEM_KIND, ITEM_SEQ, SOURCE_SEQ, TOMBSTONE_SEQ};
use crate::query::erased_tombstones::ErasedTombstones;
use crate::query::scan_cursor::ScanCursor;
use crate::query::snapshot::{RowAddress, Snapshot, Status};
use crate::segment::{EdgeView, ItemView, SourceView, TombstoneView};
use crate::segment_snapshot::SegmentSnapshot;

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
pub enum TombstoneTarget<'a> {
    /// An item of this kind.
    Item(&'a str),
    /// An edge.
    Edge,
    /// A target without a row: it was erased, or removed along with an erased item.
    Erased,
}

/// Tombstones between two cancellation checks; each is looked up in every segment.
const ROWS_PER_CANCEL_CHECK: u32 = 64;
/// Commit column of each table, in the order within a commit.
pub(super) const SEQ_COLUMNS: [Column; 4] = [SOURCE_SEQ, ITEM_SEQ, EDGE_SEQ, TOMBSTONE_SEQ];
const SOURCES: usize = 0;
pub(super) const ITEMS: usize = 1;
const EDGES: usize = 2;

/// Iterator over every row of a snapshot in commit order. Ends after corruption, and on cancellation.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) segment_ord: u32,
    /// Next row of each table of the segment.
    pub(super) next_rows: [Row; SEQ_COLUMNS.len()],
    /// Commit of the last row emitted in commit order.
    pub(super) seq: Seq,
    /// Erased targets; collected before the first row is emitted.
    pub(super) erased: Option<ErasedTombstones<RowAddress>>,
    /// Tombstones of erased targets to be emitted next.
    pub(super) pending_tombstones: VecDeque<RowAddress>,
    /// Position of the scan.
    pub(super) cursor: ScanCursor,
    /// True once the last row was emitted, or an error ended the scan.
    is_done: bool,
}

impl Snapshot {
    /// Iterates over every source, item, edge and tombstone, tombstoned rows included, in commit order. Tombstones of
    /// erased targets come as early as the ids that they name allow.
    pub fn records(&self) -> Records<'_> {
        Records {
            snapshot: self,
            segment_ord: 0,
            next_rows: [0; SEQ_COLUMNS.len()],
            seq: 0,
            erased: None,
            pending_tombstones: VecDeque::new(),
            cursor: ScanCursor::default(),
            is_done: false,
        }
    }

    /// Collects the tombstones whose targets have no row.
    pub(super) fn erased_tombstones(&self) -> Result<ErasedTombstones<RowAddress>, SearchError> {
        let mut gone = ErasedTombstones::default();
        let mut steps = self.cancel.every(ROWS_PER_CANCEL_CHECK);
        for (part, it) in (0u32..).zip(self.segments.iter()) {
            for row in 0..it.segment.header().tombstones {
                steps.tick()?;
                let target = it.segment.tombstone_target(row)?;
                if self.find_any_time(ItemId(target))?.is_none()
                    && !self.has_edge(EdgeId(target))?
                {
                    let replaced = it.segment.erased_supersedes(row)?;
                    gone.add(
                        target,
                        RowAddress { segment_ord: part, row },
                        replaced.iter().copied(),
                    );
                }
            }
        }
        gone.resolve(|id| self.find_any_time(ItemId(id)).map(|place| place.is_some()))?;
        Ok(gone)
    }

    /// Kind of the item at a row address.
    ///
    /// # Errors
    /// Corruption.
    pub fn kind(&self, place: RowAddress) -> Result<&str, CorruptionError> {
        let segment = &self.segments[place.segment_ord as usize].segment;
        segment.symbol(segment.column::<u32>(ITEM_KIND)?.get(place.row as usize)?)
    }

    /// Resolves the target of a tombstone of `number`.
    ///
    /// # Errors
    /// Corruption.
    pub fn tombstone_target(&self, number: u128) -> Result<TombstoneTarget<'_>, CorruptionError> {
        if let Some(place) = self.find(ItemId(number))? {
            return self.kind(place).map(TombstoneTarget::Item);
        }
        Ok(if self.has_edge(EdgeId(number))? {
            TombstoneTarget::Edge
        } else {
            TombstoneTarget::Erased
        })
    }

    /// Finds an edge by id; the flag is true if the edge is tombstoned.
    ///
    /// # Errors
    /// Corruption.
    pub fn find_edge(&self, id: EdgeId) -> Result<Option<(EdgeView<'_>, bool)>, CorruptionError> {
        for part in self.segments.iter() {
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
    fn next_table(
        &self,
        part: &'a SegmentSnapshot,
    ) -> Result<Option<(usize, Seq)>, CorruptionError> {
        let header = part.segment.header();
        let rows = [header.sources, header.items, header.edges, header.tombstones];
        let mut first = None;
        for table in 0..SEQ_COLUMNS.len() {
            let row = self.next_rows[table];
            if row == rows[table] {
                continue;
            }
            let seq = part.segment.column::<Seq>(SEQ_COLUMNS[table])?.get(row as usize)?;
            if first.is_none_or(|(_, least)| seq < least) {
                first = Some((table, seq));
            }
        }
        Ok(first)
    }

    fn record(
        &self,
        part: &'a SegmentSnapshot,
        table: usize,
        row: Row,
    ) -> Result<Record<'a>, CorruptionError> {
        let segment = &part.segment;
        Ok(match table {
            SOURCES => Record::Source(segment.source(row)?),
            ITEMS => {
                let status =
                    self.snapshot.status(RowAddress { segment_ord: self.segment_ord, row })?;
                Record::Item(segment.item(row)?, status)
            }
            EDGES => Record::Edge(segment.edge(row)?, part.state.edges_tombstoned.contains(row)),
            _ => Record::Tombstone(segment.tombstone(row)?),
        })
    }

    fn step(&mut self) -> Result<Option<Record<'a>>, SearchError> {
        self.snapshot.check_cancelled()?;
        let mut gone = match self.erased.take() {
            Some(gone) => gone,
            None => {
                let gone = self.snapshot.erased_tombstones()?;
                self.cursor.erased_tombstones_total = gone.tombstones_left();
                gone
            }
        };
        let step = self.step_with(&mut gone);
        self.erased = Some(gone);
        Ok(step?)
    }

    fn step_with(
        &mut self,
        gone: &mut ErasedTombstones<RowAddress>,
    ) -> Result<Option<Record<'a>>, CorruptionError> {
        loop {
            let part = self.snapshot.segments.get(self.segment_ord as usize);
            if self.pending_tombstones.is_empty() {
                self.pending_tombstones.extend(gone.next_ready(part.is_none()).unwrap_or_default());
            }
            if let Some(stone) = self.pending_tombstones.pop_front() {
                self.cursor.erased_tombstones_emitted += 1;
                let stone = self.snapshot.segment(stone).segment.tombstone(stone.row)?;
                return Ok(Some(Record::Tombstone(stone)));
            }
            let Some(part) = part else { return Ok(None) };
            let Some((table, seq)) = self.next_table(part)? else {
                self.segment_ord += 1;
                self.next_rows = [0; SEQ_COLUMNS.len()];
                continue;
            };
            if seq < self.seq {
                let detail = format!("a row of commit {seq} follows one of {}", self.seq);
                return Err(CorruptionError::new("SEG-14", detail).in_file(part.segment.name()));
            }
            self.seq = seq;
            let row = self.next_rows[table];
            self.next_rows[table] += 1;
            let record = self.record(part, table, row)?;
            self.cursor.advance(table, seq, &record);
            match &record {
                Record::Item(item, _) => gone.mark_emitted(item.id.0),
                Record::Tombstone(stone) if gone.contains(stone.target) => continue, // it stands elsewhere
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
