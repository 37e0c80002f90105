//! Stems of English words, with a small memory for the common ones.
//!
//! Owns the choice of stemmer (Snowball English, also called Porter2). Must not know where words
//! come from.

use rust_stemmers::{Algorithm, Stemmer};

/// Words remembered at most. Text repeats itself: a couple of thousand cover nine words in ten.
const SLOTS: usize = 2048;

/// Words stemmed before any is remembered: a single text is done by then.
const REMEMBERED_AFTER: usize = 512;

/// Shortest word that is stemmed.
const STEMMED_BYTES_MIN: usize = 3;

#[derive(Default, Clone)]
struct Slot {
    word: String,
    stem: String,
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
        // FNV-1a; the worst that chosen words can do is miss.
        let hash = word
            .bytes()
            .fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let slot = &mut self.slots[(hash ^ hash >> 15) as usize % SLOTS];
        if slot.word != word {
            slot.word.clear();
            slot.word.push_str(word);
            slot.stem.clear();
            slot.stem.push_str(&self.stemmer.stem(word));
        }
        out.push_str(&slot.stem);
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
        fn memory_changes_nothing(words in prop::collection::vec("[a-e]{0,8}(ing|ly|s|ed|ness|y|e)?", 1..200)) {
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
