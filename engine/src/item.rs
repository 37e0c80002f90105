//! What callers hand in: items, sources, edges and tombstones, as drafts of a batch.

use half::f16;
use sha2::{Digest, Sha256};

use crate::error::{Damage, WriteError};
use crate::ids::{EdgeId, ItemId, SourceId};
use crate::layout::{FLAG_ERASE, FLAG_GONE, NO_TIME};
use crate::limits::*;
use crate::manifest::Model;
use crate::os::clock::Micros;

/// How carefully an item is to be shown. Ordered: public < internal < confidential < restricted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Sensitivity {
    /// For anyone.
    Public = 0,
    /// For the workspace.
    #[default]
    Internal = 1,
    /// For those who need it.
    Confidential = 2,
    /// Denied unless a rule allows it.
    Restricted = 3,
}

impl Sensitivity {
    /// All of them, least first.
    pub const ALL: [Self; 4] = [Self::Public, Self::Internal, Self::Confidential, Self::Restricted];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        ["public", "internal", "confidential", "restricted"][self as usize]
    }

    /// The one of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// The part of a source that an item was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub byte_start: u64,
    /// One past the last byte.
    pub byte_end: u64,
    /// First line, from 1.
    pub line_start: u32,
    /// Last line, inclusive.
    pub line_end: u32,
}

/// An item to be written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ItemDraft {
    /// Its id; one is made where none is given.
    pub id: Option<ItemId>,
    /// The caller's own id, unique among current items of the store.
    pub reference: Option<String>,
    /// What it is: `note`, `decision`, `document`, `chunk`, ...
    pub kind: String,
    /// What it is made of: `text`, `code`, `image`, ...
    pub modality: String,
    /// One line.
    pub title: String,
    /// What it says.
    pub text: String,
    /// A JSON object, or empty.
    pub attributes: String,
    /// Labels.
    pub tags: Vec<String>,
    /// Named flags that policy looks at.
    pub gates: Vec<String>,
    /// Items that this one replaces. Each must exist and not be tombstoned.
    pub supersedes: Vec<ItemId>,
    /// Where it came from.
    pub source: Option<SourceId>,
    /// Which part of that.
    pub span: Option<Span>,
    /// When it was recorded; the time of writing where none is given.
    pub recorded_at: Option<Micros>,
    /// Who recorded it.
    pub recorded_by: String,
    /// The tool or job it came through.
    pub via: String,
    /// From when it is true.
    pub valid_from: Option<Micros>,
    /// Until when it is true.
    pub valid_to: Option<Micros>,
    /// How carefully to show it.
    pub sensitivity: Sensitivity,
    /// Whether searches find it, by its words or by its embedding.
    pub searchable: bool,
    /// Its embedding, of the store's model; empty for none.
    pub embedding: Vec<f16>,
}

/// A source to be written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceDraft {
    /// Its id; one is made where none is given.
    pub id: Option<SourceId>,
    /// `file`, `text`, ...
    pub kind: String,
    /// Where it is: `file:///...` for a file.
    pub uri: String,
    /// One line.
    pub title: String,
    /// SHA-256 of its whole content as it was read.
    pub content_sha256: [u8; 32],
    /// Length of that content.
    pub bytes: u64,
    /// When it was read; the time of writing where none is given.
    pub recorded_at: Option<Micros>,
    /// Who had it read.
    pub recorded_by: String,
    /// The tool or job.
    pub via: String,
}

/// An edge to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeDraft {
    /// Its id; one is made where none is given.
    pub id: Option<EdgeId>,
    /// Where it starts; must exist.
    pub from: ItemId,
    /// Where it ends; must exist.
    pub to: ItemId,
    /// What it means: `links_to`, `part_of`, `updates`, ... never `supersedes`.
    pub relation: String,
    /// 0 to 1.
    pub weight: f32,
    /// Where the link was found.
    pub source: Option<SourceId>,
    /// When it was recorded; the time of writing where none is given.
    pub recorded_at: Option<Micros>,
    /// Who recorded it.
    pub recorded_by: String,
    /// From when it is true.
    pub valid_from: Option<Micros>,
    /// Until when it is true.
    pub valid_to: Option<Micros>,
    /// One line about it.
    pub note: String,
}

/// Hides an item or an edge at once. Its bytes stay until they are erased.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TombstoneDraft {
    /// Number of the item's or edge's id.
    pub target: u128,
    /// When; the time of writing where none is given.
    pub at: Option<Micros>,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Whether the target's bytes are to be erased too.
    pub erase: bool,
    /// Whether the target may be gone, as in an import of a store that has erased it. Its id is taken
    /// from then on. Where it is there after all, this says nothing.
    pub gone: bool,
    /// Items that the target replaced, of one that is erased: what keeps its chain together when its
    /// row is gone. The store fills it in where the target is there.
    pub supersedes: Vec<ItemId>,
}

/// Records that are stored together or not at all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// Sources; items may name them.
    pub sources: Vec<SourceDraft>,
    /// Items; edges may name them.
    pub items: Vec<ItemDraft>,
    /// Edges.
    pub edges: Vec<EdgeDraft>,
    /// Tombstones.
    pub tombstones: Vec<TombstoneDraft>,
    /// The encoder that made the items' embeddings; another one than the store's is refused.
    /// Without it only their width is checked.
    pub embedded_by: Option<Model>,
    /// Whether items may name what was erased in `supersedes`, as those of an export do.
    pub may_replace_erased: bool,
}

impl Batch {
    /// How many records it has.
    pub fn records(&self) -> usize {
        self.sources.len() + self.items.len() + self.edges.len() + self.tombstones.len()
    }

    /// Checks lengths and values that need no look at the store; `dimensions` are its model's.
    pub fn check(&self, dimensions: Option<u32>) -> Result<(), WriteError> {
        if self.records() == 0 {
            return Err(WriteError::refused("batch", "empty; at least one record is wanted"));
        }
        at_most("batch", "records", self.records(), BATCH_RECORDS_MAX)?;
        self.sources.iter().try_for_each(SourceDraft::check)?;
        self.items.iter().try_for_each(|item| item.check(dimensions))?;
        self.edges.iter().try_for_each(EdgeDraft::check)?;
        self.tombstones.iter().try_for_each(TombstoneDraft::check)
    }
}

impl Batch {
    /// Checks once more what a writer had checked: a log's records keep to the limits too (LOG-05).
    pub(crate) fn recheck(&self, dimensions: Option<u32>) -> Result<(), Damage> {
        self.check(dimensions).map_err(|error| Damage::new("LOG-05", error.to_string()))
    }
}

/// A batch that was not written.
#[derive(Debug)]
pub struct Unwritten {
    /// Why.
    pub error: WriteError,
    /// The batch; ids and times may be filled in.
    pub batch: Box<Batch>,
}

/// A batch whose lengths and values are right by themselves. Made before the writer is held, since
/// it takes as long as the batch is large: JSON is parsed, and every embedding looked through.
#[derive(Debug)]
pub(crate) struct Checked(Batch);

impl Checked {
    /// Checks a batch for a store whose embeddings are `dimensions` wide.
    pub(crate) fn new(batch: Batch, dimensions: Option<u32>) -> Result<Self, Unwritten> {
        match batch.check(dimensions) {
            Ok(()) => Ok(Self(batch)),
            Err(error) => Err(Unwritten { error, batch: Box::new(batch) }),
        }
    }

    /// Fills in the ids and times that were not given.
    pub(crate) fn complete(self, at: Micros, mut next_id: impl FnMut() -> u128) -> Complete {
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
        Complete(batch)
    }
}

/// A checked batch in which every id and time is given.
#[derive(Debug)]
pub(crate) struct Complete(Batch);

impl Complete {
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
        number("source.id", self.id.map(|id| id.0))?;
        filled("source.kind", &self.kind)?;
        moment("recorded_at", self.recorded_at)?;
        name("recorded_by", &self.recorded_by)?;
        name("via", &self.via)?;
        at_most("source.uri", "bytes", self.uri.len(), URI_BYTES_MAX)?;
        at_most("source.title", "bytes", self.title.len(), TITLE_BYTES_MAX)
    }
}

impl ItemDraft {
    /// SHA-256 of the text.
    pub fn content_sha256(&self) -> [u8; 32] {
        Sha256::digest(self.text.as_bytes()).into()
    }

    fn check(&self, dimensions: Option<u32>) -> Result<(), WriteError> {
        number("id", self.id.map(|id| id.0))?;
        filled("kind", &self.kind)?;
        filled("modality", &self.modality)?;
        name("recorded_by", &self.recorded_by)?;
        name("via", &self.via)?;
        at_most("title", "bytes", self.title.len(), TITLE_BYTES_MAX)?;
        at_most("text", "bytes", self.text.len(), TEXT_BYTES_MAX)?;
        at_most("attributes", "bytes", self.attributes.len(), ATTRIBUTE_BYTES_MAX)?;
        self.reference.iter().try_for_each(|reference| {
            at_most("ref", "bytes", reference.len(), REF_BYTES_MAX)?;
            if reference.is_empty() {
                return Err(WriteError::refused("ref", "empty; leave it out instead"));
            }
            Ok(())
        })?;
        at_most("tags", "members", self.tags.len(), LIST_MAX)?;
        at_most("gates", "members", self.gates.len(), LIST_MAX)?;
        replaced(&self.supersedes)?;
        self.tags.iter().try_for_each(|tag| filled("tags", tag))?;
        self.gates.iter().try_for_each(|gate| filled("gates", gate))?;
        self.check_attributes()?;
        moment("recorded_at", self.recorded_at)?;
        period(self.valid_from, self.valid_to)?;
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
        number("edge.id", self.id.map(|id| id.0))?;
        filled("relation", &self.relation)?;
        moment("recorded_at", self.recorded_at)?;
        period(self.valid_from, self.valid_to)?;
        name("recorded_by", &self.recorded_by)?;
        at_most("note", "bytes", self.note.len(), TITLE_BYTES_MAX)?;
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
    /// As they are stored.
    pub(crate) fn flags(&self) -> u8 {
        let erase = if self.erase { FLAG_ERASE } else { 0 };
        let gone = if self.gone { FLAG_GONE } else { 0 };
        erase | gone
    }

    /// Whether its target has bytes that are to be removed.
    pub(crate) fn removes(&self) -> bool {
        self.erase && !self.gone
    }

    fn check(&self) -> Result<(), WriteError> {
        number("target", Some(self.target))?;
        name("by", &self.by)?;
        moment("at", self.at)?;
        at_most("reason", "bytes", self.reason.len(), TITLE_BYTES_MAX)?;
        replaced(&self.supersedes)?;
        if !self.erase && !self.supersedes.is_empty() {
            let why = "given for a target that is not erased, which says itself what it replaces";
            return Err(WriteError::refused("supersedes", why));
        }
        Ok(())
    }
}

/// A list of what an item replaces.
fn replaced(supersedes: &[ItemId]) -> Result<(), WriteError> {
    at_most("supersedes", "members", supersedes.len(), SUPERSEDES_MAX)?;
    let mut sorted = supersedes.to_vec();
    sorted.sort_unstable();
    match sorted.array_windows().find(|[one, next]| one == next) {
        Some([twice, _]) => {
            Err(WriteError::refused("supersedes", format!("{twice} is named twice")))
        }
        None => Ok(()),
    }
}

fn at_most(
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

/// Zero stands for "none" in the columns of ids.
fn number(field: &'static str, id: Option<u128>) -> Result<(), WriteError> {
    if id == Some(0) {
        return Err(WriteError::refused(field, "0; leave it out to have one made"));
    }
    Ok(())
}

/// The earliest number stands for "not given" in the columns of times.
fn moment(field: &'static str, at: Option<Micros>) -> Result<(), WriteError> {
    if at == Some(Micros(NO_TIME)) {
        return Err(WriteError::refused(field, format!("{NO_TIME}; leave it out instead")));
    }
    Ok(())
}

fn period(from: Option<Micros>, to: Option<Micros>) -> Result<(), WriteError> {
    moment("valid_from", from)?;
    moment("valid_to", to)?;
    match (from, to) {
        (Some(from), Some(to)) if to < from => {
            Err(WriteError::refused("valid_to", "is before valid_from"))
        }
        _ => Ok(()),
    }
}

fn name(field: &'static str, value: &str) -> Result<(), WriteError> {
    at_most(field, "bytes", value.len(), NAME_BYTES_MAX)
}

fn filled(field: &'static str, value: &str) -> Result<(), WriteError> {
    if value.is_empty() {
        return Err(WriteError::refused(field, "is empty"));
    }
    name(field, value)
}
