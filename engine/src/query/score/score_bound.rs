//! Upper bound of a cosine, computed from int8 codes alone.

use crate::limits::DIMENSIONS_MAX;

/// Largest code of a query. Query codes are sixteen times as fine as a row's int8 codes, so nearly all slack of the
/// bound comes from the rows. The codes are small enough for 32-bit sums.
const QUERY_CODE_MAX: i16 = 4095;

/// Largest magnitude of an `i8`, whatever a file contains.
const ROW_CODE_SIZE_MAX: i64 = 128;

const _: () = assert!(
    ROW_CODE_SIZE_MAX * QUERY_CODE_MAX as i64 * DIMENSIONS_MAX as i64 <= i32::MAX as i64,
    "no sum of products overflows"
);

/// Exceeds any `f64` rounding of a number here: it is 2^33 times as large.
const ROUNDED_UP: f64 = 1.0 + 1.0 / (1_u64 << 20) as f64;

/// Generous bound on the relative rounding of sums of squares of up to `DIMENSIONS_MAX` terms.
const SUM_ROUNDING: f64 = 1.0 / (1_u64 << 40) as f64;

/// A quantized query, with the coefficients that turn an integer dot product into a bound of the cosine.
///
/// # The bound
///
/// Let q be the query and L the length that the scan divides by (an `f32`, whose own rounding may be anything); r a
/// row's halves, N its stored length, c its codes, s its scale, E its error; k the query's codes, t their scale and d =
/// q - t k. By Cauchy-Schwarz, and because |r - s c| <= E (SEG-23, EMB-01),
///
/// ```text
/// q.r = t k.r + d.r = t s (k.c) + t k.(r - s c) + d.r
///    <= t s (k.c) + (|q| + |d|) E + |d| |r|
/// ```
///
/// The score that is compared is not q.r / (L N) but its `f32` rounding. With n the query's width, e = `f32::EPSILON`
/// and m = `f32::MIN_POSITIVE`:
///
/// - every level sums the products within n e |q| |r| + n m of q.r (`check.rs` of the kernels tests this bound; zeros
///   after the last component add nothing);
/// - the product N L and the division round by a factor of at most 1 + e / 2 each, the division below the normal range
///   by at most m, and |q.r| <= |q| |r|: together less than (1 + 1/512) e |q| |r| / (N L) + m, the products' rounding
///   included in |q.r|;
/// - |r| <= N (1 + e), since N is the nearest `f32` (SEG-16), and N, if not 0, is at least 2^-25.
///
/// So the score is at most (`per_product` * s * (k.c) + `per_error` * E) / N + `always`, where
///
/// ```text
/// per_product = t / L
/// per_error   = (|q| + |d|) / L
/// always      = (|d| (1 + e) + (n + 2) e |q| (1 + 1/512) + n m 2^26) / L + m
/// ```
///
/// All coefficients and bounds are computed in `f64`, each operation rounding by a factor of at most 1 + 2^-53. A row's
/// bound takes fewer than 16 operations, and |t s (k.c)| <= (|q| + |d|) (|r| + E), so their roundings sum to less than
/// 2^-48 (`per_error` (2 + 2 E / N) + `always`). `ROUNDED_UP` on `per_error` and on `always`, to which 2^-40 of
/// `per_error` is added, exceeds that sum.
pub(super) struct QueryCodes {
    codes: Vec<i16>,
    per_product: f64,
    per_error: f64,
    always: f64,
}

impl QueryCodes {
    /// Quantizes `query` and pads the codes with zeros to `width`. Scores are divided by `length`.
    ///
    /// # Panics
    /// If the query is wider than `width` or `DIMENSIONS_MAX`, or `length` is not a positive number.
    pub(super) fn quantize(query: &[f32], length: f32, width: usize) -> Self {
        assert!(
            query.len() <= width.min(DIMENSIONS_MAX as usize),
            "sums are bounded for this width"
        );
        assert!(length > 0.0 && length.is_finite(), "a query that can be compared");
        let (width_f64, length) = (query.len() as f64, f64::from(length));
        let largest = query.iter().fold(0.0, |top, x| x.abs().max(top));
        let scale = f64::from(largest) / f64::from(QUERY_CODE_MAX);
        let mut codes: Vec<i16> =
            query.iter().map(|&x| nearest_code(f64::from(x) / scale)).collect();
        let size = euclidean(query.iter().map(|&x| f64::from(x)));
        let differences =
            query.iter().zip(&codes).map(|(&x, &k)| f64::from(x) - scale * f64::from(k));
        // Second term: a product `scale * k` has an error of 2^-53 of itself, which may be more than 2^-53 of the
        // difference.
        let left_out = euclidean(differences) + SUM_ROUNDING * size;
        codes.resize(width, 0);
        let epsilon = f64::from(f32::EPSILON);
        let smallest = f64::from(f32::MIN_POSITIVE);
        let per_error = (size + left_out) / length * ROUNDED_UP;
        let rounding = (width_f64 + 2.0) * epsilon * size * (1.0 + 1.0 / 512.0);
        let underflow = width_f64 * smallest * f64::from(1_u32 << 26);
        let always = (left_out * (1.0 + epsilon) + rounding + underflow) / length + smallest;
        Self {
            codes,
            per_product: scale / length,
            per_error,
            always: (always + SUM_ROUNDING * per_error) * ROUNDED_UP,
        }
    }

    pub(super) fn codes(&self) -> &[i16] {
        &self.codes
    }

    /// Approximates the cosine with a unit vector, from the integer dot product of its codes with
    /// [`codes`](Self::codes), and its scale.
    #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
    pub(super) fn cosine(&self, product: i32, scale: f32) -> f32 {
        (self.per_product * (f64::from(scale) * f64::from(product))) as f32
    }

    /// Largest score that a row can have, given its integer dot product with [`codes`](Self::codes), its scale, error
    /// and length. For a row that is not finite, the bound may be NaN and excludes nothing.
    pub(super) fn bound(&self, product: i32, scale: f32, error: f32, norm: f32) -> f64 {
        let product = self.per_product * (f64::from(scale) * f64::from(product));
        let size = product + self.per_error * f64::from(error);
        // A row of zeros scores 0.
        if norm == 0.0 { 0.0 } else { size / f64::from(norm) + self.always }
    }

    /// The bound in `f32` and without a division, for a first pass over many rows. If
    ///
    /// ```text
    /// z = product * scale * per_product + error * per_error
    /// ```
    ///
    /// is below `norm * least`, all computed in `f32` and in that order, the row's bound is below `floor`. The converse
    /// need not hold. A row of zeros, or a row with values that are not numbers, is never below.
    ///
    /// Proof: let u = 2^-24, a and b be the `f64` numbers `per_product` and `per_error`, p the integer product, N > 0.
    /// Then |a s p| <= b (N (1 + 2u) + E), as shown above. The `f32` value of a s p has an error of four roundings,
    /// 4.01 u b (N + E). The `f32` of b is at least b (1 + 16u), so its product with E exceeds b E by 14.9 u b E; the
    /// sum rounds by u (1.01 b N + 2.01 b E). So a s p + b E <= z + 5.1 u b N + 2^-147, the last term for subnormal
    /// values. `norm * least` rounds by u N |least| + 2^-150, and N is at least 2^-25. Together the bound is below
    /// least + `always` + u |least| + 5.1 u b + 2^-121; and `least` is `floor - always` minus more than all these
    /// terms. If a or b is so large or small that the proof fails, `least` is NaN, and no row is below it.
    pub(super) fn threshold(&self, floor: f64) -> ApproxThreshold {
        const MARGIN: f64 = 1.0 / (1_u64 << 20) as f64;
        let (per_product, per_error) = (nearest_f32(self.per_product), self.per_error);
        let above = floor - self.always;
        let least = above - MARGIN * (per_error + above.abs()) - f64::from(f32::MIN_POSITIVE);
        let holds = per_product.is_normal() && per_product <= 1.0 && per_error <= 4.0;
        ApproxThreshold {
            per_product,
            per_error: nearest_f32(per_error * (1.0 + MARGIN)).next_up(),
            least: if holds { nearest_f32(least).next_down() } else { f32::NAN },
        }
    }
}

/// Result of [`QueryCodes::threshold`].
pub(super) struct ApproxThreshold {
    pub(super) per_product: f32,
    pub(super) per_error: f32,
    pub(super) least: f32,
}

#[expect(clippy::cast_possible_truncation, reason = "whoever asks makes good for it")]
fn nearest_f32(value: f64) -> f32 {
    value as f32
}

/// Euclidean length. Squares of `f32` numbers neither overflow nor underflow in `f64`.
fn euclidean(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.map(|x| x * x).sum::<f64>().sqrt()
}

/// Rounds to the nearest code. Any code would be valid, as the remainder is measured; the nearest leaves the smallest.
#[expect(clippy::cast_possible_truncation, reason = "clamped to the range of a query's code")]
fn nearest_code(steps: f64) -> i16 {
    let most = f64::from(QUERY_CODE_MAX);
    steps.round().clamp(-most, most) as i16
}
