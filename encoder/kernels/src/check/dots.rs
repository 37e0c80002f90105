//! Dot products.

use half::f16;

use super::{LENGTH_MAX, Noise, levels};
use crate::Kernels;

/// The exact sum, and how far an f32 sum in any order may stray from it.
fn exact(query: &[f32], row: &[f16]) -> (f64, f64) {
    let products = query.iter().zip(row).map(|(&q, &r)| f64::from(q) * f64::from(r.to_f32()));
    let (sum, size) = products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()));
    // The second term: a product below the smallest normal float may lose all its digits.
    let lost = f64::from(f32::MIN_POSITIVE);
    (sum, query.len() as f64 * (f64::from(f32::EPSILON) * size + lost))
}

#[test]
fn dot_matches_an_f64_sum_at_every_length_and_alignment() {
    let mut noise = Noise(0x5EED_0001);
    for kernels in levels() {
        for length in 0..=LENGTH_MAX {
            for offset in 0..8 {
                let query = noise.floats(length + offset);
                let row = noise.halves(length + 7 - offset);
                let (query, row) = (&query[offset..], &row[7 - offset..]);
                let (want, bound) = exact(query, row);
                let got = f64::from(kernels.dot(query, row));
                assert!(
                    (got - want).abs() <= bound,
                    "{:?} length {length} offset {offset}: {got} is not {want} +- {bound}",
                    kernels.level()
                );
            }
        }
    }
}

#[test]
fn dot_rows_gives_each_row_the_bits_of_dot() {
    let mut noise = Noise(0x5EED_0002);
    for kernels in levels() {
        for width in (0..=LENGTH_MAX).chain([384, 1024]) {
            for count in [0, 1, 2, 3, 7, 8] {
                let query = noise.floats(width);
                let rows = noise.halves(width * count);
                let mut out = vec![f32::NAN; count];
                kernels.dot_rows(&query, &rows, &mut out);
                for (r, score) in out.iter().enumerate() {
                    let alone = kernels.dot(&query, &rows[r * width..][..width]);
                    assert_eq!(score.to_bits(), alone.to_bits(), "width {width} row {r}");
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "differ in width")]
fn dot_refuses_unequal_lengths() {
    Kernels::detect().dot(&[1.0], &[]);
}

#[test]
#[should_panic(expected = "query width times")]
fn dot_rows_refuses_a_ragged_block() {
    Kernels::detect().dot_rows(&[1.0, 2.0], &[f16::ONE; 3], &mut [0.0]);
}

/// The true sum, and its low 32 bits, which is what a level gives.
fn exact_codes(query: &[i16], row: &[i8]) -> (i64, i32) {
    let sum = query.iter().zip(row).map(|(&q, &code)| i64::from(q) * i64::from(code)).sum::<i64>();
    let [a, b, c, d, ..] = sum.to_le_bytes();
    (sum, i32::from_le_bytes([a, b, c, d]))
}

#[test]
fn dot_codes_rows_is_exact_at_every_length_and_alignment() {
    let mut noise = Noise(0x5EED_000A);
    for kernels in levels() {
        for width in (0..=LENGTH_MAX).chain([384, 1024, 4096]) {
            for (offset, count) in (0..32).zip([0, 1, 2, 3, 4, 5, 7, 8, 9].into_iter().cycle()) {
                let query = noise.shorts(width + 31 - offset);
                let rows = noise.codes(width * count + offset);
                let (query, rows) = (&query[31 - offset..], &rows[offset..]);
                let mut out = vec![i32::MIN; count];
                kernels.dot_codes_rows(query, rows, &mut out);
                for (r, &got) in out.iter().enumerate() {
                    let (_, want) = exact_codes(query, &rows[r * width..][..width]);
                    assert_eq!(got, want, "{:?} {width} wide, row {r}", kernels.level());
                }
            }
        }
    }
}

#[test]
fn dot_codes_rows_does_not_wrap_for_the_widest_query_in_its_range() {
    let width = 4096;
    for kernels in levels() {
        for (q, code) in [(4095, -128), (-4095, -128), (4095, 127), (-4095, 127)] {
            let (query, rows) = (vec![q; width], vec![code; 3 * width]);
            let mut out = [0; 3];
            kernels.dot_codes_rows(&query, &rows, &mut out);
            let (want, _) = exact_codes(&query, &rows[..width]);
            assert_eq!(out.map(i64::from), [want; 3], "{:?}", kernels.level());
        }
    }
}

#[test]
#[should_panic(expected = "query width times")]
fn dot_codes_rows_refuses_a_ragged_block() {
    Kernels::detect().dot_codes_rows(&[1, 2], &[1; 3], &mut [0]);
}
