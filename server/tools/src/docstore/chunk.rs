//! `docstore_get_chunk_tool`: one chunk of a document.

use engine::{ItemView, Snapshot, Status, hex};
use serde_json::{Map, Value, json};

use super::stored::{attributes, path_of};
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_policy::{Action, Verdict};
use recalld_recall::{AccessView, show};
use recalld_tool_framework::args::{Id, args};
use recalld_tool_framework::reading::{find, seen};
use recalld_tool_framework::results::{Kind, always, sometimes, without_nulls};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const CHUNK: &str = "chunk";

args! {
    struct Asked {
        chunk_id: Id => "The piece.",
    }
}

pub(super) const GET: Tool = Tool {
    name: "docstore_get_chunk_tool",
    title: "Get a piece of a document",
    about: "One piece of a document, where it stands, and the pieces before and after it.",
    shape: Asked::shape,
    results: &[
        always("chunk", Kind::Object).says(
            "chunk_id, document_id, path, heading, ordinal, symbol, line_start, line_end, text, \
             content_sha256 of the text, status.",
        ),
        sometimes("before", Kind::Text).says("The id of the piece before."),
        sometimes("after", Kind::Text).says("The id of the piece after."),
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| get(context, raw),
    example: r#"{"chunk_id": "chk_00000000000000000000000005"}"#,
};

fn get(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let Asked { chunk_id: Id(id) } = Asked::parse(raw)?;
    let snapshot = context.snapshot();
    let (place, item) = find(&snapshot, "chunk_id", id)?;
    if item.kind != CHUNK {
        let why = format!("is the id of a {}; that of a chunk is wanted", item.kind);
        return Err(ServiceError::argument("chunk_id", why));
    }
    let verdict = snapshot.judge(&item, Action::Read).0;
    let (before, after) = beside(&snapshot, &item)?;
    let shown = shown(&snapshot, &item, verdict, snapshot.status(place)?)?;
    let text = match verdict {
        Verdict::Allow => format!("{}\n{}", item.title, item.text),
        _ => show::title(&item, verdict).to_owned(),
    };
    let structured = without_nulls(json!({"chunk": shown, "before": before, "after": after}));
    let mut answer = Answer::plain(structured, text);
    answer.touched.push(seen(item.id, verdict));
    Ok(answer)
}

fn shown(
    snapshot: &Snapshot,
    item: &ItemView<'_>,
    verdict: Verdict,
    status: Status,
) -> Result<Value, ServiceError> {
    if verdict != Verdict::Allow {
        return Ok(json!({
            "chunk_id": names::of_item(item), "heading": show::title(item, verdict),
            "status": status.name(),
        }));
    }
    let attributes = attributes(item);
    Ok(without_nulls(json!({
        "chunk_id": names::of_item(item), "document_id": attributes["document"],
        "path": path_of(snapshot, item)?, "heading": item.title,
        "ordinal": attributes["ordinal"], "symbol": attributes["symbol"],
        "line_start": item.span.as_ref().map(|span| span.line_start),
        "line_end": item.span.as_ref().map(|span| span.line_end),
        "text": item.text, "content_sha256": hex(&item.content_sha256),
        "status": status.name(),
    })))
}

/// Ids of the previous and the next chunk in this version of the document; `None` for a chunk that the caller may not
/// know.
fn beside(
    snapshot: &AccessView<'_>,
    item: &ItemView<'_>,
) -> Result<(Option<String>, Option<String>), ServiceError> {
    let Some(source) = item.source else { return Ok((None, None)) };
    let (mut before, mut is_past) = (None, false);
    for place in snapshot.items_by_source(source)? {
        snapshot.check_cancelled()?;
        if snapshot.kind(place)? != CHUNK || snapshot.status(place)? == Status::Tombstoned {
            continue;
        }
        let other = snapshot.item(place)?;
        if other.id == item.id {
            is_past = true;
        } else if snapshot.may_know(&other) {
            let name = names::of_item(&other);
            if is_past {
                return Ok((before, Some(name)));
            }
            before = Some(name);
        }
    }
    Ok((before, None))
}
