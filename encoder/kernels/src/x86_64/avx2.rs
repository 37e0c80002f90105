//! AVX2 + FMA + F16C: eight floats at a time, sixteen registers.
//!
//! Same names and meanings as `scalar.rs`. Functions are safe to call from one another because all
//! enable the same features; unsafe is left only where memory is read or written.

use std::arch::x86_64::*;

use half::f16;

use crate::Table;

pub(crate) static TABLE: Table = Table { dot, dot_rows };

/// Independent sums per row. An FMA takes four cycles and one half-to-float conversion starts per
/// cycle, so four sums in flight hide the latency.
const SUMS: usize = 4;
/// Floats in one register.
const LANES: usize = 8;
/// Elements one step of `dot` takes.
const STEP: usize = SUMS * LANES;
/// How far ahead `dot_rows` asks for memory, in elements: 4 KiB, so that the next page is already
/// under way when the hardware prefetcher, which stops at page ends, gets there.
const AHEAD: usize = 2048;

/// Eight halves as eight floats. The array reference is the proof that the load stays inside.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn widen(row: &[f16; LANES]) -> __m256 {
    // SAFETY: `row` is 16 readable bytes, and this load accepts any alignment.
    let packed = unsafe { _mm_loadu_si128(row.as_ptr().cast()) };
    _mm256_cvtph_ps(packed)
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn load(from: &[f32; LANES]) -> __m256 {
    // SAFETY: `from` is 32 readable bytes, and this load accepts any alignment.
    unsafe { _mm256_loadu_ps(from.as_ptr()) }
}

/// The sum of all eight lanes, in a fixed order.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn sum_lanes(v: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    let one = _mm_add_ss(two, _mm_shuffle_ps::<1>(two, two));
    _mm_cvtss_f32(one)
}

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

/// The dot products of `ROWS` rows at once. The order of additions within a row does not depend on
/// `ROWS`, so a row scores the same bits alone and in a block.
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
fn dot(query: &[f32], row: &[f16]) -> f32 {
    let [score] = dot_block(query, [row]);
    score
}

/// Two rows at a time: they share each load of the query, and eight sums leave registers free.
#[target_feature(enable = "avx2,fma,f16c")]
fn dot_rows(query: &[f32], rows: &[f16], out: &mut [f32]) {
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

/// Asks for the `count` halves that lie `AHEAD` past the start of `rest`, line by line.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn prefetch(rest: &[f16], count: usize) {
    const LINE: usize = 64 / size_of::<f16>();
    for at in (AHEAD..AHEAD + count).step_by(LINE) {
        if let Some(element) = rest.get(at) {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast());
        }
    }
}
