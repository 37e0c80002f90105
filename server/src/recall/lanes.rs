//! The lanes: ways of finding candidates, each on the same snapshot.

use std::time::{Duration, Instant};

use engine::{EdgeFilter, Place, SearchError};

use super::meaning::meaning;
use super::{Means, Plan};

/// A way of finding candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// BM25 over titles and texts.
    Words,
    /// Cosine of embeddings.
    Meaning,
    /// Edges from the best of the other lanes.
    Graph,
}

impl Lane {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Meaning => "meaning",
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

/// What a lane did, for `routing.lanes`.
#[derive(Debug, Clone, Copy)]
pub struct LaneReport {
    /// Which.
    pub lane: Lane,
    /// How many it found.
    pub candidates: usize,
    /// How long it took.
    pub took: Duration,
}

pub(super) struct Ran {
    pub(super) candidates: Vec<Candidates>,
    pub(super) reports: Vec<LaneReport>,
    pub(super) cut_short: bool,
    /// How long the question took to become a vector.
    pub(super) encode: Option<Duration>,
}

/// Seeds that the graph lane starts from, of each other lane.
const GRAPH_SEEDS: usize = 5;

/// Runs the plan's lanes one after another; none is begun after the plan's deadline.
pub(super) fn run(means: &Means<'_>, plan: &Plan, began: Instant) -> Result<Ran, SearchError> {
    let mut ran =
        Ran { candidates: Vec::new(), reports: Vec::new(), cut_short: false, encode: None };
    let lanes =
        [(Lane::Words, plan.words), (Lane::Meaning, plan.meaning), (Lane::Graph, plan.graph)];
    for (lane, _) in lanes.into_iter().filter(|(_, wanted)| *wanted) {
        means.snapshot.check()?;
        if began.elapsed() > plan.bounds.deadline {
            ran.cut_short = true;
            break;
        }
        let start = Instant::now();
        let found = match lane {
            Lane::Words => words(means, plan)?,
            Lane::Meaning => meaning(means, plan, &mut ran.encode)?,
            Lane::Graph => graph(means, plan, &ran.candidates)?,
        };
        let report = LaneReport { lane, candidates: found.len(), took: start.elapsed() };
        ran.reports.push(report);
        ran.candidates.push(Candidates { lane, found });
    }
    Ok(ran)
}

fn words(means: &Means<'_>, plan: &Plan) -> Result<Vec<(Place, f32)>, SearchError> {
    let hits =
        means.snapshot.search_words(&plan.text, plan.bounds.candidate_limit, &plan.filter)?;
    Ok(hits.into_iter().map(|hit| (hit.place, hit.score)).collect())
}

/// Neighbours of the best seeds: an edge passes on its weight's share of the seed's rank.
fn graph(
    means: &Means<'_>,
    plan: &Plan,
    others: &[Candidates],
) -> Result<Vec<(Place, f32)>, SearchError> {
    let mut reached: Vec<(Place, f32)> = Vec::new();
    let current = EdgeFilter { current_only: true, ..EdgeFilter::default() };
    for candidates in others {
        for (rank, &(seed, _)) in candidates.found.iter().take(GRAPH_SEEDS).enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "a rank below GRAPH_SEEDS")]
            let share = 1.0 / (rank + 2) as f32;
            let id = means.snapshot.id(seed)?;
            for neighbour in means.snapshot.neighbours(id, plan.bounds.neighbor_limit, &current)? {
                let item = means.snapshot.item(neighbour.place)?;
                let wanted = plan.filter.modality.as_deref();
                if item.searchable && wanted.is_none_or(|modality| modality == item.modality) {
                    reached.push((neighbour.place, share * neighbour.edge.weight));
                }
            }
        }
    }
    reached.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    reached.dedup_by_key(|(place, _)| *place);
    reached.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    reached.truncate(plan.bounds.candidate_limit);
    Ok(reached)
}
