//! Analysed queries.
//!
//! Owns the terms of a query and the weights that the alternatives of a compound share. The rarity of a term is left to
//! bm25.rs.

use super::analyzer::{Analyzer, TermKind};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of distinct terms per query; later terms are ignored.
    pub const QUERY_TERMS_MAX: usize = 64;

    /// Maximum number of term occurrences per query, so that a huge query costs no more than a long one.
    const QUERY_USES_MAX: usize = 1024;
}

/// Minimum length of an identifier, in bytes.
const NAME_BYTES_MIN: usize = 4;

/// Minimum length of the longest piece of an identifier whose pieces only dots join, in bytes. The pieces of `U.S.A`
/// and `Ph.D` are shorter.
const POINTED_BYTES_MIN: usize = 3;

/// Weight of a stop word. Stop words stay in the index and in the query, but if the query has other terms, a stop word
/// counts little.
const FUNCTION_WORD_WEIGHT: f32 = 0.25;

/// English stop words, as normalized by the analyzer. Short on purpose: words with a meaning of their own ("will",
/// "may", "not") are not listed, and idf does the rest. Sorted for binary search.
const STOP_WORDS: &[&str] = &[
    "a", "about", "an", "and", "ani", "are", "as", "at", "be", "been", "but", "by", "can", "did",
    "do", "doe", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it",
    "me", "my", "of", "on", "or", "our", "should", "so", "than", "that", "the", "their", "them",
    "then", "there", "these", "they", "this", "those", "to", "was", "we", "were", "what", "when",
    "where", "whi", "which", "who", "with", "would", "you", "your",
];

/// Distinct term of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryTerm {
    /// Normalized term, as in the dictionary.
    pub term: String,
    /// True for a stop word ("the", "what").
    pub is_stop_word: bool,
    /// True for an identifier: a path, a symbol, an id (`engine/src/log.rs`, `parse_head`, `PEP-387`).
    pub is_identifier: bool,
}

/// Occurrence of a term in the query.
#[derive(Debug, Clone, Copy)]
struct TermOccurrence {
    term: usize,
    group: u32,
    kind: TermKind,
}

/// Analysed query.
#[derive(Debug, Clone, Default)]
pub struct Query {
    terms: Vec<QueryTerm>,
    occurrences: Vec<TermOccurrence>,
}

impl Query {
    /// Analyses a query; only the first [`QUERY_TERMS_MAX`] distinct terms are used.
    pub fn parse(analyzer: &mut Analyzer, text: &str) -> Self {
        let mut query = Self::default();
        analyzer.tokens(text, |emit| {
            if emit.kind == TermKind::Single {
                return true;
            }
            let known = query.terms.iter().position(|term| term.term == emit.term);
            if known.is_none() && query.terms.len() == QUERY_TERMS_MAX {
                return false;
            }
            let term = known.unwrap_or_else(|| {
                let function_word = emit.kind == TermKind::Word && is_stop_word(emit.term);
                let name = emit.kind == TermKind::Whole && is_identifier(emit.term);
                query.terms.push(QueryTerm {
                    term: emit.term.to_owned(),
                    is_stop_word: function_word,
                    is_identifier: name,
                });
                query.terms.len() - 1
            });
            query.occurrences.push(TermOccurrence { term, group: emit.group, kind: emit.kind });
            query.occurrences.len() < QUERY_USES_MAX
        });
        query
    }

    /// Distinct terms, in order of first occurrence.
    pub fn terms(&self) -> &[QueryTerm] {
        &self.terms
    }

    /// Returns the weight of each term; `exists` returns true for terms that occur in the collection.
    ///
    /// Each occurrence of a plain word weighs 1. The parts of a compound share a weight of 1, and so do its existing
    /// wholes. So an identifier weighs at most two plain words, one for its exact form and one for its parts, whatever
    /// their number. A whole that does not occur weighs nothing, as an alternative to its parts.
    pub(super) fn weights(&self, exists: impl Fn(usize) -> bool) -> Vec<f32> {
        let mut weights = vec![0.0; self.terms.len()];
        let mut from = 0;
        while let Some(first) = self.occurrences.get(from) {
            let rest = &self.occurrences[from..];
            let group = &rest[..rest.iter().take_while(|used| used.group == first.group).count()];
            let parts = group.iter().filter(|used| used.kind == TermKind::Part).count();
            let wholes = group
                .iter()
                .filter(|used| used.kind == TermKind::Whole && exists(used.term))
                .count();
            for used in group {
                weights[used.term] += match used.kind {
                    TermKind::Part => compound_share(parts),
                    TermKind::Whole if exists(used.term) => compound_share(wholes),
                    TermKind::Whole => 0.0,
                    TermKind::Word | TermKind::Single => 1.0,
                };
            }
            from += group.len();
        }
        if self.terms.iter().any(|term| !term.is_stop_word) {
            for (weight, term) in weights.iter_mut().zip(&self.terms) {
                *weight *= if term.is_stop_word { FUNCTION_WORD_WEIGHT } else { 1.0 };
            }
        }
        weights
    }
}

/// Returns true if a normalized word is a stop word.
pub(crate) fn is_stop_word(term: &str) -> bool {
    STOP_WORDS.binary_search(&term).is_ok()
}

/// Returns true if a lower-case compound is an identifier: letters with a digit, an underscore or a colon (`foo::bar`),
/// or words joined by dots (`os.path.join`, `src/main.rs`). Words joined only by slashes and hyphens (`and/or`),
/// initials with dots and short compounds (`e.g`, `5x`) are not identifiers.
fn is_identifier(whole: &str) -> bool {
    let has = |of: fn(&u8) -> bool| whole.bytes().any(|byte| of(&byte));
    let is_pointed = || {
        let pointed = whole.split('/').filter(|piece| piece.contains('.'));
        pointed.flat_map(|piece| piece.split('.')).any(|piece| piece.len() >= POINTED_BYTES_MIN)
    };
    whole.len() >= NAME_BYTES_MIN
        && has(u8::is_ascii_alphabetic)
        && (has(|byte| byte.is_ascii_digit() || b"_:".contains(byte)) || is_pointed())
}

#[expect(clippy::cast_precision_loss, reason = "a group has at most QUERY_USES_MAX uses")]
fn compound_share(among: usize) -> f32 {
    1.0 / among.max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_distinguished_from_words() {
        let mut analyzer = Analyzer::new();
        let mut named = |asked: &str| {
            let query = Query::parse(&mut analyzer, asked);
            query.terms().iter().any(|term| term.is_identifier)
        };
        for name in ["PEP-387", "engine/src/log.rs", "parse_head", "foo::bar", "IL-10", "utf8"] {
            assert!(named(name), "{name}");
        }
        for name in ["os.path.join", "time.sleep()", "main.c", "src/lib.a", "read/max_rows", "a/b2"]
        {
            assert!(named(name), "{name}");
        }
        for plain in ["well-known", "e.g. this", "0.05", "2024-11-05", "plain words", "HTTPServer"]
        {
            assert!(!named(plain), "{plain}");
        }
        for plain in ["and/or", "his/her", "U.S.A", "at 5 a.m. or p.m.", "a Ph.D.", "U.K./U.S.A."] {
            assert!(!named(plain), "{plain}");
        }
    }

    #[test]
    fn every_stop_word_is_recognised_after_analysis() {
        assert!(STOP_WORDS.is_sorted_by(|one, next| one < next));
        let mut analyzer = Analyzer::new();
        for asked in STOP_WORDS.iter().filter(|word| word.len() > 1).chain(&["why", "any"]) {
            let query = Query::parse(&mut analyzer, asked);
            let terms: Vec<_> = query.terms().iter().map(|term| term.is_stop_word).collect();
            assert_eq!(terms, [true], "{asked}");
        }
        assert!(!Query::parse(&mut analyzer, "whither").terms()[0].is_stop_word);
    }
}
