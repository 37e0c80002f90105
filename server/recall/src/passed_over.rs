//! What policy keeps back of that which a question leads to otherwise than by words and meaning: by a time, a
//! path or a symbol that it names, or by an edge from what was found. It is noted in the ledger and nowhere else.
//!
//! Owns which hidden items would have had a place in the answer by those ways. Those that words and meaning
//! would have found are `hidden`'s.

use std::rc::Rc;

use engine::{EdgeFilter, NEIGHBOURS_MAX, Place, Quoted, SearchError};

use super::lane::{Candidates, Lane, Ran};
use super::lanes;
use super::time::When;
use super::{dated, fuse, hidden, located};
use crate::means::Means;
use crate::recalled::{Outcome, Withheld};
use crate::route::Plan;
use recalld_policy::Verdict;

/// Items that the lanes of time, place and graph would have given a place in the answer, were they not hidden:
/// those that rank with what is shown, or any where places are left. At most as many as the answer may have.
/// `worst_shown` is the score of the last item of a full answer.
///
/// # Errors
/// Damage, or the snapshot's stop.
pub(super) fn by_lanes(
    means: &Means<'_>,
    (plan, quoted): (&Plan, Option<&Quoted>),
    ran: &Ran<'_>,
    worst_shown: Option<f32>,
) -> Result<Vec<Place>, SearchError> {
    let period = match plan.when {
        Some(When::Within(period)) => Some(period),
        _ => None,
    };
    if period.is_none() && plan.named.is_empty() && !plan.graph {
        return Ok(Vec::new());
    }
    let plan = Plan { filter: hidden::filter(means, plan, quoted), ..plan.clone() };
    let mut passed = Ran::of(Rc::new(means.snapshot.words(&plan.text, &plan.filter)));
    passed.question.clone_from(&ran.question);
    let mut add = |lane, found| passed.candidates.push(Candidates { lane, found });
    // No candidates of its own: that there are several lanes has all scored by words and by meaning.
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
    let placed: Vec<Place> = placed.map(|found| found.place).collect();
    hidden::quoted(means, quoted, &placed, plan.bounds.limit)
}

/// Items that would have been neighbours of what is shown, did policy let the caller read them.
///
/// # Errors
/// Damage, or the snapshot's stop.
pub(super) fn as_neighbours(
    means: &Means<'_>,
    limit: usize,
    outcome: &Outcome,
) -> Result<Vec<Place>, SearchError> {
    let seeds: Vec<Place> = outcome.items.iter().map(|item| item.place).collect();
    let current = EdgeFilter { current_only: true, ..EdgeFilter::default() };
    let mut kept = Vec::new();
    for seed in &seeds {
        let mut taken: Vec<Place> = Vec::new();
        let id = means.snapshot.id(*seed)?;
        for neighbour in means.snapshot.neighbours(id, NEIGHBOURS_MAX, &current)? {
            if taken.len() == limit {
                break;
            }
            let place = neighbour.place;
            if taken.contains(&place) || seeds.contains(&place) {
                continue;
            }
            taken.push(place);
            if means.access.judge(&means.snapshot.item(place)?).0 != Verdict::Allow {
                kept.push(place);
            }
        }
    }
    Ok(kept)
}

/// Those of the places that the answer does not account for yet, as withheld, each once.
///
/// # Errors
/// Damage.
pub(super) fn noted(
    means: &Means<'_>,
    outcome: &Outcome,
    mut places: Vec<Place>,
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
