//! GEMM tiles of int8 rows with int8 panels, with and without the dot-product instruction.

use std::arch::aarch64::*;
use std::arch::asm;

use super::lanes::{Line, QUARTERS, load_line};
use super::products::{Place, finish};
use crate::linear::{
    COLUMNS, Cells, Codes, QUAD, QUAD_LINE, padded_depth, quad_lines, turned_codes,
};
use crate::product::{Task, lay_across, quantized};
use crate::rows::Rows;
use crate::workspace::CacheLine;

/// Rows per tile without the dot-product instruction. A column has two sums, so two rows take sixteen registers of
/// sums; four of left codes, two of weights and two of products make twenty-four. A third row would leave no registers
/// for the left codes.
pub(super) const CODE_TILE_ROWS: usize = 2;
/// Rows per tile with the dot-product instruction: six rows of four registers are twenty-four sums; four registers of
/// weights and one or two of left codes make thirty.
pub(super) const DOT_TILE_ROWS: usize = 6;
/// int8 codes in one register.
const CODES: usize = 16;

/// Four codes of a row: one 32-bit lane.
type Quad = u32;

/// Stores the left codes quad after quad, one quad per row of the tile.
#[target_feature(enable = "neon")]
pub(super) fn prepare_codes(
    rows: Rows<'_>,
    lines: &mut [CacheLine],
    scales: &mut [f32],
    own: &mut [CacheLine],
) {
    let out: &mut [Quad] = bytemuck::cast_slice_mut(lines);
    quantized(rows, scales, own, turned_codes, |m, codes| {
        let (quads, _) = codes.as_chunks::<QUAD>();
        lay_across(out, m, rows.count(), quads.iter().map(|quad| bytemuck::cast(*quad)));
    });
}

#[target_feature(enable = "neon")]
#[inline]
fn load(from: &[i8; CODES]) -> int8x16_t {
    // SAFETY: `from` is 16 readable bytes, and this load accepts any alignment.
    unsafe { vld1q_s8(from.as_ptr()) }
}

/// Dequantizes a row's sums of codes and adds the bias. The operations are those of the scalar level, so the results
/// are equal bit for bit.
#[target_feature(enable = "neon")]
#[inline]
fn worth(task: &Task<'_>, at: Place, sums: [int32x4_t; QUARTERS], scales: &[f32]) -> Line {
    let scales = load_line(&scales.as_chunks::<COLUMNS>().0[at.panel]);
    let mut values = load_line(task.layer.bias(at.panel));
    let row = vdupq_n_f32(task.scale(at.row));
    for q in 0..QUARTERS {
        let worth = vmulq_f32(vmulq_f32(row, scales[q]), vcvtq_f32_s32(sums[q]));
        values[q] = vaddq_f32(values[q], worth);
    }
    values
}

#[target_feature(enable = "neon")]
pub(super) fn multiply_codes(task: &Task<'_>, _own: &mut [CacheLine]) {
    let Cells::Int8(codes) = task.layer.cells() else { unreachable!("chosen by precision") };
    for panel in task.panels.clone() {
        for t in task.tiles.clone() {
            let (rows, left) = task.tile(t);
            let (at, left) = (Place { row: rows.start, panel }, bytemuck::cast_slice(left));
            match rows.len() {
                1 => tile::<1>(task, at, left, codes),
                CODE_TILE_ROWS => tile::<CODE_TILE_ROWS>(task, at, left, codes),
                _ => unreachable!("no tile is empty or has more than two rows"),
            }
        }
    }
}

/// Takes two steps of depth at once. A product of codes is at most 128 * 127, so the sum of two fits 16 bits, and one
/// pairwise addition adds four products to two 32-bit sums.
#[target_feature(enable = "neon")]
#[inline]
fn tile<const M: usize>(task: &Task<'_>, at: Place, left: &[Quad], codes: Codes<'_>) {
    let (left, _) = left.as_chunks::<M>();
    // The lines include padding, whose left codes are zeros.
    let lines = quad_lines(codes.codes, at.panel, padded_depth(task.layer.depth()));
    let (left, lines) = (left.as_chunks::<2>().0, lines.as_chunks::<2>().0);
    let steps = task.layer.depth().div_ceil(2 * QUAD);
    let mut sums = [[[vdupq_n_s32(0); 2]; QUARTERS]; M];
    for (lines, quads) in lines[..steps].iter().zip(left) {
        let mut xs = [[vdupq_n_s8(0); 2]; M];
        for m in 0..M {
            for step in 0..2 {
                xs[m][step] = vreinterpretq_s8_u32(vdupq_n_u32(quads[step][m]));
            }
        }
        let [first, second] = [lines[0].as_chunks::<CODES>().0, lines[1].as_chunks::<CODES>().0];
        for q in 0..QUARTERS {
            let weights = [load(&first[q]), load(&second[q])];
            for m in 0..M {
                sums[m][q] = add_products(sums[m][q], xs[m], weights);
            }
        }
    }
    for (m, sums) in sums.into_iter().enumerate() {
        let at = Place { row: at.row + m, ..at };
        let mut totals = [vdupq_n_s32(0); QUARTERS];
        for q in 0..QUARTERS {
            totals[q] = vpaddq_s32(sums[q][0], sums[q][1]);
        }
        finish(task, at, worth(task, at, totals, codes.scales));
    }
}

/// Adds the products of two steps of depth for four columns; the sums of a column are adjacent.
#[target_feature(enable = "neon")]
#[inline]
fn add_products(
    sums: [int32x4_t; 2],
    xs: [int8x16_t; 2],
    weights: [int8x16_t; 2],
) -> [int32x4_t; 2] {
    let low = vmull_s8(vget_low_s8(weights[0]), vget_low_s8(xs[0]));
    let low = vmlal_s8(low, vget_low_s8(weights[1]), vget_low_s8(xs[1]));
    let high = vmull_high_s8(weights[0], xs[0]);
    let high = vmlal_high_s8(high, weights[1], xs[1]);
    [vpadalq_s16(sums[0], low), vpadalq_s16(sums[1], high)]
}

#[target_feature(enable = "neon,dotprod")]
pub(super) fn multiply_codes_by_dots(task: &Task<'_>, _own: &mut [CacheLine]) {
    let Cells::Int8(codes) = task.layer.cells() else { unreachable!("chosen by precision") };
    for panel in task.panels.clone() {
        for t in task.tiles.clone() {
            let (rows, left) = task.tile(t);
            let (at, left) = (Place { row: rows.start, panel }, bytemuck::cast_slice(left));
            match rows.len() {
                1 => dot_tile::<1>(task, at, left, codes),
                2 => dot_tile::<2>(task, at, left, codes),
                3 => dot_tile::<3>(task, at, left, codes),
                4 => dot_tile::<4>(task, at, left, codes),
                5 => dot_tile::<5>(task, at, left, codes),
                DOT_TILE_ROWS => dot_tile::<DOT_TILE_ROWS>(task, at, left, codes),
                _ => unreachable!("no tile is empty or has more than six rows"),
            }
        }
    }
}

#[target_feature(enable = "neon,dotprod")]
#[inline]
fn dot_tile<const M: usize>(task: &Task<'_>, at: Place, left: &[Quad], codes: Codes<'_>) {
    let (left, _) = left.as_chunks::<M>();
    let lines = quad_lines(codes.codes, at.panel, task.layer.depth());
    let mut sums = [[vdupq_n_s32(0); QUARTERS]; M];
    for (line, quads) in lines.iter().zip(left) {
        add_dots(&mut sums, quads, line);
    }
    for (m, sums) in sums.into_iter().enumerate() {
        let at = Place { row: at.row + m, ..at };
        finish(task, at, worth(task, at, sums, codes.scales));
    }
}

/// Computes one step of depth with four columns per register. A quad is loaded into one lane and multiplied from there,
/// as in products of floats.
#[target_feature(enable = "neon,dotprod")]
#[inline]
fn add_dots<const M: usize>(
    sums: &mut [[int32x4_t; QUARTERS]; M],
    quads: &[Quad; M],
    line: &[i8; QUAD_LINE],
) {
    let (quarters, _) = line.as_chunks::<CODES>();
    let line = [load(&quarters[0]), load(&quarters[1]), load(&quarters[2]), load(&quarters[3])];
    for m in 0..M {
        for q in 0..QUARTERS {
            sums[m][q] = add_dot(sums[m][q], line[q], quads[m]);
        }
    }
}

/// Adds the dot product of its four weights and the quad to each sum. Inline assembly, as the intrinsic
/// (`vdotq_laneq_s32`) is not stable.
#[target_feature(enable = "neon,dotprod")]
#[inline]
fn add_dot(sum: int32x4_t, weights: int8x16_t, quad: Quad) -> int32x4_t {
    // As a float, the quad is loaded into a vector register.
    let quad = f32::from_bits(quad);
    let total;
    // SAFETY: the CPU has the instruction, as the features of this function require; the instruction reads and writes
    // these registers and nothing else.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {weights:v}.16b, {quad:v}.4b[0]",
            sum = inlateout(vreg) sum => total,
            weights = in(vreg) weights,
            quad = in(vreg) quad,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    total
}
