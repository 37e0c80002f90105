//! State shared by the requests of an endpoint, and the common checks of their headers.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::era::MODERN_REVISIONS;
use super::fault::Fault;
use super::host::Host;
use super::line::{Accepts, json_response};
use super::listens::Listens;
use super::message::{self, Message};
use super::seal::Seal;
use super::session::Session;
use super::sessions::Sessions;
use super::timer::Timer;
use recalld_common::threads::Threads;
use recalld_http_server::{Call, Response};

/// State shared by all requests.
pub(super) struct Shared<H: Host> {
    pub host: H,
    pub sessions: Sessions,
    pub listens: Listens<H::Caller>,
    /// The caller that opened a session's standalone stream, by session id.
    pub listeners: Mutex<HashMap<String, H::Caller>>,
    pub timer: Arc<Timer>,
    pub seal: Seal,
    pub threads: Threads,
    pub call_time_max: Duration,
    pub changes: Arc<Changes>,
}

impl<H: Host> Shared<H> {
    fn listeners(&self) -> MutexGuard<'_, HashMap<String, H::Caller>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the caller that opens the standalone stream of a session.
    pub(super) fn listens_to(&self, session: &Session, caller: &H::Caller) {
        self.listeners().insert(session.id.clone(), caller.clone());
    }

    /// Closes the standalone streams of callers that are no longer active. The sessions remain, because another
    /// credential of the same principal may continue them.
    pub(super) fn end_listeners(&self) {
        let sessions: HashMap<String, Arc<Session>> = {
            let open = self.sessions.all().into_iter().filter(|session| session.is_listened_to());
            open.map(|session| (session.id.clone(), session)).collect()
        };
        let listeners: Vec<(String, H::Caller)> = {
            let mut listeners = self.listeners();
            listeners.retain(|id, _| sessions.contains_key(id));
            listeners.iter().map(|(id, caller)| (id.clone(), caller.clone())).collect()
        };
        for (id, caller) in listeners {
            if !self.host.stands(&caller)
                && let Some(session) = sessions.get(&id)
            {
                session.pause_own_stream();
            }
        }
    }
}

/// Signal that resources may have changed. Cheap and non-blocking; signals that arrive faster than polls are combined.
#[derive(Default)]
pub struct Changes {
    state: Mutex<News>,
    changed: Condvar,
}

#[derive(Default)]
struct News {
    has_news: bool,
    closing: bool,
}

impl Changes {
    fn state(&self) -> MutexGuard<'_, News> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals that a resource may have changed.
    pub fn note(&self) {
        self.state().has_news = true;
        self.changed.notify_one();
    }

    pub(super) fn close(&self) {
        self.state().closing = true;
        self.changed.notify_one();
    }

    /// Waits for a signal, and at least for `at_least`; returns false when the endpoint closes.
    pub(super) fn wait(&self, at_least: Duration) -> bool {
        let goes_on = |news: &mut News| !news.closing;
        let rested = self.changed.wait_timeout_while(self.state(), at_least, goes_on);
        let (state, _) = rested.unwrap_or_else(PoisonError::into_inner);
        let quiet = |news: &mut News| !news.has_news && !news.closing;
        let waited = self.changed.wait_while(state, quiet);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.has_news = false;
        !state.closing
    }
}

pub(super) fn names_modern(call: &Call) -> bool {
    version_header(call).is_some_and(|version| MODERN_REVISIONS.contains(&version))
}

/// The revision in the `MCP-Protocol-Version` header, if present.
pub(super) fn version_header(call: &Call) -> Option<&str> {
    call.request.headers.get("mcp-protocol-version").map(str::trim)
}

/// Response types that the client accepts.
pub(super) fn accepts(call: &Call) -> Accepts {
    Accepts::of(call.request.headers.get_all("accept"))
}

/// Creates a response that consists of one error.
pub fn refusal(id: &Value, fault: &Fault) -> Response {
    let answer = json_response(fault.status(), &message::failure(id, fault));
    match fault.challenge() {
        Some(challenge) => answer.header("WWW-Authenticate", challenge.to_owned()),
        None => answer,
    }
}

/// Returns the id to use in an error response.
pub(super) fn id_of(body: &Value) -> Value {
    match Message::of(body) {
        Message::Request { id, .. } => id.clone(),
        Message::Wrong { id, .. } => id,
        Message::Notification { .. } | Message::Response { .. } => Value::Null,
    }
}
