//! The lanes: ways of finding candidates, each on the same snapshot.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{AskedWords, EdgeFilter, Place, SearchError};

use super::meaning::meaning;
use super::time::When;
use super::{Means, Plan, dated, located};

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

    /// Why a plan runs it, or why not.
    fn reason(self, plan: &Plan) -> Result<&'static str, &'static str> {
        const NOT_OF_THIS_ROUTE: &str = "not a lane of this route";
        let is_governed = plan.words && plan.meaning;
        match self {
            Self::Words if plan.words => Ok("a question has words"),
            Self::Meaning if plan.meaning => Ok("a question has a meaning"),
            Self::Graph if plan.graph => Ok("links lead on from what the other lanes found"),
            Self::Time => match plan.when {
                Some(When::Within(_)) => Ok("the question names a time"),
                Some(When::AsOf(_)) => {
                    Err("every lane looks from the time that the question names")
                }
                Some(When::BeforeTheRecord) => {
                    Err("nothing was on record at the time that is named")
                }
                None if is_governed => Err("the question names no time"),
                None => Err(NOT_OF_THIS_ROUTE),
            },
            Self::Place if !plan.named.is_empty() => Ok("the question names a path or a symbol"),
            Self::Place if is_governed => Err("the question names no path and no symbol"),
            _ => Err(NOT_OF_THIS_ROUTE),
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
    fn add(&mut self, found: Vec<(Place, f32)>) -> Vec<Place> {
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

/// Why no lane runs, where the question has in quotes what nothing has that was looked at.
const NOTHING_QUOTED: &str = "no item has what stands in quotes";

/// Seeds that the graph lane starts from, of each other lane.
const GRAPH_SEEDS: usize = 5;

/// Runs the plan's lanes one after another; none is begun after the plan's deadline. `asked` are the question's words.
pub(super) fn run<'a>(
    means: &Means<'a>,
    plan: &Plan,
    asked: Rc<AskedWords<'a>>,
    began: Instant,
) -> Result<Ran<'a>, SearchError> {
    let mut ran = Ran::of(asked);
    for lane in Lane::ALL {
        let reason = lane.reason(plan);
        means.snapshot.check()?;
        let reason = match plan.finds_nothing() {
            true => reason.and(Err(NOTHING_QUOTED)),
            false => reason,
        };
        let is_late = reason.is_ok() && began.elapsed() > plan.bounds.deadline;
        ran.cut_short |= is_late;
        let why = match reason {
            Ok(why) if !is_late => why,
            Ok(_) => {
                ran.skipped.push(Skipped { lane, why: "the time was over" });
                continue;
            }
            Err(why) => {
                ran.skipped.push(Skipped { lane, why });
                continue;
            }
        };
        let start = Instant::now();
        let found = match lane {
            Lane::Words => words(plan, &ran.words)?,
            Lane::Meaning => meaning(means, plan, &mut ran)?,
            Lane::Time => time(means, plan, &ran.candidates)?,
            Lane::Place => located::find(means, plan, &plan.named, &ran.candidates)?,
            Lane::Graph => graph(means, plan, &ran.candidates, &mut ran.hops)?,
        };
        let report = LaneReport { lane, why, candidates: found.len(), took: start.elapsed() };
        ran.reports.push(report);
        ran.candidates.push(Candidates { lane, found });
    }
    Ok(ran)
}

fn time(
    means: &Means<'_>,
    plan: &Plan,
    others: &[Candidates],
) -> Result<Vec<(Place, f32)>, SearchError> {
    match plan.when {
        Some(When::Within(period)) => dated::find(means, plan, period, others),
        _ => Ok(Vec::new()),
    }
}

fn words(plan: &Plan, words: &AskedWords<'_>) -> Result<Vec<(Place, f32)>, SearchError> {
    let hits = words.search(plan.bounds.candidate_limit, &plan.filter)?;
    Ok(hits.into_iter().map(|hit| (hit.place, hit.score)).collect())
}

/// Neighbours of the best seeds: an edge passes on its weight's share of the seed's rank.
pub(super) fn graph(
    means: &Means<'_>,
    plan: &Plan,
    others: &[Candidates],
    hops: &mut HashMap<Place, Hop>,
) -> Result<Vec<(Place, f32)>, SearchError> {
    let mut reached: HashMap<Place, (f32, Hop)> = HashMap::new();
    // What is hidden is no neighbour, unless it is looked for.
    let hidden = means.access.hidden().cloned().filter(|_| !plan.filter.only_hidden);
    let current = EdgeFilter { current_only: true, hidden, ..EdgeFilter::default() };
    for candidates in others {
        for (rank, &(seed, _)) in candidates.found.iter().take(GRAPH_SEEDS).enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "a rank below GRAPH_SEEDS")]
            let share = 1.0 / (rank + 2) as f32;
            let id = means.snapshot.id(seed)?;
            for neighbour in means.snapshot.neighbours(id, plan.bounds.neighbor_limit, &current)? {
                if !means.snapshot.admits(&plan.filter, neighbour.place)? {
                    continue;
                }
                let strength = share * neighbour.edge.weight;
                let known = reached.get(&neighbour.place);
                if known.is_none_or(|(known, _)| *known < strength) {
                    let hop = Hop {
                        seed,
                        edge: neighbour.edge.id,
                        relation: neighbour.edge.relation.to_owned(),
                        direction: neighbour.direction,
                    };
                    reached.insert(neighbour.place, (strength, hop));
                }
            }
        }
    }
    let mut found: Vec<(Place, f32)> =
        reached.iter().map(|(place, (strength, _))| (*place, *strength)).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    found.truncate(plan.bounds.candidate_limit);
    hops.extend(reached.into_iter().map(|(place, (_, hop))| (place, hop)));
    Ok(found)
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
