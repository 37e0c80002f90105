//! A request in flight: completed exactly once, by its response, its time limit or its cancellation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::fault::Fault;
use super::line::Line;
use super::message;
use super::session::{PendingRequest, Session};
use super::timer::{Entry, Timer};
use recalld_common::cancel::CancellationToken;

pub(super) struct Flight {
    id: Value,
    line: Arc<Line>,
    session: Option<Arc<Session>>,
    cancel: CancellationToken,
    deadline: Instant,
    limit: Duration,
    settled: AtomicBool,
    /// Pending requests to the client on which this request depends.
    asking: Mutex<Vec<u64>>,
    timer: Arc<Timer>,
    entry: Mutex<Option<Entry>>,
}

/// Parameters of a new request in flight.
pub(super) struct Start {
    pub id: Value,
    pub line: Arc<Line>,
    pub session: Option<Arc<Session>>,
    /// Cancelled when the response is no longer wanted.
    pub cancel: CancellationToken,
    /// Deadline of the request.
    pub deadline: Instant,
    /// Time limit from the start of the request, as reported in the error.
    pub limit: Duration,
}

impl Flight {
    /// Registers the request. Past its deadline, the request is answered with an error, whatever its work does then.
    pub(super) fn begin(timer: &Arc<Timer>, start: Start) -> Result<Arc<Self>, Fault> {
        let Start { id, line, session, cancel, deadline, limit } = start;
        let flight = Arc::new(Self {
            id,
            line,
            session,
            cancel,
            deadline,
            limit,
            settled: AtomicBool::new(false),
            asking: Mutex::default(),
            timer: Arc::clone(timer),
            entry: Mutex::default(),
        });
        if let Some(session) = &flight.session {
            session.begin(&flight.id, Arc::clone(&flight) as Arc<dyn PendingRequest>)?;
        }
        let late = Arc::clone(&flight);
        *locked(&flight.entry) = Some(timer.schedule(deadline, move || late.time_out()));
        Ok(flight)
    }

    /// Cancelled when the work must stop.
    pub(super) fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Deadline of the request.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The session of the request.
    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        self.session.as_ref()
    }

    /// Sends a message before the response.
    pub(super) fn say(&self, message: &Value) -> bool {
        !self.is_settled() && self.line.say(message)
    }

    /// Closes the connection of the stream; the request continues.
    pub(super) fn pause(&self) -> bool {
        self.line.pause()
    }

    /// Completes the request; only the first response is sent. A response after the deadline becomes a timeout, even if
    /// the timer has not fired yet.
    pub(super) fn answer(&self, outcome: Result<Value, Fault>) {
        let outcome = outcome.and_then(|result| {
            if self.is_late() { Err(Fault::timed_out(self.limit)) } else { Ok(result) }
        });
        if self.settle() {
            self.tell(outcome);
        }
    }

    /// Sends the response.
    fn tell(&self, outcome: Result<Value, Fault>) {
        match outcome {
            Ok(result) => self.line.answer(200, message::success(&self.id, result)),
            Err(fault) => self.line.answer(fault.status(), message::failure(&self.id, &fault)),
        }
    }

    fn time_out(&self) {
        let is_first = self.settle();
        // Cancelled before the response is sent: a client that has the response may rely on the cancellation.
        self.stop();
        if is_first {
            self.tell(Err(Fault::timed_out(self.limit)));
        }
    }

    fn stop(&self) {
        self.cancel.cancel();
        if let Some(session) = &self.session {
            locked(&self.asking).iter().for_each(|ask| session.end_ask(*ask));
        }
    }

    /// Records a pending request to the client; returns false if this request is cancelled.
    pub(super) fn waits_for(&self, ask: u64) -> bool {
        locked(&self.asking).push(ask);
        !self.cancel.is_cancelled()
    }

    /// Removes a pending request to the client, after its response or timeout.
    pub(super) fn waited_for(&self, ask: u64) {
        locked(&self.asking).retain(|other| *other != ask);
    }

    /// Returns true if the request needs no more work: completed, cancelled, or past its deadline.
    pub(super) fn is_over(&self) -> bool {
        if self.is_late() {
            self.time_out();
        }
        self.is_settled()
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Returns true if the request is answered or cancelled.
    pub(super) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    fn settle(&self) -> bool {
        let is_first = !self.settled.swap(true, Ordering::AcqRel);
        if is_first {
            if let Some(entry) = locked(&self.entry).take() {
                self.timer.take_back(entry);
            }
            if let Some(session) = &self.session {
                session.settled(&self.id);
            }
        }
        is_first
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PendingRequest for Flight {
    fn call_off(&self) {
        let is_first = self.settle();
        self.stop();
        if is_first {
            self.line.leave_open();
        }
    }
}

/// Guard that completes a request however its work ends, even by a panic.
pub(super) struct Settling<'a>(pub &'a Flight);

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.0.answer(Err(Fault::internal()));
    }
}
