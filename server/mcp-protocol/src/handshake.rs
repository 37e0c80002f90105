//! The revisions that begin with `initialize`: 2024-11-05 to 2025-11-25.
//!
//! A client that received a session id sends the id with every request. A client without a session is served too,
//! request by request, for methods that need no session.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use super::abilities::Abilities;
use super::era::{BATCH_REVISION, HANDSHAKE_LATEST, HANDSHAKE_REVISIONS};
use super::fault::Fault;
use super::flight::{Flight, Start};
use super::host::Host;
use super::line::{Line, json_response};
use super::listens::checked_uri;
use super::log_level::Level;
use super::message::{self, Message};
use super::session::{Purpose, Session, Unopened};
use super::shared::{Shared, accepts, id_of, refusal, version_header};
use super::work::{self, Manner, Work, declared};
use crate::limits::BATCH_MESSAGES_MAX;
use recalld_common::cancel::CancellationToken;
use recalld_http_server::{Call, Reply, Response};

/// Answers a POST. `tools` has the available tool that each message calls.
pub(super) fn post<H: Host>(
    shared: &Arc<Shared<H>>,
    call: &Call,
    caller: H::Caller,
    (mut body, tools): (Value, Vec<Option<H::Tool>>),
    reply: Reply,
) {
    let session = match admitted(shared, call, &caller, &body) {
        Ok(session) => session,
        Err(fault) => return reply.send(refusal(&id_of(&body), &fault)),
    };
    let messages: Vec<Message<'_>> = message::all(&body).iter().map(Message::of).collect();
    let host = &shared.host;
    let turned_away = messages.iter().zip(&tools).find_map(|one| match one {
        (Message::Request { method, params, .. }, None) => {
            work::turned_away(host, &caller, method, params)
        }
        _ => None,
    });
    if let Some(fault) = turned_away {
        return reply.send(refusal(&id_of(&body), &fault));
    }
    let to_answer =
        |one: &&Message<'_>| matches!(one, Message::Request { .. } | Message::Wrong { .. });
    let open = messages.iter().filter(to_answer).count();
    let accepts = accepts(call);
    let line = Line::new(reply, accepts, session.clone(), body.is_array(), open.max(1));
    let line = Arc::new(line);
    let is_stream = open > 0 && (!accepts.json || messages.iter().any(wants_progress));
    let is_batch = body.is_array();
    // All requests are registered before the first is processed: they share one deadline, and each can be cancelled.
    let deadline = Instant::now() + shared.call_time_max;
    let mut begun = Vec::new();
    let mut has_request = false;
    for (at, (one, tool)) in messages.into_iter().zip(tools).enumerate() {
        match one {
            Message::Wrong { id, fault } => begun.push(Begun::Refused(id, fault)),
            Message::Notification { method, params } => {
                notified(session.as_ref(), method, params);
            }
            Message::Response { id, outcome } => {
                if let Some(session) = &session {
                    session.answered(id, outcome.cloned().map_err(Value::clone));
                }
            }
            Message::Request { id, method: "initialize", .. } if is_batch => {
                let fault = Fault::invalid_request("initialize must not be in a batch");
                begun.push(Begun::Refused(id.clone(), fault));
            }
            // Each request counts separately, so that a batch cannot bypass the rate limit.
            Message::Request { id, .. }
                if std::mem::replace(&mut has_request, true)
                    && let Err(fault) = shared.host.take(&caller) =>
            {
                begun.push(Begun::Refused(id.clone(), fault));
            }
            Message::Request { id, .. } => {
                let start = Start {
                    id: id.clone(),
                    line: Arc::clone(&line),
                    session: session.clone(),
                    // A client without a session cannot reconnect for the response or cancel the request, so a
                    // disconnect cancels. With a session, a disconnect is no cancellation, so the request has its own
                    // token.
                    cancel: session
                        .as_ref()
                        .map_or_else(|| call.cancel.clone(), |_| CancellationToken::new()),
                    deadline,
                    limit: shared.call_time_max,
                };
                match Flight::begin(&shared.timer, start) {
                    Err(fault) => begun.push(Begun::Refused(id.clone(), fault)),
                    Ok(flight) => begun.push(Begun::Flight { flight, tool, at }),
                }
            }
        }
    }
    // Nothing is sent earlier. A client that reads the 202 of a cancellation can rely on the cancellation, and a client
    // that reads the head of a stream can cancel its request.
    if open == 0 {
        line.leave_open();
    } else if is_stream {
        line.begin_stream();
    }
    for one in begun {
        let (flight, tool, at) = match one {
            Begun::Refused(id, fault) => {
                line.answer(fault.status(), message::failure(&id, &fault));
                continue;
            }
            Begun::Flight { flight, tool, at } => (flight, tool, at),
        };
        if flight.is_over() {
            continue;
        }
        let abilities = session.as_ref().map(|session| session.abilities).unwrap_or_default();
        let manner = Manner::Handshake { abilities, session: session.clone() };
        let (method, params) = message::taken(&mut message::all_mut(&mut body)[at]);
        let (shared, caller) = (Arc::clone(shared), caller.clone());
        Work { shared, caller, manner, flight, tool, method, params }.start();
    }
}

/// A message that needs a response, in the order of the body.
enum Begun<T> {
    /// An error response without any work.
    Refused(Value, Fault),
    /// A registered request.
    Flight {
        flight: Arc<Flight>,
        tool: Option<T>,
        /// Index of the message in the body.
        at: usize,
    },
}

/// Answers a `ping` without session and progress token.
pub(super) fn quick(call: &Call, body: &Value) -> Option<Response> {
    let message = Message::of(body);
    if check_version(call).is_err() || session_header(call) != Ok(None) || wants_progress(&message)
    {
        return None;
    }
    match message {
        Message::Request { id, method: "ping", .. } => {
            Some(json_response(200, &message::success(id, json!({}))))
        }
        _ => None,
    }
}

/// Returns true if a request wants progress. Progress needs a stream, which begins at once, so that all responses to
/// such a client have the same form.
fn wants_progress(message: &Message<'_>) -> bool {
    matches!(message, Message::Request { params, .. }
        if !params["_meta"]["progressToken"].is_null())
}

/// Checks the rules of the transport and returns the session, a new one for `initialize`.
fn admitted<H: Host>(
    shared: &Arc<Shared<H>>,
    call: &Call,
    caller: &H::Caller,
    body: &Value,
) -> Result<Option<Arc<Session>>, Fault> {
    let version = check_version(call)?;
    let principal = shared.host.principal(caller);
    if let Message::Request { method: "initialize", params, .. } = Message::of(body) {
        let asked = params["protocolVersion"].as_str();
        let asked =
            asked.ok_or_else(|| Fault::invalid_params("protocolVersion is missing: a string"))?;
        let known = HANDSHAKE_REVISIONS.iter().find(|revision| **revision == asked);
        let revision = known.copied().unwrap_or(HANDSHAKE_LATEST);
        let abilities = Abilities::of(&params["capabilities"]);
        return shared.sessions.open(principal, revision, abilities).map(Some);
    }
    let session = match session_header(call)? {
        None => None,
        Some(id) => {
            Some(shared.sessions.find(id, &principal).ok_or_else(Fault::session_not_found)?)
        }
    };
    if let Value::Array(messages) = body {
        let revision = session.as_ref().map_or(version, |session| Some(session.revision));
        check_batch(messages.len(), revision)?;
    }
    Ok(session)
}

/// Checks the size of a batch, and its revision: only `BATCH_REVISION` has batches. Without a session and a header,
/// this revision is assumed.
fn check_batch(messages: usize, revision: Option<&str>) -> Result<(), Fault> {
    if revision.is_some_and(|revision| revision != BATCH_REVISION) {
        let why = format!("batches are for revision {BATCH_REVISION} alone");
        return Err(Fault::invalid_request(&why));
    }
    if !(1..=BATCH_MESSAGES_MAX).contains(&messages) {
        let why = format!("a batch of {messages} messages; 1 to {BATCH_MESSAGES_MAX} are allowed");
        return Err(Fault::invalid_request(&why));
    }
    Ok(())
}

fn check_version(call: &Call) -> Result<Option<&str>, Fault> {
    if call.request.headers.get_all("mcp-protocol-version").nth(1).is_some() {
        return Err(Fault::invalid_request("MCP-Protocol-Version is given twice"));
    }
    let version = version_header(call);
    match version.filter(|version| !HANDSHAKE_REVISIONS.contains(version)) {
        None => Ok(version),
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            let served = HANDSHAKE_REVISIONS.join(", ");
            let why = format!("MCP-Protocol-Version {other} is not served; {served}");
            Err(Fault::server("unsupported_protocol_version", why).with_status(400))
        }
    }
}

fn session_header(call: &Call) -> Result<Option<&str>, Fault> {
    let mut ids = call.request.headers.get_all("mcp-session-id");
    let id = ids.next();
    if ids.next().is_some() {
        return Err(Fault::invalid_request("Mcp-Session-Id is given twice"));
    }
    Ok(id)
}

fn needs_session() -> Fault {
    let why = "this takes a session: send the Mcp-Session-Id that initialize gave";
    Fault::server("session_required", why).with_status(400)
}

fn notified(session: Option<&Arc<Session>>, method: &str, params: &Value) {
    // `notifications/initialized` and `notifications/roots/list_changed` have no effect.
    if let (Some(session), "notifications/cancelled") = (session, method)
        && let Some(flight) = session.flight(&params["requestId"])
    {
        flight.call_off();
    }
}

/// Answers the methods that only the handshake revisions have.
pub(super) fn method<H: Host>(
    work: &Work<H>,
    session: Option<&Arc<Session>>,
) -> Result<Value, Fault> {
    let host = &work.shared.host;
    let has = host.capabilities();
    let params = &work.params;
    match work.method.as_str() {
        "initialize" => Ok(welcome(host, session)),
        "ping" => Ok(json!({})),
        "logging/setLevel" if has.logging => {
            let level = params["level"].as_str().and_then(Level::named).ok_or_else(|| {
                Fault::invalid_params(
                    "level: debug, info, notice, warning, error, critical, alert or emergency",
                )
            })?;
            session.ok_or_else(needs_session)?.set_level(level);
            Ok(json!({}))
        }
        "resources/subscribe" if has.subscribe => {
            let uri = checked_uri(&params["uri"])?;
            let session = session.ok_or_else(needs_session)?;
            let (cancel, deadline) = (work.flight.cancel(), work.flight.deadline());
            let version = host.follow(&work.caller, &uri, cancel, deadline)?;
            work.shared.listens.subscribe(session, work.caller.clone(), uri, version)?;
            // Triggers a poll that finds changes between the version read and the subscription.
            work.shared.changes.note();
            Ok(json!({}))
        }
        "resources/unsubscribe" if has.subscribe => {
            let uri = checked_uri(&params["uri"])?;
            let session = session.ok_or_else(needs_session)?;
            work.shared.listens.unsubscribe(session, &uri);
            Ok(json!({}))
        }
        other => Err(Fault::method_not_found(other)),
    }
}

fn welcome<H: Host>(host: &H, session: Option<&Arc<Session>>) -> Value {
    let mut result = json!({
        "protocolVersion": session.map_or(HANDSHAKE_LATEST, |session| session.revision),
        "capabilities": declared(&host.capabilities(), true),
        "serverInfo": host.server_info(),
    });
    if let Some(instructions) = host.instructions() {
        result["instructions"] = instructions.into();
    }
    result
}

/// Opens the session's standalone stream, or resumes a stream that the client lost.
pub(super) fn get<H: Host>(shared: &Arc<Shared<H>>, call: &Call, caller: &H::Caller, reply: Reply) {
    let mut reply = Some(reply);
    let opened = of_session(shared, call, caller).and_then(|session| {
        if !accepts(call).stream {
            let why = "Accept must allow text/event-stream";
            return Err(Fault::server("not_acceptable", why).with_status(406));
        }
        let last = call.request.headers.get("last-event-id").filter(|last| !last.is_empty());
        let sender = |purpose| {
            let reply = reply.take().expect("a stream is opened once, and only here");
            match purpose {
                Purpose::News => reply.stream(session.head()),
                Purpose::Answer => reply.answer_by_stream(session.head()),
            }
        };
        // Recorded first, so that an open stream always has a caller whose credential is checked.
        shared.listens_to(&session, caller);
        session.open_own_stream(last, sender).map_err(|unopened| match unopened {
            Unopened::Taken => {
                let why = "this session has its stream already; one GET at a time";
                Fault::server("stream_taken", why).with_status(409)
            }
            Unopened::UnknownEvent => {
                let why = "Last-Event-ID is not of this session, or of a stream that is forgotten";
                Fault::server("unknown_event", why).with_status(400)
            }
        })
    });
    if let (Err(fault), Some(reply)) = (opened, reply) {
        reply.send(refusal(&Value::Null, &fault));
    }
}

/// Ends a session.
pub(super) fn delete<H: Host>(
    shared: &Arc<Shared<H>>,
    call: &Call,
    caller: &H::Caller,
    reply: Reply,
) {
    let ended = of_session(shared, call, caller).and_then(|session| {
        let was_there = shared.sessions.end(&session.id, &session.principal);
        if was_there { Ok(()) } else { Err(Fault::session_not_found()) }
    });
    reply.send(match ended {
        Ok(()) => Response::empty(204),
        Err(fault) => refusal(&Value::Null, &fault),
    });
}

fn of_session<H: Host>(
    shared: &Arc<Shared<H>>,
    call: &Call,
    caller: &H::Caller,
) -> Result<Arc<Session>, Fault> {
    check_version(call)?;
    let id = session_header(call)?.ok_or_else(needs_session)?;
    let principal = shared.host.principal(caller);
    shared.sessions.find(id, &principal).ok_or_else(Fault::session_not_found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_for_one_revision() {
        for (messages, revision, is_good) in [
            (2, Some("2025-03-26"), true),
            (2, None, true),
            (2, Some("2024-11-05"), false),
            (2, Some("2025-06-18"), false),
            (2, Some("2025-11-25"), false),
            (0, None, false),
            (BATCH_MESSAGES_MAX, None, true),
            (BATCH_MESSAGES_MAX + 1, None, false),
        ] {
            assert_eq!(check_batch(messages, revision).is_ok(), is_good, "{messages} {revision:?}");
        }
    }
}
