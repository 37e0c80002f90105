//! GEMM of f16 layers, as pairs of bfloat16 numbers.

use std::arch::x86_64::*;
use std::ops::Range;

use half::f16;

use super::super::avx512::{finish, load as load_floats, widen};
use super::tiles::{
    ROWS_PREPARED, Sums, TILE_ROWS, TILE_WIDTH, Tiles, blocks, load, multiply, prefetch, register,
    room_for_sums, store, zero,
};
use crate::linear::{COLUMNS, Cells, padded_depth};
use crate::product::{Product, Task};
use crate::rows::Rows;
use crate::workspace::CacheLine;

/// Product at `Precision::F16`.
pub(super) const PRODUCT: Product =
    Product { tile_rows: ROWS_PREPARED, panels_together: 2, cell_bytes: 4, prepare, multiply };

/// Depth of one product of tiles: thirty-two bfloat16 numbers are sixty-four bytes.
const STEP: usize = 32;
/// Lines of a split tile: its upper parts, then its lower ones.
const SPLIT_LINES: usize = 2 * TILE_ROWS;

/// The upper half of a prepared row has its numbers rounded to bfloat16, the lower half the remainders, also rounded to
/// bfloat16, so that the error is at most 2^-18 of a number.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn prepare(rows: Rows<'_>, lines: &mut [CacheLine], _scales: &mut [f32], _own: &mut [CacheLine]) {
    let depth = padded_depth(rows.width());
    let cells: &mut [u16] = bytemuck::cast_slice_mut(lines);
    for (m, cells) in cells.chunks_exact_mut(2 * depth).enumerate() {
        let (upper, lower) = cells.split_at_mut(depth);
        for ((x, upper), lower) in rows.row(m).iter().zip(&mut *upper).zip(&mut *lower) {
            *upper = nearest(*x);
            *lower = nearest(x - f32::from_bits(u32::from(*upper) << 16));
        }
        upper[rows.width()..].fill(0);
        lower[rows.width()..].fill(0);
    }
}

/// Returns the bfloat16 number nearest to `x`.
#[inline(always)]
fn nearest(x: f32) -> u16 {
    (x.to_bits().wrapping_add(0x8000) >> 16) as u16
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn multiply(task: &Task<'_>, own: &mut [CacheLine]) {
    // SAFETY: this level is returned only if the CPU has tiles and this process may use them.
    let _tiles = unsafe { Tiles::configure() };
    for panel in task.panels.clone() {
        let depth = padded_depth(task.layer.depth());
        let (split, sums) = own.split_at_mut(depth);
        let sums = room_for_sums(sums, 0);
        for rows in blocks(task.rows()) {
            // The first block splits the panel on the way, so that the splitting hides the wait for memory; later
            // blocks use the split panel.
            match (rows.start == task.rows().start, rows.len() > TILE_ROWS) {
                (true, true) => block::<2, true>(task, panel, rows, split, sums),
                (true, false) => block::<1, true>(task, panel, rows, split, sums),
                (false, true) => block::<2, false>(task, panel, rows, split, sums),
                (false, false) => block::<1, false>(task, panel, rows, split, sums),
            }
        }
    }
}

/// Splits sixteen pairs of depths of a panel into tiles. A line has sixteen columns, two depths each; sixteen lines of
/// upper parts are followed by sixteen of lower parts.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn split_tile(pairs: &[[[f16; COLUMNS]; 2]], split: &mut [CacheLine]) {
    let (upper, lower) = split.split_at_mut(TILE_ROWS);
    for ((pair, upper), lower) in pairs.iter().zip(upper).zip(lower) {
        split_pair(pair, upper, lower);
    }
}

/// An f16 value has eleven significant bits: the upper eight fit one bfloat16 number, the rest another.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn split_pair(pair: &[[f16; COLUMNS]; 2], upper: &mut CacheLine, lower: &mut CacheLine) {
    let upper_bits = _mm512_set1_epi32(0xFFFF_0000_u32.cast_signed());
    let [even, odd] = [widen(&pair[0]), widen(&pair[1])];
    let bits = |x| _mm512_castps_si512(x);
    let floats = |x| _mm512_castsi512_ps(x);
    let (even_upper, odd_upper) =
        (_mm512_and_si512(bits(even), upper_bits), _mm512_and_si512(bits(odd), upper_bits));
    let even_lower = bits(_mm512_sub_ps(even, floats(even_upper)));
    let odd_lower = bits(_mm512_sub_ps(odd, floats(odd_upper)));
    store_pair(upper, even_upper, odd_upper);
    store_pair(lower, even_lower, _mm512_and_si512(odd_lower, upper_bits));
}

/// Stores the upper sixteen bits of every lane, those of `even` below those of `odd`, whose own lower bits are zero.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn store_pair(to: &mut CacheLine, even: __m512i, odd: __m512i) {
    let both = _mm512_or_si512(_mm512_srli_epi32::<16>(even), odd);
    // SAFETY: `to` is 64 writable bytes, and this store accepts any alignment.
    unsafe { _mm512_storeu_si512(to.0.as_mut_ptr().cast(), both) };
}

/// `R` tiles of rows by one panel. The products of upper parts are one sum, those of an upper and a lower part another,
/// so that fewer products wait for each other.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn block<const R: usize, const FIRST: bool>(
    task: &Task<'_>,
    panel: usize,
    rows: Range<usize>,
    split: &mut [CacheLine],
    sums: &mut [Sums; 4],
) {
    let Cells::F16(cells) = task.layer.cells() else { unreachable!("chosen by precision") };
    let depth = padded_depth(task.layer.depth());
    let (lines, _) = cells.as_chunks::<COLUMNS>();
    let (pairs, _) = lines[panel * depth..][..depth].as_chunks::<2>();
    let ahead = if FIRST { task.ahead_of_all(panel + 1..panel + 2) } else { &[] };
    let stride = 2 * depth * size_of::<u16>();
    let row = rows.start;
    let left: &[u8] = bytemuck::cast_slice(task.lines(row..row + R * TILE_ROWS));
    let lower = depth * size_of::<u16>();

    zero!(0);
    zero!(1);
    zero!(2);
    zero!(3);
    // Every load below reads sixteen rows of sixty-four bytes: from the left side, which has that many rows of `stride`
    // bytes, with `offset` and 64 more bytes inside either half of a row; or lines.
    if FIRST {
        split_tile(&pairs[..TILE_ROWS], &mut split[..SPLIT_LINES]);
    }
    let steps = depth / STEP;
    for step in 0..steps {
        if FIRST {
            // The prefetch costs a twentieth if the weights are in the last-level cache and saves a fifth if not.
            prefetch(ahead, step * TILE_ROWS * TILE_WIDTH, TILE_ROWS);
            // A tile can be loaded once its lines have left the store buffer, so the next step multiplies what this
            // step splits.
            let next = step + 1;
            if next < steps {
                let to = &mut split[next * SPLIT_LINES..][..SPLIT_LINES];
                split_tile(&pairs[next * TILE_ROWS..][..TILE_ROWS], to);
            }
        }
        let split = &split[step * SPLIT_LINES..][..SPLIT_LINES];
        let offset = step * STEP * size_of::<u16>();
        load!(6, split[..TILE_ROWS].as_ptr(), TILE_WIDTH);
        load!(7, split[TILE_ROWS..].as_ptr(), TILE_WIDTH);
        load!(4, left[offset..].as_ptr(), stride);
        multiply!("tdpbf16ps", 0, 4, 6);
        multiply!("tdpbf16ps", 1, 4, 7);
        if R == 2 {
            load!(5, left[TILE_ROWS * stride + offset..].as_ptr(), stride);
            multiply!("tdpbf16ps", 2, 5, 6);
            multiply!("tdpbf16ps", 3, 5, 7);
        }
        load!(4, left[lower + offset..].as_ptr(), stride);
        multiply!("tdpbf16ps", 1, 4, 6);
        if R == 2 {
            load!(5, left[TILE_ROWS * stride + lower + offset..].as_ptr(), stride);
            multiply!("tdpbf16ps", 3, 5, 6);
        }
    }

    store!(0, &mut sums[0]);
    store!(1, &mut sums[1]);
    if R == 2 {
        store!(2, &mut sums[2]);
        store!(3, &mut sums[3]);
    }
    let bias = load_floats(task.layer.bias(panel));
    let (sums, _) = sums.as_chunks::<2>();
    for (first, [large, small]) in (row..).step_by(TILE_ROWS).zip(&sums[..R]) {
        let rows = first..rows.end.min(first + TILE_ROWS);
        finish(task, panel, rows, |row| {
            let (large, small) = (register(&large[row - first].0), register(&small[row - first].0));
            let sum = _mm512_add_ps(_mm512_castsi512_ps(large), _mm512_castsi512_ps(small));
            _mm512_add_ps(bias, sum)
        });
    }
}
