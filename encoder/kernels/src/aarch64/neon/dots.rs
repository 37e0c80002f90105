//! Dot products of a query with rows of f16 values, and of int8 codes.

use std::arch::aarch64::*;

use half::f16;

use crate::questions::CodeQueries;

use super::lanes::{HALF_LANES, LANES, load, widen};

/// Independent sums per row: with four rows at once there are sixteen, which hides a latency of four cycles on four
/// ports.
const SUMS: usize = 4;
/// Elements of one step of `dot`.
const STEP: usize = SUMS * LANES;
/// Rows scored at once: they share each load of the query, and sixteen sums leave registers free.
const ROWS_TOGETHER: usize = 4;

/// Adds the products of one step to the sums of a row.
#[target_feature(enable = "neon")]
#[inline]
fn dot_step(query: [float32x4_t; SUMS], row: &[f16; STEP], sums: &mut [float32x4_t; SUMS]) {
    let (halves, _) = row.as_chunks::<HALF_LANES>();
    let [first, second] = [widen(&halves[0]), widen(&halves[1])];
    sums[0] = vfmaq_f32(sums[0], query[0], first[0]);
    sums[1] = vfmaq_f32(sums[1], query[1], first[1]);
    sums[2] = vfmaq_f32(sums[2], query[2], second[0]);
    sums[3] = vfmaq_f32(sums[3], query[3], second[1]);
}

/// Returns the dot products of `ROWS` rows at once. The order of additions within a row does not depend on `ROWS`, so a
/// row's score has the same bits alone and in a block.
#[target_feature(enable = "neon")]
#[inline]
fn dot_block<const ROWS: usize>(query: &[f32], rows: [&[f16]; ROWS]) -> [f32; ROWS] {
    let (steps, query_rest) = query.as_chunks::<STEP>();
    // Sliced to one length here and not in the loop: the loop's branches would keep the compiler from using the
    // instructions that take the high half of a register.
    let row_steps = rows.map(|row| &row.as_chunks::<STEP>().0[..steps.len()]);
    let mut sums = [[vdupq_n_f32(0.0); SUMS]; ROWS];
    for (i, step) in steps.iter().enumerate() {
        let (q, _) = step.as_chunks::<LANES>();
        let q = [load(&q[0]), load(&q[1]), load(&q[2]), load(&q[3])];
        for r in 0..ROWS {
            // SAFETY: `i` is less than `steps.len()`, the length every row was cut to above.
            let row = unsafe { row_steps[r].get_unchecked(i) };
            dot_step(q, row, &mut sums[r]);
        }
    }
    let mut scores = [0.0; ROWS];
    for r in 0..ROWS {
        let [a, b, c, d] = sums[r];
        let (_, row_rest) = rows[r].as_chunks::<STEP>();
        scores[r] = vaddvq_f32(vaddq_f32(vaddq_f32(a, b), vaddq_f32(c, d)))
            + crate::scalar::dot(query_rest, row_rest);
    }
    scores
}

#[target_feature(enable = "neon")]
pub(super) fn dot(query: &[f32], row: &[f16]) -> f32 {
    let [score] = dot_block(query, [row]);
    score
}

#[target_feature(enable = "neon")]
pub(super) fn dot_rows(query: &[f32], rows: &[f16], out: &mut [f32]) {
    let width = query.len();
    let (fours, last) = out.as_chunks_mut::<ROWS_TOGETHER>();
    let mut rest = rows;
    for four in fours {
        let (these, after) = rest.split_at(ROWS_TOGETHER * width);
        *four = dot_block::<ROWS_TOGETHER>(
            query,
            std::array::from_fn(|r| &these[r * width..][..width]),
        );
        rest = after;
    }
    for score in last {
        let (row, after) = rest.split_at(width);
        *score = dot(query, row);
        rest = after;
    }
}

/// int8 codes in one register, which is one step of `dot_codes`.
const CODES: usize = 16;
/// 16-bit numbers in one register.
const SHORTS: usize = 8;

#[target_feature(enable = "neon")]
#[inline]
fn load_shorts(from: &[i16; SHORTS]) -> int16x8_t {
    // SAFETY: `from` is 16 readable bytes, and this load accepts any alignment of such a number.
    unsafe { vld1q_s16(from.as_ptr()) }
}

#[target_feature(enable = "neon")]
#[inline]
fn load_codes(from: &[i8; CODES]) -> int8x16_t {
    // SAFETY: `from` is 16 readable bytes, and this load accepts any alignment.
    unsafe { vld1q_s8(from.as_ptr()) }
}

/// Adds the products of eight numbers with eight codes, two products per lane. A product of 16 bits with 8 has at most
/// 23; the additions are modulo 2^32.
#[target_feature(enable = "neon")]
#[inline]
fn add_products(sum: int32x4_t, query: int16x8_t, codes: int16x8_t) -> int32x4_t {
    let sum = vmlal_s16(sum, vget_low_s16(query), vget_low_s16(codes));
    vmlal_high_s16(sum, query, codes)
}

/// Returns the integer dot products of `ROWS` rows at once, each with two sums.
#[target_feature(enable = "neon")]
#[inline]
fn codes_block<const ROWS: usize>(query: &[i16], rows: [&[i8]; ROWS]) -> [i32; ROWS] {
    let (steps, query_rest) = query.as_chunks::<CODES>();
    // Sliced to one length here and not in the loop: the loop's branches would keep the compiler from using the
    // instructions that take the high half of a register.
    let row_steps = rows.map(|row| &row.as_chunks::<CODES>().0[..steps.len()]);
    let mut sums = [[vdupq_n_s32(0); 2]; ROWS];
    for (i, step) in steps.iter().enumerate() {
        let (q, _) = step.as_chunks::<SHORTS>();
        let q = [load_shorts(&q[0]), load_shorts(&q[1])];
        for r in 0..ROWS {
            // SAFETY: `i` is less than `steps.len()`, the length every row was cut to above.
            let codes = load_codes(unsafe { row_steps[r].get_unchecked(i) });
            sums[r][0] = add_products(sums[r][0], q[0], vmovl_s8(vget_low_s8(codes)));
            sums[r][1] = add_products(sums[r][1], q[1], vmovl_high_s8(codes));
        }
    }
    let mut totals = [0; ROWS];
    for r in 0..ROWS {
        let (_, row_rest) = rows[r].as_chunks::<CODES>();
        totals[r] = vaddvq_s32(vaddq_s32(sums[r][0], sums[r][1]))
            .wrapping_add(crate::scalar::dot_of_codes(query_rest, row_rest));
    }
    totals
}

/// Scores some rows at a time for every query, so that the rows are read from memory once.
#[target_feature(enable = "neon")]
pub(super) fn dot_codes(queries: &CodeQueries, rows: &[i8], out: &mut [i32]) {
    let (width, count) = (queries.width, queries.count);
    let mut rest = rows;
    for sums in out.chunks_mut(ROWS_TOGETHER * count) {
        let (these, after) = rest.split_at(sums.len() / count * width);
        for q in 0..count {
            let query = queries.of(q);
            if sums.len() == ROWS_TOGETHER * count {
                let all = std::array::from_fn(|r| &these[r * width..][..width]);
                let found = codes_block::<ROWS_TOGETHER>(query, all);
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
