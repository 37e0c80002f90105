//! Loads, stores and sums of one register of eight floats.

use std::arch::x86_64::*;

use half::f16;

/// Floats in one register.
pub(super) const LANES: usize = 8;

/// Converts eight f16 values to f32. The array reference proves that the load stays inside.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(super) fn widen(row: &[f16; LANES]) -> __m256 {
    // SAFETY: `row` is 16 readable bytes, and this load accepts any alignment.
    let packed = unsafe { _mm_loadu_si128(row.as_ptr().cast()) };
    _mm256_cvtph_ps(packed)
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(super) fn load(from: &[f32; LANES]) -> __m256 {
    // SAFETY: `from` is 32 readable bytes, and this load accepts any alignment.
    unsafe { _mm256_loadu_ps(from.as_ptr()) }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(super) fn store(to: &mut [f32; LANES], v: __m256) {
    // SAFETY: `to` is 32 writable bytes, and this store accepts any alignment.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), v) };
}

/// Sums all eight lanes in a fixed order.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(super) fn sum_lanes(v: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    let one = _mm_add_ss(two, _mm_shuffle_ps::<1>(two, two));
    _mm_cvtss_f32(one)
}
