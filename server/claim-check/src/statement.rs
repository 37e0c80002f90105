//! Statements: the parts of a sentence around one subject each. A claim must be supported by one statement, not by
//! words of two.

use super::matched::{Facts, Matched};
use super::prose::{Sentence, Word};
use super::words::Role;

/// Relative pronouns, which start a clause about the preceding word.
const RELATIVE: [&str; 5] = ["who", "which", "whose", "whom", "where"];

/// Returns how many content words of the claim are missing from the best statement of the known sentence. A new
/// statement starts at a clause with its own subject; in `Wei, who owns the parser`, the subject is the word before.
pub(super) fn statement_has(
    claim: &Sentence,
    known: &Sentence,
    matched: &Matched,
    facts: &Facts,
    context: &[Word],
) -> Option<usize> {
    let statements = statements(known, matched);
    let last = statements.iter().map(|(statement, _)| *statement).max()?;
    let weighty = |at: &usize| claim.words[*at].fact.is_some() || claim.words[*at].is_heavy();
    let has = |statement: u8, at: usize| {
        let word = &claim.words[at];
        let there = |other: usize| {
            statements[other].0 == statement || statements[other].1 == Some(statement)
        };
        match word.fact {
            Some(fact) => facts[fact].is_some_and(|(fact, _)| {
                (0..known.words.len())
                    .any(|other| known.words[other].fact == Some(fact) && there(other))
            }),
            None => {
                let in_known = (0..known.words.len()).any(|other| {
                    known.words[other].fact.is_none()
                        && known.words[other].stem == word.stem
                        && there(other)
                });
                in_known
                    || matched.by_context[at] && context.iter().any(|other| other.stem == word.stem)
            }
        }
    };
    (0..=last)
        .map(|statement| {
            (0..claim.words.len()).filter(weighty).filter(|&at| !has(statement, at)).count()
        })
        .min()
}

/// For each word, its statement, and the second statement whose subject the word is, if any.
fn statements(known: &Sentence, matched: &Matched) -> Vec<(u8, Option<u8>)> {
    let mut found: Vec<(u8, Option<u8>)> = Vec::with_capacity(known.words.len());
    let (mut statement, mut clause) = (0_u8, 0_u8);
    let mut last_heavy: Option<usize> = None;
    let mut returns: Option<u8> = None;
    for (at, word) in known.words.iter().enumerate() {
        if word.clause != clause {
            clause = word.clause;
            let inside = || known.words[at..].iter().take_while(|next| next.clause == clause);
            let is_relative = inside().take(2).any(|next| RELATIVE.contains(&next.stem.as_str()));
            let first =
                known.words[at..].iter().enumerate().take_while(|(_, next)| next.clause == clause);
            let first = first.map(|(n, next)| (at + n, next)).find(|(_, next)| {
                next.is_heavy() || next.role == Role::Light || next.fact.is_some()
            });
            let has_article = inside().take_while(|next| !next.is_heavy()).any(|next| {
                matches!(next.stem.as_str(), "the" | "a" | "an" | "our" | "we" | "they" | "it")
            });
            let is_subject = first.is_some_and(|(n, next)| {
                let is_participle = ["ed", "en", "ing"].iter().any(|end| next.said.ends_with(end));
                next.is_heavy()
                    && next.led_by.is_empty()
                    && !is_participle
                    && (next.is_name || has_article || !matched.of_known[n])
            });
            if is_relative {
                returns.get_or_insert(statement);
                statement = statement.saturating_add(1);
                if let Some(subject) = last_heavy {
                    found[subject].1 = Some(statement);
                }
            } else if is_subject {
                returns = None;
                statement = statement.saturating_add(1);
            } else if let Some(outer) = returns.take() {
                statement = outer;
            }
        }
        if word.is_heavy() {
            last_heavy = Some(at);
        }
        found.push((statement, None));
    }
    found
}
