//! Paged scan over all items, newest first, for tools that compare every item with others.
//!
//! Defines the order, its cursor and the end of a page.

use std::cmp::Reverse;

use engine::ledger::TouchedItem;
use engine::{Filter, ItemId, Micros, RowAddress, Snapshot, TopK};
use serde_json::{Value, json};

use recalld_tool_framework::paging::{Paging, not_ours};
use recalld_tool_framework::{Answer, ServiceError};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum items of a page that are compared with others.
    pub(super) const ITEMS_MAX: usize = 64;
}

/// Position in the order: recording time in microseconds since 1970, and id.
type Turn = (i64, String);

/// Result of a visit of one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The item was handled.
    Taken,
    /// The results of the item do not fit on the page; the item starts the next page.
    Full,
}

#[derive(Default)]
pub(super) struct Page {
    pub rows: Vec<Value>,
    pub(super) text: String,
    pub(super) touched: Vec<TouchedItem>,
    /// True if an item has more results than the page reports.
    pub(super) left_out: bool,
}

impl Page {
    /// Builds the answer: rows under `name`, or the text `nothing`; and the bounds if a bound was reached.
    pub(super) fn into_answer(
        self,
        name: &str,
        nothing: &str,
        next_cursor: Option<String>,
        bounds: Value,
    ) -> Answer {
        let truncated = next_cursor.is_some() || self.left_out;
        let text = if self.rows.is_empty() { nothing.to_owned() } else { self.text };
        let mut structured = json!({name: self.rows, "truncated": truncated});
        if let Some(cursor) = next_cursor {
            structured["next_cursor"] = cursor.into();
        }
        if truncated {
            structured["bounds"] = bounds;
        }
        Answer { touched: self.touched, ..Answer::plain(structured, text) }
    }
}

/// Visits the items after the cursor's position until `take` returns `Full` or [`ITEMS_MAX`] items were visited.
/// Returns the cursor of the next page, or `None` at the end.
///
/// # Errors
/// Returns the errors of `take`, and an error if the store is damaged, the cursor belongs to another list, or the call
/// is over.
pub(super) fn walk(
    snapshot: &Snapshot,
    paging: &Paging,
    filter: &Filter,
    mut take: impl FnMut(RowAddress) -> Result<Step, ServiceError>,
) -> Result<Option<String>, ServiceError> {
    let (items, mut has_more) = next_items(snapshot, paging, filter, ITEMS_MAX)?;
    let mut last: Option<Turn> = None;
    for (turn, place) in items {
        snapshot.check_cancelled()?;
        if take(place)? == Step::Full {
            has_more = true;
            break;
        }
        last = Some(turn);
    }
    Ok(last.filter(|_| has_more).map(|turn| paging.cursor(&turn)))
}

/// Next items after the cursor's position that the filter admits and whose text the caller may read. Returns at most
/// `count`, and true if there are more.
///
/// # Errors
/// Returns an error if the store is damaged, the cursor belongs to another list, or the call is over.
fn next_items(
    snapshot: &Snapshot,
    paging: &Paging,
    filter: &Filter,
    count: usize,
) -> Result<(Vec<(Turn, RowAddress)>, bool), ServiceError> {
    let after = match paging.after::<Turn>()? {
        Some((at, id)) => Some((Micros(at), id.parse::<ItemId>().map_err(|_| not_ours())?)),
        None => None,
    };
    let mut top: TopK<Micros, Reverse<(ItemId, RowAddress)>> = TopK::new(count + 1);
    snapshot.for_each_admitted(filter, |at, place| {
        // A list may name redacted items, but here only readable text can be compared.
        if filter.mask.as_ref().is_some_and(|hidden| snapshot.is_masked(hidden, place)) {
            return Ok(());
        }
        let key = Reverse((snapshot.id(place)?, place));
        if after.is_none_or(|after| comes_behind((at, key.0.0), after))
            && top.would_accept(at, &key)
        {
            top.offer(at, key);
        }
        Ok::<(), ServiceError>(())
    })?;
    let mut found: Vec<(Turn, RowAddress)> = top
        .into_sorted()
        .into_iter()
        .map(|(at, Reverse((id, place)))| ((at.0, id.to_string()), place))
        .collect();
    let has_more = found.len() > count;
    found.truncate(count);
    Ok((found, has_more))
}

/// Returns true if `one` comes after `other`: `one` is older, or equally old with a smaller id.
pub(super) fn comes_behind(one: (Micros, ItemId), other: (Micros, ItemId)) -> bool {
    one < other
}
