//! AVX2 + FMA + F16C: eight floats at a time, sixteen registers.
//!
//! Same names and meanings as `scalar.rs`. Functions are safe to call from one another because all
//! enable the same features; unsafe is left only where memory is read or written.

mod dots;
mod lookups;
mod products;
mod rows;

use std::arch::x86_64::*;

use half::f16;

use crate::Table;
use crate::product::Product;
use crate::scalar::reaching;

pub(super) use dots::{dot, dot_codes, dot_rows, prefetch};
pub(super) use lookups::store_sums;
use lookups::sum_lookups;
use products::{
    CODE_TILE_ROWS, TILE_ROWS, matmul, multiply_codes, multiply_f16, multiply_f32, prepare_codes,
    prepare_floats,
};
use rows::{add, gelu, layer_norm, softmax};

pub(crate) static TABLE: Table = Table {
    dot,
    dot_rows,
    arrange: |_, _| Vec::new(),
    dot_codes,
    reaching,
    sum_lookups,
    products: [
        Product {
            tile_rows: TILE_ROWS,
            panels_together: 2,
            cell_bytes: 4,
            prepare: prepare_floats,
            multiply: multiply_f32,
        },
        Product {
            tile_rows: TILE_ROWS,
            panels_together: 2,
            cell_bytes: 4,
            prepare: prepare_floats,
            multiply: multiply_f16,
        },
        Product {
            tile_rows: CODE_TILE_ROWS,
            panels_together: 2,
            cell_bytes: 2,
            prepare: prepare_codes,
            multiply: multiply_codes,
        },
    ],
    matmul,
    softmax,
    layer_norm,
    gelu,
    add,
};

/// Floats in one register.
const LANES: usize = 8;

/// Eight halves as eight floats. The array reference is the proof that the load stays inside.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn widen(row: &[f16; LANES]) -> __m256 {
    // SAFETY: `row` is 16 readable bytes, and this load accepts any alignment.
    let packed = unsafe { _mm_loadu_si128(row.as_ptr().cast()) };
    _mm256_cvtph_ps(packed)
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn load(from: &[f32; LANES]) -> __m256 {
    // SAFETY: `from` is 32 readable bytes, and this load accepts any alignment.
    unsafe { _mm256_loadu_ps(from.as_ptr()) }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn store(to: &mut [f32; LANES], v: __m256) {
    // SAFETY: `to` is 32 writable bytes, and this store accepts any alignment.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), v) };
}

/// The sum of all eight lanes, in a fixed order.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn sum_lanes(v: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    let one = _mm_add_ss(two, _mm_shuffle_ps::<1>(two, two));
    _mm_cvtss_f32(one)
}
