//! The client of one request, as a host sees it: what it can do, what can be told to it and asked.

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
    /// How far the call was said to have come, and one; 0 before that.
    said: AtomicU64,
    level: Option<Level>,
    input: Input,
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AskError {
    /// The client did not declare this capability.
    NotCapable(&'static str),
    /// There is no way to ask: no session, or no stream.
    NoWay,
    /// Too many questions wait for this client's answers already.
    TooMany,
    /// The client did not answer in time.
    TimedOut,
    /// The call is over.
    Over,
    /// The client answered with this error.
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

    /// Cancelled when the work is to stop.
    pub fn cancel(&self) -> &CancellationToken {
        self.flight.cancel()
    }

    /// When the request must have been answered.
    pub fn deadline(&self) -> Instant {
        self.flight.deadline()
    }

    /// Whether the work is to stop: nobody waits for it any more.
    pub fn is_over(&self) -> bool {
        self.cancel().is_cancelled() || Instant::now() >= self.deadline()
    }

    /// Whether the client declared this capability: one of those that answer a question of ours.
    pub fn has(&self, capability: &str) -> bool {
        self.abilities.has(capability)
    }

    /// What the client answered in the round before.
    pub fn input(&self) -> &Input {
        &self.input
    }

    pub(super) fn set_input(&mut self, input: Input) {
        self.input = input;
    }

    /// Whether the client wants to know how far the call has come.
    pub fn wants_progress(&self) -> bool {
        self.progress_token.is_some()
    }

    /// Says how far the call has come, of how many; 0 where nobody knows how many. What does not grow is not said: a
    /// client may take it for a fault.
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

    /// Says something that an operator may want to know, if the client wants to hear of that level.
    pub fn log(&self, level: Level, logger: &str, data: Value) {
        if self.level.is_some_and(|least| level >= least) {
            let params = json!({"level": level.name(), "logger": logger, "data": data});
            self.flight.say(&notification("notifications/message", params));
        }
    }

    /// Asks the client and waits for its answer, at most [`ASK_TIME_MAX`]. For handshake sessions;
    /// a host that returns [`super::Outcome::NeedsInput`] reaches clients of every revision.
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

    /// Closes the connection of the answer's stream; the client comes again for the rest. False
    /// where there is no session whose client could.
    pub fn pause(&self) -> bool {
        self.flight.pause()
    }
}
