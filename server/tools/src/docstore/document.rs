//! `docstore_get_document_tool`: text and metadata of a document.

use engine::ledger::Effect;
use engine::{ItemId, ItemView, RowAddress, Snapshot, Status, hex};
use serde_json::{Map, Value, json};

use recalld_common::counted::counted;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_fs_util::uri;
use recalld_ingest::document_of;
use recalld_policy::{Action, Verdict};
use recalld_recall::show::REDACTED;
use recalld_tool_framework::args::{Id, Int, Text, args};
use recalld_tool_framework::results::{Kind, always, sometimes, without_nulls};
use recalld_tool_framework::{Answer, Change, Context, ServiceError, Tool};

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

fn get_document(context: &Context<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = GetDocument::parse(raw)?;
    let snapshot = context.snapshot();
    let path = wanted.path.as_ref().map(|path| path.0.as_str());
    let place = named(context, &snapshot, (wanted.document_id, path))?;
    let item = snapshot.item(place)?;
    let offset = usize::try_from(wanted.offset.0).unwrap_or(usize::MAX);
    let part = part_of(context, &snapshot, &item, (offset, TEXT_BYTES_MAX))?;
    if offset > part.of_bytes {
        let why = format!("is {offset}; the text has {} bytes", part.of_bytes);
        return Err(ServiceError::argument("offset", why));
    }
    let preview: String = part.text.chars().take(PREVIEW_CHARS).collect();
    let end = part.start + part.text.len();
    let mut structured = metadata(&snapshot, place, &item)?;
    structured["text"] = part.text.into();
    structured["offset"] = part.start.into();
    structured["truncated"] = (end < part.of_bytes).into();
    if end < part.of_bytes {
        structured["next_offset"] = end.into();
    }
    let readable = format!(
        "{} ({}, {} of text)\n{preview}",
        item.title,
        structured["path"].as_str().unwrap_or_default(),
        counted(part.of_bytes, "byte")
    );
    Ok(Answer::plain(structured, readable).touching(Effect::Read, [item.id]))
}

/// Reads a document from its start, for a governed read: `{text, format, truncated}` with at most `bytes_max` bytes of
/// text.
pub fn whole(context: &Context<'_>, id: ItemId, bytes_max: usize) -> Result<Answer, ServiceError> {
    let snapshot = context.snapshot();
    let place = named(context, &snapshot, (Some(Id(id)), None))?;
    let item = snapshot.item(place)?;
    let Part { text, of_bytes, .. } = part_of(context, &snapshot, &item, (0, bytes_max))?;
    let is_cut = text.len() < of_bytes;
    let format = metadata(&snapshot, place, &item)?["format"].take();
    let structured = json!({"text": text, "format": format, "truncated": is_cut});
    Ok(Answer::plain(structured, String::new()).touching(Effect::Read, [item.id]))
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
    context: &Context<'_>,
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
    context: &Context<'_>,
    snapshot: &Snapshot,
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
        match context.judge(&item, Action::Read).0 {
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

/// Metadata of a document, without its text.
pub(super) fn metadata(
    snapshot: &Snapshot,
    place: RowAddress,
    item: &ItemView<'_>,
) -> Result<Value, ServiceError> {
    let attributes: Value = serde_json::from_str(item.attributes).unwrap_or_default();
    let source = item.source.map(|id| snapshot.source(id)).transpose()?.flatten();
    let path = source.as_ref().and_then(|source| uri::to_path(source.uri));
    // An imported document may have fewer fields than a document ingested here.
    Ok(without_nulls(json!({
        "document_id": names::of_item(item),
        "path": path.or(attributes["path"].as_str().map(str::to_owned)).unwrap_or_default(),
        "title": item.title,
        "modality": item.modality,
        "format": attributes["format"],
        "bytes": attributes["bytes"],
        "content_sha256": source.map(|source| hex(&source.content_sha256)),
        "chunks": attributes["chunks"],
        "version": attributes["version"],
        "ingested_at": names::time(item.recorded_at),
        "status": snapshot.status(place)?.name(),
    })))
}

/// Finds a document by id or path, which the caller must be allowed to read.
pub(super) fn named(
    context: &Context<'_>,
    snapshot: &Snapshot,
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
    let (verdict, rule) = context.judge(&item, Action::Read);
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
