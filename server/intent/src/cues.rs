//! Patterns of words that select a tool, and their matching against a command.
//!
//! A pattern is a row of terms that must occur in the command in this order, with anything between them:
//!
//! ```text
//! word|other     one of these words
//! @itm           an id of an item; @path, @quote, @num and others likewise
//! %show          one of the words of a set
//! ^term          the first one: it must be the first word of the command, once what is polite is set aside
//! +term          it must stand right behind the one before, articles aside
//! ~term          it must stand nowhere in the command
//! ```

use std::collections::BTreeSet;

use crate::said::{Piece, Said, Sort};
use recalld_status_answers::stem;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Tokens of a command that patterns are matched against: a command comes first, and later tokens are its text.
    const LOOKED_AT_MAX: usize = 64;
}

/// Words without a meaning of their own in a pattern.
const FILLERS: &str = "the a an my our your this that these those me us please of all any some every its their \
                       exact whole entire current there new";

/// Named sets of words.
const SETS: [(&str, &str); 11] = [
    ("show", "show|display|print|view|open|read|give|get|see|present|bring|load|pull"),
    ("list", "list|show|display|enumerate|give|get|which|what|print|view|see|are|is|do|have|any"),
    ("find", "find|search|look|locate|lookup|query|seek"),
    ("check", "check|verify|test|inspect|scan|validate|examine|audit"),
    (
        "remove",
        "delete|remove|forget|erase|hide|purge|drop|discard|wipe|destroy|bury|tombstone|kill",
    ),
    ("gone", "deleted|removed|forgotten|forgot|erased|hidden|purged|dropped"),
    (
        "removed",
        "deleted|removed|forgotten|forgot|erased|hidden|purged|dropped|delete|remove|forget|erase|hide",
    ),
    ("measure", "benchmark|measure|time|profile|bench"),
    (
        "use",
        "ingest|delete|remember|forget|schedule|use|link|import|export|search|recall|store|save|erase|\
          remove|verify|register|write|read|find|replace|correct|add|call|get|remind|supersede|undo|\
          restore|set|record|create",
    ),
    (
        "thing",
        "item|memory|folder|file|document|reminder|note|followup|follow|link|edge|source|claim|attempt|\
          artifact|receipt|here|you|service|this|entry|text|tool|task|benchmark|brief|agent",
    ),
    ("keep", "save|store|record|log|note|write|keep|put|add|jot|capture|document"),
];

/// Term of a pattern.
#[derive(Debug)]
struct Term {
    alternatives: Vec<Alternative>,
    is_first: bool,
    is_next: bool,
    is_absent: bool,
}

#[derive(Debug)]
enum Alternative {
    Word(String),
    Sort(&'static [Sort]),
    /// Name of a tool.
    Tool,
    /// Punctuation mark.
    Sign(&'static str),
}

/// Parsed pattern.
#[derive(Debug)]
pub(crate) struct Cue {
    terms: Vec<Term>,
    /// Confidence in the tool if the pattern matches, out of 100.
    pub(crate) weight: u8,
}

/// Match of a pattern in a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Indices of the tokens that match the terms.
    pub(crate) places: Vec<usize>,
}

fn sorts(name: &str) -> Option<&'static [Sort]> {
    use Sort::*;
    Some(match name {
        "any" => &[Item, Document, Chunk, Artifact, Attempt, Followup, Job],
        "itm" => &[Item],
        "doc" => &[Document],
        "chk" => &[Chunk],
        "art" => &[Artifact],
        "tsk" => &[Attempt],
        "fup" => &[Followup],
        "job" => &[Job],
        "edg" => &[Edge],
        "src" => &[Source],
        "rcp" => &[Receipt],
        "path" => &[Path, Glob],
        "file" => &[Path, Document],
        "given" => &[Path, Address],
        "url" => &[Address],
        "quote" => &[Quote],
        "num" => &[Number, Range],
        "json" => &[Json],
        "principal" => &[Principal],
        _ => return None,
    })
}

impl Cue {
    /// Parses a pattern. An unknown name in the pattern matches nothing; a test of the routes rejects these patterns.
    pub(crate) fn read(text: &str, weight: u8) -> Self {
        let terms = text.split(' ').map(Term::read).collect();
        Self { terms, weight }
    }

    /// Stems of the pattern's words.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        let all = self.terms.iter().flat_map(|term| &term.alternatives);
        all.filter_map(|one| match one {
            Alternative::Word(word) => Some(word.as_str()),
            _ => None,
        })
    }

    /// Returns true if each term has an alternative.
    #[cfg(test)]
    pub(crate) fn is_sound(&self) -> bool {
        self.size() > 0 && self.terms.iter().all(|term| !term.alternatives.is_empty())
    }

    /// Number of required terms: a pattern with more terms is more specific.
    pub(crate) fn size(&self) -> usize {
        self.terms.iter().filter(|term| !term.is_absent).count()
    }

    /// Finds the pattern in a command that starts, after polite prefixes, at token `head`. `is_tool` recognizes the
    /// names of tools.
    pub(crate) fn find(
        &self,
        said: &Said<'_>,
        words: &[String],
        head: usize,
        is_tool: fn(&str) -> bool,
    ) -> Option<Found> {
        let pieces = &said.pieces[..said.pieces.len().min(LOOKED_AT_MAX)];
        let text = Text { pieces, words, is_tool };
        let mut absent = self.terms.iter().filter(|term| term.is_absent);
        if absent.any(|term| (head..pieces.len()).any(|at| text.has(term, at))) {
            return None;
        }
        let wanted: Vec<&Term> = self.terms.iter().filter(|term| !term.is_absent).collect();
        let (first, rest) = wanted.split_first()?;
        let from =
            if first.is_first { head..pieces.len().min(head + 1) } else { head..pieces.len() };
        from.filter(|&at| text.has(first, at)).find_map(|at| {
            let mut places = vec![at];
            text.goes_on(rest, at + 1, &mut places).then_some(Found { places })
        })
    }
}

/// Command that patterns are matched against.
struct Text<'s> {
    pieces: &'s [Piece],
    words: &'s [String],
    is_tool: fn(&str) -> bool,
}

impl Text<'_> {
    /// Returns true if the term matches the token.
    fn has(&self, term: &Term, at: usize) -> bool {
        let (piece, word) = (&self.pieces[at], &self.words[at]);
        term.alternatives.iter().any(|one| match one {
            Alternative::Word(wanted) => piece.sort == Sort::Word && wanted == word,
            Alternative::Sort(sorts) => sorts.contains(&piece.sort),
            Alternative::Sign(sign) => piece.sort == Sort::Mark && piece.text == *sign,
            Alternative::Tool => piece.sort == Sort::Word && (self.is_tool)(&piece.text),
        })
    }

    /// Returns true if the terms match from this token on, and appends their tokens to `places`.
    fn goes_on(&self, terms: &[&Term], from: usize, places: &mut Vec<usize>) -> bool {
        let Some((term, rest)) = terms.split_first() else { return true };
        for at in from..self.pieces.len() {
            if self.has(term, at) {
                places.push(at);
                if self.goes_on(rest, at + 1, places) {
                    return true;
                }
                places.pop();
            }
            if term.is_next && !is_filler(&self.pieces[at]) {
                return false;
            }
        }
        false
    }
}

/// Returns true if the token may be between adjacent terms.
pub(crate) fn is_filler(piece: &Piece) -> bool {
    match piece.sort {
        Sort::Mark => matches!(piece.text.as_str(), "," | ":" | "-"),
        Sort::Word => FILLERS.split_whitespace().any(|filler| filler == piece.word),
        _ => false,
    }
}

impl Term {
    fn read(text: &str) -> Self {
        let bare = text.trim_start_matches(['^', '+', '~']);
        let has = |sign: char| text[..text.len() - bare.len()].contains(sign);
        let alternatives = bare.split('|').flat_map(Alternative::read).collect();
        Self { alternatives, is_first: has('^'), is_next: has('+'), is_absent: has('~') }
    }
}

impl Alternative {
    /// Parses an alternative of a term; a set yields all its words.
    fn read(text: &str) -> Vec<Self> {
        let word = |word: &str| Self::Word(stem(word));
        if let Some(name) = text.strip_prefix('%') {
            let set = SETS.iter().find(|(of, _)| *of == name);
            return set.into_iter().flat_map(|(_, words)| words.split('|')).map(word).collect();
        }
        match text.strip_prefix('@') {
            Some("tool") => vec![Self::Tool],
            Some("colon") => vec![Self::Sign(":")],
            Some("comma") => vec![Self::Sign(",")],
            Some(name) => sorts(name).map(Self::Sort).into_iter().collect(),
            None => vec![word(text)],
        }
    }
}

/// Returns the stems of a command's words, in which misspellings of pattern words are corrected.
pub(crate) fn understood(said: &Said<'_>, known: &BTreeSet<String>) -> Vec<String> {
    use recalld_status_answers::{is_everyday, is_misspelt};
    let read = |piece: &Piece| {
        let word = &piece.word;
        if piece.sort != Sort::Word || known.contains(word) || is_everyday(word) {
            return word.clone();
        }
        let meant = known.iter().find(|known| is_misspelt(word, known));
        meant.unwrap_or(word).clone()
    };
    said.pieces.iter().take(LOOKED_AT_MAX).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(cue: &str, text: &str) -> Option<Vec<usize>> {
        let said = Said::of(text);
        let words = understood(&said, &BTreeSet::new());
        Cue::read(cue, 50).find(&said, &words, 0, |_| false).map(|found| found.places)
    }

    #[test]
    fn terms_stand_in_their_order() {
        let text = "show the lines 3 of src/a.rs";
        assert_eq!(places("^%show line @num @path", text), Some(vec![0, 2, 3, 5]));
        assert_eq!(places("@path line", text), None);
        assert_eq!(places("^line", text), None);
        assert_eq!(places("^show +line", text), Some(vec![0, 2]));
        assert_eq!(places("^show +@path", text), None);
        assert_eq!(places("^show ~line", text), None);
        assert_eq!(places("^show ~heading", text), Some(vec![0]));
        assert_eq!(places("delete", "say \"delete it\" twice"), None);
    }

    #[test]
    fn a_misspelt_cue_is_understood() {
        let known = BTreeSet::from(["delete".to_owned()]);
        assert_eq!(understood(&Said::of("plz delte it"), &known), ["plz", "delete", "it"]);
    }
}
