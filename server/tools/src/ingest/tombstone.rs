//! `tombstone_paths_tool`: tombstones the documents of paths, regardless of whether their files exist.

use std::collections::BTreeSet;

use engine::{ItemId, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::beneath::{ITEMS_MAX, each_document, going, lies_in, meant};
use recalld_common::counted::counted;
use recalld_common::scope::Scope;
use recalld_recall::Room;
use recalld_tool_framework::args::{List, Text, args};
use recalld_tool_framework::results::{Kind, always, sometimes};
use recalld_tool_framework::writing::{Key, Tell, Writing, refuse_secret};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "tombstone_paths_tool";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum bytes of the rows about the paths, as JSON.
    const PATHS_BYTES_MAX: usize = 24 << 10;
}

args! {
    struct Paths {
        paths: List<Text<1, 4096>, 1, 64> => "Files or folders, absolute or beneath a root; URIs of given texts.",
        reason: Text<1, 2000> => "Why.",
        dry_run: bool = false => "Write nothing.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: NAME,
    title: "Tombstone paths",
    about: "Take the documents of files and folders out of sight, all versions. They stay on disk; ingesting the path \
            again brings them back.",
    shape: Paths::shape,
    results: &[
        always("paths", Kind::List).says("Each {path, documents, items}: how many it took."),
        sometimes("paths_left_out", Kind::Integer).says("Those whose rows had no room."),
        always("documents", Kind::Integer).says("In all, each counted once."),
        always("items", Kind::Integer).says("The same, with their pieces."),
        always("truncated", Kind::Flag).says("Whether a bound cut it; call again for the rest."),
        always("dry_run", Kind::Flag).says("Whether nothing was written."),
    ],
    scope: Some(Scope::IngestWrite),
    change: Change::Removes,
    core: false,
    run: |context, raw| tombstone(context, raw),
    example: r#"{"paths": ["README.md"], "reason": "it moved"}"#,
};

/// A path of the call, and the number of documents and items that it selected.
#[derive(Debug, Serialize, Deserialize)]
struct Taking {
    path: String,
    #[serde(skip)]
    meant: Vec<String>,
    documents: usize,
    items: usize,
}

/// The result, which is also the idempotency record.
#[derive(Debug, Serialize, Deserialize)]
struct TombstoneRecord {
    paths: Vec<Taking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paths_left_out: Option<usize>,
    documents: usize,
    items: usize,
    truncated: bool,
    dry_run: bool,
}

fn tombstone(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Paths::parse(raw)?;
    let mut writing = Writing::begin(context, NAME, &wanted.idempotency_key, raw);
    let tell: Tell<'_, TombstoneRecord> = &|_, record| Ok(told(record));
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    refuse_secret("reason", &wanted.reason.0)?;
    let mut taking = Vec::new();
    for Text(path) in wanted.paths.0 {
        let meant = meant(context, "paths", &path)?;
        taking.push(Taking { path, meant, documents: 0, items: 0 });
    }
    let (mut all, mut documents, mut truncated) = (BTreeSet::<ItemId>::new(), 0, false);
    let snapshot = context.snapshot();
    each_document(
        &snapshot,
        |status| status != Status::Tombstoned,
        |lying| {
            let is_in =
                |taking: &Taking| taking.meant.iter().any(|meant| lies_in(&lying.path, meant));
            if !taking.iter().any(is_in) || truncated {
                return Ok(());
            }
            let items = going(&snapshot, "paths", (lying.item.id, lying.place))?;
            if all.len() + items.len() > ITEMS_MAX && !all.is_empty() {
                truncated = true;
                return Ok(());
            }
            documents += 1;
            for taking in taking.iter_mut().filter(|taking| is_in(taking)) {
                taking.documents += 1;
                taking.items += items.len();
            }
            all.extend(items.into_keys());
            Ok(())
        },
    )?;
    let mut room = Room::of(PATHS_BYTES_MAX);
    taking.retain(|path| room.takes(path));
    let record = TombstoneRecord {
        paths: taking,
        paths_left_out: (room.left_out() > 0).then_some(room.left_out()),
        documents,
        items: all.len(),
        truncated,
        dry_run: wanted.dry_run,
    };
    if wanted.dry_run || all.is_empty() && wanted.idempotency_key.is_none() {
        return Ok(told(&record));
    }
    all.iter().for_each(|id| writing.bury(id.0, &wanted.reason.0, false));
    writing.commit(&record, tell)?.or_overtaken("paths")
}

fn told(record: &TombstoneRecord) -> Answer {
    let mut text = if record.dry_run { "(dry run) ".to_owned() } else { String::new() };
    let taken = |documents: usize, items: usize| {
        format!("{}, {}", counted(documents, "document"), counted(items, "item"))
    };
    text.push_str(&taken(record.documents, record.items));
    for Taking { path, documents, items, .. } in &record.paths {
        text.push_str(&format!("\n{path}: {}", taken(*documents, *items)));
    }
    Answer::plain(json!(record), text)
}
