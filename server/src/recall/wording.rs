//! Texts as words, and what kind of word each is: what comparing two texts has to go by.
//!
//! Owns the lists of English words that carry weight when texts are compared: negations, numbers,
//! opposites. Reads a bounded part of a text. Must not know items, nor what a difference means.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Bytes of a text that are read.
pub(super) const BYTES_MAX: usize = 8 << 10;
/// Statements of a text that are read.
const STATEMENTS_MAX: usize = 48;
/// Words of one statement; the rest of a longer one is not read, and it is no match for any.
const WORDS_MAX: usize = 64;

/// What a word does in a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Class {
    /// It says what the statement is about.
    Plain,
    /// It holds words together: `the`, `is`, `of`.
    Filler,
    /// `not`, `never`, `without`.
    Negation,
    /// `32`, `3.5`, `nineteen`.
    Number,
    /// `2024-03-05`, `10:30`, `March`, `Monday`.
    Date,
    /// One of two that shut each other out: which two, and which of them.
    State(u8, bool),
}

/// A word of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// In lower case, without the ending of a plural or a tense.
    pub(super) stem: String,
    /// In lower case.
    pub(super) spelled: String,
    pub(super) class: Class,
    /// Whether it was written as a name: with a capital, or with signs of a program's identifier.
    pub(super) is_name: bool,
    /// The word before it, fillers included; a colon or an equals sign where that stands before it.
    pub(super) behind: String,
}

/// Words that hold others together.
const FILLERS: [&str; 60] = [
    "a",
    "an",
    "the",
    "is",
    "are",
    "was",
    "were",
    "be",
    "been",
    "am",
    "of",
    "to",
    "in",
    "on",
    "at",
    "by",
    "for",
    "from",
    "with",
    "and",
    "or",
    "that",
    "this",
    "these",
    "those",
    "it",
    "its",
    "we",
    "our",
    "they",
    "their",
    "you",
    "your",
    "i",
    "my",
    "he",
    "she",
    "his",
    "her",
    "as",
    "has",
    "have",
    "had",
    "will",
    "would",
    "shall",
    "should",
    "do",
    "does",
    "did",
    "now",
    "then",
    "there",
    "so",
    "also",
    "currently",
    "every",
    "each",
    "can",
    "still",
];
const NEGATIONS: [&str; 12] = [
    "not", "no", "never", "none", "cannot", "without", "neither", "nor", "nobody", "nothing",
    "hardly", "longer",
];
/// As words and as digits.
const NUMBERS: [(&str, &str); 32] = [
    ("zero", "0"),
    ("one", "1"),
    ("two", "2"),
    ("three", "3"),
    ("four", "4"),
    ("five", "5"),
    ("six", "6"),
    ("seven", "7"),
    ("eight", "8"),
    ("nine", "9"),
    ("ten", "10"),
    ("eleven", "11"),
    ("twelve", "12"),
    ("thirteen", "13"),
    ("fourteen", "14"),
    ("fifteen", "15"),
    ("sixteen", "16"),
    ("seventeen", "17"),
    ("eighteen", "18"),
    ("nineteen", "19"),
    ("twenty", "20"),
    ("thirty", "30"),
    ("forty", "40"),
    ("fifty", "50"),
    ("sixty", "60"),
    ("seventy", "70"),
    ("eighty", "80"),
    ("ninety", "90"),
    ("hundred", "100"),
    ("thousand", "1000"),
    ("million", "1000000"),
    ("billion", "1000000000"),
];
const DATES: [&str; 18] = [
    "january",
    "february",
    "march",
    "april",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];
/// Words that shut each other out, each pair by its number.
const STATES: [(&[&str], &[&str]); 19] = [
    (&["enabled"], &["disabled"]),
    (&["open", "opened"], &["closed", "shut"]),
    (&["active"], &["inactive"]),
    (&["accepted", "approved", "granted"], &["rejected", "denied", "refused"]),
    (&["allowed", "permitted"], &["forbidden", "prohibited", "banned"]),
    (&["passed", "passing", "succeeded"], &["failed", "failing"]),
    (&["done", "finished", "completed"], &["pending", "unfinished"]),
    (&["started", "running"], &["stopped", "halted"]),
    (&["supported"], &["unsupported"]),
    (&["required", "mandatory"], &["optional"]),
    (&["true"], &["false"]),
    (&["safe"], &["unsafe"]),
    (&["public"], &["private"]),
    (&["stable"], &["unstable"]),
    (&["resolved"], &["unresolved"]),
    (&["available"], &["unavailable"]),
    (&["online"], &["offline"]),
    (&["valid"], &["invalid"]),
    (&["encrypted"], &["unencrypted"]),
];

/// The words of the lists above. A word is looked up for each word of each text that is compared.
static LISTED: LazyLock<HashMap<&str, Class>> = LazyLock::new(|| {
    let mut listed = HashMap::new();
    let lists =
        [(&FILLERS[..], Class::Filler), (&NEGATIONS, Class::Negation), (&DATES, Class::Date)];
    listed.extend(NUMBERS.iter().map(|(word, _)| (*word, Class::Number)));
    for (list, class) in lists {
        listed.extend(list.iter().map(|word| (*word, class)));
    }
    for (pair, (one, other)) in (0..).zip(STATES) {
        listed.extend(one.iter().map(|word| (*word, Class::State(pair, true))));
        listed.extend(other.iter().map(|word| (*word, Class::State(pair, false))));
    }
    listed
});

impl Class {
    fn of(word: &str) -> Self {
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            let is_date = word.contains(['-', ':']);
            return if is_date { Self::Date } else { Self::Number };
        }
        match LISTED.get(word) {
            Some(class) => *class,
            None if word.ends_with("n't") => Self::Negation,
            None => Self::Plain,
        }
    }
}

/// The statements of a text: its sentences, and the points of its lists.
pub(super) fn statements(text: &str) -> Vec<Vec<Word>> {
    let text = &text[..text.floor_char_boundary(BYTES_MAX)];
    let mut all = Vec::new();
    for piece in pieces(text).take(STATEMENTS_MAX) {
        let words: Vec<Word> = words(piece).take(WORDS_MAX + 1).collect();
        if !words.is_empty() && words.len() <= WORDS_MAX {
            all.push(words);
        }
    }
    all
}

/// Cuts behind the end of a sentence, at an empty line, and before the points of a list.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest
            .char_indices()
            .find(|&(at, c)| {
                let behind = &rest[at + c.len_utf8()..];
                let is_over = behind.chars().next().is_none_or(char::is_whitespace);
                let begins = behind.trim_start_matches([' ', '\t']);
                matches!(c, '.' | '!' | '?' | ';') && is_over
                    || c == '\n' && begins.starts_with(['\n', '-', '*', '#', '|'])
            })
            .map_or(rest.len(), |(at, c)| at + c.len_utf8());
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        Some(piece)
    })
}

/// The words of a text, one after another.
pub(super) fn words(text: &str) -> impl Iterator<Item = Word> {
    let mut rest = text;
    let mut behind = String::new();
    std::iter::from_fn(move || {
        loop {
            let at = rest.find(|c: char| c.is_alphanumeric() || c == ':' || c == '=')?;
            rest = &rest[at..];
            if rest.starts_with([':', '=']) {
                behind = rest[..1].to_owned();
                rest = &rest[1..];
                continue;
            }
            let end = word_end(rest);
            let (written, later) = rest.split_at(end);
            rest = later;
            let mut spelled = written.to_lowercase();
            if spelled.contains('\u{2019}') {
                spelled = spelled.replace('\u{2019}', "'");
            }
            let class = Class::of(&spelled);
            let is_name = written.starts_with(char::is_uppercase)
                || written.contains('_')
                || class == Class::Plain && written.contains(|c: char| c.is_ascii_digit());
            let word = Word {
                stem: stem(&spelled, class),
                class,
                is_name,
                behind: std::mem::replace(&mut behind, spelled.clone()),
                spelled,
            };
            return Some(word);
        }
    })
}

/// Where the word that a text begins with ends. Signs between digits belong to a number or a date, and
/// an apostrophe or an underscore between letters to a word.
fn word_end(text: &str) -> usize {
    let begins_number = text.starts_with(|c: char| c.is_ascii_digit());
    let mut chars = text.char_indices().peekable();
    let mut last = ' ';
    while let Some((at, c)) = chars.next() {
        let before = std::mem::replace(&mut last, c);
        if c.is_alphanumeric() || c == '_' {
            continue;
        }
        let next = chars.peek().map(|(_, next)| *next);
        let joins = match c {
            '.' => before.is_ascii_digit() && next.is_some_and(|c| c.is_ascii_digit()),
            ',' | ':' | '-' => begins_number && next.is_some_and(|c| c.is_ascii_digit()),
            '\'' | '\u{2019}' => next.is_some_and(char::is_alphabetic),
            _ => false,
        };
        if !joins {
            return at;
        }
    }
    text.len()
}

/// A plain word without the commonest endings: crude, and the same for both texts.
fn stem(word: &str, class: Class) -> String {
    let shortest = 4;
    let is_plain = class == Class::Plain && word.is_ascii();
    let ending = ["ing", "ed", "es", "s"]
        .into_iter()
        .find(|ending| is_plain && word.len() >= shortest + ending.len() && word.ends_with(ending));
    let ending = ending.filter(|_| !word.ends_with("ss"));
    match (class, ending) {
        (Class::Number, _) => digits(word),
        (Class::Negation, _) if word.ends_with("n't") => "not".to_owned(),
        (_, Some(ending)) => word[..word.len() - ending.len()].to_owned(),
        _ => word.to_owned(),
    }
}

/// A number in one spelling: `five` is `5`, `1,000` is `1000`.
fn digits(word: &str) -> String {
    if let Some((_, digits)) = NUMBERS.iter().find(|(spelled, _)| *spelled == word) {
        return (*digits).to_owned();
    }
    word.replace(',', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_spelling() {
        for (one, other) in [("five", "5"), ("1,000", "1000"), ("ninety", "90")] {
            assert_eq!(digits(one), digits(other), "{one} / {other}");
        }
        for (one, other) in [("10", "1"), ("3.10", "3.1"), ("ninety", "nineteen")] {
            assert_ne!(digits(one), digits(other), "{one} / {other}");
        }
    }

    fn classes(text: &str) -> Vec<(String, Class)> {
        words(text).map(|word| (word.stem, word.class)).collect()
    }

    #[test]
    fn words_are_told_apart_by_what_they_do() {
        let found = classes("The port isn't 1,024: it was sealed on 2024-03-05 at 10:30, enabled.");
        let wanted = [
            ("the", Class::Filler),
            ("port", Class::Plain),
            ("not", Class::Negation),
            ("1024", Class::Number),
            ("it", Class::Filler),
            ("was", Class::Filler),
            ("seal", Class::Plain),
            ("on", Class::Filler),
            ("2024-03-05", Class::Date),
            ("at", Class::Filler),
            ("10:30", Class::Date),
            ("enabled", Class::State(0, true)),
        ];
        assert_eq!(found, wanted.map(|(stem, class)| (stem.to_owned(), class)));
        let named: Vec<bool> = words("the Store has max_rows and v2").map(|w| w.is_name).collect();
        assert_eq!(named, [false, true, false, true, false, true]);
        let behind: Vec<String> = words("port: 80").map(|word| word.behind).collect();
        assert_eq!(behind, ["", ":"]);
    }

    #[test]
    fn statements_are_sentences_and_points_within_bounds() {
        let text = "One is here. Two is v1.2 there!\n- three\n- four\n\nfive\nsix";
        let all: Vec<usize> = statements(text).iter().map(Vec::len).collect();
        assert_eq!(all, [3, 4, 1, 1, 2], "a line alone ends nothing");
        assert_eq!(statements(&"x. ".repeat(1000)).len(), STATEMENTS_MAX);
        assert!(statements(&"word ".repeat(100)).is_empty(), "no match for any");
        assert_eq!(statements("\u{e9}\u{1f600}\u{2019}\u{0}"), statements("\u{e9}"));
        assert_eq!(statements(""), Vec::<Vec<Word>>::new());
    }
}
