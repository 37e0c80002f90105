//! `brain_remember`: stores a memory.

use engine::{Filter, ItemDraft, ItemId, Sensitivity, SourceDraft};
use half::f16;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::get::SHOWN_TEXT_BYTES_MAX;
use recalld_common::names;
use recalld_common::own_kinds::OWN_KINDS;
use recalld_common::scope::Scope;
use recalld_embedding::embed::embedded_text;
use recalld_policy::{Action, Verdict};
use recalld_recall::{AccessView, show};
use recalld_tool_framework::args::{Id, List, SourceGiven, Text, Time, args, refuse_blank};
use recalld_tool_framework::reading::{CutFacts, find};
use recalld_tool_framework::results::{Kind, always};
use recalld_tool_framework::writing::{
    Key, SECRETS_FOUND, StoredId, Tell, Writing, first_line, may_change,
};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const REMEMBER: &str = "brain_remember";
/// Cosine from which an item is reported as a possible duplicate.
const DUPLICATE_COSINE: f32 = 0.92;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum possible duplicates in the answer.
    const DUPLICATES_MAX: usize = 5;
}

args! {
    struct Remember {
        text: Text<1, 32768> => "Self-contained.",
        kind: Text<1, 64> = Text("note".to_owned()) => "Such as decision, preference, fact.",
        title: Option<Text<1, 300>> => "One line.",
        tags: Option<List<Text<1, 64>, 0, 32>> => "Labels.",
        sensitivity: Option<Sensitivity> => "Internal by default, or that of what it supersedes.",
        gates: Option<List<Text<1, 64>, 0, 16>> => "Policy gates, else those of what it supersedes.",
        valid_from: Option<Time> => "True from then on.",
        valid_to: Option<Time> => "True until then.",
        supersedes: Option<Id> => "Id of the item that this one replaces.",
        source: Option<SourceGiven> => "Where it is from.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: REMEMBER,
    title: "Remember",
    about: "Store one memory: a decision, a preference, a fact, a correction. Say what it \
            supersedes, so that recall gives the new one. Not for files: use \
            ingest_paths_tool.",
    shape: Remember::shape,
    results: &[
        always("item", Kind::Object).says("As recall shows it; truncated, where its text is cut."),
        always("possible_duplicates", Kind::List)
            .says("Current items that say nearly the same: {id, title, score}."),
        SECRETS_FOUND,
    ],
    scope: Some(Scope::MemoryWrite),
    change: Change::Adds,
    core: true,
    run: |context, raw| remember(context, raw),
    example: r#"{"text": "We use epoll, not io_uring: the fleet's kernels are old."}"#,
};

/// Idempotency record.
#[derive(Debug, Serialize, Deserialize)]
struct RememberRecord {
    id: StoredId,
    possible_duplicates: Vec<Duplicate>,
}

/// An item that may say the same.
#[derive(Debug, Serialize, Deserialize)]
struct Duplicate {
    id: String,
    title: String,
    score: Value,
}

fn remember(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Remember::parse(raw)?;
    refuse_internal_kind(&wanted.kind.0)?;
    refuse_blank("text", &wanted.text.0)?;
    let mut writing =
        Writing::begin(context, REMEMBER, &wanted.idempotency_key, raw).telling_secrets();
    let tell: Tell<'_, RememberRecord> = &stored;
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    let before = match wanted.supersedes {
        Some(Id(old)) => Some(may_supersede(writing.snapshot(), old)?),
        None => None,
    };
    let title = wanted.title.as_ref().map_or_else(|| first_line(&wanted.text.0), |t| t.0.clone());
    let embedding = writing.embedder().embed(&embedded_text(&title, &wanted.text.0));
    let possible_duplicates =
        possible_duplicates(context, writing.snapshot(), &wanted, &embedding)?;
    let source = wanted.source.as_ref().map(|given| writing.add_source(source_of(given)));
    let kind = wanted.kind.0.clone();
    let item = draft(wanted, title, &embedding, before);
    let id = writing.add(ItemDraft { source, ..item })?;
    let record = RememberRecord { id: StoredId::of(&kind, id), possible_duplicates };
    writing.commit(&record, tell)?.or_overtaken("idempotency_key")
}

fn stored(snapshot: &AccessView<'_>, record: &RememberRecord) -> Result<Answer, ServiceError> {
    let (place, found) = record.id.find(snapshot)?;
    let verdict = snapshot.judge(&found, Action::Read).0;
    let item = CutFacts::of(snapshot, (place, verdict), SHOWN_TEXT_BYTES_MAX)?;
    let mut text = format!("Remembered as {}: {}", record.id.as_str(), item.facts.title);
    for Duplicate { id, title, score } in &record.possible_duplicates {
        text.push_str(&format!("\nMay say the same: {title} ({id}, cosine {score})"));
    }
    let structured = json!({"item": item, "possible_duplicates": record.possible_duplicates});
    Ok(Answer::plain(structured, text))
}

/// Rejects kinds reserved for the service's own records.
fn refuse_internal_kind(kind: &str) -> Result<(), ServiceError> {
    if OWN_KINDS.contains(&kind) {
        let why = format!("`{kind}` is for the service's own records; choose another");
        return Err(ServiceError::argument("kind", why));
    }
    Ok(())
}

/// Sensitivity and gates of a superseded item. The successor inherits both unless the call requests others.
type Closed = (Sensitivity, Vec<String>);

/// Checks that the caller may supersede an item; returns its sensitivity and gates.
fn may_supersede(snapshot: &AccessView<'_>, old: ItemId) -> Result<Closed, ServiceError> {
    let (_, old) = find(snapshot, "supersedes", old)?;
    if OWN_KINDS.contains(&old.kind) {
        let why = format!(
            "is a {}, which its source keeps up to date; change the source, or remember beside it",
            old.kind
        );
        return Err(ServiceError::argument("supersedes", why));
    }
    may_change(snapshot, "supersedes", &old)?;
    Ok((old.sensitivity, old.gates.iter().map(|&gate| gate.to_owned()).collect()))
}

fn draft(wanted: Remember, title: String, embedding: &[f32], before: Option<Closed>) -> ItemDraft {
    let (sensitivity, gates) = before.unwrap_or_default();
    let given = |gates: List<Text<1, 64>, 0, 16>| gates.0.into_iter().map(|gate| gate.0).collect();
    ItemDraft {
        kind: wanted.kind.0,
        title,
        text: wanted.text.0,
        tags: wanted.tags.into_iter().flat_map(|tags| tags.0).map(|tag| tag.0).collect(),
        gates: wanted.gates.map_or(gates, given),
        supersedes: wanted.supersedes.into_iter().map(|old| old.0).collect(),
        valid_from: wanted.valid_from.map(|at| at.0),
        valid_to: wanted.valid_to.map(|at| at.0),
        sensitivity: wanted.sensitivity.unwrap_or(sensitivity),
        searchable: true,
        embedding: embedding.iter().copied().map(f16::from_f32).collect(),
        ..ItemDraft::default()
    }
}

fn source_of(given: &SourceGiven) -> SourceDraft {
    SourceDraft {
        kind: "reference".to_owned(),
        uri: given.uri.clone(),
        title: given.title.clone(),
        ..SourceDraft::default()
    }
}

fn possible_duplicates(
    context: &ToolContext<'_>,
    snapshot: &AccessView<'_>,
    wanted: &Remember,
    embedding: &[f32],
) -> Result<Vec<Duplicate>, ServiceError> {
    let hidden = snapshot.hidden()?;
    let filter = Filter { current_only: true, mask: hidden, ..Filter::default() };
    let near = snapshot.nearest(
        &context.services.encoding.kernels,
        embedding,
        DUPLICATES_MAX + 1,
        &filter,
    )?;
    let mut shown = Vec::new();
    for hit in near.into_iter().filter(|hit| hit.score >= DUPLICATE_COSINE) {
        let item = snapshot.item(hit.address)?;
        let replaced = wanted.supersedes == Some(Id(item.id));
        if replaced
            || snapshot.judge(&item, Action::Read).0 != Verdict::Allow
            || shown.len() == DUPLICATES_MAX
        {
            continue;
        }
        shown.push(Duplicate {
            id: names::of_item(&item),
            title: item.title.to_owned(),
            score: show::score(hit.score),
        });
    }
    Ok(shown)
}
