//! Corrections: a wrong statement and its replacement.

use engine::{ItemDraft, ItemView, RowAddress, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::record::{ABOUT, About, RecordFacts};
use crate::work::fields;
use recalld_common::names;
use recalld_common::own_kinds::OWN_KINDS;
use recalld_common::scope::Scope;
use recalld_recall::AccessView;
use recalld_tool_framework::args::{Id, Text, args, refuse_blank};
use recalld_tool_framework::reading::find;
use recalld_tool_framework::records::{CORRECTION, CORRECTS};
use recalld_tool_framework::results::{Kind, always, sometimes};
use recalld_tool_framework::writing::{Key, SECRETS_FOUND, StoredId, Tell, Writing, may_change};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "record_operator_correction_tool";

args! {
    struct Correction {
        wrong: Text<1, 8000> => "What was said or assumed.",
        right: Text<1, 32768> => "What holds, self-contained.",
        item_id: Option<Id> => "The item that says the wrong thing: it is superseded.",
        reason: Option<Text<1, 2000>> => "Why.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const RECORD: Tool = Tool {
    name: NAME,
    title: "Record a correction",
    about: "The operator put something right: store what holds, so that nobody is told the wrong \
            thing again. Name the item that says it, if one does.",
    shape: Correction::shape,
    results: &[
        always("correction", Kind::Object)
            .says(
                "The fields of an item, `attributes` (wrong, reason, about), `grounding_token`; truncated, where its \
                 text is cut.",
            ),
        sometimes("item", Kind::Object)
            .says("What stands in place of the item that was wrong, in the same form."),
        SECRETS_FOUND,
    ],
    scope: Some(Scope::MemoryWrite),
    change: Change::Adds,
    core: false,
    run: |context, raw| record(context, raw),
    example: r#"{"wrong": "The beacon is lit by gas", "right": "The beacon is lit by paraffin"}"#,
};

/// Idempotency record.
#[derive(Debug, Serialize, Deserialize)]
struct CorrectionRecord {
    id: StoredId,
    /// The replacement of the corrected item.
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<StoredId>,
}

/// The result.
#[derive(Debug, Serialize)]
struct CorrectionAnswer<'s> {
    correction: RecordFacts<'s>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<RecordFacts<'s>>,
}

fn record(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Correction::parse(raw)?;
    refuse_blank("wrong", &wanted.wrong.0)?;
    refuse_blank("right", &wanted.right.0)?;
    let mut writing = Writing::begin(context, NAME, &wanted.idempotency_key, raw).telling_secrets();
    let tell: Tell<'_, CorrectionRecord> = &|snapshot, record| told(context, snapshot, record);
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    let mut correction = draft(&wanted);
    let mut replacement = None;
    if let Some(Id(id)) = wanted.item_id {
        let (place, old) = find(writing.snapshot(), "item_id", id)?;
        may_correct(writing.snapshot(), place, &old)?;
        let about = About::of(&old);
        about.cover(&mut correction);
        correction.attributes = attributes(&wanted, Some(&about));
        replacement = Some(put_right(&old, wanted.right.0.clone()));
    }
    let id = writing.add(correction)?;
    let mut record = CorrectionRecord { id: StoredId::of(CORRECTION, id), item: None };
    if let Some(replacement) = replacement {
        let kind = replacement.kind.clone();
        let right = writing.add(replacement)?;
        writing.link(id, right, CORRECTS);
        record.item = Some(StoredId::of(&kind, right));
    }
    writing.commit(&record, tell)?.or_overtaken("item_id")
}

/// Fails unless a correction may supersede the item.
fn may_correct(
    snapshot: &AccessView<'_>,
    place: RowAddress,
    old: &ItemView<'_>,
) -> Result<(), ServiceError> {
    may_change(snapshot, "item_id", old)?;
    if OWN_KINDS.contains(&old.kind) {
        let why = format!(
            "is a {}, which changes with what it stands for; leave item_id out to correct what it says",
            old.kind
        );
        return Err(ServiceError::argument("item_id", why));
    }
    if snapshot.status(place)? == Status::Current {
        return Ok(());
    }
    let mut now = Vec::new();
    for newer in snapshot.current_successors(old.id)?.addresses {
        let newer = snapshot.item(newer)?;
        if snapshot.may_know(&newer) {
            now.push(names::of_item(&newer));
        }
    }
    let now = if now.is_empty() { String::new() } else { format!(" by {}", now.join(", ")) };
    let why = format!("is superseded{now}; a current item is wanted, or none");
    Err(ServiceError::argument("item_id", why))
}

/// Draft of the correction. Its text is the right statement, so that recall returns that statement; the wrong statement
/// is an attribute.
fn draft(wanted: &Correction) -> ItemDraft {
    let mut text = wanted.right.0.clone();
    if let Some(reason) = &wanted.reason {
        text.push_str(&format!("\n\nReason: {}", reason.0));
    }
    ItemDraft {
        kind: CORRECTION.to_owned(),
        text,
        attributes: attributes(wanted, None),
        searchable: true,
        ..ItemDraft::default()
    }
}

fn attributes(wanted: &Correction, about: Option<&About>) -> String {
    let attributes = fields(json!({
        "wrong": wanted.wrong.0, "reason": wanted.reason.as_ref().map(|reason| &reason.0),
        ABOUT: about.map(|about| &about.name),
    }));
    Value::Object(attributes).to_string()
}

/// Draft of the corrected item, with the new text. Ref, kind, modality, attributes, tags, gates, source, valid time and
/// sensitivity are copied. The title is not copied, because it may contain the wrong statement, and the span is not,
/// because the source does not contain the new text.
fn put_right(old: &ItemView<'_>, right: String) -> ItemDraft {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    ItemDraft {
        reference: old.reference.map(str::to_owned),
        kind: old.kind.to_owned(),
        modality: old.modality.to_owned(),
        text: right,
        attributes: old.attributes.to_owned(),
        tags: owned(&old.tags),
        gates: owned(&old.gates),
        supersedes: vec![old.id],
        source: old.source,
        valid_from: old.valid_from,
        valid_to: old.valid_to,
        sensitivity: old.sensitivity,
        searchable: true,
        ..ItemDraft::default()
    }
}

fn told(
    context: &ToolContext<'_>,
    snapshot: &AccessView<'_>,
    record: &CorrectionRecord,
) -> Result<Answer, ServiceError> {
    let mut answer = Answer::plain(Value::Null, String::new());
    let correction = RecordFacts::of(context, snapshot, &record.id, &mut answer)?;
    answer.text = format!("Correction {}: {}", correction.id(), correction.title());
    let item = record.item.as_ref();
    let item = item.map(|id| RecordFacts::of(context, snapshot, id, &mut answer)).transpose()?;
    if let Some(item) = &item {
        answer.text.push_str(&format!("\nIt stands in {} now.", item.id()));
    }
    answer.structured = json!(CorrectionAnswer { correction, item });
    Ok(answer)
}
