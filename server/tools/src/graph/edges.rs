//! Edge filters, and the facts of an edge.

use engine::{CorruptionError, EdgeFilter, EdgeView, ItemId, Snapshot};
use serde::Serialize;
use serde_json::Value;

use recalld_common::names;
use recalld_recall::{AccessView, show};
use recalld_tool_framework::ServiceError;
use recalld_tool_framework::args::{List, Text};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum characters of a relation.
    pub(super) const RELATION_CHARS_MAX: usize = 64;
}

/// Argument that restricts a graph query to some relations.
pub(super) type Relations = Option<List<Text<1, RELATION_CHARS_MAX>, 1, 32>>;

/// Filter for edges of these relations to items that the caller may know.
pub(super) fn which(
    snapshot: &AccessView<'_>,
    relations: Relations,
) -> Result<EdgeFilter, ServiceError> {
    let relations = relations.into_iter().flat_map(|relations| relations.0);
    Ok(EdgeFilter {
        relations: relations.map(|relation| relation.0).collect(),
        mask: snapshot.hidden()?,
        ..EdgeFilter::default()
    })
}

/// An edge in an answer.
#[derive(Debug, Serialize)]
pub(super) struct EdgeFacts<'s> {
    pub(super) edge_id: String,
    pub(super) from_id: String,
    pub(super) to_id: String,
    pub(super) relation: &'s str,
    weight: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'s str>,
    recorded_at: String,
    by: &'s str,
    status: &'static str,
}

impl<'s> EdgeFacts<'s> {
    pub(super) fn of(
        snapshot: &Snapshot,
        edge: &EdgeView<'s>,
        status: &'static str,
    ) -> Result<Self, CorruptionError> {
        Ok(Self {
            edge_id: names::edge(edge.id),
            from_id: name_of(snapshot, edge.from)?,
            to_id: name_of(snapshot, edge.to)?,
            relation: edge.relation,
            weight: show::score(edge.weight),
            note: note_of(edge),
            recorded_at: names::time(edge.recorded_at),
            by: edge.recorded_by,
            status,
        })
    }
}

/// The note of an edge; `None` if empty.
pub(super) fn note_of<'s>(edge: &EdgeView<'s>) -> Option<&'s str> {
    (!edge.note.is_empty()).then_some(edge.note)
}

/// Wire id of an item that an edge references.
pub(super) fn name_of(snapshot: &Snapshot, id: ItemId) -> Result<String, CorruptionError> {
    let place = snapshot.find(id)?;
    let kind = place.map(|place| snapshot.kind(place)).transpose()?;
    Ok(names::item(kind.unwrap_or_default(), id))
}
