//! Scan cursors: resume a scan of all rows in a later snapshot.
//!
//! A cursor names a row by its commit and id, not by its row address, which changes when segments merge.

use std::cmp::Ordering;

use crate::error::{Damage, SearchError};
use crate::ids::{Row, Seq};
use crate::layout::{Column, EDGE_ID, ITEM_ID, SOURCE_ID, TOMBSTONE_TARGET};
use crate::part::Part;
use crate::reading::gone::Gone;
use crate::reading::snapshot::{Place, Snapshot};
use crate::reading::walk::{ITEMS, Record, Records, SEQS};

/// Rows passed between two cancellation checks.
const PASSED_TOGETHER: u32 = 1 << 12;
/// Id column of each table.
const IDS: [Column; SEQS.len()] = [SOURCE_ID, ITEM_ID, EDGE_ID, TOMBSTONE_TARGET];

/// Position of a scan of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// Commit of the last row emitted in commit order; 0 before the first.
    pub seq: Seq,
    /// Table of that row, in the order within a commit: sources, items, edges, tombstones.
    pub table: usize,
    /// Rows of the commit and table passed so far, including that row.
    pub rows: u64,
    /// Id of that row as a number; for a tombstone, the id of its target.
    pub id: u128,
    /// Tombstones of erased targets emitted so far.
    pub stones: u64,
    /// Total number of tombstones of erased targets. If the total differs from an earlier cursor's, items were erased
    /// since.
    pub gone: u64,
}

impl Mark {
    /// Advances the cursor past a row emitted in commit order.
    pub(super) fn pass(&mut self, table: usize, seq: Seq, record: &Record<'_>) {
        let is_next = (self.seq, self.table) == (seq, table);
        self.rows = if is_next { self.rows + 1 } else { 1 };
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
    pub fn mark(&self) -> Mark {
        self.mark
    }
}

impl Snapshot {
    /// Resumes the scan of [`Snapshot::records`] after the cursor of an earlier scan of this store. Rows written since
    /// then follow in order. If the cursor's row was erased, the rows of its commit and table are emitted again. If
    /// other rows were erased, their tombstones may be missing: compare [`Mark::gone`].
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn records_after(&self, mark: &Mark) -> Result<Records<'_>, SearchError> {
        let mut records = self.records();
        let mut gone = self.gone()?;
        records.mark = Mark { gone: gone.stones(), ..*mark };
        if mark.seq > 0 && mark.table < SEQS.len() {
            records.go_to(mark)?;
        }
        let stones = records.stones_above(&mut gone)?;
        let given = usize::try_from(mark.stones).unwrap_or(usize::MAX);
        records.ahead = stones.into_iter().skip(given).collect();
        records.gone = Some(gone);
        Ok(records)
    }
}

impl<'a> Records<'a> {
    /// Positions the scan after the cursor's row.
    fn go_to(&mut self, mark: &Mark) -> Result<(), Damage> {
        self.seq = mark.seq;
        self.mark.rows = 0;
        for part in self.snapshot.parts.iter() {
            let mut next = [0; SEQS.len()];
            for (table, next) in next.iter_mut().enumerate() {
                *next = match table.cmp(&mark.table) {
                    Ordering::Less => rows_below(part, table, mark.seq.saturating_add(1))?,
                    Ordering::Equal => row_behind(part, mark)?,
                    Ordering::Greater => rows_below(part, table, mark.seq)?,
                };
            }
            let passed = next[mark.table] - rows_below(part, mark.table, mark.seq)?;
            self.mark.rows += u64::from(passed);
            if next != rows_of(part) {
                self.next = next;
                return Ok(());
            }
            self.part += 1;
        }
        Ok(())
    }

    /// Tombstones of erased targets that a scan emits before the next row.
    fn stones_above(&self, gone: &mut Gone<Place>) -> Result<Vec<Place>, SearchError> {
        let mut stones: Vec<Place> = ready(gone).collect();
        let mut steps = self.snapshot.stop.each(PASSED_TOGETHER);
        for (at, part) in (0u32..).zip(self.snapshot.parts.iter()) {
            let passed = match at.cmp(&self.part) {
                Ordering::Less => part.segment.header().items,
                Ordering::Equal => self.next[ITEMS],
                Ordering::Greater => break,
            };
            for row in 0..passed {
                if !gone.waits() {
                    return Ok(stones);
                }
                steps.step()?;
                gone.note(part.segment.item_id(row)?.0);
                stones.extend(ready(gone));
            }
        }
        Ok(stones)
    }
}

fn ready(gone: &mut Gone<Place>) -> impl Iterator<Item = Place> {
    std::iter::from_fn(|| gone.next(false)).flatten()
}

fn rows_of(part: &Part) -> [Row; SEQS.len()] {
    let header = part.segment.header();
    [header.sources, header.items, header.edges, header.tombstones]
}

/// Number of rows of a table in commits below `seq`.
fn rows_below(part: &Part, table: usize, seq: Seq) -> Result<Row, Damage> {
    let below = part.segment.view::<Seq>(SEQS[table])?.lower_bound(|&of| of < seq)?;
    Ok(Row::try_from(below).expect("a row's number is a Row"))
}

/// The row after the cursor's row in a segment. The row is found by its number in the commit if the id matches there,
/// else by its id.
fn row_behind(part: &Part, mark: &Mark) -> Result<Row, Damage> {
    let first = rows_below(part, mark.table, mark.seq)?;
    let end = rows_below(part, mark.table, mark.seq.saturating_add(1))?;
    let ids = part.segment.view::<u128>(IDS[mark.table])?.range(first as usize, end as usize)?;
    let there = usize::try_from(mark.rows).ok().and_then(|rows| rows.checked_sub(1));
    let there = there.filter(|&row| ids.get(row) == Some(&mark.id));
    let there = there.or_else(|| ids.iter().position(|&id| id == mark.id));
    let behind = there.map_or(0, |row| row + 1);
    Ok(first + Row::try_from(behind).expect("a row's number is a Row"))
}
