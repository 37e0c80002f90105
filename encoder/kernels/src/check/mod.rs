//! The suite every level must pass, run for each level this CPU has.
//!
//! Lengths 0 to 130 meet every tail; offsets 0 to 7 meet every alignment of an 8-float load; the
//! inputs hold subnormals, huge and tiny values of both signs. Sums are compared with f64.

use half::f16;

use crate::{Kernels, Level};

mod dots;
mod lookups;
mod products;
mod rows;

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

    /// Any code, the ends of its range as often as all others together.
    fn codes(&mut self, count: usize) -> Vec<i8> {
        let ends = [i8::MIN, -127, 0, i8::MAX];
        let mut one = || match self.next().to_le_bytes() {
            [kind, pick, ..] if kind < 128 => ends[usize::from(pick % 4)],
            [_, code, ..] => i8::from_le_bytes([code]),
        };
        (0..count).map(|_| one()).collect()
    }

    /// Any 16-bit number, the ends of its range and of a query's codes as often as all others.
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
    // Who runs the suite for the sake of a level looks for it here.
    println!("levels here: {}", all.iter().map(|k| k.level().name()).collect::<Vec<_>>().join(" "));
    assert!(all.iter().any(|kernels| kernels.level() == Level::Scalar));
    assert_eq!(Kernels::detect().level(), all[0].level());
}
