//! `supersede_item_tool`: stores a new version of an item.

use engine::{ItemDraft, ItemId, ItemView, RowAddress, Status};
use serde_json::{Map, Value, json};

use super::chain::{CHAIN, CHANGE_REASON, Versions};
use super::get::SHOWN_TEXT_BYTES_MAX;
use recalld_common::names;
use recalld_common::own_kinds::OWN_KINDS;
use recalld_common::scope::Scope;
use recalld_policy::Action;
use recalld_recall::AccessView;
use recalld_recall::show::OWN_REFS;
use recalld_tool_framework::args::{Id, Text, args, refuse_blank};
use recalld_tool_framework::reading::{CutFacts, find};
use recalld_tool_framework::results::{Kind, TRUNCATED, always};
use recalld_tool_framework::writing::{
    ItemRecord, Key, SECRETS_FOUND, Tell, Writing, first_line, may_change,
};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const SUPERSEDE: &str = "supersede_item_tool";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum bytes of the chain returned with the new version, as JSON.
    const CHAIN_BYTES_MAX: usize = 16 << 10;
}

/// Prefix of the ref of a version whose item has no ref of its own (REC-08).
const AFTER: &str = "after:";

args! {
    struct Supersede {
        item_id: Id => "The item that is replaced.",
        text: Text<1, 32768> => "What it says now.",
        reason: Text<1, 500> => "Why.",
        title: Option<Text<1, 300>> => "One line.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: SUPERSEDE,
    title: "Supersede an item",
    about: "Replace what a memory says, and note why. Kind, tags, gates, source and sensitivity stay; \
            the old version stays in the chain.",
    shape: Supersede::shape,
    results: &[
        always("item", Kind::Object)
            .says("The new version, as recall gives it; truncated, where its text is cut."),
        always("chain", Kind::List).says(CHAIN),
        TRUNCATED,
        SECRETS_FOUND,
    ],
    scope: Some(Scope::MemoryWrite),
    change: Change::Adds,
    core: false,
    run: |context, raw| supersede(context, raw),
    example: r#"{"item_id": "itm_00000000000000000000000003", "text": "Tom keeps the beacon.", "reason": "Ada left"}"#,
};

fn supersede(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Supersede::parse(raw)?;
    refuse_blank("text", &wanted.text.0)?;
    let mut writing =
        Writing::begin(context, SUPERSEDE, &wanted.idempotency_key, raw).telling_secrets();
    let tell: Tell<'_, ItemRecord> = &stored;
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    let Id(old) = wanted.item_id;
    let (place, item) = find(writing.snapshot(), "item_id", old)?;
    refuse_own_kind(item.kind)?;
    may_change(writing.snapshot(), "item_id", &item)?;
    refuse_superseded(writing.snapshot(), place, old)?;
    let next = next(&item, wanted);
    let kind = next.kind.clone();
    let id = writing.add(next)?;
    writing.commit(&ItemRecord::of(&kind, id), tell)?.or_overtaken("item_id")
}

/// Rejects kinds whose state only their own tools may change (REC-01).
fn refuse_own_kind(kind: &str) -> Result<(), ServiceError> {
    if OWN_KINDS.contains(&kind) {
        let why = format!(
            "is the id of a {kind}, which the service keeps by itself; use the tools for that"
        );
        return Err(ServiceError::argument("item_id", why));
    }
    Ok(())
}

/// Rejects an item that is already superseded. The error names the current version if the caller may know of it.
fn refuse_superseded(
    snapshot: &AccessView<'_>,
    place: RowAddress,
    id: ItemId,
) -> Result<(), ServiceError> {
    if snapshot.status(place)? != Status::Superseded {
        return Ok(());
    }
    for newer in snapshot.current_successors(id)?.addresses.into_iter().rev() {
        let newer = snapshot.item(newer)?;
        if snapshot.may_know(&newer) {
            let why = format!("is superseded; {} stands in its place", names::of_item(&newer));
            return Err(ServiceError::argument("item_id", why));
        }
    }
    Err(ServiceError::argument("item_id", "is superseded; only what stands can be replaced"))
}

/// Draft of the next version; fields not in the call are copied. No other version of the item can have the same ref, so
/// of two concurrent calls the later is rejected.
fn next(old: &ItemView<'_>, wanted: Supersede) -> ItemDraft {
    let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
    let after = format!("{OWN_REFS}{AFTER}");
    let own = old.reference.filter(|reference| !reference.starts_with(&after));
    let is_first_line = old.title == first_line(old.text);
    let title = match wanted.title {
        Some(Text(title)) => title,
        None if is_first_line => first_line(&wanted.text.0),
        None => old.title.to_owned(),
    };
    let mut attributes: Map<String, Value> =
        serde_json::from_str(old.attributes).unwrap_or_default();
    attributes.insert(CHANGE_REASON.to_owned(), wanted.reason.0.into());
    ItemDraft {
        reference: Some(own.map_or_else(|| format!("{after}{}", old.id), str::to_owned)),
        kind: old.kind.to_owned(),
        modality: old.modality.to_owned(),
        title,
        text: wanted.text.0,
        attributes: Value::Object(attributes).to_string(),
        tags: texts(&old.tags),
        gates: texts(&old.gates),
        supersedes: vec![old.id],
        source: old.source,
        sensitivity: old.sensitivity,
        searchable: true,
        ..ItemDraft::default()
    }
}

fn stored(snapshot: &AccessView<'_>, record: &ItemRecord) -> Result<Answer, ServiceError> {
    let (place, item) = record.id.find(snapshot)?;
    let verdict = snapshot.judge(&item, Action::Read).0;
    let shown = CutFacts::of(snapshot, (place, verdict), SHOWN_TEXT_BYTES_MAX)?;
    let chain = Versions::of(snapshot, item.id, CHAIN_BYTES_MAX)?;
    let (id, title) = (&shown.facts.id, shown.facts.title);
    let text = format!("{id} says it now: {title}\n{}", chain.in_words());
    let structured = json!({"item": shown, "chain": chain.rows, "truncated": chain.truncated});
    Ok(Answer::plain(structured, text))
}
