//! Two texts that speak of the same thing and cannot both be true.
//!
//! Owns what counts as a conflict: two statements that are the same word for word, fillers aside, but
//! for one place, where one denies, or has another number, date, value or state; and, of short texts, what
//! follows from either side by the rules that judge claims (`recalld_claim_check`), however it is put.
//! Better one missed than one made up, so what may belong to the subject itself is none: `Page 3` and `Page 4` are two
//! pages, and so are statements that differ in two places. Must not know a store or a question.

use std::ops::Range;

use super::wording::{Class, Word, Wording, hash};
use recalld_claim_check::{Prose, difference};

/// Words that both statements have, at the least: fewer do not say that they are about one thing.
const SHARED_MIN: usize = 2;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Words in which they may differ, on each side: `twenty` and `twenty three`.
    const DIFFERENT_MAX: usize = 3;
    /// Sentences of texts that are judged, on each side.
    const JUDGED_SENTENCES_MAX: usize = 4;
    /// Characters of a word that are told.
    const TOLD_CHARS_MAX: usize = 40;
}

/// Words after which a number says how much, and not which one.
const BEFORE_AMOUNTS: [&str; 45] = [
    "is", "are", "was", "were", "be", "at", "to", "of", "every", "by", "in", "after", "within",
    "than", "least", "most", "about", "for", "with", "has", "have", "had", "take", "takes", "took",
    "cost", "costs", "need", "needs", "allow", "allows", "hold", "holds", "up", ":", "=", "uses",
    "equals", "only", "exactly", "keep", "keeps", "roughly", "last", "lasts",
];
/// Words of statements in which a date says when the one thing is, and not which of many.
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
/// Words of statements that can have one value only.
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
/// Words after which a value stands.
const BEFORE_VALUES: [&str; 13] =
    ["is", "are", "was", "were", "uses", "use", "named", "called", "to", ":", "=", "be", "under"];

/// In what two statements differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One denies what the other says.
    Negation,
    /// How much or how many.
    Number,
    /// When.
    Date,
    /// What it is.
    Value,
    /// Which of two states.
    Status,
}

impl Kind {
    /// Its name on the wire.
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

/// Why two texts conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// In what.
    pub kind: Kind,
    /// What the first says there; empty where it says nothing.
    pub one: String,
    /// What the second says there.
    pub other: String,
}

/// What a text claims, ready to be compared.
#[derive(Debug, Default)]
pub(super) struct Claims<'a> {
    /// Of all statements, without fillers.
    words: Vec<Word<'a>>,
    statements: Vec<Statement>,
}

#[derive(Debug)]
struct Statement {
    /// Which words.
    words: Range<usize>,
    /// One bit for each word, so that most pairs are told apart without a look at the words.
    bits: u64,
}

impl<'a> Claims<'a> {
    /// Of a text. What a short one speaks of may stand in its title alone; a title that was taken from the text says
    /// nothing more.
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

    /// The first conflict with another text.
    pub(super) fn against(&self, other: &Claims<'_>) -> Option<Conflict> {
        self.statements.iter().find_map(|one| {
            let others = other.statements.iter().filter(|other| may_meet(one, other));
            others.into_iter().find_map(|two| {
                compare(&self.words[one.words.clone()], &other.words[two.words.clone()])
            })
        })
    }
}

/// Whether words begin with those of a title, whose last one may be cut.
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

/// The first conflict of two texts that say all by themselves.
pub fn conflict_between(one: &str, other: &str) -> Option<Conflict> {
    let [wording, others, untitled] = [one, other, ""].map(Wording::of);
    let found = Claims::of(&wording, || &untitled).against(&Claims::of(&others, || &untitled));
    let [prose, others_prose] = [one, other].map(|text| Prose::of("", text));
    found.or_else(|| judged((&prose, &wording), (&others_prose, &others), None))
}

/// A conflict of two texts that put what they say in different ways. `near` is the cosine of both, where it is known.
/// Only those of few sentences are held against each other: an answer does not wait for what more would cost.
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

/// Whether a number of a text says how much, and not which one: by its unit, by what it stands behind, or as the value
/// of what has one only.
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

/// One of 64 bits for a word.
fn bit(word: &str) -> u64 {
    1 << (hash(word) >> 58)
}

/// Whether two statements can be the same but for so few words.
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

/// What kind of conflict it is where one statement has `a` and the other `b`, and both end with that if
/// `is_last`; `None` where it is none.
fn kind_of(
    a: &[Word<'_>],
    b: &[Word<'_>],
    shared: &dyn Fn(&str) -> bool,
    is_last: bool,
) -> Option<Kind> {
    let all = |words: &[Word<'_>], class: Class| words.iter().all(|word| word.class == class);
    let shares = |words: &[&str]| words.iter().any(|word| shared(word));
    if all(a, Class::Negation) && all(b, Class::Negation) {
        // `no longer` denies once.
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
        // Of several words only where nothing follows that they may belong to: `is UTF-8`.
        (Class::Plain, Class::Plain) if are_words || is_last => {
            let stands = |word: &Word<'_>| BEFORE_VALUES.contains(&word.behind);
            let is_value = stands(first) && stands(second) && shares(&OF_SINGLE_VALUES);
            is_value.then_some(Kind::Value)
        }
        _ => None,
    }
}

/// Whether a number tells when rather than how many: `in 1998`, `Minutes: 2024 council`.
fn is_year(words: &[Word<'_>]) -> bool {
    let [only] = words else { return false };
    let year = only.stem.parse::<u16>().ok().filter(|year| (1900..2100).contains(year));
    year.is_some() && matches!(only.behind, "in" | ":" | "of" | "")
}

/// Whether two numbers are one, however many zeros end them. Versions are not, and are none of this: `3.10`.
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

    /// Titles and texts.
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
        // Titles of their own say what short texts are about.
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
