//! Products of tiles of rows with panels.

use std::arch::x86_64::*;
use std::ops::Range;

use half::f16;

use super::codes::prepare_quads;
use super::rows::gelu_lanes;
use super::{LANES, load, load_some, store, store_some};
use crate::Then;
use crate::linear::{COLUMNS, Cells, Codes, QUAD_LINE, lines, quad_lines};
use crate::panels::Panels;
use crate::product::{Product, Task, Tiles, turned};
use crate::rows::{Rows, RowsMut};
use crate::workspace::CacheLine;

/// See `Precision::F32`.
pub(in crate::x86_64) const FLOATS: Product = Product {
    tile_rows: TILE_ROWS,
    lone_tile_rows: LONE_TILE_ROWS,
    cell_bytes: 4,
    prepare: prepare_floats,
    multiply: multiply_f32,
};
/// See `Precision::F16`.
pub(in crate::x86_64) const HALVES: Product = Product { multiply: multiply_f16, ..FLOATS };
/// See `Precision::Int8`.
pub(in crate::x86_64) const CODES: Product = Product {
    tile_rows: TILE_ROWS,
    lone_tile_rows: LONE_TILE_ROWS,
    cell_bytes: 1,
    prepare: prepare_quads,
    multiply: multiply_codes,
};

/// Rows per tile. A tile takes two panels at once: twenty-four sums, two lines and a broadcast of
/// the thirty-two registers. Fourteen rows would fit as well, and were no faster.
const TILE_ROWS: usize = 12;
/// A query has about sixteen tokens, which should pass in one tile, since its time is that of
/// reading the weights. Such a tile takes one panel.
const LONE_TILE_ROWS: usize = 16;
/// Rows of a tile of activations; they are taken where they lie, so each needs a pointer.
const SMALL_TILE_ROWS: usize = 8;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn prepare_floats(
    rows: Rows<'_>,
    lines: &mut [CacheLine],
    _scales: &mut [f32],
    _own: &mut [CacheLine],
) {
    turned(rows, bytemuck::cast_slice_mut(lines));
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn multiply_f32(task: &Task<'_>, _own: &mut [CacheLine]) {
    let Cells::F32(cells) = task.layer.cells() else { unreachable!("chosen by precision") };
    multiply_floats(task, cells, |line| load(line));
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn multiply_f16(task: &Task<'_>, _own: &mut [CacheLine]) {
    let Cells::F16(cells) = task.layer.cells() else { unreachable!("chosen by precision") };
    multiply_floats(task, cells, |line| widen(line));
}

/// Every sum starts from its bias and takes its products in order of depth.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn multiply_floats<T>(
    task: &Task<'_>,
    cells: &[T],
    widened: impl Fn(&[T; COLUMNS]) -> __m512 + Copy,
) {
    let depth = task.layer.depth();
    let way = Way {
        lines: |panel| lines(cells, panel, depth),
        start: |panel| _mm512_castps_si512(load(task.layer.bias(panel))),
        load: |line: &[T; COLUMNS]| _mm512_castps_si512(widened(line)),
        add: |sum, x, weights| {
            let (sum, x) = (_mm512_castsi512_ps(sum), _mm512_castsi512_ps(x));
            _mm512_castps_si512(_mm512_fmadd_ps(x, _mm512_castsi512_ps(weights), sum))
        },
        worth: |_, _, sum| _mm512_castsi512_ps(sum),
    };
    multiply(task, way);
}

/// The left codes are 128 too large, so each sum starts from what that makes too much.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn multiply_codes(task: &Task<'_>, _own: &mut [CacheLine]) {
    let Cells::Int8(codes) = task.layer.cells() else { unreachable!("chosen by precision") };
    let Codes { codes, scales, offsets } = codes;
    let depth = task.layer.depth();
    let of_panel = |panel: usize| panel * COLUMNS..(panel + 1) * COLUMNS;
    let way = Way {
        lines: |panel| quad_lines(codes, panel, depth),
        start: |panel| {
            let offsets: &[f32] = bytemuck::cast_slice(&offsets[of_panel(panel)]);
            _mm512_castps_si512(load_some(offsets, _mm512_setzero_ps()))
        },
        load: |line: &[i8; QUAD_LINE]| load_codes(line),
        add: |sum, x, weights| _mm512_dpbusd_epi32(sum, x, weights),
        worth: |row: usize, panel: usize, sum| worth(task, scales, row, panel, sum),
    };
    multiply(task, way);
}

/// What a row's sums of codes are worth, with the bias; the operations are those of the scalar
/// level, so the bits are too. `scales` are the layer's.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
pub(in crate::x86_64) fn worth(
    task: &Task<'_>,
    scales: &[f32],
    row: usize,
    panel: usize,
    sums: __m512i,
) -> __m512 {
    let scales = load(&scales.as_chunks::<COLUMNS>().0[panel]);
    let scale = _mm512_mul_ps(_mm512_set1_ps(task.scale(row)), scales);
    let worth = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(sums));
    _mm512_add_ps(load(task.layer.bias(panel)), worth)
}

/// How a kind of cells is multiplied. A register holds sixteen 32-bit lanes of whatever kind.
#[derive(Clone, Copy)]
struct Way<Lines, Start, Load, Add, Worth> {
    /// The lines of a panel.
    lines: Lines,
    /// What a panel's sums start from.
    start: Start,
    /// A line, ready to be multiplied.
    load: Load,
    /// A sum, with the products of a left cell (or quad, in all lanes) and a line.
    add: Add,
    /// The values that a row's sums stand for.
    worth: Worth,
}

/// Calls `tile` for a height that is known only now.
macro_rules! tile_of_height {
    ([$($height:literal)+], $panels:literal, $rows:expr, $task:expr, $way:expr, $at:expr) => {
        match $rows {
            $($height => tile::<_, $height, $panels>($task, $way, $at),)+
            _ => unreachable!("tiles are never empty, and never higher than asked for"),
        }
    };
}

/// Panels are the outer loop, so their lines stay in the near caches while every row passes by.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn multiply<'a, L: 'a>(
    task: &Task<'_>,
    way: Way<
        impl Fn(usize) -> &'a [L] + Copy,
        impl Fn(usize) -> __m512i + Copy,
        impl Fn(&L) -> __m512i + Copy,
        impl Fn(__m512i, __m512i, __m512i) -> __m512i + Copy,
        impl Fn(usize, usize, __m512i) -> __m512 + Copy,
    >,
) {
    let heights = task.tiles.clone().map(|t| task.tile(t).0.len());
    let highest = heights.max().unwrap_or(0);
    let mut panel = task.panels.start;
    while panel < task.panels.end {
        let left = task.panels.end - panel;
        let panels = if left < 2 || highest > TILE_ROWS { 1 } else { 2 };
        for tile in task.tiles.clone() {
            let rows = task.tile(tile).0.len();
            let at = Place { tile, panel };
            if panels == 1 {
                tile_of_height!([1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16], 1, rows, task, way, at);
            } else {
                tile_of_height!([1 2 3 4 5 6 7 8 9 10 11 12], 2, rows, task, way, at);
            }
        }
        panel += panels;
    }
}

/// Which tile of the left side, and which panel first.
#[derive(Clone, Copy)]
struct Place {
    tile: usize,
    panel: usize,
}

/// A tile, `M` rows by `P` panels. Meanwhile a share of the next panels' lines is asked for: a
/// model's weights are larger than the near caches, and without this the first tile of each panel
/// waits for memory.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn tile<'a, L: 'a, const M: usize, const P: usize>(
    task: &Task<'_>,
    way: Way<
        impl Fn(usize) -> &'a [L],
        impl Fn(usize) -> __m512i,
        impl Fn(&L) -> __m512i,
        impl Fn(__m512i, __m512i, __m512i) -> __m512i,
        impl Fn(usize, usize, __m512i) -> __m512,
    >,
    at: Place,
) {
    let (rows, left) = task.tile(at.tile);
    let (left, _) = bytemuck::cast_slice::<_, i32>(left).as_chunks::<M>();
    // Loops and no iterators: a closure of this level is not inlined into code of none.
    let (mut here, mut ahead): ([&[L]; P], [&[u8]; P]) = ([&[]; P], [&[]; P]);
    let mut start = [_mm512_setzero_si512(); P];
    for p in 0..P {
        here[p] = (way.lines)(at.panel + p);
        ahead[p] = task.ahead(at.panel + P + p, at.tile);
        start[p] = (way.start)(at.panel + p);
    }
    let mut sums = [start; M];
    add_products::<L, M, P>(&mut sums, left, here, ahead, way.load, way.add);
    for (p, panel) in (at.panel..at.panel + P).enumerate() {
        finish(task, panel, rows.clone(), |row| (way.worth)(row, panel, sums[row - rows.start][p]));
    }
}

/// The inner loop, on its own so that its sums stay in registers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline(never)]
fn add_products<L, const M: usize, const P: usize>(
    sums: &mut [[__m512i; P]; M],
    left: &[[i32; M]],
    here: [&[L]; P],
    ahead: [&[u8]; P],
    load: impl Fn(&L) -> __m512i,
    add: impl Fn(__m512i, __m512i, __m512i) -> __m512i,
) {
    let steps = here[0].len();
    assert!(here.iter().all(|lines| lines.len() == steps) && left.len() >= steps, "one depth");
    let mut now = *sums;
    for k in 0..steps {
        for lines in ahead {
            if let Some(line) = lines.get(k * size_of::<L>()) {
                _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(line).cast());
            }
        }
        let mut lines = [_mm512_setzero_si512(); P];
        for p in 0..P {
            // SAFETY: `k` is less than `steps`, the length of all of them, as was just checked.
            lines[p] = load(unsafe { here[p].get_unchecked(k) });
        }
        // SAFETY: as above.
        let xs = unsafe { left.get_unchecked(k) };
        for m in 0..M {
            let x = _mm512_set1_epi32(xs[m]);
            for p in 0..P {
                now[m][p] = add(now[m][p], x, lines[p]);
            }
        }
    }
    *sums = now;
}

/// Does what is to be done with the values of a panel's columns in some rows, and writes them.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
pub(in crate::x86_64) fn finish(
    task: &Task<'_>,
    panel: usize,
    rows: Range<usize>,
    value: impl Fn(usize) -> __m512,
) {
    // SAFETY: the panel is this task's, and no other strip of it is in use.
    let strip = unsafe { task.strip(panel) };
    if task.then == Then::Gelu {
        for row in rows {
            let value = gelu_lanes(value(row));
            // SAFETY: each row is borrowed once, until it is written.
            store_columns(unsafe { strip.row(row) }, value);
        }
    } else {
        for row in rows {
            let value = value(row);
            // SAFETY: as above.
            store_columns(unsafe { strip.row(row) }, value);
        }
    }
}

/// Writes as many columns as `to` has.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn store_columns(to: &mut [f32], values: __m512) {
    if let Some(to) = to.as_mut_array::<LANES>() {
        store(to, values);
    } else {
        store_some(to, values);
    }
}

/// A line of halves as floats. The array reference is the proof that the load stays inside.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
pub(in crate::x86_64) fn widen(line: &[f16; LANES]) -> __m512 {
    // SAFETY: `line` is 32 readable bytes, and this load accepts any alignment.
    let packed = unsafe { _mm256_loadu_si256(line.as_ptr().cast()) };
    _mm512_cvtph_ps(packed)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn load_codes(line: &[i8; QUAD_LINE]) -> __m512i {
    // SAFETY: `line` is 64 readable bytes, and this load accepts any alignment.
    unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }
}

/// Calls `small_tile` for a height that is known only now.
macro_rules! small_tile_of_height {
    ([$($height:literal)+], $rows:expr, $left:expr, $right:expr, $at:expr, $out:expr) => {
        match $rows {
            $($height => small_tile::<$height>($left, $right, $at, $out),)+
            _ => unreachable!("tiles are never empty, and never higher than asked for"),
        }
    };
}

/// The product of two matrices of activations: small, and used once. Rows are taken where they lie.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(in crate::x86_64) fn matmul(left: Rows<'_>, right: &Panels, mut out: RowsMut<'_>) {
    let tiles = Tiles::of(left.count(), SMALL_TILE_ROWS);
    for panel in (0..right.count()).step_by(2) {
        for t in 0..tiles.count() {
            let rows = tiles.rows(t);
            let at = Place { tile: rows.start, panel };
            small_tile_of_height!([1 2 3 4 5 6 7 8], rows.len(), left, right, at, &mut out);
        }
    }
}

/// `M` rows from `at.tile` on, and two panels; where there is but one, it is taken twice.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn small_tile<const M: usize>(left: Rows<'_>, right: &Panels, at: Place, out: &mut RowsMut<'_>) {
    let second = (at.panel + 1).min(right.count() - 1);
    let (lines, beside) = (right.lines(at.panel), right.lines(second));
    let mut rows: [&[f32]; M] = [&[]; M];
    for (m, row) in rows.iter_mut().enumerate() {
        *row = &left.row(at.tile + m)[..lines.len()];
    }
    let mut sums = [[_mm512_setzero_ps(); 2]; M];
    for (k, (line, beside)) in lines.iter().zip(beside).enumerate() {
        let lines = [load(&line.0), load(&beside.0)];
        for m in 0..M {
            // SAFETY: `k` is less than `lines.len()`, the length every row was cut to above.
            // Checked access costs branches and spilled pointers in this loop.
            let x = _mm512_set1_ps(unsafe { *rows[m].get_unchecked(k) });
            for p in 0..2 {
                sums[m][p] = _mm512_fmadd_ps(x, lines[p], sums[m][p]);
            }
        }
    }
    for (m, sums) in sums.into_iter().enumerate() {
        for (panel, sum) in [at.panel, second].into_iter().zip(sums) {
            let (first, columns) = right.columns(panel);
            store_columns(&mut out.row(at.tile + m)[first..][..columns], sum);
        }
    }
}
