//! As-of reads: a question `as of` a time reads the store as it was known, and as it was true, at that time.
//!
//! A store without a record of that time is read as of now: its record does not reach back so far, so the date in the
//! question means something else.

use engine::{AsOf, Micros, SearchError};

use super::access::AccessView;
use super::time::When;
use crate::route::Plan;

/// Returns the earlier snapshot for a plan with an as-of time, or `None` for any other plan. If nothing that the caller
/// may learn of was on record at that time, the plan's time is set to [`When::BeforeTheRecord`].
///
/// # Errors
/// Corruption, or cancellation.
pub fn look_back<'a>(
    snapshot: &AccessView<'a>,
    plan: &mut Plan,
) -> Result<Option<AccessView<'a>>, SearchError> {
    let Some(When::AsOf(at)) = plan.when else { return Ok(None) };
    let then = snapshot.with_as_of(AsOf { known_at: Some(at), valid_at: Some(at) });
    if then.has_visible_item(then.hidden()?.as_deref())? {
        return Ok(Some(then));
    }
    plan.when = Some(When::BeforeTheRecord);
    Ok(None)
}

impl Plan {
    /// As-of time of the plan; `None` for a read of the present.
    pub fn as_of(&self) -> Option<Micros> {
        match self.when {
            Some(When::AsOf(at)) => Some(at),
            _ => None,
        }
    }
}
