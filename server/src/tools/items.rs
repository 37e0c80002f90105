//! items: what is remembered, one by one.

use std::sync::Arc;

use engine::ledger::Effect;
use engine::{Batch, Filter, ItemDraft, Sensitivity, Snapshot, SourceDraft, WriteError};
use half::f16;
use serde_json::{Map, Value, json};

use super::args::{Id, List, SourceGiven, Text, Time, args};
use super::idempotency::Keyed;
use super::results::{Kind, always};
use super::{Answer, Change, Context, Family, Scope, Tool, ToolError};
use crate::embed::embedded_text;
use crate::encoders::View;
use crate::govern::{Action, Verdict};
use crate::names;
use crate::recall::show;

const REMEMBER: &str = "brain_remember";
/// Cosine from which an item may say the same as another.
const DUPLICATE_COSINE: f32 = 0.92;
/// Possible duplicates that are shown.
const DUPLICATES_MAX: usize = 5;
/// Kinds of records that other tools keep.
const OWN_KINDS: [&str; 7] =
    ["document", "chunk", "job", "idempotency", "artifact", "task_attempt", "followup"];
/// Characters of a title made from the text's first line.
const TITLE_CHARS: usize = 80;

args! {
    /// What `brain_remember` takes.
    struct Remember {
        text: Text<1, 32768> => "Self-contained.",
        kind: Text<1, 64> = Text("note".to_owned()) => "Such as decision, preference, fact.",
        title: Option<Text<1, 300>> => "One line.",
        tags: Option<List<Text<1, 64>, 0, 32>> => "Labels.",
        sensitivity: Option<Sensitivity> => "Internal by default.",
        gates: Option<List<Text<1, 64>, 0, 16>> => "Policy gates, such as operator_only.",
        valid_from: Option<Time> => "True from then on.",
        valid_to: Option<Time> => "True until then.",
        supersedes: Option<Id> => "Id of the item that this one replaces.",
        source: Option<SourceGiven> => "Where it is from.",
        idempotency_key: Option<Text<1, 128>> => "Makes a repeat harmless.",
    }
}

pub(super) static FAMILY: Family = Family {
    name: "items",
    about: "Write and read single memories.",
    tools: &[Tool {
        name: REMEMBER,
        title: "Remember",
        about: "Store one memory: a decision, a preference, a fact, a correction. Say what it \
                supersedes, so that recall gives the new one. Not for files: use \
                ingest_paths_tool.",
        shape: Remember::shape,
        results: &[always("item", Kind::Object), always("possible_duplicates", Kind::List)],
        scope: Some(Scope::MemoryWrite),
        change: Change::Adds,
        core: true,
        run: |context, raw| remember(context, raw),
        example: r#"{"text": "We use epoll, not io_uring: the fleet's kernels are old."}"#,
    }],
};

fn remember(context: &Context<'_>, raw: &Map<String, Value>) -> Result<Answer, ToolError> {
    let wanted = Remember::parse(raw)?;
    refuse_internal_kind(&wanted.kind.0)?;
    if wanted.text.0.trim().is_empty() {
        return Err(ToolError::argument(
            "text",
            "is blank; at least one visible character is wanted",
        ));
    }
    let keyed = wanted.idempotency_key.as_ref().map(|key| Keyed::of(REMEMBER, &key.0, raw));
    let encoders = &context.workspace.encoders;
    let (store, View { snapshot, embedder }) = (encoders.store(), context.view());
    if let Some(first) = first_answer(context, keyed.as_ref(), &snapshot)? {
        return Ok(first);
    }
    may_write(context, &snapshot, &wanted)?;
    let title = wanted.title.as_ref().map_or_else(|| first_line(&wanted.text.0), |t| t.0.clone());
    let embedding = embedder.embed(&embedded_text(&title, &wanted.text.0));
    let duplicates = possible_duplicates(context, &snapshot, &wanted, &embedding)?;
    let id = store.new_item_id();
    let embedded_by = Some(embedder.model());
    let mut batch = Batch { embedded_by, ..Batch::default() };
    let source = wanted.source.as_ref().map(|given| source_of(context, given));
    let mut item = draft(context, wanted, title, &embedding);
    item.id = Some(id);
    if let Some(mut source) = source {
        source.id = Some(store.new_source_id());
        item.source = source.id;
        batch.sources.push(source);
    }
    let answer = json!({"id": names::item(&item.kind, id), "possible_duplicates": duplicates});
    batch.items.push(item);
    if let Some(keyed) = &keyed {
        batch.items.push(keyed.remember(context, REMEMBER, &answer));
    }
    match encoders.write(batch) {
        Ok(_) => stored(context, &store.snapshot(), &answer),
        // Another call with the same key came first: its answer is the answer, once it is on disk,
        // which is when snapshots show it.
        Err(WriteError::Refused { field: "ref", why }) => {
            store.sync()?;
            first_answer(context, keyed.as_ref(), &store.snapshot())?
                .ok_or_else(|| ToolError::argument("idempotency_key", why))
        }
        Err(error) => Err(error.into()),
    }
}

fn first_answer(
    context: &Context<'_>,
    keyed: Option<&Keyed>,
    snapshot: &Snapshot,
) -> Result<Option<Answer>, ToolError> {
    let first = keyed.map(|keyed| keyed.first_answer(snapshot)).transpose()?.flatten();
    first.map(|first| stored(context, snapshot, &first)).transpose()
}

/// The answer about an item that is in the store.
fn stored(context: &Context<'_>, snapshot: &Snapshot, answer: &Value) -> Result<Answer, ToolError> {
    let id = names::parse_item(answer["id"].as_str().unwrap_or_default());
    let id = id.map_err(|error| ToolError::argument("idempotency_key", error.to_string()))?;
    let missing = || ToolError::Missing { field: "id", why: "the item is not there".to_owned() };
    let place = snapshot.find(id)?.ok_or_else(missing)?;
    let item = show::seed(snapshot, place, Verdict::Allow, &|other| context.may_know(other))?;
    let title = item["title"].as_str().unwrap_or_default();
    let mut text = format!("Remembered as {}: {title}", answer["id"].as_str().unwrap_or_default());
    for duplicate in answer["possible_duplicates"].as_array().into_iter().flatten() {
        text.push_str(&format!(
            "\nMay say the same: {} ({}, cosine {})",
            duplicate["title"].as_str().unwrap_or_default(),
            duplicate["id"].as_str().unwrap_or_default(),
            duplicate["score"],
        ));
    }
    let structured = json!({"item": item, "possible_duplicates": answer["possible_duplicates"]});
    Ok(Answer::plain(structured, text).touching(Effect::Written, [id]))
}

/// Kinds that the service keeps its own records under.
fn refuse_internal_kind(kind: &str) -> Result<(), ToolError> {
    if OWN_KINDS.contains(&kind) {
        let why = format!("`{kind}` is for the service's own records; choose another");
        return Err(ToolError::argument("kind", why));
    }
    Ok(())
}

/// Policy on the new item, and on the one that it replaces.
fn may_write(
    context: &Context<'_>,
    snapshot: &Snapshot,
    wanted: &Remember,
) -> Result<(), ToolError> {
    let gates: Vec<&str> = gates(wanted).collect();
    let judged = |field: &str, (verdict, rule): (Verdict, Arc<str>)| match verdict {
        Verdict::Allow => Ok(()),
        _ => Err(ToolError::argument(field, format!("policy rule {rule} does not allow it"))),
    };
    let sensitivity = wanted.sensitivity.unwrap_or_default();
    judged("text", context.judge_class(&wanted.kind.0, sensitivity, &gates, Action::Write))?;
    if let Some(Id(old)) = wanted.supersedes
        && let Some(place) = snapshot.find(old)?
    {
        let old = snapshot.item(place)?;
        if OWN_KINDS.contains(&old.kind) {
            let why = format!(
                "is a {}, which its source keeps up to date; change the source, or remember beside it",
                old.kind
            );
            return Err(ToolError::argument("supersedes", why));
        }
        judged("supersedes", context.judge(&old, Action::Write))?;
    }
    Ok(())
}

fn gates(wanted: &Remember) -> impl Iterator<Item = &str> {
    wanted.gates.iter().flat_map(|gates| &gates.0).map(|gate| gate.0.as_str())
}

fn draft(context: &Context<'_>, wanted: Remember, title: String, embedding: &[f32]) -> ItemDraft {
    let gates = gates(&wanted).map(str::to_owned).collect();
    ItemDraft {
        kind: wanted.kind.0,
        modality: "text".to_owned(),
        title,
        text: wanted.text.0,
        tags: wanted.tags.into_iter().flat_map(|tags| tags.0).map(|tag| tag.0).collect(),
        gates,
        supersedes: wanted.supersedes.into_iter().map(|old| old.0).collect(),
        recorded_by: context.caller.principal.clone(),
        via: REMEMBER.to_owned(),
        valid_from: wanted.valid_from.map(|at| at.0),
        valid_to: wanted.valid_to.map(|at| at.0),
        sensitivity: wanted.sensitivity.unwrap_or_default(),
        searchable: true,
        embedding: embedding.iter().copied().map(f16::from_f32).collect(),
        ..ItemDraft::default()
    }
}

fn source_of(context: &Context<'_>, given: &SourceGiven) -> SourceDraft {
    SourceDraft {
        kind: "reference".to_owned(),
        uri: given.uri.clone(),
        title: given.title.clone(),
        recorded_by: context.caller.principal.clone(),
        via: REMEMBER.to_owned(),
        ..SourceDraft::default()
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().take(TITLE_CHARS).collect()
}

fn possible_duplicates(
    context: &Context<'_>,
    snapshot: &Snapshot,
    wanted: &Remember,
    embedding: &[f32],
) -> Result<Value, ToolError> {
    let hidden = context.hidden(snapshot)?;
    let filter = Filter { current_only: true, hidden, ..Filter::default() };
    let near = snapshot.nearest(
        &context.parts.encoding.kernels,
        embedding,
        DUPLICATES_MAX + 1,
        &filter,
    )?;
    let mut shown = Vec::new();
    for hit in near.into_iter().filter(|hit| hit.score >= DUPLICATE_COSINE) {
        let item = snapshot.item(hit.place)?;
        let replaced = wanted.supersedes == Some(Id(item.id));
        if replaced
            || context.judge(&item, Action::Read).0 != Verdict::Allow
            || shown.len() == DUPLICATES_MAX
        {
            continue;
        }
        shown.push(json!({
            "id": names::of_item(&item), "title": item.title, "score": show::score(hit.score),
        }));
    }
    Ok(Value::Array(shown))
}
