//! Types of a recall's result.

use std::sync::Arc;
use std::time::Duration;

use engine::RowAddress;

use super::conflicts::Conflict;
use super::lane::{Hop, Lane, LaneReport, Skipped};
use super::route::Bounds;
use recalld_policy::Verdict;

/// Recalled item with its scores.
#[derive(Debug, Clone)]
pub struct Recalled {
    /// Row address in the snapshot.
    pub place: RowAddress,
    /// Score of the ranking: fused, BM25 or cosine, depending on the plan.
    pub score: f32,
    /// Retrievers that found the item, with their scores.
    pub found_by: Vec<(Lane, f32)>,
    /// Cosine with the question, if a retriever computed it.
    pub cosine: Option<f32>,
    /// BM25 score as a share of the maximum for the question's terms, 0 to 1; 0 if a single retriever ran.
    pub share: f32,
    /// Total weight of the question's content terms in the item.
    pub covered: f32,
    /// Explicit match: the item has every content term of the question, or a name in it.
    pub is_meant: bool,
    /// Policy verdict that admitted the item.
    pub verdict: Verdict,
    /// Name of the policy rule.
    pub rule: Arc<str>,
    /// Current successors, visible to the caller or not; empty for a current item.
    pub standing: Arc<[RowAddress]>,
    /// Explanation of the match, for the governed path and an item whose text the caller may read.
    pub why: Option<Why>,
    /// Near-duplicates, which the answer omits.
    pub duplicates: Vec<RowAddress>,
    /// Strongest neighbours, if the plan includes neighbours.
    pub neighbours: Vec<NeighbourAt>,
}

/// Explanation of an item's match.
#[derive(Debug, Clone, Default)]
pub struct Why {
    /// Words of the question in the title or text, as the question spells them.
    pub words: Vec<String>,
    /// Cosine with the question, if both have a vector.
    pub cosine: Option<f32>,
    /// Edge by which the graph retriever reached the item.
    pub path: Option<Hop>,
    /// Score of the time retriever, if it found the item.
    pub time: Option<f32>,
    /// Score of the path retriever, if it found the item.
    pub place: Option<f32>,
    /// Superseded item that matched and that this item replaced. All other fields except the words describe the
    /// superseded item's match.
    pub replaced: Option<RowAddress>,
}

/// Neighbour of a recalled item.
#[derive(Debug, Clone)]
pub struct NeighbourAt {
    /// Id of the edge.
    pub edge: engine::EdgeId,
    /// Relation of the edge.
    pub relation: String,
    /// Direction of the edge, seen from the item.
    pub direction: engine::Direction,
    /// Weight of the edge, 0 to 1.
    pub weight: f32,
    /// Row address of the neighbour.
    pub place: RowAddress,
}

/// Item that policy withheld from the caller, wholly or in part.
#[derive(Debug, Clone)]
pub struct Withheld {
    /// Row address in the snapshot.
    pub place: RowAddress,
    /// Policy verdict.
    pub verdict: Verdict,
    /// Name of the policy rule.
    pub rule: Arc<str>,
    /// True if the answer has the item, redacted.
    pub is_shown: bool,
    /// True if the caller may learn that an item was withheld.
    pub is_told: bool,
}

/// Result of a recall.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Items, best first.
    pub items: Vec<Recalled>,
    /// Pairs of items that contradict each other.
    pub conflicts: Vec<([RowAddress; 2], Conflict)>,
    /// Items that policy withheld or redacted: for the ledger, and the disclosed ones for the caller.
    pub withheld: Vec<Withheld>,
    /// Executed retrievers, in order.
    pub lanes: Vec<LaneReport>,
    /// Skipped retrievers.
    pub skipped: Vec<Skipped>,
    /// Effective limits.
    pub bounds: Bounds,
    /// Name of the route.
    pub route: &'static str,
    /// Reason for an abstention; the items are then the nearest few.
    pub abstained: Option<String>,
    /// True if the result is incomplete: the deadline passed before every retriever had run, or too many texts had to
    /// be scanned for quoted phrases. True also if there are more duplicates, conflicts or successors than an answer
    /// lists.
    pub cut_short: bool,
    /// Time spent on embedding the question, if any; part of the retriever's time.
    pub encode: Option<Duration>,
    /// Time spent on fusing and reranking the candidates.
    pub fuse: Duration,
    /// Total time, without the search for withheld items.
    pub took: Duration,
    /// Time spent on the search for withheld items, if anything is hidden from the caller.
    pub keep_back: Option<Duration>,
}

impl Outcome {
    /// Withheld and redacted items whose existence the caller may learn.
    pub fn told(&self) -> impl Iterator<Item = &Withheld> {
        self.withheld.iter().filter(|kept| kept.is_told)
    }

    /// Truncates the items to the first `count`, and returns the others. Redacted items among the others are removed
    /// from `withheld`, since they are neither shown nor disclosed.
    pub fn cut_to(&mut self, count: usize) -> Vec<Recalled> {
        let cut = self.items.split_off(count.min(self.items.len()));
        let is_cut = |kept: &Withheld| cut.iter().any(|item| item.place == kept.place);
        self.withheld.retain(|kept| !(kept.is_shown && is_cut(kept)));
        cut
    }
}

#[cfg(test)]
mod tests {
    use kernels::Kernels;

    use super::*;
    use crate::passes;

    #[test]
    fn what_is_redacted_and_cut_off_is_neither_shown_nor_told() {
        let (_folder, store) = passes::tests::store(3);
        let snapshot = store.snapshot();
        let question = [1.0, 0.5, 0.0, 0.0];
        let hits = snapshot.nearest(&Kernels::detect(), &question, 3, &engine::Filter::default());
        let places: Vec<RowAddress> = hits.unwrap().iter().map(|hit| hit.address).collect();
        let item = |place| Recalled {
            place,
            score: 0.0,
            found_by: Vec::new(),
            cosine: None,
            share: 0.0,
            covered: 0.0,
            is_meant: false,
            verdict: Verdict::Redact,
            rule: Arc::default(),
            standing: Arc::default(),
            why: None,
            duplicates: Vec::new(),
            neighbours: Vec::new(),
        };
        let kept = |place, is_shown| Withheld {
            place,
            verdict: Verdict::Redact,
            rule: Arc::default(),
            is_shown,
            is_told: true,
        };
        let mut outcome = Outcome {
            items: places[..2].iter().copied().map(item).collect(),
            conflicts: Vec::new(),
            withheld: vec![kept(places[0], true), kept(places[1], true), kept(places[2], false)],
            lanes: Vec::new(),
            skipped: Vec::new(),
            bounds: Bounds::GOVERNED,
            route: "governed",
            abstained: None,
            cut_short: false,
            encode: None,
            fuse: Duration::ZERO,
            took: Duration::ZERO,
            keep_back: None,
        };
        assert!(outcome.cut_to(5).is_empty());
        assert_eq!(outcome.told().count(), 3);
        let cut = outcome.cut_to(1);
        assert_eq!(cut.iter().map(|item| item.place).collect::<Vec<_>>(), places[1..2]);
        let told: Vec<RowAddress> = outcome.told().map(|kept| kept.place).collect();
        assert_eq!(told, [places[0], places[2]]);
    }
}
