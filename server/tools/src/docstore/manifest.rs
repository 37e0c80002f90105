//! `docstore_manifest_tool`: list of documents.

use std::collections::BTreeMap;

use engine::{ItemId, RowAddress, Status};
use serde_json::{Map, Value, json};

use super::document::DocumentFacts;
use super::stored::{is_beneath, path_of};
use recalld_common::scope::Scope;
use recalld_policy::{Action, Verdict};
use recalld_recall::AccessView;
use recalld_tool_framework::args::{Text, args, choices};
use recalld_tool_framework::paging::{Cursor, Paging, ROWS_MAX, Row, not_ours};
use recalld_tool_framework::reading::seen_at;
use recalld_tool_framework::results::{BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const LIST: &str = "docstore_manifest_tool";
/// Rows scanned between two checks for cancellation.
const ROWS_TOGETHER: usize = 1024;

choices! {
    enum Wanted { Active = "active", Tombstoned = "tombstoned", All = "all" }
}

impl Wanted {
    fn takes(self, status: Status) -> bool {
        match self {
            Self::Active => status == Status::Current,
            Self::Tombstoned => status == Status::Tombstoned,
            Self::All => true,
        }
    }
}

args! {
    struct Manifest {
        path_prefix: Option<Text<1, 4096>> => "Absolute, or beneath a root.",
        modality: Option<Text<1, 64>> => "Only this one.",
        status: Wanted = Wanted::Active => "all: older versions, too.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

pub(super) const MANIFEST: Tool = Tool {
    name: LIST,
    title: "List documents",
    about: "The ingested documents, by path.",
    shape: Manifest::shape,
    results: &[
        always("documents", Kind::List).says(
            "Each document_id, path, title, modality, format, bytes, content_sha256, chunks, version, \
             ingested_at, status.",
        ),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| list(context, raw),
    example: "{}",
};

/// Sort key of the list: path and id.
type Key = (String, ItemId);

fn list(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Manifest::parse(raw)?;
    let paging = Paging::of(LIST, raw, wanted.cursor.as_ref())?;
    let snapshot = context.snapshot();
    let rows = page_of(&snapshot, &wanted, &paging)?.into_iter().map(|(key, place)| {
        let shown = DocumentFacts::shown(&snapshot, place)?;
        let line = format!("{} {} ({})\n", shown.path(), shown.title, shown.document_id);
        let seen = seen_at(&snapshot, place)?;
        Ok(Row::new((key.0, key.1.to_string()), json!(shown), line).touching([seen]))
    });
    Ok(paging.page(rows)?.into_answer("documents", "No such documents."))
}

/// Documents of one page, plus one more if the list continues.
fn page_of(
    snapshot: &AccessView<'_>,
    wanted: &Manifest,
    paging: &Paging,
) -> Result<Vec<(Key, RowAddress)>, ServiceError> {
    let after = match paging.after::<(String, String)>()? {
        Some((path, id)) => Some((path, id.parse::<ItemId>().map_err(|_| not_ours())?)),
        None => None,
    };
    let mut first: BTreeMap<Key, RowAddress> = BTreeMap::new();
    for (at, place) in snapshot.item_addresses()?.enumerate() {
        if at.is_multiple_of(ROWS_TOGETHER) {
            snapshot.check_cancelled()?;
        }
        if snapshot.kind(place)? != "document" || !wanted.status.takes(snapshot.status(place)?) {
            continue;
        }
        let item = snapshot.item(place)?;
        let of_modality = |modality: &Text<1, 64>| modality.0 == item.modality;
        if !wanted.modality.as_ref().is_none_or(of_modality) {
            continue;
        }
        let verdict = snapshot.judge(&item, Action::Read).0;
        if let Some(prefix) = &wanted.path_prefix
            && (verdict != Verdict::Allow || !is_beneath(snapshot, &item, &prefix.0)?)
        {
            continue;
        }
        let path = match verdict {
            Verdict::Allow => path_of(snapshot, &item)?,
            Verdict::Redact => String::new(),
            Verdict::Deny => continue,
        };
        let key = (path, item.id);
        if after.as_ref().is_none_or(|after| key > *after) {
            first.insert(key, place);
            if first.len() > ROWS_MAX + 1 {
                first.pop_last();
            }
        }
    }
    Ok(first.into_iter().collect())
}
