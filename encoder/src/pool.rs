//! Pooling of token rows to one unit-length vector (Reimers and Gurevych 2019, section 3).

use kernels::Kernels;

use crate::config::Pooling;

/// Pools `rows` (dense, each as wide as `out`, at least one) into `out` and normalizes it to length one. If the length
/// is zero or not finite, which trained weights do not produce, `out` becomes zero: the zero vector is near nothing,
/// and nothing is near it.
pub(crate) fn pool(kernels: &Kernels, pooling: Pooling, rows: &[f32], out: &mut [f32]) {
    let (first, others) = rows.split_at(out.len());
    out.copy_from_slice(first);
    if pooling == Pooling::Mean {
        // The sum is enough, as the normalization cancels the count.
        for row in others.chunks_exact(out.len()) {
            kernels.add(out, row);
        }
    }
    let square: f64 = out.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let length = square.sqrt();
    let usable = length.is_finite() && length > 0.0;
    for x in out {
        #[expect(clippy::cast_possible_truncation, reason = "back to the f32 it came from")]
        let unit = (f64::from(*x) / length) as f32;
        *x = if usable { unit } else { 0.0 };
    }
}
