//! Tokenizer: splits text into terms.
//!
//! Owns the boundaries of words, their splitting and their normalization to terms. Rows and ranking are left to other
//! modules. Documents and queries use the same code and differ only in the kinds of term that they use.
//!
//! A *compound* is a run of words joined by single connectors (`PEP-387`, `src/net/conn.rs`, `foo::bar`). A compound
//! yields one *whole* for each level that joins something, and its *parts*. Levels, outermost first: `/`, then `. : -`,
//! then `_`, then changes of case and between letters and digits (`HTTPServer2`).

use std::cell::Cell;

use super::char_folding::{CharClass, class, fold, is_mark};
use super::layout::TERM_BYTES_MAX;
use super::stemmer::CachedStemmer;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of parts into which case and digits split a word. A word with more parts (a hash, a key) is not
    /// split.
    const UNIT_PARTS_MAX: usize = 6;
}

/// Connectors of each level, outermost first.
const LEVELS: [&[u8]; 3] = [b"/", b".:-", b"_"];

/// Kind of a term within its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TermKind {
    /// Plain word, or a pair of characters of a script without spaces.
    Word,
    /// Part of a compound.
    Part,
    /// Whole compound, an alternative to its parts.
    Whole,
    /// Single character of a longer run of a script without spaces. Indexed for documents only, so that a query of one
    /// character matches them.
    Single,
}

/// Token: one term of a text.
#[derive(Debug, Clone, Copy)]
pub struct Token<'a> {
    /// Normalized term, 1 to [`TERM_BYTES_MAX`] bytes.
    pub term: &'a str,
    /// Kind of the term.
    pub kind: TermKind,
    /// Number of the compound or word in the text; all terms of a compound have the same number.
    pub group: u32,
}

/// Splits texts into terms; reuses its buffers between texts.
pub struct Analyzer {
    folded: String,
    spelling: TermNormalizer,
}

thread_local! {
    /// Analyzer of this thread, shared by its readers.
    static THREAD_ANALYZER: Cell<Option<Analyzer>> = const { Cell::new(None) };
}

impl Default for Analyzer {
    fn default() -> Self {
        Self::new()
    }
}

impl Analyzer {
    /// Creates an analyzer at no cost. Over many texts, the analyzer caches the stems of common words.
    pub fn new() -> Self {
        Self { folded: String::new(), spelling: TermNormalizer::new() }
    }

    /// Runs `read` with the analyzer of this thread, whose cache of stems persists between calls. A nested call gets a
    /// new analyzer.
    pub fn with_thread_local<T>(read: impl FnOnce(&mut Self) -> T) -> T {
        let mut analyzer = THREAD_ANALYZER.take().unwrap_or_default();
        let read = read(&mut analyzer);
        THREAD_ANALYZER.set(Some(analyzer));
        read
    }

    /// Passes the terms of `text` to `sink` in order, until `sink` returns false.
    pub fn tokens(&mut self, text: &str, sink: impl FnMut(Token<'_>) -> bool) {
        self.tokenize(text, true, sink);
    }

    /// Tokenizes like [`Analyzer::tokens`], but without splitting by case and digits: `HTTPServer2` is one word, and
    /// `src/net.rs` has three.
    pub(crate) fn tokens_unsplit(&mut self, text: &str, sink: impl FnMut(Token<'_>) -> bool) {
        self.tokenize(text, false, sink);
    }

    fn tokenize(&mut self, text: &str, divides: bool, sink: impl FnMut(Token<'_>) -> bool) {
        let mut folded = std::mem::take(&mut self.folded);
        folded.clear();
        let text = if text.is_ascii() {
            text
        } else {
            fold(text, &mut folded);
            &folded
        };
        let mut scan = Tokenizer {
            spelling: &mut self.spelling,
            sink,
            splits_words: divides,
            group: 0,
            open: true,
        };
        let mut at = 0;
        while scan.open && at < text.len() {
            at = scan.step(text, at);
        }
        self.folded = folded;
    }
}

/// Normalizes terms: lower case, bounded length, stemmed.
struct TermNormalizer {
    stems: CachedStemmer,
    lower: String,
    term: String,
}

impl TermNormalizer {
    fn new() -> Self {
        Self { stems: CachedStemmer::new(), lower: String::new(), term: String::new() }
    }

    /// Normalizes a word: without apostrophes and a final `'s`, in lower case, truncated to the maximum length,
    /// stemmed.
    fn word(&mut self, text: &str) -> &str {
        let text = text.strip_suffix("'s").or_else(|| text.strip_suffix("'S")).unwrap_or(text);
        self.lower.clear();
        self.term.clear();
        if text.is_ascii() {
            let bytes = text.bytes().filter(|byte| *byte != b'\'').take(TERM_BYTES_MAX);
            self.lower.extend(bytes.map(|byte| char::from(byte.to_ascii_lowercase())));
        } else {
            for letter in text.chars().filter(|letter| *letter != '\'').flat_map(char::to_lowercase)
            {
                if self.lower.len() + letter.len_utf8() > TERM_BYTES_MAX {
                    break;
                }
                self.lower.push(letter);
            }
        }
        self.stems.stem(&self.lower, &mut self.term);
        &self.term
    }

    /// Normalizes a whole compound to lower case; `None` if the result exceeds the maximum length.
    fn whole(&mut self, text: &str) -> Option<&str> {
        self.term.clear();
        for letter in text.chars().flat_map(char::to_lowercase) {
            if self.term.len() + letter.len_utf8() > TERM_BYTES_MAX {
                return None;
            }
            self.term.push(letter);
        }
        Some(&self.term)
    }
}

/// State of the tokenization of one text.
struct Tokenizer<'s, S> {
    spelling: &'s mut TermNormalizer,
    sink: S,
    /// True if case and digits split words.
    splits_words: bool,
    group: u32,
    open: bool,
}

impl<S: FnMut(Token<'_>) -> bool> Tokenizer<'_, S> {
    /// Handles the character or token at `at` and returns the offset of the next one.
    fn step(&mut self, text: &str, at: usize) -> usize {
        match class_at(text, at) {
            (CharClass::Other, next) => next,
            (CharClass::Spaceless, _) => {
                let end = run_end(text, at, CharClass::Spaceless);
                self.spaceless(&text[at..end]);
                self.group += 1;
                end
            }
            (CharClass::Letter, _) => {
                if let Some(end) = plain_end(text.as_bytes(), at) {
                    self.word(&text[at..end], TermKind::Word);
                    self.group += 1;
                    return end;
                }
                let end = compound_end(text, at);
                let past = suffix_end(text, at, end);
                if past > end {
                    self.whole(&text[at..past]);
                    self.word(&text[at..end], TermKind::Part);
                } else {
                    self.compound(&text[at..end], 0, TermKind::Word);
                }
                self.group += 1;
                past
            }
        }
    }

    fn emit(&mut self, kind: TermKind) {
        let term = &self.spelling.term;
        if self.open && !term.is_empty() {
            self.open = (self.sink)(Token { term, kind, group: self.group });
        }
    }

    fn word(&mut self, text: &str, kind: TermKind) {
        self.spelling.word(text);
        self.emit(kind);
    }

    fn whole(&mut self, text: &str) {
        if self.spelling.whole(text).is_some() {
            self.emit(TermKind::Whole);
        }
    }

    /// Emits the terms of a compound, from `level` inwards; a plain word becomes a term of `kind`.
    fn compound(&mut self, text: &str, level: usize, kind: TermKind) {
        let Some(connectors) = LEVELS.get(level) else { return self.unit(text, kind) };
        if !self.open {
            return;
        }
        if !text.bytes().any(|byte| connectors.contains(&byte)) {
            return self.compound(text, level + 1, kind);
        }
        self.whole(text);
        let joint = |letter: char| u8::try_from(letter).is_ok_and(|it| connectors.contains(&it));
        for piece in text.split(joint).filter(|piece| !piece.is_empty()) {
            self.compound(piece, level + 1, TermKind::Part);
        }
    }

    /// Emits a run of letters and digits, and its parts if case or digits split the run.
    fn unit(&mut self, text: &str, kind: TermKind) {
        let mut cuts = [0; UNIT_PARTS_MAX];
        match if self.splits_words { split_word(text, &mut cuts) } else { 0 } {
            0 => self.word(text, kind),
            count => {
                self.word(text, TermKind::Whole);
                let mut from = 0;
                for to in cuts[..count].iter().copied().chain([text.len()]) {
                    self.word(&text[from..to], TermKind::Part);
                    from = to;
                }
            }
        }
    }

    /// Emits the pairs of characters of a run without spaces, and the single characters.
    fn spaceless(&mut self, run: &str) {
        let mut previous: Option<&str> = None;
        let mut rest = run;
        while !rest.is_empty() && self.open {
            let (this, after) = rest.split_at(cluster_end(rest));
            match previous {
                Some(before) => {
                    let pair = &run[run.len() - rest.len() - before.len()..run.len() - after.len()];
                    self.emit_word(pair, TermKind::Word);
                    self.emit_word(this, TermKind::Single);
                }
                None if after.is_empty() => self.emit_word(this, TermKind::Word),
                None => self.emit_word(this, TermKind::Single),
            }
            previous = Some(this);
            rest = after;
        }
    }

    fn emit_word(&mut self, text: &str, kind: TermKind) {
        if self.spelling.whole(text).is_some() {
            self.emit(kind);
        }
    }
}

/// Returns the class of the character at `at` and the offset of the next character. `_` counts as a letter.
fn class_at(text: &str, at: usize) -> (CharClass, usize) {
    let byte = text.as_bytes()[at];
    if byte.is_ascii() {
        let letter = byte.is_ascii_alphanumeric() || byte == b'_';
        return (if letter { CharClass::Letter } else { CharClass::Other }, at + 1);
    }
    let letter = text[at..].chars().next().expect("at is inside the text, on a boundary");
    (class(letter), at + letter.len_utf8())
}

/// Returns the end of the run of characters of one class that starts at `at`. Marks stay with their base character.
fn run_end(text: &str, at: usize, wanted: CharClass) -> usize {
    let mut end = at;
    while end < text.len() {
        let (found, next) = class_at(text, end);
        let mark = wanted == CharClass::Spaceless
            && found == CharClass::Letter
            && text[end..].chars().next().is_some_and(is_mark);
        if found != wanted && !mark {
            break;
        }
        end = next;
    }
    end
}

/// Fast path for the most common words: returns the end of a word of lower-case ASCII letters, with an optional initial
/// capital, before a byte that joins nothing. `None` means that the general rules apply; they would find the same end.
fn plain_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let first = usize::from(rest.first()?.is_ascii_alphabetic());
    let small = rest[first..].iter().take_while(|byte| byte.is_ascii_lowercase()).count();
    let end = first + small;
    let is_apart =
        |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphanumeric() && !b"_-.:/'+#".contains(byte);
    let is_end = match rest.get(end) {
        None => true,
        Some(b'.' | b':') => rest.get(end + 1).is_none_or(is_apart),
        Some(byte) => is_apart(byte),
    };
    (first == 1 && is_end).then_some(at + end)
}

/// Returns the end of the compound that starts at `at`: runs of letters joined by single connectors (or `::`).
fn compound_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let mut end = run_end(text, at, CharClass::Letter);
    loop {
        let joint = match bytes.get(end) {
            Some(b':') if bytes.get(end + 1) == Some(&b':') => 2,
            Some(b'-' | b'.' | b':' | b'/' | b'\'') => 1,
            _ => return end,
        };
        let next = end + joint;
        if next >= text.len() || class_at(text, next).0 != CharClass::Letter {
            return end;
        }
        end = run_end(text, next, CharClass::Letter);
    }
}

/// Returns the end of the suffix of a single letter (`C++`, `C#`); `end` if there is no suffix.
fn suffix_end(text: &str, at: usize, end: usize) -> usize {
    let bytes = text.as_bytes();
    if end - at != 1 || !bytes[at].is_ascii_alphabetic() {
        return end;
    }
    let past = match (bytes.get(end), bytes.get(end + 1)) {
        (Some(b'+'), Some(b'+')) => end + 2,
        (Some(b'#'), _) => end + 1,
        _ => return end,
    };
    if past < text.len() && class_at(text, past).0 != CharClass::Other { end } else { past }
}

/// Returns the end of the first character and its marks.
fn cluster_end(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1).skip_while(|(_, letter)| is_mark(*letter));
    letters.next().map_or(text.len(), |(at, _)| at)
}

/// Writes the offsets at which case or digits split `text`, and returns their number: 0 for a plain word and for a word
/// with too many splits.
fn split_word(text: &str, cuts: &mut [usize; UNIT_PARTS_MAX]) -> usize {
    let mut count = 0;
    let mut letters = text.char_indices().peekable();
    let Some((_, mut before)) = letters.next() else { return 0 };
    while let Some((at, this)) = letters.next() {
        let after = letters.peek().map(|(_, letter)| *letter);
        let digits =
            before.is_ascii_digit() != this.is_ascii_digit() && before != '\'' && this != '\'';
        let rise = before.is_lowercase() && this.is_uppercase();
        // The last capital of a run starts the next word (HTTPServer), unless only a plural `s` follows (APIs).
        let plural = matches!(text.as_bytes()[at + this.len_utf8()..], [b's'] | [b'\'', b's']);
        let hump = before.is_uppercase()
            && this.is_uppercase()
            && after.is_some_and(char::is_lowercase)
            && !plural;
        if digits || rise || hump {
            // The last of the parts follows the last split.
            if count + 1 == UNIT_PARTS_MAX {
                return 0;
            }
            cuts[count] = at;
            count += 1;
        }
        before = this;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ascii_fast_path_equals_the_general_tokenizer(
            text in "[A-Ca-c]{1,4}[-.:/'+#_0(\u{E9}\u{301}\u{4E00} ]{0,3}[A-Ca-c ]{0,3}",
        ) {
            let plain = plain_end(text.as_bytes(), 0);
            if let Some(end) = plain {
                prop_assert_eq!(compound_end(&text, 0), end);
                prop_assert_eq!(suffix_end(&text, 0, end), end);
                prop_assert_eq!(split_word(&text[..end], &mut [0; UNIT_PARTS_MAX]), 0);
            }
        }
    }

    #[test]
    fn plain_words_take_the_fast_path() {
        for (text, end) in [("Word next", Some(4)), ("word.", Some(4)), ("word. Next", Some(4))] {
            assert_eq!(plain_end(text.as_bytes(), 0), end, "{text}");
        }
        for text in ["aB c", "a.b", "a-b", "a::b", "C++", "don't", "a\u{301}", "a1", " a", "_a"] {
            assert_eq!(plain_end(text.as_bytes(), 0), None, "{text}");
        }
    }
}
