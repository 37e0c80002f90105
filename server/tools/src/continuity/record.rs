//! Shared parts of the family's records (format-spec/records.md): the subject item, and the JSON form.
//!
//! A record about an item is at least as restricted as that item: it has all gates of the item, and at least its
//! sensitivity.

use engine::{ItemDraft, ItemId, ItemView, RowAddress, Sensitivity, Snapshot, Status};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::recall::arbitrate::grounding_token;
use recalld_common::names;
use recalld_policy::{Action, Verdict};
use recalld_recall::AccessView;
use recalld_tool_framework::args::Id;
use recalld_tool_framework::reading::{CutFacts, find, seen};
use recalld_tool_framework::writing::StoredId;
use recalld_tool_framework::{Answer, ServiceError, ToolContext};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum bytes of a written text in an answer; an answer may contain two such texts and their subject.
    pub(super) const SHOWN_TEXT_BYTES_MAX: usize = 20 << 10;
}

/// Relation from a record to its subject item.
pub(super) const ABOUT: &str = "about";

/// Subject item of a record.
pub(super) struct About {
    pub(super) id: ItemId,
    /// Item id in wire form.
    pub(super) name: String,
    pub(super) sensitivity: Sensitivity,
    pub(super) gates: Vec<String>,
}

impl About {
    /// The subject named by an argument; `None` if the argument is omitted.
    ///
    /// # Errors
    /// Returns an error if the caller can know of no such item.
    pub(super) fn find(
        snapshot: &AccessView<'_>,
        given: Option<&Id>,
    ) -> Result<Option<Self>, ServiceError> {
        let Some(&Id(id)) = given else { return Ok(None) };
        let (_, item) = find(snapshot, "item_id", id)?;
        Ok(Some(Self::of(&item)))
    }

    pub(super) fn of(item: &ItemView<'_>) -> Self {
        let gates = item.gates.iter().map(|&gate| gate.to_owned()).collect();
        let name = names::of_item(item);
        Self { id: item.id, name, sensitivity: item.sensitivity, gates }
    }

    /// Restricts a record to the readers of its subject, because the record may disclose the subject's content.
    pub(super) fn cover(&self, record: &mut ItemDraft) {
        record.sensitivity = record.sensitivity.max(self.sensitivity);
        let new = self.gates.iter().filter(|gate| !record.gates.contains(gate)).cloned();
        record.gates.extend(new.collect::<Vec<_>>());
    }
}

/// An item that a call wrote, as policy shows it.
#[derive(Debug, Serialize)]
pub(super) struct RecordFacts<'s> {
    #[serde(flatten)]
    item: CutFacts<'s>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<Map<String, Value>>,
    grounding_token: String,
}

impl<'s> RecordFacts<'s> {
    /// Collects the facts of a written item, and records in the answer that they are shown.
    pub(super) fn of(
        context: &ToolContext<'_>,
        snapshot: &'s AccessView<'_>,
        id: &StoredId,
        answer: &mut Answer,
    ) -> Result<Self, ServiceError> {
        let (place, item) = id.find(snapshot)?;
        let verdict = snapshot.judge(&item, Action::Read).0;
        answer.touched.push(seen(item.id, verdict));
        let mut attributes = None;
        if verdict == Verdict::Allow {
            let attributes =
                attributes.insert(serde_json::from_str(item.attributes).unwrap_or_default());
            keep_known_about(snapshot, attributes)?;
        }
        Ok(Self {
            item: CutFacts::of(snapshot, (place, verdict), SHOWN_TEXT_BYTES_MAX)?,
            attributes,
            grounding_token: grounding_token(context, &item, verdict),
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.item.facts.id
    }

    pub(super) fn title(&self) -> &'s str {
        self.item.facts.title
    }
}

/// Removes the subject item from attributes if the caller may not know of the item.
pub(super) fn keep_known_about(
    snapshot: &AccessView<'_>,
    attributes: &mut Map<String, Value>,
) -> Result<(), ServiceError> {
    let Some(about) = attributes.get(ABOUT) else { return Ok(()) };
    if standing(snapshot, about.as_str().unwrap_or_default())?
        .is_none_or(|(_, item)| !snapshot.may_know(&item))
    {
        attributes.remove(ABOUT);
    }
    Ok(())
}

/// The live item with a stored id; `None` if the item is tombstoned or missing.
pub(super) fn standing<'s>(
    snapshot: &'s Snapshot,
    name: &str,
) -> Result<Option<(RowAddress, ItemView<'s>)>, ServiceError> {
    let Ok(id) = names::parse_item(name) else { return Ok(None) };
    let Some(place) = snapshot.find(id)? else { return Ok(None) };
    if snapshot.status(place)? == Status::Tombstoned {
        return Ok(None);
    }
    Ok(Some((place, snapshot.item(place)?)))
}
