//! Sources of items: the list, and the provenance of one source.
//!
//! A source is visible to a caller that may know of one of its items. All shown data counts only such items.

use std::cmp::Reverse;

use engine::{ItemId, Micros, RowAddress, SourceId, SourceView, Status, TopK, hex};
use serde_json::{Map, Value, json};

use recalld_common::counted::counted;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_policy::{Action, Verdict};
use recalld_recall::{AccessView, Room};
use recalld_tool_framework::args::{Source, Text, args};
use recalld_tool_framework::paging::{Cursor, PAGE_BYTES_MAX, Paging, ROWS_MAX, Row, not_ours};
use recalld_tool_framework::reading::{ItemSummary, seen};
use recalld_tool_framework::results::{
    BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always, without_nulls,
};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const LIST: &str = "list_sources_tool";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum items of a source in one answer.
    const SOURCE_ITEMS_MAX: usize = 100;
}

/// Items scanned between two checks for cancellation.
const ITEMS_TOGETHER: usize = 1_024;
const NO_SUCH_SOURCE: &str = "there is no such source";

args! {
    struct Listed {
        uri_prefix: Option<Text<1, 2048>> => "Such as file:/// or https://.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

args! {
    struct One {
        source_id: Source => "The source.",
    }
}

pub(super) const LIST_ROW: Tool = Tool {
    name: LIST,
    title: "List sources",
    about: "What memories were read from, newest first: files, addresses, texts.",
    shape: Listed::shape,
    results: &[
        always("sources", Kind::List).says(
            "source_id, kind, uri, title, content_sha256 where it is known, items, first_seen (when it was \
             read) and last_seen (when an item of it was recorded last).",
        ),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| list(context, raw),
    example: r#"{"uri_prefix": "https://example.org/"}"#,
};

pub(super) const ONE_ROW: Tool = Tool {
    name: "source_provenance_tool",
    title: "Where a source came from",
    about: "One source: when, by whom and by which tool or job it came in, and its items.",
    shape: One::shape,
    results: &[
        always("source", Kind::Object).says("As `sources` of list_sources_tool, with bytes."),
        always("came_in", Kind::Object).says("at, by, via (the tool), job_id where a job read it."),
        always("items", Kind::List).says("id, kind, title, status, recorded_at; oldest first."),
        TRUNCATED,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| one(context, raw),
    example: r#"{"source_id": "src_0000000000000000000000000a"}"#,
};

/// Sort key of a source: recording time in microseconds since 1970, and id.
type Recency = (i64, String);

fn list(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Listed::parse(raw)?;
    let paging = Paging::of(LIST, raw, wanted.cursor.as_ref())?;
    let snapshot = context.snapshot();
    let after = match paging.after::<Recency>()? {
        Some((at, id)) => Some((Micros(at), id.parse::<SourceId>().map_err(|_| not_ours())?)),
        None => None,
    };
    let prefix = wanted.uri_prefix.map(|prefix| prefix.0).unwrap_or_default();
    let mut top: TopK<Micros, Reverse<SourceId>> = TopK::new(ROWS_MAX + 1);
    snapshot.for_each_source(|source| {
        let (at, key) = (source.recorded_at, Reverse(source.id));
        let is_later = after.is_none_or(|after| (at, source.id) < after);
        if is_later
            && source.uri.starts_with(&prefix)
            && top.would_accept(at, &key)
            && Known::any(&snapshot, source.id)?
        {
            top.offer(at, key);
        }
        Ok::<(), ServiceError>(())
    })?;
    let rows = top.into_sorted().into_iter().map(|(at, Reverse(id))| {
        let source = snapshot.source(id)?.ok_or_else(no_such_source)?;
        let known = Known::of(&snapshot, id)?;
        let items = counted(known.items.len(), "item");
        let line = format!("{} {} ({items})\n", names::source(id), source.uri);
        Ok(Row::new((at.0, id.to_string()), known.shown(&source), line))
    });
    Ok(paging.page(rows)?.into_answer("sources", "No such sources."))
}

fn no_such_source() -> ServiceError {
    ServiceError::Missing { field: "source_id", why: NO_SUCH_SOURCE.to_owned() }
}

struct Known {
    items: Vec<(ItemId, RowAddress, Verdict)>,
    last_recorded: Option<Micros>,
    /// A denied item with the rule, if any.
    denied: Option<(ItemId, String)>,
}

impl Known {
    fn of(snapshot: &AccessView<'_>, id: SourceId) -> Result<Self, ServiceError> {
        let mut known = Self { items: Vec::new(), last_recorded: None, denied: None };
        for place in snapshot.items_by_source(id)? {
            snapshot.check_cancelled()?;
            if snapshot.status(place)? == Status::Tombstoned {
                continue;
            }
            let item = snapshot.item(place)?;
            let (verdict, rule) = snapshot.judge(&item, Action::Read);
            if verdict == Verdict::Deny {
                known.denied.get_or_insert_with(|| (item.id, rule.to_string()));
                continue;
            }
            known.items.push((item.id, place, verdict));
            known.last_recorded = known.last_recorded.max(Some(item.recorded_at));
        }
        Ok(known)
    }

    /// Returns true if the caller may know of one of the source's items; stops at the first.
    fn any(snapshot: &AccessView<'_>, id: SourceId) -> Result<bool, ServiceError> {
        for place in snapshot.items_by_source(id)? {
            let is_hidden = snapshot.status(place)? == Status::Tombstoned;
            if !is_hidden && snapshot.may_know(&snapshot.item(place)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The source as a row. The content hash is omitted unless the caller may read the whole content, because the hash
    /// would confirm a guessed text.
    fn shown(&self, source: &SourceView<'_>) -> Value {
        let is_open = self.denied.is_none()
            && self.items.iter().all(|(_, _, verdict)| *verdict == Verdict::Allow);
        let has_hash = is_open && source.content_sha256 != [0; 32];
        let last_seen = self.last_recorded.max(Some(source.recorded_at));
        without_nulls(json!({
            "source_id": names::source(source.id), "kind": source.kind, "uri": source.uri,
            "title": (is_open && !source.title.is_empty()).then_some(source.title),
            "content_sha256": has_hash.then(|| hex(&source.content_sha256)),
            "bytes": has_hash.then_some(source.bytes),
            "items": self.items.len(),
            "first_seen": names::time(source.recorded_at), "last_seen": last_seen.map(names::time),
        }))
    }
}

fn one(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = One::parse(raw)?;
    let snapshot = context.snapshot();
    let Source(id) = wanted.source_id;
    let source = snapshot.source(id)?.ok_or_else(no_such_source)?;
    let known = Known::of(&snapshot, id)?;
    if known.items.is_empty() {
        let Some((item, rule)) = known.denied else { return Err(no_such_source()) };
        let why = NO_SUCH_SOURCE.to_owned();
        return Err(ServiceError::Denied { field: "source_id", why, item, rule });
    }
    let came_in = without_nulls(json!({
        "at": names::time(source.recorded_at), "by": source.recorded_by, "via": source.via,
        "job_id": job_of(&snapshot, &source)?,
    }));
    let mut answer = Answer::plain(Value::Null, String::new());
    let mut room = Room::of(PAGE_BYTES_MAX);
    let mut items = Vec::new();
    for (id, place, verdict) in known.items.iter().take(SOURCE_ITEMS_MAX) {
        let row = ItemSummary::of(&snapshot, *place)?;
        if !room.takes(&row) {
            break;
        }
        answer.touched.push(seen(*id, *verdict));
        items.push(row);
    }
    answer.text = format!(
        "{} was read at {} by {} ({}); {}.",
        source.uri,
        names::time(source.recorded_at),
        source.recorded_by,
        source.via,
        counted(known.items.len(), "item"),
    );
    let truncated = items.len() < known.items.len();
    answer.structured = json!({
        "source": known.shown(&source), "came_in": came_in, "items": items, "truncated": truncated,
    });
    Ok(answer)
}

/// The job that read a source: of the jobs by the same caller and tool, the first that ended after the source was
/// recorded. Ingest jobs run one at a time, and the source of an interrupted job is assigned to the next.
fn job_of(
    snapshot: &AccessView<'_>,
    source: &SourceView<'_>,
) -> Result<Option<String>, ServiceError> {
    let mut first: Option<(Micros, ItemId)> = None;
    for (count, place) in snapshot.item_addresses()?.enumerate() {
        if count.is_multiple_of(ITEMS_TOGETHER) {
            snapshot.check_cancelled()?;
        }
        if snapshot.kind(place)? != "job" || snapshot.status(place)? == Status::Tombstoned {
            continue;
        }
        let job = snapshot.item(place)?;
        let at = job.recorded_at;
        if at < source.recorded_at || first.is_some_and(|(first, _)| first <= at) {
            continue;
        }
        // A job record with a ref is the mark of a job that has not ended.
        let is_ended = job.reference.is_none();
        let is_alike = job.recorded_by == source.recorded_by && job.via == source.via;
        if is_ended && is_alike && snapshot.may_know(&job) {
            first = Some((at, job.id));
        }
    }
    Ok(first.map(|(_, id)| names::item("job", id)))
}
