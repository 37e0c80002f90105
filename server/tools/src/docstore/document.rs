//! `docstore_get_document_tool`: text and metadata of a document.

use engine::ledger::Effect;
use engine::{ItemId, ItemView, RowAddress, Snapshot, Status, hex};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::stored::attributes;
use recalld_common::counted::counted;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_fs_util::uri;
use recalld_ingest::document_of;
use recalld_policy::{Action, Verdict};
use recalld_recall::show::REDACTED;
use recalld_recall::{AccessView, show};
use recalld_tool_framework::args::{Id, Int, Text, args};
use recalld_tool_framework::results::{Kind, always, sometimes};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum bytes of text in one answer.
    const TEXT_BYTES_MAX: usize = 64 << 10;
    /// Maximum characters of text in the human-readable part.
    const PREVIEW_CHARS: usize = 2_000;
    /// Maximum offset; no document is longer.
    const OFFSET_MAX: i64 = 1 << 30;
}

pub(super) const NO_SUCH_DOCUMENT: &str = "there is no such document";

args! {
    struct GetDocument {
        document_id: Option<Id> => "This or a path.",
        path: Option<Text<1, 4096>> => "Absolute, or beneath an ingest root.",
        offset: Int<0, OFFSET_MAX> = Int(0) => "Byte to start from.",
    }
}

/// Name of the tool that reads a document. A caller with this tool may also read memories by URI.
pub const GET_DOCUMENT: &str = "docstore_get_document_tool";

pub(super) const GET: Tool = Tool {
    name: GET_DOCUMENT,
    title: "Get a document",
    about: "Read an ingested document, at most 64 KiB at a time; go on from next_offset. Use \
                it to read around a recalled passage. Not for finding documents: recall.",
    shape: GetDocument::shape,
    results: &[
        always("document_id", Kind::Text).says("Its id."),
        always("path", Kind::Text).says("Where it was read."),
        always("title", Kind::Text).says("Its title."),
        always("modality", Kind::Text).says("text, code and others."),
        sometimes("format", Kind::Text).says("What it was read as."),
        sometimes("bytes", Kind::Integer).says("Of the file."),
        sometimes("content_sha256", Kind::Text).says("Of the file, in hex."),
        sometimes("chunks", Kind::Integer).says("Pieces that it was cut into."),
        sometimes("version", Kind::Integer).says("From 1."),
        always("ingested_at", Kind::Text).says("When this version was read."),
        always("status", Kind::Text).says("current, superseded or tombstoned."),
        always("text", Kind::Text).says("From offset."),
        always("offset", Kind::Integer).says("Where the text begins, in bytes."),
        always("truncated", Kind::Flag).says("Whether there is more text."),
        sometimes("next_offset", Kind::Integer).says("Where it goes on."),
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: true,
    run: |context, raw| get_document(context, raw),
    example: r#"{"path": "README.md"}"#,
};

/// Part of a document's text, with the document's facts.
#[derive(Debug, Serialize)]
struct DocumentPart<'s> {
    #[serde(flatten)]
    document: DocumentFacts<'s>,
    text: String,
    offset: usize,
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

fn get_document(
    context: &ToolContext<'_>,
    raw: &Map<String, Value>,
) -> Result<Answer, ServiceError> {
    let wanted = GetDocument::parse(raw)?;
    let snapshot = context.snapshot();
    let path = wanted.path.as_ref().map(|path| path.0.as_str());
    let place = named(context, &snapshot, (wanted.document_id, path))?;
    let item = snapshot.item(place)?;
    let offset = usize::try_from(wanted.offset.0).unwrap_or(usize::MAX);
    let part = part_of(&snapshot, &item, (offset, TEXT_BYTES_MAX))?;
    if offset > part.of_bytes {
        let why = format!("is {offset}; the text has {} bytes", part.of_bytes);
        return Err(ServiceError::argument("offset", why));
    }
    let preview: String = part.text.chars().take(PREVIEW_CHARS).collect();
    let end = part.start + part.text.len();
    let document = DocumentFacts::of(&snapshot, place, &item)?;
    let readable = format!(
        "{} ({}, {} of text)\n{preview}",
        document.title,
        document.path(),
        counted(part.of_bytes, "byte")
    );
    let truncated = end < part.of_bytes;
    let shown = DocumentPart {
        document,
        text: part.text,
        offset: part.start,
        truncated,
        next_offset: truncated.then_some(end),
    };
    Ok(Answer::plain(json!(shown), readable).touching(Effect::Read, [item.id]))
}

/// Text of a document from its start.
#[derive(Debug)]
pub struct DocumentText {
    /// The text.
    pub text: String,
    /// Name of the format that the document was read as; empty if unknown.
    pub format: String,
    /// True if there is more text.
    pub truncated: bool,
}

/// Reads a document from its start, at most `bytes_max` bytes of text.
///
/// # Errors
/// Returns an error if the caller may not read a document of this id.
pub fn whole(
    context: &ToolContext<'_>,
    id: ItemId,
    bytes_max: usize,
) -> Result<DocumentText, ServiceError> {
    let snapshot = context.snapshot();
    let place = named(context, &snapshot, (Some(Id(id)), None))?;
    let item = snapshot.item(place)?;
    let Part { text, of_bytes, .. } = part_of(&snapshot, &item, (0, bytes_max))?;
    let truncated = text.len() < of_bytes;
    let format = attributes(&item)["format"].as_str().unwrap_or_default().to_owned();
    Ok(DocumentText { text, format, truncated })
}

pub(super) fn by_id(snapshot: &Snapshot, id: Id) -> Result<RowAddress, ServiceError> {
    let place = match snapshot.find(id.0)? {
        Some(place) if snapshot.status(place)? == Status::Tombstoned => None,
        place => place,
    };
    let missing = |why: &str| ServiceError::Missing { field: "document_id", why: why.to_owned() };
    let Some(place) = place else {
        let stones = snapshot.tombstones(id.0.0)?;
        return Err(match stones.iter().rfind(|stone| stone.erase) {
            Some(stone) => missing(&format!("it was erased at {}", names::time(stone.at))),
            None => missing(NO_SUCH_DOCUMENT),
        });
    };
    if snapshot.item(place)?.kind != "document" {
        return Err(missing("that item is not a document"));
    }
    Ok(place)
}

/// Finds a document by the absolute path of its ingest, or by a path below a root.
pub(super) fn by_path(
    context: &ToolContext<'_>,
    snapshot: &Snapshot,
    path: &str,
) -> Result<RowAddress, ServiceError> {
    let roots = context.workspace.roots();
    let roots = roots.paths().map(|root| format!("{root}/{path}"));
    let candidates = if path.starts_with('/') { vec![path.to_owned()] } else { roots.collect() };
    for candidate in candidates {
        if let Some(id) = document_of(snapshot, &uri::of_path(&candidate))? {
            return by_id(snapshot, Id(id));
        }
    }
    Err(ServiceError::Missing { field: "path", why: nothing_from(path) })
}

pub(super) fn nothing_from(path: &str) -> String {
    format!("no document was ingested from `{path}`")
}

/// A range of a document's text, cut at character boundaries.
#[derive(Default)]
struct Part {
    start: usize,
    text: String,
    /// Bytes of the full text.
    of_bytes: usize,
}

/// Reads at most `bytes_max` bytes of a document's text from `offset`. The text is the concatenation of its chunks;
/// only the range is copied.
///
/// Chunks may be more restricted than their document. A redacted chunk is replaced by a notice, and a denied chunk is
/// omitted.
fn part_of(
    snapshot: &AccessView<'_>,
    document: &ItemView<'_>,
    (offset, bytes_max): (usize, usize),
) -> Result<Part, ServiceError> {
    let mut part = Part::default();
    let Some(source) = document.source else { return Ok(part) };
    for place in snapshot.items_by_source(source)? {
        snapshot.check_cancelled()?;
        let item = snapshot.item(place)?;
        if item.kind != "chunk" || snapshot.status(place)? == Status::Tombstoned {
            continue;
        }
        match snapshot.judge(&item, Action::Read).0 {
            Verdict::Allow => part.add(item.text, offset, bytes_max),
            Verdict::Redact => part.add(&format!("{REDACTED}\n"), offset, bytes_max),
            Verdict::Deny => {}
        }
    }
    Ok(part)
}

impl Part {
    fn add(&mut self, chunk: &str, offset: usize, bytes_max: usize) {
        let begins = self.of_bytes;
        self.of_bytes += chunk.len();
        if self.of_bytes <= offset {
            self.start = self.of_bytes; // nothing of this one, unless the text ends here
            return;
        }
        let from = if begins <= offset {
            let from = chunk.floor_char_boundary(offset - begins);
            self.start = begins + from;
            from
        } else {
            0
        };
        let is_next = self.start + self.text.len() == begins + from;
        if is_next {
            let room = bytes_max - self.text.len();
            self.text
                .push_str(&chunk[from..chunk.floor_char_boundary((from + room).min(chunk.len()))]);
        }
    }
}

/// Facts of a document, without its text. An imported document may have fewer than a document ingested here.
#[derive(Debug, Serialize)]
pub(crate) struct DocumentFacts<'s> {
    pub(crate) document_id: String,
    pub(crate) title: &'s str,
    status: &'static str,
    /// `None` if policy redacts the document.
    #[serde(flatten)]
    open: Option<OpenFacts<'s>>,
}

/// Facts of a document that the caller may read.
#[derive(Debug, Serialize)]
struct OpenFacts<'s> {
    path: String,
    modality: &'s str,
    #[serde(skip_serializing_if = "Value::is_null")]
    format: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    bytes: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_sha256: Option<String>,
    #[serde(skip_serializing_if = "Value::is_null")]
    chunks: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    version: Value,
    ingested_at: String,
}

impl<'s> DocumentFacts<'s> {
    /// Collects the facts of a document that the caller may read.
    pub(super) fn of(
        snapshot: &Snapshot,
        place: RowAddress,
        item: &ItemView<'s>,
    ) -> Result<Self, ServiceError> {
        let attributes = attributes(item);
        let source = item.source.map(|id| snapshot.source(id)).transpose()?.flatten();
        let path = source.as_ref().and_then(|source| uri::to_path(source.uri));
        let open = OpenFacts {
            path: path.or(attributes["path"].as_str().map(str::to_owned)).unwrap_or_default(),
            modality: item.modality,
            format: attributes["format"].clone(),
            bytes: attributes["bytes"].clone(),
            content_sha256: source.map(|source| hex(&source.content_sha256)),
            chunks: attributes["chunks"].clone(),
            version: attributes["version"].clone(),
            ingested_at: names::time(item.recorded_at),
        };
        Ok(Self {
            document_id: names::of_item(item),
            title: item.title,
            status: snapshot.status(place)?.name(),
            open: Some(open),
        })
    }

    /// Collects the facts of a document, as far as policy allows.
    pub(crate) fn shown(
        snapshot: &'s AccessView<'_>,
        place: RowAddress,
    ) -> Result<Self, ServiceError> {
        let item = snapshot.item(place)?;
        let verdict = snapshot.judge(&item, Action::Read).0;
        if verdict == Verdict::Allow {
            return Self::of(snapshot, place, &item);
        }
        Ok(Self {
            document_id: names::of_item(&item),
            title: show::title(&item, verdict),
            status: snapshot.status(place)?.name(),
            open: None,
        })
    }

    /// Path of the file; empty if unknown or redacted.
    pub(super) fn path(&self) -> &str {
        self.open.as_ref().map_or("", |open| &open.path)
    }
}

/// Finds a document by id or path, which the caller must be allowed to read.
pub(super) fn named(
    context: &ToolContext<'_>,
    snapshot: &AccessView<'_>,
    (id, path): (Option<Id>, Option<&str>),
) -> Result<RowAddress, ServiceError> {
    let (field, why, place) = match (id, path) {
        (Some(id), None) => {
            let why = NO_SUCH_DOCUMENT.to_owned();
            ("document_id", why, by_id(snapshot, id)?)
        }
        (None, Some(path)) => ("path", nothing_from(path), by_path(context, snapshot, path)?),
        _ => {
            let why = "give document_id or path, one of the two";
            return Err(ServiceError::argument("document_id", why));
        }
    };
    let item = snapshot.item(place)?;
    // For a caller that may not read the document, the document does not exist.
    let (verdict, rule) = snapshot.judge(&item, Action::Read);
    if verdict == Verdict::Allow {
        return Ok(place);
    }
    Err(ServiceError::Denied { field, why, item: item.id, rule: rule.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_what_slicing_the_whole_text_gives() {
        let chunks = ["abc", "", "\u{e9}\u{e9}", "d", "\u{1f600}xyz"];
        let whole = chunks.concat();
        for offset in 0..=whole.len() + 1 {
            for bytes_max in 0..=whole.len() + 1 {
                let mut part = Part::default();
                chunks.iter().for_each(|chunk| part.add(chunk, offset, bytes_max));
                assert_eq!(part.of_bytes, whole.len());
                if offset <= whole.len() {
                    let start = whole.floor_char_boundary(offset);
                    let end = whole.floor_char_boundary((start + bytes_max).min(whole.len()));
                    assert_eq!((part.start, &*part.text), (start, &whole[start..end]));
                }
            }
        }
    }
}
