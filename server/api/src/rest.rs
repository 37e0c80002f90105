//! The HTTP API: health, statistics, recall by words, recall by meaning.
//!
//! Descriptions of the operations are in `operations`, the documentation page is in `page`. The pipeline generates the
//! OpenAPI document from them.

pub mod operations;
pub mod page;

use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};

use crate::app_state::AppState;
use crate::limits::API_BODY_BYTES_MAX;
use crate::service_error::over_http;
use recalld_cluster::Where;
use recalld_common::age::seconds;
use recalld_common::scope::Scope;
use recalld_embedding::embed::Embedder;
use recalld_http_server::refusal::Refusal;
use recalld_http_server::{Call, Response};
use recalld_policy::Caller;
use recalld_pydantic_compat::Invalid;
use recalld_recall::show::{ItemFacts, WithNeighbours};
use recalld_recall::{Outcome, Plan, Question, show};
use recalld_telemetry::metrics::Stage;
use recalld_tool_framework::{Answer, ToolContext, governed, record_refusal, record_wrong};
use recalld_tools::recall::arbitrate::RecallContext;
use recalld_tools::{recall::arbitrate, status};
use recalld_workspace::workspace::Workspace;

pub use operations::Operation;

/// Header with the number of seeds and neighbours omitted for lack of room.
pub const LEFT_OUT: &str = "x-recalld-left-out";

/// The tool that corresponds to an operation. If a plan lacks the tool, the operation is forbidden as well.
#[derive(Clone, Copy)]
struct Named {
    family: &'static str,
    tool: &'static str,
}

const STATS: Named = Named { family: "status", tool: "recall_stats" };
const RECALL: Named = Named { family: "recall", tool: "brain_recall" };

/// Handler of an operation.
pub type Run = fn(&Ask<'_>) -> Result<Response, Refusal>;

/// A call of an operation.
pub struct Ask<'a> {
    /// Components of the service.
    pub parts: &'a AppState,
    /// The caller's workspace.
    pub workspace: &'a Workspace,
    /// The authenticated caller.
    pub caller: &'a Caller,
    /// The request.
    pub call: &'a Call,
    /// Time by which the response must have been sent.
    pub deadline: Instant,
}

impl Ask<'_> {
    /// Builds the context of a tool call.
    pub fn context(&self) -> ToolContext<'_> {
        ToolContext {
            services: self.parts.tool_services(),
            workspace: self.workspace,
            caller: self.caller,
            cancel: &self.call.cancel,
            deadline: self.deadline,
            progress: None,
        }
    }

    /// Checks that the caller has `scope` and the corresponding tool.
    fn needs(
        &self,
        scope: Scope,
        stands_for: Named,
        operation: &'static str,
    ) -> Result<(), Refusal> {
        let Named { family, tool } = stands_for;
        let (caller, has) = (self.caller, self.caller.entitled.has_tool(family, tool));
        if has && caller.scopes.contains(&scope) {
            return Ok(());
        }
        record_refusal(self.workspace, self.caller, operation, &json!({})).map_err(over_http)?;
        Err(Refusal::new(403, "Not allowed"))
    }

    fn content_type(&self) -> Option<&str> {
        self.call.request.headers.get("content-type")
    }

    fn body(&self) -> Result<&[u8], Refusal> {
        let body = &self.call.request.body;
        if body.len() > API_BODY_BYTES_MAX { Err(body_too_large()) } else { Ok(body) }
    }
}

/// The response to a body longer than `API_BODY_BYTES_MAX`, read or not.
pub(crate) fn body_too_large() -> Refusal {
    Refusal::new(413, &format!("Body too large: at most {API_BODY_BYTES_MAX} bytes are allowed"))
}

/// `GET /health`.
pub fn health(parts: &AppState) -> Response {
    let workspace = parts.local.get();
    let writable = workspace.store.stop_reason().is_none();
    let status = if writable && !workspace.audit.is_failing() { "ok" } else { "degraded" };
    let embedder = workspace.encoders.view().embedder;
    let (kernel, precision) = (embedder.kernel(), embedder.precision());
    // Public, so the reason for rejected writes is only in `GET /stats`: it may name a file. Formatted by hand, because
    // `json!` would take longer than the rest of this response; only the model's name needs escaping.
    let schedule = parts.scheduled.told(parts.clock.now());
    let backups = schedule.map_or_else(String::new, |told| {
        format!("\"backups\":{{\"state\":{}}},", json!(told.standing))
    });
    let role = role(parts);
    let body = format!(
        "{{{backups}\"encoder\":{{\"kernel\":\"{kernel}\",\"model\":{model},\"precision\":\"{precision}\",\
         \"ready\":true}},{role}\"status\":\"{status}\",\"store\":{{\"ready\":{writable}}},\
         \"uptime_s\":{uptime},\"version\":\"{version}\"}}",
        model = Value::from(embedder.name()),
        uptime = parts.started.elapsed().as_secs(),
        version = env!("CARGO_PKG_VERSION"),
    );
    Response::json(200, body.into_bytes())
}

/// Returns this node's role for the operator's workspace; empty if the node has no cluster.
fn role(parts: &AppState) -> String {
    match parts.cluster.as_ref().map(|cluster| cluster.of(parts.local.name())) {
        None => String::new(),
        Some(Where::Here) => "\"role\":\"writer\",".to_owned(),
        Some(Where::Follows { age, .. }) => {
            let age = age.map_or_else(|| "null".to_owned(), |age| seconds(age).to_string());
            format!("\"role\":\"follower\",\"stale_s\":{age},")
        }
        Some(Where::Elsewhere { .. }) => "\"role\":\"none\",".to_owned(),
    }
}

/// `GET /stats`.
pub fn stats(ask: &Ask<'_>) -> Result<Response, Refusal> {
    ask.needs(Scope::TenantRead, STATS, "GET /stats")?;
    let answer = governed(&ask.context(), "GET /stats", &json!({}), false, |context| {
        Ok(Answer::plain(json!(status::collect(context)?), String::new()))
    });
    let answer = answer.map_err(|refused| over_http(refused.error))?;
    // HTTP API bodies have no receipt. The ledger entry exists all the same.
    Ok(respond(ask, answer.structured))
}

/// `POST /recall`.
pub fn recall(ask: &Ask<'_>) -> Result<Response, Refusal> {
    ask.needs(Scope::BrainProxy, RECALL, "POST /recall")?;
    let wanted = match recalld_pydantic_compat::recall(ask.content_type(), ask.body()?) {
        Ok(wanted) => wanted,
        Err(invalid) => return unprocessable(ask, "POST /recall", &invalid),
    };
    let arguments = json!({
        "query": wanted.query, "limit": wanted.limit, "graph": wanted.graph,
        "neighbor_limit": wanted.neighbor_limit, "modality": wanted.modality,
        "prefer_replacements": wanted.prefer_replacements,
    });
    let question = Question {
        text: wanted.query,
        limit: Some(wanted.limit as usize),
        modality: wanted.modality,
        neighbours: wanted.graph.then_some(wanted.neighbor_limit as usize),
        ..Question::default()
    };
    let plan = Plan::keyword(question, wanted.prefer_replacements);
    seeds(ask, ("POST /recall", &arguments), &plan, |seeds, _, _| json!(seeds))
}

/// `POST /semantic-recall`.
pub fn semantic_recall(ask: &Ask<'_>) -> Result<Response, Refusal> {
    ask.needs(Scope::BrainProxy, RECALL, "POST /semantic-recall")?;
    let wanted = match recalld_pydantic_compat::semantic_recall(ask.content_type(), ask.body()?) {
        Ok(wanted) => wanted,
        Err(invalid) => return unprocessable(ask, "POST /semantic-recall", &invalid),
    };
    let arguments = json!({"query": wanted.query, "limit": wanted.limit});
    let query = wanted.query.clone();
    let limit = Some(wanted.limit as usize);
    let plan = Plan::semantic(Question { text: wanted.query, limit, ..Question::default() });
    seeds(ask, ("POST /semantic-recall", &arguments), &plan, |seeds, outcome, embedder| {
        json!({
            "query": query, "model": embedder.name(),
            "dimensions": embedder.model().dimensions,
            "count": seeds.len(),
            "took_ms": (outcome.took.as_secs_f64() * 1e6).round() / 1e3,
            "results": seeds,
        })
    })
}

/// An item in the responses of both recall operations.
#[derive(Serialize)]
struct Seed<'s> {
    #[serde(flatten)]
    facts: ItemFacts<'s>,
    score: Value,
}

type Seeds<'s> = Vec<WithNeighbours<'s, Seed<'s>>>;

/// Runs a plan as an audited call and returns its hits. A header states the number of omitted hits, because an array
/// has no field for it.
fn seeds(
    ask: &Ask<'_>,
    (operation, arguments): (&'static str, &Value),
    plan: &Plan,
    shape: impl FnOnce(Seeds<'_>, &Outcome, &Embedder) -> Value,
) -> Result<Response, Refusal> {
    let mut left_out = 0;
    let mut body = Value::Null;
    governed(&ask.context(), operation, arguments, false, |context| {
        let recall = RecallContext::now(context);
        let snapshot = &recall.view.snapshot;
        let mut outcome = recall.run(plan)?;
        let (seeds, rest) = recall.shown(plan, &mut outcome, |found| {
            let facts = ItemFacts::recalled(snapshot, found)?;
            Ok(Seed { facts, score: show::score(found.score) })
        })?;
        left_out = rest;
        body = shape(seeds, &outcome, &recall.view.embedder);
        arbitrate::account(snapshot, &outcome, Answer::plain(Value::Null, String::new()))
    })
    .map_err(|refused| over_http(refused.error))?;
    let answer = respond(ask, body);
    Ok(match left_out {
        0 => answer,
        count => answer.header(LEFT_OUT, count.to_string()),
    })
}

fn respond(ask: &Ask<'_>, body: Value) -> Response {
    let began = Instant::now();
    let body = body.to_string().into_bytes();
    ask.parts.stages.record(Stage::Render, began.elapsed());
    Response::json(200, body)
}

/// Returns the response to an invalid body and records a ledger entry, as for a tool's invalid argument.
fn unprocessable(
    ask: &Ask<'_>,
    operation: &'static str,
    invalid: &Invalid,
) -> Result<Response, Refusal> {
    let body = json!({"body": String::from_utf8_lossy(ask.body()?)});
    record_wrong(ask.workspace, ask.caller, operation, &body).map_err(over_http)?;
    Ok(Response::json(invalid.status(), invalid.body()))
}
