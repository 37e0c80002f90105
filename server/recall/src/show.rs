//! Recalled items as JSON: one shape for every surface.

use engine::{Damage, ItemId, ItemView, Place, Snapshot, Span, Status, hex};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::recalled::{NeighbourAt, Recalled};
use crate::room::Room;
use recalld_common::names;
use recalld_policy::Verdict;

/// What stands in place of a redacted text.
pub const REDACTED: &str = "[redacted by policy]";

/// Begins the refs that the service gives its own records, which are nothing for callers (REC-07).
pub const OWN_REFS: &str = "recalld:";

/// Whether the caller may know that an item is there.
pub type Knows<'a> = &'a dyn Fn(&ItemView<'_>) -> bool;

/// An item's fields as `POST /recall` gives them, without its score. Others are named in them where
/// they are not tombstoned and the caller `knows` them.
///
/// # Errors
/// Damage.
pub fn seed(
    snapshot: &Snapshot,
    place: Place,
    verdict: Verdict,
    knows: Knows<'_>,
) -> Result<Map<String, Value>, Damage> {
    fields(snapshot, (place, verdict), None, knows)
}

/// The same of an item that was recalled.
pub fn recalled(
    snapshot: &Snapshot,
    found: &Recalled,
    knows: Knows<'_>,
) -> Result<Map<String, Value>, Damage> {
    fields(snapshot, (found.place, found.verdict), Some(&found.standing), knows)
}

/// Both. `standing` is what stands in place of the item, where that is known.
fn fields(
    snapshot: &Snapshot,
    (place, verdict): (Place, Verdict),
    standing: Option<&[Place]>,
    knows: Knows<'_>,
) -> Result<Map<String, Value>, Damage> {
    let item = snapshot.item(place)?;
    let redacted = verdict != Verdict::Allow;
    let mut shown = Map::new();
    shown.insert("id".into(), names::of_item(&item).into());
    if let Some(reference) = item.reference.filter(|reference| !reference.starts_with(OWN_REFS)) {
        shown.insert("ref".into(), reference.into());
    }
    shown.insert("kind".into(), item.kind.into());
    shown.insert("title".into(), title(&item, verdict).into());
    shown.insert("text".into(), if redacted { REDACTED } else { item.text }.into());
    shown.insert("modality".into(), item.modality.into());
    shown.insert("tags".into(), if redacted { json!([]) } else { json!(item.tags) });
    shown.insert("status".into(), snapshot.status(place)?.name().into());
    let mut erased = Vec::new();
    let newer = match snapshot.status(place)? {
        Status::Superseded => superseded_by(snapshot, &item, standing, (knows, &mut erased))?,
        _ => Value::Null,
    };
    let older = supersedes(snapshot, &item, (knows, &mut erased))?;
    shown.insert("superseded_by".into(), newer);
    shown.insert("supersedes".into(), older);
    if !erased.is_empty() {
        shown.insert("erased".into(), erased.into());
    }
    shown.insert("source".into(), source(snapshot, &item)?);
    shown.insert("provenance".into(), provenance(&item));
    shown.insert("validity".into(), validity(&item));
    shown.insert("policy".into(), policy(&item));
    shown.insert("content_sha256".into(), hex(&content_sha256(&item, verdict)).into());
    Ok(shown)
}

/// An item's title as it is shown.
pub fn title<'a>(item: &ItemView<'a>, verdict: Verdict) -> &'a str {
    if verdict == Verdict::Allow { item.title } else { REDACTED }
}

/// A title, unless the text begins with it and so says it again.
pub fn title_beyond<'a>(title: &'a str, text: &str) -> &'a str {
    if text.trim_start().starts_with(title) { "" } else { title }
}

/// The SHA-256 of an item's text as it is shown. That of a hidden text would tell whoever guesses it
/// that the guess is right.
pub fn content_sha256(item: &ItemView<'_>, verdict: Verdict) -> [u8; 32] {
    match verdict {
        Verdict::Allow => item.content_sha256,
        _ => Sha256::digest(REDACTED).into(),
    }
}

/// The newest of the items that stand in its place now, else the newest that directly replaces it;
/// else the one that did and was erased last, which is added to `erased`.
fn superseded_by(
    snapshot: &Snapshot,
    item: &ItemView<'_>,
    standing: Option<&[Place]>,
    (knows, erased): (Knows<'_>, &mut Vec<Value>),
) -> Result<Value, Damage> {
    let standing = match standing {
        Some(known) => known.to_vec(),
        None => snapshot.current_successors(item.id)?.places,
    };
    let direct = snapshot.direct_successors(item.id)?;
    for newest in standing.into_iter().rev().chain(direct.into_iter().rev()) {
        if let Some(name) = name_of(snapshot, newest, knows)? {
            return Ok(name.into());
        }
    }
    match snapshot.erased_successors(item.id)?.last() {
        Some(&gone) => erased_name(snapshot, gone, erased),
        None => Ok(Value::Null),
    }
}

/// What it replaces; of that what was erased is added to `erased`.
fn supersedes(
    snapshot: &Snapshot,
    item: &ItemView<'_>,
    (knows, erased): (Knows<'_>, &mut Vec<Value>),
) -> Result<Value, Damage> {
    let mut ids = Vec::with_capacity(item.supersedes.len());
    for &id in &item.supersedes {
        match snapshot.find(id)? {
            Some(place) => ids.extend(name_of(snapshot, place, knows)?.map(Value::from)),
            None if snapshot.is_erased(id.0)? => ids.push(erased_name(snapshot, id, erased)?),
            None => {}
        }
    }
    Ok(Value::Array(ids))
}

/// The id of another item, if it may be named.
fn name_of(snapshot: &Snapshot, place: Place, knows: Knows<'_>) -> Result<Option<String>, Damage> {
    if snapshot.status(place)? == Status::Tombstoned {
        return Ok(None);
    }
    let item = snapshot.item(place)?;
    Ok(knows(&item).then(|| names::of_item(&item)))
}

/// All that is left of an erased item: its id, and when it was erased.
fn erased_name(snapshot: &Snapshot, id: ItemId, erased: &mut Vec<Value>) -> Result<Value, Damage> {
    let name = names::item("", id);
    let stones = snapshot.tombstones(id.0)?;
    let at = stones.iter().rfind(|stone| stone.erase).map(|stone| names::time(stone.at));
    erased.push(json!({"id": name, "erased_at": at}));
    Ok(name.into())
}

/// `{id, kind, uri}`, or null for an item that nobody read from anywhere.
///
/// # Errors
/// Damage.
pub fn source(snapshot: &Snapshot, item: &ItemView<'_>) -> Result<Value, Damage> {
    let Some(id) = item.source else { return Ok(Value::Null) };
    let Some(source) = snapshot.source(id)? else { return Ok(Value::Null) };
    Ok(json!({"id": names::source(id), "kind": source.kind, "uri": source.uri}))
}

/// `{recorded_at, by, via, span}`.
pub fn provenance(item: &ItemView<'_>) -> Value {
    json!({
        "recorded_at": names::time(item.recorded_at),
        "by": item.recorded_by,
        "via": item.via,
        "span": item.span.map(span),
    })
}

fn span(span: Span) -> Value {
    json!({
        "byte_start": span.byte_start, "byte_end": span.byte_end,
        "line_start": span.line_start, "line_end": span.line_end,
    })
}

fn validity(item: &ItemView<'_>) -> Value {
    json!({"from": item.valid_from.map(names::time), "to": item.valid_to.map(names::time)})
}

fn policy(item: &ItemView<'_>) -> Value {
    json!({"sensitivity": item.sensitivity.name(), "gates": item.gates})
}

/// A score, to six decimals.
pub fn score(score: f32) -> Value {
    json!((f64::from(score) * 1e6).round() / 1e6)
}

/// A seed's neighbours, as far as there is room.
///
/// # Errors
/// Damage.
pub fn neighbours(
    snapshot: &Snapshot,
    found: &[NeighbourAt],
    knows: Knows<'_>,
    room: &mut Room,
) -> Result<Value, Damage> {
    let mut shown = Vec::with_capacity(found.len());
    for (at, neighbour) in found.iter().enumerate() {
        if room.is_over() {
            room.leave_out(found.len() - at);
            break;
        }
        let neighbour = json!({
            "edge_id": names::edge(neighbour.edge),
            "relation": neighbour.relation,
            "direction": neighbour.direction.name(),
            "weight": score(neighbour.weight),
            "item": seed(snapshot, neighbour.place, Verdict::Allow, knows)?,
        });
        if room.takes(&neighbour) {
            shown.push(neighbour);
        }
    }
    Ok(Value::Array(shown))
}
