//! Two texts that speak of the same thing and cannot both be true.
//!
//! Owns what counts as a conflict: two statements that are the same word for word, fillers aside, but
//! for one place, where one denies, or has another number, date, value or state. Better one missed
//! than one made up, so what may belong to the subject itself is none: `Page 3` and `Page 4` are two
//! pages, and so are statements that differ in two places. Must not know a store or a question.

use super::wording::{Class, Word, statements};

/// Words that both statements have, at the least: fewer do not say that they are about one thing.
const SHARED_MIN: usize = 2;
/// Words in which they may differ, on each side: `twenty` and `twenty three`.
const DIFFERENT_MAX: usize = 3;
/// Characters of a word that are told.
const TOLD_CHARS_MAX: usize = 40;

/// Words after which a number says how much, and not which one.
const BEFORE_AMOUNTS: [&str; 46] = [
    "is", "are", "was", "were", "be", "at", "to", "of", "every", "by", "in", "after", "within",
    "than", "least", "most", "about", "for", "with", "has", "have", "had", "take", "takes", "took",
    "cost", "costs", "need", "needs", "allow", "allows", "hold", "holds", "up", ":", "=", "uses",
    "equals", "only", "exactly", "keep", "keeps", "has", "roughly", "last", "lasts",
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
pub struct Claims {
    statements: Vec<Statement>,
}

#[derive(Debug)]
struct Statement {
    /// Without fillers.
    words: Vec<Word>,
    /// One bit for each word, so that most pairs are told apart without a look at the words.
    bits: u64,
}

impl Claims {
    /// Of a text under a title, which is part of what a short text speaks of.
    pub fn of(title: &str, text: &str) -> Self {
        let mut all = statements(text);
        if all.len() == 1 && !title.is_empty() {
            let title = statements(title).into_iter().flatten();
            let words = title.chain(std::mem::take(&mut all[0])).collect();
            all[0] = words;
        }
        let statement = |words: Vec<Word>| {
            let words: Vec<Word> =
                words.into_iter().filter(|word| word.class != Class::Filler).collect();
            Statement { bits: words.iter().fold(0, |bits, word| bits | bit(&word.stem)), words }
        };
        Self { statements: all.into_iter().map(statement).collect() }
    }

    /// The first conflict with another text.
    pub fn against(&self, other: &Self) -> Option<Conflict> {
        self.statements.iter().find_map(|one| {
            let others = other.statements.iter();
            others.filter(|other| may_meet(one, other)).find_map(|other| compare(one, other))
        })
    }
}

/// One of 64 bits for a word (FNV-1a).
fn bit(word: &str) -> u64 {
    let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    1 << (hash >> 58)
}

/// Whether two statements can be the same but for so few words.
fn may_meet(one: &Statement, other: &Statement) -> bool {
    let most = u32::try_from(2 * DIFFERENT_MAX).expect("a few");
    one.words.len().abs_diff(other.words.len()) <= DIFFERENT_MAX
        && (one.bits ^ other.bits).count_ones() <= most
}

fn compare(one: &Statement, other: &Statement) -> Option<Conflict> {
    let same = |a: &Word, b: &Word| a.stem == b.stem && a.class == b.class;
    let pairs = |(a, b): &(&Word, &Word)| same(a, b);
    let (a, b) = (&one.words[..], &other.words[..]);
    let before = a.iter().zip(b).take_while(pairs).count();
    let (a, b) = (&a[before..], &b[before..]);
    let behind = a.iter().rev().zip(b.iter().rev()).take_while(pairs).count();
    let (a, b) = (&a[..a.len() - behind], &b[..b.len() - behind]);
    if before + behind < SHARED_MIN || a.len().max(b.len()) > DIFFERENT_MAX {
        return None;
    }
    let shared = |word: &str| {
        let around = one.words[..before].iter().chain(&one.words[one.words.len() - behind..]);
        around.into_iter().any(|shared| shared.stem == word || shared.spelled == word)
    };
    let kind = kind_of(a, b, &shared, behind == 0)?;
    Some(Conflict { kind, one: told(a), other: told(b) })
}

/// What kind of conflict it is where one statement has `a` and the other `b`, and both end with that if
/// `is_last`; `None` where it is none.
fn kind_of(a: &[Word], b: &[Word], shared: &dyn Fn(&str) -> bool, is_last: bool) -> Option<Kind> {
    let all = |words: &[Word], class: Class| words.iter().all(|word| word.class == class);
    let shares = |words: &[&str]| words.iter().any(|word| shared(word));
    if all(a, Class::Negation) && all(b, Class::Negation) {
        // `no longer` denies once.
        let denials = |words: &[Word]| words.iter().filter(|word| word.stem != "longer").count();
        return (denials(a) % 2 != denials(b) % 2).then_some(Kind::Negation);
    }
    let (first, second) = (a.first()?, b.first()?);
    let amounts = |word: &Word| BEFORE_AMOUNTS.contains(&word.behind.as_str());
    let are_years = is_year(a) && is_year(b);
    if all(a, Class::Number) && all(b, Class::Number) && !are_years {
        let is_amount = amounts(first) && amounts(second);
        return (is_amount && !are_equal(a, b)).then_some(Kind::Number);
    }
    // `31 December 2025`
    let is_date = |words: &[Word]| {
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
            let stands = |word: &Word| BEFORE_VALUES.contains(&word.behind.as_str());
            let is_value = stands(first) && stands(second) && shares(&OF_SINGLE_VALUES);
            is_value.then_some(Kind::Value)
        }
        _ => None,
    }
}

/// Whether a number tells when rather than how many: `in 1998`, `Minutes: 2024 council`.
fn is_year(words: &[Word]) -> bool {
    let [only] = words else { return false };
    let year = only.stem.parse::<u16>().ok().filter(|year| (1900..2100).contains(year));
    year.is_some() && matches!(only.behind.as_str(), "in" | ":" | "of" | "")
}

/// Whether two numbers are one, however many zeros end them. Versions are not, and are none of this: `3.10`.
fn are_equal(a: &[Word], b: &[Word]) -> bool {
    let value = |words: &[Word]| match words {
        [only] => only.stem.parse::<f64>().ok(),
        _ => None,
    };
    value(a).is_some_and(|a| value(b).is_some_and(|b| a.total_cmp(&b).is_eq()))
}

fn told(words: &[Word]) -> String {
    let spelled: Vec<&str> = words.iter().map(|word| word.spelled.as_str()).collect();
    spelled.join(" ").chars().take(TOLD_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(one: &str, other: &str) -> Option<(Kind, String, String)> {
        let between = |a: &str, b: &str| Claims::of("", a).against(&Claims::of("", b));
        let there = between(one, other).map(|it| (it.kind, it.one, it.other));
        let back = between(other, one).map(|it| (it.kind, it.other, it.one));
        assert_eq!(there, back, "{one} / {other}");
        there
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
        let of = |title: &str, text: &str| Claims::of(title, text);
        let there = of("Deploy port of the gateway", "It is 8080.");
        assert!(there.against(&of("Deploy port of the gateway", "It is 9090.")).is_some());
        assert!(there.against(&of("Deploy port of the mail server", "It is 9090.")).is_none());
    }

    #[test]
    fn long_and_hostile_texts_are_compared_within_bounds() {
        let long = "The lamp oil tank holds 32 litres. ".repeat(10_000);
        let other = "The lamp oil tank holds 64 litres. ".repeat(10_000);
        assert!(Claims::of("", &long).against(&Claims::of("", &other)).is_some());
        let noise = "\u{202e}not ".repeat(100_000);
        assert!(Claims::of(&noise, &noise).against(&Claims::of("", &long)).is_none());
        let told = Claims::of("", &format!("The default branch name is {}.", "x".repeat(500)));
        let found = told.against(&Claims::of("", "The default branch name is main.")).unwrap();
        assert_eq!(found.one.chars().count(), TOLD_CHARS_MAX);
    }
}
