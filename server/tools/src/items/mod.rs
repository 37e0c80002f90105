//! items: what is remembered, one by one.

mod beside;
mod chain;
mod contradictions;
mod duplicates;
mod forget;
mod get;
mod pages;
mod remember;
mod sources;
mod supersede;
mod timeline;

pub use forget::would_forget;

use engine::{ItemId, Place, Snapshot};

use recalld_tool_framework::reading::may_know;
use recalld_tool_framework::{ANSWER_KIND, Context, Family, ServiceError};

limit_table::limits! {
    pub(crate) const LIMITS = [
        beside, chain, contradictions, duplicates, forget, get, pages, remember, sources, supersede,
        timeline,
    ];
}

pub(super) static FAMILY: Family = Family {
    name: "items",
    about: "Write and read single memories.",
    tools: &[
        remember::ROW,
        get::ROW,
        supersede::ROW,
        chain::ROW,
        timeline::ROW,
        forget::ROW,
        sources::LIST_ROW,
        sources::ONE_ROW,
        duplicates::ROW,
        contradictions::ROW,
    ],
};

/// What the caller is told of an item that is not there, be it for policy.
const NO_SUCH_ITEM: &str = "there is no such item";

/// Where the item of an id lies, tombstoned or not; `None` for one whose bytes were erased.
///
/// # Errors
/// There never was one, or policy denies it.
fn find_ever(
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

/// A text has to say something.
fn refuse_blank(text: &str) -> Result<(), ServiceError> {
    if text.trim().is_empty() {
        let why = "is blank; at least one visible character is wanted";
        return Err(ServiceError::argument("text", why));
    }
    Ok(())
}
