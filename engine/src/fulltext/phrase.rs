//! Phrases: the quoted parts of a query, and their verbatim match in a text.
//!
//! Owns the definitions of "quoted" and "adjacent". The columns have no positions, so a text is analysed again for the
//! match. The choice of texts is left to the caller.
//!
//! A text is a sequence of *positions*, one for each plain word, each part of a compound, each character of a script
//! without spaces. A whole compound spans the positions of its parts, so `"HTTPServer"` matches both `httpserver` and
//! `http server`, and vice versa. Case, accents and endings are normalized as elsewhere; characters between two words
//! are ignored.

use std::collections::HashMap;
use std::ops::Range;

use super::analyzer::{Analyzer, TermKind, Token};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of phrases per query; later phrases are not required.
    pub const PHRASES_MAX: usize = 8;

    /// Maximum number of positions per phrase; later positions are not required.
    pub const PHRASE_WORDS_MAX: usize = 32;
}

const _: () = assert!(PHRASE_WORDS_MAX < u64::BITS as usize, "prefixes of a phrase are bits");

/// Quoted phrases of a query, all of which are required.
#[derive(Debug, Clone, Default)]
pub struct Phrases {
    phrases: Vec<Phrase>,
    /// Numbers of the terms of all phrases.
    terms: HashMap<String, u16>,
    /// True if a phrase was too long or there were too many phrases.
    is_truncated: bool,
}

#[derive(Debug, Clone)]
struct Phrase {
    arcs: Vec<TokenArc>,
    positions: u32,
}

/// Term that spans positions of a text.
#[derive(Debug, Clone, Copy)]
struct TokenArc {
    from: u32,
    to: u32,
    term: u16,
}

/// Requirement of one word or compound of a phrase: a row must have all parts, or the whole.
#[derive(Debug, Clone, Default)]
pub(super) struct TermAlternatives {
    pub(super) parts: Vec<String>,
    pub(super) whole: Option<String>,
}

impl Phrases {
    /// Returns the phrases of a query, in order. Quotes without a word are not phrases.
    pub fn parse(analyzer: &mut Analyzer, question: &str) -> Self {
        let mut found = Self::default();
        for text in quoted_spans(question) {
            let mut line = TokenLine::default();
            let terms = &mut found.terms;
            let next = |terms: &HashMap<String, u16>| u16::try_from(terms.len()).ok();
            let whole = line.read(analyzer, text, PHRASE_WORDS_MAX, |term| match terms.get(term) {
                Some(&number) => Some(number),
                None => {
                    let number = next(terms)?;
                    terms.insert(term.to_owned(), number);
                    Some(number)
                }
            });
            if line.positions == 0 {
                continue;
            }
            if found.phrases.len() == PHRASES_MAX {
                found.is_truncated = true;
                break;
            }
            found.is_truncated |= !whole;
            line.drop_single_parts();
            found.phrases.push(Phrase { arcs: line.arcs, positions: line.positions });
        }
        found
    }

    /// Returns true if there are no phrases.
    pub fn is_empty(&self) -> bool {
        self.phrases.is_empty()
    }

    /// Returns true if quoted text exceeds a limit and is therefore not required.
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Returns the terms that a row must have, at any position, before its texts can match all phrases.
    pub(super) fn required_terms(&self) -> Vec<TermAlternatives> {
        let mut spelled: Vec<&str> = vec![""; self.terms.len()];
        for (term, number) in &self.terms {
            spelled[usize::from(*number)] = term;
        }
        let term = |arc: &TokenArc| spelled[usize::from(arc.term)].to_owned();
        let mut needs: Vec<TermAlternatives> = Vec::new();
        for phrase in &self.phrases {
            let mut at = 0;
            while at < phrase.positions {
                let here = |arc: &&TokenArc| arc.from == at;
                let whole = phrase.arcs.iter().filter(here).max_by_key(|arc| arc.to);
                let Some(widest) = whole else { break };
                let over = at..widest.to;
                let parts = phrase.arcs.iter().filter(|arc| over.contains(&arc.from));
                let (wide, narrow): (Vec<&TokenArc>, Vec<&TokenArc>) =
                    parts.partition(|arc| arc.to - arc.from > 1);
                needs.push(TermAlternatives {
                    parts: narrow.into_iter().map(term).collect(),
                    whole: wide.first().map(|arc| term(arc)),
                });
                at = widest.to;
            }
        }
        needs
    }

    /// Returns true if each phrase matches one of these texts.
    pub fn match_texts(
        &self,
        analyzer: &mut Analyzer,
        texts: &[&str],
        scratch: &mut PhraseScratch,
    ) -> bool {
        let mut missing: Vec<&Phrase> = self.phrases.iter().collect();
        for text in texts {
            scratch.line.clear();
            scratch.line.read(analyzer, text, usize::MAX, |term| self.terms.get(term).copied());
            missing.retain(|phrase| !phrase.matches(&scratch.line, &mut scratch.prefix_ends));
        }
        missing.is_empty()
    }
}

/// Reusable memory for matching texts.
#[derive(Debug, Default)]
pub struct PhraseScratch {
    line: TokenLine,
    prefix_ends: Vec<u64>,
}

impl Phrase {
    /// Matches all prefixes of the phrase at once: bit `n` of `reached[at]` is set if the first `n` positions of the
    /// phrase end at `at`. Arcs are ordered by their start, so all arcs to a position come before the arcs from it.
    fn matches(&self, line: &TokenLine, reached: &mut Vec<u64>) -> bool {
        reached.clear();
        reached.resize(line.positions as usize + 1, 0);
        for arc in &line.arcs {
            let begun = reached[arc.from as usize] | 1;
            for own in self.arcs.iter().filter(|own| own.term == arc.term) {
                if begun >> own.from & 1 == 1 {
                    if own.to == self.positions {
                        return true;
                    }
                    reached[arc.to as usize] |= 1 << own.to;
                }
            }
        }
        false
    }
}

/// Text as the arcs of its relevant terms.
#[derive(Debug, Default)]
struct TokenLine {
    arcs: Vec<TokenArc>,
    positions: u32,
}

/// Compound or word that is being read.
#[derive(Default)]
struct OpenCompound {
    number: Option<u32>,
    /// True until the first term of the group arrives.
    is_new: bool,
    /// First position of the group.
    start: u32,
    /// True if the group also has a whole.
    is_compound: bool,
    /// Index of the first arc, if this arc spans the group.
    whole: Option<usize>,
    /// True for a script without spaces, of which the characters count and not their pairs.
    is_spaceless: bool,
}

impl TokenLine {
    fn clear(&mut self) {
        self.arcs.clear();
        self.positions = 0;
    }

    /// Reads at most `most` positions of a text; `number` returns the number of a relevant term. Returns true if the
    /// whole text was read.
    fn read(
        &mut self,
        analyzer: &mut Analyzer,
        text: &str,
        most: usize,
        mut number: impl FnMut(&str) -> Option<u16>,
    ) -> bool {
        let mut group = OpenCompound::default();
        let mut is_all = true;
        analyzer.tokens(text, |emit| {
            if group.number != Some(emit.group) {
                self.close(&group);
                if self.positions as usize >= most {
                    is_all = false;
                    return false;
                }
                let (number, start) = (Some(emit.group), self.positions);
                group = OpenCompound { number, start, is_new: true, ..OpenCompound::default() };
            }
            is_all = self.push(emit, &mut group, most, &mut number);
            is_all
        });
        self.close(&group);
        is_all
    }

    /// Adds the next term of a text; returns false if the limit of positions is reached.
    fn push(
        &mut self,
        emit: Token<'_>,
        group: &mut OpenCompound,
        most: usize,
        number: &mut impl FnMut(&str) -> Option<u16>,
    ) -> bool {
        let is_first = std::mem::take(&mut group.is_new);
        group.is_spaceless |= emit.kind == TermKind::Single;
        let from = self.positions;
        match emit.kind {
            TermKind::Whole if is_first => {
                group.is_compound = true;
                if let Some(term) = number(emit.term) {
                    group.whole = Some(self.arcs.len());
                    self.arcs.push(TokenArc { from, to: from + 1, term });
                }
            }
            TermKind::Whole => {}
            TermKind::Word if group.is_spaceless => {}
            TermKind::Word | TermKind::Part | TermKind::Single => {
                if from as usize >= most {
                    return false;
                }
                self.positions += 1;
                if let Some(term) = number(emit.term) {
                    self.arcs.push(TokenArc { from, to: from + 1, term });
                }
            }
        }
        true
    }

    /// Ends a compound at its last part. A compound without parts (`___`) takes one position.
    fn close(&mut self, group: &OpenCompound) {
        if group.is_compound && self.positions == group.start {
            self.positions += 1;
        }
        if let Some(whole) = group.whole {
            self.arcs[whole].to = self.positions;
        }
    }

    /// Drops the part of a compound with a single part (`C++`, `__init__`): only the whole may match.
    fn drop_single_parts(&mut self) {
        let arcs = std::mem::take(&mut self.arcs);
        for arc in arcs {
            match self.arcs.last() {
                Some(before) if (before.from, before.to) == (arc.from, arc.to) => {}
                _ => self.arcs.push(arc),
            }
        }
    }
}

/// Returns the texts in straight or curly quotes, outermost first. Not counted as quotes: an unclosed quote, an
/// apostrophe, and a straight quote after a letter or digit, which may mean inches.
fn quoted_spans(text: &str) -> impl Iterator<Item = &str> {
    let mut at = 0;
    // Marks without a closing mark in the rest of the text; later marks of the same kind are unclosed too.
    let mut unclosed: Vec<char> = Vec::new();
    std::iter::from_fn(move || {
        while let Some((open, mark)) = next_quote(text, at) {
            let inside = open + mark.len_utf8();
            if unclosed.contains(&mark) {
                at = inside;
                continue;
            }
            match closing_quote(text, inside, mark) {
                Some(range) => {
                    at = range.end + text[range.end..].chars().next().map_or(0, char::len_utf8);
                    return Some(&text[range]);
                }
                None => {
                    at = inside;
                    unclosed.push(mark);
                }
            }
        }
        None
    })
}

/// Returns the next quote from `at` on that may open a phrase.
fn next_quote(text: &str, at: usize) -> Option<(usize, char)> {
    let mut before = text[..at].chars().next_back();
    for (offset, mark) in text[at..].char_indices() {
        let follows_word = before.is_some_and(char::is_alphanumeric);
        let after = text[at + offset + mark.len_utf8()..].chars().next();
        let opens = match mark {
            '"' => !follows_word && after.is_some_and(|after| !after.is_whitespace()),
            '\u{201C}' | '\u{201E}' => true,
            _ => false,
        };
        if opens {
            return Some((at + offset, mark));
        }
        before = Some(mark);
    }
    None
}

/// Returns the range between an opening quote and its closing quote.
fn closing_quote(text: &str, inside: usize, mark: char) -> Option<Range<usize>> {
    text[inside..].char_indices().find_map(|(offset, letter)| {
        let at = inside + offset;
        let after = text[at + letter.len_utf8()..].chars().next();
        let closes = match (mark, letter) {
            ('"', '"') => !after.is_some_and(char::is_alphanumeric),
            ('\u{201C}', '\u{201D}') | ('\u{201E}', '\u{201C}' | '\u{201D}') => true,
            _ => false,
        };
        closes.then_some(inside..at)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &str) -> Vec<&str> {
        quoted_spans(text).collect()
    }

    #[test]
    fn quoted_spans_are_extracted() {
        for (text, wanted) in [
            ("who lit \"the big lamp\" and \"why\"?", vec!["the big lamp", "why"]),
            (
                "\u{201C}the lamp\u{201D} and \u{201E}die Lampe\u{201C}",
                vec!["the lamp", "die Lampe"],
            ),
            ("(\"a\", \"b\")", vec!["a", "b"]),
            ("\"a \u{201C}b\u{201D} c\"", vec!["a \u{201C}b\u{201D} c"]),
            ("\"\" x", vec![""]),
            (
                "\u{201C}a \u{201C}b \"c d\" \u{201E}e\u{201D}",
                vec!["a \u{201C}b \"c d\" \u{201E}e"],
            ),
            ("\u{201E}a \u{201E}b \"c d\" \u{201E}e \"f\"", vec!["c d", "f"]),
        ] {
            assert_eq!(all(text), wanted, "{text}");
        }
    }

    #[test]
    fn lone_quotes_apostrophes_and_inch_marks_are_not_phrases() {
        for text in [
            "",
            "\"",
            "say \"hello",
            "hello\" he said",
            "a 5\" and a 7\" disc",
            "the keeper's 'big lamp' isn't",
            "\u{2018}big lamp\u{2019}",
            "\u{201C}never closed",
            "closed only\u{201D}",
            "a \" b \" c",
        ] {
            assert!(all(text).is_empty(), "{text}: {:?}", all(text));
        }
    }

    #[test]
    fn quotes_without_a_word_are_not_phrases() {
        for text in ["\"\"", "\"!?\"", "\u{201C}...\u{201D}"] {
            assert!(Phrases::parse(&mut Analyzer::new(), text).is_empty(), "{text}");
        }
    }

    fn is_in(question: &str, text: &str) -> bool {
        let mut analyzer = Analyzer::new();
        let phrases = Phrases::parse(&mut analyzer, question);
        assert!(!phrases.is_empty(), "{question}");
        phrases.match_texts(&mut analyzer, &[text], &mut PhraseScratch::default())
    }

    #[test]
    fn phrase_words_must_be_adjacent_and_in_order() {
        for (question, text, wanted) in [
            ("\"big lamp\"", "The BIG, lamps were lit.", true),
            ("\"big lamp\"", "lamp big", false),
            ("\"big lamp\"", "big old lamp", false),
            ("\"a b a c\"", "a b a b a c", true),
            ("\"lamp\"", "lamplight", false),
            ("\"PEP-387\"", "see pep 387", true),
            ("\"pep 387\"", "see PEP-387.", true),
            ("\"the HTTPServer starts\"", "the httpserver starts", true),
            ("\"the httpserver starts\"", "the HTTPServer starts", true),
            ("\"http server starts\"", "HTTPServer starts", true),
            ("\"C++ code\"", "C++ code", true),
            ("\"C++ code\"", "C code", false),
            ("\"__init__ runs\"", "init runs", false),
            ("\"a ___ b\"", "a ___ b", true),
            ("\"a ___ b c\"", "a ___", false),
            ("\"a b\"", "a ___ b", false),
            ("\"src/net/conn.rs\"", "in src/net/conn.rs there", true),
            ("\"\u{6771}\u{4EAC} tower\"", "the \u{6771}\u{4EAC} tower", true),
            ("\"\u{4EAC}\u{90FD}\"", "\u{6771}\u{4EAC}\u{90FD}", true),
            ("\"\u{6771}\u{90FD}\"", "\u{6771}\u{4EAC}\u{90FD}", false),
            ("\"big lamp\" \"fog horn\"", "fog horn, big lamp", true),
            ("\"big lamp\" \"fog horn\"", "fog, horn; a big one, lamp", false),
        ] {
            assert_eq!(is_in(question, text), wanted, "{question} in {text}");
        }
    }

    proptest! {
        /// Any text matches a phrase of itself, and a phrase that does not match causes no error.
        #[test]
        fn text_matches_phrases_quoted_from_it(
            text in "[A-Ca-c_1\u{4E00}]{1,3}([-.:/'+#_( ]{1,2}[A-Ca-c2\u{4E00}\u{E01}]{0,3}){0,20}",
            other in "[A-Ca-c_1\u{4E00}]{1,3}([-.:/'+#_( ]{1,2}[A-Ca-c2\u{4E00}\u{E01}]{0,3}){0,20}",
        ) {
            let mut analyzer = Analyzer::new();
            let phrases = Phrases::parse(&mut analyzer, &format!("\"{text}\""));
            let mut reading = PhraseScratch::default();
            let around = format!("b (c), {text} ; a");
            prop_assert!(phrases.is_empty() || phrases.match_texts(&mut analyzer, &["", &around], &mut reading));
            phrases.match_texts(&mut analyzer, &[&other], &mut reading);
        }
    }

    #[test]
    fn phrase_does_not_span_title_and_text() {
        let mut analyzer = Analyzer::new();
        let phrases = Phrases::parse(&mut analyzer, "\"big lamp\" \"horn\"");
        let mut reading = PhraseScratch::default();
        assert!(!phrases.match_texts(&mut analyzer, &["big", "lamp horn"], &mut reading));
        assert!(phrases.match_texts(&mut analyzer, &["horn", "big lamp"], &mut reading));
    }

    #[test]
    fn oversized_phrases_are_truncated_and_reported() {
        let mut analyzer = Analyzer::new();
        let long = format!("\"{}lamp\"", "fog ".repeat(PHRASE_WORDS_MAX));
        let parsed = Phrases::parse(&mut analyzer, &long);
        assert!(parsed.is_truncated() && parsed.phrases[0].positions as usize == PHRASE_WORDS_MAX);
        let many = "\"lamp\" ".repeat(PHRASES_MAX + 1);
        let parsed = Phrases::parse(&mut analyzer, &many);
        assert!(parsed.is_truncated() && parsed.phrases.len() == PHRASES_MAX);
        assert!(!Phrases::parse(&mut analyzer, &"\"lamp\" ".repeat(PHRASES_MAX)).is_truncated());
    }

    #[test]
    fn required_terms_are_all_parts_or_the_whole() {
        let needs = Phrases::parse(&mut Analyzer::new(), "\"the PEP-387 C++\"").required_terms();
        let said: Vec<(Vec<&str>, Option<&str>)> = needs
            .iter()
            .map(|need| (need.parts.iter().map(String::as_str).collect(), need.whole.as_deref()))
            .collect();
        let wanted: [(Vec<&str>, Option<&str>); 3] =
            [(vec!["the"], None), (vec!["pep", "387"], Some("pep-387")), (vec!["c++"], None)];
        assert_eq!(said, wanted);
    }
}
