//! One session of a handshake client: what was agreed, and what is under way.
//!
//! A session is no authentication: it belongs to the caller that began it, and every request shows
//! anew who calls.

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
/// The number of the stream that GET opens.
const OWN_STREAM: u64 = 0;
/// The first revision whose clients take an event without data.
const PRIMING_SINCE: &str = "2025-11-25";

/// A client's answer to a question of ours: its result, or its error object.
pub(super) type Answered = Result<Value, Value>;

/// A request under way, as its session knows it.
pub(super) trait PendingRequest: Send + Sync {
    /// Its client wants no answer any more.
    fn call_off(&self);
}

/// One session.
pub(super) struct Session {
    /// Random, visible ASCII.
    pub id: String,
    /// Whose it is.
    pub principal: String,
    /// What was agreed.
    pub revision: &'static str,
    /// What the client said it can do.
    pub abilities: Abilities,
    /// Of its caller.
    pub budget: Budget,
    state: Mutex<State>,
}

struct State {
    last_used: Instant,
    level: Level,
    streams: BTreeMap<u64, Events>,
    next_stream: u64,
    /// By the text of the request's id.
    flights: HashMap<String, Arc<dyn PendingRequest>>,
    asks: HashMap<u64, Sender<Answered>>,
    next_ask: u64,
    has_ended: bool,
}

/// What a stream that GET opens is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// What belongs to no request, for as long as the client listens.
    News,
    /// The rest of an answer whose stream was lost.
    Answer,
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

    /// Whether the stream that GET opened is open.
    pub(super) fn is_listened_to(&self) -> bool {
        self.state().streams.get(&OWN_STREAM).is_some_and(Events::is_open)
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
        let events = Events::open(number, self.budget.clone(), sender, self.primes());
        state.streams.insert(number, events);
        number
    }

    /// The stream that GET asks for: a new one, or one that the client had lost.
    pub(super) fn open_own_stream(
        &self,
        last: Option<&str>,
        sender: impl FnOnce(Purpose) -> StreamSender,
    ) -> Result<(), Unopened> {
        let mut state = self.state();
        let Some(last) = last else {
            match state.streams.get_mut(&OWN_STREAM) {
                Some(own) if own.is_open() => return Err(Unopened::Taken),
                // Its ids go on: in a session, none may stand for two events.
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

    /// Sends a message by a stream; false where nobody will ever hear it.
    pub(super) fn push(&self, stream: u64, message: &str) -> bool {
        self.state().streams.get_mut(&stream).is_some_and(|events| events.push(message))
    }

    /// Sends a message that belongs to no request, by the stream that GET opened.
    pub(super) fn tell(&self, message: &Value) -> bool {
        self.push(OWN_STREAM, &message.to_string())
    }

    /// Sends a comment by every open stream, which shows who has left.
    pub(super) fn comment(&self, bytes: &[u8]) {
        self.state().streams.values_mut().for_each(|events| events.comment(bytes));
    }

    /// Forgets streams that ended long ago.
    pub(super) fn forget_stale(&self, now: Instant) {
        self.state().streams.retain(|_, events| !events.is_stale(now));
    }

    /// Closes the connection of the stream that GET opened, for the end of the server.
    pub(super) fn pause_own_stream(&self) {
        self.pause_stream(OWN_STREAM);
    }

    /// Closes a stream's connection; the stream goes on.
    pub(super) fn pause_stream(&self, stream: u64) {
        if let Some(events) = self.state().streams.get_mut(&stream) {
            events.pause();
        }
    }

    /// Everything that belongs to this stream is said.
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

    /// A request begins.
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

    /// A request is settled.
    pub(super) fn settled(&self, id: &Value) {
        let mut state = self.state();
        state.last_used = Instant::now();
        state.flights.remove(&id.to_string());
    }

    /// The request with this id, while it is under way.
    pub(super) fn flight(&self, id: &Value) -> Option<Arc<dyn PendingRequest>> {
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
