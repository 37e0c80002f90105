//! The MCP endpoint: Streamable HTTP (revision 2025-03-26 and its handshake siblings).
//!
//! Owns the transport's rules: content types, JSON or an event stream, batches, notifications.
//! What a message means is `rpc`'s; what a tool does is the catalog's.

mod rpc;

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use crate::limits::BATCH_MESSAGES_MAX;
use crate::net::{Call, Reply, Response, StreamSender, sse};
use crate::parts::{Caller, Parts};
use crate::tools::{Context, Profile};

use rpc::{Fault, Message};
pub use rpc::{LATEST, REVISIONS};

/// Answers a POST to the endpoint.
pub fn serve(parts: &Parts, caller: &Caller, call: &Call, reply: Reply) {
    let profile = Profile::from_query(call.request.query())
        .map_err(|why| (400, Fault::server("unknown_profile", &why)));
    let (profile, body) = match profile.and_then(|profile| Ok((profile, accepted(call)?))) {
        Ok(accepted) => accepted,
        Err((status, fault)) => return reply.send(refusal(status, &fault)),
    };
    let stream = wants_stream(&body);
    let (answers_json, answers_stream) = accepts(call);
    if !answers_json && !answers_stream {
        let why = "Accept must allow application/json or text/event-stream";
        return reply.send(refusal(406, &Fault::server("not_acceptable", why)));
    }
    if has_requests(&body) && (!answers_json || (stream && answers_stream)) {
        return serve_stream(parts, caller, call, profile, &body, reply);
    }
    match answer(parts, caller, call, profile, &body, None) {
        Some(answer) => {
            // A single message that is none at all never reached a method.
            let wrong = !body.is_array() && matches!(Message::of(&body), Message::Wrong { .. });
            let status = if wrong { 400 } else { 200 };
            reply.send(Response::json(status, answer.to_string().into_bytes()));
        }
        None => reply.send(Response::empty(202)),
    }
}

/// Progress comes as notifications; the answer is the last event.
fn serve_stream(
    parts: &Parts,
    caller: &Caller,
    call: &Call,
    profile: Profile,
    body: &Value,
    reply: Reply,
) {
    let stream = Mutex::new(reply.stream(sse::head().header("X-Accel-Buffering", "no")));
    let tell = |note: &Value| send(&stream, note);
    if let Some(answer) = answer(parts, caller, call, profile, body, Some(&tell)) {
        send(&stream, &answer);
    }
}

fn send(stream: &Mutex<StreamSender>, message: &Value) {
    let data = message.to_string();
    let event = sse::Event { name: Some("message"), data: Some(&data), ..sse::Event::default() };
    if let Ok(bytes) = event.encode() {
        let stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        // A client that left raises the call's cancel flag; nothing is left to do here.
        let _gone = stream.send(&bytes);
    }
}

/// The request's JSON, if the transport's rules are kept.
fn accepted(call: &Call) -> Result<Value, (u16, Fault)> {
    let headers = &call.request.headers;
    let kind = headers.get("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let why = "Content-Type must be application/json";
        return Err((415, Fault::server("unsupported_media_type", why)));
    }
    if let Some(version) = headers.get("mcp-protocol-version")
        && !REVISIONS.contains(&version)
    {
        let why = format!("MCP-Protocol-Version {version} is not served; {}", REVISIONS.join(", "));
        return Err((400, Fault::server("unsupported_protocol_version", &why)));
    }
    serde_json::from_slice(&call.request.body)
        .map_err(|error| (400, Fault::parse(&format!("Parse error: {error}"))))
        .and_then(|body| checked_batch(body).map_err(|fault| (400, fault)))
}

fn checked_batch(body: Value) -> Result<Value, Fault> {
    if let Value::Array(messages) = &body
        && !(1..=BATCH_MESSAGES_MAX).contains(&messages.len())
    {
        let why = format!(
            "a batch of {} messages; 1 to {BATCH_MESSAGES_MAX} are allowed",
            messages.len()
        );
        return Err(Fault::invalid_request(&why));
    }
    Ok(body)
}

fn refusal(status: u16, fault: &Fault) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": fault.to_json()});
    Response::json(status, body.to_string().into_bytes())
}

/// Whether the client takes JSON, and whether it takes an event stream.
fn accepts(call: &Call) -> (bool, bool) {
    let mut given = false;
    let (mut json, mut stream) = (false, false);
    for value in call.request.headers.get_all("accept") {
        for one in value.split(',') {
            given = true;
            let kind = one.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            json |= matches!(kind.as_str(), "application/json" | "application/*" | "*/*");
            stream |= matches!(kind.as_str(), "text/event-stream" | "text/*" | "*/*");
        }
    }
    if given { (json, stream) } else { (true, false) }
}

fn messages(body: &Value) -> &[Value] {
    body.as_array().map_or(std::slice::from_ref(body), Vec::as_slice)
}

fn has_requests(body: &Value) -> bool {
    messages(body).iter().any(|message| !matches!(Message::of(message), Message::Silent))
}

/// A call that reports progress is answered as a stream.
fn wants_stream(body: &Value) -> bool {
    messages(body).iter().any(|message| !message["params"]["_meta"]["progressToken"].is_null())
}

/// The answer to a message or to a batch; `None` when nothing of it asks for one.
fn answer(
    parts: &Parts,
    caller: &Caller,
    call: &Call,
    profile: Profile,
    body: &Value,
    tell: Option<&(dyn Fn(&Value) + Sync)>,
) -> Option<Value> {
    let deadline = Instant::now() + parts.call_time_max;
    let context = Context { parts, caller, cancel: &call.cancel, deadline, progress: None };
    let one = |message: &Value| match Message::of(message) {
        Message::Silent => None,
        Message::Wrong { id, fault } => Some(rpc::failure(&id, &fault)),
        Message::Request { id, method, params } => {
            Some(match rpc::dispatch(&context, profile, method, params, tell) {
                Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                Err(fault) => rpc::failure(&id, &fault),
            })
        }
    };
    match body {
        Value::Array(messages) => {
            let batched = messages.iter().filter_map(|message| match Message::of(message) {
                Message::Request { id, method: "initialize", .. } => {
                    let fault = Fault::invalid_request("initialize must not be in a batch");
                    Some(rpc::failure(&id, &fault))
                }
                _ => one(message),
            });
            let answers: Vec<Value> = batched.collect();
            (!answers.is_empty()).then_some(Value::Array(answers))
        }
        single => one(single),
    }
}
