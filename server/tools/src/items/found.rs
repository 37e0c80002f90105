//! Lookup of an item by id, including tombstoned items.

use engine::{ItemId, RowAddress};

use recalld_recall::AccessView;
use recalld_tool_framework::reading::may_know;
use recalld_tool_framework::{ANSWER_KIND, ServiceError};

/// Message for a missing item and for an item that policy hides.
pub(super) const NO_SUCH_ITEM: &str = "there is no such item";

/// Row address of an item, tombstoned or not; `None` if its bytes were erased.
///
/// # Errors
/// Returns an error if the item never existed or policy denies it.
pub(super) fn find_ever(
    snapshot: &AccessView<'_>,
    id: ItemId,
) -> Result<Option<RowAddress>, ServiceError> {
    let missing = || ServiceError::Missing { field: "item_id", why: NO_SUCH_ITEM.to_owned() };
    let Some(place) = snapshot.find(id)? else {
        return if snapshot.is_erased(id.0)? { Ok(None) } else { Err(missing()) };
    };
    let item = snapshot.item(place)?;
    if item.kind == ANSWER_KIND {
        return Err(missing());
    }
    may_know(snapshot, "item_id", &item)?;
    Ok(Some(place))
}
