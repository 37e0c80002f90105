//! `docstore_get_outline_tool`: headings of a document as a tree.

use engine::ledger::Effect;
use engine::{ItemView, Status};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::document::named;
use super::stored::attributes;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_policy::{Action, Verdict};
use recalld_recall::{AccessView, Room};
use recalld_tool_framework::args::{Id, Text, args};
use recalld_tool_framework::results::{BOUNDS, Kind, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum bytes of the headings of one answer.
    const HEADINGS_BYTES_MAX: usize = 60 << 10;

    /// Maximum depth of the tree; deeper headings are moved up to this level.
    const LEVELS_MAX: u64 = 16;
}

args! {
    struct Asked {
        document_id: Option<Id> => "This or a path.",
        path: Option<Text<1, 4096>> => "Absolute, or beneath an ingest root.",
    }
}

pub(super) const GET: Tool = Tool {
    name: "docstore_get_outline_tool",
    title: "Outline of a document",
    about: "The headings of a document and the lines that they cover. Read one by docstore_get_lines_tool.",
    shape: Asked::shape,
    results: &[
        always("document_id", Kind::Text).says("Its id."),
        always("title", Kind::Text).says("Its title."),
        always("headings", Kind::List)
            .says("A tree: each {title, level, line_start, line_end, children}."),
        always("made_from", Kind::Text)
            .says("headings; or chunks, one for each, where the headings were not kept."),
        TRUNCATED,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| get(context, raw),
    example: r#"{"path": "README.md"}"#,
};

/// A heading and the lines of its section.
#[derive(Debug, Serialize)]
struct Heading {
    title: String,
    level: u64,
    line_start: u64,
    line_end: u64,
    /// Headings of the next levels, once nested by [`tree`].
    children: Vec<Heading>,
}

fn get(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Asked::parse(raw)?;
    let snapshot = context.snapshot();
    let path = wanted.path.as_ref().map(|path| path.0.as_str());
    let place = named(context, &snapshot, (wanted.document_id, path))?;
    let item = snapshot.item(place)?;
    let stored = attributes(&item);
    let last = item.span.as_ref().map_or(0, |span| u64::from(span.line_end));
    let kept = kept(&stored["headings"], last);
    let made_from = if kept.is_empty() { "chunks" } else { "headings" };
    let mut headings = if kept.is_empty() { of_chunks(&snapshot, &item)? } else { kept };
    let mut is_cut = stored["headings_cut"] == true;
    let mut room = Room::of(HEADINGS_BYTES_MAX);
    let fit = headings.iter().take_while(|heading| room.takes(heading)).count();
    is_cut |= fit < headings.len();
    headings.truncate(fit);
    let text: String = headings
        .iter()
        .map(|heading| {
            let depth = usize::try_from(heading.level.saturating_sub(1)).unwrap_or_default().min(8);
            let (start, end) = (heading.line_start, heading.line_end);
            format!("{}{} ({start}-{end})\n", "  ".repeat(depth), heading.title)
        })
        .collect();
    let mut structured = json!({
        "document_id": names::of_item(&item), "title": item.title,
        "headings": tree(headings), "made_from": made_from, "truncated": is_cut,
    });
    if is_cut {
        structured["bounds"] = json!({"bytes": HEADINGS_BYTES_MAX});
    }
    let text = if text.is_empty() { "It has no headings.".to_owned() } else { text };
    Ok(Answer::plain(structured, text).touching(Effect::Read, [item.id]))
}

/// Parses the headings stored with the document, `[level, line, title]` in order. A section ends before the next
/// heading of its level or a higher one.
fn kept(stored: &Value, last_line: u64) -> Vec<Heading> {
    let rows = stored.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut headings: Vec<Heading> = Vec::with_capacity(rows.len());
    for row in rows {
        let read = (row[0].as_u64(), row[1].as_u64(), row[2].as_str());
        let (Some(level), Some(line), Some(title)) = read else { continue };
        headings.push(Heading {
            title: title.to_owned(),
            level: level.min(LEVELS_MAX),
            line_start: line,
            line_end: last_line.max(line),
            children: Vec::new(),
        });
    }
    // Stack of the open headings, innermost last; each heading is pushed and popped once.
    let mut open: Vec<usize> = Vec::new();
    for at in 0..headings.len() {
        let (level, line) = (headings[at].level, headings[at].line_start);
        while let Some(&above) = open.last() {
            if headings[above].level < level {
                break;
            }
            headings[above].line_end = line.saturating_sub(1).max(headings[above].line_start);
            open.pop();
        }
        open.push(at);
    }
    headings
}

/// Makes a heading of each chunk, for a document without stored headings.
fn of_chunks(
    snapshot: &AccessView<'_>,
    document: &ItemView<'_>,
) -> Result<Vec<Heading>, ServiceError> {
    let mut headings = Vec::new();
    let Some(source) = document.source else { return Ok(headings) };
    for place in snapshot.items_by_source(source)? {
        snapshot.check_cancelled()?;
        let item = snapshot.item(place)?;
        let is_open = snapshot.judge(&item, Action::Read).0 == Verdict::Allow;
        let is_there = snapshot.status(place)? != Status::Tombstoned && is_open;
        let Some(span) = item.span.filter(|_| item.kind == "chunk" && is_there) else { continue };
        headings.push(Heading {
            title: item.title.rsplit(" > ").next().unwrap_or_default().to_owned(),
            level: LEVELS_MAX.min(1 + item.title.matches(" > ").count() as u64),
            line_start: span.line_start.into(),
            line_end: span.line_end.into(),
            children: Vec::new(),
        });
    }
    Ok(headings)
}

/// Nests the headings by level.
fn tree(headings: Vec<Heading>) -> Vec<Heading> {
    let mut roots = Vec::new();
    // Stack of headings that may still get children, outermost first.
    let mut open = Vec::new();
    for heading in headings {
        close(&mut open, &mut roots, heading.level);
        open.push(heading);
    }
    close(&mut open, &mut roots, 0);
    roots
}

/// Moves all open headings of `level` or deeper into their parents.
fn close(open: &mut Vec<Heading>, roots: &mut Vec<Heading>, level: u64) {
    while let Some(done) = open.pop_if(|innermost| innermost.level >= level) {
        open.last_mut().map_or(&mut *roots, |parent| &mut parent.children).push(done);
    }
}
