//! Matrices as the kernels read them: strided rows, and panels packed for multiplication.
//!
//! A product `left * right` walks `right` down sixteen columns at a time. [`Panels`] stores those
//! sixteen columns side by side, one aligned [`Line`] per step of depth, so the inner loop reads
//! memory strictly forward. Every level reads the same panels; a wider one may take two at once.

/// Columns in one panel.
pub(crate) const COLUMNS: usize = 16;

/// One step of depth of a panel: a cache line, and one or two or four registers.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct Line(pub(crate) [f32; COLUMNS]);

impl Line {
    const ZERO: Line = Line([0.0; COLUMNS]);
}

const _: () = assert!(size_of::<Line>() == COLUMNS * size_of::<f32>());

/// A matrix read where it lies: `count` rows of `width` floats, `stride` floats from one row's
/// start to the next.
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
    /// If a row is wider than the stride, or the last one would end past `cells`.
    pub fn new(cells: &'a [f32], count: usize, width: usize, stride: usize) -> Rows<'a> {
        assert_inside(cells.len(), count, width, stride);
        Rows { cells, count, width, stride }
    }

    /// Views `cells` as rows with nothing between them. Cells short of a whole row are left out.
    ///
    /// # Panics
    /// If `width` is zero.
    pub fn dense(cells: &'a [f32], width: usize) -> Rows<'a> {
        Rows::new(cells, cells.len() / width, width, width)
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many floats a row has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Row `i`, `width` floats.
    ///
    /// # Panics
    /// If `i` is not less than `count`.
    pub fn row(&self, i: usize) -> &'a [f32] {
        assert!(i < self.count, "row {i} of {}", self.count);
        &self.cells[i * self.stride..][..self.width]
    }
}

/// A matrix written where it lies; see [`Rows`].
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
    /// If a row is wider than the stride, or the last one would end past `cells`.
    pub fn new(cells: &'a mut [f32], count: usize, width: usize, stride: usize) -> RowsMut<'a> {
        assert_inside(cells.len(), count, width, stride);
        RowsMut { cells, count, width, stride }
    }

    /// Views `cells` as rows with nothing between them. Cells short of a whole row are left out.
    ///
    /// # Panics
    /// If `width` is zero.
    pub fn dense(cells: &'a mut [f32], width: usize) -> RowsMut<'a> {
        let count = cells.len() / width;
        RowsMut::new(cells, count, width, width)
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many floats a row has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Row `i`, `width` floats.
    ///
    /// # Panics
    /// If `i` is not less than `count`.
    pub fn row(&mut self, i: usize) -> &mut [f32] {
        assert!(i < self.count, "row {i} of {}", self.count);
        &mut self.cells[i * self.stride..][..self.width]
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

/// The right side of a product, packed. Columns past the last are zeros, so a level may compute a
/// whole panel and keep the part that counts.
#[derive(Clone, Debug, Default)]
pub struct Panels {
    /// Panel after panel, each `depth` lines.
    lines: Vec<Line>,
    /// What the sums of each panel's columns start from.
    start: Vec<Line>,
    depth: usize,
    width: usize,
}

impl Panels {
    /// Room for a right side of `depth_max` rows and `width_max` columns (or any shape that needs
    /// no more panels times depth), so that filling it later does not allocate.
    pub fn with_room(depth_max: usize, width_max: usize) -> Panels {
        let panels = width_max.div_ceil(COLUMNS);
        let lines = panels * depth_max;
        Panels {
            lines: Vec::with_capacity(lines),
            start: Vec::with_capacity(panels),
            depth: 0,
            width: 0,
        }
    }

    /// A fully connected layer: row `n` of `weights` makes output column `n`, plus `bias[n]`.
    ///
    /// # Panics
    /// If there is not one bias per row of weights.
    pub fn linear(weights: Rows<'_>, bias: &[f32]) -> Panels {
        assert_eq!(weights.count, bias.len(), "one bias per output");
        let mut panels = Panels::default();
        panels.fill_transposed(weights);
        let (whole, rest) = bias.as_chunks::<COLUMNS>();
        let (starts, last) = panels.start.split_at_mut(whole.len());
        for (start, bias) in starts.iter_mut().zip(whole) {
            start.0 = *bias;
        }
        for start in last {
            start.0[..rest.len()].copy_from_slice(rest);
        }
        panels
    }

    /// Packs `rows` turned on its side: row `n` becomes column `n`. Sums start from zero.
    pub fn fill_transposed(&mut self, rows: Rows<'_>) {
        self.reshape(rows.width, rows.count);
        for panel in 0..self.start.len() {
            let first = panel * COLUMNS;
            let lines = &mut self.lines[panel * self.depth..][..self.depth];
            if let Some(columns) = whole_panel(&rows, first) {
                for (k, line) in lines.iter_mut().enumerate() {
                    line.0 = columns.map(|column| column[k]);
                }
            } else {
                lines.fill(Line::ZERO);
                for n in first..rows.count {
                    for (line, &cell) in lines.iter_mut().zip(rows.row(n)) {
                        line.0[n - first] = cell;
                    }
                }
            }
        }
    }

    /// Packs `rows` as it stands: column `n` stays column `n`. Sums start from zero.
    pub fn fill(&mut self, rows: Rows<'_>) {
        self.reshape(rows.count, rows.width);
        for k in 0..rows.count {
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

    /// Rows of the matrix these panels hold: what a left row's width must be.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Columns of the matrix these panels hold: how wide a row of the product is.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Each panel in order.
    pub(crate) fn each(&self) -> impl Iterator<Item = Panel<'_>> {
        self.start.iter().enumerate().map(|(panel, start)| {
            let first = panel * COLUMNS;
            let (lines, next) = self.lines[panel * self.depth..].split_at(self.depth);
            Panel {
                first,
                columns: COLUMNS.min(self.width - first),
                start,
                lines,
                next: &next[..next.len().min(self.depth)],
            }
        })
    }

    /// Where the lines are, for the test that refilling does not allocate.
    #[cfg(test)]
    pub(crate) fn address(&self) -> *const Line {
        self.lines.as_ptr()
    }

    /// Takes the new shape. Lines keep stale cells; the caller overwrites all of them.
    fn reshape(&mut self, depth: usize, width: usize) {
        let panels = width.div_ceil(COLUMNS);
        self.lines.resize(panels * depth, Line::ZERO);
        self.start.clear();
        self.start.resize(panels, Line::ZERO);
        (self.depth, self.width) = (depth, width);
    }
}

/// One panel, as a level's loops take it.
#[derive(Clone, Copy)]
pub(crate) struct Panel<'a> {
    /// The index of its first column.
    pub(crate) first: usize,
    /// How many of its columns count; the others are zeros.
    pub(crate) columns: usize,
    /// What the sums start from.
    pub(crate) start: &'a Line,
    /// One line per step of depth.
    pub(crate) lines: &'a [Line],
    /// The next panel's lines, to ask memory for early; none after the last panel.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "the scalar level leaves fetching to the CPU")
    )]
    pub(crate) next: &'a [Line],
}

/// The sixteen rows that become the panel starting at column `first`, if there are that many.
fn whole_panel<'a>(rows: &Rows<'a>, first: usize) -> Option<[&'a [f32]; COLUMNS]> {
    (first + COLUMNS <= rows.count).then(|| std::array::from_fn(|c| rows.row(first + c)))
}
