//! Linear layers, attention, and their small products.

use half::f16;

use super::rows::{gelu_bound, normal_below};
use super::{LENGTH_MAX, Noise, levels};
use crate::panels::Panels;
use crate::{
    Kernels, Level, Norm, PackedCells, PackedLinear, Precision, Reach, Rows, RowsMut, Then,
    Workspace,
};

/// Workspace limits for all cases here.
const REACH: Reach = Reach { rows: 200, depth: 520, text: 140, head: 40 };

/// Returns the exact sum, and a bound on its error at a level and a precision. The weights are those that the precision
/// stores.
fn exact_product(left: &[f32], weights: &[f32], bias: f32, split: bool) -> (f64, f64) {
    let products = left.iter().zip(weights).map(|(&x, &w)| f64::from(x) * f64::from(w));
    let (sum, size) = products
        .fold((f64::from(bias), f64::from(bias.abs())), |(sum, size), p| (sum + p, size + p.abs()));
    let lost = f64::from(f32::MIN_POSITIVE);
    let mut bound = (left.len() + 1) as f64 * (f64::from(f32::EPSILON) * size + lost);
    if split {
        bound += size / 32_768.0;
    }
    (sum, bound)
}

/// Runs `linear` and returns the output rows one after the other.
fn linear(
    kernels: &Kernels,
    workspace: &mut Workspace,
    left: Rows<'_>,
    layer: &PackedLinear,
    then: Then,
) -> Vec<f32> {
    let width = layer.view().width();
    let mut out = vec![f32::NAN; left.count() * width];
    let rows = RowsMut::new(&mut out, left.count(), width, width);
    kernels.linear(workspace, left, (layer.view(), Some(layer.view())), then, rows);
    out
}

/// Shapes that cover every height of a tile and every remainder of depth and of width.
fn shapes() -> impl Iterator<Item = (usize, usize, usize)> {
    let heights = (1..=36).flat_map(|m| [(m, 17, 33), (m, 48, 64)]);
    let depths = (1..=LENGTH_MAX).map(|depth| (7, 18, depth));
    let widths = (1..=50).map(|width| (5, width, 19));
    heights.chain(depths).chain(widths).chain([(100, 33, 512), (101, 70, 21), (0, 5, 8)])
}

#[test]
fn a_layer_of_floats_matches_an_f64_sum_for_every_tail() {
    let mut noise = Noise(0x5EED_0003);
    let mut workspace = Workspace::new(REACH, 1);
    for (m, n, k) in shapes() {
        let left = noise.floats(m * k + 3);
        let left = Rows::new(&left[3..], m, k, k);
        let bias = noise.floats(n);
        let weights = noise.floats(n * k);
        for precision in [Precision::F32, Precision::F16] {
            let kept: Vec<f32> = match precision {
                Precision::F16 => weights.iter().map(|&w| f16::from_f32(w).to_f32()).collect(),
                _ => weights.clone(),
            };
            let layer = PackedLinear::pack(precision, Rows::new(&weights, n, k, k), &bias);
            for kernels in levels() {
                let split = kernels.level() == Level::Amx && precision == Precision::F16;
                let got = linear(&kernels, &mut workspace, left, &layer, Then::Keep);
                for (at, got) in got.iter().enumerate() {
                    let (row, column) = (at / n, at % n);
                    let kept = &kept[column * k..][..k];
                    let (want, bound) = exact_product(left.row(row), kept, bias[column], split);
                    assert!(
                        (f64::from(*got) - want).abs() <= bound,
                        "{:?} {precision:?} {m}x{k} * {k}x{n} at {row},{column}: {got} is not \
                         {want} +- {bound}",
                        kernels.level()
                    );
                }
            }
        }
    }
}

/// Error bound of an int8 layer in f64: in the rotated space, the codes of both sides are off by half a code at most.
fn int8_bound(left: &[f32], weights: &[f32]) -> f64 {
    let turned = |row: &[f32]| {
        let mut row = row.to_vec();
        crate::rotate::rotate(&mut row);
        row
    };
    let (left, weights) = (turned(left), turned(weights));
    let top = |row: &[f32]| f64::from(row.iter().fold(0.0_f32, |top, x| top.max(x.abs())));
    let sum = |row: &[f32]| row.iter().map(|x| f64::from(x.abs())).sum::<f64>();
    let (left_half, weights_half) = (top(&left) / 254.0, top(&weights) / 254.0);
    let n = left.len() as f64;
    let codes =
        left_half * sum(&weights) + weights_half * sum(&left) + n * left_half * weights_half;
    let block = crate::rotate::block_of(left.len()) as f64;
    // Float rounding adds to the bound: in the rotation, and in dequantization.
    let size = top(&left) * top(&weights) * n * 20.0 * f64::from(f32::EPSILON);
    (codes + size) / block + 1e-30
}

#[test]
fn a_layer_of_codes_is_within_half_a_code_and_the_same_at_every_level() {
    let mut noise = Noise(0x5EED_000B);
    let mut workspace = Workspace::new(REACH, 1);
    for (m, n, k) in shapes().chain([(3, 20, 384), (2, 16, 96)]) {
        let left: Vec<f32> = (0..m * k).map(|_| noise.unit() * 3.0).collect();
        let weights: Vec<f32> = (0..n * k).map(|_| noise.unit()).collect();
        let bias: Vec<f32> = (0..n).map(|_| noise.unit()).collect();
        let left = Rows::new(&left, m, k, k);
        let layer = PackedLinear::pack(Precision::Int8, Rows::new(&weights, n, k, k), &bias);
        let scalar = Kernels::for_level(Level::Scalar).unwrap();
        let meant = linear(&scalar, &mut workspace, left, &layer, Then::Keep);
        for (at, got) in meant.iter().enumerate() {
            let (row, column) = (left.row(at / n), &weights[at % n * k..][..k]);
            let (want, rounding) = exact_product(row, column, bias[at % n], false);
            let bound = int8_bound(row, column) + rounding;
            let off = (f64::from(*got) - want).abs();
            assert!(off <= bound, "{m}x{k} * {k}x{n} at {at}: {got} is not {want} +- {bound}");
        }
        for kernels in levels() {
            let got = linear(&kernels, &mut workspace, left, &layer, Then::Keep);
            let same = got.iter().zip(&meant).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{:?} {m}x{k} * {k}x{n}: {got:?} is not {meant:?}", kernels.level());
        }
    }
}

#[test]
fn rows_of_zeros_and_of_extremes_have_codes() {
    let mut workspace = Workspace::new(REACH, 1);
    let (depth, width) = (64, 16);
    let weights = vec![1.0; depth * width];
    let layer = PackedLinear::pack(Precision::Int8, Rows::dense(&weights, depth), &[0.5; 16]);
    for x in [0.0, -0.0, 1e-44, 1e-38, f32::MIN_POSITIVE, 1e30] {
        let row = vec![x; depth];
        for kernels in levels() {
            let got =
                linear(&kernels, &mut workspace, Rows::dense(&row, depth), &layer, Then::Keep);
            let want = 0.5 + x * depth as f32;
            let near = got.iter().all(|got| (got - want).abs() <= want.abs() * 1e-3);
            assert!(near, "{:?} {x}: {got:?} is not {want}", kernels.level());
        }
    }
}

/// A file may contain -128, which packing never writes; with left codes of 127, sums of two and of four products then
/// reach their maximum.
#[test]
fn the_largest_codes_do_not_overflow_on_the_way() {
    let mut workspace = Workspace::new(REACH, 1);
    let depth = 64;
    let zeros = vec![0.0; depth * 16];
    // A single large number rotates into a row of equal ones.
    let rows: Vec<f32> = [1.0, -1.0].map(|x| [vec![x], vec![0.0; depth - 1]].concat()).concat();
    for code in [-128, -127, 127] {
        let mut layer = PackedLinear::pack(Precision::Int8, Rows::dense(&zeros, depth), &[0.0; 16]);
        let PackedCells::Int8 { codes, scales, offsets } = &mut layer.cells else {
            panic!("asked for")
        };
        codes.fill(code);
        scales.fill(1.0);
        offsets.fill(-128 * 64 * i32::from(code));
        let want = depth as f32 * f32::from(code);
        for kernels in levels() {
            let got =
                linear(&kernels, &mut workspace, Rows::dense(&rows, depth), &layer, Then::Keep);
            for (row, want) in got.chunks(16).zip([want, -want]) {
                let near = row.iter().all(|got| (got - want).abs() <= want.abs() * 1e-6);
                assert!(near, "{:?} {code}: {row:?} is not {want}", kernels.level());
            }
        }
    }
}

#[test]
fn codes_and_what_belongs_to_them_are_as_written_down() {
    // Two rows of depth four: the block has four, and a row of ones rotates into one large number.
    let weights = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 2.0, 0.0];
    let layer = PackedLinear::pack(Precision::Int8, Rows::dense(&weights, 4), &[3.0, 4.0]);
    let PackedCells::Int8 { codes, scales, offsets } = &layer.cells else { panic!("asked for") };
    assert_eq!(codes[..8], [127, 0, 0, 0, 127, 127, -127, -127]);
    assert!(codes[8..].iter().all(|code| *code == 0));
    assert_eq!(codes.len(), 64 * 16);
    assert_eq!(scales[..3], [4.0 / 127.0 / 4.0, 2.0 / 127.0 / 4.0, 0.0]);
    assert_eq!(offsets[..3], [-128 * 127, 0, 0]);
    assert_eq!(layer.bias[..3], [3.0, 4.0, 0.0]);
}

#[test]
fn a_row_has_the_same_bits_in_any_company_and_with_any_number_of_threads() {
    let mut noise = Noise(0x5EED_0004);
    // With more than thirty rows per thread, threads divide rows and not panels.
    let counts = (1..=37).chain([63, 64, 65, 96, 99, 140, 170]);
    let (m, n, k) = (REACH.rows, 104, 96);
    let left = noise.floats(m * k);
    let (weights, bias) = (noise.floats(n * k), noise.floats(n));
    let mut alone = Workspace::new(REACH, 1);
    let mut many = [2, 3, 5].map(|threads| Workspace::new(REACH, threads));
    for &precision in Precision::ALL {
        let layer = PackedLinear::pack(precision, Rows::dense(&weights, k), &bias);
        for kernels in levels() {
            let together = linear(&kernels, &mut alone, Rows::dense(&left, k), &layer, Then::Gelu);
            for count in counts.clone() {
                let some = Rows::dense(&left[..count * k], k);
                for workspace in std::iter::once(&mut alone).chain(&mut many) {
                    let got = linear(&kernels, workspace, some, &layer, Then::Gelu);
                    let same = got.iter().zip(&together).all(|(a, b)| a.to_bits() == b.to_bits());
                    let threads = workspace.threads();
                    assert!(
                        same,
                        "{:?} {precision:?}: {count} rows on {threads} threads differ from {m}",
                        kernels.level()
                    );
                }
            }
        }
    }
}

#[test]
fn the_end_of_a_layer_is_a_sum_and_a_normalisation_on_any_number_of_threads() {
    let mut noise = Noise(0x5EED_000E);
    let mut workspaces = [1, 2, 3].map(|threads| Workspace::new(REACH, threads));
    for (count, width) in [(0, 3), (1, 1), (7, 33), (8, 384), (9, 20), (140, 96)] {
        let [rows, change] = [(); 2].map(|()| noise.floats(count * width));
        let [gain, bias] = [(); 2].map(|()| noise.floats(width));
        let norm = Norm { gain: &gain, bias: &bias, epsilon: 1e-12 };
        for kernels in levels() {
            let mut want = rows.clone();
            kernels.add(&mut want, &change);
            kernels.layer_norm(RowsMut::dense(&mut want, width), &gain, &bias, norm.epsilon);
            for workspace in &mut workspaces {
                let mut got = rows.clone();
                let (to, change) = (RowsMut::dense(&mut got, width), Rows::dense(&change, width));
                kernels.add_norm(workspace, to, change, norm);
                let same = got.iter().zip(&want).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{:?} {count} rows of {width}", kernels.level());
            }
        }
    }
}

#[test]
fn a_layer_reads_and_writes_strided_rows_and_leaves_the_gaps() {
    let mut noise = Noise(0x5EED_0005);
    let (m, n, k) = (9, 20, 12);
    let cells = noise.floats(m * 40);
    let left = Rows::new(&cells[5..], m, k, 35);
    let packed: Vec<f32> = (0..m).flat_map(|row| left.row(row).to_vec()).collect();
    let (weights, bias) = (noise.floats(n * k), noise.floats(n));
    let mut workspace = Workspace::new(REACH, 1);
    for &precision in Precision::ALL {
        let layer = PackedLinear::pack(precision, Rows::dense(&weights, k), &bias);
        for kernels in levels() {
            let dense =
                linear(&kernels, &mut workspace, Rows::dense(&packed, k), &layer, Then::Keep);
            let mut out = vec![7.0; m * 25];
            let rows = RowsMut::new(&mut out, m, n, 25);
            kernels.linear(&mut workspace, left, (layer.view(), None), Then::Keep, rows);
            for (row, dense) in out.chunks(25).zip(dense.chunks(n)) {
                assert_eq!(&row[..n], dense);
                assert_eq!(row[n..], [7.0; 5], "a gap was written");
            }
        }
    }
}

#[test]
fn gelu_after_a_layer_is_within_its_bound() {
    let values: Vec<f32> = (-160..=160).map(|i| i as f32 / 20.0).collect();
    let mut workspace = Workspace::new(Reach { rows: values.len(), ..REACH }, 1);
    for precision in [Precision::F32, Precision::F16] {
        let identity = PackedLinear::pack(precision, Rows::dense(&[1.0], 1), &[0.0]);
        for kernels in levels() {
            let left = Rows::dense(&values, 1);
            let kept = linear(&kernels, &mut workspace, left, &identity, Then::Keep);
            let got = linear(&kernels, &mut workspace, left, &identity, Then::Gelu);
            for (y, x) in got.iter().zip(kept) {
                let want = f64::from(x) * normal_below(f64::from(x));
                let off = (f64::from(*y) - want).abs();
                assert!(off <= gelu_bound(x), "{:?} gelu({x}) = {y}", kernels.level());
            }
        }
    }
}

/// Returns the attention over these texts in f64, one row after the other.
fn attention(projected: &[f32], ends: &[usize], heads: usize, width: usize) -> Vec<f64> {
    let cell = |row: usize, part: usize, i: usize| {
        f64::from(projected[row * 3 * width + part * width + i])
    };
    let head = width / heads;
    let mut out = vec![0.0; ends.last().copied().unwrap_or(0) * width];
    let starts = std::iter::once(0).chain(ends.iter().copied());
    for (start, &end) in starts.zip(ends) {
        for row in start..end {
            for h in 0..heads {
                let columns = h * head..(h + 1) * head;
                let score = |key: usize| {
                    let dot: f64 = columns.clone().map(|i| cell(row, 0, i) * cell(key, 1, i)).sum();
                    dot / (head as f64).sqrt()
                };
                let top = (start..end).map(score).fold(f64::MIN, f64::max);
                let shares: Vec<f64> = (start..end).map(|key| (score(key) - top).exp()).collect();
                let total: f64 = shares.iter().sum();
                for i in columns.clone() {
                    let sum: f64 =
                        shares.iter().zip(start..end).map(|(s, key)| s * cell(key, 2, i)).sum();
                    out[row * width + i] = sum / total;
                }
            }
        }
    }
    out
}

#[test]
fn attention_matches_f64_for_texts_of_any_length_on_any_number_of_threads() {
    let mut noise = Noise(0x5EED_000C);
    let lengths: [&[usize]; 6] =
        [&[1], &[2, 1, 3], &[16, 17, 15], &[64, 65], &[140], &[0, 33, 0, 100]];
    for (heads, width) in [(1, 5), (2, 8), (12, 384), (3, 120)] {
        for lengths in lengths {
            let ends: Vec<usize> =
                lengths.iter().scan(0, |end, n| (*end += n, Some(*end)).1).collect();
            let n = ends.last().copied().unwrap_or(0);
            let projected: Vec<f32> = (0..n * 3 * width).map(|_| noise.unit() * 2.0).collect();
            let want = attention(&projected, &ends, heads, width);
            for kernels in levels() {
                let mut first: Option<Vec<f32>> = None;
                for threads in [1, 3] {
                    let mut workspace = Workspace::new(REACH, threads);
                    let mut out = vec![f32::NAN; n * width];
                    let rows = RowsMut::dense(&mut out, width);
                    let projected = Rows::dense(&projected, 3 * width);
                    kernels.attend(&mut workspace, projected, &ends, heads, rows);
                    for (got, want) in out.iter().zip(&want) {
                        let off = (f64::from(*got) - want).abs();
                        assert!(off < 4e-6, "{:?} {lengths:?}: {got} {want}", kernels.level());
                    }
                    let first = first.get_or_insert_with(|| out.clone());
                    assert_eq!(*first, out, "{threads} threads");
                }
            }
        }
    }
}

#[test]
fn the_small_product_matches_an_f64_sum_for_every_tail() {
    let mut noise = Noise(0x5EED_000D);
    let mut right = Panels::with_room(LENGTH_MAX, LENGTH_MAX);
    for (m, n, k) in shapes().filter(|&(m, n, k)| m > 0 && n <= LENGTH_MAX && k <= LENGTH_MAX) {
        let (left, values) = (noise.floats(m * k), noise.floats(k * n));
        for is_turned in [false, true] {
            if is_turned {
                right.fill_transposed(Rows::dense(&values, k));
            } else {
                right.fill(Rows::dense(&values, n));
            }
            for kernels in levels() {
                let mut out = vec![f32::NAN; m * n];
                let rows = RowsMut::dense(&mut out, n);
                // SAFETY: the CPU has the features of a level that `levels` gives.
                unsafe { (kernels.table.matmul)(Rows::dense(&left, k), &right, rows) };
                for (at, got) in out.iter().enumerate() {
                    let (row, column) = (at / n, at % n);
                    let at = |i: usize| if is_turned { column * k + i } else { i * n + column };
                    let column: Vec<f32> = (0..k).map(|i| values[at(i)]).collect();
                    let (want, bound) = exact_product(&left[row * k..][..k], &column, 0.0, false);
                    let off = (f64::from(*got) - want).abs();
                    assert!(off <= bound, "{:?} {m}x{k}x{n}: {got} {want}", kernels.level());
                }
            }
        }
    }
}

#[test]
fn panels_refilled_within_their_room_do_not_move() {
    let mut panels = Panels::with_room(64, 40);
    let cells = [1.0; 64 * 40];
    let before = panels.address();
    for (count, width) in [(64, 40), (3, 5), (64, 33), (1, 1), (0, 8)] {
        panels.fill(Rows::new(&cells, count, width, width));
        assert_eq!(panels.count(), width.div_ceil(16));
        assert_eq!(panels.address(), before);
    }
}

#[test]
#[should_panic(expected = "do not fit")]
fn rows_past_the_end_are_refused() {
    let _ = Rows::new(&[0.0; 10], 3, 2, 5);
}

#[test]
#[should_panic(expected = "as wide as the layer is deep")]
fn shapes_that_do_not_fit_are_refused() {
    let layer = PackedLinear::pack(Precision::F32, Rows::dense(&[1.0; 6], 3), &[0.0; 2]);
    let mut workspace = Workspace::new(REACH, 1);
    linear(&Kernels::detect(), &mut workspace, Rows::dense(&[1.0; 4], 4), &layer, Then::Keep);
}

#[test]
#[should_panic(expected = "within the workspace's reach")]
fn work_beyond_the_reach_is_refused() {
    let layer = PackedLinear::pack(Precision::F32, Rows::dense(&[1.0; 6], 3), &[0.0; 2]);
    let mut workspace = Workspace::new(Reach { rows: 1, ..REACH }, 1);
    linear(&Kernels::detect(), &mut workspace, Rows::dense(&[1.0; 6], 3), &layer, Then::Keep);
}
