//! `ingest_status_tool`: running and earlier ingest jobs.

use engine::ledger::Effect;
use engine::{RowAddress, Snapshot, Status};
use serde::Serialize;
use serde_json::{Map, Value, json};

use recalld_common::counted::counted;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_ingest::StoredJob;
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
            Some(running) => Ok(one(&JobFacts::running(&running))),
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
        let job = JobFacts::running(&running);
        let key = (running.began.0, running.job.to_string());
        Ok(Row::new(key, job.shown(), job.line()))
    });
    let rows = listed.into_iter().map(|(key, place)| {
        let job = JobFacts::ended(&snapshot, place)?;
        let read = touched(Effect::Read, snapshot.id(place)?);
        Ok(Row::new(key, job.shown(), job.line()).touching([read]))
    });
    Ok(paging.page(begun.into_iter().chain(rows))?.into_answer("jobs", "Nothing was ingested yet."))
}

fn by_id(snapshot: &AccessView<'_>, id: engine::ItemId) -> Result<Answer, ServiceError> {
    let (place, item) = find(snapshot, "job_id", id)?;
    if item.kind != JOB {
        let why = format!("is the id of a {}; that of a job is wanted", item.kind);
        return Err(ServiceError::argument("job_id", why));
    }
    Ok(one(&JobFacts::ended(snapshot, place)?).touching(Effect::Read, [item.id]))
}

fn one(job: &JobFacts<'_>) -> Answer {
    Answer::plain(json!({"jobs": [job.shown()], "truncated": false}), job.line())
}

/// A job in an answer.
#[derive(Debug, Serialize)]
struct JobFacts<'s> {
    job_id: String,
    state: &'static str,
    at: String,
    by: &'s str,
    via: &'s str,
    #[serde(flatten)]
    figures: Figures,
    paths_left_out: Option<usize>,
}

/// Paths and counts of a job.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Figures {
    Running { paths: Vec<String>, done: u64, total: u64 },
    Ended(Box<StoredJob>),
}

impl<'s> JobFacts<'s> {
    fn running(running: &'s Running) -> Self {
        let mut paths = running.paths.clone();
        let paths_left_out = shorten(&mut paths);
        let (done, total) = running.done;
        Self {
            job_id: names::item(JOB, running.job),
            state: "running",
            at: names::time(running.began),
            by: &running.by,
            via: running.via,
            figures: Figures::Running { paths, done, total },
            paths_left_out,
        }
    }

    /// Facts of a job that has ended, or of an interrupted job that left only its mark.
    fn ended(snapshot: &'s Snapshot, place: RowAddress) -> Result<Self, ServiceError> {
        let item = snapshot.item(place)?;
        let mut stored = StoredJob::of(item.text);
        let state = match (item.reference == Some(OPEN_REF), stored.is_cancelled()) {
            (true, _) => "interrupted",
            (_, true) => "cancelled",
            _ => "done",
        };
        Ok(Self {
            job_id: names::of_item(&item),
            state,
            at: names::time(item.recorded_at),
            by: item.recorded_by,
            via: item.via,
            paths_left_out: stored.paths.as_array_mut().and_then(shorten),
            figures: Figures::Ended(Box::new(stored)),
        })
    }

    /// JSON of the job, without the fields that its record lacks.
    fn shown(&self) -> Value {
        without_nulls(json!(self))
    }

    fn line(&self) -> String {
        let how = match &self.figures {
            Figures::Running { done, total, .. } => format!("{done} of {}", counted(total, "step")),
            Figures::Ended(_) if self.state == "interrupted" => {
                "was cut off; the next job goes on with it".to_owned()
            }
            Figures::Ended(job) => format!(
                "{}, {}, {}",
                counted(&job.files, "file"),
                counted(&job.items, "item"),
                counted(&job.errors_count, "error")
            ),
        };
        format!("{} {} {}: {how}\n", self.at, self.job_id, self.state)
    }
}

/// Drops the paths beyond the byte budget and returns their number, if any.
fn shorten(paths: &mut Vec<impl Serialize>) -> Option<usize> {
    let mut room = Room::of(PATHS_BYTES_MAX);
    paths.retain(|path| room.takes(path));
    Some(room.left_out()).filter(|count| *count > 0)
}
