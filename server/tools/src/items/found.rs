//! The item of an id, tombstoned or not, for every tool of the family.

use engine::{ItemId, Place, Snapshot};

use recalld_tool_framework::reading::may_know;
use recalld_tool_framework::{ANSWER_KIND, Context, ServiceError};

/// What the caller is told of an item that is not there, be it for policy.
pub(super) const NO_SUCH_ITEM: &str = "there is no such item";

/// Where the item of an id lies, tombstoned or not; `None` for one whose bytes were erased.
///
/// # Errors
/// There never was one, or policy denies it.
pub(super) fn find_ever(
    context: &Context<'_>,
    snapshot: &Snapshot,
    id: ItemId,
) -> Result<Option<Place>, ServiceError> {
    let missing = || ServiceError::Missing { field: "item_id", why: NO_SUCH_ITEM.to_owned() };
    let Some(place) = snapshot.find(id)? else {
        return if snapshot.is_erased(id.0)? { Ok(None) } else { Err(missing()) };
    };
    let item = snapshot.item(place)?;
    if item.kind == ANSWER_KIND {
        return Err(missing());
    }
    may_know(context, "item_id", &item)?;
    Ok(Some(place))
}
