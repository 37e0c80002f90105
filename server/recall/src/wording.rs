//! Token classes: a text as classified words, the basis of text comparison.
//!
//! Has the lists of English words that matter in a comparison: negations, numbers, opposites. A bounded part of each
//! text is read, once for all comparisons.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::LazyLock;

use super::time::{MONTHS, WEEKDAYS};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of a text that are read.
    pub(super) const BYTES_MAX: usize = 8 << 10;
    /// Statements of a text that are read.
    const STATEMENTS_MAX: usize = 48;
    /// Words of a statement; a longer statement matches no other.
    const WORDS_MAX: usize = 64;
}

/// Class of a word within a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Class {
    /// Content word.
    Plain,
    /// Function word: `the`, `is`, `of`.
    Filler,
    /// `not`, `never`, `without`.
    Negation,
    /// `32`, `3.5`, `nineteen`.
    Number,
    /// `2024-03-05`, `10:30`, `March`, `Monday`.
    Date,
    /// State out of two opposites: the number of the pair, and the side.
    State(u8, bool),
}

/// Word of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// Lower case, without the ending of a plural or a tense.
    pub(super) stem: &'a str,
    /// Lower case.
    pub(super) spelled: &'a str,
    pub(super) class: Class,
    /// True if written as a name: with a capital letter, or like a program's identifier.
    pub(super) is_name: bool,
    /// Word before this one in the statement, fillers included; or the colon or equals sign directly before it.
    pub(super) behind: &'a str,
}

/// Classified words of a text, as far as it is read.
#[derive(Debug)]
pub(super) struct Wording {
    /// Concatenated spellings and stems.
    letters: String,
    words: Vec<Spelled>,
    /// End of each statement, as an index of `words`.
    ends: Vec<usize>,
}

/// Word, as ranges of the letters.
#[derive(Debug, Clone, Copy)]
struct Spelled {
    stem: Span,
    spelled: Span,
    behind: Span,
    class: Class,
    is_name: bool,
}

/// Range of the letters.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    from: u32,
    to: u32,
}

/// FNV-1a hasher. A collision of words benefits no attacker, so a keyed hash is unnecessary.
pub(super) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(super) fn hash(word: &str) -> u64 {
    let mut fnv = Fnv::default();
    fnv.write(word.as_bytes());
    fnv.finish()
}

/// Function words.
const FILLERS: [&str; 61] = [
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
    "please",
];
const NEGATIONS: [&str; 12] = [
    "not", "no", "never", "none", "cannot", "without", "neither", "nor", "nobody", "nothing",
    "hardly", "longer",
];
/// Number words with their digits.
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
/// Month that is more often another word.
const NO_MONTH: &str = "may";
/// Pairs of opposites; the index is the number of the pair.
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

/// Class of each word in the lists above, looked up for every word of a compared text.
static LISTED: LazyLock<HashMap<&str, Class, BuildHasherDefault<Fnv>>> = LazyLock::new(|| {
    let mut listed = HashMap::default();
    let lists = [
        (&FILLERS[..], Class::Filler),
        (&NEGATIONS, Class::Negation),
        (&MONTHS, Class::Date),
        (&WEEKDAYS, Class::Date),
    ];
    listed.extend(NUMBERS.iter().map(|(word, _)| (*word, Class::Number)));
    for (list, class) in lists {
        let words = list.iter().filter(|&&word| word != NO_MONTH);
        listed.extend(words.map(|word| (*word, class)));
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

impl Wording {
    /// Reads the first [`BYTES_MAX`] bytes of a text.
    pub(super) fn of(text: &str) -> Self {
        let text = &text[..text.floor_char_boundary(BYTES_MAX)];
        let letters = String::with_capacity(text.len() + SIGNS.len());
        let mut wording = Self { letters, words: Vec::new(), ends: Vec::new() };
        wording.letters.push_str(SIGNS);
        for piece in pieces(text) {
            wording.read(piece);
            wording.ends.push(wording.words.len());
        }
        wording
    }

    /// Number of words.
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// All words, in order.
    pub(super) fn words(&self) -> impl Iterator<Item = Word<'_>> {
        self.words.iter().map(|word| self.word(word))
    }

    /// Word by its index.
    pub(super) fn at(&self, number: usize) -> Option<Word<'_>> {
        self.words.get(number).map(|word| self.word(word))
    }

    /// Statements of the text: sentences and list items. Excludes statements that are empty, longer than `WORDS_MAX`,
    /// or beyond the first `STATEMENTS_MAX`.
    pub(super) fn statements(&self) -> impl Iterator<Item = impl Iterator<Item = Word<'_>>> {
        let all = self.ranges().take(STATEMENTS_MAX);
        let all = all.filter(|words| !words.is_empty() && words.len() <= WORDS_MAX);
        all.map(|words| self.words[words].iter().map(|word| self.word(word)))
    }

    /// Range of word indices of each statement, of any length and possibly empty.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(from, &to)| from..to)
    }

    fn word(&self, word: &Spelled) -> Word<'_> {
        let Spelled { stem, spelled, behind, class, is_name } = *word;
        let of = |span: Span| &self.letters[span.from as usize..span.to as usize];
        Word { stem: of(stem), spelled: of(spelled), class, is_name, behind: of(behind) }
    }

    /// Adds the words of one statement.
    fn read(&mut self, piece: &str) {
        let mut rest = piece;
        let mut behind = Span::default();
        while let Some(at) = rest.find(|c: char| c.is_alphanumeric() || c == ':' || c == '=') {
            rest = &rest[at..];
            if let Some(sign) = SIGNS.find(|sign| rest.starts_with(sign)) {
                behind = span(sign, sign + 1);
                rest = &rest[1..];
                continue;
            }
            let (written, later) = rest.split_at(word_end(rest));
            rest = later;
            let spelled = self.spell(written);
            let of = &self.letters[spelled.from as usize..];
            let class = Class::of(of);
            let is_name = written.starts_with(char::is_uppercase)
                || written.contains('_')
                || class == Class::Plain && written.contains(|c: char| c.is_ascii_digit());
            let stem = match class {
                Class::Number => match digits(of) {
                    digits if digits == of => spelled,
                    digits => {
                        let digits = digits.into_owned();
                        self.add(&digits)
                    }
                },
                Class::Negation if of.ends_with("n't") => self.add("not"),
                Class::Plain => Span { to: spelled.from + stemmed(of), ..spelled },
                _ => spelled,
            };
            self.words.push(Spelled { stem, spelled, behind, class, is_name });
            behind = spelled;
        }
    }

    /// Adds a word in lower case, with plain apostrophes.
    fn spell(&mut self, written: &str) -> Span {
        if written.is_ascii() {
            let from = self.letters.len();
            self.letters.push_str(written);
            self.letters[from..].make_ascii_lowercase();
            return span(from, self.letters.len());
        }
        let lower = written.to_lowercase();
        if lower.contains('\u{2019}') {
            return self.add(&lower.replace('\u{2019}', "'"));
        }
        self.add(&lower)
    }

    fn add(&mut self, text: &str) -> Span {
        let from = self.letters.len();
        self.letters.push_str(text);
        span(from, self.letters.len())
    }
}

/// Signs before a value; the letters of every text begin with these.
const SIGNS: &str = ":=";

/// Offsets fit into `u32`: lower case takes at most three bytes for two bytes of a bounded text.
fn span(from: usize, to: usize) -> Span {
    let narrow = |at: usize| u32::try_from(at).expect("BYTES_MAX bounds what is read");
    Span { from: narrow(from), to: narrow(to) }
}

/// Splits after the end of a sentence, at an empty line, and before list items.
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
                match c {
                    '.' | '!' | '?' | ';' => behind.chars().next().is_none_or(char::is_whitespace),
                    '\n' => {
                        let begins = behind.trim_start_matches([' ', '\t']);
                        begins.starts_with(['\n', '-', '*', '#', '|'])
                    }
                    _ => false,
                }
            })
            .map_or(rest.len(), |(at, c)| at + c.len_utf8());
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        Some(piece)
    })
}

/// Returns the end of the word at the beginning of a text. Signs between digits belong to a number or date, and an
/// apostrophe before a letter, or an underscore, to a word.
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

/// Length of a plain word without the commonest endings: crude, but equal for both texts.
fn stemmed(word: &str) -> u32 {
    const SHORTEST: usize = 4;
    let ends = |ending: &&str| word.len() >= SHORTEST + ending.len() && word.ends_with(ending);
    let ending = ["ing", "ed", "es", "s"].into_iter().find(ends);
    let ending = ending.filter(|_| word.is_ascii() && !word.ends_with("ss"));
    u32::try_from(word.len() - ending.map_or(0, str::len)).expect("BYTES_MAX bounds what is read")
}

/// Normalizes a number to one spelling: `five` to `5`, `1,000` to `1000`.
fn digits(word: &str) -> Cow<'_, str> {
    if let Some((_, digits)) = NUMBERS.iter().find(|(spelled, _)| *spelled == word) {
        return Cow::Borrowed(digits);
    }
    if word.contains(',') { Cow::Owned(word.replace(',', "")) } else { Cow::Borrowed(word) }
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
        Wording::of(text).words().map(|word| (word.stem.to_owned(), word.class)).collect()
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
        let named = Wording::of("the Store has max_rows and v2");
        let named: Vec<bool> = named.words().map(|word| word.is_name).collect();
        assert_eq!(named, [false, true, false, true, false, true]);
        let wording = Wording::of("port: 80 = x. The \u{c9}t\u{e9} isn\u{2019}t 1,5");
        let behind: Vec<&str> = wording.words().map(|word| word.behind).collect();
        assert_eq!(behind, ["", ":", "=", "", "the", "\u{e9}t\u{e9}", "isn't"]);
        let spelled: Vec<&str> = wording.words().map(|word| word.spelled).collect();
        assert_eq!(spelled, ["port", "80", "x", "the", "\u{e9}t\u{e9}", "isn't", "1,5"]);
    }

    #[test]
    fn statements_are_sentences_and_points_within_bounds() {
        let lengths = |text: &str| -> Vec<usize> {
            Wording::of(text).statements().map(Iterator::count).collect()
        };
        let text = "One is here. Two is v1.2 there!\n- three\n- four\n\nfive\nsix";
        assert_eq!(lengths(text), [3, 4, 1, 1, 2], "a line alone ends nothing");
        assert_eq!(lengths(&"x. ".repeat(1000)).len(), STATEMENTS_MAX);
        assert!(lengths(&"word ".repeat(100)).is_empty(), "no match for any");
        assert_eq!(classes("\u{e9}\u{1f600}\u{2019}\u{0}"), classes("\u{e9}"));
        assert!(lengths("").is_empty());
        assert_eq!(Wording::of(&"word ".repeat(10_000)).len(), BYTES_MAX / 5 + 1);
    }

    #[test]
    fn what_grows_in_lower_case_is_read_whole() {
        // The lower case of U+0130 is one byte longer than the character.
        let grows = "\u{130}".repeat(BYTES_MAX);
        assert_eq!(Wording::of(&grows).len(), 1);
    }
}
