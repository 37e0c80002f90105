//! NEON: four floats at a time, thirty-two registers; and the dot product of 8-bit integers where
//! the CPU has it.
//!
//! Same names and meanings as `scalar.rs`. Functions are safe to call from one another because all
//! enable the same features; unsafe is left only where memory is read or written, and where an
//! instruction has no stable intrinsic. Heights of tiles follow from the registers; nothing here
//! asks for memory ahead of time, since no such CPU was at hand to measure what it would gain.

mod codes;
mod dots;
mod lookups;
mod products;
mod rows;

use std::arch::aarch64::*;

use half::f16;

use crate::Table;
use crate::linear::COLUMNS;
use crate::product::Product;
use crate::scalar::reaching;

use codes::{CODE_TILE_ROWS, DOT_TILE_ROWS, multiply_codes, multiply_codes_by_dots, prepare_codes};
use dots::{dot, dot_codes, dot_rows};
use lookups::sum_lookups;
use products::{TILE_ROWS, matmul, multiply_f16, multiply_f32, prepare_floats};
use rows::{add, gelu, layer_norm, softmax};

/// What every such CPU can do.
pub(crate) static TABLE: Table = Table {
    dot,
    dot_rows,
    arrange: |_, _| Vec::new(),
    dot_codes,
    reaching,
    sum_lookups,
    products: [FLOATS, HALVES, CODES],
    matmul,
    softmax,
    layer_norm,
    gelu,
    add,
};

/// The same, with the dot product for codes.
pub(crate) static DOT_TABLE: Table = Table { products: [FLOATS, HALVES, CODES_BY_DOTS], ..TABLE };

const FLOATS: Product = Product {
    tile_rows: TILE_ROWS,
    panels_together: 2,
    cell_bytes: 4,
    prepare: prepare_floats,
    multiply: multiply_f32,
};
const HALVES: Product = Product { multiply: multiply_f16, ..FLOATS };
const CODES: Product = Product {
    tile_rows: CODE_TILE_ROWS,
    panels_together: 2,
    cell_bytes: 1,
    prepare: prepare_codes,
    multiply: multiply_codes,
};
const CODES_BY_DOTS: Product = Product {
    tile_rows: DOT_TILE_ROWS,
    panels_together: 2,
    multiply: multiply_codes_by_dots,
    ..CODES
};

/// Floats in one register.
const LANES: usize = 4;
/// Halves in one register.
const HALF_LANES: usize = 8;
/// Registers per panel line.
const QUARTERS: usize = COLUMNS / LANES;

/// A panel line, or what a row has of it.
type Line = [float32x4_t; QUARTERS];

/// Eight halves as two times four floats. The array reference is the proof that the load stays
/// inside.
#[target_feature(enable = "neon")]
#[inline]
fn widen(row: &[f16; HALF_LANES]) -> [float32x4_t; 2] {
    // SAFETY: `row` is 16 readable bytes, and this load accepts any alignment of a half.
    let packed = vreinterpretq_f16_u16(unsafe { vld1q_u16(row.as_ptr().cast()) });
    [vcvt_f32_f16(vget_low_f16(packed)), vcvt_high_f32_f16(packed)]
}

#[target_feature(enable = "neon")]
#[inline]
fn load(from: &[f32; LANES]) -> float32x4_t {
    // SAFETY: `from` is 16 readable bytes, and this load accepts any alignment of a float.
    unsafe { vld1q_f32(from.as_ptr()) }
}

#[target_feature(enable = "neon")]
#[inline]
fn store(to: &mut [f32; LANES], v: float32x4_t) {
    // SAFETY: `to` is 16 writable bytes, and this store accepts any alignment of a float.
    unsafe { vst1q_f32(to.as_mut_ptr(), v) }
}

#[target_feature(enable = "neon")]
#[inline]
fn load_line(line: &[f32; COLUMNS]) -> Line {
    let (quarters, _) = line.as_chunks::<LANES>();
    [load(&quarters[0]), load(&quarters[1]), load(&quarters[2]), load(&quarters[3])]
}

#[target_feature(enable = "neon")]
#[inline]
fn store_line(to: &mut [f32; COLUMNS], line: Line) {
    let (to, _) = to.as_chunks_mut::<LANES>();
    for (to, quarter) in to.iter_mut().zip(line) {
        store(to, quarter);
    }
}
