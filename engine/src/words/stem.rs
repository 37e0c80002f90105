//! Stems of English words, with a small memory for the common ones.
//!
//! Owns the choice of stemmer (Snowball English, also called Porter2). Must not know where words
//! come from.

use rust_stemmers::{Algorithm, Stemmer};

/// Words remembered at most, 32 bytes each. Text repeats itself: so many cover nine words in ten
/// even of texts that draw from 50,000.
const SLOTS: usize = 8192;

/// Words stemmed before any is remembered: a single text is done by then.
const REMEMBERED_AFTER: usize = 512;

/// Shortest word that is stemmed.
const STEMMED_BYTES_MIN: usize = 3;

/// Longest word that is remembered, and the longest stem.
const SHORT_BYTES_MAX: usize = 15;

/// A short text: its bytes, zeros, and its length in the last byte. Compares as one number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Short([u8; SHORT_BYTES_MAX + 1]);

impl Short {
    fn of(text: &str) -> Option<Self> {
        let mut bytes = [0; SHORT_BYTES_MAX + 1];
        bytes[..SHORT_BYTES_MAX].get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        bytes[SHORT_BYTES_MAX] = u8::try_from(text.len()).ok()?;
        Some(Self(bytes))
    }

    fn as_str(&self) -> &str {
        let bytes = &self.0[..usize::from(self.0[SHORT_BYTES_MAX])];
        std::str::from_utf8(bytes).expect("made of a whole text")
    }

    /// Its place among [`SLOTS`]: the two halves multiplied by odd constants, the top bits of the sum.
    /// The worst that chosen words can do is miss.
    fn slot(&self) -> usize {
        let (halves, _) = self.0.as_chunks::<8>();
        let [low, high] = [0, 1].map(|at: usize| u64::from_le_bytes(halves[at]));
        let mixed = low.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ high.wrapping_mul(0xC2B2_AE3D_27D4_EB4F).rotate_right(17);
        (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % SLOTS
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    word: Short,
    stem: Short,
}

/// Snowball English over lower-case words.
pub(super) struct Stems {
    stemmer: Stemmer,
    /// Direct-mapped: a word has one place and drives out who was there. Empty at first.
    slots: Vec<Slot>,
    /// Words stemmed before there are slots.
    stemmed: usize,
}

impl Stems {
    /// Costs nothing to make; the memory comes once there were words enough to fill some of it.
    pub(super) fn new() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English), slots: Vec::new(), stemmed: 0 }
    }

    /// Appends the stem of `word` to `out`. Words with anything but small ASCII letters stay as
    /// they are.
    pub(super) fn stem(&mut self, word: &str, out: &mut String) {
        if word.len() < STEMMED_BYTES_MIN || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
            out.push_str(word);
            return;
        }
        if self.slots.is_empty() {
            out.push_str(&self.stemmer.stem(word));
            self.stemmed += 1;
            if self.stemmed == REMEMBERED_AFTER {
                self.slots = vec![Slot::default(); SLOTS];
            }
            return;
        }
        let Some(short) = Short::of(word) else {
            out.push_str(&self.stemmer.stem(word));
            return;
        };
        let slot = &mut self.slots[short.slot()];
        if slot.word != short {
            let stem = self.stemmer.stem(word);
            let Some(stem) = Short::of(&stem) else {
                out.push_str(&stem);
                return;
            };
            *slot = Slot { word: short, stem };
        }
        out.push_str(slot.stem.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Pairs from the published Snowball English vocabulary.
    #[test]
    fn stems_as_published() {
        for (word, stem) in [
            ("consignment", "consign"),
            ("consistency", "consist"),
            ("knightly", "knight"),
            ("generously", "generous"),
            ("skies", "sky"),
            ("dying", "die"),
            ("retrieval", "retriev"),
            ("running", "run"),
            ("caresses", "caress"),
            ("happily", "happili"),
            ("ab", "ab"),
            ("x86s", "x86s"),
        ] {
            let mut out = String::new();
            Stems::new().stem(word, &mut out);
            assert_eq!(out, stem, "{word}");
        }
    }

    proptest! {
        #[test]
        fn memory_changes_nothing(words in prop::collection::vec("[a-e]{0,16}(ing|ly|s|ed|ness|y|e)?", 1..200)) {
            let mut cached = Stems::new();
            cached.slots = vec![Slot::default(); SLOTS];
            for word in words.iter().chain(&words) {
                let mut plain = Stems::new();
                let (mut one, mut other) = (String::new(), String::new());
                plain.stem(word, &mut one);
                cached.stem(word, &mut other);
                prop_assert_eq!(one, other);
            }
        }

        #[test]
        fn any_letters_stem_without_panic(word in "[a-z]{0,64}") {
            Stems::new().stem(&word, &mut String::new());
        }
    }
}
