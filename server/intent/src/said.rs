//! Tokenizer of commands: words, ids, paths, numbers and quotes, with their position in the text.
//!
//! A quote is a single token, and its words never count as words of the command.

use std::ops::Range;

use jiff::tz::TimeZone;
use serde_json::Value;

use recalld_status_answers::stem;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Tokens of a command; later text only belongs to the command's last argument.
    const PIECES_MAX: usize = 256;
    /// Letters of a file name's extension.
    const ENDING_CHARS_MAX: usize = 6;
}

/// Words with a slash that are not paths.
const NO_PATHS: [&str; 16] = [
    "and/or",
    "read/write",
    "yes/no",
    "true/false",
    "on/off",
    "he/she",
    "w/o",
    "n/a",
    "i/o",
    "input/output",
    "client/server",
    "tcp/ip",
    "ci/cd",
    "a/b",
    "24/7",
    "his/her",
];
/// Words with a dot that are not file names.
const NO_FILES: [&str; 4] = ["e.g", "i.e", "a.m", "p.m"];
/// Prefixes of ids, with their kinds.
const IDS: [(&str, Sort); 10] = [
    ("itm_", Sort::Item),
    ("doc_", Sort::Document),
    ("chk_", Sort::Chunk),
    ("art_", Sort::Artifact),
    ("tsk_", Sort::Attempt),
    ("fup_", Sort::Followup),
    ("job_", Sort::Job),
    ("edg_", Sort::Edge),
    ("src_", Sort::Source),
    ("rcp_", Sort::Receipt),
];
/// Opening and closing quotation marks.
const QUOTES: [(char, char); 5] =
    [('"', '"'), ('\u{201c}', '\u{201d}'), ('\u{ab}', '\u{bb}'), ('`', '`'), ('\'', '\'')];

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Word,
    Number,
    /// Two integers with a hyphen between: `10-20`.
    Range,
    Item,
    Document,
    Chunk,
    Artifact,
    Attempt,
    Followup,
    Job,
    Edge,
    Source,
    Receipt,
    Path,
    /// Pattern of file names.
    Glob,
    /// A URI.
    Address,
    /// SHA-256 in 64 hexadecimal digits.
    Hash,
    Quote,
    /// JSON object or array.
    Json,
    /// Time zone of the IANA database.
    Zone,
    /// Principal, a name with a colon: `user:ada`.
    Principal,
    /// Punctuation mark.
    Mark,
}

impl Sort {
    /// Returns true for an id of a record that is stored as an item, of any kind.
    pub(crate) fn is_item(self) -> bool {
        use Sort::{Artifact, Attempt, Chunk, Document, Followup, Item, Job};
        matches!(self, Item | Document | Chunk | Artifact | Attempt | Followup | Job)
    }
}

/// Token of a command.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) sort: Sort,
    /// Byte range in the text, including quotation marks.
    pub(crate) at: Range<usize>,
    /// Text as written; for a quote, without its quotation marks.
    pub(crate) text: String,
    /// Stem in lower case; empty unless the token is a word.
    pub(crate) word: String,
}

/// Tokenized command.
#[derive(Debug)]
pub(crate) struct Said<'t> {
    pub(crate) text: &'t str,
    pub(crate) pieces: Vec<Piece>,
}

impl<'t> Said<'t> {
    pub(crate) fn of(text: &'t str) -> Self {
        let mut said = Self { text, pieces: Vec::new() };
        let mut at = 0;
        while at < text.len() && said.pieces.len() < PIECES_MAX {
            at = said.read(at);
        }
        said
    }

    /// Returns true if a question mark follows the token `from`, and more text follows the question mark.
    pub(crate) fn asks_within(&self, from: usize) -> bool {
        let asks = |piece: &Piece| piece.sort == Sort::Mark && piece.text == "?";
        let asked = self.pieces.iter().skip(from).position(asks);
        asked.is_some_and(|at| self.pieces[from + at..].iter().any(|piece| !asks(piece)))
    }

    /// Tokenizes at a byte offset, and returns the next offset.
    fn read(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        let Some(first) = rest.chars().next() else { return self.text.len() };
        if first.is_whitespace() {
            return at + first.len_utf8();
        }
        if let Some(end) = self.quote(at, first) {
            return end;
        }
        if matches!(first, '{' | '[')
            && let Some(end) = self.json(at)
        {
            return end;
        }
        let end = rest.find(char::is_whitespace).map_or(self.text.len(), |length| at + length);
        // A bracket or a quotation mark within a word is part of the word.
        self.run(at, end);
        end
    }

    /// Tokenizes a quote that starts here, if a closing mark follows.
    fn quote(&mut self, at: usize, first: char) -> Option<usize> {
        let (_, closing) = QUOTES.into_iter().find(|(opening, _)| *opening == first)?;
        let inside = at + first.len_utf8();
        let ends = |end: &usize| {
            let behind = self.text[*end + closing.len_utf8()..].chars().next();
            closing != '\'' || behind.is_none_or(|next| !next.is_alphanumeric())
        };
        let mut ends_at = self.text[inside..].match_indices(closing).map(|(end, _)| inside + end);
        let end = ends_at.find(ends)?;
        let behind = end + closing.len_utf8();
        self.push(Sort::Quote, at..behind, self.text[inside..end].trim().to_owned());
        Some(behind)
    }

    /// Tokenizes a complete JSON value that starts here.
    fn json(&mut self, at: usize) -> Option<usize> {
        let mut values = serde_json::Deserializer::from_str(&self.text[at..]).into_iter::<Value>();
        values.next()?.ok()?;
        let end = at + values.byte_offset();
        self.push(Sort::Json, at..end, self.text[at..end].to_owned());
        Some(end)
    }

    /// Tokenizes a run without whitespace: punctuation, a word, punctuation.
    fn run(&mut self, from: usize, to: usize) {
        let text = &self.text[from..to];
        let is_sign = |c: char| !c.is_alphanumeric() && !matches!(c, '/' | '_' | '*' | '~');
        let begins = |c: char| is_sign(c) && !matches!(c, '-' | '.') || c == '>';
        let inner = text.trim_start_matches(begins);
        let start = from + text.len() - inner.len();
        let inner = inner.trim_end_matches(is_sign);
        let end = start + inner.len();
        self.marks(from..start);
        if !inner.is_empty() {
            self.piece(start..end);
        }
        self.marks(end..to);
    }

    fn marks(&mut self, at: Range<usize>) {
        let signs = self.text[at.clone()].char_indices();
        let signs: Vec<(usize, char)> =
            signs.filter(|(_, sign)| !matches!(sign, '(' | ')' | '"' | '\'')).collect();
        for (offset, sign) in signs {
            let start = at.start + offset;
            self.push(Sort::Mark, start..start + sign.len_utf8(), sign.to_string());
        }
    }

    fn piece(&mut self, at: Range<usize>) {
        let text = &self.text[at.clone()];
        // `src/main.rs:10-20` is a path with its lines.
        if let Some((path, lines)) = text.rsplit_once(':')
            && sort_of(path) == Sort::Path
            && matches!(sort_of(lines), Sort::Number | Sort::Range)
        {
            let colon = at.start + path.len();
            self.push(Sort::Path, at.start..colon, path.to_owned());
            self.push(Sort::Mark, colon..colon + 1, ":".to_owned());
            self.push(sort_of(lines), colon + 1..at.end, lines.to_owned());
            return;
        }
        let sort = sort_of(text);
        if sort == Sort::Word && text.contains('-') && !is_date(text) {
            self.hyphenated(at);
            return;
        }
        self.push(sort, at, text.to_owned());
    }

    /// Tokenizes the words of `follow-up` separately.
    fn hyphenated(&mut self, at: Range<usize>) {
        let mut start = at.start;
        for part in self.text[at].split('-') {
            if !part.is_empty() {
                self.push(Sort::Word, start..start + part.len(), part.to_owned());
            }
            start += part.len() + 1;
        }
    }

    fn push(&mut self, sort: Sort, at: Range<usize>, text: String) {
        let word = if sort == Sort::Word { plain(&text) } else { String::new() };
        self.pieces.push(Piece { sort, at, text, word });
    }
}

/// Normalizes a word: lower case, without a contraction such as `'s` and without a plural ending.
pub(crate) fn plain(text: &str) -> String {
    let lower = text.to_lowercase().replace('\u{2019}', "'");
    let ends = ["'s", "'d", "'m", "'ll", "'re", "'ve"];
    let bare = ends.iter().find_map(|end| lower.strip_suffix(end)).unwrap_or(&lower);
    stem(&bare.replace('\'', ""))
}

fn sort_of(text: &str) -> Sort {
    let is_id = |prefix: &str| {
        let rest = text.strip_prefix(prefix);
        rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    if let Some((_, sort)) = IDS.iter().find(|(prefix, _)| is_id(prefix)) {
        return *sort;
    }
    if text.contains("://") {
        return Sort::Address;
    }
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Sort::Hash;
    }
    if text.parse::<f64>().is_ok_and(f64::is_finite) && text.ends_with(|c: char| c.is_ascii_digit())
    {
        return Sort::Number;
    }
    if range_of(text).is_some() {
        return Sort::Range;
    }
    if text.contains('*') {
        return Sort::Glob;
    }
    if text.contains('/') {
        return slashed(text);
    }
    if is_file(text) {
        return Sort::Path;
    }
    let parts = text.split_once(':');
    let named = |part: &str| part.chars().next().is_some_and(char::is_alphabetic);
    if parts.is_some_and(|(kind, name)| named(kind) && named(name)) {
        return Sort::Principal;
    }
    Sort::Word
}

fn slashed(text: &str) -> Sort {
    let lower = text.to_lowercase();
    let is_day = text.split('/').all(|part| part.parse::<u32>().is_ok());
    if NO_PATHS.contains(&lower.as_str()) || is_day {
        return Sort::Word;
    }
    let begins = text.starts_with(|c: char| c.is_ascii_uppercase());
    if begins && TimeZone::get(text).is_ok() { Sort::Zone } else { Sort::Path }
}

fn is_file(text: &str) -> bool {
    let Some((name, ending)) = text.rsplit_once('.') else { return false };
    let is_ending = (1..=ENDING_CHARS_MAX).contains(&ending.len())
        && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && ending.starts_with(|c: char| c.is_ascii_alphabetic());
    is_ending && name.len() > 1 && !NO_FILES.contains(&text.to_lowercase().as_str())
}

/// Parses two integers in ascending order: `10-20`.
pub(crate) fn range_of(text: &str) -> Option<(i64, i64)> {
    let (first, last) = text.split_once(['-', '\u{2013}'])?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (0 <= first && first <= last).then_some((first, last))
}

fn is_date(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorts(text: &str) -> Vec<(Sort, String)> {
        Said::of(text).pieces.into_iter().map(|piece| (piece.sort, piece.text)).collect()
    }

    #[test]
    fn every_piece_is_what_it_looks_like() {
        for (text, sort) in [
            ("itm_00000000000000000000000002", Sort::Item),
            ("README.md", Sort::Path),
            ("docs/old", Sort::Path),
            ("and/or", Sort::Word),
            ("Europe/Berlin", Sort::Zone),
            ("https://example.org/a", Sort::Address),
            ("10-20", Sort::Range),
            ("-0.5", Sort::Number),
            ("*.md", Sort::Glob),
            ("user:ada", Sort::Principal),
            ("\"a b\"", Sort::Quote),
            ("{\"a\": [1, 2]}", Sort::Json),
            ("2026-01-05", Sort::Word),
            ("v1.2", Sort::Word),
        ] {
            let pieces = sorts(text);
            assert_eq!((pieces.len(), pieces[0].0), (1, sort), "{text}: {pieces:?}");
        }
    }

    #[test]
    fn signs_are_pieces_and_quotes_keep_their_words() {
        let pieces = sorts("forget itm_a, it's \"really wrong\" (src/main.rs:10-20).");
        let texts: Vec<&str> = pieces.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(
            texts,
            ["forget", "itm_a", ",", "it's", "really wrong", "src/main.rs", ":", "10-20", "."]
        );
        assert_eq!(sorts("don't 'do it' now").len(), 3);
        assert_eq!(sorts("an open \"quote").len(), 3);
        assert_eq!(sorts("a follow-up").len(), 3);
        assert!(sorts(&"a ".repeat(2 * PIECES_MAX)).len() <= PIECES_MAX);
    }

    #[test]
    fn words_lose_their_endings() {
        for (word, stem) in [("What's", "what"), ("I'd", "i"), ("don't", "dont"), ("FILES", "file")]
        {
            assert_eq!(plain(word), stem);
        }
    }
}
