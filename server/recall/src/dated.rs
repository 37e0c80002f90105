//! The time lane: what was recorded, or is true, in the period that a question names.
//!
//! Owns which items of a period are candidates. It adds to what other lanes found and shuts nothing
//! out: a date in a question is a hint more often than a condition. All that others found is looked
//! at, for a bound that took some of it and not the rest would tell one lane's items from another's.

use engine::{Place, SearchError};

use super::lane::Candidates;
use super::time::Period;
use crate::means::Means;
use crate::route::Plan;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Items of a period that the lane chooses from, those written last that the caller may find.
    const LOOKED_AT_MAX: usize = 4096;
}

/// What an item of the period counts for by itself, where one that another lane found counts 1.
const ALONE: f32 = 0.5;

/// What others found and the period has, then what was recorded in it last, as many as a lane hands on.
pub(super) fn find(
    means: &Means<'_>,
    plan: &Plan,
    period: Period,
    others: &[Candidates],
) -> Result<Vec<(Place, f32)>, SearchError> {
    let mut found: Vec<(Place, f32)> = Vec::new();
    for &(place, _) in others.iter().flat_map(|lane| &lane.found) {
        if is_of(means, place, period)? && !found.iter().any(|(known, _)| *known == place) {
            found.push((place, 1.0));
        }
    }
    let found_max = found.len() + plan.bounds.candidate_limit;
    let times = period.start..period.end;
    let mut recorded = means.snapshot.places_recorded(times, LOOKED_AT_MAX, Some(&plan.filter))?;
    recorded.sort_unstable_by(|a, b| b.cmp(a));
    for (_, place) in recorded {
        if found.len() == found_max {
            break;
        }
        if !found.iter().any(|(known, _)| *known == place) {
            found.push((place, ALONE));
        }
    }
    Ok(found)
}

/// Whether an item was recorded in a period, or was given a time in which it is true that meets it.
fn is_of(means: &Means<'_>, place: Place, period: Period) -> Result<bool, SearchError> {
    let item = means.snapshot.item(place)?;
    let is_given = item.valid_from.is_some() || item.valid_to.is_some();
    let begins = item.valid_from.is_none_or(|from| from < period.end);
    let ends = item.valid_to.is_none_or(|to| period.start < to);
    Ok(period.has(item.recorded_at) || is_given && begins && ends)
}
