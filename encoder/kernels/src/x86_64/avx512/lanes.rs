//! Full and partial loads and stores of one register of sixteen floats.

use std::arch::x86_64::*;

use crate::linear::COLUMNS;

/// Floats in one register, which is a panel line.
pub(super) const LANES: usize = 16;

const _: () = assert!(LANES == COLUMNS);

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
pub(in crate::x86_64) fn load(from: &[f32; LANES]) -> __m512 {
    // SAFETY: `from` is 64 readable bytes, and this load accepts any alignment.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
pub(super) fn store(to: &mut [f32; LANES], v: __m512) {
    // SAFETY: `to` is 64 writable bytes, and this store accepts any alignment.
    unsafe { _mm512_storeu_ps(to.as_mut_ptr(), v) };
}

/// Loads as many floats as `from` has, at most sixteen; the other lanes are those of `rest`. Most slices have sixteen,
/// and the check for this costs less than a mask.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
pub(super) fn load_some(from: &[f32], rest: __m512) -> __m512 {
    if let Some(from) = from.as_array::<LANES>() {
        return load(from);
    }
    // SAFETY: only the lanes of the mask are read, and `from` has that many floats.
    unsafe { _mm512_mask_loadu_ps(rest, mask_of(from.len()), from.as_ptr()) }
}

/// Stores as many lanes as `to` has floats, at most sixteen.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
pub(super) fn store_some(to: &mut [f32], v: __m512) {
    if let Some(to) = to.as_mut_array::<LANES>() {
        return store(to, v);
    }
    let mask = mask_of(to.len());
    // SAFETY: only the lanes of the mask are written, and `to` has that many floats.
    unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), mask, v) };
}

/// Mask of the first `lanes` lanes.
pub(in crate::x86_64) fn mask_of(lanes: usize) -> __mmask16 {
    assert!(lanes <= LANES, "a register has sixteen lanes");
    let ones = (1_u32 << lanes) - 1;
    u16::try_from(ones).expect("at most sixteen ones")
}
