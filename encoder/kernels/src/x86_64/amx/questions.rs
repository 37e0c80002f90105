//! Dot products of 16-bit query codes with rows of 8-bit codes: one query per column of a tile.
//!
//! A query's code is `256 * high + low`, with a signed high byte and an unsigned low byte; there is an instruction for
//! either. Sums are modulo 2^32. A single query would leave fifteen columns empty, so the AVX-512 level handles it.

use std::arch::x86_64::*;

use super::super::avx512;
use super::tiles::{
    Sums, TILE_ROWS, TILE_WIDTH, Tiles, load, multiply, prefetch, register, store, zero,
};
use crate::linear::QUAD;
use crate::questions::{CodeQueries, QUESTIONS_MAX};
use crate::scalar::dot_of_codes;
use crate::workspace::CacheLine;

const _: () = assert!(QUESTIONS_MAX * QUAD == TILE_WIDTH, "a question to a column");

/// Rows at once: two tiles, so that every loaded tile is used twice.
const ROWS: usize = 2 * TILE_ROWS;

/// Arranges, for each step of depth, a tile of high bytes and a tile of low bytes. A line of a tile has four codes of
/// every query.
pub(super) fn arrange(codes: &[i16], count: usize) -> Vec<CacheLine> {
    if count == 1 {
        return avx512::arrange(codes, count);
    }
    let width = codes.len() / count;
    let steps = width / TILE_WIDTH;
    let mut lines = vec![CacheLine([0; TILE_WIDTH]); steps * 2 * TILE_ROWS];
    for (q, query) in codes.chunks_exact(width.max(1)).enumerate() {
        for (i, code) in query[..steps * TILE_WIDTH].iter().enumerate() {
            let (step, line) = (i / TILE_WIDTH, i % TILE_WIDTH / QUAD);
            let [low, high] = code.to_le_bytes();
            let at = step * 2 * TILE_ROWS + line;
            lines[at].0[q * QUAD + i % QUAD] = high;
            lines[at + TILE_ROWS].0[q * QUAD + i % QUAD] = low;
        }
    }
    lines
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) fn dot_codes(queries: &CodeQueries, rows: &[i8], out: &mut [i32]) {
    let (width, count) = (queries.width, queries.count);
    if count == 1 {
        return avx512::dot_codes(queries, rows, out);
    }
    let bytes: &[u8] = bytemuck::cast_slice(rows);
    let mut sums = [const { [CacheLine([0; TILE_WIDTH]); TILE_ROWS] }; 4];
    let whole = out.len() / count / ROWS * ROWS;
    let (blocks, rest) = out.split_at_mut(whole * count);
    {
        // SAFETY: this level is returned only if the CPU has tiles and this process may use them.
        let _tiles = unsafe { Tiles::configure() };
        for (at, out) in blocks.chunks_exact_mut(ROWS * count).enumerate() {
            let these = &bytes[at * ROWS * width..];
            block(queries, these, &mut sums);
            for (r, out) in out.chunks_exact_mut(count).enumerate() {
                let [high, low] = [0, 1].map(|part| &sums[r / TILE_ROWS * 2 + part]);
                join(&high[r % TILE_ROWS], &low[r % TILE_ROWS], out);
            }
        }
    }
    let beyond = width / TILE_WIDTH * TILE_WIDTH;
    if beyond < width {
        for (r, out) in blocks.chunks_exact_mut(count).enumerate() {
            let row = &rows[r * width..][beyond..width];
            for (q, sum) in out.iter_mut().enumerate() {
                *sum = sum.wrapping_add(dot_of_codes(&queries.of(q)[beyond..], row));
            }
        }
    }
    // There are fewer rows than two tiles read, and memory of another owner may follow.
    for (r, out) in rest.chunks_exact_mut(count).enumerate() {
        let row = &rows[(whole + r) * width..][..width];
        for (q, sum) in out.iter_mut().enumerate() {
            *sum = dot_of_codes(queries.of(q), row);
        }
    }
}

/// Returns the sums of two tiles of rows: high and low bytes of the first, then of the second. `rows` has at least that
/// many rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn block(queries: &CodeQueries, rows: &[u8], sums: &mut [Sums; 4]) {
    let stride = queries.width;
    let (tiles, _) = queries.arranged.as_chunks::<TILE_ROWS>();
    let steps = stride / TILE_WIDTH;
    assert!(rows.len() >= ROWS * stride && tiles.len() == 2 * steps, "whole tiles");
    zero!(0);
    zero!(1);
    zero!(2);
    zero!(3);
    // Every load below reads sixteen rows of sixty-four bytes: from the codes, which have that many rows of `stride`
    // bytes, with `offset` and 64 more bytes inside a row; or sixteen lines.
    for step in 0..steps {
        let offset = step * TILE_WIDTH;
        // Prefetches the next two tiles of rows, a few lines at each step.
        prefetch(rows, ROWS * stride + step * ROWS * TILE_WIDTH, ROWS);
        load!(4, rows[offset..].as_ptr(), stride);
        load!(5, rows[TILE_ROWS * stride + offset..].as_ptr(), stride);
        load!(6, tiles[2 * step].as_ptr(), TILE_WIDTH);
        multiply!("tdpbssd", 0, 4, 6);
        multiply!("tdpbssd", 2, 5, 6);
        load!(7, tiles[2 * step + 1].as_ptr(), TILE_WIDTH);
        multiply!("tdpbsud", 1, 4, 7);
        multiply!("tdpbsud", 3, 5, 7);
    }
    store!(0, &mut sums[0]);
    store!(1, &mut sums[1]);
    store!(2, &mut sums[2]);
    store!(3, &mut sums[3]);
}

/// Combines a row's sums of high and of low bytes to one sum per query.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn join(high: &CacheLine, low: &CacheLine, out: &mut [i32]) {
    let sums = _mm512_add_epi32(_mm512_slli_epi32::<8>(register(&high.0)), register(&low.0));
    let lanes = avx512::mask_of(out.len());
    // SAFETY: only the lanes of the mask are written, and `out` has that many integers.
    unsafe { _mm512_mask_storeu_epi32(out.as_mut_ptr(), lanes, sums) };
}
