//! Records that callers write: drafts of items, sources, edges and tombstones, collected in a [`Batch`].

use half::f16;
use sha2::{Digest, Sha256};

use crate::error::{CorruptionError, WriteError};
use crate::ids::{EdgeId, ItemId, SourceId};
use crate::layout::{FLAG_ERASE, FLAG_TARGET_ERASED, NO_TIME};
use crate::limits::*;
use crate::manifest::Model;
use crate::os::clock::Micros;

/// Sensitivity of an item, judged by policy. Ordered: public < internal < confidential < restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Sensitivity {
    /// For any reader.
    Public = 0,
    /// For readers of the workspace.
    #[default]
    Internal = 1,
    /// For readers who need the item.
    Confidential = 2,
    /// For no reader, unless a rule allows it.
    Restricted = 3,
}

impl Sensitivity {
    /// All values, least sensitive first.
    pub const ALL: [Self; 4] = [Self::Public, Self::Internal, Self::Confidential, Self::Restricted];

    /// Name on the wire.
    pub fn name(self) -> &'static str {
        ["public", "internal", "confidential", "restricted"][self as usize]
    }

    /// Parses the name on the wire.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// Part of a source from which an item was extracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub byte_start: u64,
    /// Offset past the last byte.
    pub byte_end: u64,
    /// First line, counted from 1.
    pub line_start: u32,
    /// Last line, inclusive.
    pub line_end: u32,
}

/// Item to be written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ItemDraft {
    /// Item id; generated if `None`.
    pub id: Option<ItemId>,
    /// The caller's own id (ref), unique among current items of the store.
    pub reference: Option<String>,
    /// Kind of the item: `note`, `decision`, `document`, `chunk`, ...
    pub kind: String,
    /// Modality of the content: `text`, `code`, `image`, ...
    pub modality: String,
    /// Title, a single line.
    pub title: String,
    /// Content, as text.
    pub text: String,
    /// A JSON object, or empty.
    pub attributes: String,
    /// Free-form labels.
    pub tags: Vec<String>,
    /// Named flags that policy evaluates.
    pub gates: Vec<String>,
    /// Items that this item supersedes. Each must exist and must not be tombstoned.
    pub supersedes: Vec<ItemId>,
    /// Source of the item.
    pub source: Option<SourceId>,
    /// Part of `source` that the item covers.
    pub span: Option<Span>,
    /// Transaction time; the time of the write if `None`.
    pub recorded_at: Option<Micros>,
    /// Principal that recorded the item.
    pub recorded_by: String,
    /// Tool or job that wrote the item.
    pub via: String,
    /// Start of the valid time, inclusive; open if `None`.
    pub valid_from: Option<Micros>,
    /// End of the valid time, exclusive; open if `None`.
    pub valid_to: Option<Micros>,
    /// Sensitivity of the item, judged by policy.
    pub sensitivity: Sensitivity,
    /// True if searches by words or by embedding can return the item.
    pub searchable: bool,
    /// Embedding by the store's model; empty for none.
    pub embedding: Vec<f16>,
}

/// Source to be written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceDraft {
    /// Source id; generated if `None`.
    pub id: Option<SourceId>,
    /// Kind of the source: `file`, `text`, ...
    pub kind: String,
    /// Location of the source: `file:///...` for a file.
    pub uri: String,
    /// Title, a single line.
    pub title: String,
    /// SHA-256 of the whole content as read.
    pub content_sha256: [u8; 32],
    /// Bytes of the whole content.
    pub bytes: u64,
    /// Time at which the source was read; the time of the write if `None`.
    pub recorded_at: Option<Micros>,
    /// Principal that requested the read.
    pub recorded_by: String,
    /// Tool or job that wrote the source.
    pub via: String,
}

/// Edge to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeDraft {
    /// Edge id; generated if `None`.
    pub id: Option<EdgeId>,
    /// Item at the start; must exist.
    pub from: ItemId,
    /// Item at the end; must exist.
    pub to: ItemId,
    /// Relation: `links_to`, `part_of`, `updates`, ... never `supersedes`.
    pub relation: String,
    /// Weight from 0 to 1.
    pub weight: f32,
    /// Source in which the link was found.
    pub source: Option<SourceId>,
    /// Transaction time; the time of the write if `None`.
    pub recorded_at: Option<Micros>,
    /// Principal that recorded the edge.
    pub recorded_by: String,
    /// Start of the valid time, inclusive; open if `None`.
    pub valid_from: Option<Micros>,
    /// End of the valid time, exclusive; open if `None`.
    pub valid_to: Option<Micros>,
    /// Note about the edge, a single line.
    pub note: String,
}

/// Tombstone to be written. A tombstone hides an item or an edge at once; the target's bytes stay until they are
/// erased.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TombstoneDraft {
    /// Id of the item or edge, as a number.
    pub target: u128,
    /// Transaction time; the time of the write if `None`.
    pub at: Option<Micros>,
    /// Principal that recorded the tombstone.
    pub by: String,
    /// Reason, for a person to read.
    pub reason: String,
    /// True if the target's bytes are to be erased too.
    pub erase: bool,
    /// True if the target may be missing, as in the import of a store that has erased it. The tombstone then occupies
    /// the id. If the target exists, the flag has no effect.
    pub target_erased: bool,
    /// If the target is erased: the items that it superseded, which link its chain once its row is gone. If the target
    /// still exists, the store fills in the list.
    pub supersedes: Vec<ItemId>,
}

/// Records that are written atomically: all of them or none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// Sources; items of the batch may reference them.
    pub sources: Vec<SourceDraft>,
    /// Items; edges of the batch may reference them.
    pub items: Vec<ItemDraft>,
    /// Edges.
    pub edges: Vec<EdgeDraft>,
    /// Tombstones.
    pub tombstones: Vec<TombstoneDraft>,
    /// Model that made the items' embeddings; the write is rejected if the store has another model. If `None`, only the
    /// width of the embeddings is checked.
    pub embedded_by: Option<Model>,
    /// True if `supersedes` of the items may name erased items, as in an import of an export.
    pub may_replace_erased: bool,
}

impl Batch {
    /// Number of records of all kinds.
    pub fn record_count(&self) -> usize {
        self.sources.len() + self.items.len() + self.edges.len() + self.tombstones.len()
    }

    /// Checks lengths and values without access to the store; `dimensions` are those of the store's model.
    pub fn check(&self, dimensions: Option<u32>) -> Result<(), WriteError> {
        if self.record_count() == 0 {
            return Err(WriteError::refused("batch", "empty; at least one record is wanted"));
        }
        check_at_most("batch", "records", self.record_count(), BATCH_RECORDS_MAX)?;
        self.sources.iter().try_for_each(SourceDraft::check)?;
        self.items.iter().try_for_each(|item| item.check(dimensions))?;
        self.edges.iter().try_for_each(EdgeDraft::check)?;
        self.tombstones.iter().try_for_each(TombstoneDraft::check)
    }
}

impl Batch {
    /// Checks a batch read from a log against the limits that its writer had checked (LOG-05).
    pub(crate) fn recheck(&self, dimensions: Option<u32>) -> Result<(), CorruptionError> {
        self.check(dimensions).map_err(|error| CorruptionError::new("LOG-05", error.to_string()))
    }
}

/// Error of a write, with the batch that was not written.
#[derive(Debug)]
pub struct BatchError {
    /// Reason of the failure.
    pub error: WriteError,
    /// The batch; ids and times may be filled in.
    pub batch: Box<Batch>,
}

/// A batch whose lengths and values are valid. Made before the writer lock is acquired: the check parses JSON and scans
/// every embedding, so its time grows with the batch.
#[derive(Debug)]
pub(crate) struct CheckedBatch(Batch);

impl CheckedBatch {
    /// Checks a batch for a store whose embeddings have `dimensions` components.
    pub(crate) fn new(batch: Batch, dimensions: Option<u32>) -> Result<Self, BatchError> {
        match batch.check(dimensions) {
            Ok(()) => Ok(Self(batch)),
            Err(error) => Err(BatchError { error, batch: Box::new(batch) }),
        }
    }

    /// Fills in missing ids and times.
    pub(crate) fn complete(self, at: Micros, mut next_id: impl FnMut() -> u128) -> CompleteBatch {
        let Self(mut batch) = self;
        for source in &mut batch.sources {
            source.id.get_or_insert_with(|| SourceId(next_id()));
            source.recorded_at.get_or_insert(at);
        }
        for item in &mut batch.items {
            item.id.get_or_insert_with(|| ItemId(next_id()));
            item.recorded_at.get_or_insert(at);
        }
        for edge in &mut batch.edges {
            edge.id.get_or_insert_with(|| EdgeId(next_id()));
            edge.recorded_at.get_or_insert(at);
        }
        for stone in &mut batch.tombstones {
            stone.at.get_or_insert(at);
        }
        CompleteBatch(batch)
    }
}

/// A checked batch in which every id and time is set.
#[derive(Debug)]
pub(crate) struct CompleteBatch(Batch);

impl CompleteBatch {
    pub(crate) fn batch(&self) -> &Batch {
        &self.0
    }

    pub(crate) fn tombstones_mut(&mut self) -> &mut [TombstoneDraft] {
        &mut self.0.tombstones
    }

    pub(crate) fn into_batch(self) -> Batch {
        self.0
    }
}

impl SourceDraft {
    fn check(&self) -> Result<(), WriteError> {
        check_id("source.id", self.id.map(|id| id.0))?;
        check_filled("source.kind", &self.kind)?;
        check_time("recorded_at", self.recorded_at)?;
        check_name("recorded_by", &self.recorded_by)?;
        check_name("via", &self.via)?;
        check_at_most("source.uri", "bytes", self.uri.len(), URI_BYTES_MAX)?;
        check_at_most("source.title", "bytes", self.title.len(), TITLE_BYTES_MAX)
    }
}

impl ItemDraft {
    /// SHA-256 of the text.
    pub fn content_sha256(&self) -> [u8; 32] {
        Sha256::digest(self.text.as_bytes()).into()
    }

    fn check(&self, dimensions: Option<u32>) -> Result<(), WriteError> {
        check_id("id", self.id.map(|id| id.0))?;
        check_filled("kind", &self.kind)?;
        check_filled("modality", &self.modality)?;
        check_name("recorded_by", &self.recorded_by)?;
        check_name("via", &self.via)?;
        check_at_most("title", "bytes", self.title.len(), TITLE_BYTES_MAX)?;
        check_at_most("text", "bytes", self.text.len(), TEXT_BYTES_MAX)?;
        check_at_most("attributes", "bytes", self.attributes.len(), ATTRIBUTE_BYTES_MAX)?;
        self.reference.iter().try_for_each(|reference| {
            check_at_most("ref", "bytes", reference.len(), REF_BYTES_MAX)?;
            if reference.is_empty() {
                return Err(WriteError::refused("ref", "empty; leave it out instead"));
            }
            Ok(())
        })?;
        check_at_most("tags", "members", self.tags.len(), LIST_MAX)?;
        check_at_most("gates", "members", self.gates.len(), LIST_MAX)?;
        check_supersedes(&self.supersedes)?;
        self.tags.iter().try_for_each(|tag| check_filled("tags", tag))?;
        self.gates.iter().try_for_each(|gate| check_filled("gates", gate))?;
        self.check_attributes()?;
        check_time("recorded_at", self.recorded_at)?;
        check_period(self.valid_from, self.valid_to)?;
        self.check_embedding(dimensions)
    }

    fn check_attributes(&self) -> Result<(), WriteError> {
        if self.attributes.is_empty() {
            return Ok(());
        }
        match serde_json::from_str::<serde_json::Value>(&self.attributes) {
            Ok(serde_json::Value::Object(_)) => Ok(()),
            Ok(_) => Err(WriteError::refused("attributes", "a JSON object is wanted")),
            Err(error) => Err(WriteError::refused("attributes", format!("not JSON: {error}"))),
        }
    }

    fn check_embedding(&self, dimensions: Option<u32>) -> Result<(), WriteError> {
        if self.embedding.is_empty() {
            return Ok(());
        }
        let Some(dimensions) = dimensions else {
            return Err(WriteError::refused("embedding", "the store is bound to no model yet"));
        };
        if self.embedding.len() != dimensions as usize {
            let why = format!("{} wide, the store's are {dimensions}", self.embedding.len());
            return Err(WriteError::refused("embedding", why));
        }
        if !self.embedding.iter().all(|half| half.is_finite()) {
            return Err(WriteError::refused("embedding", "has a number that is not finite"));
        }
        Ok(())
    }
}

impl EdgeDraft {
    fn check(&self) -> Result<(), WriteError> {
        check_id("edge.id", self.id.map(|id| id.0))?;
        check_filled("relation", &self.relation)?;
        check_time("recorded_at", self.recorded_at)?;
        check_period(self.valid_from, self.valid_to)?;
        check_name("recorded_by", &self.recorded_by)?;
        check_at_most("note", "bytes", self.note.len(), TITLE_BYTES_MAX)?;
        if self.relation == "supersedes" {
            let why = "supersedes is a field of an item, not a relation between items";
            return Err(WriteError::refused("relation", why));
        }
        if !(0.0..=1.0).contains(&self.weight) {
            return Err(WriteError::refused(
                "weight",
                format!("{}; 0 to 1 is allowed", self.weight),
            ));
        }
        Ok(())
    }
}

impl TombstoneDraft {
    /// Flags as stored in the tombstone's column.
    pub(crate) fn flags(&self) -> u8 {
        let erase = if self.erase { FLAG_ERASE } else { 0 };
        let gone = if self.target_erased { FLAG_TARGET_ERASED } else { 0 };
        erase | gone
    }

    /// Returns true if the target has bytes that must be erased.
    pub(crate) fn erases_target(&self) -> bool {
        self.erase && !self.target_erased
    }

    fn check(&self) -> Result<(), WriteError> {
        check_id("target", Some(self.target))?;
        check_name("by", &self.by)?;
        check_time("at", self.at)?;
        check_at_most("reason", "bytes", self.reason.len(), TITLE_BYTES_MAX)?;
        check_supersedes(&self.supersedes)?;
        if !self.erase && !self.supersedes.is_empty() {
            let why = "given for a target that is not erased, which says itself what it replaces";
            return Err(WriteError::refused("supersedes", why));
        }
        Ok(())
    }
}

/// Checks a list of superseded items.
fn check_supersedes(supersedes: &[ItemId]) -> Result<(), WriteError> {
    check_at_most("supersedes", "members", supersedes.len(), SUPERSEDES_MAX)?;
    let mut sorted = supersedes.to_vec();
    sorted.sort_unstable();
    match sorted.array_windows().find(|[one, next]| one == next) {
        Some([twice, _]) => {
            Err(WriteError::refused("supersedes", format!("{twice} is named twice")))
        }
        None => Ok(()),
    }
}

fn check_at_most(
    field: &'static str,
    unit: &str,
    found: usize,
    allowed: usize,
) -> Result<(), WriteError> {
    if found <= allowed {
        return Ok(());
    }
    Err(WriteError::refused(field, format!("{found} {unit}; at most {allowed} are allowed")))
}

/// Rejects id 0, which means "none" in the id columns.
fn check_id(field: &'static str, id: Option<u128>) -> Result<(), WriteError> {
    if id == Some(0) {
        return Err(WriteError::refused(field, "0; leave it out to have one made"));
    }
    Ok(())
}

/// Rejects the earliest time, which means "not given" in the time columns.
fn check_time(field: &'static str, at: Option<Micros>) -> Result<(), WriteError> {
    if at == Some(Micros(NO_TIME)) {
        return Err(WriteError::refused(field, format!("{NO_TIME}; leave it out instead")));
    }
    Ok(())
}

fn check_period(from: Option<Micros>, to: Option<Micros>) -> Result<(), WriteError> {
    check_time("valid_from", from)?;
    check_time("valid_to", to)?;
    match (from, to) {
        (Some(from), Some(to)) if to < from => {
            Err(WriteError::refused("valid_to", "is before valid_from"))
        }
        _ => Ok(()),
    }
}

fn check_name(field: &'static str, value: &str) -> Result<(), WriteError> {
    check_at_most(field, "bytes", value.len(), NAME_BYTES_MAX)
}

fn check_filled(field: &'static str, value: &str) -> Result<(), WriteError> {
    if value.is_empty() {
        return Err(WriteError::refused(field, "is empty"));
    }
    check_name(field, value)
}
