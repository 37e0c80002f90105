//! Follow-ups: reminders with a due time, once or repeated.

use std::cmp::Reverse;
use std::sync::Arc;

use engine::{Filter, ItemDraft, ItemId, Micros, RowAddress, Snapshot, TopK, VisibilityMask};
use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter, Pieces};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::record::{ABOUT, About, keep_known_about, standing};
use super::repeats::{Repeat, next_after};
use crate::work::fields;
use recalld_common::counted::lasting;
use recalld_common::names;
use recalld_common::own_kinds::FOLLOWUP;
use recalld_common::scope::Scope;
use recalld_policy::Verdict;
use recalld_recall::{AccessView, show};
use recalld_tool_framework::args::{Argument, Id, Shown, Text, Time, Zone, args, refuse_blank};
use recalld_tool_framework::paging::{Cursor, Paging, ROWS_MAX, Row, not_ours};
use recalld_tool_framework::reading::seen;
use recalld_tool_framework::records;
use recalld_tool_framework::records::{Recency, Record, draft};
use recalld_tool_framework::results::{
    BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always, sometimes, without_nulls,
};
use recalld_tool_framework::writing::{Key, StoredId, Tell, Writing, first_line, may_change};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const SCHEDULE_NAME: &str = "schedule_followup_tool";
const COMPLETE_NAME: &str = "complete_followup_tool";
const DUE_NAME: &str = "due_followups_tool";
/// Description of the fields of a follow-up in a result.
const TOLD: &str = "followup_id, item_id of its newest version, text, due_at, due_local by the clocks of its time \
                    zone, state, repeat, timezone, about, note, updated_at, by. Of a redacted one the ids alone.";
/// Attribute of the follow-up's state.
const STATE: &str = "state";
const OPEN: &str = "open";
const DONE: &str = "done";
const DUE_AT: &str = "due_at";
/// Relation from a follow-up to its predecessor in a repeated series.
const FOLLOWS: &str = "follows";

/// Due time, with the time zone or offset of the argument.
#[derive(Debug)]
struct DueAt {
    at: Micros,
    zone: TimeZone,
}

impl Argument for DueAt {
    fn schema() -> Value {
        Time::schema()
    }

    fn read(value: &Value) -> Result<Self, String> {
        let Time(at) = Time::read(value)?;
        let pieces = Pieces::parse(value.as_str().unwrap_or_default());
        let pieces = pieces.map_err(|error| format!("not a time in RFC 3339: {error}"))?;
        let zone = pieces.to_time_zone().map_err(|error| format!("its time zone: {error}"))?;
        let offset = pieces.to_numeric_offset();
        // A zero offset is stored as UTC, which has a name.
        let fixed = offset.filter(|offset| !offset.is_zero()).map(TimeZone::fixed);
        Ok(Self { at, zone: zone.or(fixed).unwrap_or(TimeZone::UTC) })
    }
}

impl Shown for DueAt {
    fn shown(&self) -> Option<Value> {
        None
    }
}

args! {
    struct NewFollowup {
        text: Text<1, 2000> => "What to come back to.",
        due_at: DueAt => "When.",
        item_id: Option<Id> => "What it is about.",
        repeat: Repeat = Repeat::None => "How often.",
        timezone: Option<Zone> => "IANA, whose clocks repeats go by; else due_at's offset.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

args! {
    struct Completed {
        followup_id: Id => "The follow-up.",
        note: Option<Text<1, 8000>> => "What came of it.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

args! {
    struct Due {
        before: Option<Time> => "Due by then; now by default.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

pub(super) const SCHEDULE: Tool = Tool {
    name: SCHEDULE_NAME,
    title: "Schedule a follow-up",
    about: "Note something to come back to at a time, once or again and again. due_followups_tool \
            tells what is due; nobody is reminded.",
    shape: NewFollowup::shape,
    results: &[always("followup", Kind::Object).says(TOLD)],
    scope: Some(Scope::MemoryWrite),
    change: Change::Adds,
    core: false,
    run: |context, raw| schedule(context, raw),
    example: r#"{"text": "Check the wick", "due_at": "2026-02-01T09:00:00+01:00", "repeat": "monthly"}"#,
};

pub(super) const COMPLETE: Tool = Tool {
    name: COMPLETE_NAME,
    title: "Complete a follow-up",
    about: "Close an open follow-up. One that repeats opens its next one, after now.",
    shape: Completed::shape,
    results: &[
        always("followup", Kind::Object).says(TOLD),
        sometimes("next", Kind::Object).says("The next one, if it repeats, in the same form."),
    ],
    scope: Some(Scope::MemoryWrite),
    change: Change::Adds,
    core: false,
    run: |context, raw| complete(context, raw),
    example: r#"{"followup_id": "fup_00000000000000000000000008"}"#,
};

pub(super) const DUE: Tool = Tool {
    name: DUE_NAME,
    title: "Due follow-ups",
    about: "Open follow-ups that are due, soonest first.",
    shape: Due::shape,
    results: &[
        always("followups", Kind::List).says(
            "Each as `followup` of schedule_followup_tool, and overdue_by: an ISO 8601 duration in hours, minutes \
             and seconds, such as PT26H; left out before it is due.",
        ),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| due(context, raw),
    example: r#"{"before": "2030-01-01T00:00:00Z"}"#,
};

/// Idempotency record of both writing tools.
#[derive(Debug, Serialize, Deserialize)]
struct FollowupRecord {
    id: StoredId,
    /// The next follow-up of a repeated series.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<StoredId>,
}

fn schedule(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = NewFollowup::parse(raw)?;
    refuse_blank("text", &wanted.text.0)?;
    let mut writing = Writing::begin(context, SCHEDULE_NAME, &wanted.idempotency_key, raw);
    let tell: Tell<'_, FollowupRecord> = &|snapshot, record| told(context, snapshot, record);
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    let about = About::find(writing.snapshot(), wanted.item_id.as_ref())?;
    let zone = wanted.timezone.map_or(wanted.due_at.zone, |zone| zone.0);
    let due_at = names::time(wanted.due_at.at);
    let attributes = fields(json!({
        "text": wanted.text.0, STATE: OPEN, DUE_AT: due_at, "first_due_at": due_at,
        "repeat": wanted.repeat.name(), "timezone": name_of(&zone),
        ABOUT: about.as_ref().map(|about| &about.name),
    }));
    let id = context.workspace.store.new_item_id();
    let text = in_words(&attributes);
    let mut item = draft(FOLLOWUP, id, attributes);
    item.id = Some(id);
    item.title = first_line(&wanted.text.0);
    item.text = text;
    if let Some(about) = &about {
        about.cover(&mut item);
    }
    let id = writing.add(item)?;
    if let Some(about) = about {
        writing.link(id, about.id, ABOUT);
    }
    let record = FollowupRecord { id: StoredId::of(FOLLOWUP, id), next: None };
    writing.commit(&record, tell)?.or_overtaken("text")
}

fn complete(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Completed::parse(raw)?;
    let mut writing = Writing::begin(context, COMPLETE_NAME, &wanted.idempotency_key, raw);
    let tell: Tell<'_, FollowupRecord> = &|snapshot, record| told(context, snapshot, record);
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    let Id(id) = wanted.followup_id;
    let (done, next) = {
        let snapshot = writing.snapshot();
        let now = records::current(snapshot, FOLLOWUP, "followup_id", id)?;
        may_change(snapshot, "followup_id", &now.item)?;
        refuse_done(&now)?;
        (closed(&now, wanted.note.map(|note| note.0)), next_of(context, snapshot, &now)?)
    };
    let done = writing.add(done)?;
    let mut record = FollowupRecord { id: StoredId::of(FOLLOWUP, done), next: None };
    if let Some((item, about)) = next {
        let next = writing.add(item)?;
        writing.link(next, done, FOLLOWS);
        if let Some(about) = about {
            writing.link(next, about, ABOUT);
        }
        record.next = Some(StoredId::of(FOLLOWUP, next));
    }
    writing.commit(&record, tell)?.or_overtaken("followup_id")
}

fn refuse_done(now: &Record<'_>) -> Result<(), ServiceError> {
    if now.text(STATE) != DONE {
        return Ok(());
    }
    let why = format!("was done at {}; an open one is wanted", names::time(now.item.recorded_at));
    Err(ServiceError::argument("followup_id", why))
}

/// Draft of the version with state `done`.
fn closed(now: &Record<'_>, note: Option<String>) -> ItemDraft {
    let mut attributes = now.attributes.clone();
    attributes.insert(STATE.to_owned(), DONE.into());
    attributes.extend(note.map(|note| ("note".to_owned(), note.into())));
    ItemDraft { text: in_words(&attributes), ..now.next(attributes) }
}

/// Draft of the next follow-up of a repeated series, and the subject item if it still exists.
fn next_of(
    context: &ToolContext<'_>,
    snapshot: &Snapshot,
    now: &Record<'_>,
) -> Result<Option<(ItemDraft, Option<ItemId>)>, ServiceError> {
    let repeat = Repeat::of(now.text("repeat")).unwrap_or(Repeat::None);
    let Some(due) = now.time(DUE_AT) else { return Ok(None) };
    let first = now.time("first_due_at").unwrap_or(due);
    // A follow-up completed before its due time counts for that due time.
    let after = context.services.clock.now().max(due);
    let Some(next) = next_after(first, &zone_of(now), repeat, after) else { return Ok(None) };
    let mut attributes = now.attributes.clone();
    attributes.insert(DUE_AT.to_owned(), names::time(next).into());
    attributes.remove("note");
    let about = standing(snapshot, now.text(ABOUT))?.map(|(_, item)| item.id);
    let id = context.workspace.store.new_item_id();
    let reference = draft(FOLLOWUP, id, Map::new()).reference;
    let text = in_words(&attributes);
    let item = now.next(attributes);
    let item = ItemDraft { id: Some(id), reference, text, supersedes: Vec::new(), ..item };
    Ok(Some((item, about)))
}

fn due(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Due::parse(raw)?;
    let paging = Paging::of(DUE_NAME, raw, wanted.cursor.as_ref())?;
    let before = wanted.before.map_or_else(|| context.services.clock.now(), |before| before.0);
    let after = match paging.after::<Recency>()? {
        Some((at, id)) => Some((Micros(at), id.parse::<ItemId>().map_err(|_| not_ours())?)),
        None => None,
    };
    let snapshot = context.snapshot();
    let hidden = snapshot.hidden()?;
    let (_, listed) = soonest(&snapshot, hidden, (after, before), ROWS_MAX + 1)?;
    let rows = listed.into_iter().map(|(at, id, place)| {
        let mut told = Answer::plain(Value::Null, String::new());
        let (shown, line) = shown(context, &snapshot, place, &mut told)?;
        Ok(Row::new((at.0, id.to_string()), shown, line).touching(told.touched))
    });
    Ok(paging.page(rows)?.into_answer("followups", "Nothing is due."))
}

/// An open follow-up: due time, id and row address of its version.
pub(crate) type Open = (Micros, ItemId, RowAddress);

/// Open follow-ups due up to `before` and after the position `after`, soonest first. Returns their total and at most
/// `most` follow-ups.
pub(crate) fn soonest(
    snapshot: &Snapshot,
    hidden: Option<Arc<VisibilityMask>>,
    (after, before): (Option<(Micros, ItemId)>, Micros),
    most: usize,
) -> Result<(usize, Vec<Open>), ServiceError> {
    let kinds = vec![FOLLOWUP.to_owned()];
    let filter = Filter { kinds, current_only: true, mask: hidden, ..Filter::default() };
    let mut top: TopK<Reverse<Micros>, (ItemId, RowAddress)> = TopK::new(most);
    let mut count = 0;
    snapshot.for_each_admitted(&filter, |_, place| {
        let record = Record::of(snapshot, place)?;
        let Some(due) = record.time(DUE_AT).filter(|_| record.text(STATE) == OPEN) else {
            return Ok(());
        };
        if due <= before && after.is_none_or(|after| (due, record.item.id) > after) {
            count += 1;
            top.offer(Reverse(due), (record.item.id, place));
        }
        Ok::<(), ServiceError>(())
    })?;
    let sorted = top.into_sorted().into_iter();
    Ok((count, sorted.map(|(Reverse(due), (id, place))| (due, id, place)).collect()))
}

fn told(
    context: &ToolContext<'_>,
    snapshot: &AccessView<'_>,
    record: &FollowupRecord,
) -> Result<Answer, ServiceError> {
    let mut answer = Answer::plain(json!({}), String::new());
    for (field, id) in [("followup", Some(&record.id)), ("next", record.next.as_ref())] {
        let Some(id) = id else { continue };
        let (place, _) = id.find(snapshot)?;
        let (shown, line) = shown(context, snapshot, place, &mut answer)?;
        answer.text.push_str(&line);
        answer.structured[field] = shown;
    }
    Ok(answer)
}

/// A follow-up as JSON and as a line of text, as far as policy allows.
fn shown(
    context: &ToolContext<'_>,
    snapshot: &AccessView<'_>,
    place: RowAddress,
    answer: &mut Answer,
) -> Result<(Value, String), ServiceError> {
    let record = Record::of(snapshot, place)?;
    let verdict = record.verdict(snapshot);
    answer.touched.push(seen(record.item.id, verdict));
    let (name, item) = (record.name(), names::of_item(&record.item));
    if verdict != Verdict::Allow {
        let text = show::title(&record.item, verdict);
        let shown = json!({"followup_id": name, "item_id": item, "text": text});
        return Ok((shown, format!("{name}: {text}\n")));
    }
    let mut attributes = record.attributes.clone();
    keep_known_about(snapshot, &mut attributes)?;
    let attribute = |name: &str| attributes.get(name).cloned();
    let due = record.time(DUE_AT);
    let is_open = record.text(STATE) == OPEN;
    let late = due.filter(|_| is_open).and_then(|due| late_seconds(due, context));
    let text = attribute("text").unwrap_or_else(|| record.item.title.into());
    let due_local = due.and_then(|due| local(due, zone_of(&record)));
    let line = format!(
        "{name} is {}, due {}{}{}: {}\n",
        record.text(STATE),
        due_local.as_deref().unwrap_or(record.text(DUE_AT)),
        late.map(|late| format!(", overdue by {}", lasting(late))).unwrap_or_default(),
        again(&record).map(|repeat| format!(", {repeat}")).unwrap_or_default(),
        text.as_str().map(first_line).unwrap_or_default(),
    );
    let shown = without_nulls(json!({
        "followup_id": name, "item_id": item, "text": text, DUE_AT: attribute(DUE_AT),
        "due_local": due_local, STATE: attribute(STATE),
        "repeat": attribute("repeat"), "timezone": attribute("timezone"), ABOUT: attribute(ABOUT),
        "note": attribute("note"), "overdue_by": late.map(iso_duration),
        "updated_at": names::time(record.item.recorded_at), "by": record.item.recorded_by,
    }));
    Ok((shown, line))
}

/// The repeat interval; `None` if the follow-up does not repeat.
fn again<'a>(record: &'a Record<'_>) -> Option<&'a str> {
    let repeat = record.text("repeat");
    Repeat::of(repeat).is_some_and(|repeat| repeat != Repeat::None).then_some(repeat)
}

/// Whole seconds since the due time; `None` before the due time.
fn late_seconds(due: Micros, context: &ToolContext<'_>) -> Option<u64> {
    const SECOND: u64 = 1_000_000;
    let late = context.services.clock.now().0.saturating_sub(due.0);
    u64::try_from(late).ok().map(|late| late / SECOND)
}

/// Duration in ISO 8601.
fn iso_duration(seconds: u64) -> String {
    SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)).to_string()
}

/// Local time in a zone (RFC 9557).
fn local(at: Micros, zone: TimeZone) -> Option<String> {
    Timestamp::from_microsecond(at.0).ok().map(|time| time.to_zoned(zone).to_string())
}

/// Stored name of a zone: IANA name or offset.
fn name_of(zone: &TimeZone) -> Option<String> {
    DateTimePrinter::new().time_zone_to_string(zone).ok()
}

/// Time zone of a follow-up; UTC if no valid zone is stored.
fn zone_of(record: &Record<'_>) -> TimeZone {
    let zone = DateTimeParser::new().parse_time_zone(record.text("timezone"));
    zone.unwrap_or(TimeZone::UTC)
}

/// Searchable text of a follow-up.
fn in_words(attributes: &Map<String, Value>) -> String {
    let text = |name: &str| attributes.get(name).and_then(Value::as_str);
    let word = |name: &str| text(name).unwrap_or_default();
    let mut words = format!("Follow-up: {}\nDue: {}", word("text"), word(DUE_AT));
    let repeat = word("repeat");
    if Repeat::of(repeat).is_some_and(|repeat| repeat != Repeat::None) {
        words.push_str(&format!(", {repeat} ({})", word("timezone")));
    }
    words.push_str(&format!("\nState: {}", word(STATE)));
    if let Some(note) = text("note") {
        words.push_str(&format!("\nNote: {note}"));
    }
    words
}
