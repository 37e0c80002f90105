//! Typed views of a segment's columns, read in place.
//!
//! A view verifies a page of the file when a byte of the page is first used (SEG-06). So the cost of opening is
//! independent of the number of rows, and a flipped bit is still never read as data. In a lazy file, a page may change
//! until it is verified; so cells are read only after the verification.

use std::ops::Range;

use bytemuck::AnyBitPattern;

use super::reader::Segment;
use crate::error::CorruptionError;
use crate::layout::{Column, PAGE_BYTES};

impl Segment {
    /// Returns a typed view of a fixed-width column.
    pub(crate) fn column<T: AnyBitPattern>(
        &self,
        column: Column,
    ) -> Result<ColumnView<'_, T>, CorruptionError> {
        ColumnView::open(self, column)
    }

    /// Returns a typed view of a column of texts or lists.
    pub(crate) fn var_len_column<B: Offset, T: AnyBitPattern>(
        &self,
        bounds: Column,
        cells: Column,
    ) -> Result<VarLenColumn<'_, B, T>, CorruptionError> {
        VarLenColumn::open(self, bounds, cells)
    }
}

/// View of a fixed-width column.
pub(crate) struct ColumnView<'seg, T> {
    segment: &'seg Segment,
    column: Column,
    offset: usize,
    length: usize,
    /// All cells, if the whole file is present.
    cells: Option<&'seg [T]>,
}

impl<T> Clone for ColumnView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ColumnView<'_, T> {}

impl<'seg, T: AnyBitPattern> ColumnView<'seg, T> {
    /// Opens a view. The number of cells was checked when the segment was opened (SEG-09).
    pub(super) fn open(segment: &'seg Segment, column: Column) -> Result<Self, CorruptionError> {
        let (offset, bytes) = segment.column_range(column);
        let cells = match segment.bytes_if_complete() {
            Some(file) => Some(cast(segment, column, &file[offset..offset + bytes])?),
            None if bytes.is_multiple_of(size_of::<T>()) => None,
            None => return Err(segment.damage("SEG-08", column, "it ends within a cell")),
        };
        Ok(Self { segment, column, offset, length: bytes / size_of::<T>(), cells })
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Result<T, CorruptionError> {
        let Some(cells) = self.cells else {
            return self.fetch_range(row, row + 1).map(|cells| cells[0]);
        };
        let cell = cells.get(row).copied().ok_or_else(|| self.out_of_range(row))?;
        self.ensure_checked(row, row + 1)?;
        Ok(cell)
    }

    #[inline]
    pub(crate) fn range(&self, from: usize, to: usize) -> Result<&'seg [T], CorruptionError> {
        let Some(cells) = self.cells else { return self.fetch_range(from, to) };
        let cells = cells.get(from..to).ok_or_else(|| self.out_of_range(to))?;
        self.ensure_checked(from, to)?;
        Ok(cells)
    }

    pub(crate) fn all(&self) -> Result<&'seg [T], CorruptionError> {
        self.range(0, self.length)
    }

    /// Returns cells of a lazy file, whose pages are fetched first.
    #[inline(never)]
    fn fetch_range(&self, from: usize, to: usize) -> Result<&'seg [T], CorruptionError> {
        if from > to || to > self.length {
            return Err(self.out_of_range(to));
        }
        if from == to {
            return Ok(&[]);
        }
        self.ensure_checked(from, to)?;
        let place = self.offset + from * size_of::<T>()..self.offset + to * size_of::<T>();
        let absent =
            || self.damage(CorruptionError::UNAVAILABLE_RULE, "a page that was here is not");
        cast(self.segment, self.column, self.segment.slice(place).ok_or_else(absent)?)
    }

    /// Returns the number of leading cells that satisfy `before`, in a column partitioned by `before`.
    pub(crate) fn lower_bound(
        &self,
        before: impl Fn(&T) -> bool,
    ) -> Result<usize, CorruptionError> {
        partition_point(self.len(), |at| Ok(before(&self.get(at)?)))
    }

    #[inline]
    fn ensure_checked(&self, from: usize, to: usize) -> Result<(), CorruptionError> {
        let start = self.offset + from * size_of::<T>();
        let end = self.offset + to * size_of::<T>();
        let pages = start / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        // Most reads are within one page that is already verified.
        if pages.len() == 1 && self.segment.is_checked(pages.start) {
            return Ok(());
        }
        self.check(pages)
    }

    #[inline(never)]
    fn check(&self, pages: Range<usize>) -> Result<(), CorruptionError> {
        self.segment
            .check_pages(pages.start, pages.end)
            .map_err(CorruptionError::from)
            .map_err(|damage| self.segment.damage(damage.rule, self.column, damage.detail))
    }

    #[cold]
    fn out_of_range(&self, row: usize) -> CorruptionError {
        self.damage("SEG-12", format!("row {row} of {} cells", self.length))
    }

    pub(crate) fn damage(&self, rule: &'static str, detail: impl Into<String>) -> CorruptionError {
        self.segment.damage(rule, self.column, detail)
    }
}

fn cast<'seg, T: AnyBitPattern>(
    segment: &Segment,
    column: Column,
    bytes: &'seg [u8],
) -> Result<&'seg [T], CorruptionError> {
    bytemuck::try_cast_slice(bytes)
        .map_err(|error| segment.damage("SEG-08", column, error.to_string()))
}

/// Returns the first index of `0..length` for which `before` is false. `before` must be true below this index and false
/// from there on.
pub(super) fn partition_point(
    length: usize,
    before: impl Fn(usize) -> Result<bool, CorruptionError>,
) -> Result<usize, CorruptionError> {
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

/// The full-text search reads only the needed ranges, so word pages are verified as late as those of other columns.
impl crate::fulltext::ColumnBytes for ColumnView<'_, u8> {
    fn size(&self) -> usize {
        self.len()
    }

    fn range(&self, from: usize, to: usize) -> Result<&[u8], CorruptionError> {
        ColumnView::range(self, from, to)
    }
}

/// Offset of a text or list within its column of cells.
pub(crate) trait Offset: AnyBitPattern {
    fn index(self) -> usize;
}

impl Offset for u32 {
    fn index(self) -> usize {
        self as usize
    }
}

impl Offset for u64 {
    fn index(self) -> usize {
        usize::try_from(self).unwrap_or(usize::MAX)
    }
}

/// View of a column of texts or lists: offsets, and the cells they point into.
pub(crate) struct VarLenColumn<'seg, B, T> {
    bounds: ColumnView<'seg, B>,
    cells: ColumnView<'seg, T>,
}

impl<'seg, B: Offset, T: AnyBitPattern> VarLenColumn<'seg, B, T> {
    pub(super) fn open(
        segment: &'seg Segment,
        bounds: Column,
        cells: Column,
    ) -> Result<Self, CorruptionError> {
        Ok(Self {
            bounds: ColumnView::open(segment, bounds)?,
            cells: ColumnView::open(segment, cells)?,
        })
    }

    pub(crate) fn get(&self, row: usize) -> Result<&'seg [T], CorruptionError> {
        let (from, to) = (self.bounds.get(row)?.index(), self.bounds.get(row + 1)?.index());
        if from > to || to > self.cells.len() {
            let detail = format!("row {row} spans {from}..{to} of {}", self.cells.len());
            return Err(self.bounds.damage("SEG-10", detail));
        }
        self.cells.range(from, to)
    }

    /// Returns all offsets and the cells. The offsets are checked to start at 0, never to decrease, and to end at the
    /// last cell (SEG-10); no page of the cells has been verified yet.
    pub(crate) fn checked_parts(
        &self,
    ) -> Result<(&'seg [B], ColumnView<'seg, T>), CorruptionError> {
        let bounds = self.bounds.all()?;
        let first = bounds.first().map(|bound| bound.index());
        let last = bounds.last().map(|bound| bound.index());
        if first != Some(0)
            || last != Some(self.cells.len())
            || !bounds.is_sorted_by_key(|bound| bound.index())
        {
            let detail = format!("from {first:?} to {last:?} of {}, or falling", self.cells.len());
            return Err(self.bounds.damage("SEG-10", detail));
        }
        Ok((bounds, self.cells))
    }
}

impl<'seg> VarLenColumn<'seg, u64, u8> {
    pub(super) fn text(&self, row: usize) -> Result<&'seg str, CorruptionError> {
        std::str::from_utf8(self.get(row)?)
            .map_err(|error| self.cells.damage("SEG-11", format!("row {row}: {error}")))
    }
}
