//! Retrievers, and the results of all retrievers of one recall.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::{LexicalSearch, RowAddress};

/// Candidate generator on one snapshot; "lane" on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Full text: BM25 over titles and texts.
    Words,
    /// Vectors: cosine of embeddings.
    Meaning,
    /// Time: the period that the question names.
    Time,
    /// Path: the files and symbols that the question names.
    Place,
    /// Graph: edges from the best candidates of the other retrievers.
    Graph,
}

impl Lane {
    /// All retrievers, in order of execution: the later ones use the candidates of the earlier ones.
    pub const ALL: [Self; 5] = [Self::Words, Self::Meaning, Self::Time, Self::Place, Self::Graph];

    /// Name on the wire.
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

/// Candidates of one retriever.
#[derive(Debug, Clone)]
pub(super) struct Candidates {
    pub(super) lane: Lane,
    /// Row addresses with the retriever's scores, best first.
    pub(super) found: Vec<(RowAddress, f32)>,
}

impl Candidates {
    /// Merges the hits of a retry. Returns the rows that are new or have a better score.
    pub(super) fn add(&mut self, found: Vec<(RowAddress, f32)>) -> Vec<RowAddress> {
        let mut scores: HashMap<RowAddress, f32> = self.found.iter().copied().collect();
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

/// Execution of a retriever, for `routing.lanes`.
#[derive(Debug, Clone, Copy)]
pub struct LaneReport {
    /// The retriever.
    pub lane: Lane,
    /// Reason for running the retriever.
    pub why: &'static str,
    /// Number of candidates.
    pub candidates: usize,
    /// Elapsed time.
    pub took: Duration,
}

/// Retriever that did not run, for `routing.skipped`.
#[derive(Debug, Clone, Copy)]
pub struct Skipped {
    /// The retriever.
    pub lane: Lane,
    /// Reason for skipping the retriever.
    pub why: &'static str,
}

/// Edge by which the graph retriever reached an item.
#[derive(Debug, Clone, PartialEq)]
pub struct Hop {
    /// Start of the edge: a candidate of another retriever.
    pub seed: RowAddress,
    /// Id of the edge.
    pub edge: engine::EdgeId,
    /// Relation of the edge.
    pub relation: String,
    /// Direction of the edge, seen from the seed.
    pub direction: engine::Direction,
}

pub(super) struct Ran<'a> {
    /// Terms of the question, with statistics computed once for all uses.
    pub(super) words: Rc<LexicalSearch<'a>>,
    pub(super) candidates: Vec<Candidates>,
    pub(super) reports: Vec<LaneReport>,
    pub(super) skipped: Vec<Skipped>,
    /// Edge by which the graph retriever reached each of its candidates.
    pub(super) hops: HashMap<RowAddress, Hop>,
    pub(super) cut_short: bool,
    /// Time spent on embedding the question.
    pub(super) encode: Option<Duration>,
    /// Vector of the question.
    pub(super) question: Option<Arc<[f32]>>,
}

impl<'a> Ran<'a> {
    pub(super) fn of(words: Rc<LexicalSearch<'a>>) -> Self {
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

    /// Returns true if a retriever reached its candidate limit, so that more candidates may exist.
    pub(super) fn is_full(&self, candidate_limit: usize) -> bool {
        self.candidates.iter().any(|lane| lane.found.len() >= candidate_limit)
    }

    /// Merges the results of a retry, for each retriever. An item found twice has the better score, and the edge that
    /// belongs to this score.
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
        let places: Vec<RowAddress> = snapshot.item_addresses().unwrap().collect();
        let words = Rc::new(snapshot.lexical_search("", &Filter::default()));
        let look = |edge, found: &[(RowAddress, f32)]| {
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
