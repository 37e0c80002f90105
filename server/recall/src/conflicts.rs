//! Conflicts: pairs of texts on the same subject that cannot both be true.
//!
//! Two statements conflict if they are equal word for word, fillers aside, except in one position: one of them negates,
//! or has another number, date, value or state there. Short texts also conflict if the entailment rules of
//! `recalld_claim_check` find a difference, whatever the wording. A missed conflict is better than a false one, so a
//! difference that may belong to the subject is none: `Page 3` and `Page 4` are two pages. Nor do statements conflict
//! that differ in two positions.

use std::ops::Range;

use super::wording::{Class, Word, Wording, hash};
use recalld_claim_check::{Prose, difference};

/// Fewest words in common: fewer do not show that both statements have one subject.
const SHARED_MIN: usize = 2;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Words at the differing position, on each side: `twenty` and `twenty three`.
    const DIFFERENT_MAX: usize = 3;
    /// Sentences of a text that the entailment rules read, on each side.
    const JUDGED_SENTENCES_MAX: usize = 4;
    /// Characters of an excerpt in a conflict.
    const TOLD_CHARS_MAX: usize = 40;
}

/// Words after which a number is a quantity, not an identifier.
const BEFORE_AMOUNTS: [&str; 45] = [
    "is", "are", "was", "were", "be", "at", "to", "of", "every", "by", "in", "after", "within",
    "than", "least", "most", "about", "for", "with", "has", "have", "had", "take", "takes", "took",
    "cost", "costs", "need", "needs", "allow", "allows", "hold", "holds", "up", ":", "=", "uses",
    "equals", "only", "exactly", "keep", "keeps", "roughly", "last", "lasts",
];
/// Words of statements whose date is that of a single event.
const OF_SINGLE_DATES: [&str; 17] = [
    "deadline",
    "due",
    "release",
    "releas",
    "plann",
    "planned",
    "schedul",
    "scheduled",
    "start",
    "end",
    "expire",
    "expir",
    "until",
    "begin",
    "born",
    "founded",
    "valid",
];
/// Words of statements that can have only one value.
const OF_SINGLE_VALUES: [&str; 25] = [
    "default",
    "name",
    "branch",
    "owner",
    "colour",
    "color",
    "port",
    "version",
    "language",
    "database",
    "capital",
    "maintainer",
    "lead",
    "region",
    "timezone",
    "license",
    "licence",
    "licensed",
    "leader",
    "address",
    "format",
    "encoding",
    "model",
    "editor",
    "keeper",
];
/// Words directly before a value.
const BEFORE_VALUES: [&str; 13] =
    ["is", "are", "was", "were", "uses", "use", "named", "called", "to", ":", "=", "be", "under"];

/// The kind of difference between two statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Negation: a statement is negated by the other.
    Negation,
    /// Quantities differ.
    Number,
    /// Dates differ.
    Date,
    /// Values differ.
    Value,
    /// States differ: one of two opposites each.
    Status,
}

impl Kind {
    /// Name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Negation => "negation",
            Self::Number => "number",
            Self::Date => "date",
            Self::Value => "value",
            Self::Status => "status",
        }
    }
}

/// A conflict of two texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Kind of the difference.
    pub kind: Kind,
    /// Differing words of the first text; empty if it has none.
    pub one: String,
    /// Differing words of the second text; empty if it has none.
    pub other: String,
}

/// Statements of a text, prepared for comparison.
#[derive(Debug, Default)]
pub(super) struct Claims<'a> {
    /// Words of all statements, without fillers.
    words: Vec<Word<'a>>,
    statements: Vec<Statement>,
}

#[derive(Debug)]
struct Statement {
    /// Range in the words of all statements.
    words: Range<usize>,
    /// Bloom filter with a bit for each word, which rules out most pairs without a comparison of words.
    bits: u64,
}

impl<'a> Claims<'a> {
    /// Prepares a text. The subject of a single-statement text may be only in its title, so the title's words are
    /// added, unless the title was copied from the text.
    pub(super) fn of(text: &'a Wording, title: impl FnOnce() -> &'a Wording) -> Self {
        let mut claims = Self::default();
        if text.statements().take(2).count() == 1 {
            let title = title();
            let is_taken = begins_with(text.statements().flatten(), title.statements().flatten());
            let more = title.statements().flatten().filter(|_| !is_taken);
            claims.add(more.chain(text.statements().flatten()));
        } else {
            text.statements().for_each(|statement| claims.add(statement));
        }
        claims
    }

    fn add(&mut self, statement: impl Iterator<Item = Word<'a>>) {
        let from = self.words.len();
        self.words.extend(statement.filter(|word| word.class != Class::Filler));
        let bits = self.words[from..].iter().fold(0, |bits, word| bits | bit(word.stem));
        self.statements.push(Statement { words: from..self.words.len(), bits });
    }

    /// Returns the first conflict with the other text.
    pub(super) fn against(&self, other: &Claims<'_>) -> Option<Conflict> {
        self.statements.iter().find_map(|one| {
            let others = other.statements.iter().filter(|other| may_meet(one, other));
            others.into_iter().find_map(|two| {
                compare(&self.words[one.words.clone()], &other.words[two.words.clone()])
            })
        })
    }
}

/// Returns true if the words begin with those of the title, whose last word may be truncated.
fn begins_with<'a>(
    mut words: impl Iterator<Item = Word<'a>>,
    title: impl Iterator<Item = Word<'a>>,
) -> bool {
    let mut title = title.peekable();
    while let Some(titled) = title.next() {
        let is_last = title.peek().is_none();
        let is_same = |word: Word<'_>| {
            word.spelled == titled.spelled || is_last && word.spelled.starts_with(titled.spelled)
        };
        if !words.next().is_some_and(is_same) {
            return false;
        }
    }
    true
}

/// Returns the first conflict of two self-contained texts, which have no titles.
pub fn conflict_between(one: &str, other: &str) -> Option<Conflict> {
    let [wording, others, untitled] = [one, other, ""].map(Wording::of);
    let found = Claims::of(&wording, || &untitled).against(&Claims::of(&others, || &untitled));
    let [prose, others_prose] = [one, other].map(|text| Prose::of("", text));
    found.or_else(|| judged((&prose, &wording), (&others_prose, &others), None))
}

/// Finds a conflict of two differently worded texts by entailment rules. `near` is their cosine, if known. Only texts
/// of a few sentences are compared, to bound the latency of an answer.
pub(super) fn judged(
    (one, wording): (&Prose, &Wording),
    (other, others): (&Prose, &Wording),
    near: Option<f32>,
) -> Option<Conflict> {
    let is_short = |text: &Prose| (1..=JUDGED_SENTENCES_MAX).contains(&text.sentences_count());
    if !is_short(one) || !is_short(other) {
        return None;
    }
    let (found, _) = difference(one, other, near)?;
    let is_amount =
        || says_how_much(wording, &found.claimed) && says_how_much(others, &found.known);
    if found.kind == recalld_claim_check::Kind::Number && !is_amount() {
        return None;
    }
    let kind = match found.kind {
        recalld_claim_check::Kind::Negation => Kind::Negation,
        recalld_claim_check::Kind::Number => Kind::Number,
        recalld_claim_check::Kind::Date => Kind::Date,
        recalld_claim_check::Kind::Value => Kind::Value,
    };
    let told = |said: &str| said.chars().take(TOLD_CHARS_MAX).collect();
    Some(Conflict { kind, one: told(&found.claimed), other: told(&found.known) })
}

/// Returns true if a number of the text is a quantity, not an identifier: by its unit, by the word before it, or as the
/// value of a single-valued term.
fn says_how_much(text: &Wording, said: &str) -> bool {
    let has_unit = said.contains(|c: char| c.is_alphabetic() || "$%".contains(c));
    let is_said = |word: &Word<'_>| {
        word.class == Class::Number && said.to_lowercase().starts_with(word.spelled)
    };
    let stands = |word: Word<'_>| {
        BEFORE_AMOUNTS.contains(&word.behind) || OF_SINGLE_VALUES.contains(&word.behind)
    };
    has_unit || text.statements().flatten().filter(is_said).any(stands)
}

/// Maps a word to one of 64 bits.
fn bit(word: &str) -> u64 {
    1 << (hash(word) >> 58)
}

/// Returns true if two statements can differ in at most `DIFFERENT_MAX` words on each side.
fn may_meet(one: &Statement, other: &Statement) -> bool {
    let most = u32::try_from(2 * DIFFERENT_MAX).expect("a few");
    one.words.len().abs_diff(other.words.len()) <= DIFFERENT_MAX
        && (one.bits ^ other.bits).count_ones() <= most
}

fn compare(one: &[Word<'_>], other: &[Word<'_>]) -> Option<Conflict> {
    let pairs = |(a, b): &(&Word<'_>, &Word<'_>)| a.stem == b.stem && a.class == b.class;
    let (a, b) = (one, other);
    let before = a.iter().zip(b).take_while(pairs).count();
    let (a, b) = (&a[before..], &b[before..]);
    let behind = a.iter().rev().zip(b.iter().rev()).take_while(pairs).count();
    let (a, b) = (&a[..a.len() - behind], &b[..b.len() - behind]);
    if before + behind < SHARED_MIN || a.len().max(b.len()) > DIFFERENT_MAX {
        return None;
    }
    let shared = |word: &str| {
        let around = one[..before].iter().chain(&one[one.len() - behind..]);
        around.into_iter().any(|shared| shared.stem == word || shared.spelled == word)
    };
    let kind = kind_of(a, b, &shared, behind == 0)?;
    Some(Conflict { kind, one: told(a), other: told(b) })
}

/// Returns the kind of conflict between the differing words `a` and `b`, or `None` for no conflict. If `is_last`, both
/// statements end with these words.
fn kind_of(
    a: &[Word<'_>],
    b: &[Word<'_>],
    shared: &dyn Fn(&str) -> bool,
    is_last: bool,
) -> Option<Kind> {
    let all = |words: &[Word<'_>], class: Class| words.iter().all(|word| word.class == class);
    let shares = |words: &[&str]| words.iter().any(|word| shared(word));
    if all(a, Class::Negation) && all(b, Class::Negation) {
        // `no longer` is a single negation.
        let denials =
            |words: &[Word<'_>]| words.iter().filter(|word| word.stem != "longer").count();
        return (denials(a) % 2 != denials(b) % 2).then_some(Kind::Negation);
    }
    let (first, second) = (a.first()?, b.first()?);
    let amounts = |word: &Word<'_>| BEFORE_AMOUNTS.contains(&word.behind);
    let are_years = is_year(a) && is_year(b);
    if all(a, Class::Number) && all(b, Class::Number) && !are_years {
        let is_amount = amounts(first) && amounts(second);
        return (is_amount && !are_equal(a, b)).then_some(Kind::Number);
    }
    // `31 December 2025`
    let is_date = |words: &[Word<'_>]| {
        words.iter().all(|word| matches!(word.class, Class::Date | Class::Number))
            && words.iter().any(|word| word.class == Class::Date)
    };
    if is_date(a) && is_date(b) || are_years {
        return shares(&OF_SINGLE_DATES).then_some(Kind::Date);
    }
    let are_words = a.len() == 1 && b.len() == 1;
    match (first.class, second.class) {
        (Class::State(one, is), Class::State(other, was)) if are_words => {
            (one == other && is != was).then_some(Kind::Status)
        }
        // Several words are a value only at the end of both statements, where no later word can be their head: `is
        // UTF-8`.
        (Class::Plain, Class::Plain) if are_words || is_last => {
            let stands = |word: &Word<'_>| BEFORE_VALUES.contains(&word.behind);
            let is_value = stands(first) && stands(second) && shares(&OF_SINGLE_VALUES);
            is_value.then_some(Kind::Value)
        }
        _ => None,
    }
}

/// Returns true if the number is a year, not a quantity: `in 1998`, `Minutes: 2024 council`.
fn is_year(words: &[Word<'_>]) -> bool {
    let [only] = words else { return false };
    let year = only.stem.parse::<u16>().ok().filter(|year| (1900..2100).contains(year));
    year.is_some() && matches!(only.behind, "in" | ":" | "of" | "")
}

/// Returns true if two numbers are equal, trailing zeros aside. Versions such as `3.10` never reach this comparison.
fn are_equal(a: &[Word<'_>], b: &[Word<'_>]) -> bool {
    let value = |words: &[Word<'_>]| match words {
        [only] => only.stem.parse::<f64>().ok(),
        _ => None,
    };
    value(a).is_some_and(|a| value(b).is_some_and(|b| a.total_cmp(&b).is_eq()))
}

fn told(words: &[Word<'_>]) -> String {
    let spelled: Vec<&str> = words.iter().map(|word| word.spelled).collect();
    spelled.join(" ").chars().take(TOLD_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments: (title, text) pairs.
    fn against(one: (&str, &str), other: (&str, &str)) -> Option<Conflict> {
        let [one, other] = [one, other].map(|(title, text)| [title, text].map(Wording::of));
        Claims::of(&one[1], || &one[0]).against(&Claims::of(&other[1], || &other[0]))
    }

    fn conflict(one: &str, other: &str) -> Option<(Kind, String, String)> {
        let between = |a: &str, b: &str| against(("", a), ("", b));
        let there = between(one, other).map(|it| (it.kind, it.one, it.other));
        let back = between(other, one).map(|it| (it.kind, it.other, it.one));
        assert_eq!(there, back, "{one} / {other}");
        there
    }

    #[test]
    fn a_title_that_was_taken_from_the_text_hides_no_conflict() {
        let texts = [
            "The staff stands at 1.20 m above the datum.",
            "The staff stands at 1.35 m above the datum.",
        ];
        let all = against((texts[0], texts[0]), (texts[1], texts[1]));
        assert_eq!(all.map(|it| (it.kind, it.one)), Some((Kind::Number, "1.20".to_owned())));
        let cut = against((&texts[0][..36], texts[0]), (&texts[1][..36], texts[1]));
        assert_eq!(cut.map(|it| it.kind), Some(Kind::Number));
        // Distinct titles name the subjects of short texts.
        assert_eq!(against(("Lamp", texts[0]), ("Horn", texts[1])), None);
    }

    #[test]
    fn statements_that_cannot_both_be_true_conflict() {
        for (one, other, kind, said) in [
            (
                "The lamp oil tank holds 32 litres.",
                "The lamp oil tank holds 64 litres.",
                Kind::Number,
                ("32", "64"),
            ),
            (
                "Segments are sealed at 32 MiB",
                "The segment is sealed at 1,024 MiB.",
                Kind::Number,
                ("32", "1,024"),
            ),
            (
                "The lens is wound every nineteen minutes.",
                "The lens is wound every twenty-three minutes",
                Kind::Number,
                ("nineteen", "twenty three"),
            ),
            (
                "Backups are encrypted on the remote disk.",
                "Backups are not encrypted on the remote disk.",
                Kind::Negation,
                ("", "not"),
            ),
            (
                "We don't cache answers of the search.",
                "We cache answers of the search.",
                Kind::Negation,
                ("don't", ""),
            ),
            (
                "The release of version two is due 2024-05-01.",
                "The release of version two is due 2024-06-01.",
                Kind::Date,
                ("2024-05-01", "2024-06-01"),
            ),
            (
                "The weekly report deadline is Monday",
                "The weekly report deadline is Friday",
                Kind::Date,
                ("monday", "friday"),
            ),
            (
                "The default branch of the project is main.",
                "The default branch of the project is master.",
                Kind::Value,
                ("main", "master"),
            ),
            (
                "Telemetry of the desktop client is enabled.",
                "Telemetry of the desktop client is disabled.",
                Kind::Status,
                ("enabled", "disabled"),
            ),
            (
                "First. The proposal about tides was accepted! Last.",
                "The proposal about tides was rejected.",
                Kind::Status,
                ("accepted", "rejected"),
            ),
        ] {
            let wanted = Some((kind, said.0.to_owned(), said.1.to_owned()));
            assert_eq!(conflict(one, other), wanted, "{one} / {other}");
        }
    }

    #[test]
    fn statements_about_two_things_do_not() {
        for (one, other) in [
            ("The lamp oil tank holds 32 litres.", "The lamp oil tank holds 32 litres!"),
            ("Page 3 of the code book in cipher.", "Page 4 of the code book in cipher."),
            (
                "Day 37: wind from the north at 30 knots, glass at 999 millibars.",
                "Day 38: wind from the north at 44 knots, glass at 990 millibars.",
            ),
            ("Python 3.11 is fast enough for us.", "Python 3.12 is fast enough for us."),
            ("Port 8080 of the gateway is open.", "Port 9090 of the gateway is open."),
            (
                "The deploy of the gateway ran on 2024-05-01.",
                "The deploy of the gateway ran on 2024-05-02.",
            ),
            ("The old test suite is slow.", "The old test suite is green."),
            ("It is 5.", "It is 6."),
            ("The port is 80.", "The lamp oil tank holds 32 litres."),
            ("We never ship on Fridays without a review of the change.", "We ship on Mondays."),
            ("", "The lamp oil tank holds 32 litres."),
            ("Backups are not never encrypted on disk.", "Backups are encrypted on disk."),
        ] {
            assert_eq!(conflict(one, other), None, "{one} / {other}");
        }
    }

    #[test]
    fn a_title_is_part_of_what_a_short_text_says() {
        let there = ("Deploy port of the gateway", "It is 8080.");
        assert!(against(there, ("Deploy port of the gateway", "It is 9090.")).is_some());
        assert!(against(there, ("Deploy port of the mail server", "It is 9090.")).is_none());
    }

    #[test]
    fn long_and_hostile_texts_are_compared_within_bounds() {
        let long = "The lamp oil tank holds 32 litres. ".repeat(10_000);
        let other = "The lamp oil tank holds 64 litres. ".repeat(10_000);
        assert!(against(("", &long), ("", &other)).is_some());
        let noise = "\u{202e}not ".repeat(100_000);
        assert!(against((&noise, &noise), ("", &long)).is_none());
        let told = format!("The default branch name is {}.", "x".repeat(500));
        let found = against(("", &told), ("", "The default branch name is main.")).unwrap();
        assert_eq!(found.one.chars().count(), TOLD_CHARS_MAX);
    }
}
