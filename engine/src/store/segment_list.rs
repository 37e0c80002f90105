//! Segment list of a store as of its newest commit: sealed segments, then the tail.
//!
//! The *tail* consists of the rows not sealed yet, in heap segments. Heap segments have the form of sealed segments,
//! except for a list of terms as dictionary, so readers handle one form. Small tail segments are merged to bound their
//! number.

use std::iter;
use std::sync::Arc;

use crate::error::CorruptionError;
use crate::ids::{EdgeId, ItemId, Row};
use crate::item::Batch;
use crate::limits::TAIL_PARTS_MAX;
use crate::merge::{HeapMergeOutput, merge_segments};
use crate::os::mmap::AlignedBytes;
use crate::row_state::RowState;
use crate::segment::Segment;
use crate::segment_snapshot::SegmentSnapshot;

/// Number of neighbouring tail segments of similar size that are merged into one. With 2, each commit of one item costs
/// a merge; with more, queries read more segments.
const TAIL_MERGE_FACTOR: usize = 4;
/// Maximum bytes of segments merged during a commit: some milliseconds, for which all other writers wait. Larger runs
/// are merged while others write.
const INLINE_MERGE_BYTES_MAX: usize = 2 << 20;

/// Sealed segments in the manifest's order, then the tail.
#[derive(Debug, Clone, Default)]
pub(crate) struct SegmentList {
    segments: Vec<SegmentSnapshot>,
    sealed_count: usize,
    /// Number of leading tail segments that a flush is writing; they are frozen meanwhile.
    frozen_count: usize,
}

/// Segment about to be appended, and the rows that it retires.
#[derive(Debug)]
pub(crate) struct NewSegment {
    segment: SegmentSnapshot,
    retired: Vec<RetiredRow>,
}

/// Row to retire, with the position of its segment and the kind of retirement.
#[derive(Debug)]
struct RetiredRow {
    segment_ord: usize,
    row: Row,
    kind: Retirement,
}

#[derive(Debug, Clone, Copy)]
enum Retirement {
    Superseded,
    Tombstoned,
    EdgeTombstoned,
}

impl SegmentList {
    /// List of a manifest's segments, without a tail.
    pub(crate) fn from_sealed(parts: Vec<SegmentSnapshot>) -> Self {
        Self { sealed_count: parts.len(), segments: parts, frozen_count: 0 }
    }

    /// Returns this tail after other sealed segments.
    pub(crate) fn with_sealed(&self, mut sealed: Vec<SegmentSnapshot>) -> Self {
        let count = sealed.len();
        sealed.extend_from_slice(self.tail());
        Self { segments: sealed, sealed_count: count, frozen_count: 0 }
    }

    /// Merges large runs of the tail; only for callers without waiting writers.
    pub(crate) fn merge_large(&mut self) -> Result<(), CorruptionError> {
        while let Some(run) = self.large_run() {
            self.replace_run(&run, HeapMergeOutput::merge(&run)?);
        }
        Ok(())
    }

    /// Appends the rows of committed batches, encoded as a segment, to the tail, and retires the rows that they
    /// supersede or hide.
    pub(crate) fn add<'a>(
        &mut self,
        rows: AlignedBytes,
        batches: impl IntoIterator<Item = &'a Batch>,
    ) -> Result<(), CorruptionError> {
        let addition = self.prepare(rows, batches)?;
        self.apply(addition)
    }

    /// First half of [`SegmentList::add`], which changes nothing: performs the look-ups, which may need absent pages.
    pub(crate) fn prepare<'a>(
        &self,
        rows: AlignedBytes,
        batches: impl IntoIterator<Item = &'a Batch>,
    ) -> Result<NewSegment, CorruptionError> {
        let segment = Arc::new(Segment::from_heap(rows));
        let header = *segment.header();
        let state = RowState::empty(header.items as usize, header.edges as usize);
        let part = SegmentSnapshot { segment, state: Arc::new(state) };
        let mut retired = Vec::new();
        for batch in batches {
            self.find_retired(&part, batch, &mut retired)?;
        }
        Ok(NewSegment { segment: part, retired })
    }

    /// Second half of [`SegmentList::add`]. Since the first half, there must have been no commit and no replaced
    /// segment.
    pub(crate) fn apply(&mut self, addition: NewSegment) -> Result<(), CorruptionError> {
        self.segments.push(addition.segment);
        for RetiredRow { segment_ord: part, row, kind: how } in addition.retired {
            let state = Arc::make_mut(&mut self.segments[part].state);
            let bits = match how {
                Retirement::Superseded => &mut state.superseded,
                Retirement::Tombstoned => &mut state.tombstoned,
                Retirement::EdgeTombstoned => &mut state.edges_tombstoned,
            };
            bits.insert(row);
        }
        self.merge_tail_run()
    }

    /// Finds the rows that a batch retires, including rows of `newest`.
    fn find_retired(
        &self,
        newest: &SegmentSnapshot,
        batch: &Batch,
        retired: &mut Vec<RetiredRow>,
    ) -> Result<(), CorruptionError> {
        let by_items = batch.items.iter().flat_map(|item| &item.supersedes);
        // Items superseded by an erased item stay superseded, even if the erased item never was in this store.
        let by_erased = batch.tombstones.iter().flat_map(|stone| &stone.supersedes);
        for &old in by_items.chain(by_erased) {
            let item = self.find_newest(newest, |segment| segment.row_of_item(old))?;
            retired.extend(item.map(|(part, row)| RetiredRow {
                segment_ord: part,
                row,
                kind: Retirement::Superseded,
            }));
        }
        for stone in &batch.tombstones {
            let (item, edge) = (ItemId(stone.target), EdgeId(stone.target));
            let item = self.find_newest(newest, |segment| segment.row_of_item(item))?;
            let found = match item {
                Some((part, row)) => {
                    Some(RetiredRow { segment_ord: part, row, kind: Retirement::Tombstoned })
                }
                None => self.find_newest(newest, |segment| segment.row_of_edge(edge))?.map(
                    |(part, row)| RetiredRow {
                        segment_ord: part,
                        row,
                        kind: Retirement::EdgeTombstoned,
                    },
                ),
            };
            retired.extend(found);
        }
        Ok(())
    }

    /// Finds a row, in the newest segment that has it; `newest` comes after all segments of the list.
    fn find_newest(
        &self,
        newest: &SegmentSnapshot,
        row: impl Fn(&Segment) -> Result<Option<Row>, CorruptionError>,
    ) -> Result<Option<(usize, Row)>, CorruptionError> {
        let older = self.segments.iter().enumerate().rev();
        for (at, part) in iter::once((self.segments.len(), newest)).chain(older) {
            if let Some(row) = row(&part.segment)? {
                return Ok(Some((at, row)));
            }
        }
        Ok(None)
    }

    /// Bounds the number of tail segments: [`TAIL_MERGE_FACTOR`] neighbours of similar size, or smaller, are merged
    /// into one segment. So there are fewer than [`TAIL_MERGE_FACTOR`] segments of each size, and a row is copied once
    /// per size on its way, about log4(tail rows) times.
    fn merge_tail_run(&mut self) -> Result<(), CorruptionError> {
        loop {
            let loose = self.unfrozen_tail();
            let mut run = tail_run_length(loose);
            let bytes = Self::heap_bytes(&loose[loose.len() - run..]);
            if run < TAIL_MERGE_FACTOR || bytes > INLINE_MERGE_BYTES_MAX {
                if loose.len() <= TAIL_PARTS_MAX {
                    return Ok(());
                }
                run = 2;
            }
            let first = self.segments.len() - run;
            let merged = merge_segments(&self.segments[first..])?;
            self.segments.truncate(first);
            self.segments.push(merged);
        }
    }

    /// Returns a due run at the end of the tail that is too large to merge during a commit.
    pub(crate) fn large_run(&self) -> Option<Vec<SegmentSnapshot>> {
        let loose = self.unfrozen_tail();
        let run = &loose[loose.len() - tail_run_length(loose)..];
        (run.len() >= TAIL_MERGE_FACTOR && Self::heap_bytes(run) > INLINE_MERGE_BYTES_MAX)
            .then(|| run.to_vec())
    }

    /// Replaces `run` with its merged segment, unless a flush or another merge has claimed any of the run.
    pub(crate) fn replace_run(&mut self, run: &[SegmentSnapshot], merged: HeapMergeOutput) {
        let first = self.sealed_count + self.frozen_count;
        let is_first = |part: &SegmentSnapshot| Arc::ptr_eq(&part.segment, &run[0].segment);
        let Some(at) = self.segments[first..].iter().position(is_first).map(|at| first + at) else {
            return;
        };
        let Some(now) = self.segments.get(at..at + run.len()) else { return };
        if now.iter().zip(run).all(|(now, was)| Arc::ptr_eq(&now.segment, &was.segment)) {
            let part = merged.into_snapshot(now);
            self.segments.splice(at..at + run.len(), [part]);
        }
    }

    /// Merges the whole tail into one segment.
    pub(crate) fn merge_whole_tail(&mut self) -> Result<(), CorruptionError> {
        assert_eq!(self.frozen_count, 0, "a flush has the parts");
        if self.tail().len() > 1 {
            let whole = merge_segments(self.tail())?;
            self.segments.truncate(self.sealed_count);
            self.segments.push(whole);
        }
        Ok(())
    }

    /// All segments, for a snapshot.
    pub(crate) fn all(&self) -> &[SegmentSnapshot] {
        &self.segments
    }

    pub(crate) fn sealed(&self) -> &[SegmentSnapshot] {
        &self.segments[..self.sealed_count]
    }

    /// Segments on the heap.
    pub(crate) fn tail(&self) -> &[SegmentSnapshot] {
        &self.segments[self.sealed_count..]
    }

    /// Tail segments that no flush is writing.
    pub(crate) fn unfrozen_tail(&self) -> &[SegmentSnapshot] {
        &self.segments[self.sealed_count + self.frozen_count..]
    }

    /// Freezes the whole tail until [`SegmentList::replace`] or [`SegmentList::thaw`].
    pub(crate) fn freeze(&mut self) {
        self.frozen_count = self.segments.len() - self.sealed_count;
    }

    pub(crate) fn thaw(&mut self) {
        self.frozen_count = 0;
    }

    /// Replaces the `count` segments from `first` on with one sealed segment. With `with_frozen`, the frozen tail
    /// segments are among them.
    pub(crate) fn replace(
        &mut self,
        first: usize,
        count: usize,
        part: SegmentSnapshot,
        with_frozen: bool,
    ) {
        let frozen = if with_frozen { self.frozen_count } else { 0 };
        self.segments.splice(first..first + count, [part]);
        self.sealed_count = self.sealed_count + 1 + frozen - count;
        self.frozen_count -= frozen;
    }

    /// Heap bytes of these segments.
    pub(crate) fn heap_bytes(parts: &[SegmentSnapshot]) -> usize {
        parts.iter().map(|part| part.segment.file_bytes()).sum()
    }
}

/// Number of segments at the end that are no larger than the last one, with sizes compared by powers of
/// [`TAIL_MERGE_FACTOR`].
fn tail_run_length(parts: &[SegmentSnapshot]) -> usize {
    let size = |part: &SegmentSnapshot| {
        part.segment.header().row_total().max(1).ilog(TAIL_MERGE_FACTOR as u64)
    };
    let Some(last) = parts.last().map(size) else { return 0 };
    parts.iter().rev().take_while(|part| size(part) <= last).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{ItemDraft, TombstoneDraft};
    use crate::segment::UncommittedRows;

    /// Commit of one item: small, or a quarter of the inline merge limit.
    fn item(id: u128, is_large: bool) -> Batch {
        let bytes = if is_large { INLINE_MERGE_BYTES_MAX / TAIL_MERGE_FACTOR } else { 9 };
        let item = ItemDraft {
            id: Some(ItemId(id)),
            kind: "note".to_owned(),
            modality: "text".to_owned(),
            text: "x".repeat(bytes),
            ..ItemDraft::default()
        };
        Batch { items: vec![item], ..Batch::default() }
    }

    fn add(rows: &mut SegmentList, seq: u64, batch: &Batch) {
        rows.add(UncommittedRows::build(batch).commit(seq), [batch]).unwrap();
    }

    fn with_large_run() -> SegmentList {
        let mut rows = SegmentList::default();
        for seq in 1..=TAIL_MERGE_FACTOR as u64 {
            assert!(rows.large_run().is_none());
            add(&mut rows, seq, &item(seq.into(), true));
        }
        rows
    }

    #[test]
    fn small_tail_segments_are_merged_inline() {
        let mut rows = SegmentList::default();
        for seq in 1..=TAIL_MERGE_FACTOR as u64 {
            add(&mut rows, seq, &item(seq.into(), false));
        }
        assert_eq!(rows.tail().len(), 1);
    }

    #[test]
    fn concurrent_tail_merge_keeps_states_set_during_it() {
        let mut rows = with_large_run();
        assert_eq!(rows.tail().len(), TAIL_MERGE_FACTOR, "not at once");
        let run = rows.large_run().unwrap();
        let merged = HeapMergeOutput::merge(&run).unwrap();
        let hidden = TombstoneDraft { target: 2, ..TombstoneDraft::default() };
        let hides = Batch { tombstones: vec![hidden], ..Batch::default() };
        add(&mut rows, 9, &hides);
        rows.replace_run(&run, merged);
        let [merged, _] = rows.tail() else { panic!("{} parts", rows.tail().len()) };
        let row = merged.segment.row_of_item(ItemId(2)).unwrap().unwrap();
        assert_eq!(merged.state.tombstoned.count(), 1);
        assert!(merged.state.tombstoned.contains(row));
    }

    #[test]
    fn tail_merge_yields_to_a_concurrent_flush() {
        let mut rows = with_large_run();
        let run = rows.large_run().unwrap();
        let merged = HeapMergeOutput::merge(&run).unwrap();
        rows.freeze();
        rows.replace_run(&run, merged);
        assert_eq!(rows.tail().len(), TAIL_MERGE_FACTOR);
    }
}
