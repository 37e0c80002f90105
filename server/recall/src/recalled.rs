//! What recall found.

use std::sync::Arc;
use std::time::Duration;

use engine::Place;

use super::conflicts::Conflict;
use super::lane::{Hop, Lane, LaneReport, Skipped};
use super::route::Bounds;
use recalld_policy::Verdict;

/// One recalled item.
#[derive(Debug, Clone)]
pub struct Recalled {
    /// Where it lies in the snapshot.
    pub place: Place,
    /// What it was ranked by: fused, BM25 or cosine, as the plan says.
    pub score: f32,
    /// Each lane that found it, with its own score there.
    pub found_by: Vec<(Lane, f32)>,
    /// Its cosine with the question, where a lane compared them.
    pub cosine: Option<f32>,
    /// Its BM25 score as a share of what the question's words could give at most, 0 to 1; 0 where one lane
    /// alone ran.
    pub share: f32,
    /// What those words of the question that carry a subject and that it has could give at most.
    pub covered: f32,
    /// Whether it has every word of the question that carries a subject, or a name in it.
    pub is_meant: bool,
    /// The policy decision that let it through.
    pub verdict: Verdict,
    /// Name of the rule.
    pub rule: Arc<str>,
    /// What stands in its place, whether or not the caller may see it; nothing, where it is current.
    pub standing: Arc<[Place]>,
    /// What led to it; of the governed path, where the caller sees its text.
    pub why: Option<Why>,
    /// Items that say the same, and are not given beside it.
    pub duplicates: Vec<Place>,
    /// Its strongest neighbours, where the plan asks for them.
    pub neighbours: Vec<NeighbourAt>,
}

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

/// A neighbour of a recalled item.
#[derive(Debug, Clone)]
pub struct NeighbourAt {
    /// The edge.
    pub edge: engine::EdgeId,
    /// What it means.
    pub relation: String,
    /// Which way it runs.
    pub direction: engine::Direction,
    /// 0 to 1.
    pub weight: f32,
    /// The item at the other end.
    pub place: Place,
}

/// An item that policy kept from the caller, or a part of it.
#[derive(Debug, Clone)]
pub struct Withheld {
    /// Where it lies.
    pub place: Place,
    /// How policy answered.
    pub verdict: Verdict,
    /// Name of the rule.
    pub rule: Arc<str>,
    /// Whether the answer has the item, without what it says.
    pub is_shown: bool,
    /// Whether the caller may learn that something was kept back.
    pub is_told: bool,
}

/// What recall found.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Best first.
    pub items: Vec<Recalled>,
    /// Which two of them cannot both be true, and why.
    pub conflicts: Vec<([Place; 2], Conflict)>,
    /// What policy withheld or redacted: for the ledger, and for the caller as far as each says.
    pub withheld: Vec<Withheld>,
    /// What each lane did that ran, in order.
    pub lanes: Vec<LaneReport>,
    /// The other lanes.
    pub skipped: Vec<Skipped>,
    /// The bounds that held.
    pub bounds: Bounds,
    /// The route's name.
    pub route: &'static str,
    /// Why nothing answers the question, where nothing does: the items are then the nearest few.
    pub abstained: Option<String>,
    /// Whether the time ran out before every lane had run, too much was to be looked through for what
    /// stands in quotes, or there are more duplicates, conflicts or successors than an answer names.
    pub cut_short: bool,
    /// How long the question took to become a vector, where it did; part of its lane's time.
    pub encode: Option<Duration>,
    /// How long it took to make one ranking of what the lanes found.
    pub fuse: Duration,
    /// All of it, but for looking for what was kept back.
    pub took: Duration,
    /// How long that took, where anything is hidden from the caller.
    pub keep_back: Option<Duration>,
}

impl Outcome {
    /// What was withheld or redacted as far as the caller may know.
    pub fn told(&self) -> impl Iterator<Item = &Withheld> {
        self.withheld.iter().filter(|kept| kept.is_told)
    }

    /// Leaves the first `count` items, and gives what was behind them. What of that policy redacted is then
    /// neither shown nor told.
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
        let places: Vec<Place> = hits.unwrap().iter().map(|hit| hit.place).collect();
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
        let told: Vec<Place> = outcome.told().map(|kept| kept.place).collect();
        assert_eq!(told, [places[0], places[2]]);
    }
}
