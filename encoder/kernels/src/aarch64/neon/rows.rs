//! Operations on rows of floats: softmax, layer norm, GELU, sums.

use std::arch::aarch64::*;

use super::lanes::{LANES, load, store};
use crate::rows::RowsMut;
use crate::scalar::{EXP, LN_2, TAIL, TAIL_PULL};

/// `exp(x)` for `x <= 0`, see [`EXP`]; below -87 the result stays at the smallest normal float, and `2^n` is put
/// directly into the exponent bits.
#[target_feature(enable = "neon")]
#[inline]
fn exp_lanes(x: float32x4_t) -> float32x4_t {
    let x = vmaxnmq_f32(x, vdupq_n_f32(-87.0));
    let n = vrndnq_f32(vmulq_f32(x, vdupq_n_f32(std::f32::consts::LOG2_E)));
    let r = vfmsq_f32(x, n, vdupq_n_f32(LN_2[0]));
    let r = vfmsq_f32(r, n, vdupq_n_f32(LN_2[1]));
    let mut sum = vdupq_n_f32(0.0);
    for c in EXP {
        sum = vfmaq_f32(vdupq_n_f32(c), sum, r);
    }
    let exponent = vshlq_n_s32::<23>(vcvtq_s32_f32(n));
    vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(sum), exponent))
}

/// `scalar::gelu` in vector form, with the same steps.
#[target_feature(enable = "neon")]
#[inline]
pub(super) fn gelu_lanes(x: float32x4_t) -> float32x4_t {
    let one = vdupq_n_f32(1.0);
    let z = vabsq_f32(x);
    let t = vdivq_f32(one, vfmaq_f32(one, vdupq_n_f32(TAIL_PULL), z));
    let mut polynomial = vdupq_n_f32(0.0);
    for c in TAIL.iter().rev() {
        polynomial = vfmaq_f32(vdupq_n_f32(*c), polynomial, t);
    }
    let decay = exp_lanes(vmulq_f32(vmulq_f32(vdupq_n_f32(-0.5), z), z));
    let tail = vmulq_f32(vmulq_f32(t, polynomial), decay);
    vfmsq_f32(vmaxnmq_f32(x, vdupq_n_f32(0.0)), z, tail)
}

#[target_feature(enable = "neon")]
pub(super) fn gelu(values: &mut [f32]) {
    let (fours, rest) = values.as_chunks_mut::<LANES>();
    for four in fours {
        let y = gelu_lanes(load(four));
        store(four, y);
    }
    crate::scalar::gelu(rest);
}

#[target_feature(enable = "neon")]
pub(super) fn add(sum: &mut [f32], addend: &[f32]) {
    let (sums, sum_rest) = sum.as_chunks_mut::<LANES>();
    let (addends, addend_rest) = addend.as_chunks::<LANES>();
    for (sum, addend) in sums.iter_mut().zip(addends) {
        let total = vaddq_f32(load(sum), load(addend));
        store(sum, total);
    }
    crate::scalar::add(sum_rest, addend_rest);
}

#[target_feature(enable = "neon")]
pub(super) fn softmax(mut rows: RowsMut<'_>, scale: f32) {
    for i in 0..rows.count() {
        softmax_row(rows.row(i), scale);
    }
}

#[target_feature(enable = "neon")]
#[inline]
fn softmax_row(row: &mut [f32], scale: f32) {
    let (fours, rest) = row.as_chunks_mut::<LANES>();
    let mut tops = vdupq_n_f32(f32::NEG_INFINITY);
    for four in fours.iter() {
        tops = vmaxnmq_f32(tops, load(four));
    }
    let top = rest.iter().copied().fold(vmaxnmvq_f32(tops), f32::max);

    let mut totals = vdupq_n_f32(0.0);
    for four in fours.iter_mut() {
        let below = vsubq_f32(load(four), vdupq_n_f32(top));
        let share = exp_lanes(vmulq_f32(below, vdupq_n_f32(scale)));
        totals = vaddq_f32(totals, share);
        store(four, share);
    }
    let mut total = vaddvq_f32(totals);
    for score in rest.iter_mut() {
        *score = ((*score - top) * scale).exp();
        total += *score;
    }

    let shrink = 1.0 / total;
    for four in fours {
        let share = vmulq_f32(load(four), vdupq_n_f32(shrink));
        store(four, share);
    }
    for share in rest {
        *share *= shrink;
    }
}

#[target_feature(enable = "neon")]
pub(super) fn layer_norm(mut rows: RowsMut<'_>, gain: &[f32], bias: &[f32], epsilon: f32) {
    for i in 0..rows.count() {
        norm_row(rows.row(i), gain, bias, epsilon);
    }
}

#[target_feature(enable = "neon")]
#[inline]
fn norm_row(row: &mut [f32], gain: &[f32], bias: &[f32], epsilon: f32) {
    let width = row.len() as f32;
    let (fours, rest) = row.as_chunks_mut::<LANES>();
    let mut sums = vdupq_n_f32(0.0);
    for four in fours.iter() {
        sums = vaddq_f32(sums, load(four));
    }
    let mean = (vaddvq_f32(sums) + rest.iter().sum::<f32>()) / width;

    let mut spreads = vdupq_n_f32(0.0);
    for four in fours.iter() {
        let off = vsubq_f32(load(four), vdupq_n_f32(mean));
        spreads = vfmaq_f32(spreads, off, off);
    }
    let spread = vaddvq_f32(spreads) + rest.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>();
    let shrink = 1.0 / (spread / width + epsilon).sqrt();

    let (gains, gain_rest) = gain.as_chunks::<LANES>();
    let (biases, bias_rest) = bias.as_chunks::<LANES>();
    for ((four, gain), bias) in fours.iter_mut().zip(gains).zip(biases) {
        let off = vsubq_f32(load(four), vdupq_n_f32(mean));
        let unit = vmulq_f32(off, vdupq_n_f32(shrink));
        let normal = vfmaq_f32(load(bias), unit, load(gain));
        store(four, normal);
    }
    for ((x, gain), bias) in rest.iter_mut().zip(gain_rest).zip(bias_rest) {
        *x = (*x - mean) * shrink * gain + bias;
    }
}
