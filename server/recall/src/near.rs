//! Near-duplicates: items with equal content for a reader, of which an answer has one.
//!
//! Decides whether two texts are near-duplicates, and which item is preferred. Texts that differ in a number, date,
//! negation or state are never near-duplicates: the difference is a conflict, and a reader must see both. Nor are texts
//! with the same words in another order: `Alice reports to Bob`.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::hash::Hasher;
use std::ops::Range;

use engine::{CorruptionError, Micros, RowAddress, Snapshot, Status};
use half::f16;
use sha2::{Digest, Sha256};

use super::conflicts::{Claims, Conflict, judged};
use super::signs::has_signs_of;
use super::wording::{BYTES_MAX, Class, Fnv, Word, Wording, hash};
use recalld_claim_check::Prose;
use recalld_common::own_kinds::says_something;

/// Words per shingle.
const SHINGLE_WORDS: usize = 3;
/// Lowest Jaccard similarity of two texts' shingles.
const SHINGLES_ALIKE: f32 = 0.9;
/// Lowest cosine of texts that may be near-duplicates although their shingles differ more.
const COSINE_ALIKE: f32 = 0.97;
/// Lowest Jaccard similarity of the words of two texts at this cosine.
const WORDS_ALIKE: f32 = 0.8;
/// Fewest words of a text that names its own subject. The subject of a shorter text (`8080`) may be only in its title.
const WORDS_ENOUGH: usize = 20;
/// Fewest words of a statement that may move within the text. A shorter statement depends on its neighbours.
const WORDS_TO_MOVE: usize = 4;
/// Cosine below which texts are distinct without a comparison of words.
pub(super) const COSINE_APART: f32 = 0.8;

/// Lowest cosine for the entailment rules: texts below have different subjects.
const COSINE_JUDGED: f32 = 0.7;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of a text that the entailment rules read, to bound the latency of an answer.
    const JUDGED_BYTES_MAX: usize = 1 << 10;
}

/// Words that change a statement's meaning and that embeddings hardly distinguish: of order, place, amount, duty and
/// condition.
const TURNING: [&str; 41] = [
    "before",
    "after",
    "first",
    "last",
    "above",
    "below",
    "up",
    "down",
    "left",
    "right",
    "north",
    "south",
    "east",
    "west",
    "more",
    "less",
    "fewer",
    "most",
    "least",
    "minimum",
    "maximum",
    "increase",
    "decrease",
    "increases",
    "decreases",
    "must",
    "should",
    "may",
    "all",
    "some",
    "only",
    "old",
    "new",
    "read",
    "write",
    "if",
    "unless",
    "except",
    "until",
    "might",
    "could",
];

/// Text of an item, prepared once for all comparisons: near-duplicates and conflicts.
pub(super) struct Said<'a> {
    sha256: [u8; 32],
    title: &'a str,
    text: &'a str,
    embedding: Option<&'a [f16]>,
    /// Preference among near-duplicates, in this order: current, covers more of the question's terms, newer, has a
    /// source. Coverage counts because near-identical texts, or their titles, may differ in the very word of the
    /// question.
    standing: (bool, f32, Micros, bool),
    says_something: bool,
    /// Validity period: start and end.
    valid: (Option<Micros>, Option<Micros>),
    /// Computed on first use: most pairs are decided without these.
    read_title: OnceCell<Wording>,
    read_text: OnceCell<Wording>,
    compared: OnceCell<Compared>,
    prose: OnceCell<Prose>,
}

/// Features of a text for comparison.
struct Compared {
    /// Hashes of the words, in order.
    text: Vec<u64>,
    /// Hashes of the words and of the shingles, each ascending and unique.
    words: Vec<u64>,
    shingles: Vec<u64>,
    /// Hashes of the words written as names.
    names: Vec<u64>,
    /// Hashes of the names that are not at the beginning of a statement, ascending.
    inner_names: Vec<u64>,
    /// Range of word numbers of each statement.
    statements: Vec<Range<usize>>,
    /// Numbers of the salient words, which must be equal and in equal order.
    weighty: Vec<usize>,
}

impl<'a> Said<'a> {
    /// Loads an item. `covered` is the weight of the question's content terms in the item.
    pub(super) fn of(
        snapshot: &'a Snapshot,
        place: RowAddress,
        covered: f32,
    ) -> Result<Self, CorruptionError> {
        let item = snapshot.item(place)?;
        let is_current = snapshot.status(place)? == Status::Current;
        Ok(Self {
            sha256: item.content_sha256,
            title: item.title,
            text: item.text,
            embedding: snapshot.embedding(place)?,
            standing: (is_current, covered, item.recorded_at, item.source.is_some()),
            says_something: says_something(item.kind),
            valid: (item.valid_from, item.valid_to),
            read_title: OnceCell::new(),
            read_text: OnceCell::new(),
            compared: OnceCell::new(),
            prose: OnceCell::new(),
        })
    }

    pub(super) fn is_current(&self) -> bool {
        self.standing.0
    }

    /// Returns true for content of a user, false for records of the service, which never conflict: two reminders of one
    /// task.
    pub(super) fn says_something(&self) -> bool {
        self.says_something
    }

    /// Returns true if the validity periods overlap.
    pub(super) fn meets(&self, other: &Self) -> bool {
        let begins_in_time = |one: &Self, other: &Self| {
            other.valid.1.is_none_or(|to| one.valid.0.is_none_or(|from| from < to))
        };
        begins_in_time(self, other) && begins_in_time(other, self)
    }

    /// Statements of the text. For a short text, the title is part of the subject.
    pub(super) fn claims(&self) -> Claims<'_> {
        Claims::of(self.words(), || self.title_words())
    }

    /// Finds a conflict with a differently worded text, by entailment rules.
    pub(super) fn judged_against(&self, other: &Self) -> Option<Conflict> {
        let near = self.cosine_to(other);
        let is_short = |said: &Self| said.text.len() <= JUDGED_BYTES_MAX;
        if near.is_some_and(|near| near < COSINE_JUDGED) || !is_short(self) || !is_short(other) {
            return None;
        }
        let (one, two) = ((self.prose(), self.words()), (other.prose(), other.words()));
        judged(one, two, near)
    }

    fn prose(&self) -> &Prose {
        self.prose.get_or_init(|| Prose::of(self.title, self.text))
    }

    /// Prepares a text that is not stored.
    pub(super) fn of_text(title: &'a str, text: &'a str) -> Self {
        Self {
            sha256: Sha256::digest(text.as_bytes()).into(),
            title,
            text,
            embedding: None,
            standing: (true, 0.0, Micros(0), false),
            says_something: true,
            valid: (None, None),
            read_title: OnceCell::new(),
            read_text: OnceCell::new(),
            compared: OnceCell::new(),
            prose: OnceCell::new(),
        }
    }

    /// Replaces the words of the text by another wording.
    pub(super) fn worded(self, wording: Wording) -> Self {
        Self { read_text: OnceCell::from(wording), ..self }
    }

    /// Returns true if the items are near-duplicates.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.has_text_like(other) && (self.is_long() && other.is_long() || self.has_title_of(other))
    }

    pub(super) fn is_long(&self) -> bool {
        self.words().len() >= WORDS_ENOUGH
    }

    pub(super) fn has_title_of(&self, other: &Self) -> bool {
        let (one, other) = (self.title_words().words(), other.title_words().words());
        one.map(|word| word.spelled).eq(other.map(|word| word.spelled))
    }

    fn has_text_like(&self, other: &Self) -> bool {
        if self.has_text_of(other) {
            return true;
        }
        let cosine = self.cosine_to(other);
        if cosine.is_some_and(|cosine| cosine < COSINE_APART) || !self.can_be_compared_to(other) {
            return false;
        }
        let (one, two) = (self.compared(), other.compared());
        if !self.weighs_as(other) || one.names_another(two) {
            return false;
        }
        let is_alike = alike(&one.shingles, &two.shingles) >= SHINGLES_ALIKE
            || alike(&one.words, &two.words) >= WORDS_ALIKE
                && cosine.is_some_and(|cosine| cosine >= COSINE_ALIKE);
        is_alike && self.has_order_of(other)
    }

    /// Returns true if the texts are identical, byte for byte.
    pub(super) fn has_text_of(&self, other: &Self) -> bool {
        self.sha256 == other.sha256
    }

    /// Returns true if both texts have words, and neither exceeds `BYTES_MAX`.
    pub(super) fn can_be_compared_to(&self, other: &Self) -> bool {
        let has_few = |said: &Self| said.text.len() <= BYTES_MAX;
        has_few(self) && has_few(other) && self.words().len() > 0 && other.words().len() > 0
    }

    /// Cosine of both embeddings, if both exist.
    pub(super) fn cosine_to(&self, other: &Self) -> Option<f32> {
        Some(cosine(self.embedding?, other.embedding?))
    }

    /// Returns true if both texts have equal salient words and significant signs, in equal order. Salient are numbers
    /// with what they count, dates, negations, states and contrast words.
    pub(super) fn weighs_as(&self, other: &Self) -> bool {
        self.weighty().eq(other.weighty()) && has_signs_of(self.text, other.text)
    }

    /// Returns true if names, and words of equal count in both texts, are in equal order.
    pub(super) fn has_order_of(&self, other: &Self) -> bool {
        let (one, two) = (self.compared(), other.compared());
        one.has_names_as_in(two) && one.has_order_of(two)
    }

    pub(super) fn title(&self) -> &'a str {
        self.title
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    pub(super) fn title_words(&self) -> &Wording {
        self.read_title.get_or_init(|| Wording::of(self.title))
    }

    pub(super) fn words(&self) -> &Wording {
        self.read_text.get_or_init(|| Wording::of(self.text))
    }

    fn compared(&self) -> &Compared {
        self.compared.get_or_init(|| Compared::of(self.words()))
    }

    fn weighty(&self) -> impl Iterator<Item = &str> {
        let numbers = self.compared().weighty.iter();
        numbers.filter_map(|&number| Some(self.words().at(number)?.stem))
    }

    /// Returns true if this item is preferred over its near-duplicate.
    pub(super) fn is_better_than(&self, other: &Self) -> bool {
        self.standing > other.standing
    }
}

impl Compared {
    fn of(text: &Wording) -> Self {
        let mut is_counted = false;
        let mut weighs = |word: &Word<'_>| {
            let was_counted = std::mem::replace(&mut is_counted, word.class == Class::Number);
            match word.class {
                Class::Plain => was_counted || TURNING.contains(&word.spelled),
                class => class != Class::Filler,
            }
        };
        let weighty = text.words().enumerate().filter(|(_, word)| weighs(word));
        let weighty = weighty.map(|(number, _)| number).collect();
        let of_text: Vec<u64> = text.words().map(|word| hash(word.spelled)).collect();
        let is_name = |word: &Word<'_>| word.is_name && word.class == Class::Plain;
        let names = text.words().filter(is_name).map(|word| hash(word.spelled)).collect();
        let statements: Vec<Range<usize>> = text.ranges().collect();
        let inner = statements.iter().flat_map(|words| words.clone().skip(1));
        let inner = inner.filter_map(|number| text.at(number)).filter(is_name);
        let inner_names = set(inner.map(|word| hash(word.spelled)).collect());
        let mut shingles: Vec<u64> = of_text.windows(SHINGLE_WORDS).map(of_all).collect();
        if shingles.is_empty() && !of_text.is_empty() {
            shingles.push(of_all(&of_text));
        }
        Self {
            words: set(of_text.clone()),
            shingles: set(shingles),
            text: of_text,
            names,
            inner_names,
            statements,
            weighty,
        }
    }

    /// Returns true if each text has a name the other lacks: one name replaces another.
    fn names_another(&self, other: &Self) -> bool {
        let lacks = |one: &Self, other: &Self| {
            one.names.iter().any(|name| other.words.binary_search(name).is_err())
        };
        lacks(self, other) && lacks(other, self)
    }

    /// Returns true if the inner names of either text are in equal order in both, apart from additions of one text.
    fn has_names_as_in(&self, other: &Self) -> bool {
        let is_name =
            |word: &&u64| [self, other].iter().any(|it| it.inner_names.binary_search(word).is_ok());
        let is_within = |one: &Self, other: &Self| {
            let mut rest = other.text.iter().filter(is_name);
            one.text.iter().filter(is_name).all(|name| rest.any(|other| other == name))
        };
        is_within(self, other) || is_within(other, self)
    }

    /// Returns true if the words of equal count in both texts are in equal order, whole moved statements aside. Two
    /// swapped words may reverse the meaning.
    fn has_order_of(&self, other: &Self) -> bool {
        let (one, other) = (self.unmoved(other), other.unmoved(self));
        let mut more: HashMap<u64, isize> = HashMap::new();
        one.iter().for_each(|&word| *more.entry(word).or_default() += 1);
        other.iter().for_each(|&word| *more.entry(word).or_default() -= 1);
        let is_common = |word: &&u64| more.get(word) == Some(&0);
        one.iter().filter(is_common).eq(other.iter().filter(is_common))
    }

    /// Words of all statements, except statements that are self-contained and also in the other text.
    fn unmoved(&self, other: &Self) -> Vec<u64> {
        let others = other.statements.iter().map(|words| of_all(&other.text[words.clone()]));
        let others = set(others.collect());
        let is_moved = |words: &Range<usize>| {
            let statement = &self.text[words.clone()];
            words.len() >= WORDS_TO_MOVE && others.binary_search(&of_all(statement)).is_ok()
        };
        let unmoved = self.statements.iter().filter(|words| !is_moved(words));
        unmoved.flat_map(|words| &self.text[words.clone()]).copied().collect()
    }
}

/// Hashes a sequence of word hashes.
fn of_all(words: &[u64]) -> u64 {
    let mut fnv = Fnv::default();
    words.iter().for_each(|word| fnv.write(&word.to_le_bytes()));
    fnv.finish()
}

/// Returns the hashes without repetitions, ascending.
fn set(mut hashes: Vec<u64>) -> Vec<u64> {
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Jaccard similarity of two sets.
fn alike(one: &[u64], other: &[u64]) -> f32 {
    let mut rest = other;
    let is_common = |hash: &&u64| {
        let before = rest.iter().take_while(|other| other < hash).count();
        rest = &rest[before..];
        rest.first() == Some(hash)
    };
    let common = one.iter().filter(is_common).count();
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
        Said { embedding, ..Said::of_text("", text) }
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
        assert!(!is_like("It is -5 outside.", "It is 5 outside."), "no word tells them apart");
    }

    #[test]
    fn whole_statements_may_move_and_nothing_else() {
        let of = |text| Compared::of(&Wording::of(text));
        let is_same = |one, other| {
            let (one, other) = (of(one), of(other));
            let there = one.has_order_of(&other) && one.has_names_as_in(&other);
            assert_eq!(there, other.has_order_of(&one) && other.has_names_as_in(&one));
            there
        };
        let one = "Trim the wick by hand. The lens is wiped by Ingrid. Hang the flag up.";
        assert!(is_same(
            one,
            "The lens is wiped by Ingrid. Trim the wick by hand. Hang the flag up."
        ));
        assert!(is_same(
            one,
            "Please trim the wick by hand. The lens is wiped by Ingrid, our chief."
        ));
        assert!(!is_same(
            one,
            "Trim the lens by hand. The wick is wiped by Ingrid. Hang the flag up."
        ));
        assert!(!is_same("- reads\n- fast\n- writes\n- slow", "- reads\n- slow\n- writes\n- fast"));
        let keys = |one, other| {
            format!(
                "- the key of brass\n- it is kept by {one}\n- that of tin\n- it is kept by {other}"
            )
        };
        assert!(!is_same(&keys("Ingrid", "Tomas"), &keys("Tomas", "Ingrid")));
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

    #[test]
    fn items_meet_where_both_are_true_at_a_time() {
        let of = |from: Option<i64>, to: Option<i64>| Said {
            valid: (from.map(Micros), to.map(Micros)),
            ..said("", None)
        };
        let (always, early, late) = (of(None, None), of(None, Some(5)), of(Some(5), None));
        let within = of(Some(4), Some(6));
        assert!(always.meets(&early) && late.meets(&always) && within.meets(&early));
        assert!(within.meets(&late) && !early.meets(&late) && !late.meets(&early));
    }

    #[test]
    fn what_two_sets_share_is_counted_once() {
        let of = |hashes: &[u64]| set(hashes.to_vec());
        assert_eq!(alike(&of(&[3, 1, 3, 2]), &of(&[2, 3, 4])), 0.5);
        assert_eq!(alike(&of(&[9]), &of(&[1, 2, 9])), 1.0 / 3.0);
        assert_eq!(alike(&of(&[]), &of(&[])), 0.0);
    }
}
