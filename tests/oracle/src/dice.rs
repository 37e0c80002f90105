//! Random numbers that can be had again: SplitMix64 (Steele, Lea and Flood 2014).

/// One string's source of chance.
pub struct Dice(u64);

impl Dice {
    /// Dice that depend on these three and nothing else.
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

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A number of the range.
    pub fn within(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last - first + 1)
    }

    /// One of a list that is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// One of some fixed texts.
    pub fn piece(&mut self, list: &[&'static str]) -> &'static str {
        list[self.below(list.len())]
    }

    /// A scalar value of the range; U+FFFD in place of a surrogate.
    pub fn scalar(&mut self, first: u32, last: u32) -> char {
        let point = first + u32::try_from(self.below((last - first + 1) as usize)).unwrap_or(0);
        char::from_u32(point).unwrap_or('\u{FFFD}')
    }
}
