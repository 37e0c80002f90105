//! Conversion of rows of floats to int8 codes: block Hadamard rotation, then quantization. The bits are those of
//! `rotate.rs` and of `linear::quantize`.

use std::arch::x86_64::*;

use super::across::lay_across;
use super::lanes::{LANES, load, store};
use crate::linear::{CODE_MAX, QUAD, padded_depth, per_unit, turned_codes};
use crate::product::{LINE_BYTES, quantized};
use crate::rows::Rows;
use crate::workspace::CacheLine;

/// Block that is rotated here: eight registers.
const BLOCK: usize = 128;
const REGISTERS: usize = BLOCK / LANES;

/// Stores the left codes quad after quad, one quad per row of the tile, shifted by 128, since `vpdpbusd` needs one
/// unsigned operand.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) fn prepare_quads(
    rows: Rows<'_>,
    lines: &mut [CacheLine],
    scales: &mut [f32],
    own: &mut [CacheLine],
) {
    let padded = padded_depth(rows.width());
    let (shifted, own) = own.split_at_mut(rows.count() * padded / LINE_BYTES);
    let of_rows: &mut [u8] = bytemuck::cast_slice_mut(shifted);
    let codes_of = |row: &[f32], turned: &mut [f32], codes: &mut [i8]| codes_of(row, turned, codes);
    quantized(rows, scales, own, codes_of, |m, codes| {
        for (shifted, code) in of_rows[m * padded..].iter_mut().zip(codes) {
            *shifted = code.cast_unsigned() ^ 0x80;
        }
    });
    let quads = Rows::dense(bytemuck::cast_slice(shifted), padded / QUAD);
    lay_across(quads, bytemuck::cast_slice_mut(lines));
}

/// Computes `linear::turned_codes`, and calls it for rows that are not made of whole blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
pub(in crate::x86_64) fn codes_of(row: &[f32], turned: &mut [f32], codes: &mut [i8]) -> f32 {
    if !row.len().is_multiple_of(BLOCK) {
        return turned_codes(row, turned, codes);
    }
    let top = turn(row, turned);
    quantize(turned, per_unit(top), codes);
    top / CODE_MAX
}

/// Rotates a row of whole blocks, and returns its largest magnitude.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn turn(row: &[f32], turned: &mut [f32]) -> f32 {
    let mut tops = _mm512_setzero_ps();
    let (blocks, _) = row.as_chunks::<BLOCK>();
    let (turned, _) = turned.as_chunks_mut::<BLOCK>();
    for (block, turned) in blocks.iter().zip(turned) {
        let mut now = [_mm512_setzero_ps(); REGISTERS];
        for (now, from) in now.iter_mut().zip(block.as_chunks::<LANES>().0) {
            *now = turn_register(load(from));
        }
        // Distances of 16, 32 and 64 are distances of one, two and four registers.
        for distance in [1, 2, 4] {
            for i in 0..REGISTERS {
                if i & distance == 0 {
                    let (a, b) = (now[i], now[i + distance]);
                    now[i] = _mm512_add_ps(a, b);
                    now[i + distance] = _mm512_sub_ps(a, b);
                }
            }
        }
        for (now, to) in now.into_iter().zip(turned.as_chunks_mut::<LANES>().0) {
            tops = _mm512_max_ps(tops, _mm512_abs_ps(now));
            store(to, now);
        }
    }
    _mm512_reduce_max_ps(tops)
}

/// The rounds at distances 1, 2, 4 and 8. A lane that comes second in its pair is subtracted from its partner: the
/// product with -1 is exact, so each sum is rounded once.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn turn_register(x: __m512) -> __m512 {
    let signs = |lanes: u16| _mm512_mask_blend_ps(lanes, _mm512_set1_ps(1.0), _mm512_set1_ps(-1.0));
    let other = _mm512_permute_ps::<0b10_11_00_01>(x);
    let x = _mm512_fmadd_ps(x, signs(0b1010_1010_1010_1010), other);
    let other = _mm512_permute_ps::<0b01_00_11_10>(x);
    let x = _mm512_fmadd_ps(x, signs(0b1100_1100_1100_1100), other);
    let other = _mm512_shuffle_f32x4::<0b10_11_00_01>(x, x);
    let x = _mm512_fmadd_ps(x, signs(0b1111_0000_1111_0000), other);
    let other = _mm512_shuffle_f32x4::<0b01_00_11_10>(x, x);
    _mm512_fmadd_ps(x, signs(0b1111_1111_0000_0000), other)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn quantize(turned: &[f32], per_unit: f32, codes: &mut [i8]) {
    let per_unit = _mm512_set1_ps(per_unit);
    let (turned, _) = turned.as_chunks::<LANES>();
    let (codes, _) = codes.as_chunks_mut::<LANES>();
    for (x, codes) in turned.iter().zip(codes) {
        // Rounds to nearest, ties to even: the default rounding mode.
        let whole = _mm512_cvtps_epi32(_mm512_mul_ps(load(x), per_unit));
        let bytes = _mm512_cvtepi32_epi8(whole);
        // SAFETY: `codes` is 16 writable bytes, and this store accepts any alignment.
        unsafe { _mm_storeu_si128(codes.as_mut_ptr().cast(), bytes) };
    }
}
