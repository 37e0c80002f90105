//! The parts of a store as its newest commit sees them: sealed segments, then the tail.
//!
//! Owns how commits become rows and how few parts the tail keeps; knows no files. Rows that are not
//! sealed yet, the *tail*, lie in parts on the heap that have the shape of sealed segments (their words
//! have a list of terms for a dictionary),
//! so readers know one shape.

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

/// Neighbouring parts of the tail, of about one size, that become one. With 2 a commit of one item
/// costs a merge each time; with more, queries look through more parts.
const TAIL_RUN: usize = 4;
/// Bytes of parts that are merged where a commit is added: some milliseconds, for which all other
/// writers wait. More than these are merged beside them.
const MERGE_AT_ONCE_BYTES_MAX: usize = 2 << 20;

/// Sealed parts in the manifest's order, then the tail.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    parts: Vec<Part>,
    sealed: usize,
    /// The first parts of the tail, which a flush is writing: they stay as they are meanwhile.
    frozen: usize,
}

/// A part that is about to become the newest one, and the rows that go with it.
#[derive(Debug)]
pub(crate) struct Addition {
    part: Part,
    retired: Vec<Retired>,
}

/// A row of a part, by the part's place, and what becomes of it.
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
    /// The parts that a manifest lists, and no tail.
    pub(crate) fn sealed(parts: Vec<Part>) -> Self {
        Self { sealed: parts.len(), parts, frozen: 0 }
    }

    /// The same tail behind other sealed parts.
    pub(crate) fn behind(&self, mut sealed: Vec<Part>) -> Self {
        let count = sealed.len();
        sealed.extend_from_slice(self.tail());
        Self { parts: sealed, sealed: count, frozen: 0 }
    }

    /// Merges what is too large for one who waits, where nobody does.
    pub(crate) fn merge_large(&mut self) -> Result<(), Damage> {
        while let Some(run) = self.large_run() {
            self.take_merged(&run, HeapMerged::of(&run)?);
        }
        Ok(())
    }

    /// Adds the rows of committed batches, laid out as a part, to the tail and retires what they replace
    /// or hide.
    pub(crate) fn add<'a>(
        &mut self,
        rows: AlignedBytes,
        batches: impl IntoIterator<Item = &'a Batch>,
    ) -> Result<(), Damage> {
        let addition = self.prepare(rows, batches)?;
        self.take(addition)
    }

    /// The first half of [`Rows::add`], which changes nothing: the look-ups, that may meet pages which are
    /// not here.
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

    /// The second half. No commit came between them, nor anything that took another's place.
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

    /// Which rows a batch retires, those of `newest` among them.
    fn find_retired(
        &self,
        newest: &Part,
        batch: &Batch,
        retired: &mut Vec<Retired>,
    ) -> Result<(), Damage> {
        let by_items = batch.items.iter().flat_map(|item| &item.supersedes);
        // What an erased item replaced is superseded for good, where the item itself never was too.
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

    /// The newest part in which a row is found, `newest` behind all others, and the row.
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

    /// Keeps the tail's parts few: [`TAIL_RUN`] neighbours of about one size, or smaller, become one.
    /// There are then less than that many of each size, and a row is copied once for each size on
    /// its way, about log4(tail rows) times.
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

    /// Parts at the end of the tail that should be one, where that takes longer than a commit may.
    pub(crate) fn large_run(&self) -> Option<Vec<Part>> {
        let loose = self.loose();
        let run = &loose[loose.len() - run_at_end(loose)..];
        (run.len() >= TAIL_RUN && Self::bytes(run) > MERGE_AT_ONCE_BYTES_MAX).then(|| run.to_vec())
    }

    /// Puts what was made of `run` in its place, unless a flush or another merge has taken any of it.
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

    /// Makes one part of the whole tail.
    pub(crate) fn make_tail_one(&mut self) -> Result<(), Damage> {
        assert_eq!(self.frozen, 0, "a flush has the parts");
        if self.tail().len() > 1 {
            let whole = merge(self.tail())?;
            self.parts.truncate(self.sealed);
            self.parts.push(whole);
        }
        Ok(())
    }

    /// Everything, for a snapshot.
    pub(crate) fn all(&self) -> &[Part] {
        &self.parts
    }

    /// The sealed parts.
    pub(crate) fn sealed_parts(&self) -> &[Part] {
        &self.parts[..self.sealed]
    }

    /// The parts on the heap.
    pub(crate) fn tail(&self) -> &[Part] {
        &self.parts[self.sealed..]
    }

    /// The tail's parts that no flush is writing yet.
    pub(crate) fn loose(&self) -> &[Part] {
        &self.parts[self.sealed + self.frozen..]
    }

    /// Keeps the whole tail as it is until [`Rows::replace`] or [`Rows::thaw`].
    pub(crate) fn freeze(&mut self) {
        self.frozen = self.parts.len() - self.sealed;
    }

    /// Lets the tail change again.
    pub(crate) fn thaw(&mut self) {
        self.frozen = 0;
    }

    /// Puts one sealed part in the place of the `count` parts from `first` on. With `with_frozen` the
    /// frozen parts of the tail are among them.
    pub(crate) fn replace(&mut self, first: usize, count: usize, part: Part, with_frozen: bool) {
        let frozen = if with_frozen { self.frozen } else { 0 };
        self.parts.splice(first..first + count, [part]);
        self.sealed = self.sealed + 1 + frozen - count;
        self.frozen -= frozen;
    }

    /// Heap bytes of these parts.
    pub(crate) fn bytes(parts: &[Part]) -> usize {
        parts.iter().map(|part| part.segment.file_bytes()).sum()
    }
}

/// How many parts at the end are no larger than the last one, by their sizes' powers of
/// [`TAIL_RUN`].
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

    /// A commit of one item, in size a quarter of what is merged at once, or a little.
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
