//! AVX2 + FMA + F16C: eight floats at a time, sixteen registers.
//!
//! Same names and meanings as `scalar.rs`. Functions are safe to call from one another because all
//! enable the same features; unsafe is left only where memory is read or written.

use std::arch::x86_64::*;

use half::f16;

use crate::panels::{COLUMNS, Line, Panel, Panels, Rows, RowsMut};
use crate::scalar::{TAIL, TAIL_PULL};
use crate::{Table, Then};

pub(crate) static TABLE: Table =
    Table { dot, dot_rows, dot_codes_rows, matmul, softmax, layer_norm, gelu, add };

/// Independent sums per row. An FMA takes four cycles and one half-to-float conversion starts per
/// cycle, so four sums in flight hide the latency.
const SUMS: usize = 4;
/// Floats in one register.
const LANES: usize = 8;
/// Elements one step of `dot` takes.
const STEP: usize = SUMS * LANES;
/// How far ahead scans over rows ask for memory: a page, so that the next one is already under way
/// when the hardware prefetcher, which stops at page ends, gets there.
const AHEAD_BYTES: usize = 4096;
/// What memory is fetched in.
const LINE_BYTES: usize = 64;

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

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn store(to: &mut [f32; LANES], v: __m256) {
    // SAFETY: `to` is 32 writable bytes, and this store accepts any alignment.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), v) };
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

/// Asks for the `count` elements that lie `AHEAD_BYTES` past the start of `rest`, line by line.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn prefetch<T>(rest: &[T], count: usize) {
    let (ahead, line) = (AHEAD_BYTES / size_of::<T>(), LINE_BYTES / size_of::<T>());
    for at in (ahead..ahead + count).step_by(line) {
        if let Some(element) = rest.get(at) {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast());
        }
    }
}

/// 16-bit numbers in one register.
const SHORTS: usize = 16;
/// Rows of codes at once: they share each load of the query, and four sums hide the latency.
const CODE_ROWS: usize = 4;

/// Sixteen codes as sixteen 16-bit numbers.
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

/// The sum of all eight lanes, modulo 2^32.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn sum_integers(v: __m256i) -> i32 {
    let four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v));
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b00_00_11_10>(four));
    let one = _mm_add_epi32(two, _mm_shuffle_epi32::<0b00_00_00_01>(two));
    _mm_cvtsi128_si32(one)
}

/// The integer dot products of `ROWS` rows at once. `madd` adds two products of 16-bit numbers in 32
/// bits; with a code of at most 8 bits that is exact, whatever the query holds.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn codes_block<const ROWS: usize>(query: &[i16], rows: [&[i8]; ROWS]) -> [i32; ROWS] {
    let (steps, query_rest) = query.as_chunks::<SHORTS>();
    // Cut to one length, so that the loop needs no bounds checks.
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
        sum_integers(sums[r]).wrapping_add(crate::scalar::dot_codes(query_rest, row_rest))
    })
}

#[target_feature(enable = "avx2,fma,f16c")]
fn dot_codes_rows(query: &[i16], rows: &[i8], out: &mut [i32]) {
    let width = query.len();
    let (fours, last) = out.as_chunks_mut::<CODE_ROWS>();
    let mut rest = rows;
    for four in fours {
        let (these, after) = rest.split_at(CODE_ROWS * width);
        prefetch(rest, CODE_ROWS * width);
        *four =
            codes_block::<CODE_ROWS>(query, std::array::from_fn(|r| &these[r * width..][..width]));
        rest = after;
    }
    for sum in last {
        let (row, after) = rest.split_at(width);
        [*sum] = codes_block(query, [row]);
        rest = after;
    }
}

/// Rows of `left` per tile. Six rows of two registers are twelve sums; two registers of a panel
/// line and one broadcast make fifteen of the sixteen there are. Twelve FMAs in flight also cover
/// their latency (four cycles on two ports) with some to spare.
const TILE_ROWS: usize = 6;
/// Registers per panel line.
const HALVES: usize = COLUMNS / LANES;

/// The sums of one tile.
type Sums<const M: usize> = [[__m256; HALVES]; M];

/// A panel is the outer loop, so its lines stay in the first cache while every row passes by.
#[target_feature(enable = "avx2,fma,f16c")]
fn matmul(left: Rows<'_>, right: &Panels, then: Then, mut out: RowsMut<'_>) {
    // Tiles of nearly equal height: thirteen rows are 5 + 4 + 4, quicker than 6 + 6 + 1.
    let tiles = left.count().div_ceil(TILE_ROWS).max(1);
    let (height, taller) = (left.count() / tiles, left.count() % tiles);
    for panel in right.each() {
        let share = panel.next.len().div_ceil(tiles).max(1);
        let mut shares = panel.next.chunks(share);
        let mut row = 0;
        for t in 0..tiles {
            let rows = height + usize::from(t < taller);
            let at = Place { row, ahead: shares.next().unwrap_or_default() };
            match rows {
                0 => {}
                1 => tile::<1>(left, panel, at, then, &mut out),
                2 => tile::<2>(left, panel, at, then, &mut out),
                3 => tile::<3>(left, panel, at, then, &mut out),
                4 => tile::<4>(left, panel, at, then, &mut out),
                5 => tile::<5>(left, panel, at, then, &mut out),
                TILE_ROWS => tile::<TILE_ROWS>(left, panel, at, then, &mut out),
                _ => unreachable!("the rows were shared out so that no tile has more than six"),
            }
            row += rows;
        }
    }
}

/// What one tile does: the rows from `row` on, and its share of fetching the next panel.
#[derive(Clone, Copy)]
struct Place<'a> {
    row: usize,
    ahead: &'a [Line],
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn tile<const M: usize>(
    left: Rows<'_>,
    panel: Panel<'_>,
    at: Place<'_>,
    then: Then,
    out: &mut RowsMut<'_>,
) {
    let rows = std::array::from_fn(|m| left.row(at.row + m));
    let mut sums = products::<M>(rows, panel, at.ahead);
    if then == Then::Gelu {
        for sum in sums.as_flattened_mut() {
            *sum = gelu_lanes(*sum);
        }
    }
    for (m, halves) in sums.iter().enumerate() {
        let to = &mut out.row(at.row + m)[panel.first..][..panel.columns];
        if let Some(to) = to.as_mut_array::<COLUMNS>() {
            store_line(to, halves);
        } else {
            let mut whole = [0.0; COLUMNS];
            store_line(&mut whole, halves);
            to.copy_from_slice(&whole[..panel.columns]);
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn store_line(to: &mut [f32; COLUMNS], halves: &[__m256; HALVES]) {
    let (to, _) = to.as_chunks_mut::<LANES>();
    for (to, half) in to.iter_mut().zip(halves) {
        store(to, *half);
    }
}

/// The inner loop: every sum takes its products in order of depth, whatever `M` is. Meanwhile it
/// asks for the lines `ahead`: a model's weights are larger than the second cache, and without this
/// the first tile of each panel waits for memory.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn products<const M: usize>(rows: [&[f32]; M], panel: Panel<'_>, ahead: &[Line]) -> Sums<M> {
    let lines = panel.lines;
    let mut sums = [load_line(panel.start); M];
    let rows = rows.map(|row| &row[..lines.len()]);
    for (k, line) in lines.iter().enumerate() {
        if let Some(ahead) = ahead.get(k) {
            _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(ahead).cast());
        }
        let right = load_line(line);
        for m in 0..M {
            // SAFETY: `k` is less than `lines.len()`, the length every row was cut to above.
            // Checked access costs six branches and two spilled pointers in this, the hottest loop
            // there is.
            let x = _mm256_broadcast_ss(unsafe { rows[m].get_unchecked(k) });
            for h in 0..HALVES {
                sums[m][h] = _mm256_fmadd_ps(x, right[h], sums[m][h]);
            }
        }
    }
    sums
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn load_line(line: &Line) -> [__m256; HALVES] {
    let (halves, _) = line.0.as_chunks::<LANES>();
    [load(&halves[0]), load(&halves[1])]
}

/// `exp(x)` for `x <= 0`, within 2e-7 of itself; below -87 it stays at the smallest normal float.
///
/// `x = n ln 2 + r` with `|r| <= ln 2 / 2`; `exp(r)` is a polynomial (least-maximum fit, relative
/// error 3e-9) and `2^n` goes straight into the exponent bits. `ln 2` comes in two parts, so that
/// `n` times the first is exact.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn exp_lanes(x: __m256) -> __m256 {
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    const POLYNOMIAL: [f32; 7] =
        [0.001_381_461, 0.008_368_711, 0.041_668_39, 0.166_665_21, 0.499_999_94, 1.0, 1.0];
    let x = _mm256_max_ps(x, _mm256_set1_ps(-87.0));
    let n = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(_mm256_mul_ps(
        x,
        _mm256_set1_ps(std::f32::consts::LOG2_E),
    ));
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN_2_HIGH), x);
    let r = _mm256_fnmadd_ps(n, _mm256_set1_ps(LN_2_LOW), r);
    let mut sum = _mm256_setzero_ps();
    for c in POLYNOMIAL {
        sum = _mm256_fmadd_ps(sum, r, _mm256_set1_ps(c));
    }
    let exponent = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(n));
    _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(sum), exponent))
}

/// See `scalar::gelu`, step for step the same.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn gelu_lanes(x: __m256) -> __m256 {
    let one = _mm256_set1_ps(1.0);
    let z = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
    let t = _mm256_div_ps(one, _mm256_fmadd_ps(_mm256_set1_ps(TAIL_PULL), z, one));
    let mut polynomial = _mm256_setzero_ps();
    for c in TAIL.iter().rev() {
        polynomial = _mm256_fmadd_ps(polynomial, t, _mm256_set1_ps(*c));
    }
    let decay = exp_lanes(_mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(-0.5), z), z));
    let tail = _mm256_mul_ps(_mm256_mul_ps(t, polynomial), decay);
    _mm256_fnmadd_ps(z, tail, _mm256_max_ps(x, _mm256_setzero_ps()))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn gelu(values: &mut [f32]) {
    let (eights, rest) = values.as_chunks_mut::<LANES>();
    for eight in eights {
        let y = gelu_lanes(load(eight));
        store(eight, y);
    }
    crate::scalar::gelu(rest);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn add(sum: &mut [f32], addend: &[f32]) {
    let (sums, sum_rest) = sum.as_chunks_mut::<LANES>();
    let (addends, addend_rest) = addend.as_chunks::<LANES>();
    for (sum, addend) in sums.iter_mut().zip(addends) {
        let total = _mm256_add_ps(load(sum), load(addend));
        store(sum, total);
    }
    crate::scalar::add(sum_rest, addend_rest);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn softmax(mut rows: RowsMut<'_>, scale: f32) {
    for i in 0..rows.count() {
        softmax_row(rows.row(i), scale);
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn softmax_row(row: &mut [f32], scale: f32) {
    let (eights, rest) = row.as_chunks_mut::<LANES>();
    let mut tops = _mm256_set1_ps(f32::NEG_INFINITY);
    for eight in eights.iter() {
        tops = _mm256_max_ps(tops, load(eight));
    }
    let mut lanes = [0.0; LANES];
    store(&mut lanes, tops);
    let top = lanes.iter().chain(rest.iter()).copied().fold(f32::NEG_INFINITY, f32::max);

    let mut totals = _mm256_setzero_ps();
    for eight in eights.iter_mut() {
        let below = _mm256_sub_ps(load(eight), _mm256_set1_ps(top));
        let share = exp_lanes(_mm256_mul_ps(below, _mm256_set1_ps(scale)));
        totals = _mm256_add_ps(totals, share);
        store(eight, share);
    }
    let mut total = sum_lanes(totals);
    for score in rest.iter_mut() {
        *score = ((*score - top) * scale).exp();
        total += *score;
    }

    let shrink = 1.0 / total;
    for eight in eights {
        let share = _mm256_mul_ps(load(eight), _mm256_set1_ps(shrink));
        store(eight, share);
    }
    for share in rest {
        *share *= shrink;
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn layer_norm(mut rows: RowsMut<'_>, gain: &[f32], bias: &[f32], epsilon: f32) {
    for i in 0..rows.count() {
        norm_row(rows.row(i), gain, bias, epsilon);
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn norm_row(row: &mut [f32], gain: &[f32], bias: &[f32], epsilon: f32) {
    let width = row.len() as f32;
    let (eights, rest) = row.as_chunks_mut::<LANES>();
    let mut sums = _mm256_setzero_ps();
    for eight in eights.iter() {
        sums = _mm256_add_ps(sums, load(eight));
    }
    let mean = (sum_lanes(sums) + rest.iter().sum::<f32>()) / width;

    let mut spreads = _mm256_setzero_ps();
    for eight in eights.iter() {
        let off = _mm256_sub_ps(load(eight), _mm256_set1_ps(mean));
        spreads = _mm256_fmadd_ps(off, off, spreads);
    }
    let spread = sum_lanes(spreads) + rest.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>();
    let shrink = 1.0 / (spread / width + epsilon).sqrt();

    let (gains, gain_rest) = gain.as_chunks::<LANES>();
    let (biases, bias_rest) = bias.as_chunks::<LANES>();
    for ((eight, gain), bias) in eights.iter_mut().zip(gains).zip(biases) {
        let off = _mm256_sub_ps(load(eight), _mm256_set1_ps(mean));
        let unit = _mm256_mul_ps(off, _mm256_set1_ps(shrink));
        let normal = _mm256_fmadd_ps(unit, load(gain), load(bias));
        store(eight, normal);
    }
    for ((x, gain), bias) in rest.iter_mut().zip(gain_rest).zip(bias_rest) {
        *x = (*x - mean) * shrink * gain + bias;
    }
}
