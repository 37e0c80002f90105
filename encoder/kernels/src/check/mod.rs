//! The test suite for every kernel level, run for each level of this CPU.
//!
//! Lengths 0 to 130 cover every tail; offsets 0 to 7 cover every alignment of an 8-float load; the inputs include
//! subnormals and huge and tiny values of both signs. Sums are compared with f64.

use half::f16;

use crate::{Kernels, Level};

mod dots;
mod lookups;
mod products;
mod rows;

/// Longest vector in the exhaustive runs.
const LENGTH_MAX: usize = 130;

/// Every level that this CPU can run.
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

    /// Returns a number uniform in -1..1.
    fn unit(&mut self) -> f32 {
        let bits = i32::try_from(self.next() >> 40).unwrap();
        bits as f32 / (1 << 23) as f32 - 1.0
    }

    /// Returns a number that is mostly ordinary, sometimes zero, subnormal, or as large as f16 allows.
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

    /// Returns arbitrary codes, in which the two ends of the range are as frequent as all others together.
    fn codes(&mut self, count: usize) -> Vec<i8> {
        let ends = [i8::MIN, -127, 0, i8::MAX];
        let mut one = || match self.next().to_le_bytes() {
            [kind, pick, ..] if kind < 128 => ends[usize::from(pick % 4)],
            [_, code, ..] => i8::from_le_bytes([code]),
        };
        (0..count).map(|_| one()).collect()
    }

    /// Returns 16-bit numbers, in which the ends of their range and of a query's codes are as frequent as all others.
    fn shorts(&mut self, count: usize) -> Vec<i16> {
        let ends = [i16::MIN, -4095, 4095, i16::MAX];
        let mut one = || match self.next().to_le_bytes() {
            [kind, pick, ..] if kind < 128 => ends[usize::from(pick % 4)],
            [_, low, high, ..] => i16::from_le_bytes([low, high]),
        };
        (0..count).map(|_| one()).collect()
    }

    fn halves(&mut self, count: usize) -> Vec<f16> {
        (0..count).map(|_| f16::from_f32(self.hard())).collect()
    }
}

#[test]
fn the_scalar_level_is_always_there_and_detect_picks_the_widest() {
    let all = levels();
    // The output shows which levels a test run has covered.
    println!("levels here: {}", all.iter().map(|k| k.level().name()).collect::<Vec<_>>().join(" "));
    assert!(all.iter().any(|kernels| kernels.level() == Level::Scalar));
    assert_eq!(Kernels::detect().level(), all[0].level());
}
