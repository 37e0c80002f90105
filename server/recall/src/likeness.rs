//! How alike two items are: 1 where they have the same words, else the share of their words that both have.
//!
//! Owns the share, and what is a slip of the pen. What is never the same, however alike the rest is, is `near`'s and
//! the judgement's; this adds that a word of weight in the place of another one is not near-identical either.

use std::borrow::Cow;
use std::collections::HashMap;

use engine::{Damage, Place, Snapshot};

use super::near::{COSINE_APART, Said};
use super::wording::{Class, Word, Wording};
use recalld_claim_check::{Prose, difference};

/// What a word weighs that holds others together, and what any other does: whole numbers, whose sums are the same from
/// either side.
const FILLER_WEIGHT: u32 = 5;
const WEIGHT: u32 = 50;
/// Fifths that two words have in common of which one is the other misspelt.
const MISSPELT_FIFTHS: u32 = 4;
/// The most that two texts are alike of which each has a word of weight that the other has not.
const REPLACED_SCORE: f32 = 0.9;
/// Letters of a word in which one may be wrong, and in which two may be.
const ONE_WRONG_CHARS: usize = 5;
const TWO_WRONG_CHARS: usize = 8;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Words that one text has beyond the other, of which slips are looked for.
    const SLIPS_LOOKED_AT: usize = 32;
    /// Bytes of a word in which slips are looked for: what that takes grows with the square of them.
    const SLIP_BYTES_MAX: usize = 64;
    /// Words of each that are told where two differ, and characters of one.
    const TOLD_MAX: usize = 8;
    const TOLD_CHARS_MAX: usize = 40;
    /// Digits of the number before a point of a list.
    const POINT_DIGITS_MAX: usize = 2;
}

/// What is the same in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Same {
    /// The text, to the letter.
    Text,
    /// The words; case, punctuation or layout differ.
    Words,
    /// Most of the words.
    MostWords,
}

impl Same {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Words => "words",
            Self::MostWords => "most words",
        }
    }
}

/// How alike two items are.
#[derive(Debug, Clone, PartialEq)]
pub struct Likeness {
    /// 0 to 1.
    pub score: f32,
    /// What both have.
    pub same: Same,
    /// Words that the one has in place of, or beside, those of the other; the first of them.
    pub differs: [Vec<String>; 2],
}

impl Likeness {
    fn whole(same: Same) -> Self {
        Self { score: 1.0, same, differs: [Vec::new(), Vec::new()] }
    }
}

/// An item, read once for all that it is held against.
pub struct Twin<'a> {
    said: Said<'a>,
    /// Whether its title says more than how its text begins.
    is_titled: bool,
}

impl<'a> Twin<'a> {
    /// # Errors
    /// Damage.
    pub fn of(snapshot: &'a Snapshot, place: Place) -> Result<Self, Damage> {
        Ok(Self::reading(Said::of(snapshot, place, 0.0)?))
    }

    /// One that stands in no store, and has no vector.
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

    /// How alike both are; `None` where they differ in what is never the same, or speak of other times.
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
        // In one order, so that it is the same from either side.
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

/// The words of a text, numbers in one spelling.
fn reading_of(text: &Wording) -> impl Iterator<Item = &str> {
    text.words().map(|word| if word.class == Class::Plain { word.spelled } else { word.stem })
}

/// A word where it stands.
#[derive(Debug, Clone, Copy)]
struct Standing<'a> {
    word: Word<'a>,
    number: usize,
    /// Whether it is written as a name, and whether no beginning of a statement made it one.
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

/// The words of a text, where they stand.
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

/// What two texts share, and what each has alone.
struct Shared<'a> {
    /// What the shared words weigh, and what all words of both do.
    weights: (u32, u32),
    /// Words that each has alone and that no slip explains.
    alone: [Vec<Standing<'a>>; 2],
    /// Two spellings of one word.
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

    /// Takes words from those that each has alone of which one is the other misspelt.
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
        // A name stands in the place of another.
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

/// Takes two words in a row of the one that are one word of the other, such as `time-out`, and gives what they weigh.
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

/// Whether one is the other with a slip of the pen. A number, a name or a negation has none: it says something else.
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
        // `teh`: two neighbours of a word that holds others together changed places.
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

/// A text with the numbers of its lists' points as dashes: `2. Trim the wick` is a point wherever it stands.
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

/// What a numbered point says.
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
        // A slip would make them 0.9 alike.
        let long = |end: &str| format!("The {}{end} burns.", "z".repeat(4 * SLIP_BYTES_MAX));
        let found = likeness(&long(""), &long("y"));
        assert!(found.is_none_or(|found| found.score < 0.8));
    }
}
