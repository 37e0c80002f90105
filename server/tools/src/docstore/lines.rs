//! `docstore_get_lines_tool`: lines of a stored document, of any version.

use engine::ledger::Effect;
use engine::{ItemId, SourceView, Status, hex};
use serde_json::{Map, Value, json};

use super::document::nothing_from;
use super::history::versions_of;
use super::stored::attributes;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_policy::{Action, Verdict};
use recalld_recall::AccessView;
use recalld_tool_framework::args::{Int, Sha256, Text, args};
use recalld_tool_framework::results::{BOUNDS, Kind, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum lines of one answer.
    const LINES_MAX: i64 = 2_000;
    /// Maximum bytes of the lines of one answer.
    const LINES_BYTES_MAX: usize = 60 << 10;
    /// Maximum line number; no document is longer.
    const LINE_MAX: i64 = 1 << 30;
}

/// Formats with extracted text: line numbers refer to the extracted text, not to the file.
const DRAWN_OUT: [&str; 5] = ["html", "pdf", "image", "csv", "jsonl"];

args! {
    struct Asked {
        path: Text<1, 4096> => "Absolute, or beneath an ingest root.",
        line_start: Int<1, LINE_MAX> => "The first, from 1.",
        line_end: Int<1, LINE_MAX> => "The last; at most 2,000 lines.",
        version: Option<Sha256> => "content_sha256 of an older one.",
    }
}

pub(super) const GET: Tool = Tool {
    name: "docstore_get_lines_tool",
    title: "Get lines of a document",
    about: "Lines of an ingested file as it was then, not as it is on disk now.",
    shape: Asked::shape,
    results: &[
        always("document_id", Kind::Text).says("The version's id."),
        always("lines", Kind::List).says("Texts, without their line ends."),
        always("line_start", Kind::Integer).says("The first of them."),
        always("line_end", Kind::Integer)
            .says("The last of them; line_start - 1 where there is none."),
        always("of_lines", Kind::Integer).says("Lines of the whole."),
        always("lines_of", Kind::Text)
            .says("file, or text: that of the document where it was drawn out of the file."),
        always("content_sha256", Kind::Text).says("Of the file, in hex."),
        TRUNCATED,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| get(context, raw),
    example: r#"{"path": "README.md", "line_start": 1, "line_end": 3}"#,
};

fn get(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Asked::parse(raw)?;
    let (first, last) = (wanted.line_start.0, wanted.line_end.0);
    if last < first || last - first >= LINES_MAX {
        let most = first + LINES_MAX - 1;
        let why = format!("is {last}; {first} to {most} is allowed with this line_start");
        return Err(ServiceError::argument("line_end", why));
    }
    let snapshot = context.snapshot();
    let sources = versions_of(context, &snapshot, &wanted.path.0)?;
    let source = match wanted.version {
        None => sources.last(),
        Some(Sha256(sha256)) => sources.iter().rfind(|source| source.content_sha256 == sha256),
    };
    let Some(source) = source else {
        let why = "no version of it has this content_sha256".to_owned();
        return Err(ServiceError::Missing { field: "version", why });
    };
    let version = version(&snapshot, source, &wanted.path.0)?;
    let range = (first, last);
    let found = lines(&version.text, range);
    let shown_last = first + i64::try_from(found.lines.len()).unwrap_or_default() - 1;
    let mut structured = json!({
        "document_id": names::item("document", version.document), "lines": found.lines,
        "line_start": first, "line_end": shown_last, "of_lines": found.of,
        "lines_of": if version.is_drawn_out { "text" } else { "file" },
        "content_sha256": hex(&source.content_sha256), "truncated": found.is_cut,
    });
    if found.is_cut {
        structured["bounds"] = json!({"bytes": LINES_BYTES_MAX});
    }
    let text = numbered(&found.lines, first);
    Ok(Answer::plain(structured, text).touching(Effect::Read, [version.document]))
}

struct Version {
    document: ItemId,
    text: String,
    is_drawn_out: bool,
}

/// Loads a version. For a caller that may not read the document or one of its chunks, the document does not exist.
fn version(
    snapshot: &AccessView<'_>,
    source: &SourceView<'_>,
    path: &str,
) -> Result<Version, ServiceError> {
    let missing = || ServiceError::Missing { field: "path", why: nothing_from(path) };
    let (mut document, mut text) = (None, String::new());
    for place in snapshot.items_by_source(source.id)? {
        snapshot.check_cancelled()?;
        if snapshot.status(place)? == Status::Tombstoned {
            continue;
        }
        let item = snapshot.item(place)?;
        if snapshot.judge(&item, Action::Read).0 != Verdict::Allow {
            return Err(missing());
        }
        match item.kind {
            "document" => {
                let format = attributes(&item)["format"].as_str().unwrap_or_default().to_owned();
                document = Some((item.id, DRAWN_OUT.contains(&&*format)));
            }
            "chunk" => text.push_str(item.text),
            _ => {}
        }
    }
    let (document, is_drawn_out) = document.ok_or_else(missing)?;
    Ok(Version { document, text, is_drawn_out })
}

/// Selected lines of a text.
struct Lines<'t> {
    lines: Vec<&'t str>,
    /// Number of lines in the full text.
    of: usize,
    is_cut: bool,
}

fn lines(text: &str, (first, last): (i64, i64)) -> Lines<'_> {
    let mut found = Lines { lines: Vec::new(), of: 0, is_cut: false };
    let mut bytes = 0;
    for (line, number) in text.lines().zip(1_i64..) {
        found.of += 1;
        if number < first || number > last || found.is_cut {
            continue;
        }
        bytes += line.len() + 1;
        if bytes > LINES_BYTES_MAX && !found.lines.is_empty() {
            found.is_cut = true;
            continue;
        }
        found.lines.push(line);
    }
    found
}

fn numbered(lines: &[&str], first: i64) -> String {
    if lines.is_empty() {
        return "It has no such lines.".to_owned();
    }
    let numbered = lines.iter().zip(first..).map(|(line, number)| format!("{number}: {line}\n"));
    numbered.collect()
}
