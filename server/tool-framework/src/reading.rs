//! Items that an argument names: found, and shown as far as policy lets them be.

use engine::ledger::{Effect, Touched};
use engine::{ItemId, ItemView, Place, Snapshot, Status};
use serde_json::{Map, Value, json};

use super::answer::touched;
use super::context::Context;
use crate::error::ServiceError;
use recalld_common::names;
use recalld_policy::{Action, Verdict};

/// What a caller is told of an item that is not there, be it for policy.
pub const NO_SUCH_ITEM: &str = "there is no such item";

/// The item of an id that an argument gave: one that is not tombstoned, and that the caller may know.
///
/// # Errors
/// It is not there, was erased, or policy denies it.
pub fn find<'s>(
    context: &Context<'_>,
    snapshot: &'s Snapshot,
    field: &'static str,
    id: ItemId,
) -> Result<(Place, ItemView<'s>), ServiceError> {
    let (place, item) = written(snapshot, field, id)?;
    may_know(context, field, &item)?;
    Ok((place, item))
}

/// The item that this call wrote, or an earlier one with its key: to whoever wrote it, it is there, even where policy
/// lets them read nothing of it.
///
/// # Errors
/// It was tombstoned or erased since.
pub fn written<'s>(
    snapshot: &'s Snapshot,
    field: &'static str,
    id: ItemId,
) -> Result<(Place, ItemView<'s>), ServiceError> {
    match snapshot.find(id)? {
        Some(place) if snapshot.status(place)? != Status::Tombstoned => {
            Ok((place, snapshot.item(place)?))
        }
        _ => Err(gone(snapshot, field, id)?),
    }
}

/// The error of an id that names nothing that is there. Of one that is hidden it is not told that it was there.
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

/// To someone who may not know of an item, it is not there.
///
/// # Errors
/// Policy denies it.
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

/// Leaves as much of an item's text in its fields as an answer about it has room for, and says so where that is not
/// all: who wrote it has the rest, and an export gives it.
pub fn cut_text(item: &mut Map<String, Value>, bytes_max: usize) {
    let Some(Value::String(text)) = item.get_mut("text") else { return };
    let end = text.floor_char_boundary(bytes_max);
    if end < text.len() {
        text.truncate(end);
        item.insert("truncated".to_owned(), true.into());
    }
}

/// What became of an item that is shown as policy lets it be.
pub fn seen(id: ItemId, verdict: Verdict) -> Touched {
    touched(if verdict == Verdict::Allow { Effect::Read } else { Effect::Redacted }, id)
}

/// The same of an item of which [`brief`] tells.
///
/// # Errors
/// Damage.
pub fn seen_at(
    context: &Context<'_>,
    snapshot: &Snapshot,
    place: Place,
) -> Result<Touched, ServiceError> {
    let item = snapshot.item(place)?;
    Ok(seen(item.id, context.judge(&item, Action::Read).0))
}

/// An item in a list: `{id, kind, title, status, recorded_at}`, its title as far as policy shows it.
///
/// # Errors
/// Damage.
pub fn brief(
    context: &Context<'_>,
    snapshot: &Snapshot,
    place: Place,
) -> Result<Value, ServiceError> {
    let item = snapshot.item(place)?;
    let verdict = context.judge(&item, Action::Read).0;
    Ok(json!({
        "id": names::of_item(&item), "kind": item.kind,
        "title": recalld_recall::show::title(&item, verdict),
        "status": snapshot.status(place)?.name(), "recorded_at": names::time(item.recorded_at),
    }))
}
