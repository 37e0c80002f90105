use super::{LENGTH_MAX, Noise, levels};
use crate::RowsMut;

/// Returns the normal distribution's probability below `x`: a power series near zero, a continued fraction in the tails
/// (Abramowitz and Stegun 26.2.11 and 26.2.14).
pub(super) fn normal_below(x: f64) -> f64 {
    let density = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if x.abs() < 3.0 {
        let mut term = x;
        let mut sum = x;
        for n in 1..80 {
            term *= x * x / f64::from(2 * n + 1);
            sum += term;
        }
        0.5 + density * sum
    } else {
        let fraction = (1..200).rev().fold(x.abs(), |under, n| x.abs() + f64::from(n) / under);
        if x < 0.0 { density / fraction } else { 1.0 - density / fraction }
    }
}

pub(super) fn gelu_bound(x: f32) -> f64 {
    4.0 * f64::from(f32::EPSILON) * f64::from(x.abs()) + f64::from(f32::MIN_POSITIVE)
}

#[test]
fn gelu_is_within_its_bound() {
    let mut noise = Noise(0x5EED_0006);
    let mut values: Vec<f32> = (-16_000..=16_000).map(|i| i as f32 / 1000.0).collect();
    values.extend([0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, f32::MAX, f32::MIN, f32::EPSILON]);
    values.extend((0..1000).map(|_| noise.unit() * 6.0));
    for kernels in levels() {
        for length in (0..=LENGTH_MAX).chain([values.len()]) {
            let mut got = values[values.len() - length..].to_vec();
            kernels.gelu(&mut got);
            for (y, &x) in got.iter().zip(&values[values.len() - length..]) {
                let want = f64::from(x) * normal_below(f64::from(x));
                let off = (f64::from(*y) - want).abs();
                assert!(off <= gelu_bound(x), "{:?} gelu({x}) = {y}", kernels.level());
            }
        }
    }
}

/// The relative error of each value is at most `(n + 8) * EPSILON`, plus the error of the exponent's rounding: an
/// argument of magnitude `a` carries an error of `a * EPSILON` into the result.
#[test]
fn softmax_is_within_its_bound_for_ordinary_and_extreme_scores() {
    let mut noise = Noise(0x5EED_0007);
    for kernels in levels() {
        for width in 1..=LENGTH_MAX {
            for (reach, scale) in [(4.0, 0.176_776_7), (80.0, 1.0), (1e30, 1.0), (0.0, 1.0)] {
                let scores: Vec<f32> = (0..width).map(|_| noise.unit() * reach).collect();
                let mut got = scores.clone();
                kernels.softmax(RowsMut::dense(&mut got, width), scale);
                let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let below = |s: f32| f64::from(s - top) * f64::from(scale);
                let total: f64 = scores.iter().map(|&s| below(s).exp()).sum();
                for (share, &score) in got.iter().zip(&scores) {
                    let want = below(score).exp() / total;
                    let size = (width + 8) as f64 + 2.0 * below(score).abs().min(90.0);
                    let bound = want * size * f64::from(f32::EPSILON) + 1e-37;
                    let off = (f64::from(*share) - want).abs();
                    assert!(off <= bound, "{:?} {width}: {share} for {want}", kernels.level());
                }
            }
        }
    }
}

/// The error is at most `(n + 16) * EPSILON` of the largest normalized value, times gain, plus bias.
#[test]
fn layer_norm_is_within_its_bound() {
    let mut noise = Noise(0x5EED_0008);
    let epsilon = 1e-12;
    for kernels in levels() {
        for width in 1..=LENGTH_MAX {
            let shift = noise.unit() * 3.0;
            let rows: Vec<f32> = (0..3 * width).map(|_| noise.unit() * 5.0 + shift).collect();
            let gain: Vec<f32> = (0..width).map(|_| noise.unit()).collect();
            let bias: Vec<f32> = (0..width).map(|_| noise.unit()).collect();
            let mut got = rows.clone();
            kernels.layer_norm(RowsMut::dense(&mut got, width), &gain, &bias, epsilon);
            for (row, got) in rows.chunks(width).zip(got.chunks(width)) {
                let n = width as f64;
                let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
                let spread = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
                let deviation = (spread + f64::from(epsilon)).sqrt();
                let size = row.iter().fold(0.0, |top, &x| f64::from(x.abs()).max(top));
                for i in 0..width {
                    let unit = (f64::from(row[i]) - mean) / deviation;
                    let want = unit * f64::from(gain[i]) + f64::from(bias[i]);
                    let bound = (n + 16.0) * f64::from(f32::EPSILON) * (size / deviation + 1.0);
                    let off = (f64::from(got[i]) - want).abs();
                    assert!(off <= bound, "{:?} {width}: {} for {want}", kernels.level(), got[i]);
                }
            }
        }
    }
}

#[test]
fn add_is_exact_at_every_length() {
    let mut noise = Noise(0x5EED_0009);
    for kernels in levels() {
        for length in 0..=LENGTH_MAX {
            let (left, right) = (noise.floats(length), noise.floats(length));
            let mut sum = left.clone();
            kernels.add(&mut sum, &right);
            let want: Vec<f32> = left.iter().zip(&right).map(|(a, b)| a + b).collect();
            assert_eq!(sum, want);
        }
    }
}
