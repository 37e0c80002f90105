//! Fusion: merges the rankings of several retrievers into one.
//!
//! Each candidate has a full-text and a vector score, whichever retriever found it. The two scores are normalized and
//! averaged: a convex combination after Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval",
//! ACM TOIS 2023. The cosine is used as it is, BM25 as its share of the maximum for the question's terms.
//! docs/recall.md lists the alternatives that were tried. A single retriever keeps its own scores.

use std::collections::BTreeMap;

use engine::{ItemLexicalScore, QueryTermWeight, RowAddress, SearchError};

use super::lane::{Lane, Ran};
use crate::means::Means;
use crate::route::Plan;

/// Candidate of any retriever.
#[derive(Debug, Clone)]
pub(super) struct Fused {
    pub(super) place: RowAddress,
    pub(super) score: f32,
    pub(super) found_by: Vec<(Lane, f32)>,
    /// Cosine with the question, if a retriever computed it and the item has an embedding.
    pub(super) cosine: Option<f32>,
    /// BM25 score as a share of the maximum for the question's terms, 0 to 1.
    pub(super) share: f32,
    /// Total weight of the question's content terms in the item.
    pub(super) covered: f32,
    /// Explicit match: the item has every content term of the question, or a name in it. A short question is then about
    /// this item.
    pub(super) is_meant: bool,
    /// True if the item's title equals the question.
    pub(super) is_titled: bool,
}

/// Weight of a retriever's normalized score.
fn weight(lane: Lane) -> f32 {
    match lane {
        Lane::Words | Lane::Meaning => 0.5,
        Lane::Place => 0.5,
        Lane::Time | Lane::Graph => 0.1,
    }
}

/// Weight of proximity: the share of adjacent word pairs of the question that are adjacent in the item, too.
const PAIRS_WEIGHT: f32 = 0.1;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Candidates whose texts are read for proximity: more than the items of an answer. A larger bound changed no
    /// result.
    const PAIRED_MAX: usize = 20;
}

/// Returns the candidates of all retrievers, best first; ties are ordered by row address.
///
/// # Errors
/// Corruption, or cancellation.
pub(super) fn fuse(
    means: &Means<'_>,
    plan: &Plan,
    ran: &Ran<'_>,
) -> Result<Vec<Fused>, SearchError> {
    if let [only] = &*ran.candidates {
        let alone = only.found.iter().map(|&(place, score)| alone(only.lane, place, score));
        return Ok(alone.collect());
    }
    let mut all: BTreeMap<RowAddress, Vec<(Lane, f32)>> = BTreeMap::new();
    for candidates in &ran.candidates {
        for &(place, score) in &candidates.found {
            all.entry(place).or_default().push((candidates.lane, score));
        }
    }
    let places: Vec<RowAddress> = all.keys().copied().collect();
    let words = ran.words.score_items(&places, &plan.filter)?;
    let cosines = match &ran.question {
        Some(question) => means.snapshot.cosines(means.kernels, question, &places, &plan.filter)?,
        None => vec![None; places.len()],
    };
    let most: f32 = words.terms.iter().map(|term| term.weight).sum();
    let found = all.into_iter().zip(words.items).zip(cosines);
    let mut fused: Vec<Fused> = found
        .map(|(((place, found_by), item), cosine)| {
            let share = if most > 0.0 { item.score / most } else { 0.0 };
            let others = found_by.iter().map(|&(lane, score)| match lane {
                Lane::Words | Lane::Meaning => 0.0, // counted for all candidates
                lane => weight(lane) * score,
            });
            let score = weight(Lane::Words) * share
                + weight(Lane::Meaning) * cosine.unwrap_or(0.0).max(0.0)
                + others.sum::<f32>();
            let is_meant = is_meant(&words.terms, &item);
            let covered = covered(&words.terms, &item);
            Fused { place, score, found_by, cosine, share, covered, is_meant, is_titled: false }
        })
        .collect();
    sort(&mut fused);
    let paired = fused.len().min(PAIRED_MAX);
    let places: Vec<RowAddress> = fused[..paired].iter().map(|found| found.place).collect();
    let pairs = means.snapshot.proximity_scores(&plan.text, &places, &plan.filter)?;
    for (found, pairs) in fused.iter_mut().zip(pairs) {
        found.score += PAIRS_WEIGHT * pairs;
    }
    sort(&mut fused);
    Ok(fused)
}

fn sort(fused: &mut [Fused]) {
    fused.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.place.cmp(&b.place)));
}

/// Candidate of the only retriever that ran, with the retriever's score.
fn alone(lane: Lane, place: RowAddress, score: f32) -> Fused {
    Fused {
        place,
        score,
        found_by: vec![(lane, score)],
        cosine: (lane == Lane::Meaning).then_some(score),
        share: 0.0,
        covered: 0.0,
        is_meant: false,
        is_titled: false,
    }
}

/// Returns the total weight of the content terms in the item: equal to the bit for items with equal terms.
pub(super) fn covered(terms: &[QueryTermWeight], item: &ItemLexicalScore) -> f32 {
    let matched = item.matched_terms.iter().map(|&at| &terms[at]);
    matched.filter(|term| !term.is_stop_word).fold(0.0, |sum, term| sum + term.weight)
}

/// Returns true for an explicit match. Terms of weight 0 are alternative spellings of other terms.
fn is_meant(terms: &[QueryTermWeight], item: &ItemLexicalScore) -> bool {
    let has = |at: usize| item.matched_terms.binary_search(&at).is_ok();
    let mut subjects = (0..)
        .zip(terms)
        .filter(|(_, term)| !term.is_stop_word && term.weight > 0.0)
        .map(|(at, _)| at)
        .peekable();
    let has_all = subjects.peek().is_some() && subjects.all(has);
    has_all || (0..).zip(terms).any(|(at, term)| term.is_identifier && has(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(weight: f32, function_word: bool, name: bool) -> QueryTermWeight {
        QueryTermWeight {
            term: String::new(),
            is_stop_word: function_word,
            is_identifier: name,
            weight,
            document_frequency: 1,
        }
    }

    fn given(matched: &[usize]) -> ItemLexicalScore {
        ItemLexicalScore { score: 1.0, matched_terms: matched.to_vec() }
    }

    #[test]
    fn words_of_a_subject_are_what_an_item_covers() {
        let terms = [term(0.1, true, false), term(1.0, false, false), term(2.0, false, false)];
        for (matched, weight) in [(&[0][..], 0.0), (&[0, 2], 2.0), (&[1, 2], 3.0), (&[], 0.0)] {
            assert_eq!(covered(&terms, &given(matched)).to_bits(), f32::to_bits(weight));
        }
    }

    #[test]
    fn an_item_is_meant_by_all_subjects_or_by_its_name() {
        let plain = [term(0.1, true, false), term(1.0, false, false), term(2.0, false, false)];
        assert!(is_meant(&plain, &given(&[1, 2])));
        assert!(!is_meant(&plain, &given(&[0, 2])));
        assert!(!is_meant(&plain[..1], &given(&[0])), "nothing is asked for");
        let named = [plain[1].clone(), plain[2].clone(), term(1.0, false, true)];
        assert!(is_meant(&named, &given(&[2])));
        let spelling = [plain[1].clone(), term(0.0, false, true)];
        assert!(is_meant(&spelling, &given(&[0])));
    }
}
