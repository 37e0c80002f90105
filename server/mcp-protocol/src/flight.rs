//! One request under way: settled once, by its answer, by its time bound, or by being called off.

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

/// One request under way.
pub(super) struct Flight {
    id: Value,
    line: Arc<Line>,
    session: Option<Arc<Session>>,
    cancel: CancellationToken,
    deadline: Instant,
    limit: Duration,
    settled: AtomicBool,
    /// Questions to the client that it waits for.
    asking: Mutex<Vec<u64>>,
    timer: Arc<Timer>,
    entry: Mutex<Option<Entry>>,
}

/// What a flight begins with.
pub(super) struct Start {
    pub id: Value,
    pub line: Arc<Line>,
    pub session: Option<Arc<Session>>,
    /// Cancelled by whoever learns that the answer is not wanted.
    pub cancel: CancellationToken,
    /// When it must have been answered.
    pub deadline: Instant,
    /// How long that is from its beginning, as it is told.
    pub limit: Duration,
}

impl Flight {
    /// Begins. Past its time it is answered with a fault, whatever its work does then.
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

    /// Cancelled when the work is to stop.
    pub(super) fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// When it must have been answered.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The session it belongs to.
    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        self.session.as_ref()
    }

    /// Says something before the answer.
    pub(super) fn say(&self, message: &Value) -> bool {
        !self.is_settled() && self.line.say(message)
    }

    /// Closes the connection of its stream and goes on.
    pub(super) fn pause(&self) -> bool {
        self.line.pause()
    }

    /// The answer. The first settles it; others are dropped. What comes after the time bound is late,
    /// whether or not the timer has said so yet.
    pub(super) fn answer(&self, outcome: Result<Value, Fault>) {
        let outcome = outcome.and_then(|result| {
            if self.is_late() { Err(Fault::timed_out(self.limit)) } else { Ok(result) }
        });
        if self.settle() {
            self.tell(outcome);
        }
    }

    /// Sends what settled it.
    fn tell(&self, outcome: Result<Value, Fault>) {
        match outcome {
            Ok(result) => self.line.answer(200, message::success(&self.id, result)),
            Err(fault) => self.line.answer(fault.status(), message::failure(&self.id, &fault)),
        }
    }

    fn time_out(&self) {
        let is_first = self.settle();
        // Before the answer: who has that may count on the work having been told.
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

    /// Notes that it waits for an answer of its client; false when it is over already.
    pub(super) fn waits_for(&self, ask: u64) -> bool {
        locked(&self.asking).push(ask);
        !self.cancel.is_cancelled()
    }

    /// That answer is there, or waited for no longer.
    pub(super) fn waited_for(&self, ask: u64) {
        locked(&self.asking).retain(|other| *other != ask);
    }

    /// Whether there is nothing left to do for it: it is answered, called off, or past its time bound.
    pub(super) fn is_over(&self) -> bool {
        if self.is_late() {
            self.time_out();
        }
        self.is_settled()
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Whether it is answered, or called off.
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

/// Sees to it that a flight is settled however its work ends, a panic included.
pub(super) struct Settling<'a>(pub &'a Flight);

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.0.answer(Err(Fault::internal()));
    }
}
