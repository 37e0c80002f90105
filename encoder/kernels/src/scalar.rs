//! The reference level: plain loops that say what each kernel means.
//!
//! Every other level must agree with these within the bounds that `check.rs` states. No unsafe and
//! no intrinsics here.

use half::f16;

use crate::panels::{COLUMNS, Panels, Rows, RowsMut};
use crate::{Table, Then};

pub(crate) static TABLE: Table =
    Table { dot, dot_rows, dot_codes_rows, matmul, softmax, layer_norm, gelu, add };

/// The normal tail `P(X > z)` for `z >= 0` is taken as `t * p(t) * exp(-z * z / 2)` with `t = 1 /
/// (1 + TAIL_PULL * z)`, the form of Abramowitz and Stegun 7.1.26. These coefficients, from the
/// constant up, are a least-maximum fit of the relative error over `z` in 0..13.5: 1.3e-7.
pub(crate) const TAIL: [f32; 8] = [
    0.119_626_39,
    0.120_798_36,
    0.099_637_48,
    0.129_469_25,
    -0.055_393_945,
    0.208_206_7,
    -0.158_276_08,
    0.035_931_755,
];
/// See [`TAIL`].
pub(crate) const TAIL_PULL: f32 = 0.3;

pub(crate) fn dot(query: &[f32], row: &[f16]) -> f32 {
    query.iter().zip(row).map(|(q, r)| q * r.to_f32()).sum()
}

fn dot_rows(query: &[f32], rows: &[f16], out: &mut [f32]) {
    for (r, score) in out.iter_mut().enumerate() {
        *score = dot(query, &rows[r * query.len()..][..query.len()]);
    }
}

/// Modulo 2^32, as the CPU's own additions are.
pub(crate) fn dot_codes(query: &[i16], row: &[i8]) -> i32 {
    let products = query.iter().zip(row).map(|(&q, &code)| i32::from(q) * i32::from(code));
    products.fold(0, i32::wrapping_add)
}

fn dot_codes_rows(query: &[i16], rows: &[i8], out: &mut [i32]) {
    for (r, sum) in out.iter_mut().enumerate() {
        *sum = dot_codes(query, &rows[r * query.len()..][..query.len()]);
    }
}

fn matmul(left: Rows<'_>, right: &Panels, then: Then, mut out: RowsMut<'_>) {
    for panel in right.each() {
        for m in 0..left.count() {
            let mut sums: [f32; COLUMNS] = panel.start.0;
            for (x, line) in left.row(m).iter().zip(panel.lines) {
                for (sum, weight) in sums.iter_mut().zip(&line.0) {
                    *sum += x * weight;
                }
            }
            if then == Then::Gelu {
                gelu(&mut sums);
            }
            let to = &mut out.row(m)[panel.first..][..panel.columns];
            to.copy_from_slice(&sums[..panel.columns]);
        }
    }
}

fn softmax(mut rows: RowsMut<'_>, scale: f32) {
    for i in 0..rows.count() {
        let row = rows.row(i);
        let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut total = 0.0;
        for score in row.iter_mut() {
            *score = ((*score - top) * scale).exp();
            total += *score;
        }
        for share in row {
            *share /= total;
        }
    }
}

fn layer_norm(mut rows: RowsMut<'_>, gain: &[f32], bias: &[f32], epsilon: f32) {
    for i in 0..rows.count() {
        let row = rows.row(i);
        let mean = row.iter().sum::<f32>() / row.len() as f32;
        let spread = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>();
        let shrink = 1.0 / (spread / row.len() as f32 + epsilon).sqrt();
        for ((x, gain), bias) in row.iter_mut().zip(gain).zip(bias) {
            *x = (*x - mean) * shrink * gain + bias;
        }
    }
}

pub(crate) fn gelu(values: &mut [f32]) {
    for x in values {
        let z = x.abs();
        let t = 1.0 / (1.0 + TAIL_PULL * z);
        let polynomial = TAIL.iter().rev().fold(0.0, |sum, c| sum * t + c);
        let tail = t * polynomial * (-0.5 * z * z).exp();
        // For x < 0 the tail is the probability itself; for x > 0 it is what is missing from one.
        *x = x.max(0.0) - z * tail;
    }
}

pub(crate) fn add(sum: &mut [f32], addend: &[f32]) {
    for (sum, addend) in sum.iter_mut().zip(addend) {
        *sum += addend;
    }
}
