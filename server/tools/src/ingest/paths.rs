//! `ingest_paths_tool`: ingests files below the ingest roots.

use std::cell::Cell;

use engine::ledger::Effect;
use engine::{Batch, ItemId, Sensitivity, WriteError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use recalld_common::counted::counted;
use recalld_fs_util::roots::Roots;
use recalld_ingest::ReportFacts;
use recalld_ingest::job::{BrokenOff, Job, JobError, Report, Request};
use recalld_policy::{Action, Verdict};

use recalld_common::scope::Scope;
use recalld_tool_framework::args::{List, Text, args};
use recalld_tool_framework::idempotency::Keyed;
use recalld_tool_framework::results::{Kind, always, sometimes, without_nulls};
use recalld_tool_framework::writing::Key;
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};
use recalld_workspace::workspace::{Running, Workspace};

/// Name of the tool that waits until no other ingest runs.
pub(crate) const NAME: &str = "ingest_paths_tool";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum skipped entries in the text of a dry run; the report lists all that were recorded.
    const SKIPPED_TOLD_MAX: usize = 32;
}

args! {
    struct IngestPaths {
        paths: List<Text<1, 4096>, 1, 64> => "Absolute, or beneath an ingest root.",
        recursive: bool = true => "Walk folders.",
        include: Option<List<Text<1, 512>, 0, 64>> => "Globs to keep, such as *.md.",
        exclude: Option<List<Text<1, 512>, 0, 64>> => "Globs to leave out.",
        sensitivity: Option<Sensitivity> => "Internal by default.",
        dry_run: bool = false => "Write nothing.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: NAME,
    title: "Ingest files",
    about: "Read files under the operator's ingest roots into memory: Markdown, text, code, \
            HTML, PDF, images, CSV, JSON Lines. Changed files supersede their old version. Not for single facts: use \
            brain_remember.",
    shape: IngestPaths::shape,
    results: &[
        sometimes("job_id", Kind::Text).says("Of the job; none of a dry run."),
        always("files", Kind::Integer).says("Files that were looked at."),
        always("items", Kind::Integer).says("Items that were stored."),
        always("embedded", Kind::Integer).says("Texts that were embedded."),
        always("unchanged", Kind::Integer).says("Files that are stored as they are."),
        always("superseded", Kind::Integer).says("Documents that a newer version replaces."),
        always("links", Kind::Integer).says("Edges between files."),
        always("skipped", Kind::List).says("Each {path, why}: what is not for reading."),
        always("skipped_count", Kind::Integer).says("How many."),
        always("errors", Kind::List).says("Each {path, why}: what could not be read."),
        always("errors_count", Kind::Integer).says("How many."),
        always("secrets", Kind::List)
            .says("Each {path, line, kind}: what held it is restricted now."),
        always("secrets_count", Kind::Integer).says("How many."),
        always("cancelled", Kind::Flag).says("Whether it was called off."),
        always("truncated", Kind::Flag).says("Whether skipped, errors or secrets name only some."),
        always("dry_run", Kind::Flag).says("Whether nothing was stored."),
    ],
    scope: Some(Scope::IngestWrite),
    change: Change::AddsOnce,
    core: false,
    run: |context, raw| ingest_paths(context, raw),
    example: r#"{"paths": ["README.md"], "dry_run": true}"#,
};

/// Converts an optional list argument to strings; empty if omitted.
pub fn texts<const A: usize, const B: usize, const C: usize, const D: usize>(
    list: Option<List<Text<A, B>, C, D>>,
) -> Vec<String> {
    list.into_iter().flat_map(|list| list.0).map(|text| text.0).collect()
}

fn ingest_paths(
    context: &ToolContext<'_>,
    raw: &Map<String, Value>,
) -> Result<Answer, ServiceError> {
    let wanted = IngestPaths::parse(raw)?;
    let keyed = wanted.idempotency_key.as_ref().map(|key| Keyed::of(NAME, &key.0, raw));
    if let Some(told) = first_answer(context, keyed.as_ref())? {
        return Ok(told);
    }
    let request = Request {
        paths: texts(Some(wanted.paths)),
        recursive: wanted.recursive,
        include: texts(wanted.include),
        exclude: texts(wanted.exclude),
        sensitivity: wanted.sensitivity,
        dry_run: wanted.dry_run,
        by: context.caller.principal.clone(),
        via: NAME,
    };
    let roots = context.workspace.roots();
    refuse_hidden(&roots, &request.paths)?;
    let report = run(context, &roots, &request)?;
    let shown = PathsAnswer { report: report.facts(), dry_run: request.dry_run };
    let structured = without_nulls(json!(shown)); // a dry run is no job
    let text = readable(&report, request.dry_run);
    if let Some(keyed) = keyed.filter(|_| !request.dry_run && !report.cancelled) {
        let record = PathsRecord { structured: structured.clone(), text: text.clone() };
        if let Some(first) = remember(context, &keyed, &record)? {
            return Ok(first);
        }
    }
    let answer = Answer::plain(structured, text);
    let answer = answer.raising(report.raised, &report.secret_kinds).lowering(report.lowered);
    Ok(answer.touching(Effect::Written, report.documents))
}

/// The result.
#[derive(Debug, Serialize)]
struct PathsAnswer<'r> {
    #[serde(flatten)]
    report: ReportFacts<'r>,
    dry_run: bool,
}

/// Idempotency record: the response itself.
#[derive(Serialize, Deserialize)]
struct PathsRecord {
    structured: Value,
    text: String,
}

/// Response of an earlier call with this idempotency key. The stored response contains only paths and counts, which
/// remain correct.
fn first_answer(
    context: &ToolContext<'_>,
    keyed: Option<&Keyed>,
) -> Result<Option<Answer>, ServiceError> {
    let snapshot = context.snapshot();
    let record = keyed.map(|keyed| keyed.first_record(&snapshot)).transpose()?.flatten();
    Ok(record.map(|PathsRecord { structured, text }| Answer::plain(structured, text)))
}

/// Stores the response for repeats. If another call with this idempotency key was first, returns its response.
fn remember(
    context: &ToolContext<'_>,
    keyed: &Keyed,
    record: &PathsRecord,
) -> Result<Option<Answer>, ServiceError> {
    let item = keyed.remember(context, NAME, record);
    let store = &context.workspace.store;
    match store.write(Batch { items: vec![item], ..Batch::default() }) {
        Ok(_) => Ok(None),
        Err(WriteError::Refused { field: "ref", .. }) => {
            store.sync()?;
            first_answer(context, Some(keyed))
        }
        Err(error) => Err(error.into()),
    }
}

/// Rejects hidden paths: a walk skips hidden files and folders, and a client cannot bypass that by naming one.
fn refuse_hidden(roots: &Roots, paths: &[String]) -> Result<(), ServiceError> {
    for path in paths {
        let Ok(found) = roots.resolve(path) else { continue }; // the job says what is wrong
        if found.relative().split('/').any(|part| part.starts_with('.')) {
            let why = format!("{path} is hidden; names that begin with a dot are not read");
            return Err(ServiceError::argument("paths", why));
        }
    }
    Ok(())
}

/// Registers a running job for `ingest_status_tool`; unregisters the job on drop.
struct Shown<'a> {
    workspace: &'a Workspace,
    job: ItemId,
}

impl<'a> Shown<'a> {
    fn begin(context: &'a ToolContext<'_>, job: ItemId, request: &Request) -> Self {
        let running = Running {
            job,
            by: request.by.clone(),
            via: request.via,
            paths: request.paths.iter().map(|path| recalld_secret_scan::masked(path)).collect(),
            began: context.services.clock.now(),
            done: (0, 0),
        };
        *context.workspace.running() = Some(running);
        Self { workspace: context.workspace, job }
    }

    fn tell(&self, done: u64, total: u64) {
        if let Some(running) = self.workspace.running().as_mut() {
            running.done = (done, total);
        }
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        *self.workspace.running() = None;
    }
}

/// Runs an ingest job for a caller, restricted to `roots`. Jobs run one at a time, because two jobs reading one file
/// would both treat the file as new.
pub fn run(
    context: &ToolContext<'_>,
    roots: &Roots,
    request: &Request,
) -> Result<Report, ServiceError> {
    let _turn =
        context.workspace.ingesting.take(&context.scope()).ok_or(ServiceError::Cancelled)?;
    let told = Cell::new(None);
    let store = &context.workspace.store;
    let shown = Shown::begin(context, store.new_item_id(), request);
    let job = Job {
        id: shown.job,
        encoders: &context.workspace.encoders,
        roots,
        pdf: context.services.pdf,
        allows: &|sensitivity| may_write(context, sensitivity),
        call: context.scope(),
        progress: &|done, total, name| {
            shown.tell(done, total);
            // Several files may be stored in one batch, or none since the last report.
            let is_news = told.replace(Some(done)) != Some(done);
            if let Some(tell) = context.progress.filter(|_| is_news) {
                tell(done, total, name);
            }
        },
    };
    job.run(request).map_err(|BrokenOff { error, report }| {
        let error = failed(error).after(report.items, report.documents);
        error.raising(report.raised, &report.secret_kinds).lowering(report.lowered)
    })
}

/// Fails with a reason unless the caller may write documents and chunks at this sensitivity.
pub(super) fn may_write(context: &ToolContext<'_>, sensitivity: Sensitivity) -> Result<(), String> {
    for kind in ["document", "chunk"] {
        let (verdict, rule) = context.judge_class(kind, sensitivity, &[], Action::Write);
        if verdict != Verdict::Allow {
            return Err(format!("policy rule {rule} does not allow it"));
        }
    }
    Ok(())
}

pub(super) fn failed(error: JobError) -> ServiceError {
    match error {
        JobError::Request { field, why } => ServiceError::argument(field, why),
        JobError::Write(error) => error.into(),
        JobError::Damaged(damage) => damage.into(),
        JobError::Interrupted => ServiceError::Cancelled,
    }
}

/// Formats a report as text.
pub fn readable(report: &Report, dry_run: bool) -> String {
    let mut text = format!(
        "{}{}: {} written, {} unchanged, {} superseded, {}, {} skipped, {}",
        if dry_run { "(dry run) " } else { "" },
        counted(report.files, "file"),
        counted(report.items, "item"),
        counted(report.unchanged, "file"),
        report.superseded,
        counted(report.links, "link"),
        report.skipped_count,
        counted(report.errors_count, "error"),
    );
    if report.secrets_count > 0 {
        text.push_str(&format!(", {}", counted(report.secrets_count, "secret")));
    }
    if report.cancelled {
        text.push_str("\ncalled off before all of it was read; the next one goes on");
    }
    for (path, why) in report.skipped.iter().filter(|_| dry_run).take(SKIPPED_TOLD_MAX) {
        text.push_str(&format!("\nskipped: {path}: {why}"));
    }
    for (path, line, kind) in &report.secrets {
        text.push_str(&format!("\nsecret: {path}:{line}: {}", kind.name()));
    }
    for (path, why) in &report.errors {
        text.push_str(&format!("\nerror: {path}: {why}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_that_the_job_was_called_off_and_a_dry_run_what_it_would_skip() {
        let skipped = vec![("/a/b.bin".to_owned(), "is of no kind that is read".to_owned()); 40];
        let mut done = Report::default();
        (done.files, done.skipped, done.skipped_count) = (2, skipped, 40);
        let text = readable(&done, false);
        assert!(text.starts_with("2 files: ") && !text.contains("b.bin"), "{text}");
        let dry = readable(&done, true);
        let told = dry.matches("\nskipped: /a/b.bin: is of no kind").count();
        assert_eq!(told, SKIPPED_TOLD_MAX, "{dry}");
        done.cancelled = true;
        let early = readable(&done, false);
        assert!(early.contains("\ncalled off before all of it was read"), "{early}");
    }
}
