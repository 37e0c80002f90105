//! Explanations: the words, paths and scores by which an item matched the question.
//!
//! An item whose text the caller may not read has no explanation, as matching words and the cosine would disclose its
//! content.

use std::collections::HashMap;

use engine::fulltext::{Analyzer, TermKind};
use engine::{CorruptionError, ItemLexicalScore, RowAddress, SearchError};

use super::lane::{Lane, Ran};
use super::wording::{Class, Wording};
use crate::means::Means;
use crate::recalled::{Recalled, Why};
use crate::route::Plan;
use recalld_policy::Verdict;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Words of the question reported for one item.
    const WORDS_MAX: usize = 16;
    /// Words of the question that are looked up.
    const QUESTION_WORDS_MAX: usize = 64;
}

/// Interrogatives, which hardly explain a match.
const ASKING: [&str; 8] = ["what", "why", "how", "when", "where", "who", "which", "whose"];

/// Inputs of the explanation: how the candidates were found.
pub(super) struct Known<'a> {
    pub(super) plan: &'a Plan,
    pub(super) ran: &'a Ran<'a>,
    pub(super) replaced: &'a HashMap<RowAddress, RowAddress>,
}

/// Sets the explanation of each readable item.
///
/// # Errors
/// Corruption, or cancellation.
pub(super) fn explain(
    means: &Means<'_>,
    known: &Known<'_>,
    items: &mut [Recalled],
) -> Result<(), SearchError> {
    let mut items: Vec<&mut Recalled> =
        items.iter_mut().filter(|item| item.verdict == Verdict::Allow).collect();
    items.sort_unstable_by_key(|item| item.place);
    let places: Vec<RowAddress> = items.iter().map(|item| item.place).collect();
    let given = known.ran.words.score_items(&places, &known.plan.filter)?;
    let spelled: Vec<&str> = given.terms.iter().map(|term| term.term.as_str()).collect();
    let asked = asked(&known.plan.text, &spelled);
    for (item, given) in items.into_iter().zip(&given.items) {
        item.why = Some(of(means, known, matched(&asked, given), item)?);
    }
    Ok(())
}

fn of(
    means: &Means<'_>,
    known: &Known<'_>,
    words: Vec<String>,
    item: &Recalled,
) -> Result<Why, CorruptionError> {
    let by = |lane: Lane| item.found_by.iter().find(|(by, _)| *by == lane).map(|(_, score)| *score);
    // The match was of the superseded item, which is named only to callers who may learn of it.
    let replaced = known.replaced.get(&item.place).copied();
    let found = replaced.unwrap_or(item.place);
    let mut path = by(Lane::Graph).and_then(|_| known.ran.hops.get(&found)).cloned();
    if let Some(hop) = &path
        && !may_name(means, hop.seed)?
    {
        path = None;
    }
    let replaced = match replaced {
        Some(old) if may_name(means, old)? => Some(old),
        _ => None,
    };
    Ok(Why {
        words,
        cosine: item.cosine,
        path,
        time: by(Lane::Time),
        place: by(Lane::Place),
        replaced,
    })
}

fn may_name(means: &Means<'_>, place: RowAddress) -> Result<bool, CorruptionError> {
    Ok(means.snapshot.may_know(&means.snapshot.item(place)?))
}

/// Word of a question.
#[derive(Debug, PartialEq)]
struct Asked {
    /// Spelling of the question, in lower case.
    spelled: String,
    /// Terms of the word in the search: an item with any of them has the word.
    terms: Vec<usize>,
    /// Parts of a compound: an item with all parts has the word, too. `None` is a part beyond the question's term
    /// limit.
    parts: Vec<Option<usize>>,
}

/// Returns the content words of a question without repetitions, with their indices in the question's terms.
fn asked(question: &str, terms: &[&str]) -> Vec<Asked> {
    let mut all: Vec<Asked> = Vec::new();
    for word in question.split_whitespace().take(QUESTION_WORDS_MAX) {
        let says = |wording: &Wording| {
            let mut words = wording.words();
            words.any(|word| word.class != Class::Filler && !ASKING.contains(&word.spelled))
        };
        let spelled = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        if !says(&Wording::of(word)) || all.iter().any(|known| known.spelled == spelled) {
            continue;
        }
        let mut asked = Asked { spelled, terms: Vec::new(), parts: Vec::new() };
        Analyzer::with_thread_local(|analyzer| {
            analyzer.tokens(word, |emit| {
                let term = terms.iter().position(|term| *term == emit.term);
                match emit.kind {
                    TermKind::Part => asked.parts.push(term),
                    _ => asked.terms.extend(term),
                }
                true
            });
        });
        all.push(asked);
    }
    all
}

/// Returns the words that the item has.
fn matched(asked: &[Asked], given: &ItemLexicalScore) -> Vec<String> {
    let has = |term: &usize| given.matched_terms.binary_search(term).is_ok();
    let has_word = |word: &&Asked| {
        let mut parts = word.parts.iter().map(|part| part.as_ref().is_some_and(has)).peekable();
        word.terms.iter().any(has) || parts.peek().is_some() && parts.all(|has| has)
    };
    let words = asked.iter().filter(has_word);
    words.map(|word| word.spelled.clone()).take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_only_ask_are_not_looked_for() {
        let terms = ["lamp", "wick", "trim", "not", "the", "log.rs", "log", "rs"];
        let asked =
            asked("Why is the lamp's wick not trimmed, and the lamp's lens in log.rs?", &terms);
        let words: Vec<(&str, &[usize], usize)> = asked
            .iter()
            .map(|word| (word.spelled.as_str(), &word.terms[..], word.parts.len()))
            .collect();
        let wanted: [(&str, &[usize], usize); 6] = [
            ("lamp's", &[0], 0),
            ("wick", &[1], 0),
            ("not", &[3], 0),
            ("trimmed", &[2], 0),
            ("lens", &[], 0),
            ("log.rs", &[5], 2),
        ];
        assert_eq!(words, wanted);
        let having = |terms: &[usize]| {
            matched(&asked, &ItemLexicalScore { score: 1.0, matched_terms: terms.to_vec() })
        };
        assert_eq!(having(&[0, 2, 4]), ["lamp's", "trimmed"]);
        assert_eq!(having(&[5]), ["log.rs"]);
        assert_eq!(having(&[6, 7]), ["log.rs"], "all parts are as good");
        assert!(having(&[6]).is_empty());
        let long = super::asked(&(0..1000).map(|at| format!("w{at} ")).collect::<String>(), &[]);
        assert_eq!(long.len(), QUESTION_WORDS_MAX);
    }
}
