//! JSON of recalled items, equal for all APIs.

use engine::{CorruptionError, ItemId, ItemView, RowAddress, Snapshot, Span, Status, hex};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::access::AccessView;
use crate::recalled::{NeighbourAt, Recalled};
use crate::room::Room;
use recalld_common::names;
use recalld_policy::Verdict;

/// Replacement for a redacted text.
pub const REDACTED: &str = "[redacted by policy]";

/// Ref prefix of the service's own records, which callers never see (REC-07).
pub const OWN_REFS: &str = "recalld:";

/// Facts of an item, as far as the caller may see them; the basis of every API's output. Alone, these are the result of
/// `POST /recall` without the score.
#[derive(Debug, Serialize)]
pub struct ItemFacts<'s> {
    /// Id on the wire.
    pub id: String,
    /// Ref that the item's writer chose.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<&'s str>,
    /// Kind of the item.
    pub kind: &'s str,
    /// Title, or [`REDACTED`].
    pub title: &'s str,
    /// Text, or [`REDACTED`].
    pub text: &'s str,
    modality: &'s str,
    tags: Vec<&'s str>,
    /// Name of the status.
    pub status: &'static str,
    /// Newest visible successor.
    pub superseded_by: Option<String>,
    supersedes: Vec<String>,
    /// Erased predecessors and successors, of which nothing else remains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub erased: Vec<ErasedFacts>,
    /// Source of the item; `None` for an item without one.
    pub source: Option<SourceFacts<'s>>,
    /// Author, time and method of the recording.
    pub provenance: Provenance<'s>,
    validity: Validity,
    policy: PolicyFacts<'s>,
    /// SHA-256 of the shown text, in hex.
    pub content_sha256: String,
}

/// Erased item.
#[derive(Debug, Clone, Serialize)]
pub struct ErasedFacts {
    id: String,
    erased_at: Option<String>,
}

/// Source of an item.
#[derive(Debug, Clone, Serialize)]
pub struct SourceFacts<'s> {
    id: String,
    kind: &'s str,
    /// URI of the source.
    pub uri: &'s str,
}

/// Author, time and method of a recording.
#[derive(Debug, Clone, Serialize)]
pub struct Provenance<'s> {
    recorded_at: String,
    by: &'s str,
    via: &'s str,
    span: Option<SpanFacts>,
}

#[derive(Debug, Clone, Serialize)]
struct SpanFacts {
    byte_start: u64,
    byte_end: u64,
    line_start: u32,
    line_end: u32,
}

#[derive(Debug, Serialize)]
struct Validity {
    from: Option<String>,
    to: Option<String>,
}

#[derive(Debug, Serialize)]
struct PolicyFacts<'s> {
    sensitivity: &'static str,
    gates: Vec<&'s str>,
}

impl<'s> ItemFacts<'s> {
    /// Collects the facts of an item. Other items are referenced only if they are not tombstoned and the caller may
    /// learn of them.
    ///
    /// # Errors
    /// Corruption.
    pub fn of(
        snapshot: &'s AccessView<'_>,
        place: RowAddress,
        verdict: Verdict,
    ) -> Result<Self, CorruptionError> {
        Self::gathered(snapshot, (place, verdict), None)
    }

    /// Collects the facts of a recalled item.
    ///
    /// # Errors
    /// Corruption.
    pub fn recalled(
        snapshot: &'s AccessView<'_>,
        found: &Recalled,
    ) -> Result<Self, CorruptionError> {
        Self::gathered(snapshot, (found.place, found.verdict), Some(&found.standing))
    }

    /// Collects the facts. `standing` has the item's current successors, if known.
    fn gathered(
        snapshot: &'s AccessView<'_>,
        (place, verdict): (RowAddress, Verdict),
        standing: Option<&[RowAddress]>,
    ) -> Result<Self, CorruptionError> {
        let item = snapshot.item(place)?;
        let redacted = verdict != Verdict::Allow;
        let mut erased = Vec::new();
        let status = snapshot.status(place)?;
        let superseded_by = match status {
            Status::Superseded => superseded_by(snapshot, &item, standing, &mut erased)?,
            _ => None,
        };
        let supersedes = supersedes(snapshot, &item, &mut erased)?;
        Ok(Self {
            id: names::of_item(&item),
            reference: item.reference.filter(|reference| !reference.starts_with(OWN_REFS)),
            kind: item.kind,
            title: title(&item, verdict),
            text: if redacted { REDACTED } else { item.text },
            modality: item.modality,
            status: status.name(),
            superseded_by,
            supersedes,
            erased,
            source: source(snapshot, &item)?,
            provenance: Provenance::of(&item),
            validity: Validity {
                from: item.valid_from.map(names::time),
                to: item.valid_to.map(names::time),
            },
            content_sha256: hex(&content_sha256(&item, verdict)),
            policy: PolicyFacts { sensitivity: item.sensitivity.name(), gates: item.gates },
            tags: if redacted { Vec::new() } else { item.tags },
        })
    }

    /// Truncates the text to at most `bytes_max` bytes; returns true if text was cut off. The full text remains with
    /// its author and in exports.
    pub fn cut_text(&mut self, bytes_max: usize) -> bool {
        let whole = self.text;
        self.text = &whole[..whole.floor_char_boundary(bytes_max)];
        self.text.len() < whole.len()
    }
}

/// Returns the item's title, or [`REDACTED`].
pub fn title<'a>(item: &ItemView<'a>, verdict: Verdict) -> &'a str {
    if verdict == Verdict::Allow { item.title } else { REDACTED }
}

/// Returns the title, or an empty string if the text begins with the title.
pub fn title_beyond<'a>(title: &'a str, text: &str) -> &'a str {
    if text.trim_start().starts_with(title) { "" } else { title }
}

/// Returns the SHA-256 of the item's text as shown. The hash of a hidden text would confirm a guess of the text.
pub fn content_sha256(item: &ItemView<'_>, verdict: Verdict) -> [u8; 32] {
    match verdict {
        Verdict::Allow => item.content_sha256,
        _ => Sha256::digest(REDACTED).into(),
    }
}

/// Returns the newest visible current successor, else the newest visible direct successor, else the direct successor
/// erased last. An erased successor is added to `erased`.
fn superseded_by(
    snapshot: &AccessView<'_>,
    item: &ItemView<'_>,
    standing: Option<&[RowAddress]>,
    erased: &mut Vec<ErasedFacts>,
) -> Result<Option<String>, CorruptionError> {
    let standing = match standing {
        Some(known) => known.to_vec(),
        None => snapshot.current_successors(item.id)?.addresses,
    };
    let direct = snapshot.direct_successors(item.id)?;
    for newest in standing.into_iter().rev().chain(direct.into_iter().rev()) {
        if let Some(name) = name_of(snapshot, newest)? {
            return Ok(Some(name));
        }
    }
    match snapshot.erased_successors(item.id)?.last() {
        Some(&gone) => erased_name(snapshot, gone, erased).map(Some),
        None => Ok(None),
    }
}

/// Returns the items that this one supersedes, and adds the erased ones to `erased`.
fn supersedes(
    snapshot: &AccessView<'_>,
    item: &ItemView<'_>,
    erased: &mut Vec<ErasedFacts>,
) -> Result<Vec<String>, CorruptionError> {
    let mut ids = Vec::with_capacity(item.supersedes.len());
    for &id in &item.supersedes {
        match snapshot.find(id)? {
            Some(place) => ids.extend(name_of(snapshot, place)?),
            None if snapshot.is_erased(id.0)? => ids.push(erased_name(snapshot, id, erased)?),
            None => {}
        }
    }
    Ok(ids)
}

/// Returns the id of another item, if the caller may learn of it.
fn name_of(
    snapshot: &AccessView<'_>,
    place: RowAddress,
) -> Result<Option<String>, CorruptionError> {
    if snapshot.status(place)? == Status::Tombstoned {
        return Ok(None);
    }
    let item = snapshot.item(place)?;
    Ok(snapshot.may_know(&item).then(|| names::of_item(&item)))
}

/// Returns the id of an erased item, and records the time of the erasure.
fn erased_name(
    snapshot: &Snapshot,
    id: ItemId,
    erased: &mut Vec<ErasedFacts>,
) -> Result<String, CorruptionError> {
    let name = names::item("", id);
    let stones = snapshot.tombstones(id.0)?;
    let at = stones.iter().rfind(|stone| stone.erase).map(|stone| names::time(stone.at));
    erased.push(ErasedFacts { id: name.clone(), erased_at: at });
    Ok(name)
}

fn source<'s>(
    snapshot: &'s Snapshot,
    item: &ItemView<'_>,
) -> Result<Option<SourceFacts<'s>>, CorruptionError> {
    let Some(id) = item.source else { return Ok(None) };
    let Some(source) = snapshot.source(id)? else { return Ok(None) };
    Ok(Some(SourceFacts { id: names::source(id), kind: source.kind, uri: source.uri }))
}

impl<'s> Provenance<'s> {
    fn of(item: &ItemView<'s>) -> Self {
        let span = |span: Span| SpanFacts {
            byte_start: span.byte_start,
            byte_end: span.byte_end,
            line_start: span.line_start,
            line_end: span.line_end,
        };
        Self {
            recorded_at: names::time(item.recorded_at),
            by: item.recorded_by,
            via: item.via,
            span: item.span.map(span),
        }
    }
}

/// Rounds a score to six decimals.
pub fn score(score: f32) -> Value {
    json!((f64::from(score) * 1e6).round() / 1e6)
}

/// Edge of an item, with the item at the other end.
#[derive(Debug, Serialize)]
pub struct NeighbourFacts<'s> {
    edge_id: String,
    relation: String,
    direction: &'static str,
    weight: Value,
    item: ItemFacts<'s>,
}

/// Item in an API's format, with its neighbours if requested.
#[derive(Debug, Serialize)]
pub struct WithNeighbours<'s, T> {
    /// The item.
    #[serde(flatten)]
    pub item: T,
    #[serde(skip_serializing_if = "Option::is_none")]
    neighbors: Option<Vec<NeighbourFacts<'s>>>,
}

impl<'s, T> WithNeighbours<'s, T> {
    /// Wraps an item without neighbours.
    pub fn without(item: T) -> Self {
        Self { item, neighbors: None }
    }

    /// Adds the item's neighbours, as far as the byte budget allows.
    ///
    /// # Errors
    /// Corruption.
    pub fn add(
        &mut self,
        snapshot: &'s AccessView<'_>,
        found: &[NeighbourAt],
        room: &mut Room,
    ) -> Result<(), CorruptionError> {
        let shown = self.neighbors.insert(Vec::with_capacity(found.len()));
        for (at, neighbour) in found.iter().enumerate() {
            if room.is_over() {
                room.leave_out(found.len() - at);
                break;
            }
            let neighbour = NeighbourFacts {
                edge_id: names::edge(neighbour.edge),
                relation: neighbour.relation.clone(),
                direction: neighbour.direction.name(),
                weight: score(neighbour.weight),
                item: ItemFacts::of(snapshot, neighbour.place, Verdict::Allow)?,
            };
            if room.takes(&neighbour) {
                shown.push(neighbour);
            }
        }
        Ok(())
    }
}
