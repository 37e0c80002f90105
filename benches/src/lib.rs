//! What the benchmarks share: numbers and texts that are the same in every run.

use half::f16;

/// A small generator (xorshift64*, Vigna 2016); the benchmarks need repeatable, not good.
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// Starts from a seed that is not 0.
    pub fn new(seed: u64) -> Self {
        assert_ne!(seed, 0, "xorshift stands still at 0");
        Self(seed)
    }

    /// 32 bits.
    pub fn bits(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes();
        u32::from_le_bytes([mixed[4], mixed[5], mixed[6], mixed[7]])
    }

    /// From -1 to 1.
    pub fn unit(&mut self) -> f32 {
        let signed = i16::try_from(i32::try_from(self.bits() >> 16).unwrap_or(0) - 32_768);
        f32::from(signed.unwrap_or(0)) / 32_768.0
    }

    /// A vector of unit length.
    pub fn vector(&mut self, width: usize) -> Vec<f32> {
        let raw: Vec<f32> = (0..width).map(|_| self.unit()).collect();
        let length = raw.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        raw.iter().map(|x| x / length).collect()
    }

    /// A text of `words` words. Common words come often and rare ones rarely: the rank is the
    /// product of two even draws, which falls off about as Zipf's law does.
    pub fn text(&mut self, words: usize) -> String {
        let mut text = String::with_capacity(words * 7);
        for _ in 0..words {
            let (one, two) = (u64::from(self.bits() >> 16), u64::from(self.bits() >> 16));
            let rank = (one * two * VOCABULARY) >> 32;
            text.push_str(&word(rank));
            text.push(' ');
        }
        text
    }
}

/// Words that texts are made of.
const VOCABULARY: u64 = 30_000;

/// The word of a rank: syllables, so that it looks like one to the analyser.
pub fn word(rank: u64) -> String {
    const SYLLABLES: [&str; 16] = [
        "ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "wu",
        "za",
    ];
    let mut left = rank + 16;
    let mut word = String::new();
    while left > 0 {
        let at = usize::try_from(left % 16).unwrap_or(0);
        word.push_str(SYLLABLES[at]);
        left /= 16;
    }
    word
}

/// The same vector as halves.
pub fn halves(vector: &[f32]) -> Vec<f16> {
    vector.iter().copied().map(f16::from_f32).collect()
}
