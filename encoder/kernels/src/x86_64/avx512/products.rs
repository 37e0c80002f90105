//! GEMM tiles of rows with panels, and products of activations.

use std::arch::x86_64::*;
use std::ops::Range;

use half::f16;

use super::across::prepare_floats;
use super::codes::prepare_quads;
use super::lanes::{LANES, load, load_some, store, store_some};
use super::rows::gelu_lanes;
use crate::linear::{COLUMNS, Cells, Codes, QUAD_LINE, lines, quad_lines};
use crate::panels::Panels;
use crate::product::{LINE_BYTES, Product, Task, Then, Tiles};
use crate::rows::{Rows, RowsMut};
use crate::workspace::{CacheLine, PANELS_WIDENED};

/// Product at `Precision::F32`.
pub(in crate::x86_64) const FLOATS: Product = Product {
    tile_rows: TILE_ROWS,
    panels_together: PANELS,
    cell_bytes: 4,
    prepare: prepare_floats,
    multiply: multiply_f32,
};
/// Product at `Precision::F16`.
pub(in crate::x86_64) const HALVES: Product = Product { multiply: multiply_f16, ..FLOATS };
/// Product at `Precision::Int8`.
pub(in crate::x86_64) const CODES: Product = Product {
    tile_rows: TILE_ROWS,
    panels_together: PANELS,
    cell_bytes: 1,
    prepare: prepare_quads,
    multiply: multiply_codes,
};

/// Rows per tile, and panels per tile. Twenty-four of the thirty-two registers are sums, three are lines and one is a
/// broadcast: eleven loads for twenty-four multiplications. A query of sixteen tokens is two such tiles; sixteen rows
/// by one panel would take seventeen loads for sixteen multiplications, and run at three quarters of this rate.
const TILE_ROWS: usize = 8;
/// Panels per tile; see [`TILE_ROWS`].
const PANELS: usize = 3;
const _: () = assert!(PANELS <= PANELS_WIDENED, "a thread has room for a tile's panels");
/// Steps of depth between two checks of the loop condition and of the prefetch.
const STEPS_TOGETHER: usize = 4;
/// Tiles from which on f16 weights are converted once for all tiles, and not once per tile.
const WIDENED_TILES_MIN: usize = 12;
/// Rows of a tile of activations; the rows are not packed, so each needs a pointer.
const SMALL_TILE_ROWS: usize = 8;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn multiply_f32(task: &Task<'_>, _own: &mut [CacheLine]) {
    let Cells::F32(cells) = task.layer.cells() else { unreachable!("chosen by precision") };
    let depth = task.layer.depth();
    for panels in groups(task) {
        multiply_floats(task, panels, |panel| lines(cells, panel, depth), |line| load(line));
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn multiply_f16(task: &Task<'_>, own: &mut [CacheLine]) {
    let Cells::F16(cells) = task.layer.cells() else { unreachable!("chosen by precision") };
    let depth = task.layer.depth();
    let halves = |panel| lines(cells, panel, depth);
    for panels in groups(task) {
        if task.tiles.len() < WIDENED_TILES_MIN {
            multiply_floats(task, panels, halves, |line| widen(line));
            continue;
        }
        let (floats, _) = bytemuck::cast_slice_mut(own).as_chunks_mut::<COLUMNS>();
        for (panel, floats) in panels.clone().zip(floats.chunks_exact_mut(depth)) {
            for (line, floats) in halves(panel).iter().zip(floats) {
                store(floats, widen(line));
            }
        }
        let floats = &*floats;
        let first = panels.start;
        let of_panel = |panel: usize| &floats[(panel - first) * depth..][..depth];
        multiply_floats(task, panels, of_panel, |line| load(line));
    }
}

/// The task's panels in groups of at most [`PANELS`].
fn groups(task: &Task<'_>) -> impl Iterator<Item = Range<usize>> {
    let Range { start, end } = task.panels;
    (start..end).step_by(PANELS).map(move |first| first..end.min(first + PANELS))
}

/// Every sum starts from its bias and adds its products in order of depth.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn multiply_floats<'a, T: 'a>(
    task: &Task<'_>,
    panels: Range<usize>,
    lines: impl Fn(usize) -> &'a [[T; COLUMNS]] + Copy,
    widened: impl Fn(&[T; COLUMNS]) -> __m512 + Copy,
) {
    let way = Way {
        lines,
        start: |panel| _mm512_castps_si512(load(task.layer.bias(panel))),
        load: |line: &[T; COLUMNS]| _mm512_castps_si512(widened(line)),
        add: |sum, x, weights| {
            let (sum, x) = (_mm512_castsi512_ps(sum), _mm512_castsi512_ps(x));
            _mm512_castps_si512(_mm512_fmadd_ps(x, _mm512_castsi512_ps(weights), sum))
        },
        worth: |_, _, sum| _mm512_castsi512_ps(sum),
    };
    multiply(task, panels, way);
}

/// The left codes are shifted up by 128, so each sum starts from the offset that cancels the shift.
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
    for panels in groups(task) {
        multiply(task, panels, way);
    }
}

/// Dequantizes a row's sums of codes and adds the bias. The operations are those of the scalar level, so the results
/// are equal bit for bit. `scales` are the layer's.
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

/// Functions that define the product of one cell type. A register has sixteen 32-bit lanes of either type.
#[derive(Clone, Copy)]
struct Way<Lines, Start, Load, Add, Worth> {
    /// Returns the lines of a panel.
    lines: Lines,
    /// Returns the initial sums of a panel.
    start: Start,
    /// Loads a line and converts it for the multiplication.
    load: Load,
    /// Adds the products of a left cell (or quad, in all lanes) and a line to a sum.
    add: Add,
    /// Converts a row's sums to values.
    worth: Worth,
}

/// Calls `tile` with a height known at run time.
macro_rules! tile_of_height {
    ($panels:literal, $rows:expr, $task:expr, $way:expr, $at:expr) => {
        match $rows {
            1 => tile::<_, 1, $panels>($task, $way, $at),
            2 => tile::<_, 2, $panels>($task, $way, $at),
            3 => tile::<_, 3, $panels>($task, $way, $at),
            4 => tile::<_, 4, $panels>($task, $way, $at),
            5 => tile::<_, 5, $panels>($task, $way, $at),
            6 => tile::<_, 6, $panels>($task, $way, $at),
            7 => tile::<_, 7, $panels>($task, $way, $at),
            TILE_ROWS => tile::<_, TILE_ROWS, $panels>($task, $way, $at),
            _ => unreachable!("no tile is empty or has more than eight rows"),
        }
    };
}

/// Multiplies all of the task's rows with a group of panels, whose lines stay in the near caches for all rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn multiply<'a, L: 'a>(
    task: &Task<'_>,
    panels: Range<usize>,
    way: Way<
        impl Fn(usize) -> &'a [L] + Copy,
        impl Fn(usize) -> __m512i + Copy,
        impl Fn(&L) -> __m512i + Copy,
        impl Fn(__m512i, __m512i, __m512i) -> __m512i + Copy,
        impl Fn(usize, usize, __m512i) -> __m512 + Copy,
    >,
) {
    for tile in task.tiles.clone() {
        let rows = task.tile(tile).0.len();
        let at = Place { tile, panel: panels.start };
        match panels.len() {
            1 => tile_of_height!(1, rows, task, way, at),
            2 => tile_of_height!(2, rows, task, way, at),
            PANELS => tile_of_height!(3, rows, task, way, at),
            _ => unreachable!("a group is one panel, two or three"),
        }
    }
}

/// Tile of the left side, and first panel.
#[derive(Clone, Copy)]
struct Place {
    tile: usize,
    panel: usize,
}

/// A tile of `M` rows by `P` panels. Meanwhile a share of the next panels' lines is prefetched: a model's weights are
/// larger than the near caches, and without the prefetch the first tile of each panel waits for memory.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
fn tile<'a, L: 'a, const M: usize, const P: usize>(
    task: &Task<'_>,
    way: Way<
        impl Fn(usize) -> &'a [L],
        impl Fn(usize) -> __m512i,
        impl Fn(&L) -> __m512i + Copy,
        impl Fn(__m512i, __m512i, __m512i) -> __m512i + Copy,
        impl Fn(usize, usize, __m512i) -> __m512,
    >,
    at: Place,
) {
    let (rows, left) = task.tile(at.tile);
    let (left, _) = bytemuck::cast_slice::<_, i32>(left).as_chunks::<M>();
    // Loops and not iterators: a closure with this level's features is not inlined into code without them.
    let (mut here, mut start): ([&[L]; P], _) = ([&[]; P], [_mm512_setzero_si512(); P]);
    for p in 0..P {
        here[p] = (way.lines)(at.panel + p);
        start[p] = (way.start)(at.panel + p);
    }
    let next = at.panel + P;
    let ahead = task.ahead(next..next + P, at.tile);
    let mut sums = [start; M];
    add_products::<L, M, P>(&mut sums, left, here, ahead, way.load, way.add);
    for (p, panel) in (at.panel..at.panel + P).enumerate() {
        finish(task, panel, rows.clone(), |row| (way.worth)(row, panel, sums[row - rows.start][p]));
    }
}

/// The inner loop, a function of its own so that its sums stay in registers. The prefetches are spread evenly, since
/// many at once delay the loads that are needed now.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline(never)]
fn add_products<L, const M: usize, const P: usize>(
    sums: &mut [[__m512i; P]; M],
    left: &[[i32; M]],
    here: [&[L]; P],
    ahead: &[u8],
    load: impl Fn(&L) -> __m512i + Copy,
    add: impl Fn(__m512i, __m512i, __m512i) -> __m512i + Copy,
) {
    let steps = here[0].len();
    assert!(here.iter().all(|lines| lines.len() == steps) && left.len() >= steps, "one depth");
    let mut now = *sums;
    let (turns, lines) = (steps / STEPS_TOGETHER, ahead.len().div_ceil(LINE_BYTES));
    let (mut due, mut asked) = (0, 0);
    for turn in 0..turns {
        due += lines;
        while due >= turns {
            if let Some(line) = ahead.get(asked) {
                _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(line).cast());
            }
            (due, asked) = (due - turns, asked + LINE_BYTES);
        }
        for k in turn * STEPS_TOGETHER..(turn + 1) * STEPS_TOGETHER {
            // SAFETY: `k` is less than `steps`, which was checked above.
            unsafe { add_step(&mut now, left, here, k, load, add) };
        }
    }
    for k in turns * STEPS_TOGETHER..steps {
        // SAFETY: as above.
        unsafe { add_step(&mut now, left, here, k, load, add) };
    }
    *sums = now;
}

/// Adds the products of one step of depth.
///
/// # Safety
/// `k` is less than the length of `left` and of all of `here`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
unsafe fn add_step<L, const M: usize, const P: usize>(
    sums: &mut [[__m512i; P]; M],
    left: &[[i32; M]],
    here: [&[L]; P],
    k: usize,
    load: impl Fn(&L) -> __m512i,
    add: impl Fn(__m512i, __m512i, __m512i) -> __m512i,
) {
    let mut lines = [_mm512_setzero_si512(); P];
    for p in 0..P {
        // SAFETY: the caller's promise.
        lines[p] = load(unsafe { here[p].get_unchecked(k) });
    }
    // SAFETY: as above.
    let xs = unsafe { left.get_unchecked(k) };
    for m in 0..M {
        let x = _mm512_set1_epi32(xs[m]);
        for p in 0..P {
            sums[m][p] = add(sums[m][p], x, lines[p]);
        }
    }
}

/// Applies the activation to the values of a panel's columns in some rows, and stores them.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline]
pub(in crate::x86_64) fn finish(
    task: &Task<'_>,
    panel: usize,
    rows: Range<usize>,
    value: impl Fn(usize) -> __m512,
) {
    // SAFETY: the panel is this task's, and no other strip of the panel is in use.
    let strip = unsafe { task.strip(panel) };
    if task.then == Then::Gelu {
        for row in rows {
            let value = gelu_lanes(value(row));
            // SAFETY: each row is borrowed once, until it is written.
            store_some(unsafe { strip.row(row) }, value);
        }
    } else {
        for row in rows {
            let value = value(row);
            // SAFETY: as above.
            store_some(unsafe { strip.row(row) }, value);
        }
    }
}

/// Converts a line of f16 values to f32. The array reference proves that the load stays inside.
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

/// Calls `small_tile` with a height known at run time.
macro_rules! small_tile_of_height {
    ([$($height:literal)+], $rows:expr, $left:expr, $right:expr, $at:expr, $out:expr) => {
        match $rows {
            $($height => small_tile::<$height>($left, $right, $at, $out),)+
            _ => unreachable!("tiles are never empty, and never higher than asked for"),
        }
    };
}

/// Multiplies two matrices of activations: small and used once, so the rows are not packed.
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

/// A tile of `M` rows from `at.tile` on and two panels; a single last panel is used twice.
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
            store_some(&mut out.row(at.tile + m)[first..][..columns], sum);
        }
    }
}
