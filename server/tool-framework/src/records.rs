//! Stateful records, whose state moves by supersession: follow-ups, task attempts, artifacts, agents' state.
//!
//! Defines how a record is found, moved and listed (format-spec/records.md). The families define the meaning of the
//! attributes.

use std::cmp::Reverse;

use engine::{Filter, ItemDraft, ItemId, ItemView, Micros, RowAddress, Snapshot, TopK};
use serde_json::{Map, Value};

use super::paging::{Paging, ROWS_MAX, not_ours};
use super::reading::find;
use crate::error::ServiceError;
use recalld_common::names;
use recalld_policy::{Action, Verdict};
use recalld_recall::AccessView;
use recalld_recall::show::OWN_REFS;

/// Kind of an operator's intent.
pub const INTENT: &str = "intent";
/// Kind of a correction: the error, and the right statement.
pub const CORRECTION: &str = "correction";
/// Relation from a correction to the item that it corrects.
pub const CORRECTS: &str = "corrects";
/// Kind of a recorded outcome.
pub const OUTCOME: &str = "outcome";
/// Attribute with the id of a record's first version, for records whose ref does not contain that id.
pub const FIRST: &str = "first";

/// A version of a record.
pub struct Record<'s> {
    /// Id of the first version, which identifies the record.
    pub id: ItemId,
    /// Row address of this version.
    pub place: RowAddress,
    /// The item of this version.
    pub item: ItemView<'s>,
    /// Attributes of this version.
    pub attributes: Map<String, Value>,
}

impl<'s> Record<'s> {
    /// Loads the record of which the item at `place` is a version.
    pub fn of(snapshot: &'s Snapshot, place: RowAddress) -> Result<Self, ServiceError> {
        let item = snapshot.item(place)?;
        let attributes: Map<String, Value> =
            serde_json::from_str(item.attributes).unwrap_or_default();
        let named = attributes.get(FIRST).and_then(Value::as_str);
        let named = || named.and_then(|name| names::parse_item(name).ok());
        let first = item.reference.and_then(|reference| first_of(item.kind, reference));
        let first = first.or_else(named);
        Ok(Self { id: first.unwrap_or(item.id), place, attributes, item })
    }

    /// Record id in wire form.
    pub fn name(&self) -> String {
        names::item(self.item.kind, self.id)
    }

    /// Policy verdict on reading this version.
    pub fn verdict(&self, snapshot: &AccessView<'_>) -> Verdict {
        snapshot.judge(&self.item, Action::Read).0
    }

    /// Returns true if the caller may read the content of this version.
    pub fn is_open(&self, snapshot: &AccessView<'_>) -> bool {
        self.verdict(snapshot) == Verdict::Allow
    }

    /// An attribute; `None` if missing or null.
    pub fn attribute(&self, name: &str) -> Option<&Value> {
        self.attributes.get(name).filter(|value| !value.is_null())
    }

    /// A text attribute; empty if missing.
    pub fn text(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).and_then(Value::as_str).unwrap_or_default()
    }

    /// A time attribute; `None` if missing or malformed.
    pub fn time(&self, attribute: &str) -> Option<Micros> {
        names::parse_time(self.text(attribute)).ok()
    }

    /// Draft of the next version with new attributes. Ref, source, sensitivity, tags, gates, title and text are copied.
    pub fn next(&self, attributes: Map<String, Value>) -> ItemDraft {
        ItemDraft {
            reference: self.item.reference.map(str::to_owned),
            supersedes: vec![self.item.id],
            source: self.item.source,
            sensitivity: self.item.sensitivity,
            tags: self.item.tags.iter().map(|&tag| tag.to_owned()).collect(),
            gates: self.item.gates.iter().map(|&gate| gate.to_owned()).collect(),
            title: self.item.title.to_owned(),
            text: self.item.text.to_owned(),
            ..draft(self.item.kind, self.id, attributes)
        }
    }
}

/// Draft of a version of the record whose first version has the id `first` (REC-03).
pub fn draft(kind: &str, first: ItemId, attributes: Map<String, Value>) -> ItemDraft {
    ItemDraft {
        reference: Some(reference(kind, &first.to_string())),
        kind: kind.to_owned(),
        attributes: Value::Object(attributes).to_string(),
        searchable: true,
        ..ItemDraft::default()
    }
}

/// The ref shared by all versions of a record.
pub fn reference(kind: &str, name: &str) -> String {
    format!("{OWN_REFS}{kind}:{name}")
}

fn first_of(kind: &str, reference: &str) -> Option<ItemId> {
    reference.strip_prefix(OWN_REFS)?.strip_prefix(kind)?.strip_prefix(':')?.parse().ok()
}

/// Finds the current version of a record by the id of any of its versions.
///
/// # Errors
/// Returns an error if the caller can know of no record of this kind with the id.
pub fn current<'s>(
    snapshot: &'s AccessView<'_>,
    kind: &'static str,
    field: &'static str,
    id: ItemId,
) -> Result<Record<'s>, ServiceError> {
    let (place, item) = find(snapshot, field, id)?;
    if item.kind != kind {
        let why = format!("is the id of a {}; that of a {kind} is wanted", item.kind);
        return Err(ServiceError::argument(field, why));
    }
    let newest = match item.reference {
        Some(reference) => snapshot.find_ref(reference)?.unwrap_or(place),
        None => place,
    };
    if newest == place {
        return Record::of(snapshot, place);
    }
    let (place, _) = find(snapshot, field, snapshot.id(newest)?)?;
    Record::of(snapshot, place)
}

/// Versions of a record that the caller may know, oldest first, and true if there may be more.
///
/// # Errors
/// Returns an error if the store is damaged.
pub fn versions<'s>(
    snapshot: &'s AccessView<'_>,
    record: &Record<'_>,
) -> Result<(Vec<Record<'s>>, bool), ServiceError> {
    let chain = snapshot.chain(record.item.id)?;
    let mut versions = Vec::with_capacity(chain.members.len());
    for member in &chain.members {
        let Some(place) = member.address else { continue };
        let version = Record::of(snapshot, place)?;
        if version.id == record.id && snapshot.may_know(&version.item) {
            versions.push(version);
        }
    }
    Ok((versions, chain.truncated))
}

/// Sort key of a newest-first list: recording time in microseconds since 1970, and the item id.
pub type Recency = (i64, String);

/// Items of one page of a newest-first list, plus one more if the list continues. Selects items of `kinds` that `wants`
/// accepts and policy does not hide. If `current_only` is set, superseded items are skipped.
///
/// # Errors
/// Returns an error if the store is damaged, the cursor belongs to another list, or the call is over.
pub fn newest(
    snapshot: &AccessView<'_>,
    paging: &Paging,
    (kinds, current_only): (&[&str], bool),
    mut wants: impl FnMut(RowAddress) -> Result<bool, ServiceError>,
) -> Result<Vec<(Recency, RowAddress)>, ServiceError> {
    let filter = Filter {
        kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(),
        current_only,
        mask: snapshot.hidden()?,
        include_unsearchable: true,
        ..Filter::default()
    };
    let after = match paging.after::<Recency>()? {
        Some((at, id)) => Some((Micros(at), id.parse::<ItemId>().map_err(|_| not_ours())?)),
        None => None,
    };
    let mut top: TopK<Micros, Reverse<(ItemId, RowAddress)>> = TopK::new(ROWS_MAX + 1);
    snapshot.for_each_admitted(&filter, |at, place| {
        let key = Reverse((snapshot.id(place)?, place));
        let is_later = after.is_none_or(|after| (at, key.0.0) < after);
        if is_later && top.would_accept(at, &key) && wants(place)? {
            top.offer(at, key);
        }
        Ok::<(), ServiceError>(())
    })?;
    let listed = top.into_sorted().into_iter();
    Ok(listed.map(|(at, Reverse((id, place)))| ((at.0, id.to_string()), place)).collect())
}
