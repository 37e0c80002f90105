//! Register types: four floats or eight f16 values, and four registers for a panel line.

use std::arch::aarch64::*;

use half::f16;

use crate::linear::COLUMNS;

/// Floats in one register.
pub(super) const LANES: usize = 4;
/// f16 values in one register.
pub(super) const HALF_LANES: usize = 8;
/// Registers per panel line.
pub(super) const QUARTERS: usize = COLUMNS / LANES;

/// A panel line, or the part of a row that has its columns.
pub(super) type Line = [float32x4_t; QUARTERS];

/// Converts eight f16 values to eight floats in two registers. The array reference proves that the load stays inside.
#[target_feature(enable = "neon")]
#[inline]
pub(super) fn widen(row: &[f16; HALF_LANES]) -> [float32x4_t; 2] {
    // SAFETY: `row` is 16 readable bytes, and this load accepts any alignment of a half.
    let packed = vreinterpretq_f16_u16(unsafe { vld1q_u16(row.as_ptr().cast()) });
    [vcvt_f32_f16(vget_low_f16(packed)), vcvt_high_f32_f16(packed)]
}

#[target_feature(enable = "neon")]
#[inline]
pub(super) fn load(from: &[f32; LANES]) -> float32x4_t {
    // SAFETY: `from` is 16 readable bytes, and this load accepts any alignment of a float.
    unsafe { vld1q_f32(from.as_ptr()) }
}

#[target_feature(enable = "neon")]
#[inline]
pub(super) fn store(to: &mut [f32; LANES], v: float32x4_t) {
    // SAFETY: `to` is 16 writable bytes, and this store accepts any alignment of a float.
    unsafe { vst1q_f32(to.as_mut_ptr(), v) }
}

#[target_feature(enable = "neon")]
#[inline]
pub(super) fn load_line(line: &[f32; COLUMNS]) -> Line {
    let (quarters, _) = line.as_chunks::<LANES>();
    [load(&quarters[0]), load(&quarters[1]), load(&quarters[2]), load(&quarters[3])]
}

#[target_feature(enable = "neon")]
#[inline]
pub(super) fn store_line(to: &mut [f32; COLUMNS], line: Line) {
    let (to, _) = to.as_chunks_mut::<LANES>();
    for (to, quarter) in to.iter_mut().zip(line) {
        store(to, quarter);
    }
}
