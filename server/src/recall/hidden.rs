//! What policy keeps from a caller: out of everything that the caller is given, and into the ledger.
//!
//! Items are told apart by class alone (kind, sensitivity, gates), so policy is asked once for each class and
//! the engine passes over their rows. What a caller may not see can therefore change neither ranking nor
//! counts. What would have had a place in the answer is looked for separately, for the ledger's sake.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use engine::{Class, Damage, Edition, Filter, Hidden, Place, SearchError, Sight, Snapshot};

use super::lanes::{Lane, Ran};
use super::{Means, Outcome, Plan, Withheld};
use crate::govern::{Action, Rules, Verdict, What, Who, decide};

/// Callers for whom what is hidden is kept: a bit for each row of the store, where anything is. The one who
/// asked longest ago is worked out again.
const CALLERS_MAX: usize = 64;

/// Hidden items that are scored one by one; where there are more, they are searched.
const SCORED_MAX: usize = 4096;

/// What is hidden from whom, kept from one question to the next. For one store and one set of rules.
#[derive(Debug, Default)]
pub struct HiddenFrom {
    /// Who asked last stands last.
    callers: Mutex<Vec<(Asker, Arc<Mutex<Known>>)>>,
}

/// What is known of one caller. Who looks through the store for it holds it, so that others of the same caller
/// wait for what comes of that instead of looking through as well.
#[derive(Debug, Default)]
struct Known {
    /// The newest edition that was asked.
    edition: Option<Edition>,
    hidden: Arc<Hidden>,
}

/// All of a caller that rules look at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asker {
    workspace: String,
    principal: String,
    plan: String,
    scopes: Vec<String>,
    purpose: Option<String>,
}

impl Asker {
    fn of(who: &Who<'_>) -> Self {
        Self {
            workspace: who.workspace.to_owned(),
            principal: who.principal.to_owned(),
            plan: who.plan.to_owned(),
            scopes: who.scopes.iter().map(|&scope| scope.to_owned()).collect(),
            purpose: who.purpose.map(str::to_owned),
        }
    }

    fn is(&self, who: &Who<'_>) -> bool {
        self.principal == who.principal
            && self.workspace == who.workspace
            && self.plan == who.plan
            && self.scopes.iter().map(String::as_str).eq(who.scopes.iter().copied())
            && self.purpose.as_deref() == who.purpose
    }
}

impl HiddenFrom {
    /// What of a snapshot the rules hide from a caller who reads; `None` where that is nothing.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    pub fn of(
        &self,
        snapshot: &Snapshot,
        rules: &Rules,
        who: &Who<'_>,
    ) -> Result<Option<Arc<Hidden>>, SearchError> {
        let known = self.known(who);
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let hidden = if known.hidden.is_of(snapshot) {
            Arc::clone(&known.hidden)
        } else {
            let sight = |class: &Class<'_>| sight(rules, who, class);
            let hidden = Arc::new(snapshot.hide(&known.hidden, sight)?);
            // Who still looks at an older state does not take from the others what holds for the newer one.
            if known.edition.is_none_or(|kept| kept <= snapshot.edition()) {
                known.hidden = Arc::clone(&hidden);
            }
            hidden
        };
        known.edition = known.edition.max(Some(snapshot.edition()));
        Ok((!hidden.is_empty()).then_some(hidden))
    }

    fn known(&self, who: &Who<'_>) -> Arc<Mutex<Known>> {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = callers.iter().position(|(asker, _)| asker.is(who)) {
            callers[at..].rotate_left(1);
        } else {
            if callers.len() == CALLERS_MAX {
                callers.remove(0);
            }
            callers.push((Asker::of(who), Arc::default()));
        }
        callers.last().map_or_else(Arc::default, |(_, known)| Arc::clone(known))
    }
}

fn sight(rules: &Rules, who: &Who<'_>, class: &Class<'_>) -> Sight {
    let what = What {
        workspace: who.workspace,
        kind: class.kind,
        sensitivity: class.sensitivity,
        gates: class.gates,
    };
    match decide(rules, who, &what, Action::Read).verdict {
        Verdict::Allow => Sight::Whole,
        Verdict::Redact => Sight::Outline,
        Verdict::Deny => Sight::Nothing,
    }
}

/// What had a place in the answer before it was known that nothing answers: what is hidden is measured by
/// that.
pub(super) struct Shown {
    count: usize,
    /// Whether quotes counted for nothing, since nothing has what stands in them.
    unquoted: bool,
    /// The lanes' own scores of the worst that they found.
    words: Option<f32>,
    meaning: Option<f32>,
}

impl Shown {
    pub(super) fn of(outcome: &Outcome, unquoted: bool) -> Self {
        Self {
            unquoted,
            count: outcome.items.len(),
            words: worst_shown(outcome, Lane::Words),
            meaning: worst_shown(outcome, Lane::Meaning),
        }
    }
}

/// Items that the lanes would have given a place in the answer, were they not hidden: those that are at least
/// as good by words or by meaning as the worst that is shown. Where nothing is shown, all that have the words,
/// and the nearest one. At most as many of each lane as the answer may have.
///
/// # Errors
/// Damage, or the snapshot's stop.
pub(super) fn kept_back(
    means: &Means<'_>,
    plan: &Plan,
    ran: &Ran,
    outcome: &Outcome,
    shown: &Shown,
) -> Result<Vec<Withheld>, SearchError> {
    let Some(hidden) = &means.hidden else { return Ok(Vec::new()) };
    let filter = Filter { only_hidden: true, ..plan.filter.clone() };
    let (mut plan, _) = super::narrowed(means, &Plan { filter, ..plan.clone() })?;
    if shown.unquoted && plan.finds_nothing() {
        plan.filter.among = None;
    }
    let limit = plan.bounds.limit;
    let is_full = shown.count >= limit;
    let few = means.snapshot.veiled_places(hidden, SCORED_MAX);
    let few = few.map(|few| admitted(means, &plan, few)).transpose()?;
    let mut places: Vec<Place> = Vec::new();
    if plan.words {
        let floor = shown.words.filter(|_| is_full).unwrap_or(0.0);
        let hits = match &few {
            Some(few) => best(words_of(means, &plan, few)?, limit),
            None => {
                let hits = means.snapshot.search_words(&plan.text, limit, &plan.filter)?;
                hits.iter().map(|hit| (hit.place, hit.score)).collect()
            }
        };
        places.extend(hits.iter().filter(|hit| hit.1 >= floor).map(|hit| hit.0));
    }
    if let Some(question) = &ran.question {
        let floor = shown.meaning;
        let limit = if floor.is_some() { limit } else { 1 };
        let hits = match &few {
            Some(few) => best(cosines_of(means, &plan, question, few)?, limit),
            None => {
                let hits = means.snapshot.nearest(means.kernels, question, limit, &plan.filter)?;
                hits.iter().map(|hit| (hit.place, hit.score)).collect()
            }
        };
        let floor = floor.unwrap_or(f32::NEG_INFINITY);
        places.extend(hits.iter().filter(|hit| hit.1 >= floor).map(|hit| hit.0));
    }
    places.sort_unstable();
    places.dedup();
    // What is redacted may have come in by another way, and what the gate filed is filed.
    let withheld = outcome.withheld.iter().map(|kept| kept.place);
    let filed: HashSet<Place> =
        outcome.items.iter().map(|item| item.place).chain(withheld).collect();
    places.retain(|place| !filed.contains(place));
    places
        .into_iter()
        .map(|place| means.withheld(place))
        .collect::<Result<_, _>>()
        .map_err(Into::into)
}

/// Those of the hidden items that the plan could find, were they not hidden.
fn admitted(means: &Means<'_>, plan: &Plan, hidden: Vec<Place>) -> Result<Vec<Place>, Damage> {
    let filter = Filter { hidden: None, only_hidden: false, ..plan.filter.clone() };
    let mut admitted = Vec::with_capacity(hidden.len());
    for place in hidden {
        if means.snapshot.admits(&filter, place)? {
            admitted.push(place);
        }
    }
    Ok(admitted)
}

/// Those of the items that have words of the question, and their scores.
fn words_of(
    means: &Means<'_>,
    plan: &Plan,
    places: &[Place],
) -> Result<Vec<(Place, f32)>, SearchError> {
    let words = means.snapshot.words_of(&plan.text, places, &plan.filter)?;
    let scored = places.iter().zip(words.items).filter(|(_, words)| !words.matched.is_empty());
    Ok(scored.map(|(place, words)| (*place, words.score)).collect())
}

/// Those of the items that have an embedding, and their cosines.
fn cosines_of(
    means: &Means<'_>,
    plan: &Plan,
    question: &[f32],
    places: &[Place],
) -> Result<Vec<(Place, f32)>, SearchError> {
    let cosines = means.snapshot.cosines_of(means.kernels, question, places, &plan.filter)?;
    Ok(places.iter().zip(cosines).filter_map(|(place, cosine)| Some((*place, cosine?))).collect())
}

/// The best of them.
fn best(mut scored: Vec<(Place, f32)>, limit: usize) -> Vec<(Place, f32)> {
    scored.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scored.truncate(limit);
    scored
}

/// The lane's own score of the worst item that it found and that is shown.
fn worst_shown(outcome: &Outcome, lane: Lane) -> Option<f32> {
    let found = outcome.items.iter().flat_map(|item| &item.found_by);
    let scores = found.filter(|(by, _)| *by == lane).map(|&(_, score)| score);
    scores.min_by(f32::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::passes::tests::{items, store};
    use super::*;

    #[test]
    fn who_looks_at_an_older_state_takes_nothing_from_those_of_the_newer_one() {
        let (_folder, store) = store(1);
        let earlier = store.snapshot();
        store.write(items(1)).unwrap();
        let later = store.snapshot();
        let rules = Rules::new(Vec::new()).unwrap();
        let who =
            Who { workspace: "w", principal: "ada", plan: "team", scopes: &[], purpose: None };
        let from = HiddenFrom::default();
        let of = |snapshot| from.of(snapshot, &rules, &who).unwrap().expect("nothing is allowed");
        let newer = of(&later);
        assert!(newer.is_of(&later) && !newer.is_of(&earlier));
        assert!(of(&earlier).is_of(&earlier));
        assert!(Arc::ptr_eq(&newer, &of(&later)));
    }
}
