//! One session of a handshake client: what was agreed, and what is under way.
//!
//! A session is no authentication: it belongs to the caller that began it, and every request shows
//! anew who calls.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use super::events::{Budget, EventId, Events};
use super::fault::Fault;
use super::flight::Flight;
use super::log_level::Level;
use crate::limits::{SESSION_ASKS_MAX, SESSION_CALLS_MAX, SESSION_STREAMS_MAX};
use crate::net::{Head, Response, StreamSender, sse};

const HEADER: &str = "mcp-session-id";
/// The number of the stream that GET opens.
const OWN_STREAM: u64 = 0;
/// The first revision whose clients take an event without data.
const PRIMING_SINCE: &str = "2025-11-25";

/// A client's answer to a question of ours: its result, or its error object.
pub(super) type Answered = Result<Value, Value>;

/// One session.
pub(super) struct Session {
    /// Random, visible ASCII.
    pub id: String,
    /// Whose it is.
    pub principal: String,
    /// What was agreed.
    pub revision: &'static str,
    /// What the client said it can do.
    pub capabilities: Value,
    budget: Budget,
    state: Mutex<State>,
}

struct State {
    last_used: Instant,
    level: Level,
    streams: BTreeMap<u64, Events>,
    next_stream: u64,
    /// By the text of the request's id.
    flights: HashMap<String, Arc<Flight>>,
    asks: HashMap<u64, Sender<Answered>>,
    next_ask: u64,
    has_ended: bool,
}

/// Why a GET stream does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unopened {
    /// There is one.
    Taken,
    /// No stream of ours had this event.
    UnknownEvent,
}

impl Session {
    /// A session that begins now.
    pub(super) fn new(
        id: String,
        principal: String,
        revision: &'static str,
        capabilities: Value,
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
        Self { id, principal, revision, capabilities, budget, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the client is there.
    pub(super) fn touch(&self) {
        self.state().last_used = Instant::now();
    }

    /// When it was used last; `None` while something is under way or listened to.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        let is_open = state.streams.get(&OWN_STREAM).is_some_and(Events::is_open);
        (!is_open && state.flights.is_empty()).then_some(state.last_used)
    }

    /// The head of a stream of this session.
    pub(super) fn head(&self) -> Head {
        sse::head().header(HEADER, self.id.clone())
    }

    /// An answer that names the session.
    pub(super) fn name_in(&self, response: Response) -> Response {
        response.header(HEADER, self.id.clone())
    }

    /// How serious a log message must be.
    pub(super) fn level(&self) -> Level {
        self.state().level
    }

    /// The client has asked for another level.
    pub(super) fn set_level(&self, level: Level) {
        self.state().level = level;
    }

    fn primes(&self) -> bool {
        self.revision >= PRIMING_SINCE
    }

    /// A stream for the answers of a POST; gives its number.
    pub(super) fn open_stream(&self, sender: StreamSender) -> u64 {
        let mut state = self.state();
        let number = state.next_stream;
        state.next_stream += 1;
        if state.has_ended {
            return number;
        }
        while state.streams.len() >= SESSION_STREAMS_MAX {
            // One that has ended, if there is one; else the oldest cannot be taken up again.
            let posted = || state.streams.iter().filter(|(number, _)| **number != OWN_STREAM);
            let ended = posted().find(|(_, events)| events.has_ended());
            let Some(oldest) = ended.or_else(|| posted().next()).map(|(number, _)| *number) else {
                break;
            };
            state.streams.remove(&oldest);
        }
        let events = Events::open(number, self.budget.clone(), sender, self.primes());
        state.streams.insert(number, events);
        number
    }

    /// The stream that GET asks for: a new one, or one that the client had lost.
    pub(super) fn open_own_stream(
        &self,
        last: Option<&str>,
        sender: impl FnOnce() -> StreamSender,
    ) -> Result<(), Unopened> {
        let mut state = self.state();
        let Some(last) = last else {
            if state.streams.get(&OWN_STREAM).is_some_and(Events::is_open) {
                return Err(Unopened::Taken);
            }
            let next = Events::open(OWN_STREAM, self.budget.clone(), sender(), self.primes());
            state.streams.insert(OWN_STREAM, next);
            return Ok(());
        };
        let found = EventId::parse(last)
            .and_then(|id| Some((id.place, state.streams.get_mut(&id.stream)?)));
        let (place, events) = found.ok_or(Unopened::UnknownEvent)?;
        events.resume(sender(), place, self.primes());
        Ok(())
    }

    /// Sends a message by a stream; false where nobody will ever hear it.
    pub(super) fn push(&self, stream: u64, message: &Value) -> bool {
        self.state().streams.get_mut(&stream).is_some_and(|events| events.push(message))
    }

    /// Sends a message that belongs to no request, by the stream that GET opened.
    pub(super) fn tell(&self, message: &Value) -> bool {
        self.push(OWN_STREAM, message)
    }

    /// Sends a comment by every open stream, which shows who has left.
    pub(super) fn comment(&self, bytes: &[u8]) {
        self.state().streams.values_mut().for_each(|events| events.comment(bytes));
    }

    /// Closes a stream's connection; the stream goes on.
    pub(super) fn pause_stream(&self, stream: u64) {
        if let Some(events) = self.state().streams.get_mut(&stream) {
            events.pause();
        }
    }

    /// Everything that belongs to this stream is said.
    pub(super) fn end_stream(&self, stream: u64) {
        if let Some(events) = self.state().streams.get_mut(&stream) {
            events.end();
        }
    }

    /// A request begins.
    pub(super) fn begin(&self, flight: &Arc<Flight>) -> Result<(), Fault> {
        let mut state = self.state();
        if state.has_ended {
            return Err(Fault::session_not_found());
        }
        if state.flights.len() >= SESSION_CALLS_MAX {
            let why = format!("{SESSION_CALLS_MAX} requests of this session are under way already");
            return Err(Fault::server("too_many_requests", why).with_status(503));
        }
        let key = flight.id().to_string();
        if state.flights.contains_key(&key) {
            let why = format!("a request with id {key} is under way in this session");
            return Err(Fault::invalid_request(&why));
        }
        state.flights.insert(key, Arc::clone(flight));
        Ok(())
    }

    /// A request is settled.
    pub(super) fn settled(&self, id: &Value) {
        let mut state = self.state();
        state.last_used = Instant::now();
        state.flights.remove(&id.to_string());
    }

    /// The request with this id, while it is under way.
    pub(super) fn flight(&self, id: &Value) -> Option<Arc<Flight>> {
        self.state().flights.get(&id.to_string()).cloned()
    }

    /// A question to the client; gives its id and where the answer comes.
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

    /// Nobody waits for this answer any more.
    pub(super) fn end_ask(&self, id: u64) {
        self.state().asks.remove(&id);
    }

    /// The client's answer. One that nobody waits for is passed over.
    pub(super) fn answered(&self, id: &Value, outcome: Answered) {
        let asked = id.as_str().and_then(ask_number);
        let waiting = asked.and_then(|number| self.state().asks.remove(&number));
        if let Some(waiting) = waiting {
            // Whoever asked may have given up this very moment.
            let _given_up = waiting.send(outcome);
        }
    }

    /// Ends it: calls are called off, streams end.
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

/// The id of a question of ours.
pub(super) fn ask_id(number: u64) -> Value {
    json!(format!("ask-{number}"))
}

fn ask_number(id: &str) -> Option<u64> {
    id.strip_prefix("ask-")?.parse().ok()
}
