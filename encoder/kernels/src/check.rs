//! The suite every level must pass, run for each level this CPU has.
//!
//! Lengths 0 to 130 meet every tail; offsets 0 to 7 meet every alignment of an 8-float load; the
//! inputs hold subnormals, huge and tiny values of both signs. Sums are compared with f64.

use half::f16;

use crate::{Kernels, Level};

/// Longest vector in the exhaustive runs.
const LENGTH_MAX: usize = 130;

/// Every level that can run here.
fn levels() -> Vec<Kernels> {
    Level::ALL.iter().filter_map(|&level| Kernels::for_level(level)).collect()
}

/// A small generator (xorshift64*), so that a failure repeats.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Evenly spread in -1..1.
    fn unit(&mut self) -> f32 {
        let bits = i32::try_from(self.next() >> 40).unwrap();
        bits as f32 / (1 << 23) as f32 - 1.0
    }

    /// Mostly ordinary, sometimes zero, subnormal, or as large as a half can be.
    fn hard(&mut self) -> f32 {
        let unit = self.unit();
        match self.next() % 8 {
            0 => 0.0,
            1 => unit * 6.0e-8,
            2 => unit * 65_504.0,
            3 => unit * 1.0e-4,
            _ => unit,
        }
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.hard()).collect()
    }

    fn halves(&mut self, count: usize) -> Vec<f16> {
        (0..count).map(|_| f16::from_f32(self.hard())).collect()
    }
}

/// The exact sum, and how far an f32 sum in any order may stray from it.
fn exact(query: &[f32], row: &[f16]) -> (f64, f64) {
    let products = query.iter().zip(row).map(|(&q, &r)| f64::from(q) * f64::from(r.to_f32()));
    let (sum, size) = products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()));
    // The second term: a product below the smallest normal float may lose all its digits.
    let lost = f64::from(f32::MIN_POSITIVE);
    (sum, query.len() as f64 * (f64::from(f32::EPSILON) * size + lost))
}

#[test]
fn the_scalar_level_is_always_there_and_detect_picks_the_widest() {
    let all = levels();
    assert!(all.iter().any(|kernels| kernels.level() == Level::Scalar));
    assert_eq!(Kernels::detect().level(), all[0].level());
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
