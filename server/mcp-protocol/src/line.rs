//! The destination of one POST's messages: a JSON response, or an event stream if a message must precede the response.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::events::event;
use super::fault::Fault;
use super::message;
use super::session::Session;
use crate::limits::ANSWER_BYTES_MAX;
use recalld_http_server::limits::RETRY_AFTER_SECONDS;
use recalld_http_server::{Reply, Response, StreamSender, sse};

/// Response types that the client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepts {
    /// A JSON response.
    pub json: bool,
    /// An event stream.
    pub stream: bool,
}

impl Accepts {
    /// Parses the values of `Accept` headers; without any, only JSON is accepted.
    pub(super) fn of<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let mut given = false;
        let (mut json, mut stream) = (false, false);
        for one in values.flat_map(|value| value.split(',')) {
            given = true;
            let kind = one.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            json |= matches!(kind.as_str(), "application/json" | "application/*" | "*/*");
            stream |= matches!(kind.as_str(), "text/event-stream" | "text/*" | "*/*");
        }
        if given { Self { json, stream } } else { Self { json: true, stream: false } }
    }
}

/// Sink of the messages of one POST.
pub(super) struct Line {
    accepts: Accepts,
    /// If present, events have ids and are retained for a client that loses the stream.
    session: Option<Arc<Session>>,
    /// The responses of a batch form an array.
    is_batch: bool,
    state: Mutex<State>,
}

struct State {
    way: Way,
    /// JSON responses that wait for the other responses of their batch.
    answers: Vec<String>,
    /// Total bytes of `answers`.
    answers_bytes: usize,
    /// Requests without a response yet.
    open: usize,
    status: u16,
}

enum Way {
    /// Nothing was sent yet.
    Waiting(Reply),
    /// A stream without a session.
    Streaming(StreamSender),
    /// A stream of the session, by number.
    Kept(u64),
    /// All messages are sent.
    Ended,
}

impl Line {
    /// Creates a sink for `open` requests.
    pub(super) fn new(
        reply: Reply,
        accepts: Accepts,
        session: Option<Arc<Session>>,
        is_batch: bool,
        open: usize,
    ) -> Self {
        let way = Way::Waiting(reply);
        let (answers, answers_bytes) = (Vec::new(), 0);
        let state = Mutex::new(State { way, answers, answers_bytes, open, status: 200 });
        Self { accepts, session, is_batch, state }
    }

    /// Begins a stream at once, if the client accepts streams.
    pub(super) fn begin_stream(&self) {
        self.as_stream(&mut self.state());
    }

    /// Sends a message before the response. If the client does not accept streams, the message is dropped.
    pub(super) fn say(&self, message: &Value) -> bool {
        let mut state = self.state();
        self.as_stream(&mut state) && self.push(&mut state, &message.to_string())
    }

    /// Sends the response to one request. `status` applies only if no other response is sent.
    pub(super) fn answer(&self, status: u16, message: Value) {
        let mut state = self.state();
        if !self.accepts.json {
            self.as_stream(&mut state);
        }
        match state.way {
            Way::Waiting(_) => {
                self.keep(&mut state, &message);
                state.status = status;
            }
            _ => {
                self.push(&mut state, &message.to_string());
            }
        }
        self.settle(state);
    }

    /// Queues a response until the end. A response that exceeds the size limit of its batch is replaced by an error
    /// that asks for a separate request.
    fn keep(&self, state: &mut State, message: &Value) {
        let mut answer = message.to_string();
        if self.is_batch && state.answers_bytes + answer.len() > ANSWER_BYTES_MAX {
            let why = format!(
                "the answers of one batch have at most {ANSWER_BYTES_MAX} bytes; ask for this by itself"
            );
            let fault = Fault::server("answer_too_large", why);
            answer = message::failure(&message["id"], &fault).to_string();
        }
        state.answers_bytes += answer.len();
        state.answers.push(answer);
    }

    /// Removes a request that gets no response, because the client cancelled the request.
    pub(super) fn leave_open(&self) {
        self.settle(self.state());
    }

    /// Closes the connection of the stream; the client reconnects for the rest. Only with a session.
    pub(super) fn pause(&self) -> bool {
        let mut state = self.state();
        let is_stream = self.as_stream(&mut state);
        match (&state.way, &self.session) {
            (Way::Kept(number), Some(session)) if is_stream => {
                session.pause_stream(*number);
                true
            }
            _ => false,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Converts the pending responder to a stream; returns true if the sink is a stream.
    fn as_stream(&self, state: &mut State) -> bool {
        if let Way::Waiting(_) = state.way {
            if !self.accepts.stream {
                return false;
            }
            let Way::Waiting(reply) = std::mem::replace(&mut state.way, Way::Ended) else {
                unreachable!("it was waiting a line ago, and we hold the lock")
            };
            state.way = match &self.session {
                Some(session) => {
                    Way::Kept(session.open_stream(reply.answer_by_stream(session.head())))
                }
                None => Way::Streaming(reply.answer_by_stream(sse::head())),
            };
            // Responses queued so far are sent first.
            for answer in std::mem::take(&mut state.answers) {
                self.push(state, &answer);
            }
        }
        matches!(state.way, Way::Streaming(_) | Way::Kept(_))
    }

    fn push(&self, state: &mut State, message: &str) -> bool {
        match (&state.way, &self.session) {
            (Way::Streaming(sender), _) => sender.send(&event(None, message)).is_ok(),
            (Way::Kept(number), Some(session)) => session.push(*number, message),
            _ => false,
        }
    }

    fn settle(&self, mut state: MutexGuard<'_, State>) {
        state.open = state.open.saturating_sub(1);
        if state.open > 0 {
            return;
        }
        match (std::mem::replace(&mut state.way, Way::Ended), &self.session) {
            (Way::Waiting(reply), session) => {
                let mut answers = std::mem::take(&mut state.answers);
                let response = match answers.pop() {
                    None => Response::empty(202),
                    Some(last) if self.is_batch => {
                        answers.push(last);
                        Response::json(200, format!("[{}]", answers.join(",")).into_bytes())
                    }
                    Some(only) => answered(state.status, only),
                };
                reply.send(match session {
                    Some(session) => session.name_in(response),
                    None => response,
                });
            }
            (Way::Kept(number), Some(session)) => session.end_stream(number),
            (Way::Streaming(_) | Way::Kept(_) | Way::Ended, _) => {}
        }
    }
}

/// Creates a JSON response.
pub(super) fn json_response(status: u16, body: &Value) -> Response {
    answered(status, body.to_string())
}

/// Creates a response from JSON text. With status 503, `Retry-After` is added.
fn answered(status: u16, body: String) -> Response {
    let response = Response::json(status, body.into_bytes());
    match status {
        503 => response.header("Retry-After", RETRY_AFTER_SECONDS.to_string()),
        _ => response,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_headers() {
        let accepts = |values: &[&str]| {
            let accepts = Accepts::of(values.iter().copied());
            (accepts.json, accepts.stream)
        };
        assert_eq!(accepts(&[]), (true, false));
        assert_eq!(accepts(&["*/*"]), (true, true));
        assert_eq!(accepts(&["application/json"]), (true, false));
        assert_eq!(accepts(&["Text/Event-Stream;q=0.5"]), (false, true));
        assert_eq!(accepts(&["application/json, text/event-stream"]), (true, true));
        assert_eq!(accepts(&["application/*", "text/*"]), (true, true));
        assert_eq!(accepts(&["text/html"]), (false, false));
    }
}
