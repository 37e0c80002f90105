//! What policy keeps from a caller: out of everything that the caller is given, and into the ledger.
//!
//! Items are told apart by class alone (kind, sensitivity, gates), so policy is asked once for each class and
//! the engine passes over their rows. What a caller may not see can therefore change neither ranking nor
//! counts. What would have had a place in the answer is looked for separately, for the ledger's sake.

use std::collections::HashSet;
use std::sync::Arc;

use engine::{Filter, Hit, Place, Quoted, SearchError};

use super::lane::{Lane, Ran};
use crate::means::Means;
use crate::recalled::{Outcome, Withheld};
use crate::route::Plan;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Hidden items that are compared with the question one by one: some 0.2 us each, where looking through 50,000
    /// rows takes 1 ms. Where there are more, they are searched.
    const COMPARED_MAX: usize = 4096;

    /// Hidden items in which words are looked up one by one: some 0.1 us each, where a search takes 20 us.
    const LOOKED_UP_MAX: usize = 256;

    /// Texts of hidden items that are read for what the question has in quotes, for each lane.
    const READ_MAX: usize = 64;

    /// Bytes of these texts.
    const READ_BYTES_MAX: u64 = 1 << 20;
}

/// What had a place in the answer before it was known that nothing answers: what is hidden is measured by
/// that.
pub(super) struct Shown {
    count: usize,
    /// What the words lane found of it.
    words: Vec<Place>,
    /// The cosine of the worst that the meaning lane found of it.
    meaning: Option<f32>,
}

impl Shown {
    pub(super) fn of(outcome: &Outcome) -> Self {
        Self {
            count: outcome.items.len(),
            words: shown_by(outcome, Lane::Words).map(|(place, _)| place).collect(),
            meaning: shown_by(outcome, Lane::Meaning).map(|it| it.1).min_by(f32::total_cmp),
        }
    }
}

/// Items that the lanes would have given a place in the answer, were they not hidden: those that are at least
/// as good by words or by meaning as the worst that is shown. Where nothing is shown, all that have the words,
/// and the nearest one. At most as many of each lane as the answer may have.
///
/// `plan` is as its lanes ran, and `quoted` what has what the question has in quotes.
///
/// # Errors
/// Damage, or the snapshot's stop.
pub(super) fn kept_back(
    means: &Means<'_>,
    (plan, quoted): (&Plan, Option<&Quoted>),
    ran: &Ran<'_>,
    outcome: &Outcome,
    shown: &Shown,
) -> Result<Vec<Withheld>, SearchError> {
    if means.access.hidden().is_none() {
        return Ok(Vec::new());
    }
    let looking = Looking::of(means, plan, quoted)?;
    let mut places: Vec<Place> = Vec::new();
    if plan.words {
        let is_full = shown.count >= plan.bounds.limit;
        let measure: &[Place] = if is_full { &shown.words } else { &[] };
        places.extend(looking.by_words(measure)?);
    }
    if let Some(question) = &ran.question {
        let limit = if shown.meaning.is_some() { plan.bounds.limit } else { 1 };
        places.extend(looking.by_meaning(question, limit, shown.meaning)?);
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

/// A look for hidden items.
struct Looking<'a> {
    means: &'a Means<'a>,
    plan: &'a Plan,
    quoted: Option<&'a Quoted>,
    /// Admits just those that the plan would find, were they not hidden.
    filter: Filter,
    /// All of them, where they are few.
    few: Option<Vec<Place>>,
}

impl<'a> Looking<'a> {
    fn of(
        means: &'a Means<'a>,
        plan: &'a Plan,
        quoted: Option<&'a Quoted>,
    ) -> Result<Self, SearchError> {
        let filter = filter(means, plan, quoted);
        let few = means.snapshot.veiled_places(&filter, COMPARED_MAX)?;
        Ok(Self { means, plan, quoted, filter, few })
    }

    /// The best by words that score as much as the worst of these or more; where there are none, all are.
    fn by_words(&self, shown: &[Place]) -> Result<Vec<Place>, SearchError> {
        let words = self.means.snapshot.words(&self.plan.text, &self.filter);
        // The lane scored them without what is hidden. Here that counts in all scores, theirs among them.
        let scored = words.of(shown, &Filter::default())?.items.into_iter().map(|it| it.score);
        let least = scored.min_by(f32::total_cmp).unwrap_or(0.0);
        let limit = self.plan.bounds.limit;
        let hits = match self.few.as_ref().filter(|few| few.len() <= LOOKED_UP_MAX) {
            Some(few) => {
                let given = words.of(few, &self.filter)?.items;
                let scored = few.iter().zip(&given).filter(|(_, it)| !it.matched.is_empty());
                best(scored.map(|(place, it)| (*place, it.score)), least, self.looked_at(limit))
            }
            None => places(&words.search_from(self.looked_at(limit), least, &self.filter)?),
        };
        quoted(self.means, self.quoted, &hits, limit)
    }

    /// The nearest, so many at most, of this cosine or more.
    fn by_meaning(
        &self,
        question: &[f32],
        limit: usize,
        least: Option<f32>,
    ) -> Result<Vec<Place>, SearchError> {
        let Means { snapshot, kernels, .. } = self.means;
        let (least, most) = (least.unwrap_or(f32::NEG_INFINITY), self.looked_at(limit));
        let hits = match &self.few {
            Some(few) => {
                let cosines = snapshot.cosines_of(kernels, question, few, &self.filter)?;
                let scored = few.iter().zip(cosines).filter_map(|(at, it)| Some((*at, it?)));
                best(scored, least, most)
            }
            None => places(&snapshot.nearest_from(kernels, question, most, least, &self.filter)?),
        };
        quoted(self.means, self.quoted, &hits, limit)
    }

    /// How many have to be found for `limit` to be left: not all may have what stands in quotes.
    fn looked_at(&self, limit: usize) -> usize {
        if self.quoted.is_some() { limit.max(READ_MAX) } else { limit }
    }
}

/// What admits just those items that the plan, as its lanes ran, would find, were they not hidden; of what the
/// question has in quotes, those that have all words.
pub(super) fn filter(means: &Means<'_>, plan: &Plan, quoted: Option<&Quoted>) -> Filter {
    let mut filter = Filter { only_hidden: true, ..plan.filter.clone() };
    if let Some(quoted) = quoted {
        filter.among = Some(Arc::new(means.snapshot.chosen(&quoted.veiled)));
    }
    filter
}

/// The first `limit` of those found that have what stands in quotes, if anything does. Of those behind so many
/// texts, or so long ones, that is taken for granted: rather one too many is noted than one too few.
pub(super) fn quoted(
    means: &Means<'_>,
    quoted: Option<&Quoted>,
    found: &[Place],
    limit: usize,
) -> Result<Vec<Place>, SearchError> {
    let snapshot = means.snapshot;
    let Some(quoted) = quoted else { return Ok(found[..limit.min(found.len())].to_vec()) };
    let (mut kept, mut left) = (Vec::new(), READ_BYTES_MAX);
    for (read, &place) in found.iter().enumerate() {
        if kept.len() == limit {
            break;
        }
        snapshot.check()?;
        let bytes = snapshot.text_bytes(place)?;
        let is_read = read < READ_MAX && bytes <= left;
        left = left.saturating_sub(bytes);
        if !is_read || snapshot.has_quoted(quoted, place)? {
            kept.push(place);
        }
    }
    Ok(kept)
}

fn places(hits: &[Hit]) -> Vec<Place> {
    hits.iter().map(|hit| hit.place).collect()
}

/// The best that score so much or more, best first.
fn best(scored: impl Iterator<Item = (Place, f32)>, least: f32, limit: usize) -> Vec<Place> {
    let mut scored: Vec<(Place, f32)> = scored.filter(|(_, score)| *score >= least).collect();
    scored.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scored.truncate(limit);
    scored.into_iter().map(|(place, _)| place).collect()
}

/// The items that are shown and that the lane found, with its own scores.
fn shown_by(outcome: &Outcome, lane: Lane) -> impl Iterator<Item = (Place, f32)> {
    outcome.items.iter().filter_map(move |item| {
        let found = item.found_by.iter().find(|(by, _)| *by == lane);
        found.map(|&(_, score)| (item.place, score))
    })
}
