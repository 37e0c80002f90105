//! Products of tiles of rows with panels.

use std::arch::x86_64::*;
use std::ops::Range;

use half::f16;

use super::across::prepare_floats;
use super::codes::prepare_quads;
use super::lanes::{LANES, load, load_some, store, store_some};
use super::rows::gelu_lanes;
use crate::Then;
use crate::linear::{COLUMNS, Cells, Codes, QUAD_LINE, lines, quad_lines};
use crate::panels::Panels;
use crate::product::{LINE_BYTES, Product, Task, Tiles};
use crate::rows::{Rows, RowsMut};
use crate::workspace::{CacheLine, PANELS_WIDENED};

/// See `Precision::F32`.
pub(in crate::x86_64) const FLOATS: Product = Product {
    tile_rows: TILE_ROWS,
    panels_together: PANELS,
    cell_bytes: 4,
    prepare: prepare_floats,
    multiply: multiply_f32,
};
/// See `Precision::F16`.
pub(in crate::x86_64) const HALVES: Product = Product { multiply: multiply_f16, ..FLOATS };
/// See `Precision::Int8`.
pub(in crate::x86_64) const CODES: Product = Product {
    tile_rows: TILE_ROWS,
    panels_together: PANELS,
    cell_bytes: 1,
    prepare: prepare_quads,
    multiply: multiply_codes,
};

/// Rows per tile, and panels that it takes at once. Of the thirty-two registers twenty-four are
/// sums, three are lines and one is a broadcast: eleven loads for twenty-four multiplications. A
/// query of sixteen tokens is two such tiles; sixteen rows by one panel would take seventeen loads
/// for sixteen, and run at three quarters of this rate.
const TILE_ROWS: usize = 8;
/// See [`TILE_ROWS`].
const PANELS: usize = 3;
const _: () = assert!(PANELS <= PANELS_WIDENED, "a thread has room for a tile's panels");
/// Steps of depth between looks at whether the loop is over and a line ahead is due.
const STEPS_TOGETHER: usize = 4;
/// Tiles from which on halves are widened once for all of them, and not by each for itself.
const WIDENED_TILES_MIN: usize = 12;
/// Rows of a tile of activations; they are taken where they lie, so each needs a pointer.
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

/// The task's panels, as many at once as a tile takes.
fn groups(task: &Task<'_>) -> impl Iterator<Item = Range<usize>> {
    let Range { start, end } = task.panels;
    (start..end).step_by(PANELS).map(move |first| first..end.min(first + PANELS))
}

/// Every sum starts from its bias and takes its products in order of depth.
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
    for panels in groups(task) {
        multiply(task, panels, way);
    }
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

/// All of the task's rows with a group of panels, whose lines stay in the near caches while every
/// row passes by.
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
        impl Fn(&L) -> __m512i + Copy,
        impl Fn(__m512i, __m512i, __m512i) -> __m512i + Copy,
        impl Fn(usize, usize, __m512i) -> __m512,
    >,
    at: Place,
) {
    let (rows, left) = task.tile(at.tile);
    let (left, _) = bytemuck::cast_slice::<_, i32>(left).as_chunks::<M>();
    // Loops and no iterators: a closure of this level is not inlined into code of none.
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

/// The inner loop, on its own so that its sums stay in registers. The lines ahead are asked for
/// evenly, since many at once hold up those that are needed now.
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

/// The products of one step of depth.
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
            store_some(&mut out.row(at.tile + m)[first..][..columns], sum);
        }
    }
}
