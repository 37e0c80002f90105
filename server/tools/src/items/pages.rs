//! The whole store in pages of a few items, newest first: for tools that look at every item and hold it against
//! others.
//!
//! Owns the order, its cursor and how a page ends. Knows nothing of what is looked for.

use std::cmp::Reverse;

use engine::ledger::Touched;
use engine::{Filter, ItemId, Micros, Place, Snapshot, Top};
use serde_json::{Value, json};

use recalld_tool_framework::paging::{Paging, not_ours};
use recalld_tool_framework::{Answer, ServiceError};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Items of a page that are held against others.
    pub(super) const ITEMS_MAX: usize = 64;
}

/// Where an item is in the order: when it was recorded, in microseconds since 1970, and its id.
type Turn = (i64, String);

/// What became of an item of the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It is told, or there is nothing to tell of it.
    Taken,
    /// The page has no room for what is to be told of it: it is the first of the next one.
    Full,
}

/// What a page has found, and is to be told.
#[derive(Default)]
pub(super) struct Page {
    pub rows: Vec<Value>,
    pub(super) text: String,
    pub(super) touched: Vec<Touched>,
    /// Whether more was found of an item than is told.
    pub(super) left_out: bool,
}

impl Page {
    /// The answer: rows under their name, or in words that nothing was found; the bounds where one was met.
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

/// Goes on behind the cursor's place, item by item, until `take` says that the page is full or [`ITEMS_MAX`] were
/// looked at. Gives the cursor of the next page, where there is one.
///
/// # Errors
/// Those of `take`; damage, a cursor of another list, or the call is over.
pub(super) fn walk(
    snapshot: &Snapshot,
    paging: &Paging,
    filter: &Filter,
    mut take: impl FnMut(Place) -> Result<Step, ServiceError>,
) -> Result<Option<String>, ServiceError> {
    let (items, mut has_more) = next_items(snapshot, paging, filter, ITEMS_MAX)?;
    let mut last: Option<Turn> = None;
    for (turn, place) in items {
        snapshot.check()?;
        if take(place)? == Step::Full {
            has_more = true;
            break;
        }
        last = Some(turn);
    }
    Ok(last.filter(|_| has_more).map(|turn| paging.cursor(&turn)))
}

/// The next items behind the cursor's place that a filter admits and whose text the caller may read, at most
/// `count`, and whether there are more.
///
/// # Errors
/// Damage, a cursor of another list, or the call is over.
fn next_items(
    snapshot: &Snapshot,
    paging: &Paging,
    filter: &Filter,
    count: usize,
) -> Result<(Vec<(Turn, Place)>, bool), ServiceError> {
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
        Ok::<(), ServiceError>(())
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
