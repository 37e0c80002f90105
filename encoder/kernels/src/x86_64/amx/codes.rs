//! GEMM of int8 layers by tiles.

use std::ops::Range;

use super::super::avx512::{codes_of, finish, worth};
use super::tiles::{
    ROWS_PREPARED, Sums, TILE_ROWS, TILE_WIDTH, Tiles, blocks, load, multiply, register,
    room_for_sums, store, zero,
};
use crate::linear::{Cells, QUAD, padded_depth};
use crate::product::{Product, Task, quantized};
use crate::rows::Rows;
use crate::workspace::CacheLine;

/// Product at `Precision::Int8`.
pub(super) const PRODUCT: Product =
    Product { tile_rows: ROWS_PREPARED, panels_together: 2, cell_bytes: 1, prepare, multiply };

/// Stores rows of codes one after the other, padded with zeros.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn prepare(rows: Rows<'_>, lines: &mut [CacheLine], scales: &mut [f32], own: &mut [CacheLine]) {
    let out: &mut [i8] = bytemuck::cast_slice_mut(lines);
    let codes_of = |row: &[f32], turned: &mut [f32], codes: &mut [i8]| codes_of(row, turned, codes);
    quantized(rows, scales, own, codes_of, |m, codes| {
        out[m * codes.len()..][..codes.len()].copy_from_slice(codes);
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn multiply(task: &Task<'_>, own: &mut [CacheLine]) {
    let sums = room_for_sums(own, 0);
    // SAFETY: this level is returned only if the CPU has tiles and this process may use them.
    let _tiles = unsafe { Tiles::configure() };
    let mut panel = task.panels.start;
    while panel < task.panels.end {
        let panels = 2.min(task.panels.end - panel);
        for rows in blocks(task.rows()) {
            let at = Place { rows, panel };
            match (at.rows.len() > TILE_ROWS, panels) {
                (false, 1) => block::<1, 1>(task, &at, sums),
                (false, _) => block::<1, 2>(task, &at, sums),
                (true, 1) => block::<2, 1>(task, &at, sums),
                (true, _) => block::<2, 2>(task, &at, sums),
            }
        }
        panel += panels;
    }
}

/// The rows and the first panel of a block.
struct Place {
    rows: Range<usize>,
    panel: usize,
}

/// `R` tiles of rows by `P` panels: four sums, two left sides and two panels fill the eight tile registers, and every
/// loaded tile is used twice.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn block<const R: usize, const P: usize>(task: &Task<'_>, at: &Place, sums: &mut [Sums; 4]) {
    let Cells::Int8(codes) = task.layer.cells() else { unreachable!("chosen by precision") };
    let stride = padded_depth(task.layer.depth());
    let first = at.rows.start;
    let left: &[u8] = bytemuck::cast_slice(task.lines(first..first + R * TILE_ROWS));
    let (lines, _) = codes.codes.as_chunks::<TILE_WIDTH>();
    let panel_lines = stride / QUAD;
    let here = &lines[at.panel * panel_lines..][..P * panel_lines];

    // No software prefetch: the CPU's own prefetching was a tenth faster if the weights are in the last-level cache,
    // and no slower if they are not.
    zero!(0);
    zero!(1);
    zero!(2);
    zero!(3);
    // Every load below reads sixteen rows of sixty-four bytes: from the left side, which has that many rows of `stride`
    // bytes, with `offset` and 64 more bytes inside a row; or sixteen lines.
    for step in 0..stride / TILE_WIDTH {
        let (offset, line) = (step * TILE_WIDTH, step * TILE_ROWS);
        load!(4, left[offset..].as_ptr(), stride);
        load!(6, here[line..line + TILE_ROWS].as_ptr(), TILE_WIDTH);
        multiply!("tdpbssd", 0, 4, 6);
        if R == 2 {
            load!(5, left[TILE_ROWS * stride + offset..].as_ptr(), stride);
            multiply!("tdpbssd", 2, 5, 6);
        }
        if P == 2 {
            load!(7, here[panel_lines + line..][..TILE_ROWS].as_ptr(), TILE_WIDTH);
            multiply!("tdpbssd", 1, 4, 7);
        }
        if R == 2 && P == 2 {
            multiply!("tdpbssd", 3, 5, 7);
        }
    }

    store!(0, &mut sums[0]);
    if P == 2 {
        store!(1, &mut sums[1]);
    }
    if R == 2 {
        store!(2, &mut sums[2]);
    }
    if R == 2 && P == 2 {
        store!(3, &mut sums[3]);
    }
    for r in 0..R {
        let first = at.rows.start + r * TILE_ROWS;
        let rows = first..at.rows.end.min(first + TILE_ROWS);
        for p in 0..P {
            let (sums, panel) = (&sums[2 * r + p], at.panel + p);
            finish(task, panel, rows.clone(), |row| {
                worth(task, codes.scales, row, panel, register(&sums[row - first].0))
            });
        }
    }
}
