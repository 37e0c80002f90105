//! Views of f32 matrices with strided rows, the operands of the kernels.

use std::marker::PhantomData;
use std::ops::Range;

/// A matrix view for reading: `count` rows of `width` floats, `stride` floats from one row's start to the next.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    cells: &'a [f32],
    count: usize,
    width: usize,
    stride: usize,
}

impl<'a> Rows<'a> {
    /// Views `cells` as `count` rows.
    ///
    /// # Panics
    /// A row is wider than the stride, or the last row would end past `cells`.
    pub fn new(cells: &'a [f32], count: usize, width: usize, stride: usize) -> Rows<'a> {
        assert_inside(cells.len(), count, width, stride);
        Rows { cells, count, width, stride }
    }

    /// Views `cells` as rows without gaps. Cells short of a whole row are left out.
    ///
    /// # Panics
    /// `width` is zero.
    pub fn dense(cells: &'a [f32], width: usize) -> Rows<'a> {
        Rows::new(cells, cells.len() / width, width, width)
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Floats of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Row `i`, `width` floats.
    ///
    /// # Panics
    /// `i` is not less than `count`.
    pub fn row(&self, i: usize) -> &'a [f32] {
        assert!(i < self.count, "row {i} of {}", self.count);
        &self.cells[i * self.stride..][..self.width]
    }

    /// Returns a view of some of the rows.
    ///
    /// # Panics
    /// The range exceeds the rows.
    pub fn part(&self, rows: Range<usize>) -> Rows<'a> {
        assert!(rows.start <= rows.end && rows.end <= self.count, "rows {rows:?}");
        // For an empty range, `start * stride` may lie past the last cell.
        let cells = if rows.is_empty() { &[] } else { &self.cells[rows.start * self.stride..] };
        Rows { cells, count: rows.len(), width: self.width, stride: self.stride }
    }

    /// Returns a view of `width` columns of every row, from column `first` on.
    ///
    /// # Panics
    /// The columns are not inside the rows.
    pub fn columns(&self, first: usize, width: usize) -> Rows<'a> {
        assert!(first + width <= self.width, "columns from {first} of {}", self.width);
        let cells = if self.count == 0 { &[] } else { &self.cells[first..] };
        Rows { cells, count: self.count, width, stride: self.stride }
    }
}

/// A matrix view for writing; see [`Rows`].
#[derive(Debug)]
pub struct RowsMut<'a> {
    cells: &'a mut [f32],
    count: usize,
    width: usize,
    stride: usize,
}

impl<'a> RowsMut<'a> {
    /// Views `cells` as `count` rows.
    ///
    /// # Panics
    /// A row is wider than the stride, or the last row would end past `cells`.
    pub fn new(cells: &'a mut [f32], count: usize, width: usize, stride: usize) -> RowsMut<'a> {
        assert_inside(cells.len(), count, width, stride);
        RowsMut { cells, count, width, stride }
    }

    /// Views `cells` as rows without gaps. Cells short of a whole row are left out.
    ///
    /// # Panics
    /// `width` is zero.
    pub fn dense(cells: &'a mut [f32], width: usize) -> RowsMut<'a> {
        let count = cells.len() / width;
        RowsMut::new(cells, count, width, width)
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Floats of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Row `i`, `width` floats.
    ///
    /// # Panics
    /// `i` is not less than `count`.
    pub fn row(&mut self, i: usize) -> &mut [f32] {
        assert!(i < self.count, "row {i} of {}", self.count);
        &mut self.cells[i * self.stride..][..self.width]
    }

    /// Shares the rows with threads that write disjoint places.
    pub(crate) fn shared(&mut self) -> SharedRows<'_> {
        let RowsMut { cells, count, width, stride } = self;
        SharedRows {
            cells: cells.as_mut_ptr(),
            count: *count,
            width: *width,
            stride: *stride,
            borrowed: PhantomData,
        }
    }
}

/// Rows that several threads write at once, in disjoint places.
#[derive(Clone, Copy)]
pub(crate) struct SharedRows<'a> {
    cells: *mut f32,
    count: usize,
    width: usize,
    stride: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

// SAFETY: the rows are a `&mut [f32]` that is lent in pieces, and that may cross threads. The caller of `piece` or
// `strip` promises that no other thread uses the same piece.
unsafe impl Send for SharedRows<'_> {}
// SAFETY: as above.
unsafe impl Sync for SharedRows<'_> {}

impl<'a> SharedRows<'a> {
    /// Returns `columns` floats of row `i`, from column `first` on.
    ///
    /// # Panics
    /// The floats are not inside the row.
    ///
    /// # Safety
    /// Nothing else reads or writes these floats while they are borrowed.
    pub(crate) unsafe fn piece(&self, i: usize, first: usize, columns: usize) -> &'a mut [f32] {
        // SAFETY: the caller's promise.
        let strip = unsafe { self.strip(first, columns) };
        // SAFETY: as above.
        unsafe { strip.row(i) }
    }

    /// Returns a view of `columns` floats of every row, from column `first` on.
    ///
    /// # Panics
    /// The columns are not inside the rows.
    ///
    /// # Safety
    /// Nothing else reads or writes the floats that [`Strip::row`] borrows while they are borrowed.
    #[inline]
    pub(crate) unsafe fn strip(&self, first: usize, columns: usize) -> Strip<'a> {
        let inside = first.checked_add(columns).is_some_and(|end| end <= self.width);
        assert!(inside, "columns from {first} of {}", self.width);
        // Without rows, there may be no column `first`.
        let start = if self.count == 0 {
            self.cells
        } else {
            // SAFETY: `first` is inside the first row, which is inside the slice.
            unsafe { self.cells.add(first) }
        };
        Strip { start, columns, count: self.count, stride: self.stride, borrowed: PhantomData }
    }
}

/// Some columns of shared rows, written by one thread.
#[derive(Clone, Copy)]
pub(crate) struct Strip<'a> {
    start: *mut f32,
    columns: usize,
    count: usize,
    stride: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

impl<'a> Strip<'a> {
    /// Returns row `i` of the strip.
    ///
    /// # Panics
    /// The row does not exist.
    ///
    /// # Safety
    /// No other borrow of this row of the strip is in use.
    #[inline]
    pub(crate) unsafe fn row(&self, i: usize) -> &'a mut [f32] {
        assert!(i < self.count, "row {i} of {}", self.count);
        // SAFETY: `RowsMut::new` has checked that `count` rows of `width`, `stride` apart, lie inside the slice that
        // this view was made from, and `strip` that the columns lie inside a row.
        let start = unsafe { self.start.add(i * self.stride) };
        // SAFETY: inside one slice of initialized floats, as above; the caller and the creator of the strip promise
        // that nothing else accesses these floats.
        unsafe { std::slice::from_raw_parts_mut(start, self.columns) }
    }
}

fn assert_inside(cells: usize, count: usize, width: usize, stride: usize) {
    assert!(width <= stride, "rows of {width} floats overlap at a stride of {stride}");
    let end =
        count.checked_sub(1).map_or(Some(0), |last| last.checked_mul(stride)?.checked_add(width));
    assert!(
        end.is_some_and(|end| end <= cells),
        "{count} rows of {width} floats, {stride} apart, do not fit {cells}"
    );
}
