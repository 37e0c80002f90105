//! The right side of a product of activations, packed on use.
//!
//! A product `left * right` reads `right` sixteen columns at a time. [`Panels`] stores those sixteen columns side by
//! side, one aligned [`Line`] per step of depth, so the inner loop reads memory strictly forward. Every level reads the
//! same panels; a wider level may read two at once.

use crate::linear::COLUMNS;
use crate::rows::Rows;

/// A step of depth of a panel: a cache line, which is one, two or four registers.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Line(pub(crate) [f32; COLUMNS]);

impl Line {
    const ZERO: Line = Line([0.0; COLUMNS]);
}

const _: () = assert!(size_of::<Line>() == COLUMNS * size_of::<f32>());

/// The right side of a product, packed. Columns past the last are zeros, so a level may compute a whole panel and store
/// the columns that exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct Panels {
    /// Panel after panel, `depth` lines each.
    lines: Vec<Line>,
    depth: usize,
    width: usize,
}

impl Panels {
    /// Allocates for a right side of `depth_max` rows and `width_max` columns (or any shape that needs no more panels
    /// times depth), so that filling the panels later does not allocate.
    pub(crate) fn with_room(depth_max: usize, width_max: usize) -> Panels {
        let lines = width_max.div_ceil(COLUMNS) * depth_max;
        Panels { lines: Vec::with_capacity(lines), depth: 0, width: 0 }
    }

    /// Packs the transpose of `rows`: row `n` becomes column `n`.
    pub(crate) fn fill_transposed(&mut self, rows: Rows<'_>) {
        self.reshape(rows.width(), rows.count());
        for panel in 0..self.count() {
            let first = panel * COLUMNS;
            let lines = &mut self.lines[panel * self.depth..][..self.depth];
            if let Some(columns) = whole_panel(&rows, first) {
                for (k, line) in lines.iter_mut().enumerate() {
                    for (cell, column) in line.0.iter_mut().zip(&columns) {
                        *cell = column[k];
                    }
                }
            } else {
                lines.fill(Line::ZERO);
                for n in first..rows.count() {
                    for (line, &cell) in lines.iter_mut().zip(rows.row(n)) {
                        line.0[n - first] = cell;
                    }
                }
            }
        }
    }

    /// Packs `rows` as they are: column `n` stays column `n`.
    pub(crate) fn fill(&mut self, rows: Rows<'_>) {
        self.reshape(rows.count(), rows.width());
        for k in 0..rows.count() {
            let (whole, rest) = rows.row(k).as_chunks::<COLUMNS>();
            for (panel, columns) in whole.iter().enumerate() {
                self.lines[panel * self.depth + k].0 = *columns;
            }
            if !rest.is_empty() {
                let line = &mut self.lines[whole.len() * self.depth + k];
                *line = Line::ZERO;
                line.0[..rest.len()].copy_from_slice(rest);
            }
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.width.div_ceil(COLUMNS)
    }

    /// Panel `panel`: one line of columns per step of depth.
    pub(crate) fn lines(&self, panel: usize) -> &[Line] {
        &self.lines[panel * self.depth..][..self.depth]
    }

    /// Returns the first column of `panel` in a row of the product, and the number of its columns without padding.
    pub(crate) fn columns(&self, panel: usize) -> (usize, usize) {
        let first = panel * COLUMNS;
        (first, COLUMNS.min(self.width - first))
    }

    /// Address of the lines, for the test that refilling does not allocate.
    #[cfg(test)]
    pub(crate) fn address(&self) -> *const Line {
        self.lines.as_ptr()
    }

    /// Sets the shape. Lines retain stale cells; the caller overwrites all of them.
    fn reshape(&mut self, depth: usize, width: usize) {
        let panels = width.div_ceil(COLUMNS);
        self.lines.resize(panels * depth, Line::ZERO);
        (self.depth, self.width) = (depth, width);
    }
}

/// Returns the sixteen rows of the panel that starts at column `first`, or `None` if there are fewer.
fn whole_panel<'a>(rows: &Rows<'a>, first: usize) -> Option<[&'a [f32]; COLUMNS]> {
    (first + COLUMNS <= rows.count()).then(|| std::array::from_fn(|c| rows.row(first + c)))
}
