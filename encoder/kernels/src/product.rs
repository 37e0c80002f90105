//! GEMM: the product of rows with a packed layer, divided into work for a pool of threads.
//!
//! This module defines the order: the left rows are prepared once, in the level's layout, then the panels of the layer
//! are multiplied with all of them. The caller chooses the level.

use std::ops::Range;

use crate::linear::{Linear, padded_depth};
use crate::rows::{Rows, RowsMut, SharedRows, Strip};
use crate::team::first_chunk;
use crate::workspace::{CacheLine, Left, Memory, SharedSlice, Workspace};

/// Chunks per thread: enough that one late chunk does not delay the other threads for long.
const CHUNKS_PER_THREAD: usize = 6;

pub(crate) const LINE_BYTES: usize = size_of::<CacheLine>();
/// Rows per thread from which on threads divide rows and not panels. Levels that read whole blocks of rows rely on this
/// minimum: a thread with a block's rows of its own reads no row of another thread, which may be writing it.
pub(crate) const ROWS_EACH_MIN: usize = 32;

/// Activation applied to each sum of a product before the sum is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The identity.
    Keep,
    /// [`gelu`](crate::Kernels::gelu).
    Gelu,
}

/// Implementation of a product by one level at one precision.
pub(crate) struct Product {
    /// Most rows of a tile, which are multiplied together.
    pub(crate) tile_rows: usize,
    /// Panels that are multiplied together; chunks are cut between such groups.
    pub(crate) panels_together: usize,
    /// Bytes of a prepared cell; a prepared row has the padded depth of the layer.
    pub(crate) cell_bytes: usize,
    /// Prepares the rows of one tile in the level's layout: lines, and the scales of rows of codes. The last argument
    /// is the thread's own memory.
    pub(crate) prepare: unsafe fn(Rows<'_>, &mut [CacheLine], &mut [f32], &mut [CacheLine]),
    /// Multiplies all rows of the task with its panels, and writes those columns of the product. The memory is the
    /// thread's own.
    pub(crate) multiply: unsafe fn(&Task<'_>, &mut [CacheLine]),
}

/// Some panels of a product.
pub(crate) struct Task<'a> {
    pub(crate) left: Prepared,
    pub(crate) layer: Linear<'a>,
    pub(crate) panels: Range<usize>,
    /// Tiles of the left side.
    pub(crate) tiles: Range<usize>,
    /// Bytes that are likely to be read after the panels of the layer.
    pub(crate) upcoming: &'a [u8],
    pub(crate) then: Then,
    pub(crate) out: SharedRows<'a>,
}

impl<'a> Task<'a> {
    /// Returns the columns of `panel` in the rows of the product; the task may write its own rows of them.
    ///
    /// # Safety
    /// `panel` is a panel of this task; only rows of this task are borrowed from the strip, and none of them twice at a
    /// time.
    #[inline]
    pub(crate) unsafe fn strip(&self, panel: usize) -> Strip<'a> {
        let (first, columns) = self.layer.columns(panel);
        // SAFETY: no other task has this panel of the rows that this task writes; the rest is the caller's promise.
        unsafe { self.out.strip(first, columns) }
    }

    /// Returns the columns of `panel` in one row of the product.
    ///
    /// # Safety
    /// As for [`Task::strip`]; `row` is a row of this task.
    pub(crate) unsafe fn place(&self, row: usize, panel: usize) -> &'a mut [f32] {
        // SAFETY: the caller's promise.
        let strip = unsafe { self.strip(panel) };
        // SAFETY: as above.
        unsafe { strip.row(row) }
    }
}

/// Prepared rows, tile after tile. A task reads only its own tiles, which no thread writes meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Prepared {
    tiles: Tiles,
    /// Lines of a row.
    row_lines: usize,
    lines: SharedSlice<CacheLine>,
    /// Scales, one per row.
    scales: SharedSlice<f32>,
}

impl Task<'_> {
    /// Returns the rows of one of this task's tiles, and their lines.
    pub(crate) fn tile(&self, tile: usize) -> (Range<usize>, &[CacheLine]) {
        let rows = self.left.tiles.rows(tile);
        (rows.clone(), self.lines(rows))
    }

    /// The rows of all tiles of this task.
    pub(crate) fn rows(&self) -> Range<usize> {
        let of = |tile| self.left.tiles.rows(tile);
        if self.tiles.is_empty() {
            0..0
        } else {
            of(self.tiles.start).start..of(self.tiles.end - 1).end
        }
    }

    /// The lines of some prepared rows, which may extend beyond this task's rows by the padding of a tile.
    pub(crate) fn lines(&self, rows: Range<usize>) -> &[CacheLine] {
        let Prepared { row_lines, lines, .. } = &self.left;
        // SAFETY: no thread writes the lines of this task's rows while the task runs.
        unsafe { lines.view(rows.start * row_lines, rows.len() * row_lines) }
    }

    /// Bytes to prefetch while the panel before `panels` is multiplied: those panels, or past the last one, as many
    /// bytes of the upcoming layer. Each tile prefetches its share of them, so that no tile waits for memory: a model's
    /// weights are larger than the near caches.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "left to the CPU"))]
    pub(crate) fn ahead(&self, panels: Range<usize>, tile: usize) -> &[u8] {
        let all = self.ahead_of_all(panels);
        let share = all.len().div_ceil(self.tiles.len()).next_multiple_of(LINE_BYTES);
        let start = (share * (tile - self.tiles.start)).min(all.len());
        &all[start..all.len().min(start + share)]
    }

    /// Bytes to prefetch as for [`Task::ahead`], for all tiles together.
    pub(crate) fn ahead_of_all(&self, panels: Range<usize>) -> &[u8] {
        let (count, bytes) = (self.layer.panels(), self.layer.panel_bytes());
        let (from, first) = match panels.start.checked_sub(count) {
            None => (self.layer.bytes(), panels.start),
            Some(beyond) => (self.upcoming, beyond),
        };
        let end = from.len().min((first + panels.len()) * bytes);
        from.get(first * bytes..end).unwrap_or_default()
    }

    /// Scale of the codes of one of this task's rows.
    #[inline]
    pub(crate) fn scale(&self, row: usize) -> f32 {
        // SAFETY: no thread writes the scales of this task's rows while the task runs.
        let scale = unsafe { self.left.scales.view(row, 1) };
        scale[0]
    }
}

/// Rows divided into tiles of nearly equal height: thirteen rows are 7 + 6, which is faster than 12 + 1.
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

/// Operands of a product.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) left: Rows<'a>,
    pub(crate) layer: Linear<'a>,
    /// The layer after `layer`, for prefetching.
    pub(crate) upcoming: Option<Linear<'a>>,
    pub(crate) then: Then,
}

impl Product {
    fn tiles(&self, rows: usize) -> Tiles {
        Tiles::of(rows, self.tile_rows)
    }

    /// Computes the whole product. The caller has checked the shapes.
    ///
    /// # Safety
    /// The CPU has the features of this product's level.
    pub(crate) unsafe fn run(
        &self,
        workspace: &mut Workspace,
        asked: Asked<'_>,
        mut out: RowsMut<'_>,
    ) {
        let rows = asked.left.count();
        if rows == 0 {
            return;
        }
        let threads = workspace.team.threads();
        let out = out.shared();
        if threads > 1 && rows >= threads * ROWS_EACH_MIN {
            // SAFETY: the caller's promise.
            unsafe { self.by_rows(workspace, asked, out) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.by_panels(workspace, asked, out) };
        }
    }

    /// Divides panels among threads. With few rows, reading the weights dominates, and each thread reads some of them.
    ///
    /// # Safety
    /// As for [`Product::run`].
    unsafe fn by_panels(&self, workspace: &mut Workspace, asked: Asked<'_>, out: SharedRows<'_>) {
        let Workspace { left, team, memories, .. } = workspace;
        let work = Work::of(self, asked, left, out);
        team.run(work.tiles.count(), &|tile, thread| {
            // SAFETY: a thread runs one piece of work at a time.
            let own = unsafe { memories.of(thread) };
            // SAFETY: each tile is prepared once, before any is read; the features are the caller's
            // promise.
            unsafe { work.prepare(tile..tile + 1, own) };
        });
        let (threads, panels) = (team.threads(), asked.layer.panels());
        let chunk = self.chunk_panels(panels, threads);
        team.run(panels.div_ceil(chunk), &|index, thread| {
            let panels = index * chunk..((index + 1) * chunk).min(panels);
            let upcoming = self.upcoming(asked.upcoming, thread, threads);
            // SAFETY: a thread runs one piece of work at a time.
            let own = unsafe { memories.of(thread) };
            // SAFETY: all tiles are prepared; no two chunks share a panel; the rest as above.
            unsafe { work.multiply(panels, 0..work.tiles.count(), upcoming, own) };
        });
    }

    /// Divides rows among threads. With many rows, moving activations between threads dominates, so each thread retains
    /// its rows and reads all weights.
    ///
    /// # Safety
    /// As for [`Product::run`].
    unsafe fn by_rows(&self, workspace: &mut Workspace, asked: Asked<'_>, out: SharedRows<'_>) {
        let Workspace { left, team, memories, .. } = workspace;
        let work = Work::of(self, asked, left, out);
        let (threads, panels) = (team.threads(), asked.layer.panels());
        team.run(threads, &|part, thread| {
            let tiles = work.tiles.count();
            let tiles = first_chunk(part, tiles, threads)..first_chunk(part + 1, tiles, threads);
            let upcoming = self.upcoming(asked.upcoming, 0, 1);
            // SAFETY: a thread runs one piece of work at a time.
            let own = unsafe { memories.of(thread) };
            // SAFETY: no two parts share a tile; the features are the caller's promise.
            unsafe { work.prepare(tiles.clone(), own) };
            // SAFETY: a part reads only the tiles that it has prepared; the rest as above.
            unsafe { work.multiply(0..panels, tiles, upcoming, own) };
        });
    }

    /// Returns the bytes of the next layer that a thread will read first.
    fn upcoming<'a>(&self, layer: Option<Linear<'a>>, thread: usize, threads: usize) -> &'a [u8] {
        let Some(layer) = layer else { return &[] };
        let panels = layer.panels();
        let chunk = self.chunk_panels(panels, threads);
        let first = first_chunk(thread, panels.div_ceil(chunk), threads) * chunk;
        &layer.bytes()[first * layer.panel_bytes()..]
    }

    fn chunk_panels(&self, panels: usize, threads: usize) -> usize {
        if threads == 1 {
            return panels.max(1);
        }
        panels.div_ceil(threads * CHUNKS_PER_THREAD).next_multiple_of(self.panels_together)
    }
}

/// A product in progress, shared by all threads.
struct Work<'a> {
    product: &'a Product,
    asked: Asked<'a>,
    tiles: Tiles,
    row_lines: usize,
    lines: SharedSlice<CacheLine>,
    scales: SharedSlice<f32>,
    out: SharedRows<'a>,
}

impl<'a> Work<'a> {
    fn of(
        product: &'a Product,
        asked: Asked<'a>,
        left: &'a mut Left,
        out: SharedRows<'a>,
    ) -> Work<'a> {
        let cells = padded_depth(asked.layer.depth());
        Work {
            product,
            asked,
            tiles: product.tiles(asked.left.count()),
            row_lines: cells * product.cell_bytes / size_of::<CacheLine>(),
            lines: SharedSlice::of(&mut left.lines),
            scales: SharedSlice::of(&mut left.scales),
            out,
        }
    }

    /// Prepares tiles of the left side.
    ///
    /// # Safety
    /// No other thread prepares or reads these tiles, or uses `memory`; the CPU has the features of the product's
    /// level.
    unsafe fn prepare(&self, tiles: Range<usize>, memory: &mut Memory) {
        for tile in tiles {
            let rows = self.tiles.rows(tile);
            let (first, count) = (rows.start * self.row_lines, rows.len() * self.row_lines);
            // SAFETY: tiles do not overlap; the rest is the caller's promise.
            let lines = unsafe { self.lines.piece(first, count) };
            // SAFETY: as above.
            let scales = unsafe { self.scales.piece(rows.start, rows.len()) };
            let rows = self.asked.left.part(rows);
            // SAFETY: the features are the caller's promise.
            unsafe { (self.product.prepare)(rows, lines, scales, &mut memory.lines) };
        }
    }

    /// Multiplies tiles with panels.
    ///
    /// # Safety
    /// The tiles are prepared; no other thread has these panels of these tiles, or uses `memory`; the CPU has the
    /// features of the product's level.
    unsafe fn multiply(
        &self,
        panels: Range<usize>,
        tiles: Range<usize>,
        upcoming: &[u8],
        memory: &mut Memory,
    ) {
        let Asked { layer, then, .. } = self.asked;
        let left = Prepared {
            tiles: self.tiles,
            row_lines: self.row_lines,
            lines: self.lines,
            scales: self.scales,
        };
        let task = Task { left, layer, panels, tiles, upcoming, then, out: self.out };
        // SAFETY: the features are the caller's promise.
        unsafe { (self.product.multiply)(&task, &mut memory.lines) };
    }
}

/// Transposes a tile of rows: depth after depth, one float per row, so that the rows of the tile are adjacent at every
/// step of depth.
#[inline(always)]
pub(crate) fn turned(rows: Rows<'_>, out: &mut [f32]) {
    for m in 0..rows.count() {
        lay_across(out, m, rows.count(), rows.row(m).iter().copied());
    }
}

/// Stores the cells of row `m` at their positions in a transposed tile of `height` rows.
#[inline(always)]
pub(crate) fn lay_across<T>(
    out: &mut [T],
    m: usize,
    height: usize,
    cells: impl Iterator<Item = T>,
) {
    for (to, cell) in out[m..].iter_mut().step_by(height).zip(cells) {
        *to = cell;
    }
}

/// Rotates and quantizes the rows of a tile by `codes_of`, which is equivalent to `linear::turned_codes`, and passes
/// each row's codes, padded with zeros, to `lay_out`.
#[inline(always)]
pub(crate) fn quantized(
    rows: Rows<'_>,
    scales: &mut [f32],
    own: &mut [CacheLine],
    codes_of: impl Fn(&[f32], &mut [f32], &mut [i8]) -> f32,
    mut lay_out: impl FnMut(usize, &[i8]),
) {
    let depth = rows.width();
    let padded = padded_depth(depth);
    let (floats, codes) = own.split_at_mut(padded * size_of::<f32>() / LINE_BYTES);
    let turned = &mut bytemuck::cast_slice_mut(floats)[..depth];
    let codes = &mut bytemuck::cast_slice_mut(codes)[..padded];
    codes[depth..].fill(0);
    for (m, scale) in scales.iter_mut().enumerate() {
        *scale = codes_of(rows.row(m), turned, &mut codes[..depth]);
        lay_out(m, codes);
    }
}
