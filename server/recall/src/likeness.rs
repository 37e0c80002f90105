//! Similarity of two items: 1 for equal words, else the weighted share of words in common.
//!
//! Computes the share, and recognizes misspellings. Differences in numbers, names, negations and the like are left to
//! the near-duplicate and entailment rules. In addition, a content word in the place of another limits the similarity.

use std::borrow::Cow;
use std::collections::HashMap;

use engine::{CorruptionError, RowAddress, Snapshot};

use super::near::{COSINE_APART, Said};
use super::wording::{Class, Word, Wording};
use recalld_claim_check::{Prose, difference};

/// Weights of a filler word and of any other word: integers, so that sums are equal from either side.
const FILLER_WEIGHT: u32 = 5;
const WEIGHT: u32 = 50;
/// Fifths of a word's weight that count as shared for a misspelling of the other word.
const MISSPELT_FIFTHS: u32 = 4;
/// Highest similarity of two texts that each have a content word the other lacks.
const REPLACED_SCORE: f32 = 0.9;
/// Fewest letters of a word for one typo, and for two.
const ONE_WRONG_CHARS: usize = 5;
const TWO_WRONG_CHARS: usize = 8;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Unmatched words of a text, up to which misspellings are searched for.
    const SLIPS_LOOKED_AT: usize = 32;
    /// Bytes of a word, up to which misspellings are searched for: the cost is quadratic in the length.
    const SLIP_BYTES_MAX: usize = 64;
    /// Words of each text in `differs`, and characters of a word.
    const TOLD_MAX: usize = 8;
    const TOLD_CHARS_MAX: usize = 40;
    /// Digits of a list item's number.
    const POINT_DIGITS_MAX: usize = 2;
}

/// Extent to which two items are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Same {
    /// Identical text, byte for byte.
    Text,
    /// Equal words; case, punctuation or layout differ.
    Words,
    /// Most words are equal.
    MostWords,
}

impl Same {
    /// Name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Words => "words",
            Self::MostWords => "most words",
        }
    }
}

/// Similarity of two items.
#[derive(Debug, Clone, PartialEq)]
pub struct Likeness {
    /// Score, 0 to 1.
    pub score: f32,
    /// Extent of equality.
    pub same: Same,
    /// The first differing words of each item.
    pub differs: [Vec<String>; 2],
}

impl Likeness {
    fn whole(same: Same) -> Self {
        Self { score: 1.0, same, differs: [Vec::new(), Vec::new()] }
    }
}

/// Item prepared once for all comparisons.
pub struct Twin<'a> {
    said: Said<'a>,
    /// True if the title is more than the beginning of the text.
    is_titled: bool,
}

impl<'a> Twin<'a> {
    /// Loads a stored item.
    ///
    /// # Errors
    /// Corruption.
    pub fn of(snapshot: &'a Snapshot, place: RowAddress) -> Result<Self, CorruptionError> {
        Ok(Self::reading(Said::of(snapshot, place, 0.0)?))
    }

    /// Prepares a text that is not stored, and has no vector.
    pub fn of_text(title: &'a str, text: &'a str) -> Self {
        Self::reading(Said::of_text(title, text))
    }

    fn reading(said: Said<'a>) -> Self {
        let text = said.text();
        let said = said.worded(Wording::of(&with_plain_points(text)));
        let title = said.title_words().words().map(|word| word.spelled);
        let begin = said.words().words().take(said.title_words().len());
        let is_titled = !title.eq(begin.map(|word| word.spelled));
        Self { said, is_titled }
    }

    /// Returns the similarity, or `None` if the items differ in a way that always makes them distinct, or their
    /// validity periods do not overlap.
    pub fn likeness(&self, other: &Self) -> Option<Likeness> {
        let (one, two) = (&self.said, &other.said);
        let is_of_one = one.is_long() && two.is_long()
            || one.has_title_of(two)
            || !self.is_titled && !other.is_titled;
        if !is_of_one || !one.meets(two) {
            return None;
        }
        if one.has_text_of(two) {
            return Some(Likeness::whole(Same::Text));
        }
        if !one.can_be_compared_to(two) || !one.weighs_as(two) {
            return None;
        }
        if reading_of(one.words()).eq(reading_of(two.words())) {
            return Some(Likeness::whole(Same::Words));
        }
        if one.cosine_to(two).is_some_and(|cosine| cosine < COSINE_APART) || !one.has_order_of(two)
        {
            return None;
        }
        // Compares in a fixed order, so that the result is equal from either side.
        let is_turned = one.text() > two.text();
        let (first, second) = if is_turned { (two, one) } else { (one, two) };
        let mut found = Shared::of(first.words(), second.words()).likeness()?;
        if is_turned {
            found.differs.reverse();
        }
        let prose = |said: &Said<'_>| Prose::of(said.title(), said.text());
        let differs = difference(&prose(first), &prose(second), one.cosine_to(two)).is_some();
        (!differs).then_some(found)
    }
}

/// Words of a text, with numbers in one spelling.
fn reading_of(text: &Wording) -> impl Iterator<Item = &str> {
    text.words().map(|word| if word.class == Class::Plain { word.spelled } else { word.stem })
}

/// Word with its position in the text.
#[derive(Debug, Clone, Copy)]
struct Standing<'a> {
    word: Word<'a>,
    number: usize,
    /// `is_name`: written as a name. `is_inner_name`: as a name, and not at the beginning of a statement.
    is_name: bool,
    is_inner_name: bool,
}

impl Standing<'_> {
    fn weight(&self) -> u32 {
        if self.is_heavy() { WEIGHT } else { FILLER_WEIGHT }
    }

    fn is_heavy(&self) -> bool {
        self.word.class != Class::Filler
    }
}

fn standing(text: &Wording) -> Vec<Standing<'_>> {
    let begins: Vec<usize> = text.ranges().map(|words| words.start).collect();
    let is_name = |word: &Word<'_>| word.is_name && word.class != Class::Filler;
    let words = text.words().enumerate();
    let words = words.map(|(number, word)| Standing {
        word,
        number,
        is_name: is_name(&word),
        is_inner_name: is_name(&word) && begins.binary_search(&number).is_err(),
    });
    words.collect()
}

/// Alignment of the words of two texts.
struct Shared<'a> {
    /// Weight of the shared words, and of all words of both texts.
    weights: (u32, u32),
    /// Words of each text without a counterpart or a misspelling in the other.
    alone: [Vec<Standing<'a>>; 2],
    /// Misspellings: the spelling in each text.
    slips: Vec<[&'a str; 2]>,
}

impl<'a> Shared<'a> {
    fn of(one: &'a Wording, other: &'a Wording) -> Self {
        let (left, right) = (standing(one), standing(other));
        let all = left.iter().chain(&right).map(Standing::weight).sum();
        let mut found = Self { weights: (0, all), alone: Default::default(), slips: Vec::new() };
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, it) in right.iter().enumerate().rev() {
            places.entry(it.word.stem).or_default().push(at);
        }
        let mut is_shared = vec![false; right.len()];
        for it in left {
            match places.get_mut(it.word.stem).and_then(Vec::pop) {
                Some(at) => {
                    is_shared[at] = true;
                    found.weights.0 += it.weight() + right[at].weight();
                }
                None => found.alone[0].push(it),
            }
        }
        let rest = right.into_iter().zip(is_shared).filter(|(_, is_shared)| !is_shared);
        found.alone[1].extend(rest.map(|(it, _)| it));
        let [left, right] = &mut found.alone;
        if left.len().max(right.len()) <= SLIPS_LOOKED_AT {
            found.weights.0 += join(left, right) + join(right, left);
            found.find_slips();
        }
        found
    }

    /// Moves pairs of misspellings out of the unmatched words.
    fn find_slips(&mut self) {
        let [left, right] = &mut self.alone;
        left.retain(|one| {
            let Some(at) = right.iter().position(|other| is_slip(one, other)) else { return true };
            let other = right.remove(at);
            self.weights.0 += (one.weight() + other.weight()) / 5 * MISSPELT_FIFTHS;
            self.slips.push([one.word.spelled, other.word.spelled]);
            false
        });
    }

    fn likeness(self) -> Option<Likeness> {
        let [left, right] = &self.alone;
        let has_name = |of: &[Standing<'_>]| of.iter().any(|it| it.is_name);
        let has_inner = |of: &[Standing<'_>]| of.iter().any(|it| it.is_inner_name);
        let has_heavy = |of: &[Standing<'_>]| of.iter().any(Standing::is_heavy);
        // A name replaces another name.
        if has_name(left) && has_name(right) {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "words of a bounded text")]
        let mut score = self.weights.0 as f32 / self.weights.1.max(1) as f32;
        if has_heavy(left) && has_heavy(right) || has_inner(left) || has_inner(right) {
            score = score.min(REPLACED_SCORE);
        }
        let told = |side: usize| {
            let slips = self.slips.iter().map(|slip| slip[side]);
            let words = slips.chain(self.alone[side].iter().map(|it| it.word.spelled));
            let cut = |word: &str| word.chars().take(TOLD_CHARS_MAX).collect();
            words.take(TOLD_MAX).map(cut).collect()
        };
        Some(Likeness { score, same: Same::MostWords, differs: [told(0), told(1)] })
    }
}

/// Matches two adjacent words of one text with the same compound in the other, such as `time-out`. Returns their
/// weight.
fn join(split: &mut Vec<Standing<'_>>, whole: &mut Vec<Standing<'_>>) -> u32 {
    let mut weight = 0;
    let mut at = 0;
    while let [first, second, ..] = split[at..] {
        let is_whole = |it: &Standing<'_>| {
            let rest = it.word.spelled.strip_prefix(first.word.spelled);
            rest == Some(second.word.spelled) && it.word.class == Class::Plain
        };
        let found = whole.iter().position(is_whole).filter(|_| first.number + 1 == second.number);
        match found {
            Some(of) => {
                weight += first.weight() + second.weight() + whole.remove(of).weight();
                split.drain(at..at + 2);
            }
            None => at += 1,
        }
    }
    weight
}

/// Returns true if one word is a misspelling of the other. A difference in a number, a name or a negation is none, as
/// it changes the meaning.
fn is_slip(one: &Standing<'_>, other: &Standing<'_>) -> bool {
    let (a, b) = (one.word.spelled, other.word.spelled);
    let is_open = |it: &Standing<'_>| {
        let has_digit = it.word.spelled.contains(|c: char| c.is_ascii_digit() || c == '_');
        matches!(it.word.class, Class::Plain | Class::Filler) && !it.is_inner_name && !has_digit
    };
    let is_short = a.len().max(b.len()) <= SLIP_BYTES_MAX;
    if !is_short || !is_open(one) || !is_open(other) {
        return false;
    }
    if one.is_heavy() != other.is_heavy() {
        // `teh`: two adjacent letters of a filler are swapped.
        return a.len() == b.len() && a.len() > 2 && strsim::osa_distance(a, b) == 1 && {
            let sorted = |word: &str| {
                let mut letters: Vec<char> = word.chars().collect();
                letters.sort_unstable();
                letters
            };
            sorted(a) == sorted(b)
        };
    }
    if one.is_name || other.is_name {
        return false;
    }
    let shortest = a.chars().count().min(b.chars().count());
    let wrong_max = match shortest {
        TWO_WRONG_CHARS.. => 2,
        ONE_WRONG_CHARS.. => 1,
        _ => return false,
    };
    a.chars().next() == b.chars().next() && strsim::osa_distance(a, b) <= wrong_max
}

/// Replaces the numbers of list items by dashes: `2. Trim the wick` is the same item at any position.
fn with_plain_points(text: &str) -> Cow<'_, str> {
    let mut plain = String::new();
    let mut is_list = true;
    let mut has_points = false;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start_matches([' ', '\t']);
        match point(bare).filter(|_| is_list) {
            Some(said) => {
                has_points = true;
                plain.push_str("- ");
                plain.push_str(said);
            }
            None => {
                plain.push_str(line);
                let ended = bare.trim_end();
                is_list = ended.is_empty() || ended.ends_with(['.', ':', ';', '!', '?']);
            }
        }
    }
    if has_points { Cow::Owned(plain) } else { Cow::Borrowed(text) }
}

/// Returns the text of a numbered list item.
fn point(line: &str) -> Option<&str> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let behind = line.get(digits..)?.strip_prefix(['.', ')'])?.strip_prefix(' ')?;
    let is_point = (1..=POINT_DIGITS_MAX).contains(&digits) && !behind.trim().is_empty();
    is_point.then_some(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeness(one: &str, other: &str) -> Option<Likeness> {
        let [one, other] = [one, other].map(|text| Twin::of_text("", text));
        let (there, back) = (one.likeness(&other), other.likeness(&one));
        let score = |found: &Option<Likeness>| found.as_ref().map(|found| found.score);
        assert_eq!(score(&there), score(&back));
        there
    }

    #[test]
    fn the_same_words_are_the_same_however_they_are_laid_out() {
        let one = likeness("The lamp burns.", "The lamp burns.").unwrap();
        assert_eq!((one.score, one.same), (1.0, Same::Text));
        for (one, other) in [
            ("The lamp burns.", "the LAMP burns"),
            ("1. Trim it.\n2. Light it.", "- Trim it.\n- Light it."),
            ("Steps:\n1) Trim it\n2) Light it", "Steps: trim it; light it."),
            ("It takes five days.", "It takes 5 days."),
        ] {
            let found = likeness(one, other).unwrap();
            assert_eq!((found.score, found.same), (1.0, Same::Words), "{one} / {other}");
        }
    }

    #[test]
    fn numbers_of_points_are_no_numbers_and_others_are() {
        assert_eq!(with_plain_points("1. a\n2. b"), "- a\n- b");
        assert_eq!(with_plain_points("Due on March\n12. Then"), "Due on March\n12. Then");
        assert_eq!(with_plain_points("2024. A year"), "2024. A year");
        assert_eq!(with_plain_points("8. "), "8. ");
        assert!(likeness("Due on March\n12. Then on", "Due on March\n13. Then on").is_none());
    }

    #[test]
    fn a_slip_costs_little_and_another_word_more_than_a_near_duplicate_may() {
        let one = "The keeper writes the height of the tide into the large book at dawn.";
        let slip = likeness(one, &one.replace("height", "hieght")).unwrap();
        assert!(slip.score > 0.95 && slip.score < 1.0, "{slip:?}");
        assert_eq!(slip.differs, [["height"], ["hieght"]]);
        let joined = likeness("The time-out is long.", "The timeout is long.").unwrap();
        assert_eq!((joined.score, joined.same), (1.0, Same::MostWords));
        let other = likeness(one, &one.replace("large", "small")).unwrap();
        assert!(other.score <= REPLACED_SCORE, "{other:?}");
        let named = likeness(one, &one.replace("book", "book of Ada")).unwrap();
        assert!(named.score <= REPLACED_SCORE, "{named:?}");
        let [bob, ada] = ["Bob", "Ada"].map(|name| one.replace("book", &format!("book of {name}")));
        assert!(likeness(&bob, &ada).is_none());
    }

    #[test]
    fn a_title_that_says_more_than_the_text_tells_short_texts_apart() {
        let twin = Twin::of_text;
        let there = twin("Port of the gateway", "It is 8080.");
        assert!(there.likeness(&twin("Port of the relay", "It is 8080.")).is_none());
        assert!(there.likeness(&twin("port of the gateway:", "it is 8080")).is_some());
        let named_by_itself = twin("It is 8080.", "It is 8080. Ask Ada.");
        assert!(named_by_itself.likeness(&twin("", "It is 8080, ask Ada")).is_some());
    }

    #[test]
    fn foreign_texts_are_compared_within_bounds() {
        for text in ["", "...", "1. ", "\u{130}\u{301}".repeat(9).as_str(), &"a ".repeat(9_000)] {
            let _ = likeness(text, "The lamp burns.");
            assert!(likeness(text, text).is_some());
        }
        // If typos were searched for here, the similarity would be 0.9.
        let long = |end: &str| format!("The {}{end} burns.", "z".repeat(4 * SLIP_BYTES_MAX));
        let found = likeness(&long(""), &long("y"));
        assert!(found.is_none_or(|found| found.score < 0.8));
    }
}
