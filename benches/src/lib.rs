//! Helpers of the benchmarks: numbers and texts that are the same in every run.

use half::f16;

/// A small generator (xorshift64*, Vigna 2016): the benchmarks need repeatable numbers, not good ones.
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// Starts from a seed other than 0.
    pub fn new(seed: u64) -> Self {
        assert_ne!(seed, 0, "xorshift stands still at 0");
        Self(seed)
    }

    /// Next 32 bits.
    pub fn bits(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes();
        u32::from_le_bytes([mixed[4], mixed[5], mixed[6], mixed[7]])
    }

    /// Next number, uniform from -1 to 1.
    pub fn unit(&mut self) -> f32 {
        let signed = i16::try_from(i32::try_from(self.bits() >> 16).unwrap_or(0) - 32_768);
        f32::from(signed.unwrap_or(0)) / 32_768.0
    }

    /// Next vector of unit length.
    pub fn vector(&mut self, width: usize) -> Vec<f32> {
        unit_length(&(0..width).map(|_| self.unit()).collect::<Vec<_>>())
    }

    /// Next text, of `words` words. Common words come often: the rank is the product of two uniform draws, which falls
    /// off approximately as Zipf's law does.
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

/// Vectors distributed as those of texts. All share a direction, each belongs to a topic and to a document, and a few
/// coordinates are larger than the rest.
#[derive(Debug)]
pub struct Texts {
    common: Vec<f32>,
    topics: Vec<Vec<f32>>,
    /// Magnitude of each coordinate.
    sizes: Vec<f32>,
}

impl Texts {
    /// Weights of the direction that all vectors share, of the topic, of the document, and of the vector's own part.
    /// Two parts of a document then have a cosine of about 0.7, two of a topic 0.45, any two 0.15.
    const SHARES: [f32; 4] = [0.39, 0.55, 0.5, 0.55];
    const TOPICS: usize = 400;

    /// Draws the topics for vectors of this width.
    pub fn new(numbers: &mut Numbers, width: usize) -> Self {
        let sizes = (0..width).map(|_| 0.5 + 1.5 * numbers.unit().powi(8)).collect();
        let common = numbers.vector(width);
        let topics = (0..Self::TOPICS).map(|_| numbers.vector(width)).collect();
        Self { common, topics, sizes }
    }

    /// Draws the part that all vectors of a new document share.
    pub fn document(&self, numbers: &mut Numbers) -> Vec<f32> {
        let topic = &self.topics[numbers.bits() as usize % Self::TOPICS];
        let own = numbers.vector(topic.len());
        let [common, in_topic, in_document, _] = Self::SHARES;
        let shared = self.common.iter().zip(topic).zip(&own);
        shared
            .map(|((all, topic), own)| common * all + in_topic * topic + in_document * own)
            .collect()
    }

    /// Draws one vector of a document, of unit length.
    pub fn part(&self, numbers: &mut Numbers, document: &[f32]) -> Vec<f32> {
        let own = numbers.vector(document.len());
        let [.., share] = Self::SHARES;
        let mixed = document.iter().zip(&own).zip(&self.sizes);
        let raw: Vec<f32> =
            mixed.map(|((shared, own), size)| (shared + share * own) * size).collect();
        unit_length(&raw)
    }
}

fn unit_length(raw: &[f32]) -> Vec<f32> {
    let length = raw.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    raw.iter().map(|x| x / length).collect()
}

/// Distinct words of the texts.
const VOCABULARY: u64 = 30_000;

/// Returns the word of a rank, made of syllables so that the analyzer treats it as a word.
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

/// Converts a vector to f16.
pub fn halves(vector: &[f32]) -> Vec<f16> {
    vector.iter().copied().map(f16::from_f32).collect()
}
