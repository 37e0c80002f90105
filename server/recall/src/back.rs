//! Looking back: a question `as of` a time is asked of the store as it was known, and of what was true, then.
//!
//! Owns when that is done. A store that knew nothing at that time is asked as it is now: its record
//! does not reach so far, and the date is about something else.

use engine::{Hidden, Micros, Moment, SearchError, Snapshot};

use super::time::When;
use crate::route::Plan;

/// The earlier snapshot that a plan is for, asked by a caller from whom `hidden` is kept; `None` where it does not look
/// back. A plan that would look back
/// on nothing that the caller may know of is changed to one that does not look back.
///
/// # Errors
/// Damage, or the snapshot's stop.
pub fn look_back(
    snapshot: &Snapshot,
    plan: &mut Plan,
    hidden: Option<&Hidden>,
) -> Result<Option<Snapshot>, SearchError> {
    let Some(When::AsOf(at)) = plan.when else { return Ok(None) };
    let then = snapshot.at(Moment { as_of: Some(at), valid_at: Some(at) });
    if then.has_record(hidden)? {
        return Ok(Some(then));
    }
    plan.when = Some(When::BeforeTheRecord);
    Ok(None)
}

impl Plan {
    /// The time from which it looks, where that is not now.
    pub fn as_of(&self) -> Option<Micros> {
        match self.when {
            Some(When::AsOf(at)) => Some(at),
            _ => None,
        }
    }
}
