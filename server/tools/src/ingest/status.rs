//! `ingest_status_tool`: running and earlier ingest jobs.

use engine::ledger::Effect;
use engine::{RowAddress, Snapshot, Status};
use serde_json::{Map, Value, json};

use recalld_common::counted::counted;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_ingest::job::OPEN_REF;
use recalld_recall::{AccessView, Room};
use recalld_tool_framework::args::{Id, args};
use recalld_tool_framework::paging::{Cursor, Paging, Row};
use recalld_tool_framework::reading::find;
use recalld_tool_framework::records::newest;
use recalld_tool_framework::results::{
    BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always, without_nulls,
};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext, touched};
use recalld_workspace::workspace::Running;

const NAME: &str = "ingest_status_tool";
/// Kind of a job record.
const JOB: &str = "job";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum bytes of a job's paths in an answer, as JSON.
    const PATHS_BYTES_MAX: usize = 16 << 10;
}

args! {
    struct Asked {
        job_id: Option<Id> => "Only this one.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: NAME,
    title: "Ingest jobs",
    about: "Ingest jobs, the newest first: the running one with its progress, earlier ones with what they did.",
    shape: Asked::shape,
    results: &[
        always("jobs", Kind::List).says(
            "Each job_id, state (running, done, cancelled, interrupted), at, by, via, paths, and paths_left_out where \
             these are too long; while it runs done and total; then files, items, unchanged, superseded, links, \
             skipped_count, errors_count, errors[], secrets_count.",
        ),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| status(context, raw),
    example: "{}",
};

fn status(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Asked::parse(raw)?;
    let paging = Paging::of(NAME, raw, wanted.cursor.as_ref())?;
    // Read the running job before the snapshot: a job that ends in between is then listed as running, not omitted.
    let running = context.workspace.running().clone();
    let snapshot = context.snapshot();
    if let Some(Id(id)) = wanted.job_id {
        return match running.filter(|running| running.job == id) {
            Some(running) => Ok(one(shown_running(&running))),
            None => by_id(&snapshot, id),
        };
    }
    let is_running = running.is_some();
    let is_first = paging.after::<Value>()?.is_none();
    let listed = newest(&snapshot, &paging, (&[JOB], false), |place| {
        // The mark of an open job is listed only while it is the latest record of the job.
        let is_mark = snapshot.item(place)?.reference == Some(OPEN_REF);
        Ok(!is_mark || !is_running && snapshot.status(place)? == Status::Current)
    })?;
    let begun = running.filter(|_| is_first).map(|running| {
        let shown = shown_running(&running);
        let key = (running.began.0, running.job.to_string());
        Ok(Row::new(key, shown.clone(), line(&shown)))
    });
    let rows = listed.into_iter().map(|(key, place)| {
        let shown = shown(&snapshot, place)?;
        let read = touched(Effect::Read, snapshot.id(place)?);
        Ok(Row::new(key, shown.clone(), line(&shown)).touching([read]))
    });
    Ok(paging.page(begun.into_iter().chain(rows))?.into_answer("jobs", "Nothing was ingested yet."))
}

fn by_id(snapshot: &AccessView<'_>, id: engine::ItemId) -> Result<Answer, ServiceError> {
    let (place, item) = find(snapshot, "job_id", id)?;
    if item.kind != JOB {
        let why = format!("is the id of a {}; that of a job is wanted", item.kind);
        return Err(ServiceError::argument("job_id", why));
    }
    Ok(one(shown(snapshot, place)?).touching(Effect::Read, [item.id]))
}

fn one(job: Value) -> Answer {
    let text = line(&job);
    Answer::plain(json!({"jobs": [job], "truncated": false}), text)
}

fn shown_running(running: &Running) -> Value {
    let shown = json!({
        "job_id": names::item(JOB, running.job), "state": "running", "at": names::time(running.began),
        "by": running.by, "via": running.via, "paths": running.paths,
        "done": running.done.0, "total": running.done.1,
    });
    with_short_paths(shown)
}

/// Drops the paths beyond the byte budget and reports their number.
fn with_short_paths(mut shown: Value) -> Value {
    let Some(paths) = shown["paths"].as_array_mut() else { return shown };
    let mut room = Room::of(PATHS_BYTES_MAX);
    paths.retain(|path| room.takes(path));
    if room.left_out() > 0 {
        shown["paths_left_out"] = room.left_out().into();
    }
    shown
}

/// JSON of a job that has ended, or of an interrupted job that left only its mark.
fn shown(snapshot: &Snapshot, place: RowAddress) -> Result<Value, ServiceError> {
    let item = snapshot.item(place)?;
    let told: Value = serde_json::from_str(item.text).unwrap_or_default();
    let is_mark = item.reference == Some(OPEN_REF);
    let state = match (is_mark, told["cancelled"] == true) {
        (true, _) => "interrupted",
        (_, true) => "cancelled",
        _ => "done",
    };
    let mut shown = json!({
        "job_id": names::of_item(&item), "state": state, "at": names::time(item.recorded_at),
        "by": item.recorded_by, "via": item.via,
    });
    for name in [
        "paths",
        "files",
        "items",
        "unchanged",
        "superseded",
        "links",
        "skipped_count",
        "errors_count",
        "errors",
        "secrets_count",
    ] {
        shown[name] = told[name].clone();
    }
    Ok(with_short_paths(without_nulls(shown)))
}

fn line(job: &Value) -> String {
    let word = |name: &str| job[name].as_str().unwrap_or_default();
    let how = match job["state"].as_str() {
        Some("running") => format!("{} of {}", job["done"], counted(&job["total"], "step")),
        Some("interrupted") => "was cut off; the next job goes on with it".to_owned(),
        _ => format!(
            "{}, {}, {}",
            counted(&job["files"], "file"),
            counted(&job["items"], "item"),
            counted(&job["errors_count"], "error")
        ),
    };
    format!("{} {} {}: {how}\n", word("at"), word("job_id"), word("state"))
}
