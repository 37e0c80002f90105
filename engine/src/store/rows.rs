//! Segment list of a store as of its newest commit: sealed segments, then the tail.
//!
//! The *tail* consists of the rows not sealed yet, in heap segments. Heap segments have the form of sealed segments,
//! except for a list of terms as dictionary, so readers handle one form. Small tail segments are merged to bound their
//! number.

use std::iter;
use std::sync::Arc;

use crate::error::Damage;
use crate::ids::{EdgeId, ItemId, Row};
use crate::item::Batch;
use crate::limits::TAIL_PARTS_MAX;
use crate::merge::{HeapMerged, merge};
use crate::os::mmap::AlignedBytes;
use crate::part::Part;
use crate::segment::Segment;
use crate::state::RowState;

/// Number of neighbouring tail segments of similar size that are merged into one. With 2, each commit of one item costs
/// a merge; with more, queries read more segments.
const TAIL_RUN: usize = 4;
/// Maximum bytes of segments merged during a commit: some milliseconds, for which all other writers wait. Larger runs
/// are merged while others write.
const MERGE_AT_ONCE_BYTES_MAX: usize = 2 << 20;

/// Sealed segments in the manifest's order, then the tail.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    parts: Vec<Part>,
    sealed: usize,
    /// Number of leading tail segments that a flush is writing; they are frozen meanwhile.
    frozen: usize,
}

/// Segment about to be appended, and the rows that it retires.
#[derive(Debug)]
pub(crate) struct Addition {
    part: Part,
    retired: Vec<Retired>,
}

/// Row to retire, with the position of its segment and the kind of retirement.
#[derive(Debug)]
struct Retired {
    part: usize,
    row: Row,
    how: How,
}

#[derive(Debug, Clone, Copy)]
enum How {
    Superseded,
    Tombstoned,
    EdgeTombstoned,
}

impl Rows {
    /// List of a manifest's segments, without a tail.
    pub(crate) fn sealed(parts: Vec<Part>) -> Self {
        Self { sealed: parts.len(), parts, frozen: 0 }
    }

    /// Returns this tail after other sealed segments.
    pub(crate) fn behind(&self, mut sealed: Vec<Part>) -> Self {
        let count = sealed.len();
        sealed.extend_from_slice(self.tail());
        Self { parts: sealed, sealed: count, frozen: 0 }
    }

    /// Merges large runs of the tail; only for callers without waiting writers.
    pub(crate) fn merge_large(&mut self) -> Result<(), Damage> {
        while let Some(run) = self.large_run() {
            self.take_merged(&run, HeapMerged::of(&run)?);
        }
        Ok(())
    }

    /// Appends the rows of committed batches, encoded as a segment, to the tail, and retires the rows that they
    /// supersede or hide.
    pub(crate) fn add<'a>(
        &mut self,
        rows: AlignedBytes,
        batches: impl IntoIterator<Item = &'a Batch>,
    ) -> Result<(), Damage> {
        let addition = self.prepare(rows, batches)?;
        self.take(addition)
    }

    /// First half of [`Rows::add`], which changes nothing: performs the look-ups, which may need absent pages.
    pub(crate) fn prepare<'a>(
        &self,
        rows: AlignedBytes,
        batches: impl IntoIterator<Item = &'a Batch>,
    ) -> Result<Addition, Damage> {
        let segment = Arc::new(Segment::held(rows));
        let header = *segment.header();
        let state = RowState::fresh(header.items as usize, header.edges as usize);
        let part = Part { segment, state: Arc::new(state) };
        let mut retired = Vec::new();
        for batch in batches {
            self.find_retired(&part, batch, &mut retired)?;
        }
        Ok(Addition { part, retired })
    }

    /// Second half of [`Rows::add`]. Since the first half, there must have been no commit and no replaced segment.
    pub(crate) fn take(&mut self, addition: Addition) -> Result<(), Damage> {
        self.parts.push(addition.part);
        for Retired { part, row, how } in addition.retired {
            let state = Arc::make_mut(&mut self.parts[part].state);
            let bits = match how {
                How::Superseded => &mut state.superseded,
                How::Tombstoned => &mut state.tombstoned,
                How::EdgeTombstoned => &mut state.edges_tombstoned,
            };
            bits.insert(row);
        }
        self.merge_tail()
    }

    /// Finds the rows that a batch retires, including rows of `newest`.
    fn find_retired(
        &self,
        newest: &Part,
        batch: &Batch,
        retired: &mut Vec<Retired>,
    ) -> Result<(), Damage> {
        let by_items = batch.items.iter().flat_map(|item| &item.supersedes);
        // Items superseded by an erased item stay superseded, even if the erased item never was in this store.
        let by_erased = batch.tombstones.iter().flat_map(|stone| &stone.supersedes);
        for &old in by_items.chain(by_erased) {
            let item = self.newest_with(newest, |segment| segment.row_of_item(old))?;
            retired.extend(item.map(|(part, row)| Retired { part, row, how: How::Superseded }));
        }
        for stone in &batch.tombstones {
            let (item, edge) = (ItemId(stone.target), EdgeId(stone.target));
            let item = self.newest_with(newest, |segment| segment.row_of_item(item))?;
            let found = match item {
                Some((part, row)) => Some(Retired { part, row, how: How::Tombstoned }),
                None => self
                    .newest_with(newest, |segment| segment.row_of_edge(edge))?
                    .map(|(part, row)| Retired { part, row, how: How::EdgeTombstoned }),
            };
            retired.extend(found);
        }
        Ok(())
    }

    /// Finds a row, in the newest segment that has it; `newest` comes after all segments of the list.
    fn newest_with(
        &self,
        newest: &Part,
        row: impl Fn(&Segment) -> Result<Option<Row>, Damage>,
    ) -> Result<Option<(usize, Row)>, Damage> {
        let older = self.parts.iter().enumerate().rev();
        for (at, part) in iter::once((self.parts.len(), newest)).chain(older) {
            if let Some(row) = row(&part.segment)? {
                return Ok(Some((at, row)));
            }
        }
        Ok(None)
    }

    /// Bounds the number of tail segments: [`TAIL_RUN`] neighbours of similar size, or smaller, are merged into one
    /// segment. So there are fewer than [`TAIL_RUN`] segments of each size, and a row is copied once per size on its
    /// way, about log4(tail rows) times.
    fn merge_tail(&mut self) -> Result<(), Damage> {
        loop {
            let loose = self.loose();
            let mut run = run_at_end(loose);
            let bytes = Self::bytes(&loose[loose.len() - run..]);
            if run < TAIL_RUN || bytes > MERGE_AT_ONCE_BYTES_MAX {
                if loose.len() <= TAIL_PARTS_MAX {
                    return Ok(());
                }
                run = 2;
            }
            let first = self.parts.len() - run;
            let merged = merge(&self.parts[first..])?;
            self.parts.truncate(first);
            self.parts.push(merged);
        }
    }

    /// Returns a due run at the end of the tail that is too large to merge during a commit.
    pub(crate) fn large_run(&self) -> Option<Vec<Part>> {
        let loose = self.loose();
        let run = &loose[loose.len() - run_at_end(loose)..];
        (run.len() >= TAIL_RUN && Self::bytes(run) > MERGE_AT_ONCE_BYTES_MAX).then(|| run.to_vec())
    }

    /// Replaces `run` with its merged segment, unless a flush or another merge has claimed any of the run.
    pub(crate) fn take_merged(&mut self, run: &[Part], merged: HeapMerged) {
        let first = self.sealed + self.frozen;
        let is_first = |part: &Part| Arc::ptr_eq(&part.segment, &run[0].segment);
        let Some(at) = self.parts[first..].iter().position(is_first).map(|at| first + at) else {
            return;
        };
        let Some(now) = self.parts.get(at..at + run.len()) else { return };
        if now.iter().zip(run).all(|(now, was)| Arc::ptr_eq(&now.segment, &was.segment)) {
            let part = merged.part(now);
            self.parts.splice(at..at + run.len(), [part]);
        }
    }

    /// Merges the whole tail into one segment.
    pub(crate) fn make_tail_one(&mut self) -> Result<(), Damage> {
        assert_eq!(self.frozen, 0, "a flush has the parts");
        if self.tail().len() > 1 {
            let whole = merge(self.tail())?;
            self.parts.truncate(self.sealed);
            self.parts.push(whole);
        }
        Ok(())
    }

    /// All segments, for a snapshot.
    pub(crate) fn all(&self) -> &[Part] {
        &self.parts
    }

    pub(crate) fn sealed_parts(&self) -> &[Part] {
        &self.parts[..self.sealed]
    }

    /// Segments on the heap.
    pub(crate) fn tail(&self) -> &[Part] {
        &self.parts[self.sealed..]
    }

    /// Tail segments that no flush is writing.
    pub(crate) fn loose(&self) -> &[Part] {
        &self.parts[self.sealed + self.frozen..]
    }

    /// Freezes the whole tail until [`Rows::replace`] or [`Rows::thaw`].
    pub(crate) fn freeze(&mut self) {
        self.frozen = self.parts.len() - self.sealed;
    }

    pub(crate) fn thaw(&mut self) {
        self.frozen = 0;
    }

    /// Replaces the `count` segments from `first` on with one sealed segment. With `with_frozen`, the frozen tail
    /// segments are among them.
    pub(crate) fn replace(&mut self, first: usize, count: usize, part: Part, with_frozen: bool) {
        let frozen = if with_frozen { self.frozen } else { 0 };
        self.parts.splice(first..first + count, [part]);
        self.sealed = self.sealed + 1 + frozen - count;
        self.frozen -= frozen;
    }

    /// Heap bytes of these segments.
    pub(crate) fn bytes(parts: &[Part]) -> usize {
        parts.iter().map(|part| part.segment.file_bytes()).sum()
    }
}

/// Number of segments at the end that are no larger than the last one, with sizes compared by powers of [`TAIL_RUN`].
fn run_at_end(parts: &[Part]) -> usize {
    let size = |part: &Part| part.segment.header().rows_in_all().max(1).ilog(TAIL_RUN as u64);
    let Some(last) = parts.last().map(size) else { return 0 };
    parts.iter().rev().take_while(|part| size(part) <= last).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{ItemDraft, TombstoneDraft};
    use crate::segment::Uncommitted;

    /// Commit of one item: small, or a quarter of the inline merge limit.
    fn item(id: u128, is_large: bool) -> Batch {
        let bytes = if is_large { MERGE_AT_ONCE_BYTES_MAX / TAIL_RUN } else { 9 };
        let item = ItemDraft {
            id: Some(ItemId(id)),
            kind: "note".to_owned(),
            modality: "text".to_owned(),
            text: "x".repeat(bytes),
            ..ItemDraft::default()
        };
        Batch { items: vec![item], ..Batch::default() }
    }

    fn add(rows: &mut Rows, seq: u64, batch: &Batch) {
        rows.add(Uncommitted::of(batch).committed(seq), [batch]).unwrap();
    }

    fn with_large_run() -> Rows {
        let mut rows = Rows::default();
        for seq in 1..=TAIL_RUN as u64 {
            assert!(rows.large_run().is_none());
            add(&mut rows, seq, &item(seq.into(), true));
        }
        rows
    }

    #[test]
    fn small_parts_are_merged_at_once() {
        let mut rows = Rows::default();
        for seq in 1..=TAIL_RUN as u64 {
            add(&mut rows, seq, &item(seq.into(), false));
        }
        assert_eq!(rows.tail().len(), 1);
    }

    #[test]
    fn large_parts_are_merged_beside_the_commits_and_keep_what_happens_meanwhile() {
        let mut rows = with_large_run();
        assert_eq!(rows.tail().len(), TAIL_RUN, "not at once");
        let run = rows.large_run().unwrap();
        let merged = HeapMerged::of(&run).unwrap();
        let hidden = TombstoneDraft { target: 2, ..TombstoneDraft::default() };
        let hides = Batch { tombstones: vec![hidden], ..Batch::default() };
        add(&mut rows, 9, &hides);
        rows.take_merged(&run, merged);
        let [merged, _] = rows.tail() else { panic!("{} parts", rows.tail().len()) };
        let row = merged.segment.row_of_item(ItemId(2)).unwrap().unwrap();
        assert_eq!(merged.state.tombstoned.count(), 1);
        assert!(merged.state.tombstoned.contains(row));
    }

    #[test]
    fn what_a_flush_has_taken_meanwhile_is_left_to_it() {
        let mut rows = with_large_run();
        let run = rows.large_run().unwrap();
        let merged = HeapMerged::of(&run).unwrap();
        rows.freeze();
        rows.take_merged(&run, merged);
        assert_eq!(rows.tail().len(), TAIL_RUN);
    }
}
