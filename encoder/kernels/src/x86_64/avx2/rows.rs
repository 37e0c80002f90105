//! Operations on rows of floats: softmax, layer norm, GELU, sums.

use std::arch::x86_64::*;

use super::lanes::{LANES, load, store, sum_lanes};
use crate::rows::RowsMut;
use crate::scalar::{EXP, LN_2, TAIL, TAIL_PULL};

/// `exp(x)` for `x <= 0`, see [`EXP`]; below -87 the result stays at the smallest normal float, and `2^n` is put
/// directly into the exponent bits.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn exp_lanes(x: __m256) -> __m256 {
    let x = _mm256_max_ps(x, _mm256_set1_ps(-87.0));
    let n = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(_mm256_mul_ps(
        x,
        _mm256_set1_ps(std::f32::consts::LOG2_E),
    ));
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN_2[0]), x);
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN_2[1]), r);
    let mut sum = _mm256_setzero_ps();
    for c in EXP {
        sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(c));
    }
    let exponent = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(n));
    _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(sum), exponent))
}

/// `scalar::gelu` in vector form, with the same steps.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(super) fn gelu_lanes(x: __m256) -> __m256 {
    let one = _mm256_set1_ps(1.0);
    let z = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
    let t = _mm256_div_ps(one, _mm256_fmadd_ps(_mm256_set1_ps(TAIL_PULL), z, one));
    let mut polynomial = _mm256_setzero_ps();
    for c in TAIL.iter().rev() {
        polynomial = _mm256_fmadd_ps(polynomial, t, _mm256_set1_ps(*c));
    }
    let decay = exp_lanes(_mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(-0.5), z), z));
    let tail = _mm256_mul_ps(_mm256_mul_ps(t, polynomial), decay);
    _mm256_fnmadd_ps(z, tail, _mm256_max_ps(x, _mm256_setzero_ps()))
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn gelu(values: &mut [f32]) {
    let (eights, rest) = values.as_chunks_mut::<LANES>();
    for eight in eights {
        let y = gelu_lanes(load(eight));
        store(eight, y);
    }
    crate::scalar::gelu(rest);
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn add(sum: &mut [f32], addend: &[f32]) {
    let (sums, sum_rest) = sum.as_chunks_mut::<LANES>();
    let (addends, addend_rest) = addend.as_chunks::<LANES>();
    for (sum, addend) in sums.iter_mut().zip(addends) {
        let total = _mm256_add_ps(load(sum), load(addend));
        store(sum, total);
    }
    crate::scalar::add(sum_rest, addend_rest);
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn softmax(mut rows: RowsMut<'_>, scale: f32) {
    for i in 0..rows.count() {
        softmax_row(rows.row(i), scale);
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn softmax_row(row: &mut [f32], scale: f32) {
    let (eights, rest) = row.as_chunks_mut::<LANES>();
    let mut tops = _mm256_set1_ps(f32::NEG_INFINITY);
    for eight in eights.iter() {
        tops = _mm256_max_ps(tops, load(eight));
    }
    let mut lanes = [0.0; LANES];
    store(&mut lanes, tops);
    let top = lanes.iter().chain(rest.iter()).copied().fold(f32::NEG_INFINITY, f32::max);

    let mut totals = _mm256_setzero_ps();
    for eight in eights.iter_mut() {
        let below = _mm256_sub_ps(load(eight), _mm256_set1_ps(top));
        let share = exp_lanes(_mm256_mul_ps(below, _mm256_set1_ps(scale)));
        totals = _mm256_add_ps(totals, share);
        store(eight, share);
    }
    let mut total = sum_lanes(totals);
    for score in rest.iter_mut() {
        *score = ((*score - top) * scale).exp();
        total += *score;
    }

    let shrink = 1.0 / total;
    for eight in eights {
        let share = _mm256_mul_ps(load(eight), _mm256_set1_ps(shrink));
        store(eight, share);
    }
    for share in rest {
        *share *= shrink;
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn layer_norm(mut rows: RowsMut<'_>, gain: &[f32], bias: &[f32], epsilon: f32) {
    for i in 0..rows.count() {
        norm_row(rows.row(i), gain, bias, epsilon);
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn norm_row(row: &mut [f32], gain: &[f32], bias: &[f32], epsilon: f32) {
    let width = row.len() as f32;
    let (eights, rest) = row.as_chunks_mut::<LANES>();
    let mut sums = _mm256_setzero_ps();
    for eight in eights.iter() {
        sums = _mm256_add_ps(sums, load(eight));
    }
    let mean = (sum_lanes(sums) + rest.iter().sum::<f32>()) / width;

    let mut spreads = _mm256_setzero_ps();
    for eight in eights.iter() {
        let off = _mm256_sub_ps(load(eight), _mm256_set1_ps(mean));
        spreads = _mm256_fmadd_ps(off, off, spreads);
    }
    let spread = sum_lanes(spreads) + rest.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>();
    let shrink = 1.0 / (spread / width + epsilon).sqrt();

    let (gains, gain_rest) = gain.as_chunks::<LANES>();
    let (biases, bias_rest) = bias.as_chunks::<LANES>();
    for ((eight, gain), bias) in eights.iter_mut().zip(gains).zip(biases) {
        let off = _mm256_sub_ps(load(eight), _mm256_set1_ps(mean));
        let unit = _mm256_mul_ps(off, _mm256_set1_ps(shrink));
        let normal = _mm256_fmadd_ps(unit, load(gain), load(bias));
        store(eight, normal);
    }
    for ((x, gain), bias) in rest.iter_mut().zip(gain_rest).zip(bias_rest) {
        *x = (*x - mean) * shrink * gain + bias;
    }
}
