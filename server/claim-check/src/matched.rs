//! Word alignment of two sentences, by words and by facts, and the weights for a claim's coverage.

use super::facts::{Compared, Fact};
use super::prose::{Sentence, Word};
use super::words::Role;

pub(super) const WEIGHT: f32 = 1.0;

const WEIGHT_OF_NAMES: f32 = 1.5;

const WEIGHT_OF_LIGHT: f32 = 0.2;

/// Alignment of the words of a claim with those of a known sentence.
pub(super) struct Matched {
    /// For each word of the claim: index of its counterpart in the known sentence.
    pub(super) of_claim: Vec<Option<usize>>,
    /// For each word of the known sentence: true if it has a counterpart.
    pub(super) of_known: Vec<bool>,
    /// For each word of the claim: true if only the title or the previous sentence has it.
    pub(super) by_context: Vec<bool>,
}

impl Matched {
    pub(super) fn of(claim: &Sentence, known: &Sentence, context: &[Word]) -> Self {
        let mut of_known = vec![false; known.words.len()];
        let mut of_claim = Vec::with_capacity(claim.words.len());
        let mut by_context = Vec::with_capacity(claim.words.len());
        for word in &claim.words {
            if word.fact.is_some() || word.role == Role::Filler {
                of_claim.push(None);
                by_context.push(false);
                continue;
            }
            let mut same = (0..known.words.len())
                .filter(|&at| known.words[at].fact.is_none() && known.words[at].stem == word.stem);
            let first = same.clone().next();
            let alike =
                same.find(|&at| known.words[at].is_denied == word.is_denied && !of_known[at]);
            let found = alike.or(first);
            if let Some(at) = found {
                for other in (0..known.words.len()).filter(|&at| known.words[at].stem == word.stem)
                {
                    of_known[other] = true;
                }
                of_known[at] = true;
            }
            by_context.push(found.is_none() && context.iter().any(|other| other.stem == word.stem));
            of_claim.push(found);
        }
        Self { of_claim, of_known, by_context }
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.of_claim[at].is_some() || self.by_context[at]
    }
}

/// For each fact of a claim: index of the aligned fact of the known sentence, and the comparison.
pub(super) type Facts = Vec<Option<(usize, Compared)>>;

/// Aligns each fact of the claim with a comparable fact of the known sentence. Among several, prefers a fact whose
/// clause shares the most words with the claim.
pub(super) fn facts_of(claim: &Sentence, known: &Sentence, matched: &Matched) -> Facts {
    let clause_of = |sentence: &Sentence, fact: usize| {
        sentence.words.iter().find(|word| word.fact == Some(fact)).map_or(0, |word| word.clause)
    };
    let shared_in = |clause: u8| {
        let words = known.words.iter().zip(&matched.of_known);
        words
            .filter(|(word, is_shared)| **is_shared && word.clause == clause && word.is_heavy())
            .count()
    };
    let of = |one: &Fact| {
        let meeting = known.facts.iter().enumerate().filter(|(_, other)| one.meets(other));
        let ranked = meeting.map(|(at, other)| {
            let compared = one.against(other);
            let rank = (
                shared_in(clause_of(known, at)),
                one.is_same_kind(other),
                compared == Compared::Agree,
                usize::MAX - at,
            );
            (rank, at, compared)
        });
        ranked.max_by_key(|(rank, ..)| *rank).map(|(_, at, compared)| (at, compared))
    };
    claim.facts.iter().map(of).collect()
}

fn weight(word: &Word) -> f32 {
    match word.role {
        _ if word.fact.is_some() => WEIGHT,
        Role::Content if word.is_name => WEIGHT_OF_NAMES,
        Role::Content | Role::Qualifier(_) | Role::State(..) => WEIGHT,
        Role::Light => WEIGHT_OF_LIGHT,
        _ => 0.0,
    }
}

/// Returns true if the claim's word is in the known sentence, as a word or a fact. A word for a state always counts.
fn is_covered(claim: &Sentence, at: usize, matched: &Matched, facts: &Facts) -> bool {
    match claim.words[at].fact {
        Some(fact) => facts[fact].is_some(),
        None => matched.has(at) || matches!(claim.words[at].role, Role::State(..)),
    }
}

pub(super) fn covered(claim: &Sentence, matched: &Matched, facts: &Facts) -> f32 {
    let all: f32 = claim.words.iter().map(weight).sum();
    let has = weight_of_matched(claim, matched, facts);
    if all > 0.0 { has / all } else { 0.0 }
}

pub(super) fn weight_of_matched(claim: &Sentence, matched: &Matched, facts: &Facts) -> f32 {
    let words = claim.words.iter().enumerate();
    words
        .filter(|(at, _)| is_covered(claim, *at, matched, facts))
        .map(|(_, word)| weight(word))
        .sum()
}

/// Returns true if the claim has a name that the known sentence lacks, which precludes support.
pub(super) fn misses_name(claim: &Sentence, matched: &Matched) -> bool {
    let mut words = claim.words.iter().enumerate();
    words.any(|(at, word)| (word.is_name && word.is_heavy()) && !matched.has(at))
}

/// Clauses of the known sentence that share something with the claim.
pub(super) fn core(known: &Sentence, matched: &Matched, facts: &Facts) -> Vec<u8> {
    let words = known.words.iter().enumerate();
    let is_in = |at: usize, word: &Word| {
        let fact =
            word.fact.is_some_and(|fact| facts.iter().flatten().any(|(other, _)| *other == fact));
        fact || matched.of_known[at] && word.is_heavy()
    };
    let mut clauses: Vec<u8> =
        words.filter(|(at, word)| is_in(*at, word)).map(|(_, word)| word.clause).collect();
    clauses.dedup();
    clauses
}
