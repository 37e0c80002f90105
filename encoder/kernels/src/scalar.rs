//! The reference level: plain loops that define each kernel.
//!
//! Every other level must agree with these within the bounds that the suite in `check/` states. There are no intrinsics
//! here, and the only unsafe operation is to borrow the place of a sum.

use half::f16;

use crate::linear::{COLUMNS, Cells, Codes, QUAD, lines, padded_depth, quad_lines, turned_codes};
use crate::lookups::{LOOKUP_BYTES, LOOKUP_ROWS, LookupTables};
use crate::panels::Panels;
use crate::product::{Product, Task, Then, quantized};
use crate::questions::{Bars, CodeQueries, RowFacts};
use crate::rows::{Rows, RowsMut};
use crate::table::Table;
use crate::workspace::CacheLine;

/// Rows that are prepared together; no result depends on the number.
const TILE_ROWS: usize = 16;

pub(crate) static TABLE: Table = Table {
    dot,
    dot_rows,
    arrange: |_, _| Vec::new(),
    dot_codes,
    reaching,
    sum_lookups,
    products: [
        Product {
            tile_rows: TILE_ROWS,
            panels_together: 2,
            cell_bytes: 4,
            prepare: prepare_floats,
            multiply: multiply_f32,
        },
        Product {
            tile_rows: TILE_ROWS,
            panels_together: 2,
            cell_bytes: 4,
            prepare: prepare_floats,
            multiply: multiply_f16,
        },
        Product {
            tile_rows: TILE_ROWS,
            panels_together: 2,
            cell_bytes: 1,
            prepare: prepare_codes,
            multiply: multiply_codes,
        },
    ],
    matmul,
    softmax,
    layer_norm,
    gelu,
    add,
};

/// The normal tail `P(X > z)` for `z >= 0` is computed as `t * p(t) * exp(-z * z / 2)` with `t = 1 / (1 + TAIL_PULL *
/// z)`, the form of Abramowitz and Stegun 7.1.26. These coefficients, from the constant up, are a minimax fit of the
/// relative error over `z` in 0..13.5: 1.3e-7.
pub(crate) const TAIL: [f32; 8] = [
    0.119_626_39,
    0.120_798_36,
    0.099_637_48,
    0.129_469_25,
    -0.055_393_945,
    0.208_206_7,
    -0.158_276_08,
    0.035_931_755,
];
/// See [`TAIL`].
pub(crate) const TAIL_PULL: f32 = 0.3;

/// Coefficients of `exp(x)` for `x <= 0` in the vector levels, with a relative error of 2e-7. `x = n ln 2 + r` with
/// `|r| <= ln 2 / 2`, and `exp(r)` is a polynomial with these coefficients from the highest power down (minimax fit,
/// relative error 3e-9).
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(dead_code, reason = "this level asks the standard library")
)]
pub(crate) const EXP: [f32; 7] =
    [0.001_381_461, 0.008_368_711, 0.041_668_39, 0.166_665_21, 0.499_999_94, 1.0, 1.0];
/// `ln 2` in two parts, the larger first, so that the product of `n` with the larger part is exact; see [`EXP`].
#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(dead_code, reason = "as above")
)]
pub(crate) const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];

pub(crate) fn dot(query: &[f32], row: &[f16]) -> f32 {
    query.iter().zip(row).map(|(q, r)| q * r.to_f32()).sum()
}

fn dot_rows(query: &[f32], rows: &[f16], out: &mut [f32]) {
    for (r, score) in out.iter_mut().enumerate() {
        *score = dot(query, &rows[r * query.len()..][..query.len()]);
    }
}

/// Dot product modulo 2^32, as the CPU's additions are.
pub(crate) fn dot_of_codes(query: &[i16], row: &[i8]) -> i32 {
    let products = query.iter().zip(row).map(|(&q, &code)| i32::from(q) * i32::from(code));
    products.fold(0, i32::wrapping_add)
}

fn dot_codes(queries: &CodeQueries, rows: &[i8], out: &mut [i32]) {
    for (r, sums) in out.chunks_exact_mut(queries.count).enumerate() {
        let row = &rows[r * queries.width..][..queries.width];
        for (q, sum) in sums.iter_mut().enumerate() {
            *sum = dot_of_codes(queries.of(q), row);
        }
    }
}

pub(crate) fn reaching(products: &[i32], facts: RowFacts<'_>, bars: &Bars, out: &mut [u16]) {
    let count = products.len() / out.len();
    for (r, (reaches, products)) in out.iter_mut().zip(products.chunks_exact(count)).enumerate() {
        let (scale, error, norm) = (facts.scales[r], facts.errors[r], facts.norms[r]);
        *reaches = 0;
        for (q, &product) in products.iter().enumerate() {
            let known = product as f32 * scale * bars.per_product[q];
            let is_below = known + error * bars.per_error[q] < norm * bars.least[q];
            *reaches |= u16::from(!is_below) << q;
        }
    }
}

fn sum_lookups(tables: &LookupTables, blocks: &[u8], out: &mut [u16]) {
    let block_bytes = tables.row_bytes() * LOOKUP_ROWS;
    for (at, sums) in out.chunks_exact_mut(LOOKUP_ROWS).enumerate() {
        sums.fill(0);
        let block = &blocks[at * block_bytes..][..block_bytes];
        for (j, bytes) in block.chunks_exact(LOOKUP_ROWS).enumerate() {
            let [low, high] = &tables.lines[j / LOOKUP_BYTES];
            // A cache line stores each table twice.
            let first = j % LOOKUP_BYTES * 32;
            for (sum, byte) in sums.iter_mut().zip(bytes) {
                let [low, high] =
                    [low.0[first + usize::from(byte & 15)], high.0[first + usize::from(byte >> 4)]];
                *sum = sum.wrapping_add(u16::from(low)).wrapping_add(u16::from(high));
            }
        }
    }
}

fn matmul(left: Rows<'_>, right: &Panels, mut out: RowsMut<'_>) {
    for panel in 0..right.count() {
        let (first, columns) = right.columns(panel);
        for m in 0..left.count() {
            let mut sums = [0.0; COLUMNS];
            for (x, line) in left.row(m).iter().zip(right.lines(panel)) {
                add_products(&mut sums, *x, line.0);
            }
            out.row(m)[first..][..columns].copy_from_slice(&sums[..columns]);
        }
    }
}

/// Adds `x` times each weight to the sum of its column.
fn add_products(sums: &mut [f32; COLUMNS], x: f32, weights: [f32; COLUMNS]) {
    for (sum, weight) in sums.iter_mut().zip(weights) {
        *sum += x * weight;
    }
}

/// Stores the rows unchanged, one after the other.
fn prepare_floats(
    rows: Rows<'_>,
    lines: &mut [CacheLine],
    _scales: &mut [f32],
    _own: &mut [CacheLine],
) {
    let depth = padded_depth(rows.width());
    let cells: &mut [f32] = bytemuck::cast_slice_mut(lines);
    for (m, to) in cells.chunks_exact_mut(depth.max(1)).enumerate() {
        to[..rows.width()].copy_from_slice(rows.row(m));
    }
}

fn multiply_f32(task: &Task<'_>, _own: &mut [CacheLine]) {
    let Cells::F32(cells) = task.layer.cells() else { unreachable!("chosen by precision") };
    multiply_floats(task, cells, |cell| cell);
}

fn multiply_f16(task: &Task<'_>, _own: &mut [CacheLine]) {
    let Cells::F16(cells) = task.layer.cells() else { unreachable!("chosen by precision") };
    multiply_floats(task, cells, f16::to_f32);
}

/// Each sum starts from the bias and adds its products in order of depth.
fn multiply_floats<T: Copy>(task: &Task<'_>, cells: &[T], widen: impl Fn(T) -> f32) {
    let layer = &task.layer;
    for panel in task.panels.clone() {
        for m in task.rows() {
            let mut sums = *layer.bias(panel);
            let row: &[f32] = bytemuck::cast_slice(task.lines(m..m + 1));
            for (x, line) in row.iter().zip(lines(cells, panel, layer.depth())) {
                add_products(&mut sums, *x, line.map(&widen));
            }
            finish(task, m, panel, &mut sums);
        }
    }
}

/// Stores rows of codes one after the other, padded with zeros.
fn prepare_codes(
    rows: Rows<'_>,
    lines: &mut [CacheLine],
    scales: &mut [f32],
    own: &mut [CacheLine],
) {
    let out: &mut [i8] = bytemuck::cast_slice_mut(lines);
    quantized(rows, scales, own, turned_codes, |m, codes| {
        out[m * codes.len()..][..codes.len()].copy_from_slice(codes);
    });
}

/// The sum of products of codes is exact; its dequantized value is added to the bias.
fn multiply_codes(task: &Task<'_>, _own: &mut [CacheLine]) {
    let layer = &task.layer;
    let Cells::Int8(Codes { codes, scales, .. }) = layer.cells() else {
        unreachable!("chosen by precision")
    };
    for panel in task.panels.clone() {
        let (scales, _) = scales[panel * COLUMNS..].split_first_chunk::<COLUMNS>().expect("padded");
        for m in task.rows() {
            let mut sums = [0_i32; COLUMNS];
            let row: &[i8] = bytemuck::cast_slice(task.lines(m..m + 1));
            let (quads, _) = row.as_chunks::<QUAD>();
            for (x, line) in quads.iter().zip(quad_lines(codes, panel, layer.depth())) {
                for (sum, weights) in sums.iter_mut().zip(line.as_chunks::<QUAD>().0) {
                    let products =
                        x.iter().zip(weights).map(|(&x, &w)| i32::from(x) * i32::from(w));
                    *sum += products.sum::<i32>();
                }
            }
            let mut values = *layer.bias(panel);
            for ((value, sum), scale) in values.iter_mut().zip(sums).zip(scales) {
                *value += task.scale(m) * scale * sum as f32;
            }
            finish(task, m, panel, &mut values);
        }
    }
}

/// Applies the activation to the values of a row's columns, and stores the columns that exist.
fn finish(task: &Task<'_>, row: usize, panel: usize, values: &mut [f32; COLUMNS]) {
    if task.then == Then::Gelu {
        gelu(values);
    }
    // SAFETY: the panel is this task's, and no other piece of the panel is in use.
    let to = unsafe { task.place(row, panel) };
    to.copy_from_slice(&values[..to.len()]);
}

fn softmax(mut rows: RowsMut<'_>, scale: f32) {
    for i in 0..rows.count() {
        let row = rows.row(i);
        let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let mut total = 0.0;
        for score in row.iter_mut() {
            *score = ((*score - top) * scale).exp();
            total += *score;
        }
        for share in row {
            *share /= total;
        }
    }
}

fn layer_norm(mut rows: RowsMut<'_>, gain: &[f32], bias: &[f32], epsilon: f32) {
    for i in 0..rows.count() {
        let row = rows.row(i);
        let mean = row.iter().sum::<f32>() / row.len() as f32;
        let spread = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>();
        let shrink = 1.0 / (spread / row.len() as f32 + epsilon).sqrt();
        for ((x, gain), bias) in row.iter_mut().zip(gain).zip(bias) {
            *x = (*x - mean) * shrink * gain + bias;
        }
    }
}

pub(crate) fn gelu(values: &mut [f32]) {
    for x in values {
        let z = x.abs();
        let t = 1.0 / (1.0 + TAIL_PULL * z);
        let polynomial = TAIL.iter().rev().fold(0.0, |sum, c| sum * t + c);
        let tail = t * polynomial * (-0.5 * z * z).exp();
        // For x < 0 the tail is the probability itself; for x > 0 it is the complement.
        *x = x.max(0.0) - z * tail;
    }
}

pub(crate) fn add(sum: &mut [f32], addend: &[f32]) {
    for (sum, addend) in sum.iter_mut().zip(addend) {
        *sum += addend;
    }
}
