//! The whole store in pages of a few items, newest first: for tools that look at every item and hold it against
//! others.
//!
//! Owns the order and its cursor. Knows nothing of what is looked for.

use std::cmp::Reverse;

use engine::{Filter, ItemId, Micros, Place, Snapshot, Top};

use crate::tools::ToolError;
use crate::tools::paging::{Paging, not_ours};

/// Where an item is in the order: when it was recorded, in microseconds since 1970, and its id.
pub(super) type Turn = (i64, String);

/// The next items behind the cursor's place that a filter admits and whose text the caller may read, at most
/// `count`, and whether there are more.
///
/// # Errors
/// Damage, a cursor of another list, or the call is over.
pub(super) fn next_items(
    snapshot: &Snapshot,
    paging: &Paging,
    filter: &Filter,
    count: usize,
) -> Result<(Vec<(Turn, Place)>, bool), ToolError> {
    let after = match paging.after::<Turn>()? {
        Some((at, id)) => Some((Micros(at), id.parse::<ItemId>().map_err(|_| not_ours())?)),
        None => None,
    };
    let mut top: Top<Micros, Reverse<(ItemId, Place)>> = Top::new(count + 1);
    snapshot.each_admitted(filter, |at, place| {
        // A list may name what is redacted; what it says counts for nothing here.
        if filter.hidden.as_ref().is_some_and(|hidden| snapshot.is_veiled(hidden, place)) {
            return Ok(());
        }
        let key = Reverse((snapshot.id(place)?, place));
        if after.is_none_or(|after| comes_behind((at, key.0.0), after)) && top.would_keep(at, &key)
        {
            top.offer(at, key);
        }
        Ok::<(), ToolError>(())
    })?;
    let mut found: Vec<(Turn, Place)> = top
        .into_sorted()
        .into_iter()
        .map(|(at, Reverse((id, place)))| ((at.0, id.to_string()), place))
        .collect();
    let has_more = found.len() > count;
    found.truncate(count);
    Ok((found, has_more))
}

/// Whether an item comes behind another one: it is older, or as old and its id is smaller.
pub(super) fn comes_behind(one: (Micros, ItemId), other: (Micros, ItemId)) -> bool {
    one < other
}
