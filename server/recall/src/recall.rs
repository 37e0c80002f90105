use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{EdgeFilter, NEIGHBOURS_MAX, PhraseMatches, RowAddress, SearchError};

use super::lane::Ran;
use super::means::Means;
use super::recalled::{NeighbourAt, Outcome};
use super::route::Plan;
use super::{abstain, arbitrate, hidden, looks, passed_over, why};
use recalld_policy::{Action, Verdict};

/// Executes a query plan.
///
/// # Errors
/// Corruption, or cancellation.
pub fn recall(means: &Means<'_>, plan: &Plan) -> Result<Outcome, SearchError> {
    let began = Instant::now();
    let (mut plan, mut quoted) = narrowed(means, plan)?;
    let quotes_cut = quoted.as_ref().is_some_and(|quoted| quoted.is_truncated);
    // An answer without the quoted phrases still returns the nearest items.
    let unquoted = (plan.abstains && plan.finds_nothing()).then_some(if quotes_cut {
        abstain::NONE_LOOKED_THROUGH
    } else {
        abstain::NOTHING_QUOTED
    });
    if unquoted.is_some() {
        (plan.filter.allowlist, quoted) = (None, None);
    }
    let plan = &plan;
    let looking = Instant::now();
    let found = looks::find(means, plan, began)?;
    let mut ran = found.ran;
    let mut outcome = Outcome {
        items: found.items,
        conflicts: Vec::new(),
        withheld: found.withheld,
        lanes: std::mem::take(&mut ran.reports),
        skipped: std::mem::take(&mut ran.skipped),
        bounds: found.bounds,
        route: plan.route,
        abstained: None,
        cut_short: ran.cut_short || quotes_cut,
        encode: ran.encode,
        fuse: Duration::ZERO,
        took: Duration::ZERO,
        keep_back: None,
    };
    let shown = hidden::Shown::of(&outcome);
    let worst = outcome.items.iter().map(|item| item.score).min_by(f32::total_cmp);
    let worst_shown = worst.filter(|_| outcome.items.len() == plan.bounds.limit);
    if plan.abstains {
        abstain(&mut outcome, unquoted);
    }
    outcome.cut_short |= found.names_cut;
    if plan.explains {
        let known = why::Known { plan, ran: &ran, replaced: &found.replaced };
        why::explain(means, &known, &mut outcome.items)?;
        let conflicts = arbitrate::conflicts(&outcome.items, &found.folding)?;
        outcome.cut_short |= conflicts.cut_short;
        outcome.conflicts = conflicts.found;
    }
    let in_lanes: Duration = outcome.lanes.iter().map(|lane| lane.took).sum();
    outcome.fuse = looking.elapsed().saturating_sub(in_lanes);
    if plan.neighbours {
        add_neighbours(means, plan.bounds.neighbor_limit, &mut outcome)?;
    }
    outcome.took = began.elapsed();
    if means.hidden.is_some() {
        let began = Instant::now();
        let asked = (plan, quoted.as_ref());
        note_kept_back(means, asked, &ran, &mut outcome, (&shown, worst_shown))?;
        outcome.keep_back = Some(began.elapsed());
    }
    Ok(outcome)
}

/// Sets the reason for an abstention, if nothing answers the question, and retains only the nearest items. `unquoted`
/// is the reason why the quoted phrases were ignored.
fn abstain(outcome: &mut Outcome, unquoted: Option<&str>) {
    // An empty answer always abstains. A truncated search is no ground to reject the items it found.
    let is_known = unquoted == Some(abstain::NOTHING_QUOTED) || !outcome.cut_short;
    if !is_known && !outcome.items.is_empty() {
        return;
    }
    outcome.abstained = match unquoted {
        Some(why) => Some(why.to_owned()),
        None => abstain::abstains(&outcome.items),
    };
    if outcome.abstained.is_some() {
        outcome.cut_to(abstain::NEAREST_GIVEN_MAX);
    }
}

/// Records the hidden items that would have been in the answer. `worst_shown` is the score of the last item of a full
/// answer.
fn note_kept_back(
    means: &Means<'_>,
    asked: (&Plan, Option<&PhraseMatches>),
    ran: &Ran<'_>,
    outcome: &mut Outcome,
    (shown, worst_shown): (&hidden::Shown, Option<f32>),
) -> Result<(), SearchError> {
    let kept_back = hidden::kept_back(means, asked, ran, outcome, shown)?;
    outcome.withheld.extend(kept_back);
    let mut passed_over = passed_over::by_lanes(means, asked, ran, worst_shown)?;
    let (plan, _) = asked;
    if plan.neighbours {
        let limit = plan.bounds.neighbor_limit;
        passed_over.extend(passed_over::as_neighbours(means, limit, outcome)?);
    }
    let noted = passed_over::noted(means, outcome, passed_over)?;
    outcome.withheld.extend(noted);
    Ok(())
}

/// Restricts the plan to visible items, and to items with the question's quoted phrases if the plan honours quotes.
/// Also returns the matches of the phrases.
fn narrowed(means: &Means<'_>, plan: &Plan) -> Result<(Plan, Option<PhraseMatches>), SearchError> {
    let mut plan = plan.clone();
    plan.filter.mask = means.hidden.clone();
    let quoted = match plan.quotes {
        true => means.snapshot.phrase_matches(&plan.text, &plan.filter)?,
        false => None,
    };
    if let Some(quoted) = &quoted {
        plan.filter.allowlist = Some(Arc::clone(&quoted.items));
    }
    Ok((plan, quoted))
}

/// Adds the strongest current neighbours of each seed, except seeds and items that policy withholds.
fn add_neighbours(
    means: &Means<'_>,
    limit: usize,
    outcome: &mut Outcome,
) -> Result<(), SearchError> {
    let seeds: Vec<RowAddress> = outcome.items.iter().map(|item| item.place).collect();
    let hidden = means.hidden.clone();
    let current = EdgeFilter { current_only: true, mask: hidden, ..EdgeFilter::default() };
    for recalled in &mut outcome.items {
        let id = means.snapshot.id(recalled.place)?;
        for neighbour in means.snapshot.neighbours(id, NEIGHBOURS_MAX, &current)? {
            if recalled.neighbours.len() == limit {
                break;
            }
            let known = recalled.neighbours.iter().any(|known| known.place == neighbour.address);
            if known || seeds.contains(&neighbour.address) {
                continue;
            }
            let item = means.snapshot.item(neighbour.address)?;
            if means.snapshot.judge(&item, Action::Read).0 != Verdict::Allow {
                continue;
            }
            recalled.neighbours.push(NeighbourAt {
                edge: neighbour.edge.id,
                relation: neighbour.edge.relation.to_owned(),
                direction: neighbour.direction,
                weight: neighbour.edge.weight,
                place: neighbour.address,
            });
        }
    }
    Ok(())
}
