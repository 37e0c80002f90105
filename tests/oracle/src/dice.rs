//! Repeatable random numbers: SplitMix64 (Steele, Lea and Flood 2014).

/// The generator of one string.
pub struct Dice(u64);

impl Dice {
    /// Makes a generator that depends on these three values only.
    pub fn new(seed: u64, name: &str, number: usize) -> Dice {
        let mut dice = Dice(seed);
        for byte in name.bytes() {
            dice.0 = dice.next() ^ u64::from(byte);
        }
        dice.0 = dice.next() ^ number as u64;
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns a number of the inclusive range.
    pub fn within(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last - first + 1)
    }

    /// Returns an element of a non-empty list.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// Returns one of some fixed texts.
    pub fn piece(&mut self, list: &[&'static str]) -> &'static str {
        list[self.below(list.len())]
    }

    /// Returns a scalar value of the inclusive range, or U+FFFD in place of a surrogate.
    pub fn scalar(&mut self, first: u32, last: u32) -> char {
        let point = first + u32::try_from(self.below((last - first + 1) as usize)).unwrap_or(0);
        char::from_u32(point).unwrap_or('\u{FFFD}')
    }
}
