//! Executes the retrievers of a query plan on one snapshot.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use engine::{EdgeFilter, LexicalSearch, RowAddress, SearchError};

use super::lane::{Candidates, Hop, Lane, LaneReport, Ran, Skipped};
use super::meaning::meaning;
use super::means::Means;
use super::route::Plan;
use super::time::When;
use super::{dated, located};

impl Lane {
    /// Returns the reason for running (`Ok`) or skipping (`Err`) the retriever.
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

/// Reason for skipping all retrievers if no scanned item contains the question's quoted phrases.
const NOTHING_QUOTED: &str = "no item has what stands in quotes";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Seeds of the graph retriever from each other retriever.
    const GRAPH_SEEDS: usize = 5;
}

/// Runs the plan's retrievers in order; after the plan's deadline, none is started. `asked` has the question's terms.
pub(super) fn run<'a>(
    means: &Means<'a>,
    plan: &Plan,
    asked: Rc<LexicalSearch<'a>>,
    began: Instant,
) -> Result<Ran<'a>, SearchError> {
    let mut ran = Ran::of(asked);
    for lane in Lane::ALL {
        let reason = lane.reason(plan);
        means.snapshot.check_cancelled()?;
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
) -> Result<Vec<(RowAddress, f32)>, SearchError> {
    match plan.when {
        Some(When::Within(period)) => dated::find(means, plan, period, others),
        _ => Ok(Vec::new()),
    }
}

fn words(plan: &Plan, words: &LexicalSearch<'_>) -> Result<Vec<(RowAddress, f32)>, SearchError> {
    let hits = words.search(plan.bounds.candidate_limit, &plan.filter)?;
    Ok(hits.into_iter().map(|hit| (hit.address, hit.score)).collect())
}

/// Returns neighbours of the best seeds. The score of a neighbour is the edge's weight times a share by the seed's
/// rank.
pub(super) fn graph(
    means: &Means<'_>,
    plan: &Plan,
    others: &[Candidates],
    hops: &mut HashMap<RowAddress, Hop>,
) -> Result<Vec<(RowAddress, f32)>, SearchError> {
    let mut reached: HashMap<RowAddress, (f32, Hop)> = HashMap::new();
    // Hidden items are no neighbours, unless the plan searches the hidden items.
    let hidden = means.hidden.clone().filter(|_| !plan.filter.only_masked);
    let current = EdgeFilter { current_only: true, mask: hidden, ..EdgeFilter::default() };
    for candidates in others {
        for (rank, &(seed, _)) in candidates.found.iter().take(GRAPH_SEEDS).enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "a rank below GRAPH_SEEDS")]
            let share = 1.0 / (rank + 2) as f32;
            let id = means.snapshot.id(seed)?;
            for neighbour in means.snapshot.neighbours(id, plan.bounds.neighbor_limit, &current)? {
                if !means.snapshot.admits(&plan.filter, neighbour.address)? {
                    continue;
                }
                let strength = share * neighbour.edge.weight;
                let known = reached.get(&neighbour.address);
                if known.is_none_or(|(known, _)| *known < strength) {
                    let hop = Hop {
                        seed,
                        edge: neighbour.edge.id,
                        relation: neighbour.edge.relation.to_owned(),
                        direction: neighbour.direction,
                    };
                    reached.insert(neighbour.address, (strength, hop));
                }
            }
        }
    }
    let mut found: Vec<(RowAddress, f32)> =
        reached.iter().map(|(place, (strength, _))| (*place, *strength)).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    found.truncate(plan.bounds.candidate_limit);
    hops.extend(reached.into_iter().map(|(place, (_, hop))| (place, hop)));
    Ok(found)
}
