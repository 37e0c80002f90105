//! Questions as terms.
//!
//! Owns which terms a question has and how the alternatives of one compound share its weight. Must
//! not know how rare a term is (bm25.rs brings that).

use super::analyze::{Analyzer, Kind};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Most different terms of a question; later ones are ignored.
    pub const QUERY_TERMS_MAX: usize = 64;

    /// Most uses of terms that are looked at, so that a huge question costs no more than a long one.
    const QUERY_USES_MAX: usize = 1024;
}

/// Bytes of the shortest compound that names a thing.
const NAME_BYTES_MIN: usize = 4;

/// Bytes of the longest piece of a compound that points alone join, for it to name a thing: those of `U.S.A` and
/// `Ph.D` are shorter.
const POINTED_BYTES_MIN: usize = 3;

/// Weight of a word that carries no subject. It stays in the index and in the question, but a row
/// is not found for it alone when others are named.
const FUNCTION_WORD_WEIGHT: f32 = 0.25;

/// English function words, as the analyser spells them. Short on purpose: a word that can be a
/// subject ("will", "may", "not") is not here, and idf does the rest. In order, for looking up.
const FUNCTION_WORDS: &[&str] = &[
    "a", "about", "an", "and", "ani", "are", "as", "at", "be", "been", "but", "by", "can", "did",
    "do", "doe", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it",
    "me", "my", "of", "on", "or", "our", "should", "so", "than", "that", "the", "their", "them",
    "then", "there", "these", "they", "this", "those", "to", "was", "we", "were", "what", "when",
    "where", "whi", "which", "who", "with", "would", "you", "your",
];

/// One different term of a question.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryTerm {
    /// As the dictionary spells it.
    pub term: String,
    /// Whether it is a function word ("the", "what").
    pub function_word: bool,
    /// Whether it names one thing as it stands: a path, a symbol, an id (`engine/src/log.rs`,
    /// `parse_head`, `PEP-387`).
    pub name: bool,
}

/// One place of a term in the question.
#[derive(Debug, Clone, Copy)]
struct Use {
    term: usize,
    group: u32,
    kind: Kind,
}

/// An analysed question.
#[derive(Debug, Clone, Default)]
pub struct Query {
    terms: Vec<QueryTerm>,
    uses: Vec<Use>,
}

impl Query {
    /// Analyses a question; at most [`QUERY_TERMS_MAX`] different terms are kept.
    pub fn parse(analyzer: &mut Analyzer, text: &str) -> Self {
        let mut query = Self::default();
        analyzer.terms(text, |emit| {
            if emit.kind == Kind::Single {
                return true;
            }
            let known = query.terms.iter().position(|term| term.term == emit.term);
            if known.is_none() && query.terms.len() == QUERY_TERMS_MAX {
                return false;
            }
            let term = known.unwrap_or_else(|| {
                let function_word = emit.kind == Kind::Word && is_function_word(emit.term);
                let name = emit.kind == Kind::Whole && is_name(emit.term);
                query.terms.push(QueryTerm { term: emit.term.to_owned(), function_word, name });
                query.terms.len() - 1
            });
            query.uses.push(Use { term, group: emit.group, kind: emit.kind });
            query.uses.len() < QUERY_USES_MAX
        });
        query
    }

    /// The different terms, in order of first use.
    pub fn terms(&self) -> &[QueryTerm] {
        &self.terms
    }

    /// The weight of each term, when `exists` tells which of them occur anywhere.
    ///
    /// A plain word weighs 1 for each time it is asked. The parts of a compound share 1, and so do
    /// those of its wholes that exist: an identifier counts at most as two plain words, one for its
    /// exact form and one for its pieces, however many it has. A whole that does not occur weighs
    /// nothing: it is another way of asking for its parts.
    pub(super) fn weights(&self, exists: impl Fn(usize) -> bool) -> Vec<f32> {
        let mut weights = vec![0.0; self.terms.len()];
        let mut from = 0;
        while let Some(first) = self.uses.get(from) {
            let rest = &self.uses[from..];
            let group = &rest[..rest.iter().take_while(|used| used.group == first.group).count()];
            let parts = group.iter().filter(|used| used.kind == Kind::Part).count();
            let wholes =
                group.iter().filter(|used| used.kind == Kind::Whole && exists(used.term)).count();
            for used in group {
                weights[used.term] += match used.kind {
                    Kind::Part => share(parts),
                    Kind::Whole if exists(used.term) => share(wholes),
                    Kind::Whole => 0.0,
                    Kind::Word | Kind::Single => 1.0,
                };
            }
            from += group.len();
        }
        if self.terms.iter().any(|term| !term.function_word) {
            for (weight, term) in weights.iter_mut().zip(&self.terms) {
                *weight *= if term.function_word { FUNCTION_WORD_WEIGHT } else { 1.0 };
            }
        }
        weights
    }
}

/// Whether a word, as the analyser spells it, carries no subject.
pub(crate) fn is_function_word(term: &str) -> bool {
    FUNCTION_WORDS.binary_search(&term).is_ok()
}

/// Whether a compound, in lower case, is no word of a language: letters with a digit, an underscore or a colon
/// (`foo::bar`), or words joined by points (`os.path.join`, `src/main.rs`). Words that only slashes and hyphens join
/// are words still (`and/or`), and so are initials with points. Short ones (`e.g`, `5x`) say little.
fn is_name(whole: &str) -> bool {
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
fn share(among: usize) -> f32 {
    1.0 / among.max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_words() {
        let mut analyzer = Analyzer::new();
        let mut named = |asked: &str| {
            let query = Query::parse(&mut analyzer, asked);
            query.terms().iter().any(|term| term.name)
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
    fn every_function_word_is_known_as_one() {
        assert!(FUNCTION_WORDS.is_sorted_by(|one, next| one < next));
        let mut analyzer = Analyzer::new();
        for asked in FUNCTION_WORDS.iter().filter(|word| word.len() > 1).chain(&["why", "any"]) {
            let query = Query::parse(&mut analyzer, asked);
            let terms: Vec<_> = query.terms().iter().map(|term| term.function_word).collect();
            assert_eq!(terms, [true], "{asked}");
        }
        assert!(!Query::parse(&mut analyzer, "whither").terms()[0].function_word);
    }
}
