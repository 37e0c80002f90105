//! Products of int8 layers.

use super::super::avx512::{finish, worth};
use super::tiles::{
    NO_SUMS, TILE_ROWS, TILE_WIDTH, Tiles, load, multiply, prefetch, register, store, zero,
};
use crate::linear::{Cells, QUAD, padded_depth};
use crate::product::{Product, Task, quantized};
use crate::rows::Rows;
use crate::workspace::CacheLine;

/// See `Precision::Int8`.
pub(super) const PRODUCT: Product =
    Product { tile_rows: TILE_ROWS, cell_bytes: 1, prepare, multiply };

/// Rows of codes one after the other, padded with zeros.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn prepare(rows: Rows<'_>, lines: &mut [CacheLine], scales: &mut [f32], own: &mut [CacheLine]) {
    let out: &mut [i8] = bytemuck::cast_slice_mut(lines);
    quantized(rows, scales, own, |m, codes| {
        out[m * codes.len()..][..codes.len()].copy_from_slice(codes);
    });
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn multiply(task: &Task<'_>, _own: &mut [CacheLine]) {
    // SAFETY: this level is handed out only where the CPU has tiles and they may be used.
    let _tiles = unsafe { Tiles::configure() };
    let rows = task.out.count();
    let mut panel = task.panels.start;
    while panel < task.panels.end {
        let panels = 2.min(task.panels.end - panel);
        for row in (0..rows).step_by(2 * TILE_ROWS) {
            let at = Place { row, panel };
            match (rows - row > TILE_ROWS, panels) {
                (false, 1) => block::<1, 1>(task, at),
                (false, _) => block::<1, 2>(task, at),
                (true, 1) => block::<2, 1>(task, at),
                (true, _) => block::<2, 2>(task, at),
            }
        }
        panel += panels;
    }
}

/// The first row and the first panel of a block.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    panel: usize,
}

/// `R` tiles of rows by `P` panels: four sums, two left sides and two panels are the eight registers
/// there are, and every tile that is loaded is used twice. Meanwhile the next panels are asked for.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn block<const R: usize, const P: usize>(task: &Task<'_>, at: Place) {
    let Cells::Int8(codes) = task.layer.cells() else { unreachable!("chosen by precision") };
    let stride = padded_depth(task.layer.depth());
    let left: &[u8] = bytemuck::cast_slice(task.left.lines);
    let left = &left[at.row * stride..][..R * TILE_ROWS * stride];
    let (lines, _) = codes.codes.as_chunks::<TILE_WIDTH>();
    let panel_lines = stride / QUAD;
    let here = &lines[at.panel * panel_lines..][..P * panel_lines];
    // Only the first rows ask: for the others it is there.
    let next = if at.row == 0 { task.panels.end.min(at.panel + 2 * P) } else { 0 };
    let next = lines.get((at.panel + P) * panel_lines..next * panel_lines).unwrap_or_default();

    zero!(0);
    zero!(1);
    zero!(2);
    zero!(3);
    // Every load below takes sixteen rows of sixty-four bytes: of the left side, which has that
    // many rows of `stride` bytes, `offset` and 64 more of them inside a row; or sixteen lines.
    for step in 0..stride / TILE_WIDTH {
        let (offset, line) = (step * TILE_WIDTH, step * TILE_ROWS);
        for next in next.chunks_exact(panel_lines) {
            prefetch(&next[line..line + TILE_ROWS]);
        }
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

    let mut sums = [[NO_SUMS; 2]; 2];
    store!(0, &mut sums[0][0]);
    store!(1, &mut sums[0][1]);
    store!(2, &mut sums[1][0]);
    store!(3, &mut sums[1][1]);
    let rows = task.out.count().min(at.row + R * TILE_ROWS);
    for row in at.row..rows {
        let sums = &sums[(row - at.row) / TILE_ROWS][..P];
        for (panel, sums) in (at.panel..).zip(sums) {
            let CacheLine(sum) = sums[(row - at.row) % TILE_ROWS];
            finish(task, row, panel, worth(task, codes.scales, row, panel, register(&sum)));
        }
    }
}
