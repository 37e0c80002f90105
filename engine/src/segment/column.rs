//! Views of a sealed segment's columns, read where they lie.
//!
//! A view checks a page of the file the first time one of its bytes is used (SEG-06), so opening
//! costs the same whatever the number of rows, and a flipped bit is still never read as data. Of a file
//! that fills, a page may still change until then; so cells are looked at behind that, and never before.

use std::ops::Range;

use bytemuck::AnyBitPattern;

use super::sealed::Segment;
use crate::error::Damage;
use crate::layout::{Column, PAGE_BYTES};

impl Segment {
    /// A column, typed.
    pub(crate) fn view<T: AnyBitPattern>(&self, column: Column) -> Result<View<'_, T>, Damage> {
        View::of(self, column)
    }

    /// A column of texts or lists, typed.
    pub(crate) fn pieces<B: Bound, T: AnyBitPattern>(
        &self,
        bounds: Column,
        cells: Column,
    ) -> Result<Pieces<'_, B, T>, Damage> {
        Pieces::of(self, bounds, cells)
    }
}

/// A fixed-width column.
pub(crate) struct View<'seg, T> {
    segment: &'seg Segment,
    column: Column,
    offset: usize,
    length: usize,
    /// All of them, where the whole file is here.
    cells: Option<&'seg [T]>,
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
        let (offset, bytes) = segment.place(column);
        let cells = match segment.all() {
            Some(file) => Some(cast(segment, column, &file[offset..offset + bytes])?),
            None if bytes.is_multiple_of(size_of::<T>()) => None,
            None => return Err(segment.wrong("SEG-08", column, "it ends within a cell")),
        };
        Ok(Self { segment, column, offset, length: bytes / size_of::<T>(), cells })
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// One cell.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Result<T, Damage> {
        let Some(cells) = self.cells else { return self.come(row, row + 1).map(|cells| cells[0]) };
        let cell = cells.get(row).copied().ok_or_else(|| self.outside(row))?;
        self.touch(row, row + 1)?;
        Ok(cell)
    }

    /// Cells `from..to`.
    #[inline]
    pub(crate) fn range(&self, from: usize, to: usize) -> Result<&'seg [T], Damage> {
        let Some(cells) = self.cells else { return self.come(from, to) };
        let cells = cells.get(from..to).ok_or_else(|| self.outside(to))?;
        self.touch(from, to)?;
        Ok(cells)
    }

    /// All cells.
    pub(crate) fn all(&self) -> Result<&'seg [T], Damage> {
        self.range(0, self.length)
    }

    /// Cells of a file that fills.
    #[inline(never)]
    fn come(&self, from: usize, to: usize) -> Result<&'seg [T], Damage> {
        if from > to || to > self.length {
            return Err(self.outside(to));
        }
        if from == to {
            return Ok(&[]);
        }
        self.touch(from, to)?;
        let place = self.offset + from * size_of::<T>()..self.offset + to * size_of::<T>();
        let absent = || self.wrong(Damage::AWAY, "a page that was here is not");
        cast(self.segment, self.column, self.segment.slice(place).ok_or_else(absent)?)
    }

    /// How many cells at the start are `before` what is looked for, if the column is in its order.
    pub(crate) fn lower_bound(&self, before: impl Fn(&T) -> bool) -> Result<usize, Damage> {
        partition_point(self.len(), |at| Ok(before(&self.get(at)?)))
    }

    #[inline]
    fn touch(&self, from: usize, to: usize) -> Result<(), Damage> {
        let start = self.offset + from * size_of::<T>();
        let end = self.offset + to * size_of::<T>();
        let pages = start / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        // Most of what is asked for lies in one page, and was checked before.
        if pages.len() == 1 && self.segment.is_checked(pages.start) {
            return Ok(());
        }
        self.check(pages)
    }

    #[inline(never)]
    fn check(&self, pages: Range<usize>) -> Result<(), Damage> {
        self.segment
            .check_pages(pages.start, pages.end)
            .map_err(Damage::from)
            .map_err(|damage| self.segment.wrong(damage.rule, self.column, damage.detail))
    }

    #[cold]
    fn outside(&self, row: usize) -> Damage {
        self.wrong("SEG-12", format!("row {row} of {} cells", self.length))
    }

    pub(crate) fn wrong(&self, rule: &'static str, detail: impl Into<String>) -> Damage {
        self.segment.wrong(rule, self.column, detail)
    }
}

fn cast<'seg, T: AnyBitPattern>(
    segment: &Segment,
    column: Column,
    bytes: &'seg [u8],
) -> Result<&'seg [T], Damage> {
    bytemuck::try_cast_slice(bytes)
        .map_err(|error| segment.wrong("SEG-08", column, error.to_string()))
}

/// The first of `0..length` for which `before` is false, if it is true up to there and not after.
pub(super) fn partition_point(
    length: usize,
    before: impl Fn(usize) -> Result<bool, Damage>,
) -> Result<usize, Damage> {
    let (mut low, mut high) = (0, length);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
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
pub(crate) trait Bound: AnyBitPattern {
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
pub(crate) struct Pieces<'seg, B, T> {
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

    pub(crate) fn get(&self, row: usize) -> Result<&'seg [T], Damage> {
        let (from, to) = (self.bounds.get(row)?.index(), self.bounds.get(row + 1)?.index());
        if from > to || to > self.cells.len() {
            let detail = format!("row {row} spans {from}..{to} of {}", self.cells.len());
            return Err(self.bounds.wrong("SEG-10", detail));
        }
        self.cells.range(from, to)
    }

    /// All bounds, once they are known to start at 0, never to fall, and to end where the cells
    /// do (SEG-10); and the cells, of which no page was looked at yet.
    pub(crate) fn whole(&self) -> Result<(&'seg [B], View<'seg, T>), Damage> {
        let bounds = self.bounds.all()?;
        let first = bounds.first().map(|bound| bound.index());
        let last = bounds.last().map(|bound| bound.index());
        if first != Some(0)
            || last != Some(self.cells.len())
            || !bounds.is_sorted_by_key(|bound| bound.index())
        {
            let detail = format!("from {first:?} to {last:?} of {}, or falling", self.cells.len());
            return Err(self.bounds.wrong("SEG-10", detail));
        }
        Ok((bounds, self.cells))
    }
}

impl<'seg> Pieces<'seg, u64, u8> {
    pub(super) fn text(&self, row: usize) -> Result<&'seg str, Damage> {
        std::str::from_utf8(self.get(row)?)
            .map_err(|error| self.cells.wrong("SEG-11", format!("row {row}: {error}")))
    }
}
