//! Views of a sealed segment's columns, read where they lie.
//!
//! A view checks a page of the file the first time one of its bytes is used (SEG-06), so opening
//! costs the same whatever the number of rows, and a flipped bit is still never read as data.

use bytemuck::AnyBitPattern;

use super::sealed::Segment;
use crate::error::Damage;
use crate::layout::{Column, PAGE_BYTES};

/// A fixed-width column.
pub(crate) struct View<'seg, T> {
    segment: &'seg Segment,
    offset: usize,
    cells: &'seg [T],
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

impl<'seg, T: AnyBitPattern> View<'seg, T> {
    /// The column's number of cells was checked at opening (SEG-09).
    pub(super) fn of(segment: &'seg Segment, column: Column) -> Result<Self, Damage> {
        let (offset, bytes) = segment.place(column)?;
        let raw = &segment.raw()[offset..offset + bytes];
        let cells = bytemuck::try_cast_slice(raw)
            .map_err(|error| Damage::new("SEG-08", format!("{}: {error}", column.spec().name)))?;
        Ok(Self { segment, offset, cells })
    }

    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// One cell.
    pub(crate) fn get(&self, row: usize) -> Result<T, Damage> {
        let cell = self.cells.get(row).copied().ok_or_else(|| self.outside(row))?;
        self.touch(row, row + 1)?;
        Ok(cell)
    }

    /// Cells `from..to`.
    pub(crate) fn range(&self, from: usize, to: usize) -> Result<&'seg [T], Damage> {
        let cells = self.cells.get(from..to).ok_or_else(|| self.outside(to))?;
        self.touch(from, to)?;
        Ok(cells)
    }

    /// All cells.
    pub(crate) fn all(&self) -> Result<&'seg [T], Damage> {
        self.range(0, self.cells.len())
    }

    fn touch(&self, from: usize, to: usize) -> Result<(), Damage> {
        let start = self.offset + from * size_of::<T>();
        let end = self.offset + to * size_of::<T>();
        self.segment.check_pages(start / PAGE_BYTES, end.div_ceil(PAGE_BYTES))
    }

    fn outside(&self, row: usize) -> Damage {
        Damage::new("SEG-12", format!("row {row} of {} cells", self.cells.len()))
    }
}

/// The words ask for what they use, so their pages are checked as late as those of other columns.
impl crate::words::Bytes for View<'_, u8> {
    fn size(&self) -> usize {
        self.len()
    }

    fn range(&self, from: usize, to: usize) -> Result<&[u8], Damage> {
        View::range(self, from, to)
    }
}

/// Where each of many texts or lists lies.
pub(super) trait Bound: AnyBitPattern {
    fn index(self) -> usize;
}

impl Bound for u32 {
    fn index(self) -> usize {
        self as usize
    }
}

impl Bound for u64 {
    fn index(self) -> usize {
        usize::try_from(self).unwrap_or(usize::MAX)
    }
}

/// A column of texts or lists: bounds, and what they point into.
pub(super) struct Pieces<'seg, B, T> {
    bounds: View<'seg, B>,
    cells: View<'seg, T>,
}

impl<'seg, B: Bound, T: AnyBitPattern> Pieces<'seg, B, T> {
    pub(super) fn of(
        segment: &'seg Segment,
        bounds: Column,
        cells: Column,
    ) -> Result<Self, Damage> {
        Ok(Self { bounds: View::of(segment, bounds)?, cells: View::of(segment, cells)? })
    }

    pub(super) fn get(&self, row: usize) -> Result<&'seg [T], Damage> {
        let (from, to) = (self.bounds.get(row)?.index(), self.bounds.get(row + 1)?.index());
        if from > to || to > self.cells.len() {
            let detail = format!("row {row} spans {from}..{to} of {}", self.cells.len());
            return Err(Damage::new("SEG-10", detail));
        }
        self.cells.range(from, to)
    }
}

impl<'seg> Pieces<'seg, u64, u8> {
    pub(super) fn text(&self, row: usize) -> Result<&'seg str, Damage> {
        std::str::from_utf8(self.get(row)?)
            .map_err(|error| Damage::new("SEG-11", format!("row {row}: {error}")))
    }
}

/// The places in `order`, which lists rows by ascending key, whose row has exactly `key`.
pub(super) fn rows_with_key<'seg, K: Ord>(
    order: View<'seg, u32>,
    key: &K,
    key_of: impl Fn(usize) -> Result<K, Damage>,
) -> Result<&'seg [u32], Damage> {
    let bound = |after: bool| {
        let (mut low, mut high) = (0, order.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let found = key_of(order.get(middle)? as usize)?;
            if found < *key || after && found == *key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok::<_, Damage>(low)
    };
    let (from, to) = (bound(false)?, bound(true)?);
    if to < from {
        return Err(Damage::new("SEG-13", "an index is not sorted"));
    }
    order.range(from, to)
}
