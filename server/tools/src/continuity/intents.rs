//! Intents: goals of the operator.

use engine::ItemDraft;
use serde_json::{Map, Value, json};

use super::record::RecordFacts;
use crate::work::fields;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_recall::AccessView;
use recalld_tool_framework::args::{List, Text, Time, args, choices, refuse_blank};
use recalld_tool_framework::records::INTENT;
use recalld_tool_framework::results::{Kind, always};
use recalld_tool_framework::writing::{ItemRecord, Key, Tell, Writing};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "capture_operator_intent_tool";

choices! {
    pub(crate) enum Horizon {
        Today = "today",
        Week = "week",
        Month = "month",
        Open = "open",
    }
}

impl Horizon {
    /// Days until the intent expires; `None` if it never expires.
    pub(crate) fn days(self) -> Option<i64> {
        match self {
            Self::Today => Some(1),
            Self::Week => Some(7),
            Self::Month => Some(31),
            Self::Open => None,
        }
    }
}

args! {
    struct Intent {
        intent: Text<1, 8000> => "Self-contained.",
        horizon: Horizon = Horizon::Open => "How far ahead it looks.",
        due_at: Option<Time> => "When it must be reached.",
        tags: Option<List<Text<1, 64>, 0, 32>> => "Labels.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const CAPTURE: Tool = Tool {
    name: NAME,
    title: "Capture an intent",
    about: "Note what the operator wants to reach, so that later sessions begin with it. Not for \
            something to do at a time: use schedule_followup_tool.",
    shape: Intent::shape,
    results: &[always("item", Kind::Object).says(
        "The intent: the fields of an item, `attributes` (horizon, due_at), `grounding_token`.",
    )],
    scope: Some(Scope::MemoryWrite),
    change: Change::Adds,
    core: false,
    run: |context, raw| capture(context, raw),
    example: r#"{"intent": "Ship the beacon firmware before the relief", "horizon": "month"}"#,
};

fn capture(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Intent::parse(raw)?;
    refuse_blank("intent", &wanted.intent.0)?;
    let mut writing = Writing::begin(context, NAME, &wanted.idempotency_key, raw);
    let tell: Tell<'_, ItemRecord> = &|snapshot, record| told(context, snapshot, record);
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    let attributes = fields(json!({
        "horizon": wanted.horizon.name(), "due_at": wanted.due_at.map(|due| names::time(due.0)),
    }));
    let id = writing.add(ItemDraft {
        kind: INTENT.to_owned(),
        text: wanted.intent.0,
        attributes: Value::Object(attributes).to_string(),
        tags: wanted.tags.into_iter().flat_map(|tags| tags.0).map(|tag| tag.0).collect(),
        searchable: true,
        ..ItemDraft::default()
    })?;
    writing.commit(&ItemRecord::of(INTENT, id), tell)?.or_overtaken("idempotency_key")
}

fn told(
    context: &ToolContext<'_>,
    snapshot: &AccessView<'_>,
    record: &ItemRecord,
) -> Result<Answer, ServiceError> {
    let mut answer = Answer::plain(Value::Null, String::new());
    let item = RecordFacts::of(context, snapshot, &record.id, &mut answer)?;
    answer.text = format!("Intent {}: {}", item.id(), item.title());
    answer.structured = json!({"item": item});
    Ok(answer)
}
