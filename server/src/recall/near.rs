//! Items that say the same: near-duplicates, of which an answer gives one.
//!
//! Owns when two texts are the same for a reader, and which of two items stays. What differs in a
//! number, a date, a negation or a state is never the same, however alike the rest is: that is a
//! conflict, and a reader must see both.

use std::cell::OnceCell;
use std::collections::HashSet;

use engine::{Damage, Micros, Place, Snapshot, Status};
use half::f16;

use super::wording::{BYTES_MAX, Class, words};

/// Words of a shingle.
const SHINGLE_WORDS: usize = 3;
/// Share of shingles that two texts have in common, at the least.
const SHINGLES_ALIKE: f32 = 0.9;
/// Cosine of two embeddings from which on texts may be the same though their shingles differ more.
const COSINE_ALIKE: f32 = 0.97;
/// Share of words that such texts have in common, at the least.
const WORDS_ALIKE: f32 = 0.8;
/// Words of a text that says by itself what it speaks of. What a shorter one speaks of may stand in its
/// title: `8080`.
const WORDS_ENOUGH: usize = 20;
/// Cosine below which no two texts are the same: their words need not be looked at.
const COSINE_APART: f32 = 0.8;

/// What is compared of one item.
pub(super) struct Said<'a> {
    sha256: [u8; 32],
    title: &'a str,
    text: &'a str,
    /// Made when it is first asked for: most pairs are told apart without it.
    wording: OnceCell<Wording>,
    embedding: Option<&'a [f16]>,
    /// What speaks for the item, in this order: that it is current, that it has more of the question's
    /// words (texts that are nearly the same, or stand under other titles, may differ in the one that was
    /// asked for), that it is new, that a source stands behind it.
    standing: (bool, f32, Micros, bool),
}

struct Wording {
    words: HashSet<u64>,
    shingles: HashSet<u64>,
    /// What must be the same, in the order of the alphabet.
    weighty: Vec<String>,
}

impl<'a> Said<'a> {
    /// `covered` is what the question's words weigh that the item has.
    pub(super) fn of(snapshot: &'a Snapshot, place: Place, covered: f32) -> Result<Self, Damage> {
        let item = snapshot.item(place)?;
        let is_current = snapshot.status(place)? == Status::Current;
        Ok(Self {
            sha256: item.content_sha256,
            title: item.title,
            text: item.text,
            wording: OnceCell::new(),
            embedding: snapshot.embedding(place)?,
            standing: (is_current, covered, item.recorded_at, item.source.is_some()),
        })
    }

    /// Whether both say the same of the same.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.has_text_like(other) && (self.is_long() && other.is_long() || self.has_title_of(other))
    }

    fn is_long(&self) -> bool {
        words(self.text).take(WORDS_ENOUGH).count() == WORDS_ENOUGH
    }

    fn has_title_of(&self, other: &Self) -> bool {
        words(self.title).map(|word| word.spelled).eq(words(other.title).map(|word| word.spelled))
    }

    fn has_text_like(&self, other: &Self) -> bool {
        if self.sha256 == other.sha256 {
            return true;
        }
        let cosine = match (self.embedding, other.embedding) {
            (Some(one), Some(other)) => Some(cosine(one, other)),
            _ => None,
        };
        let longest = self.text.len().max(other.text.len());
        if longest > BYTES_MAX || cosine.is_some_and(|cosine| cosine < COSINE_APART) {
            return false;
        }
        let (one, two) = (self.wording(), other.wording());
        if one.words.is_empty() || one.weighty != two.weighty {
            return false;
        }
        alike(&one.shingles, &two.shingles) >= SHINGLES_ALIKE
            || alike(&one.words, &two.words) >= WORDS_ALIKE
                && cosine.is_some_and(|cosine| cosine >= COSINE_ALIKE)
    }

    fn wording(&self) -> &Wording {
        self.wording.get_or_init(|| Wording::of(self.text))
    }

    /// Whether it is the one to keep of two that say the same.
    pub(super) fn is_better_than(&self, other: &Self) -> bool {
        self.standing > other.standing
    }
}

impl Wording {
    fn of(text: &str) -> Self {
        let all: Vec<_> = words(text).collect();
        let weighs = |class: Class| !matches!(class, Class::Plain | Class::Filler);
        let weighty = all.iter().filter(|word| weighs(word.class));
        let mut weighty: Vec<String> = weighty.map(|word| word.stem.clone()).collect();
        weighty.sort_unstable();
        let spelled: Vec<&str> = all.iter().map(|word| word.spelled.as_str()).collect();
        let mut shingles: HashSet<u64> = spelled.windows(SHINGLE_WORDS).map(hash).collect();
        if shingles.is_empty() && !spelled.is_empty() {
            shingles.insert(hash(&spelled));
        }
        Self { words: spelled.iter().map(|word| hash(&[word])).collect(), shingles, weighty }
    }
}

/// FNV-1a of some words in order.
fn hash(words: &[&str]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.bytes().chain([b' ']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What two sets have in common, as a share of what either has.
fn alike(one: &HashSet<u64>, other: &HashSet<u64>) -> f32 {
    let common = one.intersection(other).count();
    let either = one.len() + other.len() - common;
    #[expect(clippy::cast_precision_loss, reason = "words of a bounded text")]
    let share = common as f32 / either.max(1) as f32;
    share
}

fn cosine(a: &[f16], b: &[f16]) -> f32 {
    if a.len() != b.len() {
        return 0.0;
    }
    let mut sums = [0.0f32; 3];
    for (a, b) in a.iter().zip(b).map(|(a, b)| (a.to_f32(), b.to_f32())) {
        sums[0] += a * b;
        sums[1] += a * a;
        sums[2] += b * b;
    }
    let lengths = (sums[1] * sums[2]).sqrt();
    if lengths > 0.0 { sums[0] / lengths } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<'a>(text: &'a str, embedding: Option<&'a [f16]>) -> Said<'a> {
        let mut sha256 = [0; 32];
        sha256[..8].copy_from_slice(&hash(&[text]).to_le_bytes());
        let (wording, standing) = (OnceCell::new(), (true, 0.0, Micros(0), false));
        Said { sha256, title: "", text, wording, embedding, standing }
    }

    fn is_like(one: &str, other: &str) -> bool {
        let there = said(one, None).is_like(&said(other, None));
        assert_eq!(there, said(other, None).is_like(&said(one, None)), "{one} / {other}");
        there
    }

    const LONG: &str = "The keeper trims the wick at dusk, polishes the lens of the lamp, winds the \
                        clockwork that turns it, writes the wind and the glass into the log, and \
                        hangs the yellow flag above the black ball when the reef is not safe.";

    #[test]
    fn the_same_words_are_the_same_whatever_stands_between_them() {
        assert!(is_like("We chose paraffin.", "we chose  PARAFFIN"));
        assert!(is_like(LONG, &LONG.replace(", ", "\n- ")));
        assert!(is_like(LONG, &format!("{LONG} Always.")));
        assert!(!is_like(LONG, "The keeper trims the wick at dusk."));
        assert!(!is_like("", "..."), "there is nothing to compare");
        assert!(is_like("...", "..."));
    }

    #[test]
    fn what_weighs_is_never_passed_over() {
        for (from, to) in [("is not safe", "is safe"), ("dusk,", "dusk 3,"), ("safe", "unsafe")] {
            assert!(!is_like(LONG, &LONG.replace(from, to)), "{from} / {to}");
        }
        assert!(!is_like("It is wound every nineteen minutes", "It is wound every ninety minutes"));
    }

    #[test]
    fn a_short_text_is_the_same_under_the_same_title_alone() {
        let titled = |title, text| Said { title, ..said(text, None) };
        let there = titled("Deploy port: gateway", "It is 8080.");
        assert!(there.is_like(&titled("deploy port gateway", "It is 8080.")));
        assert!(!there.is_like(&titled("Deploy port: mail", "It is 8080.")));
        assert!(titled("Log", LONG).is_like(&titled("Handbook", LONG)));
    }

    #[test]
    fn embeddings_speak_for_texts_whose_words_are_much_alike() {
        const NORTH: &[f16] = &[f16::ONE, f16::ZERO];
        const EAST: &[f16] = &[f16::ZERO, f16::ONE];
        let one = "paraffin is kept in the north shed beside the pier since winter";
        let other = "paraffin is kept in the north shed near the pier since winter";
        let like = |a, b| said(one, a).is_like(&said(other, b));
        assert!(like(Some(NORTH), Some(NORTH)));
        assert!(!like(Some(NORTH), Some(EAST)) && !like(Some(NORTH), None) && !like(None, None));
        let apart = said("herring is salted for the crew", Some(NORTH));
        assert!(!apart.is_like(&said(one, Some(NORTH))), "its words are others");
    }

    #[test]
    fn texts_too_long_to_compare_are_the_same_to_the_letter_alone() {
        let long = "word and word ".repeat(BYTES_MAX);
        assert!(is_like(&long, &long));
        assert!(!is_like(&long, &long.to_uppercase()));
    }

    #[test]
    fn what_is_current_stays_then_what_was_asked_for_then_what_is_new_then_what_has_a_source() {
        let of = |current, covered, at, sourced| Said {
            standing: (current, covered, Micros(at), sourced),
            ..said("", None)
        };
        assert!(of(true, 1.0, 1, false).is_better_than(&of(false, 2.0, 2, true)));
        assert!(of(true, 2.0, 1, false).is_better_than(&of(true, 1.0, 2, true)));
        assert!(of(true, 1.0, 2, false).is_better_than(&of(true, 1.0, 1, true)));
        assert!(of(true, 1.0, 1, true).is_better_than(&of(true, 1.0, 1, false)));
        assert!(!of(true, 1.0, 1, true).is_better_than(&of(true, 1.0, 1, true)));
    }
}
