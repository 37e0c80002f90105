//! Stemming of English words, with a small cache for common words.
//!
//! Owns the choice of stemmer (Snowball English, also called Porter2).

use rust_stemmers::{Algorithm, Stemmer};

/// Maximum number of cached words, 32 bytes each. Texts repeat words: this number covers nine words in ten, even in
/// texts with a vocabulary of 50,000.
const SLOTS: usize = 8192;

/// Number of stemmed words before the cache is allocated; a single text usually ends earlier.
const REMEMBERED_AFTER: usize = 512;

/// Minimum length of a stemmed word, in bytes.
const STEMMED_BYTES_MIN: usize = 3;

/// Maximum length of a cached word and of its stem, in bytes.
const SHORT_BYTES_MAX: usize = 15;

/// Short text: its bytes, zero padding, and its length in the last byte. Compares as one number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ShortText([u8; SHORT_BYTES_MAX + 1]);

impl ShortText {
    fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; SHORT_BYTES_MAX + 1];
        bytes[..SHORT_BYTES_MAX].get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        bytes[SHORT_BYTES_MAX] = u8::try_from(text.len()).ok()?;
        Some(Self(bytes))
    }

    fn as_str(&self) -> &str {
        let bytes = &self.0[..usize::from(self.0[SHORT_BYTES_MAX])];
        std::str::from_utf8(bytes).expect("made of a whole text")
    }

    /// Returns the index among [`SLOTS`]: both halves multiplied by odd constants, and the top bits of their
    /// combination. Crafted words can at worst cause cache misses.
    fn slot(&self) -> usize {
        let (halves, _) = self.0.as_chunks::<8>();
        let [low, high] = [0, 1].map(|at: usize| u64::from_le_bytes(halves[at]));
        let mixed = low.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ high.wrapping_mul(0xC2B2_AE3D_27D4_EB4F).rotate_right(17);
        (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % SLOTS
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct StemCacheSlot {
    word: ShortText,
    stem: ShortText,
}

/// Snowball English stemmer for lower-case words.
pub(super) struct CachedStemmer {
    stemmer: Stemmer,
    /// Direct-mapped cache: a word has one slot and evicts its previous word. Empty at first.
    slots: Vec<StemCacheSlot>,
    /// Number of words stemmed before the cache is allocated.
    stemmed: usize,
}

impl CachedStemmer {
    /// Creates a stemmer at no cost; the cache is allocated after [`REMEMBERED_AFTER`] words.
    pub(super) fn new() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English), slots: Vec::new(), stemmed: 0 }
    }

    /// Appends the stem of `word` to `out`. Words with other characters than lower-case ASCII letters stay unchanged.
    pub(super) fn stem(&mut self, word: &str, out: &mut String) {
        if word.len() < STEMMED_BYTES_MIN || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
            out.push_str(word);
            return;
        }
        if self.slots.is_empty() {
            out.push_str(&self.stemmer.stem(word));
            self.stemmed += 1;
            if self.stemmed == REMEMBERED_AFTER {
                self.slots = vec![StemCacheSlot::default(); SLOTS];
            }
            return;
        }
        let Some(short) = ShortText::new(word) else {
            out.push_str(&self.stemmer.stem(word));
            return;
        };
        let slot = &mut self.slots[short.slot()];
        if slot.word != short {
            let stem = self.stemmer.stem(word);
            let Some(stem) = ShortText::new(&stem) else {
                out.push_str(&stem);
                return;
            };
            *slot = StemCacheSlot { word: short, stem };
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
    fn stemmer_matches_the_published_vocabulary() {
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
            CachedStemmer::new().stem(word, &mut out);
            assert_eq!(out, stem, "{word}");
        }
    }

    proptest! {
        #[test]
        fn stem_cache_does_not_change_results(words in prop::collection::vec("[a-e]{0,16}(ing|ly|s|ed|ness|y|e)?", 1..200)) {
            let mut cached = CachedStemmer::new();
            cached.slots = vec![StemCacheSlot::default(); SLOTS];
            for word in words.iter().chain(&words) {
                let mut plain = CachedStemmer::new();
                let (mut one, mut other) = (String::new(), String::new());
                plain.stem(word, &mut one);
                cached.stem(word, &mut other);
                prop_assert_eq!(one, other);
            }
        }

        #[test]
        fn arbitrary_letters_stem_without_panic(word in "[a-z]{0,64}") {
            CachedStemmer::new().stem(&word, &mut String::new());
        }
    }
}
