//! Endpoints of the command line on a running server: recall, ingest and export in the operator's name, and store jobs
//! (backup, compaction, erasure, model migration).
//!
//! Served on the local listener only, with the operator's bearer. Not part of the public contract.

pub mod admin;
pub mod call;
mod collect;
mod whose;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use engine::ledger::Effect;
use engine::{CancelToken, CorruptionError, SearchError};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::app_state::AppState;
use crate::rest::Ask;
use crate::service_error::over_http;
use recalld_common::regular_file;
use recalld_common::wants::Wants;
use recalld_fs_util::roots::Roots;
use recalld_http_server::refusal::Refusal;
use recalld_http_server::{Call, Gone, Reply, Response, StreamSender, sse};
use recalld_ingest::job::Request;
use recalld_interchange::lines;
use recalld_interchange::lines::ImportError;
use recalld_interchange::lines::write;
use recalld_policy::Caller;
use recalld_recall::{Plan, Question};
use recalld_tool_framework::args::{Int, List, Text, args};
use recalld_tool_framework::{Answer, Refused, ServiceError, ToolContext, governed};
use recalld_tools::{ingest as ingest_tool, recall::arbitrate};
use recalld_workspace::roots;

pub use collect::{Collect, serve_collect};
use recalld_store_admin::KeepError;
use recalld_store_admin::backup::{Backup, backup};
use recalld_store_admin::compact::compact;
use recalld_store_admin::erase::{Erase, erase};
use recalld_store_admin::keeping::{Keeper, record_export};
use recalld_store_admin::reembed::{Reembed, reembed};
pub use whose::Whose;

/// Maximum duration of an operator's ingest or import. Long, because these jobs report progress and can be cancelled.
pub const INGEST_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Imported lines between two progress events.
const PROGRESS_LINES: u64 = 256;

args! {
    /// Body of `POST /operator/recall`.
    pub struct Recall {
        query: Text<1, 4096> => "The question.",
        limit: Option<Int<1, 50>> => "Items wanted.",
        graph: bool = false => "Show neighbours.",
        modality: Option<Text<1, 64>> => "Only this modality.",
        semantic: bool = false => "By meaning alone.",
        workspace: Option<Text<1, 40>> => "Whose; the operator's own without it.",
    }
}

args! {
    /// Body of `POST /operator/ingest`.
    pub struct Ingest {
        paths: List<Text<1, 4096>, 1, 64> => "Absolute paths.",
        include: Option<List<Text<1, 512>, 0, 64>> => "Globs to keep.",
        exclude: Option<List<Text<1, 512>, 0, 64>> => "Globs to leave out.",
        dry_run: bool = false => "Only say what would be done.",
        workspace: Option<Text<1, 40>> => "Whose; the operator's own without it.",
    }
}

args! {
    /// Body of `POST /operator/import`.
    pub struct Import {
        path: Text<1, 4096> => "Absolute path of the file.",
        strict: bool = false => "Import nothing if any line is bad.",
        dry_run: bool = false => "Only say what would be done.",
        workspace: Option<Text<1, 40>> => "Whose; the operator's own without it.",
    }
}

args! {
    /// Body of `POST /operator/export`.
    pub struct Export {
        workspace: Option<Text<1, 40>> => "Whose; the operator's own without it.",
    }
}

/// Returns the name of a workspace, if given.
pub fn named(workspace: &Option<Text<1, 40>>) -> Option<&str> {
    workspace.as_ref().map(|name| &*name.0)
}

pub(crate) fn arguments(call: &Call) -> Result<Map<String, Value>, Refusal> {
    match serde_json::from_slice(&call.request.body) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        _ => Err(Refusal::new(400, "Bad Request: a JSON object is wanted")),
    }
}

/// Returns the body of an audited answer: the structured content with the receipt, and the text.
fn body_of(mut answer: Answer) -> Value {
    json!({"structured": answer.take_content(), "text": answer.text})
}

/// `POST /operator/recall`: an audited recall with the operator's limits.
pub fn recall(ask: &Ask<'_>) -> Result<Response, Refusal> {
    let raw = arguments(ask.call)?;
    let wanted = Recall::parse(&raw).map_err(over_http)?;
    let whose =
        Whose::of(ask.parts, ask.caller, named(&wanted.workspace), Wants::Reads, &ask.call.cancel);
    let whose = whose.map_err(over_http)?;
    let context =
        ToolContext { workspace: &whose.workspace, caller: &whose.caller, ..ask.context() };
    let answer =
        recall_as_operator(&context, &raw, wanted).map_err(|refused| over_http(refused.error))?;
    Ok(whose.aged(Response::json(200, body_of(answer).to_string().into_bytes())))
}

/// Recalls as the operator; also called in-process by a command that has opened the store itself.
pub fn recall_as_operator(
    context: &ToolContext<'_>,
    raw: &Map<String, Value>,
    wanted: Recall,
) -> Result<Answer, Refused> {
    let question = Question {
        text: wanted.query.0,
        limit: wanted.limit.map(|limit| usize::try_from(limit.0).unwrap_or(1)),
        modality: wanted.modality.map(|modality| modality.0),
        neighbours: wanted.graph.then_some(3),
        now: Some(context.services.clock.now()),
    };
    let plan = if wanted.semantic { Plan::semantic(question) } else { Plan::governed(question) };
    governed(context, "recalld recall", raw, false, |context| {
        arbitrate::answer(context, &plan, false)
    })
}

/// `POST /operator/ingest`: streams one event per file, then one event with the report.
pub fn ingest(parts: &AppState, caller: &Caller, call: &Call, reply: Reply) {
    let raw = match arguments(call) {
        Ok(raw) => raw,
        Err(refusal) => return reply.send(refusal.into()),
    };
    let wanted = match Ingest::parse(&raw) {
        Ok(wanted) => wanted,
        Err(error) => return reply.send(over_http(error).into()),
    };
    let whose =
        match Whose::of(parts, caller, named(&wanted.workspace), Wants::Writes, &call.cancel) {
            Ok(whose) => whose,
            Err(error) => return reply.send(over_http(error).into()),
        };
    let stream = reply.report_by_stream(sse::head());
    tell_of_waiting(&stream, &whose);
    let tell = |done: u64, total: u64, name: &str| {
        event(&stream, "progress", &json!({"done": done, "total": total, "file": name}));
    };
    let context = ToolContext {
        services: parts.tool_services(),
        workspace: &whose.workspace,
        caller: &whose.caller,
        cancel: &call.cancel,
        deadline: Instant::now() + INGEST_TIME_MAX,
        progress: Some(&tell),
    };
    match ingest_as_operator(&context, &raw, wanted) {
        Ok(answer) => event(&stream, "report", &body_of(answer)),
        Err(error) => event(&stream, "error", &json!({"detail": error.to_string()})),
    }
}

fn event(stream: &StreamSender, name: &str, data: &Value) {
    let data = data.to_string();
    let event = sse::Event { name: Some(name), data: Some(&data), ..sse::Event::default() };
    if let Ok(bytes) = event.encode() {
        // If the client has left, the call is cancelled, which ends the job.
        let _gone = stream.send(&bytes);
    }
}

/// Reports that an ingest or an import waits for another job, possibly for hours.
fn tell_of_waiting(stream: &StreamSender, whose: &Whose) {
    if whose.workspace.ingesting.is_taken() {
        event(stream, "progress", &json!({"done": 0, "total": 0, "waiting": true}));
    }
}

/// Ingests any folder of this machine. The folder becomes an allowed root, because the operator requested the ingest.
pub fn ingest_as_operator(
    context: &ToolContext<'_>,
    raw: &Map<String, Value>,
    wanted: Ingest,
) -> Result<Answer, Refused> {
    let paths = ingest_tool::texts(Some(wanted.paths));
    let roots = allow(context, &paths, !wanted.dry_run)?;
    let request = Request {
        paths,
        recursive: true,
        include: ingest_tool::texts(wanted.include),
        exclude: ingest_tool::texts(wanted.exclude),
        sensitivity: None,
        dry_run: wanted.dry_run,
        by: context.caller.principal.clone(),
        via: "recalld ingest",
    };
    governed(context, "recalld ingest", raw, true, |context| {
        let report = ingest_tool::run(context, &roots, &request)?;
        let text = ingest_tool::readable(&report, request.dry_run);
        let answer = Answer::plain(json!(report.facts()), text);
        let answer = answer.raising(report.raised, &report.secret_kinds).lowering(report.lowered);
        Ok(answer.touching(Effect::Written, report.documents))
    })
}

/// Returns the service's roots and the folders of `paths`. Stores the new roots unless `keep` is false (dry run). A
/// tenant has no stored roots: the operator's folders are allowed for this ingest only.
fn allow(
    context: &ToolContext<'_>,
    paths: &[String],
    keep: bool,
) -> Result<Arc<Roots>, ServiceError> {
    let (data, refuse) = (context.services.data, |why| ServiceError::argument("paths", why));
    if !context.is_local() {
        return roots::with(&context.workspace.roots(), paths).map(Arc::new).map_err(refuse);
    }
    let mut roots = context.workspace.roots.write().unwrap_or_else(PoisonError::into_inner);
    if keep {
        roots::keep(data, paths).map_err(refuse)?;
        *roots = Arc::new(roots::kept(data).map_err(refuse)?);
    }
    roots::with(&roots, paths).map(Arc::new).map_err(refuse)
}

/// `POST /operator/import`: streams progress events, then one event with the report.
pub fn import(parts: &AppState, caller: &Caller, call: &Call, reply: Reply) {
    let wanted = arguments(call).and_then(|raw| Ok((Import::parse(&raw).map_err(over_http)?, raw)));
    let (wanted, raw) = match wanted {
        Ok(wanted) => wanted,
        Err(refusal) => return reply.send(refusal.into()),
    };
    let whose =
        match Whose::of(parts, caller, named(&wanted.workspace), Wants::Writes, &call.cancel) {
            Ok(whose) => whose,
            Err(error) => return reply.send(over_http(error).into()),
        };
    let stream = reply.report_by_stream(sse::head());
    tell_of_waiting(&stream, &whose);
    let tell = |done: u64, total: u64, _: &str| {
        event(&stream, "progress", &json!({"done": done, "total": total}));
    };
    let context = ToolContext {
        services: parts.tool_services(),
        workspace: &whose.workspace,
        caller: &whose.caller,
        cancel: &call.cancel,
        deadline: Instant::now() + INGEST_TIME_MAX,
        progress: Some(&tell),
    };
    match import_as_operator(&context, &raw, &wanted) {
        Ok(answer) => event(&stream, "report", &body_of(answer)),
        Err(error) => event(&stream, "error", &json!({"detail": error.to_string()})),
    }
}

fn regular(path: &Path) -> io::Result<File> {
    let why = "is not a regular file; copy it into one, or give `-` its lines";
    regular_file::open(path)?.ok_or_else(|| io::Error::other(why))
}

/// Imports a file of this machine. Only one import or ingest runs at a time, because two concurrent jobs with equal
/// rows would both treat the rows as new.
pub fn import_as_operator(
    context: &ToolContext<'_>,
    raw: &Map<String, Value>,
    wanted: &Import,
) -> Result<Answer, Refused> {
    governed(context, "recalld import", raw, true, |context| {
        let path = &wanted.path.0;
        let unreadable = |error| ServiceError::argument("path", format!("{path}: {error}"));
        let file = regular(Path::new(path)).map_err(unreadable)?;
        let workspace = &context.workspace;
        let _turn = workspace.ingesting.take(&context.scope()).ok_or(ServiceError::Cancelled)?;
        let told = AtomicU64::new(0);
        let import = lines::import::Import {
            encoders: &workspace.encoders,
            by: &context.caller.principal,
            strict: wanted.strict,
            dry_run: wanted.dry_run,
            call: context.scope(),
            progress: &|done, total| {
                let due = done == total || done >= told.load(Ordering::Relaxed) + PROGRESS_LINES;
                if let Some(tell) = context.progress.filter(|_| due) {
                    told.store(done, Ordering::Relaxed);
                    tell(done, total, "");
                }
            },
        };
        let report = import.run(&file).map_err(|error| match error {
            ImportError::Reading(error) => unreadable(error),
            ImportError::Writing(error) => error.into(),
            ImportError::Damaged(damage) => damage.into(),
            ImportError::Cancelled => ServiceError::Cancelled,
        })?;
        Ok(Answer::plain(report.to_json(), report.readable()))
    })
}

/// `POST /operator/backup`: streams progress events, then one event with the report.
pub fn serve_backup(parts: &AppState, caller: &Caller, call: &Call, reply: Reply) {
    keep(parts, caller, call, reply, |keeper, raw| {
        let wanted = Backup::parse(raw).map_err(wrong)?;
        backup(keeper, &Value::Object(raw.clone()), &wanted)
    });
}

/// `POST /operator/compact`: streams progress events, then one event with the report.
pub fn serve_compact(parts: &AppState, caller: &Caller, call: &Call, reply: Reply) {
    keep(parts, caller, call, reply, |keeper, _| compact(keeper));
}

/// `POST /operator/erase`: streams progress events, then one event with the report.
pub fn serve_erase(parts: &AppState, caller: &Caller, call: &Call, reply: Reply) {
    keep(parts, caller, call, reply, |keeper, raw| {
        let wanted = Erase::parse(raw).map_err(wrong)?;
        erase(keeper, &Value::Object(raw.clone()), &wanted)
    });
}

/// `POST /operator/reembed`: streams progress events, then one event with the report.
pub fn serve_reembed(parts: &AppState, caller: &Caller, call: &Call, reply: Reply) {
    keep(parts, caller, call, reply, |keeper, raw| {
        let wanted = Reembed::parse(raw).map_err(wrong)?;
        let local = parts.local.get();
        let encoders = Some(&local.encoders);
        reembed(keeper, encoders, parts.encoding, &Value::Object(raw.clone()), &wanted)
    });
}

fn wrong(error: ServiceError) -> KeepError {
    KeepError::Wrong(error.to_string())
}

/// Runs a job on the whole store and streams its progress.
fn keep<R: Serialize>(
    parts: &AppState,
    caller: &Caller,
    call: &Call,
    reply: Reply,
    work: impl FnOnce(&Keeper<'_>, &Map<String, Value>) -> Result<R, KeepError>,
) {
    let raw = match arguments(call) {
        Ok(raw) => raw,
        Err(refusal) => return reply.send(refusal.into()),
    };
    if let Err(why) = parts.reach(parts.local.name(), Wants::Writes, &call.cancel) {
        return reply.send(over_http(why).into());
    }
    let stream = reply.report_by_stream(sse::head());
    let tell = |done: u64, total: u64, what: &str| {
        event(&stream, "progress", &json!({"done": done, "total": total, "what": what}));
    };
    let done =
        work(&Keeper::of(&parts.admin, &parts.local.get(), caller, &call.cancel, &tell), &raw);
    match done {
        Ok(report) => event(&stream, "report", &json!(report)),
        Err(error) => event(&stream, "error", &error.to_json()),
    }
}

/// Reason for an incomplete export.
enum Cut {
    Damaged(CorruptionError),
    /// The server shuts down.
    CalledOff,
    Gone,
}

impl From<SearchError> for Cut {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Damaged(damage) => Self::Damaged(damage),
            _ => Self::CalledOff,
        }
    }
}

impl From<Gone> for Cut {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// `POST /operator/export`: streams events with lines of `format-spec/export.md`, then one event with the counts.
pub fn export(parts: &AppState, caller: &Caller, call: &Call, reply: Reply) {
    let wanted = arguments(call).and_then(|raw| Export::parse(&raw).map_err(over_http));
    let whose = wanted.and_then(|wanted| {
        Whose::of(parts, caller, named(&wanted.workspace), Wants::Reads, &call.cancel)
            .map_err(over_http)
    });
    let whose = match whose {
        Ok(whose) => whose,
        Err(refusal) => return reply.send(refusal.into()),
    };
    if let Err(error) = record_export(&whose.workspace.audit, &caller.principal) {
        return reply.send(Refusal::unavailable(&error.to_string()).into());
    }
    let stream = reply.with_fields(whose.fields()).report_by_stream(sse::head());
    let cancel = call.cancel.clone();
    let stop = CancelToken::from_fn(move || cancel.is_cancelled());
    let snapshot = whose.workspace.store.snapshot().with_cancel(stop);
    let written = write::all(&snapshot, |lines| {
        if call.cancel.is_cancelled() {
            return Err(Cut::CalledOff);
        }
        let text = std::str::from_utf8(lines).expect("lines are made of texts");
        let data = Some(text.trim_end_matches('\n'));
        let event = sse::Event { name: Some("lines"), data, ..sse::Event::default() };
        let bytes = event.encode().expect("the name is one line");
        stream.send_in_turn(&bytes).map_err(Cut::from)
    });
    match written {
        Ok(lines) => event(&stream, "report", &json!(lines)),
        Err(Cut::Damaged(damage)) => {
            event(&stream, "error", &json!({"detail": damage.to_string()}));
        }
        Err(Cut::CalledOff) => {
            let detail = "the server closes down; the export is not whole";
            event(&stream, "error", &json!({"detail": detail}));
        }
        Err(Cut::Gone) => {}
    }
}
