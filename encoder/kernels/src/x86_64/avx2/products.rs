//! GEMM tiles of rows with panels, and products of activations.

use std::arch::x86_64::*;

use half::f16;

use super::lanes::{LANES, load, store, widen};
use super::rows::gelu_lanes;
use crate::linear::{COLUMNS, Cells, Codes, QUAD, QUAD_LINE, lines, quad_lines, turned_codes};
use crate::panels::Panels;
use crate::product::{Task, Then, Tiles, lay_across, quantized, turned};
use crate::rows::{Rows, RowsMut};
use crate::workspace::CacheLine;

/// Rows per tile. Six rows of two registers are twelve sums; two registers of a panel line and one broadcast make
/// fifteen of the sixteen registers. Twelve FMAs in flight also hide their latency (four cycles on two ports) with some
/// to spare.
pub(super) const TILE_ROWS: usize = 6;
/// Rows per tile of codes: three rows of four registers are twelve sums, as in `TILE_ROWS`.
pub(super) const CODE_TILE_ROWS: usize = 3;
/// Registers per panel line.
const HALVES: usize = COLUMNS / LANES;
/// 16-bit numbers in one register.
const SHORTS: usize = 16;
/// Registers per panel line of codes, converted to 16 bits.
const QUARTERS: usize = QUAD_LINE / SHORTS;

type Sums<const M: usize> = [[__m256; HALVES]; M];

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn prepare_floats(
    rows: Rows<'_>,
    lines: &mut [CacheLine],
    _scales: &mut [f32],
    _own: &mut [CacheLine],
) {
    turned(rows, bytemuck::cast_slice_mut(lines));
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply_f32(task: &Task<'_>, _own: &mut [CacheLine]) {
    let Cells::F32(cells) = task.layer.cells() else { unreachable!("chosen by precision") };
    multiply(task, cells, |line| load_line(line));
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply_f16(task: &Task<'_>, _own: &mut [CacheLine]) {
    let Cells::F16(cells) = task.layer.cells() else { unreachable!("chosen by precision") };
    multiply(task, cells, |line| widen_line(line));
}

/// The outer loop is over panels, so the lines of a panel stay in the first-level cache for all rows.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn multiply<T>(
    task: &Task<'_>,
    cells: &[T],
    line_of: impl Fn(&[T; COLUMNS]) -> [__m256; HALVES] + Copy,
) {
    let depth = task.layer.depth();
    for panel in task.panels.clone() {
        let here = lines(cells, panel, depth);
        for t in task.tiles.clone() {
            let (rows, left) = task.tile(t);
            let left = bytemuck::cast_slice(left);
            let ahead = task.ahead(panel + 1..panel + 2, t);
            let at = Place { row: rows.start, panel };
            match rows.len() {
                1 => tile::<T, 1>(task, at, left, here, ahead, line_of),
                2 => tile::<T, 2>(task, at, left, here, ahead, line_of),
                3 => tile::<T, 3>(task, at, left, here, ahead, line_of),
                4 => tile::<T, 4>(task, at, left, here, ahead, line_of),
                5 => tile::<T, 5>(task, at, left, here, ahead, line_of),
                TILE_ROWS => tile::<T, TILE_ROWS>(task, at, left, here, ahead, line_of),
                _ => unreachable!("no tile is empty or has more than six rows"),
            }
        }
    }
}

/// Row and panel of a tile's first sum in the product.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    panel: usize,
}

/// Every sum starts from its bias and adds its products in order of depth, whatever `M` is. Meanwhile the lines `ahead`
/// are prefetched: a model's weights are larger than the second-level cache, and without the prefetch the first tile of
/// each panel waits for memory.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn tile<T, const M: usize>(
    task: &Task<'_>,
    at: Place,
    left: &[f32],
    here: &[[T; COLUMNS]],
    ahead: &[u8],
    line_of: impl Fn(&[T; COLUMNS]) -> [__m256; HALVES],
) {
    let (left, _) = left.as_chunks::<M>();
    let mut sums: Sums<M> = [load_line(task.layer.bias(at.panel)); M];
    for (k, (line, xs)) in here.iter().zip(left).enumerate() {
        if let Some(ahead) = ahead.get(k * size_of::<[T; COLUMNS]>()) {
            _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(ahead).cast());
        }
        add_products(&mut sums, xs, line_of(line));
    }
    for (m, halves) in sums.iter_mut().enumerate() {
        finish(task, Place { row: at.row + m, ..at }, *halves);
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn add_products<const M: usize>(sums: &mut Sums<M>, xs: &[f32; M], line: [__m256; HALVES]) {
    for (sums, x) in sums.iter_mut().zip(xs) {
        let x = _mm256_broadcast_ss(x);
        for (sum, half) in sums.iter_mut().zip(line) {
            *sum = _mm256_fmadd_ps(x, half, *sum);
        }
    }
}

/// Applies the activation to a row's values and stores the columns that exist.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn finish(task: &Task<'_>, at: Place, mut values: [__m256; HALVES]) {
    if task.then == Then::Gelu {
        for half in &mut values {
            *half = gelu_lanes(*half);
        }
    }
    // SAFETY: the panel is this task's, and no other piece of the panel is in use.
    let to = unsafe { task.place(at.row, at.panel) };
    store_columns(to, values);
}

/// Stores as many columns as `to` has.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn store_columns(to: &mut [f32], values: [__m256; HALVES]) {
    if let Some(to) = to.as_mut_array::<COLUMNS>() {
        store_line(to, values);
    } else {
        let mut whole = [0.0; COLUMNS];
        store_line(&mut whole, values);
        to.copy_from_slice(&whole[..to.len()]);
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn store_line(to: &mut [f32; COLUMNS], halves: [__m256; HALVES]) {
    let (to, _) = to.as_chunks_mut::<LANES>();
    for (to, half) in to.iter_mut().zip(halves) {
        store(to, half);
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn load_line(line: &[f32; COLUMNS]) -> [__m256; HALVES] {
    let (halves, _) = line.as_chunks::<LANES>();
    [load(&halves[0]), load(&halves[1])]
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn widen_line(line: &[f16; COLUMNS]) -> [__m256; HALVES] {
    let (halves, _) = line.as_chunks::<LANES>();
    [widen(&halves[0]), widen(&halves[1])]
}

/// Four codes of a row, in the layout of a product with a quad of depth.
type Quad = [i16; QUAD];

/// Stores the left codes quad after quad, one quad per row of the tile, converted to 16 bits.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn prepare_codes(
    rows: Rows<'_>,
    lines: &mut [CacheLine],
    scales: &mut [f32],
    own: &mut [CacheLine],
) {
    let out: &mut [Quad] = bytemuck::cast_slice_mut(lines);
    quantized(rows, scales, own, turned_codes, |m, codes| {
        let (quads, _) = codes.as_chunks::<QUAD>();
        lay_across(out, m, rows.count(), quads.iter().map(|quad| quad.map(i16::from)));
    });
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn multiply_codes(task: &Task<'_>, _own: &mut [CacheLine]) {
    let Cells::Int8(codes) = task.layer.cells() else { unreachable!("chosen by precision") };
    for panel in task.panels.clone() {
        for t in task.tiles.clone() {
            let (rows, left) = task.tile(t);
            let (at, left) = (Place { row: rows.start, panel }, bytemuck::cast_slice(left));
            match rows.len() {
                1 => code_tile::<1>(task, at, left, codes),
                2 => code_tile::<2>(task, at, left, codes),
                CODE_TILE_ROWS => code_tile::<CODE_TILE_ROWS>(task, at, left, codes),
                _ => unreachable!("no tile is empty or has more than three rows"),
            }
        }
    }
}

/// `madd` adds two products in 32 bits, so a column has two adjacent sums.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn code_tile<const M: usize>(task: &Task<'_>, at: Place, left: &[Quad], codes: Codes<'_>) {
    let (left, _) = left.as_chunks::<M>();
    let mut sums = [[_mm256_setzero_si256(); QUARTERS]; M];
    for (line, xs) in quad_lines(codes.codes, at.panel, task.layer.depth()).iter().zip(left) {
        let (quarters, _) = line.as_chunks::<SHORTS>();
        let xs: [__m256i; M] =
            std::array::from_fn(|m| _mm256_set1_epi64x(i64::from_le_bytes(bytemuck::cast(xs[m]))));
        for (q, quarter) in quarters.iter().enumerate() {
            // SAFETY: `quarter` is 16 readable bytes, and this load accepts any alignment.
            let weights = unsafe { _mm_loadu_si128(quarter.as_ptr().cast()) };
            let weights = _mm256_cvtepi8_epi16(weights);
            for m in 0..M {
                let products = _mm256_madd_epi16(weights, xs[m]);
                sums[m][q] = _mm256_add_epi32(sums[m][q], products);
            }
        }
    }
    let scales = &codes.scales.as_chunks::<COLUMNS>().0[at.panel];
    for (m, sums) in sums.into_iter().enumerate() {
        let at = Place { row: at.row + m, ..at };
        finish(task, at, worth(task, at, sums, scales));
    }
}

/// Dequantizes a row's sums of codes and adds the bias. The operations are those of the scalar level, so the results
/// are equal bit for bit.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn worth(
    task: &Task<'_>,
    at: Place,
    sums: [__m256i; QUARTERS],
    scales: &[f32; COLUMNS],
) -> [__m256; HALVES] {
    let (scales, bias) = (load_line(scales), load_line(task.layer.bias(at.panel)));
    let row = _mm256_set1_ps(task.scale(at.row));
    std::array::from_fn(|half| {
        // Adds adjacent lanes; the four sums that belong together come out in the two halves.
        let sum = _mm256_hadd_epi32(sums[2 * half], sums[2 * half + 1]);
        let sum = _mm256_permute4x64_epi64::<0b11_01_10_00>(sum);
        let scale = _mm256_mul_ps(row, scales[half]);
        let worth = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sum));
        _mm256_add_ps(bias[half], worth)
    })
}

/// Multiplies two matrices of activations: small and used once, so the rows are not packed.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn matmul(left: Rows<'_>, right: &Panels, mut out: RowsMut<'_>) {
    let tiles = Tiles::of(left.count(), TILE_ROWS);
    for panel in 0..right.count() {
        for t in 0..tiles.count() {
            let rows = tiles.rows(t);
            match rows.len() {
                1 => small_tile::<1>(left, right, rows.start, panel, &mut out),
                2 => small_tile::<2>(left, right, rows.start, panel, &mut out),
                3 => small_tile::<3>(left, right, rows.start, panel, &mut out),
                4 => small_tile::<4>(left, right, rows.start, panel, &mut out),
                5 => small_tile::<5>(left, right, rows.start, panel, &mut out),
                TILE_ROWS => small_tile::<TILE_ROWS>(left, right, rows.start, panel, &mut out),
                _ => unreachable!("no tile is empty or has more than six rows"),
            }
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
fn small_tile<const M: usize>(
    left: Rows<'_>,
    right: &Panels,
    row: usize,
    panel: usize,
    out: &mut RowsMut<'_>,
) {
    let lines = right.lines(panel);
    let rows: [&[f32]; M] = std::array::from_fn(|m| &left.row(row + m)[..lines.len()]);
    let mut sums: Sums<M> = [[_mm256_setzero_ps(); HALVES]; M];
    for (k, line) in lines.iter().enumerate() {
        // SAFETY: `k` is less than `lines.len()`, the length every row was cut to above. Checked
        // access costs six branches and two spilled pointers in this loop.
        let xs = std::array::from_fn(|m| unsafe { *rows[m].get_unchecked(k) });
        add_products(&mut sums, &xs, load_line(&line.0));
    }
    let (first, columns) = right.columns(panel);
    for (m, halves) in sums.into_iter().enumerate() {
        store_columns(&mut out.row(row + m)[first..][..columns], halves);
    }
}
