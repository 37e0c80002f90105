//! Fixed pseudo-random rotation of a vector, which spreads the energy of a few components over all components.
//!
//! Each of the three rounds has three steps: pseudo-random sign flips, a Hadamard matrix over 64 components at a time,
//! a permutation. The construction follows the literature (Ailon and Chazelle 2006, "Approximate nearest neighbors and
//! the fast Johnson-Lindenstrauss transform"). Lengths and dot products are preserved up to rounding. Sums have a fixed
//! order, so every machine gets the same bits.

/// Components per Hadamard matrix; a vector's width is a multiple of it.
const HADAMARD_WIDTH: usize = 64;
/// Makes the matrix orthonormal: 1 / sqrt(64), which is exact.
const HADAMARD_SCALE: f32 = 0.125;
const ROUNDS: usize = 3;

/// Rotation for vectors of one width.
pub(super) struct RandomRotation {
    /// Per round, 1 or -1 for each component.
    signs: [Vec<f32>; ROUNDS],
    scratch: Vec<f32>,
}

impl RandomRotation {
    /// # Panics
    /// If the width is not a multiple of 64.
    pub(super) fn new(width: usize) -> Self {
        assert_eq!(width % HADAMARD_WIDTH, 0, "rows of codes are as wide as whole cache lines");
        let sign = |round: usize, at: usize| {
            if splitmix64_finalizer((round as u64) << 32 | at as u64) & 1 == 1 { -1.0 } else { 1.0 }
        };
        let signs =
            std::array::from_fn(|round| (0..width).map(|at| sign(round, at)).collect::<Vec<_>>());
        Self { signs, scratch: vec![0.0; width] }
    }

    /// Rotates in place a vector of the width given to [`Self::new`].
    pub(super) fn rotate(&mut self, vector: &mut [f32]) {
        let parts = vector.len() / HADAMARD_WIDTH;
        for signs in &self.signs {
            vector.iter_mut().zip(signs).for_each(|(number, sign)| *number *= sign);
            for (part, numbers) in vector.as_chunks_mut::<HADAMARD_WIDTH>().0.iter_mut().enumerate()
            {
                hadamard(numbers);
                for (at, number) in numbers.iter().enumerate() {
                    self.scratch[at * parts + part] = number * HADAMARD_SCALE;
                }
            }
            vector.copy_from_slice(&self.scratch);
        }
    }
}

/// Fast Hadamard transform in natural order, by sums and differences.
fn hadamard(numbers: &mut [f32; HADAMARD_WIDTH]) {
    let mut half = 1;
    while half < HADAMARD_WIDTH {
        for pair in numbers.chunks_exact_mut(2 * half) {
            let (first, second) = pair.split_at_mut(half);
            for (a, b) in first.iter_mut().zip(second) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
fn splitmix64_finalizer(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotation_keeps_lengths_and_spreads_one_coordinate() {
        for width in [64, 128, 384, 1024] {
            let mut rotation = RandomRotation::new(width);
            for at in [0, 1, 63, width - 1] {
                let mut vector = vec![0.0; width];
                vector[at] = 3.0;
                rotation.rotate(&mut vector);
                let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
                assert!((length - 3.0).abs() < 1e-4, "{width}: {length}");
                let even = 3.0 / (width as f32).sqrt();
                let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                assert!(largest < 6.0 * even, "{width}: {largest}, evenly {even}");
            }
        }
    }
}
