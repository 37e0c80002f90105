//! Outcomes of decisions, attempts and other items.

use engine::ItemDraft;
use serde_json::{Map, Value, json};

use super::record::{ABOUT, About, RecordFacts};
use crate::work::fields;
use recalld_common::scope::Scope;
use recalld_recall::AccessView;
use recalld_tool_framework::args::{AnyNumber, Id, Real, Text, args, object, refuse_blank};
use recalld_tool_framework::records::OUTCOME;
use recalld_tool_framework::results::{Kind, always};
use recalld_tool_framework::writing::{ItemRecord, Key, Tell, Writing};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "record_outcome_valence_tool";
/// Relation from an outcome to its subject item.
const OUTCOME_OF: &str = "outcome_of";

object! {
    /// A measured value.
    struct Metric {
        name: Text<1, 100> => "What.",
        value: AnyNumber => "How much.",
        unit: Option<Text<1, 40>> => "Of what.",
    }
}

args! {
    struct Outcome {
        subject: Option<Text<1, 500>> => "What turned out so, where no item stands for it.",
        item_id: Option<Id> => "The decision, attempt or other item that did.",
        valence: Real<-1000, 1000> => "From -1, bad, to 1, good.",
        note: Option<Text<1, 8000>> => "What happened.",
        metric: Option<Metric> => "What was measured.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const RECORD: Tool = Tool {
    name: NAME,
    title: "Record an outcome",
    about: "Note how something turned out, good or bad, so that it is known before it is done again. \
            Takes item_id, subject or both.",
    shape: Outcome::shape,
    results: &[always("item", Kind::Object).says(
        "The outcome: the fields of an item, `attributes` (valence, subject, about, metric, note), \
         `grounding_token`.",
    )],
    scope: Some(Scope::MemoryWrite),
    change: Change::Adds,
    core: false,
    run: |context, raw| record(context, raw),
    example: r#"{"subject": "Paraffin in the beacon", "valence": 0.5, "note": "It burns clean."}"#,
};

fn record(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Outcome::parse(raw)?;
    match &wanted.subject {
        Some(subject) => refuse_blank("subject", &subject.0)?,
        None if wanted.item_id.is_none() => {
            let why = "is missing, and so is item_id; one of them is wanted";
            return Err(ServiceError::argument("subject", why));
        }
        None => {}
    }
    let mut writing = Writing::begin(context, NAME, &wanted.idempotency_key, raw);
    let tell: Tell<'_, ItemRecord> = &|snapshot, record| told(context, snapshot, record);
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    let about = About::find(writing.snapshot(), wanted.item_id.as_ref())?;
    let mut item = draft(&wanted, about.as_ref());
    if let Some(about) = &about {
        about.cover(&mut item);
    }
    let id = writing.add(item)?;
    if let Some(about) = about {
        writing.link(id, about.id, OUTCOME_OF);
    }
    writing.commit(&ItemRecord::of(OUTCOME, id), tell)?.or_overtaken("idempotency_key")
}

fn draft(wanted: &Outcome, about: Option<&About>) -> ItemDraft {
    let metric = wanted.metric.as_ref().map(|metric| {
        let unit = metric.unit.as_ref().map(|unit| &unit.0);
        Value::Object(fields(json!({"name": metric.name.0, "value": metric.value.0, "unit": unit})))
    });
    let attributes = fields(json!({
        "valence": wanted.valence.0, "subject": wanted.subject.as_ref().map(|subject| &subject.0),
        ABOUT: about.map(|about| &about.name), "metric": metric,
        "note": wanted.note.as_ref().map(|note| &note.0),
    }));
    ItemDraft {
        kind: OUTCOME.to_owned(),
        text: in_words(wanted, about),
        attributes: Value::Object(attributes).to_string(),
        searchable: true,
        ..ItemDraft::default()
    }
}

/// Searchable text of an outcome. The subject item appears only by its id, because its content may be erased later.
fn in_words(wanted: &Outcome, about: Option<&About>) -> String {
    let of = wanted.subject.as_ref().map(|subject| subject.0.as_str());
    let of = of.or(about.map(|about| about.name.as_str())).unwrap_or_default();
    let valence = wanted.valence.0;
    let mut text = format!("Outcome of {of}: {}", word_of(valence));
    if let Some(note) = &wanted.note {
        text.push_str(&format!("\n{}", note.0));
    }
    if let Some(metric) = &wanted.metric {
        let unit = metric.unit.as_ref().map(|unit| format!(" {}", unit.0)).unwrap_or_default();
        text.push_str(&format!("\n{}: {}{unit}", metric.name.0, metric.value.0));
    }
    text
}

fn word_of(valence: f64) -> String {
    let word = match valence {
        good if good > 0.0 => "good",
        bad if bad < 0.0 => "bad",
        _ => "neither good nor bad",
    };
    format!("{word} (valence {valence})")
}

fn told(
    context: &ToolContext<'_>,
    snapshot: &AccessView<'_>,
    record: &ItemRecord,
) -> Result<Answer, ServiceError> {
    let mut answer = Answer::plain(Value::Null, String::new());
    let item = RecordFacts::of(context, snapshot, &record.id, &mut answer)?;
    answer.text = format!("{}: {}", item.id(), item.title());
    answer.structured = json!({"item": item});
    Ok(answer)
}
