//! Time retriever: items recorded, or valid, in the period that a question names.
//!
//! The retriever adds to the candidates of the others and excludes none, as a date in a question is more often a hint
//! than a condition. All candidates of the others are checked: a bound that checked only some would favour one
//! retriever's items.

use engine::{RowAddress, SearchError};

use super::lane::Candidates;
use super::time::Period;
use crate::means::Means;
use crate::route::Plan;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Items of a period to choose from: the most recently recorded items that the caller may find.
    const LOOKED_AT_MAX: usize = 4096;
}

/// Score of an item matched by its period alone; a candidate of another retriever in the period has score 1.
const ALONE: f32 = 0.5;

/// Returns the other retrievers' candidates in the period, then the items most recently recorded in the period, up to
/// the candidate limit.
pub(super) fn find(
    means: &Means<'_>,
    plan: &Plan,
    period: Period,
    others: &[Candidates],
) -> Result<Vec<(RowAddress, f32)>, SearchError> {
    let mut found: Vec<(RowAddress, f32)> = Vec::new();
    for &(place, _) in others.iter().flat_map(|lane| &lane.found) {
        if is_of(means, place, period)? && !found.iter().any(|(known, _)| *known == place) {
            found.push((place, 1.0));
        }
    }
    let found_max = found.len() + plan.bounds.candidate_limit;
    let times = period.start..period.end;
    let mut recorded =
        means.snapshot.items_recorded_within(times, LOOKED_AT_MAX, Some(&plan.filter))?;
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

/// Returns true if the item was recorded in the period, or has a validity period that overlaps with it.
fn is_of(means: &Means<'_>, place: RowAddress, period: Period) -> Result<bool, SearchError> {
    let item = means.snapshot.item(place)?;
    let is_given = item.valid_from.is_some() || item.valid_to.is_some();
    let begins = item.valid_from.is_none_or(|from| from < period.end);
    let ends = item.valid_to.is_none_or(|to| period.start < to);
    Ok(period.has(item.recorded_at) || is_given && begins && ends)
}
