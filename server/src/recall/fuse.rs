//! Several rankings into one.
//!
//! Scores are brought to a common scale and averaged, lane by lane (the convex combination of
//! Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS 2023):
//! BM25 by the best score of the question, cosine as it is. One lane alone keeps its own scores.

use std::collections::HashMap;

use engine::Place;

use super::lanes::{Candidates, Lane};
use super::route::Plan;

/// A candidate of any lane.
#[derive(Debug, Clone)]
pub(super) struct Fused {
    pub(super) place: Place,
    pub(super) score: f32,
    pub(super) found_by: Vec<(Lane, f32)>,
}

/// What each lane's scaled score counts for.
fn weight(lane: Lane) -> f32 {
    match lane {
        Lane::Words | Lane::Meaning => 0.5,
        Lane::Place => 0.5,
        Lane::Time | Lane::Graph => 0.1,
    }
}

/// Candidates of all lanes, best first, equal ones in order of place.
pub(super) fn fuse(plan: &Plan, lanes: &[Candidates]) -> Vec<Fused> {
    if let [only] = lanes {
        let found = only.found.iter();
        let alone = |&(place, score)| Fused { place, score, found_by: vec![(only.lane, score)] };
        return found.map(alone).collect();
    }
    let mut all: HashMap<Place, Fused> = HashMap::new();
    for candidates in lanes {
        let best = candidates.found.first().map_or(1.0, |&(_, score)| score);
        for &(place, score) in &candidates.found {
            let scaled = match candidates.lane {
                Lane::Words if best > 0.0 => score / best,
                _ => score.max(0.0),
            };
            let entry = all.entry(place).or_insert_with(|| Fused {
                place,
                score: 0.0,
                found_by: Vec::new(),
            });
            entry.score += weight(candidates.lane) * scaled;
            entry.found_by.push((candidates.lane, score));
        }
    }
    let mut fused: Vec<Fused> = all.into_values().collect();
    fused.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.place.cmp(&b.place)));
    fused.truncate(plan.bounds.candidate_limit);
    fused
}
