//! Lookup of items named by an argument, shown as far as policy allows.

use engine::ledger::{Effect, TouchedItem};
use engine::{ItemId, ItemView, RowAddress, Snapshot, Status};
use serde::Serialize;

use super::answer::touched;
use crate::error::ServiceError;
use recalld_common::names;
use recalld_policy::{Action, Verdict};
use recalld_recall::show::ItemFacts;
use recalld_recall::{AccessView, show};

/// Message for a missing item and for an item that policy hides.
pub const NO_SUCH_ITEM: &str = "there is no such item";

/// Finds an item by id. The item must not be tombstoned, and the caller must be allowed to know of the item.
///
/// # Errors
/// Returns an error if the item is missing or erased, or policy denies it.
pub fn find<'s>(
    snapshot: &'s AccessView<'_>,
    field: &'static str,
    id: ItemId,
) -> Result<(RowAddress, ItemView<'s>), ServiceError> {
    let (place, item) = written(snapshot, field, id)?;
    may_know(snapshot, field, &item)?;
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
    snapshot: &AccessView<'_>,
    field: &'static str,
    item: &ItemView<'_>,
) -> Result<Verdict, ServiceError> {
    let (verdict, rule) = snapshot.judge(item, Action::Read);
    if verdict != Verdict::Deny {
        return Ok(verdict);
    }
    let why = NO_SUCH_ITEM.to_owned();
    Err(ServiceError::Denied { field, why, item: item.id, rule: rule.to_string() })
}

/// Facts of an item, with at most the beginning of its text.
#[derive(Debug, Serialize)]
pub struct CutFacts<'s> {
    /// The facts; their text is truncated.
    #[serde(flatten)]
    pub facts: ItemFacts<'s>,
    /// `Some(true)` if there is more text.
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
}

impl<'s> CutFacts<'s> {
    /// Collects the facts of an item, with at most `bytes_max` bytes of its text.
    ///
    /// # Errors
    /// Returns an error if the store is damaged.
    pub fn of(
        snapshot: &'s AccessView<'_>,
        (place, verdict): (RowAddress, Verdict),
        bytes_max: usize,
    ) -> Result<Self, ServiceError> {
        let mut facts = ItemFacts::of(snapshot, place, verdict)?;
        let truncated = facts.cut_text(bytes_max).then_some(true);
        Ok(Self { facts, truncated })
    }
}

/// The effect of showing an item under `verdict`: read or redacted.
pub fn seen(id: ItemId, verdict: Verdict) -> TouchedItem {
    touched(if verdict == Verdict::Allow { Effect::Read } else { Effect::Redacted }, id)
}

/// The effect of showing an item by [`ItemSummary`].
///
/// # Errors
/// Returns an error if the store is damaged.
pub fn seen_at(snapshot: &AccessView<'_>, place: RowAddress) -> Result<TouchedItem, ServiceError> {
    let item = snapshot.item(place)?;
    Ok(seen(item.id, snapshot.judge(&item, Action::Read).0))
}

/// Summary of an item for lists.
#[derive(Debug, Serialize)]
pub struct ItemSummary<'s> {
    /// Id in wire form.
    pub id: String,
    kind: &'s str,
    /// The title as far as policy shows it.
    pub title: &'s str,
    status: &'static str,
    recorded_at: String,
}

impl<'s> ItemSummary<'s> {
    /// Summarizes the item at `place`.
    ///
    /// # Errors
    /// Returns an error if the store is damaged.
    pub fn of(snapshot: &'s AccessView<'_>, place: RowAddress) -> Result<Self, ServiceError> {
        let item = snapshot.item(place)?;
        let verdict = snapshot.judge(&item, Action::Read).0;
        Ok(Self {
            id: names::of_item(&item),
            kind: item.kind,
            title: show::title(&item, verdict),
            status: snapshot.status(place)?.name(),
            recorded_at: names::time(item.recorded_at),
        })
    }
}
