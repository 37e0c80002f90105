//! The stateless revision 2026-07-28: every request is independent and describes itself in `_meta`.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use super::abilities::Abilities;
use super::era::{META_LOG_LEVEL, META_SERVER, META_SUBSCRIPTION, MODERN_REVISIONS, envelope};
use super::fault::Fault;
use super::flight::{Flight, Start};
use super::headers;
use super::host::Host;
use super::line::Line;
use super::listens::Filter;
use super::log_level::Level;
use super::message::{self, Message};
use super::shared::{Shared, accepts, refusal};
use super::work::{self, Manner, Work, declared};
use recalld_http_server::{Call, Reply, Response, sse};

pub(super) const LISTEN: &str = "subscriptions/listen";

/// Answers a POST. `tools` has the available tool that the message calls.
pub(super) fn post<H: Host>(
    shared: &Arc<Shared<H>>,
    call: &Call,
    caller: H::Caller,
    (mut body, tools): (Value, Vec<Option<H::Tool>>),
    reply: Reply,
) {
    let (id, method, params) = match Message::of(&body) {
        Message::Wrong { id, fault } => return reply.send(refusal(&id, &fault)),
        // In this revision a client cancels by closing the connection; other notifications have no effect.
        Message::Notification { .. } => return reply.send(Response::empty(202)),
        Message::Response { .. } => {
            let fault = Fault::invalid_request("clients of this revision send no responses");
            return reply.send(refusal(&Value::Null, &fault));
        }
        Message::Request { id, method, params } => (id, method, params),
    };
    let tool = tools.into_iter().next().flatten();
    let manner = match admitted(shared, call, tool.as_ref(), method, params) {
        Ok(manner) => manner,
        Err(fault) => return reply.send(refusal(id, &fault)),
    };
    if tool.is_none()
        && let Some(fault) = work::turned_away(&shared.host, &caller, method, params)
    {
        return reply.send(refusal(id, &fault));
    }
    if method == LISTEN {
        return listen(shared, call, caller, (id, params), reply);
    }
    let accepts = accepts(call);
    let line = Arc::new(Line::new(reply, accepts, None, false, 1));
    if !accepts.json || !params["_meta"]["progressToken"].is_null() {
        line.begin_stream();
    }
    // The HTTP server cancels this token when the client disconnects, which is a cancellation.
    let start = Start {
        id: id.clone(),
        line: Arc::clone(&line),
        session: None,
        cancel: call.cancel.clone(),
        deadline: Instant::now() + shared.call_time_max,
        limit: shared.call_time_max,
    };
    // Only a session can reject a request.
    let Ok(flight) = Flight::begin(&shared.timer, start) else { return };
    let (shared, (method, params)) = (Arc::clone(shared), message::taken(&mut body));
    Work { shared, caller, manner, flight, tool, method, params }.start();
}

/// Checks envelope, headers and version, in this order.
fn admitted<H: Host>(
    shared: &Shared<H>,
    call: &Call,
    tool: Option<&H::Tool>,
    method: &str,
    params: &Value,
) -> Result<Manner, Fault> {
    let found = envelope(params).ok_or_else(|| Fault::envelope("params._meta is not complete"))?;
    let level = match &params["_meta"][META_LOG_LEVEL] {
        Value::Null => None,
        named => {
            let level = named.as_str().and_then(Level::named);
            Some(level.ok_or_else(|| Fault::envelope("params._meta has no such log level"))?)
        }
    };
    headers::check(&call.request.headers, found.version, method, params)?;
    if let Some(tool) = tool {
        let schema = shared.host.mirroring_schema(tool);
        let mirrored = headers::mirrored(&schema);
        headers::check_mirrored(&call.request.headers, &mirrored, &params["arguments"])?;
    }
    if !MODERN_REVISIONS.contains(&found.version) {
        return Err(Fault::unsupported_version(MODERN_REVISIONS, found.version));
    }
    let abilities = Abilities::of(found.capabilities);
    Ok(Manner::PerRequest { abilities, level })
}

/// Answers the methods that only this revision has, except `subscriptions/listen`.
pub(super) fn method<H: Host>(work: &Work<H>) -> Result<Value, Fault> {
    let host = &work.shared.host;
    match work.method.as_str() {
        "server/discover" => {
            let mut result = json!({
                "supportedVersions": MODERN_REVISIONS,
                "capabilities": declared(&host.capabilities(), true),
            });
            if let Some(instructions) = host.instructions() {
                result["instructions"] = instructions.into();
            }
            Ok(result)
        }
        other => Err(Fault::method_not_found(other)),
    }
}

/// Opens a listen stream that lasts until the client disconnects.
fn listen<H: Host>(
    shared: &Arc<Shared<H>>,
    call: &Call,
    caller: H::Caller,
    (id, params): (&Value, &Value),
    reply: Reply,
) {
    let mut reply = Some(reply);
    let opened = listened(shared, call, caller, (id, params), &mut reply);
    if let (Err(fault), Some(reply)) = (opened, reply) {
        reply.send(refusal(id, &fault.modern()));
    }
}

fn listened<H: Host>(
    shared: &Arc<Shared<H>>,
    call: &Call,
    caller: H::Caller,
    (id, params): (&Value, &Value),
    reply: &mut Option<Reply>,
) -> Result<(), Fault> {
    let has = shared.host.capabilities();
    let changes = [has.tools, has.prompts, has.resources];
    if !has.subscribe && !changes.iter().flatten().any(|list| list.list_changed) {
        return Err(Fault::method_not_found(LISTEN));
    }
    if !accepts(call).stream {
        let why = "Accept must allow text/event-stream";
        return Err(Fault::server("not_acceptable", why).with_status(406));
    }
    let filter = Filter::of(&params["notifications"], &has)?;
    let caller = shared.host.in_turn(&caller, params);
    let principal = shared.host.principal(&caller);
    let deadline = Instant::now() + shared.call_time_max;
    let follow = |uri: &String| shared.host.follow(&caller, uri, &call.cancel, deadline).map(Some);
    let versions = filter.uris.iter().map(follow).collect::<Result<Vec<_>, Fault>>()?;
    let sender = || {
        let reply = reply.take().expect("a stream is opened once, and only here");
        reply.stream(sse::head())
    };
    shared.listens.listen(id.clone(), (caller, principal), filter, versions, sender)?;
    // Triggers a poll that finds changes between the version read and the subscription.
    shared.changes.note();
    Ok(())
}

/// The result that ends a listen stream in an orderly way.
pub(super) fn listen_result<H: Host>(host: &H, id: &Value) -> Value {
    json!({
        "resultType": "complete",
        "_meta": {META_SUBSCRIPTION: id, META_SERVER: host.server_info()},
    })
}
