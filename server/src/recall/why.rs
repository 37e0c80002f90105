//! Why an item was given: what of the question led to it.
//!
//! Owns the account of it, and nothing of the ranking. An item whose text the caller does not see has
//! none: which words are in it, or how near it is to a question, tells what it says.

use std::collections::{HashMap, HashSet};

use engine::words::{Analyzer, Kind};
use engine::{Damage, Place};

use super::lanes::{Hop, Lane, Ran};
use super::wording::{Class, words};
use super::{Means, Recalled};
use crate::govern::Verdict;

/// Words of the question that are told of one item.
const WORDS_MAX: usize = 16;
/// Words of the question that are looked for.
const QUESTION_WORDS_MAX: usize = 64;
/// Bytes of a text in which they are looked for.
const TEXT_BYTES_LOOKED_AT: usize = 8 << 10;
/// Words that ask, and are hardly why an item was found.
const ASKING: [&str; 8] = ["what", "why", "how", "when", "where", "who", "which", "whose"];

/// What led to an item.
#[derive(Debug, Clone, Default)]
pub struct Why {
    /// Words of the question that its title or text has, as the question spells them.
    pub words: Vec<String>,
    /// Its cosine with the question, where both have a vector.
    pub cosine: Option<f32>,
    /// The edge by which the graph lane came to it.
    pub path: Option<Hop>,
    /// What the time and place lanes gave it, where they found it.
    pub time: Option<f32>,
    /// The same of the place lane.
    pub place: Option<f32>,
    /// The item in whose place it stands: that one was found, by what is told here except the words.
    pub replaced: Option<Place>,
}

/// What is known of how the candidates were found.
pub(super) struct Known<'a> {
    pub(super) question: &'a str,
    pub(super) ran: &'a Ran<'a>,
    pub(super) replaced: &'a HashMap<Place, Place>,
}

/// Notes with each item why it was given.
pub(super) fn explain(
    means: &Means<'_>,
    known: &Known<'_>,
    items: &mut [Recalled],
) -> Result<(), Damage> {
    Analyzer::lend(|analyzer| {
        let asked = asked(analyzer, known.question);
        for item in items.iter_mut().filter(|item| item.verdict == Verdict::Allow) {
            item.why = Some(of(means, known, (analyzer, &asked), item)?);
        }
        Ok(())
    })
}

fn of(
    means: &Means<'_>,
    known: &Known<'_>,
    (analyzer, asked): (&mut Analyzer, &[Asked]),
    item: &Recalled,
) -> Result<Why, Damage> {
    let by = |lane: Lane| item.found_by.iter().find(|(by, _)| *by == lane).map(|(_, score)| *score);
    // What led here was another item, which is named only to who may know of it.
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
        words: matched(means, analyzer, asked, item.place)?,
        cosine: item.cosine,
        path,
        time: by(Lane::Time),
        place: by(Lane::Place),
        replaced,
    })
}

fn may_name(means: &Means<'_>, place: Place) -> Result<bool, Damage> {
    Ok(means.may_read(&means.snapshot.item(place)?).verdict != Verdict::Deny)
}

/// A word of a question.
#[derive(Debug)]
struct Asked {
    /// As the question has it, in lower case.
    spelled: String,
    /// What it is searched by: an item that has one of these has it.
    terms: HashSet<String>,
    /// The parts of a compound: an item that has all of these has it, too.
    parts: Vec<String>,
}

/// The words of a question that say something, each once.
fn asked(analyzer: &mut Analyzer, question: &str) -> Vec<Asked> {
    let mut all: Vec<Asked> = Vec::new();
    for word in question.split_whitespace().take(QUESTION_WORDS_MAX) {
        let says = words(word)
            .any(|word| word.class != Class::Filler && !ASKING.contains(&word.spelled.as_str()));
        let spelled = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        if !says || all.iter().any(|known| known.spelled == spelled) {
            continue;
        }
        let mut asked = Asked { spelled, terms: HashSet::new(), parts: Vec::new() };
        analyzer.terms(word, |emit| {
            match emit.kind {
                Kind::Part => asked.parts.push(emit.term.to_owned()),
                _ => _ = asked.terms.insert(emit.term.to_owned()),
            }
            true
        });
        all.push(asked);
    }
    all
}

/// Which of the words an item has.
fn matched(
    means: &Means<'_>,
    analyzer: &mut Analyzer,
    asked: &[Asked],
    place: Place,
) -> Result<Vec<String>, Damage> {
    let item = means.snapshot.item(place)?;
    let text = &item.text[..item.text.floor_char_boundary(TEXT_BYTES_LOOKED_AT)];
    // Of each word that was not met: the parts that were not.
    let mut missing: Vec<(usize, Vec<&str>)> = asked
        .iter()
        .map(|word| word.parts.iter().map(String::as_str).collect())
        .enumerate()
        .collect();
    for text in [item.title, text] {
        analyzer.terms(text, |emit| {
            missing.retain_mut(|(at, parts)| {
                let before = parts.len();
                parts.retain(|part| *part != emit.term);
                let is_whole = before > 0 && parts.is_empty();
                !is_whole && !asked[*at].terms.contains(emit.term)
            });
            !missing.is_empty()
        });
    }
    let is_missing = |at: usize| missing.iter().any(|(missing, _)| *missing == at);
    let had = (0..).zip(asked).filter(|(at, _)| !is_missing(*at));
    Ok(had.map(|(_, word)| word.spelled.clone()).take(WORDS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_only_ask_are_not_looked_for() {
        let mut analyzer = Analyzer::new();
        let asked =
            asked(&mut analyzer, "Why is the lamp's wick not trimmed, and the lamp's lens?");
        let words: Vec<&str> = asked.iter().map(|word| word.spelled.as_str()).collect();
        assert_eq!(words, ["lamp's", "wick", "not", "trimmed", "lens"]);
        assert!(asked[3].terms.contains("trim"), "{asked:?}");
        let long =
            super::asked(&mut analyzer, &(0..1000).map(|at| format!("w{at} ")).collect::<String>());
        assert_eq!(long.len(), QUESTION_WORDS_MAX);
    }
}
