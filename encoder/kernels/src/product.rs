//! The product of rows with a packed layer, cut into work for a team of threads.
//!
//! Owns the order: the left rows are prepared once, in the form the level wants, then the panels of
//! the layer are multiplied with all of them. Which level does it, it is told.

use std::ops::Range;

use crate::Then;
use crate::linear::{Linear, padded_depth, quantize};
use crate::rotate::rotate;
use crate::rows::{Rows, RowsMut, SharedRows};
use crate::workspace::{CacheLine, SharedSlice, Workspace};

/// Pieces of work per thread: enough that one that comes late does not hold up the others long.
const CHUNKS_PER_THREAD: usize = 6;
/// Panels that a level takes at once; chunks are cut between them.
pub(crate) const PANELS_TOGETHER: usize = 2;

/// How one level multiplies at one precision.
pub(crate) struct Product {
    /// Most rows of a tile: what is multiplied together.
    pub(crate) tile_rows: usize,
    /// Bytes that a prepared cell takes; a prepared row has the padded depth of the layer.
    pub(crate) cell_bytes: usize,
    /// Brings the rows of one tile into the level's form (lines, and what a row's codes are worth).
    /// The memory that comes last is the thread's own.
    pub(crate) prepare: unsafe fn(Rows<'_>, &mut [CacheLine], &mut [f32], &mut [CacheLine]),
    /// Multiplies all rows with some panels, and writes those columns of the product. The memory
    /// is the thread's own.
    pub(crate) multiply: unsafe fn(&Task<'_>, &mut [CacheLine]),
}

/// Some panels of a product.
pub(crate) struct Task<'a> {
    pub(crate) left: Prepared<'a>,
    pub(crate) layer: Linear<'a>,
    pub(crate) panels: Range<usize>,
    pub(crate) then: Then,
    pub(crate) out: SharedRows<'a>,
}

impl<'a> Task<'a> {
    /// The place in the product of the columns of `panel` in `row`.
    ///
    /// # Safety
    /// `panel` is one of this task's, and the last piece of it is no longer in use.
    pub(crate) unsafe fn place(&self, row: usize, panel: usize) -> &'a mut [f32] {
        let (first, columns) = self.layer.columns(panel);
        // SAFETY: no other task has this panel; the rest is the caller's promise.
        unsafe { self.out.piece(row, first, columns) }
    }
}

/// Prepared rows, tile after tile.
#[derive(Clone, Copy)]
pub(crate) struct Prepared<'a> {
    pub(crate) tiles: Tiles,
    /// Lines that a row takes.
    pub(crate) row_lines: usize,
    /// All tiles, and some lines beyond the last.
    pub(crate) lines: &'a [CacheLine],
    /// One per row.
    pub(crate) scales: &'a [f32],
}

impl<'a> Prepared<'a> {
    /// The rows of a tile, and their lines.
    pub(crate) fn tile(&self, tile: usize) -> (Range<usize>, &'a [CacheLine]) {
        let rows = self.tiles.rows(tile);
        let lines = &self.lines[rows.start * self.row_lines..rows.end * self.row_lines];
        (rows, lines)
    }
}

/// Rows cut into tiles of nearly equal height: thirteen rows are 7 + 6, quicker than 12 + 1.
#[derive(Clone, Copy)]
pub(crate) struct Tiles {
    rows: usize,
    tiles: usize,
}

impl Tiles {
    pub(crate) fn of(rows: usize, most: usize) -> Tiles {
        Tiles { rows, tiles: rows.div_ceil(most) }
    }

    pub(crate) fn count(self) -> usize {
        self.tiles
    }

    pub(crate) fn rows(self, tile: usize) -> Range<usize> {
        let (height, taller) = (self.rows / self.tiles, self.rows % self.tiles);
        let start = |tile: usize| tile * height + tile.min(taller);
        start(tile)..start(tile + 1)
    }
}

impl Product {
    /// The whole product. Shapes have been checked.
    ///
    /// # Safety
    /// The CPU has the features of the level this belongs to.
    pub(crate) unsafe fn run(
        &self,
        workspace: &mut Workspace,
        left: Rows<'_>,
        layer: Linear<'_>,
        then: Then,
        mut out: RowsMut<'_>,
    ) {
        if left.count() == 0 {
            return;
        }
        let Workspace { left: memory, team, memories, .. } = workspace;
        let tiles = Tiles::of(left.count(), self.tile_rows);
        let row_lines = padded_depth(layer.depth()) * self.cell_bytes / size_of::<CacheLine>();
        let lines = SharedSlice::of(&mut memory.lines);
        let scales = SharedSlice::of(&mut memory.scales);
        team.run(tiles.count(), &|tile, thread| {
            let rows = tiles.rows(tile);
            // SAFETY: tiles do not overlap, and each is prepared once, before any is read.
            let lines = unsafe { lines.piece(rows.start * row_lines, rows.len() * row_lines) };
            // SAFETY: as above.
            let scales = unsafe { scales.piece(rows.start, rows.len()) };
            // SAFETY: a thread runs one piece of work at a time.
            let own = unsafe { memories.of(thread) };
            // SAFETY: the features are the caller's promise.
            unsafe { (self.prepare)(left.part(rows), lines, scales, &mut own.lines) };
        });

        let (lines, scales) = (&memory.lines[..], &memory.scales[..]);
        let left = Prepared { tiles, row_lines, lines, scales };
        let panels = layer.panels();
        let chunk = chunk_panels(panels, team.threads());
        let out = out.shared();
        team.run(panels.div_ceil(chunk), &|index, thread| {
            let panels = index * chunk..((index + 1) * chunk).min(panels);
            // SAFETY: a thread runs one piece of work at a time.
            let own = unsafe { memories.of(thread) };
            // SAFETY: the features are the caller's promise; no two chunks share a panel.
            unsafe { (self.multiply)(&Task { left, layer, panels, then, out }, &mut own.lines) };
        });
    }
}

fn chunk_panels(panels: usize, threads: usize) -> usize {
    if threads == 1 {
        return panels.max(1);
    }
    panels.div_ceil(threads * CHUNKS_PER_THREAD).next_multiple_of(PANELS_TOGETHER)
}

/// Lays a tile of rows on its side: depth after depth, one float per row. The rows of the tile are
/// then next to each other at every step of depth.
#[inline(always)]
pub(crate) fn turned(rows: Rows<'_>, out: &mut [f32]) {
    let height = rows.count();
    for m in 0..height {
        for (to, x) in out[m..].iter_mut().step_by(height).zip(rows.row(m)) {
            *to = *x;
        }
    }
}

/// Turns and quantises the rows of a tile, and hands each row's codes, padded with zeros, to
/// `lay_out`.
#[inline(always)]
pub(crate) fn quantized(
    rows: Rows<'_>,
    scales: &mut [f32],
    own: &mut [CacheLine],
    mut lay_out: impl FnMut(usize, &[i8]),
) {
    let depth = rows.width();
    let padded = padded_depth(depth);
    let (floats, codes) = own.split_at_mut(padded * size_of::<f32>() / size_of::<CacheLine>());
    let rotated = &mut bytemuck::cast_slice_mut(floats)[..depth];
    let codes = &mut bytemuck::cast_slice_mut(codes)[..padded];
    codes[depth..].fill(0);
    for (m, scale) in scales.iter_mut().enumerate() {
        rotated.copy_from_slice(rows.row(m));
        rotate(rotated);
        *scale = quantize(rotated, &mut codes[..depth]);
        lay_out(m, codes);
    }
}
