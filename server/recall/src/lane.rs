//! A way of finding candidates, and what came of all ways that were gone.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::{AskedWords, Place};

/// A way of finding candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// BM25 over titles and texts.
    Words,
    /// Cosine of embeddings.
    Meaning,
    /// The period that the question names.
    Time,
    /// The files and symbols that the question names.
    Place,
    /// Edges from the best of the other lanes.
    Graph,
}

impl Lane {
    /// Each, in the order in which they run: the last ones look at what the first ones found.
    pub const ALL: [Self; 5] = [Self::Words, Self::Meaning, Self::Time, Self::Place, Self::Graph];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Meaning => "meaning",
            Self::Time => "time",
            Self::Place => "place",
            Self::Graph => "graph",
        }
    }
}

/// What one lane found.
#[derive(Debug, Clone)]
pub(super) struct Candidates {
    pub(super) lane: Lane,
    /// Place and the lane's own score, best first.
    pub(super) found: Vec<(Place, f32)>,
}

impl Candidates {
    /// Adds what was found by another look, and gives the places for which that is new or better.
    pub(super) fn add(&mut self, found: Vec<(Place, f32)>) -> Vec<Place> {
        let mut scores: HashMap<Place, f32> = self.found.iter().copied().collect();
        let mut better = Vec::new();
        for (place, score) in found {
            if scores.get(&place).is_none_or(|&known| known < score) {
                scores.insert(place, score);
                better.push(place);
            }
        }
        self.found = scores.into_iter().collect();
        self.found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        better
    }
}

/// What a lane did, for `routing.lanes`.
#[derive(Debug, Clone, Copy)]
pub struct LaneReport {
    /// Which.
    pub lane: Lane,
    /// Why it ran.
    pub why: &'static str,
    /// How many it found.
    pub candidates: usize,
    /// How long it took.
    pub took: Duration,
}

/// A lane that did not run, for `routing.skipped`.
#[derive(Debug, Clone, Copy)]
pub struct Skipped {
    /// Which.
    pub lane: Lane,
    /// Why not.
    pub why: &'static str,
}

/// An edge by which the graph lane came to an item.
#[derive(Debug, Clone, PartialEq)]
pub struct Hop {
    /// Where it started: an item that another lane found.
    pub seed: Place,
    /// The edge.
    pub edge: engine::EdgeId,
    /// What it means.
    pub relation: String,
    /// Which way it runs, seen from the seed.
    pub direction: engine::Direction,
}

pub(super) struct Ran<'a> {
    /// The question's words, which are counted once for all that is asked of them.
    pub(super) words: Rc<AskedWords<'a>>,
    pub(super) candidates: Vec<Candidates>,
    pub(super) reports: Vec<LaneReport>,
    pub(super) skipped: Vec<Skipped>,
    /// By which edge the graph lane came to each item that it found.
    pub(super) hops: HashMap<Place, Hop>,
    pub(super) cut_short: bool,
    /// How long the question took to become a vector.
    pub(super) encode: Option<Duration>,
    /// That vector.
    pub(super) question: Option<Arc<[f32]>>,
}

impl<'a> Ran<'a> {
    /// Nothing yet.
    pub(super) fn of(words: Rc<AskedWords<'a>>) -> Self {
        Self {
            words,
            candidates: Vec::new(),
            reports: Vec::new(),
            skipped: Vec::new(),
            hops: HashMap::new(),
            cut_short: false,
            encode: None,
            question: None,
        }
    }

    /// Whether a lane gave as many as it may, so that it may have more.
    pub(super) fn is_full(&self, candidate_limit: usize) -> bool {
        self.candidates.iter().any(|lane| lane.found.len() >= candidate_limit)
    }

    /// What the same lanes found when they looked again: all of it is kept, by lane. What they found twice keeps
    /// the better of its scores, with what led to it then.
    pub(super) fn add(&mut self, mut more: Self) {
        for again in more.candidates {
            let Some(lane) = self.candidates.iter_mut().find(|one| one.lane == again.lane) else {
                continue;
            };
            for place in lane.add(again.found) {
                if lane.lane == Lane::Graph
                    && let Some(hop) = more.hops.remove(&place)
                {
                    self.hops.insert(place, hop);
                }
            }
        }
        for report in &mut self.reports {
            let found = self.candidates.iter().find(|one| one.lane == report.lane);
            report.candidates = found.map_or(0, |one| one.found.len());
            let again = more.reports.iter().find(|again| again.lane == report.lane);
            report.took += again.map_or(Duration::ZERO, |again| again.took);
        }
        self.cut_short |= more.cut_short;
    }
}

#[cfg(test)]
mod tests {
    use engine::{Direction, EdgeId, Filter};

    use super::super::passes::tests::store;
    use super::*;

    #[test]
    fn of_two_looks_the_better_score_stays_with_its_way() {
        let (_folder, store) = store(3);
        let snapshot = store.snapshot();
        let places: Vec<Place> = snapshot.places().unwrap().collect();
        let words = Rc::new(snapshot.words("", &Filter::default()));
        let look = |edge, found: &[(Place, f32)]| {
            let hop = |seed| Hop {
                seed,
                edge: EdgeId(edge),
                relation: String::new(),
                direction: Direction::Out,
            };
            let mut ran = Ran::of(Rc::clone(&words));
            ran.hops = found.iter().map(|&(place, _)| (place, hop(place))).collect();
            ran.candidates = vec![Candidates { lane: Lane::Graph, found: found.to_vec() }];
            ran
        };
        let mut ran = look(1, &[(places[0], 0.5), (places[1], 0.2)]);
        ran.add(look(2, &[(places[2], 0.4), (places[1], 0.3), (places[0], 0.1)]));
        let wanted = [(places[0], 0.5), (places[2], 0.4), (places[1], 0.3)];
        assert_eq!(ran.candidates[0].found, wanted);
        let edges: Vec<u128> = places.iter().map(|place| ran.hops[place].edge.0).collect();
        assert_eq!(edges, [1, 2, 2]);
    }
}
