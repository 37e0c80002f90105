//! The parts of a store as its newest commit sees them: sealed segments, then the tail.
//!
//! Owns how commits become rows and how few parts the tail keeps; knows no files. Rows that are not
//! sealed yet, the *tail*, lie in parts on the heap that have the shape of sealed segments (their words
//! have a list of terms for a dictionary),
//! so readers know one shape.

use std::sync::Arc;

use crate::error::Damage;
use crate::ids::{EdgeId, ItemId};
use crate::item::Batch;
use crate::limits::TAIL_PARTS_MAX;
use crate::merge::merge;
use crate::segment::{Segment, SegmentBuilder};
use crate::snapshot::Part;
use crate::state::{Bits, RowState};

/// Neighbouring parts of the tail, of about one size, that become one. With 2 a commit of one item
/// costs a merge each time; with more, queries look through more parts.
const TAIL_RUN: usize = 4;

/// Sealed parts in the manifest's order, then the tail.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    parts: Vec<Part>,
    sealed: usize,
    /// The first parts of the tail, which a flush is writing: they stay as they are meanwhile.
    frozen: usize,
}

impl Rows {
    /// The parts that a manifest lists, and no tail.
    pub(crate) fn sealed(parts: Vec<Part>) -> Self {
        Self { sealed: parts.len(), parts, frozen: 0 }
    }

    /// Adds committed rows to the tail and retires what they replace or hide.
    pub(crate) fn add<'a>(
        &mut self,
        builder: SegmentBuilder,
        batches: impl IntoIterator<Item = &'a Batch>,
    ) -> Result<(), Damage> {
        let segment = Arc::new(Segment::held(builder.finish_on_heap()));
        let header = *segment.header();
        let state = RowState::fresh(header.items as usize, header.edges as usize);
        self.parts.push(Part { segment, state: Arc::new(state) });
        for batch in batches {
            self.retire_for(batch)?;
        }
        self.merge_tail()
    }

    fn retire_for(&mut self, batch: &Batch) -> Result<(), Damage> {
        let by_items = batch.items.iter().flat_map(|item| &item.supersedes);
        // What an erased item replaced is superseded for good, where the item itself never was too.
        let by_erased = batch.tombstones.iter().flat_map(|stone| &stone.supersedes);
        for &old in by_items.chain(by_erased) {
            self.retire(old, |state| &mut state.superseded)?;
        }
        for stone in &batch.tombstones {
            if !self.retire(ItemId(stone.target), |state| &mut state.tombstoned)? {
                self.hide_edge(EdgeId(stone.target))?;
            }
        }
        Ok(())
    }

    /// Sets a bit of an item's row; `false` where there is no such item.
    fn retire(
        &mut self,
        id: ItemId,
        bits: impl Fn(&mut RowState) -> &mut Bits,
    ) -> Result<bool, Damage> {
        for part in self.parts.iter_mut().rev() {
            if let Some(row) = part.segment.row_of_item(id)? {
                bits(Arc::make_mut(&mut part.state)).insert(row);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn hide_edge(&mut self, id: EdgeId) -> Result<(), Damage> {
        for part in self.parts.iter_mut().rev() {
            if let Some(row) = part.segment.row_of_edge(id)? {
                Arc::make_mut(&mut part.state).edges_tombstoned.insert(row);
                break;
            }
        }
        Ok(())
    }

    /// Keeps the tail's parts few: [`TAIL_RUN`] neighbours of about one size, or smaller, become one.
    /// There are then less than that many of each size, and a row is copied once for each size on
    /// its way, about log4(tail rows) times.
    fn merge_tail(&mut self) -> Result<(), Damage> {
        loop {
            let loose = self.loose();
            let mut run = run_at_end(loose);
            if run < TAIL_RUN {
                if loose.len() <= TAIL_PARTS_MAX {
                    return Ok(());
                }
                run = run.max(2);
            }
            let first = self.parts.len() - run;
            let merged = merge(&self.parts[first..])?;
            self.parts.truncate(first);
            self.parts.push(merged);
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
        parts.iter().map(|part| part.segment.raw().len()).sum()
    }
}

/// How many parts at the end are no larger than the last one, by their sizes' powers of
/// [`TAIL_RUN`].
fn run_at_end(parts: &[Part]) -> usize {
    let size = |part: &Part| part.segment.header().rows_in_all().max(1).ilog(TAIL_RUN as u64);
    let Some(last) = parts.last().map(size) else { return 0 };
    parts.iter().rev().take_while(|part| size(part) <= last).count()
}
