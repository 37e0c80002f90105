//! The endpoint: one path for every revision, and the state that lives as long as the server.
//!
//! Owns the first checks of the transport (method, content type, JSON, protocol style). Owns the threads besides the
//! workers: the timer, the poller for changed resources, and the threads of calls that may block.

use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use engine::os::clock::Random;
use serde_json::{Value, json};

use super::era::{self, Era};
use super::fault::Fault;
use super::host::{Host, List};
use super::listens::Listens;
use super::seal::Seal;
use super::sessions::{Bounds, Sessions};
use super::shared::{Changes, Shared, accepts, id_of, names_modern, refusal, version_header};
use super::timer::{Timer, caught};
use super::{handshake, message, per_request};
use crate::limits::{
    BATCH_MESSAGES_MAX, LONG_CALLS_MAX, LOOK_EVERY, LOOK_SHARE, PING_BYTES_MAX,
    STREAM_COMMENT_EVERY, STREAM_STANDING_EVERY,
};
use recalld_common::threads::Threads;
use recalld_http_server::{Call, Method, Reply, Response, sse};
use recalld_telemetry::log;

/// Settings of an endpoint, besides its server handler.
pub struct Settings {
    /// Time limit of a request.
    pub call_time_max: Duration,
    /// Source of session ids and keys.
    pub random: Arc<dyn Random>,
}

/// Name of the method that is answered inline, as encoded in a message.
const PING: &[u8] = b"\"ping\"";

/// An MCP endpoint.
pub struct Endpoint<H: Host> {
    shared: Arc<Shared<H>>,
    looker: Option<JoinHandle<()>>,
}

/// Current counts of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Sessions begun with `initialize`.
    pub sessions: usize,
    /// Open `subscriptions/listen` streams.
    pub listens: usize,
    /// Resources followed by sessions and by listen streams.
    pub subscriptions: usize,
}

/// The body of a request, read once: for the decision which node answers, and for the answer itself.
pub struct Body<T> {
    json: Result<Value, Fault>,
    /// The tool that each message calls, if available to the caller.
    tools: Vec<Option<T>>,
}

/// Methods that the server handler answers from its data.
const DATA_METHODS: [&str; 5] =
    ["tools/call", "resources/read", "resources/subscribe", "prompts/get", "completion/complete"];

impl<T> Body<T> {
    /// The tools that the messages call, as far as available to the caller.
    pub fn tools(&self) -> impl Iterator<Item = &T> {
        self.tools.iter().flatten()
    }

    /// Returns true if a message has a method that the server handler answers from its data.
    pub fn uses_data(&self) -> bool {
        let uses_data = |message: &Value| {
            message["method"].as_str().is_some_and(|method| DATA_METHODS.contains(&method))
        };
        message::all(self.json()).iter().any(uses_data)
    }

    /// Returns true if the message opens a stream that lasts until the client disconnects.
    pub fn listens(&self) -> bool {
        self.json()["method"] == per_request::LISTEN
    }

    /// The id of the message; null if the body is a batch, or the message has no valid id.
    pub fn id(&self) -> Value {
        let id = &self.json()["id"];
        if id.is_string() || id.is_i64() || id.is_u64() { id.clone() } else { Value::Null }
    }

    /// The message or batch; null if the request has none or will be rejected.
    fn json(&self) -> &Value {
        self.json.as_ref().unwrap_or(&Value::Null)
    }
}

impl<H: Host> Endpoint<H> {
    /// Starts the endpoint with its threads.
    ///
    /// # Errors
    /// The system provides no threads.
    pub fn start(host: H, settings: Settings) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            host,
            sessions: Sessions::new(Arc::clone(&settings.random), Bounds::default()),
            listens: Listens::new(),
            listeners: Mutex::default(),
            timer: Arc::new(Timer::start()?),
            seal: Seal::new(&*settings.random),
            threads: Threads::new("mcp-call", LONG_CALLS_MAX),
            call_time_max: settings.call_time_max,
            changes: Arc::default(),
        });
        schedule_tick(&shared);
        schedule_look_at_credentials(&shared);
        let looker = thread::Builder::new().name("mcp-changes".to_owned()).spawn({
            let (changes, shared) = (Arc::clone(&shared.changes), Arc::downgrade(&shared));
            move || look_for_changes(&changes, &shared)
        })?;
        Ok(Self { shared, looker: Some(looker) })
    }

    /// The host.
    pub fn host(&self) -> &H {
        &self.shared.host
    }

    /// Current counts.
    pub fn figures(&self) -> Figures {
        let (listens, subscriptions) = self.shared.listens.counts();
        Figures { sessions: self.shared.sessions.count(), listens, subscriptions }
    }

    /// Signal by which the server handler reports changed resources.
    pub fn changes(&self) -> Arc<Changes> {
        Arc::clone(&self.shared.changes)
    }

    /// Notifies the subscribed clients that a list has changed.
    pub fn list_changed(&self, list: List) {
        let method = match list {
            List::Tools => "notifications/tools/list_changed",
            List::Prompts => "notifications/prompts/list_changed",
            List::Resources => "notifications/resources/list_changed",
        };
        let message = json!({"jsonrpc": "2.0", "method": method});
        for session in self.shared.sessions.all() {
            session.tell(&message);
        }
        self.shared.listens.list_changed(list, method);
    }

    /// Ends notification streams in an orderly way, for the drain of the server; streams that answer a request end by
    /// themselves.
    pub fn close(&self) {
        self.shared.sessions.all().iter().for_each(|session| session.pause_own_stream());
        self.shared.listens.close(|id| per_request::listen_result(&self.shared.host, id));
    }

    /// Answers a `ping` outside of sessions, which needs neither the server handler nor a caller: cheap enough for the
    /// event loop, and without a lock. Returns `None` for every other request, which `serve` answers.
    pub fn quick(call: &Call) -> Option<Response> {
        let body = &call.request.body;
        let may_be = call.request.method == Method::Post
            && body.len() <= PING_BYTES_MAX
            && body.windows(PING.len()).any(|bytes| bytes == PING);
        if !may_be || !accepts(call).json {
            return None;
        }
        let body = json_body(call).ok()?;
        match era::era(version_header(call), &body) {
            Ok(Era::Handshake) => handshake::quick(call, &body),
            _ => None,
        }
    }

    /// Returns true if the request names a session of this server that belongs to the caller. Counts as use of the
    /// session.
    pub fn has_session(&self, call: &Call, caller: &H::Caller) -> bool {
        let principal = self.shared.host.principal(caller);
        let id = call.request.headers.get("mcp-session-id");
        id.is_some_and(|id| self.shared.sessions.find(id, &principal).is_some())
    }

    /// Answers a request. `caller` was authenticated by the transport.
    pub fn serve(&self, call: &Call, caller: H::Caller, reply: Reply) {
        let body = self.read(call, &caller);
        self.serve_read(call, body, caller, reply);
    }

    /// Parses the body of a POST and resolves the tools that it calls. Other requests have no body.
    pub fn read(&self, call: &Call, caller: &H::Caller) -> Body<H::Tool> {
        let json = match call.request.method {
            Method::Post => json_body(call),
            _ => Ok(Value::Null),
        };
        let tool_of = |message: &Value| {
            let name = message["params"]["name"].as_str();
            let name = name.filter(|_| message["method"] == "tools/call")?;
            self.shared.host.resolve_tool(caller, name)
        };
        // A longer batch is refused as a whole.
        let messages = json.as_ref().map(message::all).unwrap_or_default().iter();
        let tools = messages.take(BATCH_MESSAGES_MAX).map(tool_of).collect();
        Body { json, tools }
    }

    /// Answers a request whose body was read before, for the same caller.
    pub fn serve_read(&self, call: &Call, body: Body<H::Tool>, caller: H::Caller, reply: Reply) {
        let shared = &self.shared;
        match call.request.method {
            Method::Post => post(shared, call, body, caller, reply),
            Method::Get if !names_modern(call) => handshake::get(shared, call, &caller, reply),
            Method::Delete if !names_modern(call) => {
                handshake::delete(shared, call, &caller, reply)
            }
            _ => {
                let allow = if names_modern(call) { "POST" } else { "POST, GET, DELETE" };
                let why = "this path takes POST, and, for revisions with sessions, GET and DELETE";
                let fault = Fault::invalid_request(why).with_status(405);
                reply.send(refusal(&Value::Null, &fault).header("Allow", allow));
            }
        }
    }
}

impl<H: Host> Drop for Endpoint<H> {
    fn drop(&mut self) {
        const CALLS_END_WITHIN: Duration = Duration::from_secs(2);
        self.shared.sessions.all().iter().for_each(|session| session.end());
        self.shared.threads.wait(CALLS_END_WITHIN);
        self.shared.timer.close();
        self.shared.changes.close();
        if let Some(looker) = self.looker.take()
            && looker.join().is_err()
        {
            log::event(log::Level::Error, "the thread that looks for changes had panicked", &[]);
        }
    }
}

/// Schedules the periodic keep-alive comments on quiet streams, and the expiry of idle sessions.
fn schedule_tick<H: Host>(shared: &Arc<Shared<H>>) {
    let weak = Arc::downgrade(shared);
    let at = Instant::now() + STREAM_COMMENT_EVERY;
    shared.timer.schedule(at, move || {
        let Some(shared) = weak.upgrade() else { return };
        // First, so that a panic below does not stop the schedule.
        schedule_tick(&shared);
        let comment = sse::comment("");
        let now = Instant::now();
        for session in shared.sessions.all() {
            session.comment(&comment);
            session.forget_stale(now);
        }
        shared.listens.comment(&comment);
        shared.sessions.expire(now);
    });
}

/// Schedules the periodic check that ends streams of callers that are no longer active.
fn schedule_look_at_credentials<H: Host>(shared: &Arc<Shared<H>>) {
    let weak = Arc::downgrade(shared);
    shared.timer.schedule(Instant::now() + STREAM_STANDING_EVERY, move || {
        let Some(shared) = weak.upgrade() else { return };
        schedule_look_at_credentials(&shared);
        let host = &shared.host;
        let result = |id: &Value| per_request::listen_result(host, id);
        shared.listens.end_where(|caller| !host.stands(caller), result);
        shared.end_listeners();
    });
}

fn look_for_changes<H: Host>(changes: &Changes, shared: &Weak<Shared<H>>) {
    let mut rest = Duration::ZERO;
    while changes.wait(rest) {
        let Some(shared) = shared.upgrade() else { return };
        let began = Instant::now();
        // After a panic, the next commit triggers another poll.
        caught("a look for changed resources panicked", || {
            shared.listens.look(|followed| shared.host.versions(followed));
        });
        rest = LOOK_EVERY.max(began.elapsed() * LOOK_SHARE);
    }
}

/// Returns true if the request names a session, in a revision that has sessions.
pub fn names_session(call: &Call) -> bool {
    call.request.headers.get("mcp-session-id").is_some() && !names_modern(call)
}

fn post<H: Host>(
    shared: &Arc<Shared<H>>,
    call: &Call,
    Body { json, tools }: Body<H::Tool>,
    caller: H::Caller,
    reply: Reply,
) {
    let body = match json {
        Ok(body) => body,
        Err(fault) => return reply.send(refusal(&Value::Null, &fault)),
    };
    match era::era(version_header(call), &body) {
        Ok(Era::Handshake) => handshake::post(shared, call, caller, (body, tools), reply),
        Ok(Era::PerRequest) => per_request::post(shared, call, caller, (body, tools), reply),
        Err(fault) => reply.send(refusal(&id_of(&body), &fault)),
    }
}

fn json_body(call: &Call) -> Result<Value, Fault> {
    let headers = &call.request.headers;
    let is_json = |kind: &str| {
        kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
    };
    let mut kinds = headers.get_all("content-type");
    if !kinds.next().is_some_and(is_json) || kinds.next().is_some() {
        let why = "Content-Type must be application/json, once";
        return Err(Fault::server("unsupported_media_type", why).with_status(415));
    }
    let accepts = accepts(call);
    if !accepts.json && !accepts.stream {
        let why = "Accept must allow application/json or text/event-stream";
        return Err(Fault::server("not_acceptable", why).with_status(406));
    }
    serde_json::from_slice(&call.request.body).map_err(|error| Fault::parse(&error.to_string()))
}
