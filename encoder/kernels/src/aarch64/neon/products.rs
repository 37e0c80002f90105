//! GEMM tiles of rows with panels of f32 or f16 weights, and products of activations.

use std::arch::aarch64::*;

use half::f16;

use super::lanes::{HALF_LANES, Line, QUARTERS, load_line, store_line, widen};
use super::rows::gelu_lanes;
use crate::linear::{COLUMNS, Cells, lines};
use crate::panels::Panels;
use crate::product::{Task, Then, Tiles, turned};
use crate::rows::{Rows, RowsMut};
use crate::workspace::CacheLine;

/// Rows per tile. Six rows of four registers are twenty-four sums; four registers of a panel line and one or two of
/// left cells make thirty of the thirty-two registers.
pub(super) const TILE_ROWS: usize = 6;
/// Rows of a tile of activations. The rows are not packed, so each cell needs a load of its own; sixteen sums are
/// enough to hide a latency of four cycles on four ports.
const SMALL_TILE_ROWS: usize = 4;

#[target_feature(enable = "neon")]
pub(super) fn prepare_floats(
    rows: Rows<'_>,
    lines: &mut [CacheLine],
    _scales: &mut [f32],
    _own: &mut [CacheLine],
) {
    turned(rows, bytemuck::cast_slice_mut(lines));
}

/// The outer loop is over panels, so the lines of a panel stay in the near caches for all rows.
#[target_feature(enable = "neon")]
pub(super) fn multiply_f32(task: &Task<'_>, _own: &mut [CacheLine]) {
    let Cells::F32(cells) = task.layer.cells() else { unreachable!("chosen by precision") };
    for panel in task.panels.clone() {
        multiply_panel(task, panel, lines(cells, panel, task.layer.depth()));
    }
}

/// A panel is converted to f32 once and not once per tile: a conversion takes at least as long as a multiplication, and
/// a tile has only six multiplications for each conversion.
#[target_feature(enable = "neon")]
pub(super) fn multiply_f16(task: &Task<'_>, own: &mut [CacheLine]) {
    let Cells::F16(cells) = task.layer.cells() else { unreachable!("chosen by precision") };
    let depth = task.layer.depth();
    let widened: &mut [[f32; COLUMNS]] = &mut bytemuck::cast_slice_mut(own)[..depth];
    for panel in task.panels.clone() {
        for (to, line) in widened.iter_mut().zip(lines(cells, panel, depth)) {
            widen_line(line, to);
        }
        multiply_panel(task, panel, widened);
    }
}

#[target_feature(enable = "neon")]
#[inline]
fn widen_line(line: &[f16; COLUMNS], to: &mut [f32; COLUMNS]) {
    let (halves, _) = line.as_chunks::<HALF_LANES>();
    let [[a, b], [c, d]] = [widen(&halves[0]), widen(&halves[1])];
    store_line(to, [a, b, c, d]);
}

#[target_feature(enable = "neon")]
fn multiply_panel(task: &Task<'_>, panel: usize, lines: &[[f32; COLUMNS]]) {
    for t in task.tiles.clone() {
        let (rows, left) = task.tile(t);
        let (at, left) = (Place { row: rows.start, panel }, bytemuck::cast_slice(left));
        match rows.len() {
            1 => tile::<1>(task, at, left, lines),
            2 => tile::<2>(task, at, left, lines),
            3 => tile::<3>(task, at, left, lines),
            4 => tile::<4>(task, at, left, lines),
            5 => tile::<5>(task, at, left, lines),
            TILE_ROWS => tile::<TILE_ROWS>(task, at, left, lines),
            _ => unreachable!("no tile is empty or has more than six rows"),
        }
    }
}

/// Row and panel of a tile's first sum in the product.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) row: usize,
    pub(super) panel: usize,
}

/// Every sum starts from its bias and adds its products in order of depth, whatever `M` is.
#[target_feature(enable = "neon")]
#[inline]
fn tile<const M: usize>(task: &Task<'_>, at: Place, left: &[f32], lines: &[[f32; COLUMNS]]) {
    let (left, _) = left.as_chunks::<M>();
    let mut sums = [load_line(task.layer.bias(at.panel)); M];
    for (line, xs) in lines.iter().zip(left) {
        add_products(&mut sums, xs, load_line(line));
    }
    for (m, values) in sums.into_iter().enumerate() {
        finish(task, Place { row: at.row + m, ..at }, values);
    }
}

/// A left cell is loaded into one lane and multiplied from there: broadcasting the cell first would cost as much as a
/// multiplication.
#[target_feature(enable = "neon")]
#[inline]
fn add_products<const M: usize>(sums: &mut [Line; M], xs: &[f32; M], line: Line) {
    for m in 0..M {
        for q in 0..QUARTERS {
            sums[m][q] = vfmaq_n_f32(sums[m][q], line[q], xs[m]);
        }
    }
}

/// Applies the activation to a row's values and stores the columns that exist.
#[target_feature(enable = "neon")]
#[inline]
pub(super) fn finish(task: &Task<'_>, at: Place, mut values: Line) {
    if task.then == Then::Gelu {
        for quarter in &mut values {
            *quarter = gelu_lanes(*quarter);
        }
    }
    // SAFETY: the panel is this task's, and no other piece of the panel is in use.
    let to = unsafe { task.place(at.row, at.panel) };
    store_columns(to, values);
}

/// Stores as many columns as `to` has.
#[target_feature(enable = "neon")]
#[inline]
fn store_columns(to: &mut [f32], values: Line) {
    if let Some(to) = to.as_mut_array::<COLUMNS>() {
        store_line(to, values);
    } else {
        let mut whole = [0.0; COLUMNS];
        store_line(&mut whole, values);
        to.copy_from_slice(&whole[..to.len()]);
    }
}

/// Multiplies two matrices of activations: small and used once, so the rows are not packed.
#[target_feature(enable = "neon")]
pub(super) fn matmul(left: Rows<'_>, right: &Panels, mut out: RowsMut<'_>) {
    let tiles = Tiles::of(left.count(), SMALL_TILE_ROWS);
    for panel in 0..right.count() {
        for t in 0..tiles.count() {
            let rows = tiles.rows(t);
            let at = Place { row: rows.start, panel };
            match rows.len() {
                1 => small_tile::<1>(left, right, at, &mut out),
                2 => small_tile::<2>(left, right, at, &mut out),
                3 => small_tile::<3>(left, right, at, &mut out),
                SMALL_TILE_ROWS => small_tile::<SMALL_TILE_ROWS>(left, right, at, &mut out),
                _ => unreachable!("no tile is empty or has more than four rows"),
            }
        }
    }
}

#[target_feature(enable = "neon")]
#[inline]
fn small_tile<const M: usize>(left: Rows<'_>, right: &Panels, at: Place, out: &mut RowsMut<'_>) {
    let lines = right.lines(at.panel);
    let rows: [&[f32]; M] = std::array::from_fn(|m| &left.row(at.row + m)[..lines.len()]);
    let mut sums = [[vdupq_n_f32(0.0); QUARTERS]; M];
    for (k, line) in lines.iter().enumerate() {
        let line = load_line(&line.0);
        for m in 0..M {
            // SAFETY: `k` is less than `lines.len()`, the length every row was cut to above.
            // Checked access costs branches and spilled pointers in this loop.
            let x = unsafe { *rows[m].get_unchecked(k) };
            for q in 0..QUARTERS {
                sums[m][q] = vfmaq_n_f32(sums[m][q], line[q], x);
            }
        }
    }
    let (first, columns) = right.columns(at.panel);
    for (m, values) in sums.into_iter().enumerate() {
        store_columns(&mut out.row(at.row + m)[first..][..columns], values);
    }
}
