//! `agent_state_write_tool`: stores the next version of an agent's value.

use engine::{Micros, Sensitivity};
use serde_json::{Map, Value, json};

use super::value::{AgentId, GATE, StateKey, VALUE_BYTES_MAX, current, ref_of, version_of};
use recalld_common::names;
use recalld_common::own_kinds::AGENT_STATE;
use recalld_common::scope::Scope;
use recalld_recall::AccessView;
use recalld_tool_framework::args::{AnyJson, Int, args};
use recalld_tool_framework::reading::may_know;
use recalld_tool_framework::records::{FIRST, Record, draft};
use recalld_tool_framework::results::{Kind, always, sometimes, without_nulls};
use recalld_tool_framework::writing::{ItemRecord, Key, Tell, Writing, may_change};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "agent_state_write_tool";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum time to live: ten years, in seconds.
    const TTL_MAX: i64 = 315_576_000;
    /// Upper bound of version numbers, which no value reaches.
    const VERSION_MAX: i64 = 1 << 53;
    /// Maximum characters of a value in its searchable text.
    const TEXT_CHARS_MAX: usize = 4_000;
}

const MICROS: i64 = 1_000_000;

args! {
    struct Written {
        agent_id: AgentId => "Whose.",
        key: StateKey => "Its name.",
        value: AnyJson<VALUE_BYTES_MAX> => "Any JSON, at most 64 KiB.",
        expected_version: Option<Int<0, VERSION_MAX>> => "Refused if another is current; 0: none yet.",
        ttl_s: Option<Int<1, TTL_MAX>> => "Seconds until it is over.",
        sensitivity: Option<Sensitivity> => "Internal by default; never falls.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const WRITE: Tool = Tool {
    name: NAME,
    title: "Write agent state",
    about: "Keep a value for an agent between its runs. Give expected_version so as not to overwrite what another has \
            written.",
    shape: Written::shape,
    results: &[
        always("agent_id", Kind::Text).says("As given."),
        always("key", Kind::Text).says("As given."),
        always("version", Kind::Integer).says("That of this value, from 1."),
        always("item_id", Kind::Text).says("The version's item."),
        sometimes("expires_at", Kind::Text).says("When it is over."),
    ],
    scope: Some(Scope::AgentState),
    change: Change::Adds,
    core: false,
    run: |context, raw| write(context, raw),
    example: r#"{"agent_id": "planner", "key": "goal", "value": {"step": 2}}"#,
};

fn write(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Written::parse(raw)?;
    let mut writing = Writing::begin(context, NAME, &wanted.idempotency_key, raw);
    let tell: Tell<'_, ItemRecord> = &told;
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    let before = current(writing.snapshot(), &wanted.agent_id.0, &wanted.key.0)?;
    if let Some(before) = &before {
        may_know(writing.snapshot(), "key", &before.item)?;
        may_change(writing.snapshot(), "key", &before.item)?;
    }
    refuse_other(wanted.expected_version, before.as_ref())?;
    let id = context.workspace.store.new_item_id();
    let expires_at = wanted.ttl_s.map(|ttl| Micros(writing.now().0.saturating_add(ttl.0 * MICROS)));
    let first = before.as_ref().map_or(id, |before| before.id);
    let attributes = without_nulls(json!({
        "agent_id": wanted.agent_id.0, "key": wanted.key.0,
        "version": before.as_ref().map_or(1, |before| version_of(before) + 1),
        "expires_at": expires_at.map(names::time), FIRST: names::item(AGENT_STATE, first),
    }));
    let mut attributes = attributes.as_object().cloned().unwrap_or_default();
    attributes.insert("value".to_owned(), wanted.value.0.clone());
    let mut item = match &before {
        Some(before) => before.next(attributes),
        None => draft(AGENT_STATE, id, attributes),
    };
    item.id = Some(id);
    item.reference = Some(ref_of(&wanted.agent_id.0, &wanted.key.0));
    if !item.gates.iter().any(|gate| gate == GATE) {
        item.gates.push(GATE.to_owned());
    }
    item.sensitivity = item.sensitivity.max(wanted.sensitivity.unwrap_or(Sensitivity::Internal));
    item.title = format!("{}: {}", wanted.agent_id.0, wanted.key.0);
    let value = wanted.value.0.to_string();
    let value: String = value.chars().take(TEXT_CHARS_MAX).collect();
    item.text = format!("{} of {}\n{value}", wanted.key.0, wanted.agent_id.0);
    let id = writing.add(item)?;
    writing.commit(&ItemRecord::of(AGENT_STATE, id), tell)?.or_overtaken("key")
}

/// Rejects the write if the current version is not the expected version.
fn refuse_other(
    expected: Option<Int<0, VERSION_MAX>>,
    before: Option<&Record<'_>>,
) -> Result<(), ServiceError> {
    let now = before.map(version_of).unwrap_or_default();
    match expected {
        Some(Int(expected)) if u64::try_from(expected) != Ok(now) => {
            let why = format!("is {expected}; the current version is {now}");
            Err(ServiceError::argument("expected_version", why))
        }
        _ => Ok(()),
    }
}

/// Response about a written version: the arguments of the writer, without the value.
fn told(snapshot: &AccessView<'_>, record: &ItemRecord) -> Result<Answer, ServiceError> {
    let (place, _) = record.id.find(snapshot)?;
    let record = Record::of(snapshot, place)?;
    let (agent, key, version) = (record.text("agent_id"), record.text("key"), version_of(&record));
    let structured = without_nulls(json!({
        "agent_id": agent, "key": key, "version": version, "item_id": names::of_item(&record.item),
        "expires_at": record.attributes.get("expires_at"),
    }));
    Ok(Answer::plain(structured, format!("{agent}: {key} is at version {version}")))
}
