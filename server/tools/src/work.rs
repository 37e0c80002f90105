//! Family `work`: task attempts and their results.

use engine::{ItemDraft, RowAddress};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::recall::text::one_line;
use recalld_common::names;
use recalld_common::own_kinds::TASK_ATTEMPT;
use recalld_common::scope::Scope;
use recalld_policy::Verdict;
use recalld_recall::{AccessView, Room, show};
use recalld_tool_framework::args::{Id, List, Text, args, choices};
use recalld_tool_framework::paging::{Cursor, Paging, Row};
use recalld_tool_framework::reading::seen;
use recalld_tool_framework::records;
use recalld_tool_framework::records::{Record, draft, newest};
use recalld_tool_framework::results::{
    BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always, without_nulls,
};
use recalld_tool_framework::writing::{ItemRecord, Key, Tell, Writing, may_change};
use recalld_tool_framework::{Answer, Change, Family, ServiceError, Tool, ToolContext};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum characters of an approach and of a note in a line of text.
    const LINE_CHARS_MAX: usize = 200;
    /// Maximum bytes of the evidence in an attempt, as JSON.
    const EVIDENCE_BYTES_MAX: usize = 16 << 10;
    /// Maximum bytes of the evidence in one history step, as JSON.
    const STEP_EVIDENCE_BYTES_MAX: usize = 4 << 10;
    /// Maximum bytes of a history, as JSON; the answer also contains the attempt.
    const HISTORY_BYTES_MAX: usize = 24 << 10;
    /// Maximum versions of a history: the newest.
    const HISTORY_MAX: usize = 100;
}

/// Description of the fields of an attempt in a result.
const ATTEMPT: &str = "attempt_id, item_id of its newest version, task, approach, status, parent_id, note, \
                       evidence, evidence_left_out (how many had no room), tags, updated_at, by.";
const RECORD: &str = "record_task_attempt_tool";
const UPDATE: &str = "update_task_attempt_status_tool";
const LIST: &str = "list_task_attempts_tool";
const GET: &str = "get_task_attempt_tool";

choices! {
    enum Begun { Planned = "planned", Running = "running" }
}

choices! {
    enum Standing {
        Planned = "planned",
        Running = "running",
        Blocked = "blocked",
        Succeeded = "succeeded",
        Failed = "failed",
        Abandoned = "abandoned",
    }
}

impl Standing {
    /// Allowed next states; empty for final states.
    fn moves(self) -> &'static [Self] {
        use Standing::{Abandoned, Blocked, Failed, Planned, Running, Succeeded};
        match self {
            Planned => &[Running, Abandoned],
            Running => &[Succeeded, Failed, Blocked, Abandoned],
            Blocked => &[Running, Abandoned],
            Succeeded | Failed | Abandoned => &[],
        }
    }
}

args! {
    struct NewAttempt {
        task: Text<1, 2000> => "What is to be done.",
        approach: Option<Text<1, 8000>> => "How.",
        status: Begun = Begun::Running => "Where it stands.",
        parent_id: Option<Id> => "The attempt that this is part of.",
        tags: Option<List<Text<1, 64>, 0, 32>> => "Labels.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

args! {
    struct Moved {
        attempt_id: Id => "The attempt.",
        status: Standing => "Where it stands now.",
        note: Option<Text<1, 8000>> => "What happened.",
        evidence: Option<List<Text<1, 2048>, 0, 32>> => "Ids, paths, addresses.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

args! {
    struct Listed {
        status: Option<Standing> => "Only these.",
        task: Option<Text<1, 200>> => "Words of the task.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

args! {
    struct One {
        attempt_id: Id => "The attempt.",
    }
}

pub(super) static FAMILY: Family = Family {
    name: "work",
    about: "Keep track of what was tried.",
    tools: &[
        Tool {
            name: RECORD,
            title: "Record an attempt",
            about: "Note that a task is planned or under way, and how. Say later what came of it \
                    with update_task_attempt_status_tool.",
            shape: NewAttempt::shape,
            results: &[always("attempt", Kind::Object).says(ATTEMPT)],
            scope: Some(Scope::MemoryWrite),
            change: Change::Adds,
            core: false,
            run: |context, raw| record(context, raw),
            example: r#"{"task": "Move the queue to epoll", "approach": "one thread owns all sockets"}"#,
        },
        Tool {
            name: UPDATE,
            title: "Move an attempt",
            about: "Say where an attempt stands now. planned -> running, abandoned; running -> \
                    succeeded, failed, blocked, abandoned; blocked -> running, abandoned; the rest \
                    are final.",
            shape: Moved::shape,
            results: &[always("attempt", Kind::Object).says(ATTEMPT)],
            scope: Some(Scope::MemoryWrite),
            change: Change::Adds,
            core: false,
            run: |context, raw| update(context, raw),
            example: r#"{"attempt_id": "tsk_00000000000000000000000007", "status": "succeeded"}"#,
        },
        Tool {
            name: LIST,
            title: "List attempts",
            about: "Attempts as they stand, newest first. Look here before trying something again.",
            shape: Listed::shape,
            results: &[
                always("attempts", Kind::List).says("Each as `attempt` of get_task_attempt_tool."),
                TRUNCATED,
                NEXT_CURSOR,
                BOUNDS,
            ],
            scope: Some(Scope::TenantRead),
            change: Change::Nothing,
            core: false,
            run: |context, raw| list(context, raw),
            example: r#"{"status": "running"}"#,
        },
        Tool {
            name: GET,
            title: "Get an attempt",
            about: "One attempt and how it came to stand where it does.",
            shape: One::shape,
            results: &[
                always("attempt", Kind::Object).says(ATTEMPT),
                always("history", Kind::List).says(
                    "Its newest versions, oldest first: item_id, status, at, by, note, evidence, \
                         evidence_left_out.",
                ),
                TRUNCATED,
                BOUNDS,
            ],
            scope: Some(Scope::TenantRead),
            change: Change::Nothing,
            core: false,
            run: |context, raw| get(context, raw),
            example: r#"{"attempt_id": "tsk_00000000000000000000000007"}"#,
        },
    ],
};

fn record(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = NewAttempt::parse(raw)?;
    let mut writing = Writing::begin(context, RECORD, &wanted.idempotency_key, raw);
    let tell: Tell<'_, ItemRecord> = &written;
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    let parent = match wanted.parent_id {
        Some(Id(parent)) => {
            let snapshot = writing.snapshot();
            Some(records::current(snapshot, TASK_ATTEMPT, "parent_id", parent)?.id)
        }
        None => None,
    };
    let attributes = json!({
        "task": wanted.task.0, "approach": wanted.approach.map(|approach| approach.0),
        "status": wanted.status.name(), "parent": parent.map(|parent| names::item(TASK_ATTEMPT, parent)),
    });
    let id = context.workspace.store.new_item_id();
    let attributes = fields(attributes);
    let text = in_words(&attributes);
    let mut item = draft(TASK_ATTEMPT, id, attributes);
    item.id = Some(id);
    item.title = recalld_tool_framework::writing::first_line(&wanted.task.0);
    item.text = text;
    item.tags = wanted.tags.into_iter().flat_map(|tags| tags.0).map(|tag| tag.0).collect();
    let id = writing.add(item)?;
    if let Some(parent) = parent {
        writing.link(id, parent, "part_of");
    }
    writing.commit(&ItemRecord::of(TASK_ATTEMPT, id), tell)?.or_overtaken("task")
}

fn update(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Moved::parse(raw)?;
    let mut writing = Writing::begin(context, UPDATE, &wanted.idempotency_key, raw);
    let tell: Tell<'_, ItemRecord> = &written;
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    let Id(id) = wanted.attempt_id;
    let now = records::current(writing.snapshot(), TASK_ATTEMPT, "attempt_id", id)?;
    may_change(writing.snapshot(), "attempt_id", &now.item)?;
    refuse_illegal(&now, wanted.status)?;
    let mut attributes = now.attributes.clone();
    attributes.insert("status".to_owned(), wanted.status.name().into());
    let evidence = wanted.evidence.map(|list| list.0.into_iter().map(|one| one.0).collect());
    let said = [("note", wanted.note.map(|note| Value::String(note.0))), ("evidence", evidence)];
    for (name, value) in said {
        // Each version has only the note and evidence of its own step; earlier versions have the earlier ones.
        attributes.remove(name);
        attributes.extend(value.map(|value| (name.to_owned(), value)));
    }
    let text = in_words(&attributes);
    let id = writing.add(ItemDraft { text, ..now.next(attributes) })?;
    writing.commit(&ItemRecord::of(TASK_ATTEMPT, id), tell)?.or_overtaken("attempt_id")
}

/// Rejects transitions that [`Standing::moves`] does not allow.
fn refuse_illegal(now: &Record<'_>, to: Standing) -> Result<(), ServiceError> {
    let from = Standing::of(now.text("status"));
    let allowed = from.map(Standing::moves).unwrap_or_default();
    if allowed.contains(&to) {
        return Ok(());
    }
    let from = from.map_or("unknown", Standing::name);
    let why = if allowed.is_empty() {
        format!("is {}; the attempt is {from}, which is final", to.name())
    } else {
        let allowed: Vec<&str> = allowed.iter().map(|standing| standing.name()).collect();
        format!("is {}; from {from} it may go to {}", to.name(), allowed.join(", "))
    };
    Err(ServiceError::argument("status", why))
}

fn list(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Listed::parse(raw)?;
    let paging = Paging::of(LIST, raw, wanted.cursor.as_ref())?;
    let snapshot = context.snapshot();
    let words = wanted.task.map(|task| task.0.to_lowercase());
    let listed = newest(&snapshot, &paging, (&[TASK_ATTEMPT], true), |place| {
        let record = Record::of(&snapshot, place)?;
        let stands = wanted.status.is_none_or(|status| record.text("status") == status.name());
        let says = words.as_ref().is_none_or(|words| {
            record.is_open(&snapshot) && record.text("task").to_lowercase().contains(words)
        });
        Ok(stands && says)
    })?;
    let rows = listed.into_iter().map(|(at, place)| {
        let mut told = Answer::plain(Value::Null, String::new());
        let (shown, line) = shown(&snapshot, place, &mut told)?;
        Ok(Row::new(at, shown, line).touching(told.touched))
    });
    Ok(paging.page(rows)?.into_answer("attempts", "No such attempts."))
}

fn get(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = One::parse(raw)?;
    let snapshot = context.snapshot();
    let Id(id) = wanted.attempt_id;
    let now = records::current(&snapshot, TASK_ATTEMPT, "attempt_id", id)?;
    let mut answer = Answer::plain(Value::Null, String::new());
    let (attempt, line) = shown(&snapshot, now.place, &mut answer)?;
    let (versions, mut truncated) = records::versions(&snapshot, &now)?;
    let mut room = Room::of(HISTORY_BYTES_MAX);
    let newest =
        versions.iter().rev().take(HISTORY_MAX).map(|version| StepFacts::of(&snapshot, version));
    let mut history: Vec<StepFacts<'_>> = newest.take_while(|step| room.takes(step)).collect();
    history.reverse();
    truncated |= history.len() < versions.len();
    answer.text = line;
    for step in &history {
        let [status, note] =
            [step.status, step.note].map(|value| value.and_then(Value::as_str).unwrap_or_default());
        answer.text.push_str(&format!("\n{}: {status} {note}", step.at));
    }
    answer.structured = json!({"attempt": attempt, "history": history, "truncated": truncated});
    if truncated {
        answer.structured["bounds"] = json!({"versions": HISTORY_MAX, "bytes": HISTORY_BYTES_MAX});
    }
    Ok(answer)
}

/// A version of an attempt, as far as policy allows.
#[derive(Debug, Serialize)]
struct StepFacts<'r> {
    item_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'r Value>,
    at: String,
    by: &'r str,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'r Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence_left_out: Option<usize>,
}

impl<'r> StepFacts<'r> {
    fn of(snapshot: &AccessView<'_>, version: &'r Record<'_>) -> Self {
        let said = |name| version.attribute(name).filter(|_| version.is_open(snapshot));
        let (evidence, evidence_left_out) = with_room(said("evidence"), STEP_EVIDENCE_BYTES_MAX);
        Self {
            item_id: names::of_item(&version.item),
            status: version.attribute("status"),
            at: names::time(version.item.recorded_at),
            by: version.item.recorded_by,
            note: said("note"),
            evidence,
            evidence_left_out,
        }
    }
}

/// Evidence that fits into `bytes_max` bytes, and the number of omitted entries.
fn with_room(evidence: Option<&Value>, bytes_max: usize) -> (Option<Value>, Option<usize>) {
    let mut evidence = evidence.cloned();
    let mut room = Room::of(bytes_max);
    if let Some(Value::Array(evidence)) = &mut evidence {
        evidence.retain(|one| room.takes(one));
    }
    (evidence, (room.left_out() > 0).then(|| room.left_out()))
}

fn written(snapshot: &AccessView<'_>, record: &ItemRecord) -> Result<Answer, ServiceError> {
    let id = record.id.parse()?;
    let (place, _) = recalld_tool_framework::reading::written(snapshot, "attempt_id", id)?;
    let mut answer = Answer::plain(Value::Null, String::new());
    let (attempt, line) = shown(snapshot, place, &mut answer)?;
    answer.text = line;
    answer.structured = json!({"attempt": attempt});
    Ok(answer)
}

/// An attempt as JSON and as a line of text, as far as policy allows.
fn shown(
    snapshot: &AccessView<'_>,
    place: RowAddress,
    answer: &mut Answer,
) -> Result<(Value, String), ServiceError> {
    let record = Record::of(snapshot, place)?;
    let verdict = record.verdict(snapshot);
    answer.touched.push(seen(record.item.id, verdict));
    let said = |name: &str| record.attribute(name).filter(|_| verdict == Verdict::Allow);
    let title = Value::from(show::title(&record.item, verdict));
    let task = said("task").unwrap_or(&title);
    let (evidence, left_out) = with_room(said("evidence"), EVIDENCE_BYTES_MAX);
    let shown = without_nulls(json!({
        "attempt_id": record.name(), "item_id": names::of_item(&record.item),
        "task": task, "approach": said("approach"), "status": record.attribute("status"),
        "parent_id": record.attribute("parent"), "note": said("note"), "evidence": evidence,
        "evidence_left_out": left_out, "tags": (verdict == Verdict::Allow).then_some(&record.item.tags),
        "updated_at": names::time(record.item.recorded_at), "by": record.item.recorded_by,
    }));
    let (task, status) = (task.as_str().unwrap_or_default(), record.text("status"));
    let beside = |name: &str, before: &str, behind: &str| {
        let said = said(name).and_then(Value::as_str).map(|said| one_line(said, LINE_CHARS_MAX));
        said.map(|said| format!("{before}{said}{behind}")).unwrap_or_default()
    };
    let (approach, note) = (beside("approach", " (", ")"), beside("note", ": ", ""));
    let line = format!("{} is {status}: {task}{approach}{note}\n", record.name());
    Ok((shown, line))
}

/// Non-null fields of an object.
pub(super) fn fields(object: Value) -> Map<String, Value> {
    match without_nulls(object) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Searchable text of an attempt.
fn in_words(attributes: &Map<String, Value>) -> String {
    let mut text = String::new();
    let labels =
        [("task", "Task"), ("approach", "Approach"), ("status", "Status"), ("note", "Note")];
    for (name, label) in labels {
        if let Some(said) = attributes.get(name).and_then(Value::as_str) {
            text.push_str(&format!("{label}: {said}\n"));
        }
    }
    let evidence = attributes.get("evidence").and_then(Value::as_array);
    for evidence in evidence.into_iter().flatten() {
        text.push_str(&format!("Evidence: {}\n", evidence.as_str().unwrap_or_default()));
    }
    text
}
