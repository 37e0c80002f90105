//! Several rankings into one.
//!
//! A candidate of any lane gets the scores of the words lane and the meaning lane, whether or not those
//! found it, and the two are brought to one scale and averaged (the convex combination of Bruch, Gai
//! and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS 2023): cosine as it is,
//! BM25 as the share of what the question's words could give at most. What else was tried is in
//! docs/recall.md. One lane alone keeps its own scores.

use std::collections::BTreeMap;

use engine::{AskedTerm, GivenWords, Place, SearchError};

use super::lane::{Lane, Ran};
use crate::means::Means;
use crate::route::Plan;

/// A candidate of any lane.
#[derive(Debug, Clone)]
pub(super) struct Fused {
    pub(super) place: Place,
    pub(super) score: f32,
    pub(super) found_by: Vec<(Lane, f32)>,
    /// Its cosine with the question, where a lane compared them and it has an embedding.
    pub(super) cosine: Option<f32>,
    /// Its BM25 score as a share of what the question's words could give at most, 0 to 1.
    pub(super) share: f32,
    /// What those words of the question that carry a subject and that it has could give at most.
    pub(super) covered: f32,
    /// Whether it has every word of the question that carries a subject, or a name that the question
    /// names: the question may be short, but it is about this.
    pub(super) is_meant: bool,
    /// Whether its title is the question.
    pub(super) is_titled: bool,
}

/// What each lane's scaled score counts for.
fn weight(lane: Lane) -> f32 {
    match lane {
        Lane::Words | Lane::Meaning => 0.5,
        Lane::Place => 0.5,
        Lane::Time | Lane::Graph => 0.1,
    }
}

/// What the share of the question's neighbouring words that are neighbours in the item, too, counts for.
const PAIRS_WEIGHT: f32 = 0.1;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Candidates whose texts are read for such neighbours: more than an answer has places, and more
    /// changed nothing.
    const PAIRED_MAX: usize = 20;
}

/// Candidates of all lanes, best first, equal ones in order of place.
///
/// # Errors
/// Damage, or the snapshot's stop.
pub(super) fn fuse(
    means: &Means<'_>,
    plan: &Plan,
    ran: &Ran<'_>,
) -> Result<Vec<Fused>, SearchError> {
    if let [only] = &*ran.candidates {
        let alone = only.found.iter().map(|&(place, score)| alone(only.lane, place, score));
        return Ok(alone.collect());
    }
    let mut all: BTreeMap<Place, Vec<(Lane, f32)>> = BTreeMap::new();
    for candidates in &ran.candidates {
        for &(place, score) in &candidates.found {
            all.entry(place).or_default().push((candidates.lane, score));
        }
    }
    let places: Vec<Place> = all.keys().copied().collect();
    let words = ran.words.of(&places, &plan.filter)?;
    let cosines = match &ran.question {
        Some(question) => {
            means.snapshot.cosines_of(means.kernels, question, &places, &plan.filter)?
        }
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
    let places: Vec<Place> = fused[..paired].iter().map(|found| found.place).collect();
    let pairs = means.snapshot.pairs_of(&plan.text, &places, &plan.filter)?;
    for (found, pairs) in fused.iter_mut().zip(pairs) {
        found.score += PAIRS_WEIGHT * pairs;
    }
    sort(&mut fused);
    Ok(fused)
}

fn sort(fused: &mut [Fused]) {
    fused.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.place.cmp(&b.place)));
}

/// A candidate of the only lane that ran, which keeps its own score.
fn alone(lane: Lane, place: Place, score: f32) -> Fused {
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

/// What the words of a subject weigh that an item has: the same to the bit for items that have the same ones.
pub(super) fn covered(terms: &[AskedTerm], item: &GivenWords) -> f32 {
    let matched = item.matched.iter().map(|&at| &terms[at]);
    matched.filter(|term| !term.function_word).fold(0.0, |sum, term| sum + term.weight)
}

/// Terms of no weight are other spellings of terms that have some.
fn is_meant(terms: &[AskedTerm], item: &GivenWords) -> bool {
    let has = |at: usize| item.matched.binary_search(&at).is_ok();
    let mut subjects = (0..)
        .zip(terms)
        .filter(|(_, term)| !term.function_word && term.weight > 0.0)
        .map(|(at, _)| at)
        .peekable();
    let has_all = subjects.peek().is_some() && subjects.all(has);
    has_all || (0..).zip(terms).any(|(at, term)| term.name && has(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(weight: f32, function_word: bool, name: bool) -> AskedTerm {
        AskedTerm { term: String::new(), function_word, name, weight, items: 1 }
    }

    fn given(matched: &[usize]) -> GivenWords {
        GivenWords { score: 1.0, matched: matched.to_vec() }
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
