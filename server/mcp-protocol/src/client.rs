//! The client of one request, as a server handler sees the client: capabilities, notifications and requests to the
//! client.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use serde_json::{Value, json};

use super::abilities::{Abilities, capability_of};
use super::fault::Fault;
use super::flight::Flight;
use super::log_level::Level;
use super::message::notification;
use super::rounds::Input;
use super::session::ask_id;
use crate::limits::ASK_TIME_MAX;
use recalld_common::cancel::CancellationToken;

/// The client of one request.
pub struct Client<'a> {
    flight: &'a Flight,
    abilities: Abilities,
    progress_token: Option<&'a Value>,
    /// Last reported progress plus one; 0 before the first report.
    said: AtomicU64,
    level: Option<Level>,
    input: Input,
}

/// Reason why a request to the client has no response.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AskError {
    /// The client did not declare this capability.
    NotCapable(&'static str),
    /// The client is unreachable: no session, or no stream.
    NoWay,
    /// Too many requests to this client are pending.
    TooMany,
    /// The client did not respond in time.
    TimedOut,
    /// The client's own request is completed or cancelled.
    Over,
    /// The client responded with this error.
    Refused(Value),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCapable(what) => write!(f, "the client has no capability `{what}`"),
            Self::NoWay => f.write_str(
                "the client cannot be asked: that takes a session and an event stream \
                 (Accept: text/event-stream)",
            ),
            Self::TooMany => f.write_str("the client has too many questions open already"),
            Self::TimedOut => {
                write!(f, "the client did not answer within {} s", ASK_TIME_MAX.as_secs())
            }
            Self::Over => f.write_str("the call is over"),
            Self::Refused(error) => write!(f, "the client answered with an error: {error}"),
        }
    }
}

impl std::error::Error for AskError {}

impl From<AskError> for Fault {
    fn from(error: AskError) -> Self {
        match error {
            AskError::NotCapable(what) => Self::missing_capability(what),
            other => Self::server("client_not_asked", other.to_string()),
        }
    }
}

impl<'a> Client<'a> {
    pub(super) fn new(
        flight: &'a Flight,
        abilities: Abilities,
        params: &'a Value,
        level: Option<Level>,
        input: Input,
    ) -> Self {
        let token = &params["_meta"]["progressToken"];
        let progress_token = (token.is_string() || token.is_number()).then_some(token);
        Self { flight, abilities, progress_token, said: AtomicU64::new(0), level, input }
    }

    /// Cancelled when the work must stop.
    pub fn cancel(&self) -> &CancellationToken {
        self.flight.cancel()
    }

    /// Deadline of the request.
    pub fn deadline(&self) -> Instant {
        self.flight.deadline()
    }

    /// Returns true if the work must stop: the request is cancelled or past its deadline.
    pub fn is_over(&self) -> bool {
        self.cancel().is_cancelled() || Instant::now() >= self.deadline()
    }

    /// Returns true if the client declared this capability, which answers a request of the server.
    pub fn has(&self, capability: &str) -> bool {
        self.abilities.has(capability)
    }

    /// The client's responses of the previous round.
    pub fn input(&self) -> &Input {
        &self.input
    }

    pub(super) fn set_input(&mut self, input: Input) {
        self.input = input;
    }

    /// Returns true if the client wants progress notifications.
    pub fn wants_progress(&self) -> bool {
        self.progress_token.is_some()
    }

    /// Reports progress `done` of `total`; a `total` of 0 means unknown. A value that does not exceed the last one is
    /// not sent, because a client may treat it as an error.
    pub fn progress(&self, done: u64, total: u64, what: &str) {
        let Some(token) = self.progress_token else { return };
        if self.said.fetch_max(done.saturating_add(1), Ordering::Relaxed) <= done {
            let mut params = json!({"progressToken": token, "progress": done});
            if total > 0 {
                params["total"] = total.into();
            }
            if !what.is_empty() {
                params["message"] = what.into();
            }
            self.flight.say(&notification("notifications/progress", params));
        }
    }

    /// Sends a log message, if the client requested this level or a less severe one.
    pub fn log(&self, level: Level, logger: &str, data: Value) {
        if self.level.is_some_and(|least| level >= least) {
            let params = json!({"level": level.name(), "logger": logger, "data": data});
            self.flight.say(&notification("notifications/message", params));
        }
    }

    /// Sends a request to the client and waits for the response, at most [`ASK_TIME_MAX`]. For handshake sessions only;
    /// a handler that returns [`super::Outcome::NeedsInput`] reaches clients of every revision.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn ask(&self, method: &str, params: &Value) -> Result<Value, AskError> {
        if let Some(capability) = capability_of(method)
            && !self.has(capability)
        {
            return Err(AskError::NotCapable(capability));
        }
        let session = self.flight.session().ok_or(AskError::NoWay)?;
        let (ask, answer) = session.begin_ask().ok_or(AskError::TooMany)?;
        let id = ask_id(ask);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let outcome = if !self.flight.waits_for(ask) {
            Err(AskError::Over)
        } else if !self.flight.say(&request) {
            Err(AskError::NoWay)
        } else {
            let left = self.deadline().saturating_duration_since(Instant::now());
            match answer.recv_timeout(ASK_TIME_MAX.min(left)) {
                Ok(Ok(result)) => Ok(result),
                Ok(Err(error)) => Err(AskError::Refused(error)),
                Err(RecvTimeoutError::Disconnected) => Err(AskError::Over),
                Err(RecvTimeoutError::Timeout) => {
                    let params = json!({"requestId": id, "reason": "no answer in time"});
                    self.flight.say(&notification("notifications/cancelled", params));
                    Err(AskError::TimedOut)
                }
            }
        };
        self.flight.waited_for(ask);
        session.end_ask(ask);
        outcome
    }

    /// Closes the connection of the response's stream; the client reconnects for the rest. Returns false if there is no
    /// session to which the client could reconnect.
    pub fn pause(&self) -> bool {
        self.flight.pause()
    }
}
