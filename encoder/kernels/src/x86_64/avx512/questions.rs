//! Dot products of 16-bit query codes with rows of 8-bit codes, by dot products of bytes.
//!
//! A query's code is `256 * high + low`, with a signed high byte and an unsigned low byte. The instruction multiplies
//! unsigned by signed bytes. So the low bytes are multiplied with the row's codes as they are, and the high bytes with
//! the row's codes raised by 128. The raise adds 128 times the sum of the high bytes, a constant of the query. All sums
//! are modulo 2^32.

use std::arch::x86_64::*;

use super::super::avx2::prefetch;
use super::lanes::{self, mask_of};
use crate::questions::{Bars, CodeQueries, QUESTIONS_MAX, RowFacts};
use crate::scalar::dot_of_codes;
use crate::workspace::CacheLine;

/// int8 codes in one register.
pub(in crate::x86_64) const CODES: usize = 64;
/// Rows scored at once: they share each load of a query's bytes, and eight sums hide the latency.
const ROWS: usize = 4;

/// Arranges, for each whole register of a query, query after query, its high bytes and its low bytes. Codes past the
/// last whole register are left to scalar arithmetic.
pub(in crate::x86_64) fn arrange(codes: &[i16], count: usize) -> Vec<CacheLine> {
    let width = codes.len() / count;
    let mut lines = Vec::with_capacity(count * (width / CODES) * 2);
    for query in codes.chunks_exact(width.max(1)) {
        for step in query.as_chunks::<CODES>().0 {
            let [mut high, mut low] = [CacheLine([0; CODES]); 2];
            for (i, code) in step.iter().enumerate() {
                [low.0[i], high.0[i]] = code.to_le_bytes();
            }
            lines.extend([high, low]);
        }
    }
    lines
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
pub(super) fn load(from: &[u8; CODES]) -> __m512i {
    // SAFETY: `from` is 64 readable bytes, and this load accepts any alignment.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

/// Returns the amount that the raise by 128 adds to each dot product of a query.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn raised_by(lines: &[[CacheLine; 2]]) -> i32 {
    let mut sums = _mm512_setzero_si512();
    for [high, _] in lines {
        sums = _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(i8::MIN), load(&high.0));
    }
    _mm512_reduce_add_epi32(sums) << 8
}

/// Sums each of four registers, one sum per lane.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn sum_lanes([a, b, c, d]: [__m512i; ROWS]) -> __m128i {
    let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    let all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    let (low, high) = (_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64::<1>(all));
    let half = _mm256_add_epi32(low, high);
    _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
}

/// Returns the dot products of four rows with one query, over the whole registers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn block(lines: &[[CacheLine; 2]], rows: [&[i8]; ROWS]) -> [i32; ROWS] {
    // Sliced to one length, so that the loop needs no bounds checks.
    let rows: [&[[u8; CODES]]; ROWS] =
        rows.map(|row| &bytemuck::cast_slice::<i8, u8>(row).as_chunks().0[..lines.len()]);
    let mut high_sums = [_mm512_setzero_si512(); ROWS];
    let mut low_sums = [_mm512_setzero_si512(); ROWS];
    for (i, [high, low]) in lines.iter().enumerate() {
        let (high, low) = (load(&high.0), load(&low.0));
        for r in 0..ROWS {
            let codes = load(&rows[r][i]);
            let raised = _mm512_xor_si512(codes, _mm512_set1_epi8(i8::MIN));
            high_sums[r] = _mm512_dpbusd_epi32(high_sums[r], raised, high);
            low_sums[r] = _mm512_dpbusd_epi32(low_sums[r], low, codes);
        }
    }
    for r in 0..ROWS {
        low_sums[r] = _mm512_add_epi32(low_sums[r], _mm512_slli_epi32::<8>(high_sums[r]));
    }
    let sums = sum_lanes(low_sums);
    let mut out = [0; ROWS];
    // SAFETY: `out` is 16 writable bytes, and this store accepts any alignment.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), sums) };
    out
}

/// Scores four rows at a time for every query, so that the rows are read from memory once.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(in crate::x86_64) fn dot_codes(queries: &CodeQueries, rows: &[i8], out: &mut [i32]) {
    let (width, count) = (queries.width, queries.count);
    let steps = width / CODES;
    let (pairs, _) = queries.arranged.as_chunks::<2>();
    let mut raised = [0; QUESTIONS_MAX];
    for (q, raised) in raised[..count].iter_mut().enumerate() {
        *raised = raised_by(&pairs[q * steps..][..steps]);
    }
    for (at, sums) in out.chunks_mut(ROWS * count).enumerate() {
        let (first, here) = (at * ROWS, sums.len() / count);
        prefetch(&rows[first * width..], here * width);
        // If there are fewer than four rows, the last row is repeated.
        let these: [&[i8]; ROWS] =
            std::array::from_fn(|r| &rows[(first + r.min(here - 1)) * width..][..width]);
        for q in 0..count {
            let found = block(&pairs[q * steps..][..steps], these);
            for r in 0..here {
                let rest =
                    dot_of_codes(&queries.of(q)[steps * CODES..], &these[r][steps * CODES..]);
                sums[r * count + q] = found[r].wrapping_sub(raised[q]).wrapping_add(rest);
            }
        }
    }
}

/// Floats in one register.
const LANES: usize = 16;
const _: () = assert!(LANES == QUESTIONS_MAX, "a question to a lane");

/// With one query, each lane is a row; with several, each lane is a query.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) fn reaching(products: &[i32], facts: RowFacts<'_>, bars: &Bars, out: &mut [u16]) {
    let RowFacts { scales, errors, norms } = facts;
    let count = products.len() / out.len();
    if count > 1 {
        let bars = [
            lanes::load(&bars.per_product),
            lanes::load(&bars.per_error),
            lanes::load(&bars.least),
        ];
        let questions = mask_of(count);
        for (r, (reaches, products)) in out.iter_mut().zip(products.chunks_exact(count)).enumerate()
        {
            let facts =
                [_mm512_set1_ps(scales[r]), _mm512_set1_ps(errors[r]), _mm512_set1_ps(norms[r])];
            *reaches = compare(load_integers(products, questions), facts, bars) & questions;
        }
        return;
    }
    let bars = [
        _mm512_set1_ps(bars.per_product[0]),
        _mm512_set1_ps(bars.per_error[0]),
        _mm512_set1_ps(bars.least[0]),
    ];
    let none = _mm512_setzero_ps();
    for (at, out) in out.chunks_mut(LANES).enumerate() {
        let rows = at * LANES..at * LANES + out.len();
        let facts = [
            lanes::load_some(&scales[rows.clone()], none),
            lanes::load_some(&errors[rows.clone()], none),
            lanes::load_some(&norms[rows.clone()], none),
        ];
        let lanes = mask_of(out.len());
        let reaches = compare(load_integers(&products[rows], lanes), facts, bars);
        let ones = _mm256_maskz_set1_epi16(reaches, 1);
        // SAFETY: only the lanes of the mask are written, and `out` has that many numbers.
        unsafe { _mm256_mask_storeu_epi16(out.as_mut_ptr().cast(), lanes, ones) };
    }
}

/// Returns the lanes in which the threshold is reached, or an operand is NaN.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn compare(
    products: __m512i,
    [scale, error, norm]: [__m512; 3],
    [per_product, per_error, least]: [__m512; 3],
) -> __mmask16 {
    let known = _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(products), scale), per_product);
    let most = _mm512_add_ps(known, _mm512_mul_ps(error, per_error));
    _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(most, _mm512_mul_ps(norm, least))
}

/// Loads the integers of the lanes in `lanes`, of which `from` has at least as many; the others are zero.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn load_integers(from: &[i32], lanes: __mmask16) -> __m512i {
    debug_assert!(from.len() >= lanes.count_ones() as usize);
    // SAFETY: only the lanes of the mask are read, and `from` has that many integers.
    unsafe { _mm512_maskz_loadu_epi32(lanes, from.as_ptr()) }
}
