//! Transposition of tiles of rows into the layout of a product.

use std::arch::x86_64::*;

use crate::rows::Rows;
use crate::workspace::CacheLine;

/// Rows, and steps of depth, that are transposed at once: eight registers of eight.
const SIDE: usize = 8;

/// Stores depth after depth, one float per row, as `product::turned` does.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) fn prepare_floats(
    rows: Rows<'_>,
    lines: &mut [CacheLine],
    _scales: &mut [f32],
    _own: &mut [CacheLine],
) {
    lay_across(rows, bytemuck::cast_slice_mut(lines));
}

/// Transposes the rows of a tile. The bits are moved without interpretation, so the floats may be any 32-bit values.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) fn lay_across(rows: Rows<'_>, out: &mut [f32]) {
    let (height, depth) = (rows.count(), rows.width());
    assert!((1..=SIDE).contains(&height), "a tile has at most eight rows");
    for first in (0..depth).step_by(SIDE) {
        let steps = SIDE.min(depth - first);
        let mut block = [_mm256_setzero_ps(); SIDE];
        for (m, of_row) in block.iter_mut().enumerate().take(height) {
            *of_row = load_first(&rows.row(m)[first..first + steps]);
        }
        let out = &mut out[first * height..][..steps * height];
        for (to, of_step) in out.chunks_exact_mut(height).zip(turned(block)) {
            store_first(to, of_step);
        }
    }
}

/// Transposes a block: lane `k` of register `m` becomes lane `m` of register `k`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn turned(block: [__m256; SIDE]) -> [__m256; SIDE] {
    const EVEN: i32 = 0b01_00_01_00;
    const ODD: i32 = 0b11_10_11_10;
    const LOW: i32 = 0x20;
    const HIGH: i32 = 0x31;
    let [a, b, c, d, e, f, g, h] = block;
    let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
    let (ef, gh) = (_mm256_unpacklo_ps(e, f), _mm256_unpacklo_ps(g, h));
    let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
    let (ef_high, gh_high) = (_mm256_unpackhi_ps(e, f), _mm256_unpackhi_ps(g, h));
    // Lanes 0 and 4 of four rows, then 1 and 5, 2 and 6, 3 and 7.
    let of_four = [
        (_mm256_shuffle_ps::<EVEN>(ab, cd), _mm256_shuffle_ps::<EVEN>(ef, gh)),
        (_mm256_shuffle_ps::<ODD>(ab, cd), _mm256_shuffle_ps::<ODD>(ef, gh)),
        (_mm256_shuffle_ps::<EVEN>(ab_high, cd_high), _mm256_shuffle_ps::<EVEN>(ef_high, gh_high)),
        (_mm256_shuffle_ps::<ODD>(ab_high, cd_high), _mm256_shuffle_ps::<ODD>(ef_high, gh_high)),
    ];
    let mut turned = [_mm256_setzero_ps(); SIDE];
    for (k, (first, last)) in of_four.into_iter().enumerate() {
        turned[k] = _mm256_permute2f128_ps::<LOW>(first, last);
        turned[k + SIDE / 2] = _mm256_permute2f128_ps::<HIGH>(first, last);
    }
    turned
}

/// Loads as many lanes as `from` has floats, at most eight; the others are zeros.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn load_first(from: &[f32]) -> __m256 {
    if let Some(from) = from.as_array::<SIDE>() {
        // SAFETY: `from` is 32 readable bytes, and this load accepts any alignment.
        return unsafe { _mm256_loadu_ps(from.as_ptr()) };
    }
    // SAFETY: only the lanes of the mask are read, and `from` has that many floats.
    unsafe { _mm256_maskz_loadu_ps(mask_of(from.len()), from.as_ptr()) }
}

/// Stores as many lanes as `to` has floats, at most eight.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn store_first(to: &mut [f32], v: __m256) {
    if let Some(to) = to.as_mut_array::<SIDE>() {
        // SAFETY: `to` is 32 writable bytes, and this store accepts any alignment.
        return unsafe { _mm256_storeu_ps(to.as_mut_ptr(), v) };
    }
    let mask = mask_of(to.len());
    // SAFETY: only the lanes of the mask are written, and `to` has that many floats.
    unsafe { _mm256_mask_storeu_ps(to.as_mut_ptr(), mask, v) };
}

/// Mask of the first `lanes` lanes.
fn mask_of(lanes: usize) -> __mmask8 {
    assert!(lanes <= SIDE, "a register has eight lanes");
    __mmask8::MAX.checked_shr(u32::try_from(SIDE - lanes).expect("at most eight")).unwrap_or(0)
}
