//! `docstore_get_history_tool`: versions of a file.

use engine::ledger::Effect;
use engine::{ItemId, Snapshot, SourceView, hex};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::document::nothing_from;
use super::stored::attributes;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_fs_util::uri;
use recalld_policy::{Action, Verdict};
use recalld_recall::AccessView;
use recalld_tool_framework::args::{Text, args};
use recalld_tool_framework::paging::{Cursor, Paging, Row};
use recalld_tool_framework::results::{BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext, touched};

const LIST: &str = "docstore_get_history_tool";

args! {
    struct Asked {
        path: Text<1, 4096> => "Absolute, or beneath an ingest root.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

pub(super) const HISTORY: Tool = Tool {
    name: LIST,
    title: "History of a document",
    about: "The versions of a file that were ingested, the newest first.",
    shape: Asked::shape,
    results: &[
        always("versions", Kind::List)
            .says("Each document_id, version, content_sha256, ingested_at, bytes, status."),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| history(context, raw),
    example: r#"{"path": "README.md"}"#,
};

/// Versions of a file, oldest first, by the absolute path of its ingest or by a path below a root.
pub(super) fn versions_of<'s>(
    context: &ToolContext<'_>,
    snapshot: &'s Snapshot,
    path: &str,
) -> Result<Vec<SourceView<'s>>, ServiceError> {
    let roots = context.workspace.roots();
    let beneath = roots.paths().map(|root| format!("{root}/{path}"));
    let paths = if path.starts_with('/') { vec![path.to_owned()] } else { beneath.collect() };
    for path in paths {
        let sources = snapshot.sources_by_uri(&uri::of_path(&path))?;
        if !sources.is_empty() {
            return Ok(sources);
        }
    }
    Err(ServiceError::Missing { field: "path", why: nothing_from(path) })
}

fn history(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Asked::parse(raw)?;
    let paging = Paging::of(LIST, raw, wanted.cursor.as_ref())?;
    let snapshot = context.snapshot();
    let sources = versions_of(context, &snapshot, &wanted.path.0)?;
    let mut shown = Vec::new();
    for (source, version) in sources.iter().zip(1_u64..) {
        snapshot.check_cancelled()?;
        if let Some((document, row)) = version_facts(&snapshot, source, version)? {
            shown.push((version, document, row));
        }
    }
    if shown.is_empty() {
        let why = nothing_from(&wanted.path.0);
        return Err(ServiceError::Missing { field: "path", why });
    }
    let before = paging.after::<u64>()?.unwrap_or(u64::MAX);
    let newest_first = shown.into_iter().rev().filter(|(version, _, _)| *version < before);
    let rows = newest_first.map(|(version, document, row)| {
        let VersionFacts { ingested_at, content_sha256, status, .. } = &row;
        let line = format!("{version}: {ingested_at} {content_sha256} {status}\n");
        Ok(Row::new(version, json!(row), line).touching([touched(Effect::Read, document)]))
    });
    Ok(paging.page(rows)?.into_answer("versions", "No older versions."))
}

/// A version of a file.
#[derive(Debug, Serialize)]
struct VersionFacts {
    document_id: String,
    version: u64,
    content_sha256: String,
    ingested_at: String,
    bytes: u64,
    status: &'static str,
}

/// Facts of a version; `None` if the caller may not read its document.
fn version_facts(
    snapshot: &AccessView<'_>,
    source: &SourceView<'_>,
    version: u64,
) -> Result<Option<(ItemId, VersionFacts)>, ServiceError> {
    for place in snapshot.items_by_source(source.id)? {
        let item = snapshot.item(place)?;
        if item.kind != "document" {
            continue;
        }
        if snapshot.judge(&item, Action::Read).0 != Verdict::Allow {
            return Ok(None);
        }
        let stored = attributes(&item);
        let row = VersionFacts {
            document_id: names::of_item(&item),
            version: stored["version"].as_u64().unwrap_or(version),
            content_sha256: hex(&source.content_sha256),
            ingested_at: names::time(item.recorded_at),
            bytes: source.bytes,
            status: snapshot.status(place)?.name(),
        };
        return Ok(Some((item.id, row)));
    }
    Ok(None)
}
