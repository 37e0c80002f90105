//! Dot products of a query with rows of f16 values, and of int8 codes.

use std::arch::x86_64::*;

use half::f16;

use super::lanes::{LANES, load, sum_lanes, widen};
use crate::product::LINE_BYTES;
use crate::questions::CodeQueries;

/// Independent sums per row. An FMA takes four cycles and one f16-to-f32 conversion starts per cycle, so four sums in
/// flight hide the latency.
const SUMS: usize = 4;
/// Elements of one step of `dot`.
const STEP: usize = SUMS * LANES;
/// Prefetch distance of row scans: one page, so that the next page is already on the way when the hardware prefetcher,
/// which stops at page ends, gets there.
const AHEAD_BYTES: usize = 4096;

/// Adds the products of one step to each row's sums.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn dot_step<const ROWS: usize>(
    query: &[f32; STEP],
    rows: [&[f16; STEP]; ROWS],
    sums: &mut [[__m256; SUMS]; ROWS],
) {
    let (query, _) = query.as_chunks::<LANES>();
    for s in 0..SUMS {
        let q = load(&query[s]);
        for r in 0..ROWS {
            let (row, _) = rows[r].as_chunks::<LANES>();
            sums[r][s] = _mm256_fmadd_ps(q, widen(&row[s]), sums[r][s]);
        }
    }
}

/// Returns the dot products of `ROWS` rows at once. The order of additions within a row does not depend on `ROWS`, so a
/// row's score has the same bits alone and in a block.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn dot_block<const ROWS: usize>(query: &[f32], rows: [&[f16]; ROWS]) -> [f32; ROWS] {
    let (steps, query_tail) = query.as_chunks::<STEP>();
    let rows = rows.map(|row| row.as_chunks::<STEP>());
    let mut sums = [[_mm256_setzero_ps(); SUMS]; ROWS];
    for (i, step) in steps.iter().enumerate() {
        dot_step(step, std::array::from_fn(|r| &rows[r].0[i]), &mut sums);
    }
    let (eights, query_rest) = query_tail.as_chunks::<LANES>();
    std::array::from_fn(|r| {
        let (row_eights, row_rest) = rows[r].1.as_chunks::<LANES>();
        let mut total = sums[r];
        for (q, row) in eights.iter().zip(row_eights) {
            total[0] = _mm256_fmadd_ps(load(q), widen(row), total[0]);
        }
        let pairs = [_mm256_add_ps(total[0], total[1]), _mm256_add_ps(total[2], total[3])];
        sum_lanes(_mm256_add_ps(pairs[0], pairs[1])) + crate::scalar::dot(query_rest, row_rest)
    })
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::x86_64) fn dot(query: &[f32], row: &[f16]) -> f32 {
    let [score] = dot_block(query, [row]);
    score
}

/// Scores two rows at a time: they share each load of the query, and eight sums leave registers free.
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::x86_64) fn dot_rows(query: &[f32], rows: &[f16], out: &mut [f32]) {
    let width = query.len();
    let (pairs, last) = out.as_chunks_mut::<2>();
    let mut rest = rows;
    for pair in pairs {
        let (first, after) = rest.split_at(width);
        let (second, after) = after.split_at(width);
        prefetch(rest, 2 * width);
        *pair = dot_block(query, [first, second]);
        rest = after;
    }
    for score in last {
        *score = dot(query, &rest[..width]);
    }
}

/// Prefetches the `count` elements that lie `AHEAD_BYTES` past the start of `rest`, line by line.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
pub(in crate::x86_64) fn prefetch<T>(rest: &[T], count: usize) {
    let (ahead, line) = (AHEAD_BYTES / size_of::<T>(), LINE_BYTES / size_of::<T>());
    for at in (ahead..ahead + count).step_by(line) {
        if let Some(element) = rest.get(at) {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast());
        }
    }
}

/// 16-bit numbers in one register.
const SHORTS: usize = 16;
/// Rows of codes scored at once: they share each load of the query, and four sums hide the latency.
const CODE_ROWS: usize = 4;

/// Converts sixteen codes to sixteen 16-bit numbers.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn widen_codes(row: &[i8; SHORTS]) -> __m256i {
    // SAFETY: `row` is 16 readable bytes, and this load accepts any alignment.
    let packed = unsafe { _mm_loadu_si128(row.as_ptr().cast()) };
    _mm256_cvtepi8_epi16(packed)
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn load_shorts(from: &[i16; SHORTS]) -> __m256i {
    // SAFETY: `from` is 32 readable bytes, and this load accepts any alignment.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

/// Sums all eight lanes, modulo 2^32.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn sum_integers(v: __m256i) -> i32 {
    let four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b00_00_11_10>(four));
    let one = _mm_add_epi32(two, _mm_shuffle_epi32::<0b00_00_00_01>(two));
    _mm_cvtsi128_si32(one)
}

/// Returns the integer dot products of `ROWS` rows at once. `madd` adds two products of 16-bit numbers in 32 bits; with
/// a code of at most 8 bits that sum is exact for any query.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn codes_block<const ROWS: usize>(query: &[i16], rows: [&[i8]; ROWS]) -> [i32; ROWS] {
    let (steps, query_rest) = query.as_chunks::<SHORTS>();
    // Sliced to one length, so that the loop needs no bounds checks.
    let lanes = rows.map(|row| &row.as_chunks::<SHORTS>().0[..steps.len()]);
    let mut sums = [_mm256_setzero_si256(); ROWS];
    for (i, step) in steps.iter().enumerate() {
        let q = load_shorts(step);
        for r in 0..ROWS {
            let products = _mm256_madd_epi16(q, widen_codes(&lanes[r][i]));
            sums[r] = _mm256_add_epi32(sums[r], products);
        }
    }
    std::array::from_fn(|r| {
        let (_, row_rest) = rows[r].as_chunks::<SHORTS>();
        sum_integers(sums[r]).wrapping_add(crate::scalar::dot_of_codes(query_rest, row_rest))
    })
}

/// Scores some rows at a time for every query, so that the rows are read from memory once.
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::x86_64) fn dot_codes(queries: &CodeQueries, rows: &[i8], out: &mut [i32]) {
    let (width, count) = (queries.width, queries.count);
    let mut rest = rows;
    for sums in out.chunks_mut(CODE_ROWS * count) {
        let (these, after) = rest.split_at(sums.len() / count * width);
        prefetch(rest, these.len());
        for q in 0..count {
            let query = queries.of(q);
            if sums.len() == CODE_ROWS * count {
                let all = std::array::from_fn(|r| &these[r * width..][..width]);
                let found = codes_block::<CODE_ROWS>(query, all);
                found.iter().enumerate().for_each(|(r, &sum)| sums[r * count + q] = sum);
                continue;
            }
            for r in 0..sums.len() / count {
                let [sum] = codes_block(query, [&these[r * width..][..width]]);
                sums[r * count + q] = sum;
            }
        }
        rest = after;
    }
}
