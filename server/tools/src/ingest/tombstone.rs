//! `tombstone_paths_tool`: tombstones the documents of paths, regardless of whether their files exist.

use std::collections::BTreeSet;

use engine::{ItemId, Status};
use serde_json::{Map, Value, json};

use super::beneath::{ITEMS_MAX, each_document, going, lies_in, meant};
use recalld_common::counted::counted;
use recalld_common::scope::Scope;
use recalld_recall::Room;
use recalld_tool_framework::args::{List, Text, args};
use recalld_tool_framework::results::{Kind, always, sometimes};
use recalld_tool_framework::writing::{Key, Tell, Writing, refuse_secret};
use recalld_tool_framework::{Answer, Change, Context, ServiceError, Tool};

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
struct Taking {
    path: String,
    meant: Vec<String>,
    documents: usize,
    items: usize,
}

fn tombstone(context: &Context<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Paths::parse(raw)?;
    let mut writing = Writing::begin(context, NAME, &wanted.idempotency_key, raw);
    let tell: Tell<'_> = &|_, kept| Ok(told(kept));
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
        context,
        &snapshot,
        |status| status != Status::Tombstoned,
        |lying| {
            let is_in =
                |taking: &Taking| taking.meant.iter().any(|meant| lies_in(&lying.path, meant));
            if !taking.iter().any(is_in) || truncated {
                return Ok(());
            }
            let items = going(context, &snapshot, "paths", (lying.item.id, lying.place))?;
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
    let mut paths: Vec<Value> = taking
        .iter()
        .map(|it| json!({"path": it.path, "documents": it.documents, "items": it.items}))
        .collect();
    paths.retain(|path| room.takes(path));
    let mut kept = json!({
        "paths": paths, "documents": documents, "items": all.len(), "truncated": truncated, "dry_run": wanted.dry_run,
    });
    if room.left_out() > 0 {
        kept["paths_left_out"] = room.left_out().into();
    }
    if wanted.dry_run || all.is_empty() && wanted.idempotency_key.is_none() {
        return Ok(told(&kept));
    }
    all.iter().for_each(|id| writing.bury(id.0, &wanted.reason.0, false));
    writing.commit(&kept, tell)?.or_overtaken("paths")
}

fn told(kept: &Value) -> Answer {
    let mut text = if kept["dry_run"] == true { "(dry run) ".to_owned() } else { String::new() };
    let taken = |row: &Value| {
        let [documents, items] = [&row["documents"], &row["items"]];
        format!("{}, {}", counted(documents, "document"), counted(items, "item"))
    };
    text.push_str(&taken(kept));
    for path in kept["paths"].as_array().into_iter().flatten() {
        let name = path["path"].as_str().unwrap_or_default();
        text.push_str(&format!("\n{name}: {}", taken(path)));
    }
    Answer::plain(kept.clone(), text)
}
