//! Scalar quantization: the 8-bit copy of an embedding, with a bound on its error (`format-spec/embeddings.md`).
//!
//! Owns the conversion from a row of halves to codes, scale and error. Columns and queries are left to other modules.

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::limits::DIMENSIONS_MAX;

/// Largest code. The code -128 is not used, so a row and its negative have equal codes except for the sign.
const CODE_MAX: i8 = 127;

/// Factor on the error before the rounding up to an `f32`; see [`quantize`].
const ERROR_MARGIN: f64 = 1.0 + 1.0 / (1_u64 << 40) as f64;

/// Writes the codes of a row and returns (scale, error): the Euclidean length of `row - scale * codes` is provably at
/// most the error (SEG-23, EMB-01). Codes past the end of the row become 0.
///
/// Proof: let u = 2^-53, the rounding of one `f64` operation, and n <= 2^12 the width. A product of an `f32` and a code
/// has 24 + 7 bits and a half has 11, so both sides of the subtraction are exact in `f64`. The difference is off by a
/// factor of at most 1 + u. Its square is off by (1 + u)^3, and a sum of n non-negative terms adds (1 + u)^(n - 1). The
/// square root, with its own rounding, is off by less than (1 + u)^(n / 2 + 2), which is below 1 + 2^-41.
/// `ERROR_MARGIN` is larger by more than the rounding of its product. Nothing overflows or underflows: a half is at
/// most 2^16, and a non-zero difference is at least 2^-55. This is a multiple of the lowest bit of a half or of the
/// smallest scale, 2^-24 / 127.
///
/// If the row is not finite (SEG-16), the error is NaN.
///
/// # Panics
/// If `codes` is shorter than `row`, or `row` wider than `DIMENSIONS_MAX`.
pub(crate) fn quantize(row: &[f16], codes: &mut [i8]) -> (f32, f32) {
    assert!(row.len() <= DIMENSIONS_MAX as usize, "the margin is for DIMENSIONS_MAX");
    let (codes, padding) = codes.split_at_mut(row.len());
    padding.fill(0);
    let mut floats = [0.0; DIMENSIONS_MAX as usize];
    let floats = &mut floats[..row.len()];
    row.convert_to_f32_slice(floats);
    let largest = floats.iter().map(|value| value.abs()).fold(0.0, f32::max);
    let scale = largest / f32::from(CODE_MAX);
    let mut squares = 0.0;
    for (code, &value) in codes.iter_mut().zip(floats.iter()) {
        *code = nearest_code(value, scale);
        squares += (f64::from(value) - f64::from(scale) * f64::from(*code)).powi(2);
    }
    (scale, round_up(squares.sqrt() * ERROR_MARGIN))
}

/// The choice of code affects only the tightness of the bound, not its validity. Truncation is an instruction and
/// `round` a call, so the value is rounded by adding 0.5 and truncating. In a row of zeros, 0 / 0 becomes 0.
#[expect(clippy::cast_possible_truncation, reason = "clamped to the range of a code")]
fn nearest_code(value: f32, scale: f32) -> i8 {
    let most = f32::from(CODE_MAX);
    (value / scale + 0.5_f32.copysign(value)).clamp(-most, most) as i8
}

/// Returns the smallest `f32` that is not below `value`.
#[expect(clippy::cast_possible_truncation, reason = "rounded up right after")]
fn round_up(value: f64) -> f32 {
    let nearest = value as f32;
    if f64::from(nearest) < value { nearest.next_up() } else { nearest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Splits a non-negative `f32` into (m, e), whose exact value is m * 2^e.
    fn parts(value: f32) -> (i128, i32) {
        let bits = value.to_bits();
        let exponent = i32::try_from(bits >> 23).unwrap();
        let fraction = i128::from(bits & 0x7F_FFFF);
        if exponent == 0 { (fraction, -149) } else { (fraction | 1 << 23, exponent - 150) }
    }

    /// Returns the exact square of the length of `row - scale * codes` as (m, e), whose value is m * 2^(2e).
    fn exact_squares(row: &[f16], codes: &[i8], scale: f32) -> (i128, i32) {
        let (scale, scale_exponent) = parts(scale);
        let unit = scale_exponent.min(-24);
        let squares = row.iter().zip(codes).map(|(half, &code)| {
            let (size, exponent) = parts(half.to_f32().abs());
            // A half is a multiple of 2^-24, which is not visible in its `f32` form.
            let whole = if size == 0 { 0 } else { shifted(size, exponent - unit) };
            let signed = if half.is_sign_negative() { -whole } else { whole };
            let off = signed - shifted(scale * i128::from(code), scale_exponent - unit);
            off * off
        });
        (squares.sum(), unit)
    }

    fn shifted(value: i128, by: i32) -> i128 {
        if by >= 0 {
            return value << by;
        }
        assert_eq!(value >> -by << -by, value, "bits would be lost");
        value >> -by
    }

    /// Returns true if `error`^2 >= m * 2^(2e), computed exactly.
    fn covers(error: f32, (squares, unit): (i128, i32)) -> bool {
        let (m, e) = parts(error);
        match e - unit {
            up if up >= 0 => (m << up).pow(2) >= squares,
            // m^2 >= s 2^k is equivalent to floor(m^2 / 2^k) >= s, which needs no wider numbers.
            down => (m * m) >> (-2 * down).min(i128::BITS as i32 - 1) >= squares,
        }
    }

    fn check(row: &[f16]) {
        let mut codes = vec![55; row.len().next_multiple_of(64)];
        let (scale, error) = quantize(row, &mut codes);
        assert!(scale.is_finite() && error.is_finite());
        assert!(codes[row.len()..].iter().all(|&code| code == 0), "padding");
        assert!(!codes.contains(&i8::MIN));
        let squares = exact_squares(row, &codes, scale);
        assert!(covers(error, squares), "{error} is too small for {row:?}");
        let below = error.next_down().next_down();
        assert!(error == 0.0 || !covers(below, squares), "{error} is wider than need be");
        let half_step = f64::from(scale) / 2.0 * (row.len() as f64).sqrt();
        assert!(f64::from(error) <= half_step * 1.000_01, "a code is not the nearest");
    }

    fn any_half() -> impl Strategy<Value = f16> {
        any::<u16>().prop_map(f16::from_bits).prop_filter("finite", |half| half.is_finite())
    }

    fn unit_half() -> impl Strategy<Value = f16> {
        (-1.0_f32..1.0).prop_map(f16::from_f32)
    }

    fn subnormal_half() -> impl Strategy<Value = f16> {
        (0_u16..1024, any::<bool>())
            .prop_map(|(low, sign)| f16::from_bits(low | u16::from(sign) << 15))
    }

    proptest! {
        #[test]
        fn quantization_error_bounds_arbitrary_finite_rows(row in prop::collection::vec(any_half(), 0..200)) {
            check(&row);
        }

        #[test]
        fn quantization_error_bounds_ordinary_rows(row in prop::collection::vec(unit_half(), 1..400)) {
            check(&row);
        }

        #[test]
        fn quantization_error_bounds_subnormal_rows(row in prop::collection::vec(subnormal_half(), 1..100)) {
            check(&row);
        }
    }

    #[test]
    fn extreme_values_neither_overflow_nor_vanish() {
        let widest = DIMENSIONS_MAX as usize;
        for half in [f16::MAX, f16::MIN, f16::MIN_POSITIVE, f16::MIN_POSITIVE_SUBNORMAL, f16::ZERO]
        {
            for width in [0, 1, 63, 64, 65, widest] {
                check(&vec![half; width]);
            }
            let mut row = vec![half; widest];
            row[7] = f16::MAX;
            check(&row);
            row[8] = f16::from_f32(-1e-7);
            check(&row);
        }
    }

    /// The code of a single value is 127, and the scale may then be exact.
    #[test]
    fn exactly_representable_row_has_zero_error() {
        let row = [f16::from_f32(7.569_79e-6)];
        assert_eq!(quantize(&row, &mut [0; 64]).1, 0.0);
        check(&row);
    }

    #[test]
    fn zero_row_has_zero_scale_and_error() {
        let mut codes = [9; 64];
        assert_eq!(quantize(&[f16::ZERO, f16::NEG_ZERO], &mut codes), (0.0, 0.0));
        assert_eq!(codes, [0; 64]);
    }

    #[test]
    fn non_finite_row_has_nan_error() {
        for bad in [f16::NAN, f16::INFINITY, f16::NEG_INFINITY] {
            for row in [[bad, f16::ONE], [f16::ONE, bad], [bad, bad]] {
                assert!(quantize(&row, &mut [0; 64]).1.is_nan(), "{row:?}");
            }
        }
    }
}
