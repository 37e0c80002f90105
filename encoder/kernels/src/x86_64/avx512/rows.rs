//! Operations on rows of floats: softmax, layer norm, GELU, sums.

use std::arch::x86_64::*;

use super::lanes::{LANES, load_some, store_some};
use crate::rows::RowsMut;
use crate::scalar::{EXP, LN_2, TAIL, TAIL_PULL};

/// `exp(x)` for `x <= 0`, see [`EXP`]; below -87 the result stays at the smallest normal float, and the scaling by
/// `2^n` is one instruction.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn exp_lanes(x: __m512) -> __m512 {
    let x = _mm512_max_ps(x, _mm512_set1_ps(-87.0));
    let n = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT }>(_mm512_mul_ps(
        x,
        _mm512_set1_ps(std::f32::consts::LOG2_E),
    ));
    let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2[0]), x);
    let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN_2[1]), r);
    let mut sum = _mm512_setzero_ps();
    for c in EXP {
        sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(c));
    }
    _mm512_scalef_ps(sum, n)
}

/// `1 / x` with a relative error of 2e-7, for `x >= 1`: an estimate of 14 bits and one Newton step, as a division of
/// sixteen lanes takes as long as all the rest of a GELU.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn reciprocal(x: __m512) -> __m512 {
    let near = _mm512_rcp14_ps(x);
    let off = _mm512_fnmadd_ps(x, near, _mm512_set1_ps(1.0));
    _mm512_fmadd_ps(near, off, near)
}

/// `scalar::gelu` in vector form, with the same steps.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
pub(in crate::x86_64) fn gelu_lanes(x: __m512) -> __m512 {
    let z = _mm512_abs_ps(x);
    let t = reciprocal(_mm512_fmadd_ps(_mm512_set1_ps(TAIL_PULL), z, _mm512_set1_ps(1.0)));
    let mut polynomial = _mm512_setzero_ps();
    for c in TAIL.iter().rev() {
        polynomial = _mm512_fmadd_ps(polynomial, t, _mm512_set1_ps(*c));
    }
    let decay = exp_lanes(_mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(-0.5), z), z));
    let tail = _mm512_mul_ps(_mm512_mul_ps(t, polynomial), decay);
    _mm512_fnmadd_ps(z, tail, _mm512_max_ps(x, _mm512_setzero_ps()))
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(in crate::x86_64) fn gelu(values: &mut [f32]) {
    for some in values.chunks_mut(LANES) {
        let y = gelu_lanes(load_some(some, _mm512_setzero_ps()));
        store_some(some, y);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(in crate::x86_64) fn add(sum: &mut [f32], addend: &[f32]) {
    for (sum, addend) in sum.chunks_mut(LANES).zip(addend.chunks(LANES)) {
        let zero = _mm512_setzero_ps();
        let total = _mm512_add_ps(load_some(sum, zero), load_some(addend, zero));
        store_some(sum, total);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(in crate::x86_64) fn softmax(mut rows: RowsMut<'_>, scale: f32) {
    for i in 0..rows.count() {
        softmax_row(rows.row(i), scale);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn softmax_row(row: &mut [f32], scale: f32) {
    let lowest = _mm512_set1_ps(f32::NEG_INFINITY);
    let mut tops = lowest;
    for some in row.chunks(LANES) {
        tops = _mm512_max_ps(tops, load_some(some, lowest));
    }
    let top = _mm512_set1_ps(_mm512_reduce_max_ps(tops));

    let mut totals = _mm512_setzero_ps();
    for some in row.chunks_mut(LANES) {
        let below = _mm512_sub_ps(load_some(some, lowest), top);
        let share = exp_lanes(_mm512_mul_ps(below, _mm512_set1_ps(scale)));
        store_some(some, share);
        totals = _mm512_add_ps(totals, load_some(some, _mm512_setzero_ps()));
    }
    let shrink = _mm512_set1_ps(1.0 / _mm512_reduce_add_ps(totals));
    for some in row.chunks_mut(LANES) {
        let share = _mm512_mul_ps(load_some(some, lowest), shrink);
        store_some(some, share);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(in crate::x86_64) fn layer_norm(
    mut rows: RowsMut<'_>,
    gain: &[f32],
    bias: &[f32],
    epsilon: f32,
) {
    for i in 0..rows.count() {
        norm_row(rows.row(i), gain, bias, epsilon);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn norm_row(row: &mut [f32], gain: &[f32], bias: &[f32], epsilon: f32) {
    let width = row.len() as f32;
    let zero = _mm512_setzero_ps();
    let mut sums = zero;
    for some in row.chunks(LANES) {
        sums = _mm512_add_ps(sums, load_some(some, zero));
    }
    let mean = _mm512_set1_ps(_mm512_reduce_add_ps(sums) / width);

    let mut spreads = zero;
    for some in row.chunks(LANES) {
        // Lanes past the end contain the mean, so their deviation is zero.
        let off = _mm512_sub_ps(load_some(some, mean), mean);
        spreads = _mm512_fmadd_ps(off, off, spreads);
    }
    let spread = _mm512_reduce_add_ps(spreads);
    let shrink = _mm512_set1_ps(1.0 / (spread / width + epsilon).sqrt());

    let others = gain.chunks(LANES).zip(bias.chunks(LANES));
    for (some, (gain, bias)) in row.chunks_mut(LANES).zip(others) {
        let unit = _mm512_mul_ps(_mm512_sub_ps(load_some(some, zero), mean), shrink);
        let normal = _mm512_fmadd_ps(unit, load_some(gain, zero), load_some(bias, zero));
        store_some(some, normal);
    }
}
