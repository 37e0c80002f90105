//! A session of a handshake client: the negotiated revision and capabilities, requests and streams.
//!
//! A session is no authentication. The session is bound to the principal that opened it, and every request is
//! authenticated anew.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use super::abilities::Abilities;
use super::events::{Budget, EventId, Events};
use super::fault::Fault;
use super::log_level::Level;
use crate::limits::{SESSION_ASKS_MAX, SESSION_CALLS_MAX, SESSION_ENDED_STREAMS_MAX};
use recalld_http_server::{Head, Response, StreamSender, sse};

const HEADER: &str = "mcp-session-id";
/// Number of the standalone stream.
const OWN_STREAM: u64 = 0;
/// First revision whose clients accept an event with empty data.
const PRIMING_SINCE: &str = "2025-11-25";

/// A client's response to a request of the server: its result, or its error object.
pub(super) type Answered = Result<Value, Value>;

/// A request in flight, as seen by its session.
pub(super) trait PendingRequest: Send + Sync {
    /// Cancels the request: the client wants no response any more.
    fn call_off(&self);
}

pub(super) struct Session {
    /// Session id: random, visible ASCII.
    pub id: String,
    /// The principal to which the session is bound.
    pub principal: String,
    /// The negotiated revision.
    pub revision: &'static str,
    /// Capabilities that the client declared.
    pub abilities: Abilities,
    /// Replay budget of the principal.
    pub budget: Budget,
    state: Mutex<State>,
}

struct State {
    last_used: Instant,
    level: Level,
    streams: BTreeMap<u64, Events>,
    next_stream: u64,
    /// Requests in flight, keyed by the JSON text of their id.
    flights: HashMap<String, Arc<dyn PendingRequest>>,
    asks: HashMap<u64, Sender<Answered>>,
    next_ask: u64,
    has_ended: bool,
}

/// Purpose of a stream opened by GET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Messages that belong to no request, as long as the client is connected.
    News,
    /// The rest of a response whose stream was lost.
    Answer,
}

/// Reason why a GET does not open a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unopened {
    /// The standalone stream is already open.
    Taken,
    /// No stream of the session has this event.
    UnknownEvent,
}

impl Session {
    /// Creates a session.
    pub(super) fn new(
        id: String,
        principal: String,
        revision: &'static str,
        abilities: Abilities,
        budget: Budget,
    ) -> Self {
        let state = State {
            last_used: Instant::now(),
            level: Level::Info,
            streams: BTreeMap::new(),
            next_stream: OWN_STREAM + 1,
            flights: HashMap::new(),
            asks: HashMap::new(),
            next_ask: 1,
            has_ended: false,
        };
        let state = Mutex::new(state);
        Self { id, principal, revision, abilities, budget, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a use of the session.
    pub(super) fn touch(&self) {
        self.state().last_used = Instant::now();
    }

    /// Time of the last use; `None` while a request is in flight or the standalone stream is open.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        let is_open = state.streams.get(&OWN_STREAM).is_some_and(Events::is_open);
        (!is_open && state.flights.is_empty()).then_some(state.last_used)
    }

    /// Returns true if the standalone stream is open.
    pub(super) fn is_listened_to(&self) -> bool {
        self.state().streams.get(&OWN_STREAM).is_some_and(Events::is_open)
    }

    /// Response head of a stream of this session.
    pub(super) fn head(&self) -> Head {
        sse::head().header(HEADER, self.id.clone())
    }

    /// Adds the session id to a response.
    pub(super) fn name_in(&self, response: Response) -> Response {
        response.header(HEADER, self.id.clone())
    }

    /// Minimum level of log messages.
    pub(super) fn level(&self) -> Level {
        self.state().level
    }

    /// Sets the level that the client requested.
    pub(super) fn set_level(&self, level: Level) {
        self.state().level = level;
    }

    fn primes(&self) -> bool {
        self.revision >= PRIMING_SINCE
    }

    /// Opens a stream for the responses of a POST and returns its number.
    pub(super) fn open_stream(&self, sender: StreamSender) -> u64 {
        let mut state = self.state();
        let number = state.next_stream;
        state.next_stream += 1;
        if state.has_ended {
            return number;
        }
        let events = Events::open(number, self.budget.clone(), sender, self.primes());
        state.streams.insert(number, events);
        number
    }

    /// Opens the standalone stream, or resumes the stream of `last` that the client lost.
    pub(super) fn open_own_stream(
        &self,
        last: Option<&str>,
        sender: impl FnOnce(Purpose) -> StreamSender,
    ) -> Result<(), Unopened> {
        let mut state = self.state();
        let Some(last) = last else {
            match state.streams.get_mut(&OWN_STREAM) {
                Some(own) if own.is_open() => return Err(Unopened::Taken),
                // Numbering continues: an event id must be unique in its session.
                Some(own) => own.resume(sender(Purpose::News), None, self.primes()),
                None => {
                    let (budget, primes) = (self.budget.clone(), self.primes());
                    let own = Events::open(OWN_STREAM, budget, sender(Purpose::News), primes);
                    state.streams.insert(OWN_STREAM, own);
                }
            }
            return Ok(());
        };
        let found = EventId::parse(last)
            .and_then(|id| Some((id.stream, id.place, state.streams.get_mut(&id.stream)?)));
        let (stream, place, events) = found.ok_or(Unopened::UnknownEvent)?;
        let purpose = if stream == OWN_STREAM { Purpose::News } else { Purpose::Answer };
        events.resume(sender(purpose), Some(place), self.primes());
        Ok(())
    }

    /// Sends a message on a stream; returns false if no client can ever receive the message.
    pub(super) fn push(&self, stream: u64, message: &str) -> bool {
        self.state().streams.get_mut(&stream).is_some_and(|events| events.push(message))
    }

    /// Sends a message that belongs to no request, on the standalone stream.
    pub(super) fn tell(&self, message: &Value) -> bool {
        self.push(OWN_STREAM, &message.to_string())
    }

    /// Sends a comment on every open stream, which detects disconnected clients.
    pub(super) fn comment(&self, bytes: &[u8]) {
        self.state().streams.values_mut().for_each(|events| events.comment(bytes));
    }

    /// Removes expired streams.
    pub(super) fn forget_stale(&self, now: Instant) {
        self.state().streams.retain(|_, events| !events.is_stale(now));
    }

    /// Closes the connection of the standalone stream, for the drain of the server.
    pub(super) fn pause_own_stream(&self) {
        self.pause_stream(OWN_STREAM);
    }

    /// Closes a stream's connection; the stream continues.
    pub(super) fn pause_stream(&self, stream: u64) {
        if let Some(events) = self.state().streams.get_mut(&stream) {
            events.pause();
        }
    }

    /// Marks a stream as complete.
    pub(super) fn end_stream(&self, stream: u64) {
        let mut state = self.state();
        if let Some(events) = state.streams.get_mut(&stream) {
            events.end();
        }
        let ended = state.streams.iter().filter(|(_, events)| events.has_ended());
        let ended: Vec<u64> = ended.map(|(number, _)| *number).collect();
        for oldest in &ended[..ended.len().saturating_sub(SESSION_ENDED_STREAMS_MAX)] {
            state.streams.remove(oldest);
        }
    }

    /// Registers a request.
    pub(super) fn begin(&self, id: &Value, request: Arc<dyn PendingRequest>) -> Result<(), Fault> {
        let mut state = self.state();
        if state.has_ended {
            return Err(Fault::session_not_found());
        }
        if state.flights.len() >= SESSION_CALLS_MAX {
            let why = format!("{SESSION_CALLS_MAX} requests of this session are under way already");
            return Err(Fault::server("too_many_requests", why).with_status(503));
        }
        let key = id.to_string();
        if state.flights.contains_key(&key) {
            let why = format!("a request with id {key} is under way in this session");
            return Err(Fault::invalid_request(&why));
        }
        state.flights.insert(key, request);
        Ok(())
    }

    /// Removes a completed request.
    pub(super) fn settled(&self, id: &Value) {
        let mut state = self.state();
        state.last_used = Instant::now();
        state.flights.remove(&id.to_string());
    }

    /// Returns the request in flight with this id.
    pub(super) fn flight(&self, id: &Value) -> Option<Arc<dyn PendingRequest>> {
        self.state().flights.get(&id.to_string()).cloned()
    }

    /// Registers a request to the client; returns its number and the receiver of the response.
    pub(super) fn begin_ask(&self) -> Option<(u64, Receiver<Answered>)> {
        let mut state = self.state();
        if state.asks.len() >= SESSION_ASKS_MAX || state.has_ended {
            return None;
        }
        let (sender, receiver) = mpsc::channel();
        let id = state.next_ask;
        state.next_ask += 1;
        state.asks.insert(id, sender);
        Some((id, receiver))
    }

    /// Removes a request to the client that is no longer awaited.
    pub(super) fn end_ask(&self, id: u64) {
        self.state().asks.remove(&id);
    }

    /// Delivers the client's response. A response that is not awaited is ignored.
    pub(super) fn answered(&self, id: &Value, outcome: Answered) {
        let asked = id.as_str().and_then(ask_number);
        let waiting = asked.and_then(|number| self.state().asks.remove(&number));
        if let Some(waiting) = waiting {
            // The waiting request may just have timed out.
            let _given_up = waiting.send(outcome);
        }
    }

    /// Ends the session: requests are cancelled, streams end.
    pub(super) fn end(&self) {
        let flights: Vec<_> = {
            let mut state = self.state();
            state.has_ended = true;
            state.asks.clear();
            state.streams.clear();
            state.flights.drain().map(|(_, flight)| flight).collect()
        };
        flights.iter().for_each(|flight| flight.call_off());
    }
}

/// The id of a request to the client.
pub(super) fn ask_id(number: u64) -> Value {
    json!(format!("ask-{number}"))
}

fn ask_number(id: &str) -> Option<u64> {
    id.strip_prefix("ask-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ENDED_STREAM_KEPT;
    use recalld_http_server::loose::Loose;

    fn session() -> Session {
        let (id, principal) = ("s".to_owned(), "ada".to_owned());
        Session::new(id, principal, "2025-11-25", Abilities::default(), Budget::default())
    }

    #[test]
    fn no_stream_is_given_up_before_it_has_ended() {
        let session = session();
        let (sender, own) = Loose::open();
        session.open_own_stream(None, |_| sender).unwrap();
        let open = || {
            let (sender, loose) = Loose::open();
            (session.open_stream(sender), loose)
        };
        let streams: Vec<_> = (0..SESSION_CALLS_MAX).map(|_| open()).collect();
        for (number, loose) in &streams {
            assert!(session.push(*number, &json!({"of": number}).to_string()), "stream {number}");
            assert!(loose.sent().contains(&format!("{{\"of\":{number}}}")));
            session.end_stream(*number);
        }
        assert!(session.tell(&json!({})) && own.sent().contains("id: 0-1\n"));
        let kept = session.state().streams.len();
        assert_eq!(kept, SESSION_ENDED_STREAMS_MAX + 1, "the last ones to end, and GET's");
        let resume = |number: u64| {
            let (sender, loose) = Loose::open();
            let last = format!("{number}-0");
            session.open_own_stream(Some(&last), |_| sender).map(|()| loose.sent())
        };
        session.forget_stale(Instant::now());
        assert_eq!(resume(streams[0].0), Err(Unopened::UnknownEvent));
        let newest = streams.last().unwrap().0;
        assert!(resume(newest).unwrap().contains(&format!("id: {newest}-1\n")));
        session.forget_stale(Instant::now() + 2 * ENDED_STREAM_KEPT);
        assert_eq!(session.state().streams.len(), 1, "GET's goes on");
    }

    #[test]
    fn an_event_has_its_id_alone() {
        let session = session();
        let open = |last: Option<&str>| {
            let (sender, loose) = Loose::open();
            session.open_own_stream(last, |_| sender).unwrap();
            loose
        };
        let first = open(None);
        assert!(session.tell(&json!({"n": 1})));
        assert!(first.sent().contains("id: 0-1\n"));
        drop(first);
        let second = open(None);
        assert!(session.tell(&json!({"n": 2})));
        let sent = second.sent();
        assert!(sent.contains("id: 0-2\n") && !sent.contains("{\"n\":1}"), "{sent}");
        drop(second);
        let third = open(Some("0-1"));
        assert!(third.sent().contains("{\"n\":2}"), "what came after the event it names");
    }
}
