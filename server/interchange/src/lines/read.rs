//! Reads lines as drafts whose references are unresolved names.

use engine::{
    EdgeDraft, ItemDraft, ItemId, Sensitivity, SourceDraft, SourceId, Span, TombstoneDraft,
};

use super::fields::Fields;
use recalld_common::names;

/// Target of a reference to an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Name {
    Id(ItemId),
    Ref(String),
}

impl Name {
    fn of(text: String) -> Self {
        names::parse_item(&text).map_or(Self::Ref(text), Self::Id)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Ref(reference) => f.write_str(reference),
        }
    }
}

/// The source that a line names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceName {
    pub(super) id: Option<SourceId>,
    pub(super) kind: String,
    pub(super) uri: String,
    pub(super) title: String,
}

/// A line as a draft, with the names of its references.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Line {
    Source(SourceDraft),
    Item {
        draft: Box<ItemDraft>,
        supersedes: Vec<Name>,
        source: Option<SourceName>,
        tombstoned: bool,
    },
    Edge {
        draft: EdgeDraft,
        from: Name,
        to: Name,
        source: Option<SourceName>,
        tombstoned: bool,
    },
    Tombstone {
        draft: TombstoneDraft,
        supersedes: Vec<Name>,
        is_edge: bool,
    },
}

/// Reads one line, without its line feed. The error states what was wrong and what is allowed.
pub(super) fn line(text: &str) -> Result<Line, String> {
    // Some programs begin a file with a byte order mark.
    let mut fields = Fields::of(text.trim_start_matches('\u{feff}'))?;
    let line = match fields.needed("type")?.as_str() {
        "source" => source(&mut fields)?,
        "item" => item(&mut fields)?,
        "edge" => edge(&mut fields)?,
        "tombstone" => tombstone(&mut fields)?,
        other => {
            let wanted = "source, item, edge or tombstone is wanted";
            return Err(format!("type: {other}; {wanted}"));
        }
    };
    fields.end()?;
    Ok(line)
}

fn source(fields: &mut Fields<'_>) -> Result<Line, String> {
    Ok(Line::Source(SourceDraft {
        id: fields.source_id("id")?,
        kind: fields.needed("kind")?,
        uri: fields.needed("uri")?,
        title: fields.text("title")?.unwrap_or_default(),
        content_sha256: fields.hash("content_sha256")?.unwrap_or_default(),
        bytes: fields.natural("bytes")?.unwrap_or_default(),
        recorded_at: fields.time("recorded_at")?,
        recorded_by: fields.text("recorded_by")?.unwrap_or_default(),
        via: fields.text("via")?.unwrap_or_default(),
    }))
}

fn item(fields: &mut Fields<'_>) -> Result<Line, String> {
    let draft = ItemDraft {
        id: fields.item_id("id")?,
        reference: fields.text("ref")?,
        kind: fields.text("kind")?.unwrap_or_else(|| "note".to_owned()),
        modality: fields.text("modality")?.unwrap_or_else(|| "text".to_owned()),
        title: fields.text("title")?.unwrap_or_default(),
        text: fields.needed("text")?,
        attributes: attributes(fields)?,
        tags: fields.texts("tags")?,
        gates: fields.texts("gates")?,
        supersedes: Vec::new(),
        source: None,
        span: span(fields)?,
        recorded_at: fields.time("recorded_at")?,
        recorded_by: fields.text("recorded_by")?.unwrap_or_default(),
        via: fields.text("via")?.unwrap_or_default(),
        valid_from: fields.time("valid_from")?,
        valid_to: fields.time("valid_to")?,
        sensitivity: sensitivity(fields)?,
        searchable: fields.flag("searchable")?.unwrap_or(true),
        embedding: Vec::new(),
    };
    let hash = fields.hash("content_sha256")?;
    if hash.is_some_and(|hash| hash != draft.content_sha256()) {
        return Err("content_sha256: the text has another hash; it was changed".to_owned());
    }
    let supersedes = names(fields)?;
    let source = source_name(fields)?;
    let tombstoned = fields.flag("tombstoned")?.unwrap_or_default();
    Ok(Line::Item { draft: Box::new(draft), supersedes, source, tombstoned })
}

fn names(fields: &mut Fields<'_>) -> Result<Vec<Name>, String> {
    Ok(fields.texts("supersedes")?.into_iter().map(Name::of).collect())
}

fn attributes(fields: &mut Fields<'_>) -> Result<String, String> {
    let object = fields.raw("attributes").map(str::to_owned);
    let text = fields.text("attributes_text")?;
    if object.is_some() && text.is_some() {
        return Err("attributes and attributes_text are both given; one is wanted".to_owned());
    }
    Ok(object.or(text).unwrap_or_default())
}

fn span(fields: &mut Fields<'_>) -> Result<Option<Span>, String> {
    let Some(raw) = fields.raw("span") else { return Ok(None) };
    let mut inner = Fields::of(raw).map_err(|why| format!("span: {why}"))?;
    let span = Span {
        byte_start: inner.natural("byte_start")?.unwrap_or_default(),
        byte_end: inner.natural("byte_end")?.unwrap_or_default(),
        line_start: inner.natural("line_start")?.unwrap_or_default(),
        line_end: inner.natural("line_end")?.unwrap_or_default(),
    };
    inner.end().map_err(|why| format!("span: {why}"))?;
    Ok(Some(span).filter(|span| *span != Span::default()))
}

fn sensitivity(fields: &mut Fields<'_>) -> Result<Sensitivity, String> {
    let Some(name) = fields.text("sensitivity")? else { return Ok(Sensitivity::default()) };
    Sensitivity::from_name(&name).ok_or_else(|| {
        let wanted = Sensitivity::ALL.map(Sensitivity::name).join(", ");
        format!("sensitivity: {name}; one of {wanted} is wanted")
    })
}

fn source_name(fields: &mut Fields<'_>) -> Result<Option<SourceName>, String> {
    let Some(raw) = fields.raw("source") else { return Ok(None) };
    let inside = |why: String| format!("source: {why}");
    let mut inner = Fields::of(raw).map_err(inside)?;
    let name = SourceName {
        id: inner.source_id("id").map_err(inside)?,
        kind: inner.text("kind").map_err(inside)?.unwrap_or_default(),
        uri: inner.text("uri").map_err(inside)?.unwrap_or_default(),
        title: inner.text("title").map_err(inside)?.unwrap_or_default(),
    };
    inner.end().map_err(inside)?;
    if name.id.is_none() && name.kind.is_empty() {
        return Err("source: an id, or a kind and a uri, are wanted".to_owned());
    }
    Ok(Some(name))
}

fn edge(fields: &mut Fields<'_>) -> Result<Line, String> {
    let (from, to) = (Name::of(fields.needed("from")?), Name::of(fields.needed("to")?));
    let draft = EdgeDraft {
        id: fields.edge_id("id")?,
        from: ItemId(0),
        to: ItemId(0),
        relation: fields.needed("relation")?,
        weight: fields.weight("weight")?.unwrap_or(1.0),
        source: None,
        recorded_at: fields.time("recorded_at")?,
        recorded_by: fields.text("recorded_by")?.unwrap_or_default(),
        valid_from: fields.time("valid_from")?,
        valid_to: fields.time("valid_to")?,
        note: fields.text("note")?.unwrap_or_default(),
    };
    let source = source_name(fields)?;
    let tombstoned = fields.flag("tombstoned")?.unwrap_or_default();
    Ok(Line::Edge { draft, from, to, source, tombstoned })
}

fn tombstone(fields: &mut Fields<'_>) -> Result<Line, String> {
    let target = fields.needed("target")?;
    let edge = names::parse_edge(&target).map(|id| id.0);
    let is_edge = edge.is_ok();
    let target = edge
        .or_else(|_| names::parse_item(&target).map(|id| id.0))
        .map_err(|_| "target: the id of an item or an edge is wanted".to_owned())?;
    let draft = TombstoneDraft {
        target,
        at: fields.time("at")?,
        by: fields.text("by")?.unwrap_or_default(),
        reason: fields.text("reason")?.unwrap_or_default(),
        erase: fields.flag("erase")?.unwrap_or_default(),
        target_erased: fields.flag("gone")?.unwrap_or_default(),
        supersedes: Vec::new(),
    };
    let supersedes = names(fields)?;
    Ok(Line::Tombstone { draft, supersedes, is_edge })
}
