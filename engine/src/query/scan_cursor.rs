//! Scan cursors: resume a scan of all rows in a later snapshot.
//!
//! A cursor names a row by its commit and id, not by its row address, which changes when segments merge.

use std::cmp::Ordering;

use crate::error::{CorruptionError, SearchError};
use crate::ids::{Row, Seq};
use crate::layout::{Column, EDGE_ID, ITEM_ID, SOURCE_ID, TOMBSTONE_TARGET};
use crate::query::erased_tombstones::ErasedTombstones;
use crate::query::records::{ITEMS, Record, Records, SEQ_COLUMNS};
use crate::query::snapshot::{RowAddress, Snapshot};
use crate::segment_snapshot::SegmentSnapshot;

/// Rows passed between two cancellation checks.
const ROWS_PER_CANCEL_CHECK: u32 = 1 << 12;
/// Id column of each table.
const ID_COLUMNS: [Column; SEQ_COLUMNS.len()] = [SOURCE_ID, ITEM_ID, EDGE_ID, TOMBSTONE_TARGET];

/// Position of a scan of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanCursor {
    /// Commit of the last row emitted in commit order; 0 before the first.
    pub seq: Seq,
    /// Table of that row, in the order within a commit: sources, items, edges, tombstones.
    pub table: usize,
    /// Rows of the commit and table passed so far, including that row.
    pub rows_passed: u64,
    /// Id of that row as a number; for a tombstone, the id of its target.
    pub id: u128,
    /// Tombstones of erased targets emitted so far.
    pub erased_tombstones_emitted: u64,
    /// Total number of tombstones of erased targets. If the total differs from an earlier cursor's, items were erased
    /// since.
    pub erased_tombstones_total: u64,
}

impl ScanCursor {
    /// Advances the cursor past a row emitted in commit order.
    pub(super) fn advance(&mut self, table: usize, seq: Seq, record: &Record<'_>) {
        let is_next = (self.seq, self.table) == (seq, table);
        self.rows_passed = if is_next { self.rows_passed + 1 } else { 1 };
        (self.seq, self.table) = (seq, table);
        self.id = match record {
            Record::Source(view) => view.id.0,
            Record::Item(view, _) => view.id.0,
            Record::Edge(view, _) => view.id.0,
            Record::Tombstone(view) => view.target,
        };
    }
}

impl<'a> Records<'a> {
    /// Current position of the scan.
    pub fn cursor(&self) -> ScanCursor {
        self.cursor
    }
}

impl Snapshot {
    /// Resumes the scan of [`Snapshot::records`] after the cursor of an earlier scan of this store. Rows written since
    /// then follow in order. If the cursor's row was erased, the rows of its commit and table are emitted again. If
    /// other rows were erased, their tombstones may be missing: compare [`ScanCursor::erased_tombstones_total`].
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn records_after(&self, mark: &ScanCursor) -> Result<Records<'_>, SearchError> {
        let mut records = self.records();
        let mut gone = self.erased_tombstones()?;
        records.cursor = ScanCursor { erased_tombstones_total: gone.tombstones_left(), ..*mark };
        if mark.seq > 0 && mark.table < SEQ_COLUMNS.len() {
            records.seek(mark)?;
        }
        let stones = records.erased_tombstones_before(&mut gone)?;
        let given = usize::try_from(mark.erased_tombstones_emitted).unwrap_or(usize::MAX);
        records.pending_tombstones = stones.into_iter().skip(given).collect();
        records.erased = Some(gone);
        Ok(records)
    }
}

impl<'a> Records<'a> {
    /// Positions the scan after the cursor's row.
    fn seek(&mut self, mark: &ScanCursor) -> Result<(), CorruptionError> {
        self.seq = mark.seq;
        self.cursor.rows_passed = 0;
        for part in self.snapshot.segments.iter() {
            let mut next = [0; SEQ_COLUMNS.len()];
            for (table, next) in next.iter_mut().enumerate() {
                *next = match table.cmp(&mark.table) {
                    Ordering::Less => rows_below(part, table, mark.seq.saturating_add(1))?,
                    Ordering::Equal => row_after(part, mark)?,
                    Ordering::Greater => rows_below(part, table, mark.seq)?,
                };
            }
            let passed = next[mark.table] - rows_below(part, mark.table, mark.seq)?;
            self.cursor.rows_passed += u64::from(passed);
            if next != row_counts_of(part) {
                self.next_rows = next;
                return Ok(());
            }
            self.segment_ord += 1;
        }
        Ok(())
    }

    /// Tombstones of erased targets that a scan emits before the next row.
    fn erased_tombstones_before(
        &self,
        gone: &mut ErasedTombstones<RowAddress>,
    ) -> Result<Vec<RowAddress>, SearchError> {
        let mut stones: Vec<RowAddress> = drain_ready(gone).collect();
        let mut steps = self.snapshot.cancel.every(ROWS_PER_CANCEL_CHECK);
        for (at, part) in (0u32..).zip(self.snapshot.segments.iter()) {
            let passed = match at.cmp(&self.segment_ord) {
                Ordering::Less => part.segment.header().items,
                Ordering::Equal => self.next_rows[ITEMS],
                Ordering::Greater => break,
            };
            for row in 0..passed {
                if !gone.has_blocked() {
                    return Ok(stones);
                }
                steps.tick()?;
                gone.mark_emitted(part.segment.item_id(row)?.0);
                stones.extend(drain_ready(gone));
            }
        }
        Ok(stones)
    }
}

fn drain_ready(gone: &mut ErasedTombstones<RowAddress>) -> impl Iterator<Item = RowAddress> {
    std::iter::from_fn(|| gone.next_ready(false)).flatten()
}

fn row_counts_of(part: &SegmentSnapshot) -> [Row; SEQ_COLUMNS.len()] {
    let header = part.segment.header();
    [header.sources, header.items, header.edges, header.tombstones]
}

/// Number of rows of a table in commits below `seq`.
fn rows_below(part: &SegmentSnapshot, table: usize, seq: Seq) -> Result<Row, CorruptionError> {
    let below = part.segment.column::<Seq>(SEQ_COLUMNS[table])?.lower_bound(|&of| of < seq)?;
    Ok(Row::try_from(below).expect("a row's number is a Row"))
}

/// The row after the cursor's row in a segment. The row is found by its number in the commit if the id matches there,
/// else by its id.
fn row_after(part: &SegmentSnapshot, mark: &ScanCursor) -> Result<Row, CorruptionError> {
    let first = rows_below(part, mark.table, mark.seq)?;
    let end = rows_below(part, mark.table, mark.seq.saturating_add(1))?;
    let ids =
        part.segment.column::<u128>(ID_COLUMNS[mark.table])?.range(first as usize, end as usize)?;
    let there = usize::try_from(mark.rows_passed).ok().and_then(|rows| rows.checked_sub(1));
    let there = there.filter(|&row| ids.get(row) == Some(&mark.id));
    let there = there.or_else(|| ids.iter().position(|&id| id == mark.id));
    let behind = there.map_or(0, |row| row + 1);
    Ok(first + Row::try_from(behind).expect("a row's number is a Row"))
}
