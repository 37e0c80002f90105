//! Lookup of items named by an argument, shown as far as policy allows.

use engine::ledger::{Effect, TouchedItem};
use engine::{ItemId, ItemView, RowAddress, Snapshot, Status};
use serde_json::{Map, Value, json};

use super::answer::touched;
use super::context::Context;
use crate::error::ServiceError;
use recalld_common::names;
use recalld_policy::{Action, Verdict};

/// Message for a missing item and for an item that policy hides.
pub const NO_SUCH_ITEM: &str = "there is no such item";

/// Finds an item by id. The item must not be tombstoned, and the caller must be allowed to know of the item.
///
/// # Errors
/// Returns an error if the item is missing or erased, or policy denies it.
pub fn find<'s>(
    context: &Context<'_>,
    snapshot: &'s Snapshot,
    field: &'static str,
    id: ItemId,
) -> Result<(RowAddress, ItemView<'s>), ServiceError> {
    let (place, item) = written(snapshot, field, id)?;
    may_know(context, field, &item)?;
    Ok((place, item))
}

/// Finds an item that this call wrote, or an earlier call with its idempotency key. Policy is not checked: the writer
/// may know that the item exists even if policy hides its content.
///
/// # Errors
/// Returns an error if the item has been tombstoned or erased since.
pub fn written<'s>(
    snapshot: &'s Snapshot,
    field: &'static str,
    id: ItemId,
) -> Result<(RowAddress, ItemView<'s>), ServiceError> {
    match snapshot.find(id)? {
        Some(place) if snapshot.status(place)? != Status::Tombstoned => {
            Ok((place, snapshot.item(place)?))
        }
        _ => Err(gone(snapshot, field, id)?),
    }
}

/// Error for an id without a live item. A hidden item is reported as "no such item", so its existence does not leak.
fn gone(
    snapshot: &Snapshot,
    field: &'static str,
    id: ItemId,
) -> Result<ServiceError, ServiceError> {
    let stones = snapshot.tombstones(id.0)?;
    let why = match stones.iter().rfind(|stone| stone.erase) {
        Some(stone) => format!("it was erased at {}", names::time(stone.at)),
        None => NO_SUCH_ITEM.to_owned(),
    };
    Ok(ServiceError::Missing { field, why })
}

/// Fails with the "no such item" error if policy denies the item; otherwise returns the verdict.
///
/// # Errors
/// Returns an error if policy denies the item.
pub fn may_know(
    context: &Context<'_>,
    field: &'static str,
    item: &ItemView<'_>,
) -> Result<Verdict, ServiceError> {
    let (verdict, rule) = context.judge(item, Action::Read);
    if verdict != Verdict::Deny {
        return Ok(verdict);
    }
    let why = NO_SUCH_ITEM.to_owned();
    Err(ServiceError::Denied { field, why, item: item.id, rule: rule.to_string() })
}

/// Truncates the field `text` to `bytes_max` bytes and sets `truncated`. The full text remains with its author and in
/// exports.
pub fn cut_text(item: &mut Map<String, Value>, bytes_max: usize) {
    let Some(Value::String(text)) = item.get_mut("text") else { return };
    let end = text.floor_char_boundary(bytes_max);
    if end < text.len() {
        text.truncate(end);
        item.insert("truncated".to_owned(), true.into());
    }
}

/// The effect of showing an item under `verdict`: read or redacted.
pub fn seen(id: ItemId, verdict: Verdict) -> TouchedItem {
    touched(if verdict == Verdict::Allow { Effect::Read } else { Effect::Redacted }, id)
}

/// The effect of showing an item by [`brief`].
///
/// # Errors
/// Returns an error if the store is damaged.
pub fn seen_at(
    context: &Context<'_>,
    snapshot: &Snapshot,
    place: RowAddress,
) -> Result<TouchedItem, ServiceError> {
    let item = snapshot.item(place)?;
    Ok(seen(item.id, context.judge(&item, Action::Read).0))
}

/// Summary of an item for lists: `{id, kind, title, status, recorded_at}`. Policy decides how much of the title is
/// shown.
///
/// # Errors
/// Returns an error if the store is damaged.
pub fn brief(
    context: &Context<'_>,
    snapshot: &Snapshot,
    place: RowAddress,
) -> Result<Value, ServiceError> {
    let item = snapshot.item(place)?;
    let verdict = context.judge(&item, Action::Read).0;
    Ok(json!({
        "id": names::of_item(&item), "kind": item.kind,
        "title": recalld_recall::show::title(&item, verdict),
        "status": snapshot.status(place)?.name(), "recorded_at": names::time(item.recorded_at),
    }))
}
