//! The 8-bit copy of an embedding, with a bound on what it leaves out (SEG-23).

use half::f16;

/// The largest code; -128 is not used.
const CODE_MAX: f32 = 127.0;
/// Raises the error above what rounding in its `f64` sum can take from it: each of at most 4,096
/// terms is off by less than 2^-50 of itself.
const ERROR_MARGIN: f64 = 1.0 + 1e-9;

/// Writes a row's codes, and zeros behind them; gives (scale, error): the Euclidean length of
/// `row - scale * codes` is certainly at most the error.
pub(crate) fn quantise(row: &[f16], codes: &mut [i8]) -> (f32, f32) {
    let (codes, padding) = codes.split_at_mut(row.len());
    padding.fill(0);
    let largest = row.iter().map(|half| half.to_f32().abs()).fold(0.0, f32::max);
    let scale = largest / CODE_MAX;
    let mut squares = 0.0;
    for (code, half) in codes.iter_mut().zip(row) {
        let value = half.to_f32();
        *code = nearest_code(value, scale);
        squares += (f64::from(value) - f64::from(scale) * f64::from(*code)).powi(2);
    }
    (scale, round_up(squares.sqrt() * ERROR_MARGIN))
}

#[expect(clippy::cast_possible_truncation, reason = "clamped to the range of a code")]
fn nearest_code(value: f32, scale: f32) -> i8 {
    if scale == 0.0 {
        return 0;
    }
    (value / scale).round_ties_even().clamp(-CODE_MAX, CODE_MAX) as i8
}

/// The smallest `f32` that is not below `value`.
#[expect(clippy::cast_possible_truncation, reason = "rounded up right after")]
fn round_up(value: f64) -> f32 {
    let nearest = value as f32;
    if f64::from(nearest) < value { nearest.next_up() } else { nearest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_within_its_error_of_its_codes() {
        let row: Vec<f16> = (-50i16..70).map(|n| f16::from_f32(f32::from(n) * 0.013)).collect();
        let mut codes = [7; 128];
        let (scale, error) = quantise(&row, &mut codes);
        assert_eq!((codes[119], codes[120], codes[127]), (127, 0, 0));
        let off = row.iter().zip(codes).map(|(half, code)| {
            (f64::from(half.to_f32()) - f64::from(scale) * f64::from(code)).powi(2)
        });
        let off = off.sum::<f64>().sqrt();
        assert!(f64::from(error) >= off && f64::from(error) < off * 1.000_001, "{error} {off}");
    }

    #[test]
    fn a_row_of_zeros_has_no_scale_and_no_error() {
        let mut codes = [9; 64];
        assert_eq!(quantise(&[f16::ZERO, f16::NEG_ZERO], &mut codes), (0.0, 0.0));
        assert_eq!(codes, [0; 64]);
    }
}
