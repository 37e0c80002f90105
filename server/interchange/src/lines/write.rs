//! Writes the rows of a store as lines (`format-spec/export.md`).

use engine::{
    CorruptionError, EdgeView, ItemId, ItemView, Record, Salvage, SearchError, Snapshot, SourceId,
    SourceView, Span, Status, TombstoneTarget, TombstoneView, hex,
};

use serde::Serialize;

use super::limits::CHUNK_BYTES;
use super::text::Object;
use recalld_common::names;

/// Number of written lines by type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Lines {
    /// Sources.
    pub sources: u64,
    /// Items.
    pub items: u64,
    /// Edges.
    pub edges: u64,
    /// Tombstones.
    pub tombstones: u64,
}

impl Lines {
    /// Counts one line of the type of this row.
    pub fn count(&mut self, record: &Record<'_>) {
        match record {
            Record::Source(_) => self.sources += 1,
            Record::Item(..) => self.items += 1,
            Record::Edge(..) => self.edges += 1,
            Record::Tombstone(_) => self.tombstones += 1,
        }
    }
}

/// Lookup of rows that a row references.
pub trait Named {
    /// Returns the kind of an item.
    fn kind(&self, id: ItemId) -> Result<Option<&str>, CorruptionError>;
    /// Returns a source.
    fn source(&self, id: SourceId) -> Result<Option<SourceView<'_>>, CorruptionError>;
    /// Returns the target of a tombstone.
    fn target(&self, number: u128) -> Result<TombstoneTarget<'_>, CorruptionError>;
}

impl Named for Snapshot {
    fn kind(&self, id: ItemId) -> Result<Option<&str>, CorruptionError> {
        self.find(id)?.map(|place| Snapshot::kind(self, place)).transpose()
    }

    fn source(&self, id: SourceId) -> Result<Option<SourceView<'_>>, CorruptionError> {
        Snapshot::source(self, id)
    }

    fn target(&self, number: u128) -> Result<TombstoneTarget<'_>, CorruptionError> {
        Snapshot::tombstone_target(self, number)
    }
}

impl Named for Salvage {
    fn kind(&self, id: ItemId) -> Result<Option<&str>, CorruptionError> {
        Salvage::kind(self, id)
    }

    fn source(&self, id: SourceId) -> Result<Option<SourceView<'_>>, CorruptionError> {
        Salvage::source(self, id)
    }

    fn target(&self, number: u128) -> Result<TombstoneTarget<'_>, CorruptionError> {
        Salvage::target(self, number)
    }
}

/// Appends the line of a salvaged row.
pub fn salvaged(
    salvage: &Salvage,
    record: &Record<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CorruptionError> {
    line(salvage, record, out)
}

/// Passes all lines of a snapshot to `take`, in groups of whole lines.
pub fn all<E: From<SearchError>>(
    snapshot: &Snapshot,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Lines, E> {
    let mut lines = Lines::default();
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    for record in snapshot.records() {
        let record = record?;
        line(snapshot, &record, &mut chunk).map_err(SearchError::from)?;
        lines.count(&record);
        if chunk.len() >= CHUNK_BYTES {
            take(&chunk)?;
            chunk.clear();
        }
    }
    if !chunk.is_empty() {
        take(&chunk)?;
    }
    Ok(lines)
}

/// Appends the line of a row, including its line feed. `named` resolves the row's references.
///
/// # Errors
/// Stored bytes are damaged.
pub fn line(
    named: &dyn Named,
    record: &Record<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CorruptionError> {
    match record {
        Record::Source(view) => source(view, out),
        Record::Item(view, status) => item(named, view, *status, out)?,
        Record::Edge(view, hidden) => edge(named, view, *hidden, out)?,
        Record::Tombstone(view) => tombstone(named, view, out)?,
    }
    out.push(b'\n');
    Ok(())
}

fn source(view: &SourceView<'_>, out: &mut Vec<u8>) {
    let mut line = Object::begin(out);
    line.text("type", "source");
    line.text("id", &names::source(view.id));
    line.text("kind", view.kind);
    line.text("uri", view.uri);
    line.text_or_none("title", view.title);
    line.text("content_sha256", &hex(&view.content_sha256));
    line.raw("bytes", &view.bytes.to_string());
    line.time("recorded_at", view.recorded_at);
    line.text_or_none("recorded_by", view.recorded_by);
    line.text_or_none("via", view.via);
    line.end();
}

fn item(
    named: &dyn Named,
    view: &ItemView<'_>,
    status: Status,
    out: &mut Vec<u8>,
) -> Result<(), CorruptionError> {
    let mut line = Object::begin(out);
    line.text("type", "item");
    line.text("id", &names::of_item(view));
    line.text_or_none("ref", view.reference.unwrap_or_default());
    line.text("kind", view.kind);
    line.text("modality", view.modality);
    line.text_or_none("title", view.title);
    line.text("text", view.text);
    line.text("content_sha256", &hex(&view.content_sha256));
    line.texts_or_none("tags", &view.tags);
    attributes(view.attributes, &mut line);
    source_name(named, view.source, &mut line)?;
    if let Some(found) = view.span {
        span(found, &mut line);
    }
    line.time("recorded_at", view.recorded_at);
    line.text_or_none("recorded_by", view.recorded_by);
    line.text_or_none("via", view.via);
    line.time_or_none("valid_from", view.valid_from);
    line.time_or_none("valid_to", view.valid_to);
    line.text("sensitivity", view.sensitivity.name());
    line.texts_or_none("gates", &view.gates);
    line.flag_unless("searchable", view.searchable, true);
    line.texts_or_none("supersedes", &item_names(named, &view.supersedes)?);
    line.flag_unless("tombstoned", status == Status::Tombstoned, false);
    line.end();
    Ok(())
}

fn edge(
    named: &dyn Named,
    view: &EdgeView<'_>,
    hidden: bool,
    out: &mut Vec<u8>,
) -> Result<(), CorruptionError> {
    let mut line = Object::begin(out);
    line.text("type", "edge");
    line.text("id", &names::edge(view.id));
    line.text("from", &item_name(named, view.from)?);
    line.text("to", &item_name(named, view.to)?);
    line.text("relation", view.relation);
    // The shortest decimal that reads back as the same f32, without an exponent (EXP-05).
    line.raw("weight", &view.weight.to_string());
    source_name(named, view.source, &mut line)?;
    line.time("recorded_at", view.recorded_at);
    line.text_or_none("recorded_by", view.recorded_by);
    line.time_or_none("valid_from", view.valid_from);
    line.time_or_none("valid_to", view.valid_to);
    line.text_or_none("note", view.note);
    line.flag_unless("tombstoned", hidden, false);
    line.end();
    Ok(())
}

fn tombstone(
    named: &dyn Named,
    view: &TombstoneView<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CorruptionError> {
    let hidden = named.target(view.target)?;
    let target = match hidden {
        TombstoneTarget::Item(kind) => names::item(kind, ItemId(view.target)),
        TombstoneTarget::Edge => names::edge(engine::EdgeId(view.target)),
        TombstoneTarget::Erased => names::item("", ItemId(view.target)),
    };
    let mut line = Object::begin(out);
    line.text("type", "tombstone");
    line.text("target", &target);
    line.time("at", view.at);
    line.text_or_none("by", view.by);
    line.text_or_none("reason", view.reason);
    line.flag_unless("erase", view.erase, false);
    line.flag_unless("gone", hidden == TombstoneTarget::Erased, false);
    line.texts_or_none("supersedes", &item_names(named, &view.supersedes)?);
    line.end();
    Ok(())
}

/// Writes the stored text unchanged, unless it has a line break, which would split the line (EXP-07).
fn attributes(text: &str, line: &mut Object<'_>) {
    if text.contains(['\n', '\r']) {
        line.text("attributes_text", text);
    } else if !text.is_empty() {
        line.raw("attributes", text);
    }
}

fn span(span: Span, line: &mut Object<'_>) {
    let mut inner = Object::begin(line.key("span"));
    inner.raw("byte_start", &span.byte_start.to_string());
    inner.raw("byte_end", &span.byte_end.to_string());
    inner.raw("line_start", &span.line_start.to_string());
    inner.raw("line_end", &span.line_end.to_string());
    inner.end();
}

/// Writes the id, kind, URI and title of a source (EXP-08).
fn source_name(
    named: &dyn Named,
    id: Option<SourceId>,
    line: &mut Object<'_>,
) -> Result<(), CorruptionError> {
    let Some(id) = id else { return Ok(()) };
    let mut inner = Object::begin(line.key("source"));
    inner.text("id", &names::source(id));
    if let Some(source) = named.source(id)? {
        inner.text("kind", source.kind);
        inner.text("uri", source.uri);
        inner.text_or_none("title", source.title);
    }
    inner.end();
    Ok(())
}

fn item_names(named: &dyn Named, ids: &[ItemId]) -> Result<Vec<String>, CorruptionError> {
    ids.iter().map(|&id| item_name(named, id)).collect()
}

/// Returns an item's id with the prefix of its kind (EXP-03).
fn item_name(named: &dyn Named, id: ItemId) -> Result<String, CorruptionError> {
    Ok(names::item(named.kind(id)?.unwrap_or_default(), id))
}
