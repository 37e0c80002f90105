//! Withheld items of the time, path and graph retrievers; recorded in the ledger only.
//!
//! Finds the hidden items that would have been in the answer by a time, path or symbol in the question, or by an edge.
//! Matches by full text and vector are found separately.

use std::rc::Rc;

use engine::{EdgeFilter, NEIGHBOURS_MAX, PhraseMatches, RowAddress, SearchError};

use super::lane::{Candidates, Lane, Ran};
use super::lanes;
use super::time::When;
use super::{dated, fuse, hidden, located};
use crate::means::Means;
use crate::recalled::{Outcome, Withheld};
use crate::route::Plan;
use recalld_policy::{Action, Verdict};

/// Finds the hidden items that the time, path and graph retrievers would have put into the answer. The items are at
/// least as good as the worst shown item; any item qualifies if the answer is not full. Returns at most the item limit
/// of the answer. `worst_shown` is the score of the last item of a full answer.
///
/// # Errors
/// Corruption, or cancellation.
pub(super) fn by_lanes(
    means: &Means<'_>,
    (plan, quoted): (&Plan, Option<&PhraseMatches>),
    ran: &Ran<'_>,
    worst_shown: Option<f32>,
) -> Result<Vec<RowAddress>, SearchError> {
    let period = match plan.when {
        Some(When::Within(period)) => Some(period),
        _ => None,
    };
    if period.is_none() && plan.named.is_empty() && !plan.graph {
        return Ok(Vec::new());
    }
    let plan = Plan { filter: hidden::filter(means, plan, quoted), ..plan.clone() };
    let mut passed = Ran::of(Rc::new(means.snapshot.lexical_search(&plan.text, &plan.filter)));
    passed.question.clone_from(&ran.question);
    let mut add = |lane, found| passed.candidates.push(Candidates { lane, found });
    // No candidates, but a second retriever: fusion then computes full-text and vector scores for all candidates.
    add(Lane::Words, Vec::new());
    if let Some(period) = period {
        add(Lane::Time, dated::find(means, &plan, period, &[])?);
    }
    if !plan.named.is_empty() {
        add(Lane::Place, located::find(means, &plan, &plan.named, &[])?);
    }
    if plan.graph {
        let seeds: Vec<Candidates> =
            ran.candidates.iter().filter(|lane| lane.lane != Lane::Graph).cloned().collect();
        add(Lane::Graph, lanes::graph(means, &plan, &seeds, &mut passed.hops)?);
    }
    if passed.candidates.iter().all(|lane| lane.found.is_empty()) {
        return Ok(Vec::new());
    }
    let ranked = fuse::fuse(means, &plan, &passed)?.into_iter();
    let placed = ranked.filter(|found| worst_shown.is_none_or(|worst| found.score >= worst));
    let placed: Vec<RowAddress> = placed.map(|found| found.place).collect();
    hidden::quoted(means, quoted, &placed, plan.bounds.limit)
}

/// Finds the items that policy withholds from the neighbours of the shown items.
///
/// # Errors
/// Corruption, or cancellation.
pub(super) fn as_neighbours(
    means: &Means<'_>,
    limit: usize,
    outcome: &Outcome,
) -> Result<Vec<RowAddress>, SearchError> {
    let seeds: Vec<RowAddress> = outcome.items.iter().map(|item| item.place).collect();
    let current = EdgeFilter { current_only: true, ..EdgeFilter::default() };
    let mut kept = Vec::new();
    for seed in &seeds {
        let mut taken: Vec<RowAddress> = Vec::new();
        let id = means.snapshot.id(*seed)?;
        for neighbour in means.snapshot.neighbours(id, NEIGHBOURS_MAX, &current)? {
            if taken.len() == limit {
                break;
            }
            let place = neighbour.address;
            if taken.contains(&place) || seeds.contains(&place) {
                continue;
            }
            taken.push(place);
            if means.snapshot.judge(&means.snapshot.item(place)?, Action::Read).0 != Verdict::Allow
            {
                kept.push(place);
            }
        }
    }
    Ok(kept)
}

/// Returns the items that the answer does not account for yet, without repetitions.
///
/// # Errors
/// Corruption.
pub(super) fn noted(
    means: &Means<'_>,
    outcome: &Outcome,
    mut places: Vec<RowAddress>,
) -> Result<Vec<Withheld>, SearchError> {
    places.sort_unstable();
    places.dedup();
    places.retain(|place| {
        outcome.items.iter().all(|item| item.place != *place)
            && outcome.withheld.iter().all(|kept| kept.place != *place)
    });
    let withheld: Result<_, _> = places.into_iter().map(|place| means.withheld(place)).collect();
    Ok(withheld?)
}
