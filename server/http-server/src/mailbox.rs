//! Messages from workers to an event loop, and from the first loop to the others, with the wake-up.
//!
//! The sender wakes the loop by a system call only if the loop sleeps. A busy loop checks the mailbox before sleeping,
//! so most messages need no system call.
//!
//! The number of messages is bounded without a counter. A request sends one response or opens one stream. A stream has
//! at most one message in transit, plus one about its abort. So there are at most three messages per request, and at
//! most `connections_max` requests and new connections.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mio::Waker;
use mio::net::TcpStream;

use super::config::ListenerId;
use super::identity::Identity;
use super::message::{Head, Response};
use super::places::Place;
use super::reply::Feed;
use super::slots::Name;
use recalld_common::request_id::Numbering;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// A message to an event loop.
pub(super) enum Note {
    /// Response to the request of a connection.
    Answer(Name, Response),
    /// Streamed response to the request of a connection.
    Stream(Name, Head, Arc<Feed>),
    /// The stream of a connection has new bytes, its end, or both.
    Fed(Name),
    /// An accepted connection for this loop.
    Newcomer(Box<Newcomer>),
}

/// An accepted connection that is not registered with a poll yet.
pub(super) struct Newcomer {
    pub listener: ListenerId,
    /// The server certificate, if the listener speaks TLS.
    pub identity: Option<Arc<Identity>>,
    pub peer: SocketAddr,
    pub socket: TcpStream,
    pub numbering: Numbering,
    pub place: Place,
}

/// Messages since the loop last collected them.
#[derive(Default)]
pub(super) struct Mail {
    pub notes: Vec<Note>,
    pub drain: bool,
    asleep: bool,
}

/// Channel from the workers, and from a shutdown handle, to an event loop.
pub(super) struct Mailbox {
    mail: Mutex<Mail>,
    waker: Waker,
}

impl Mailbox {
    /// Creates a mailbox whose messages wake the poll of `waker`.
    pub(super) fn new(waker: Waker) -> Mailbox {
        Mailbox { mail: Mutex::default(), waker }
    }

    pub(super) fn send(&self, note: Note) {
        self.change(|mail| mail.notes.push(note));
    }

    /// Requests a drain of the loop.
    pub(super) fn drain(&self) {
        self.change(|mail| mail.drain = true);
    }

    /// Moves the messages into `notes` (which must be empty) and returns true if a drain was requested. If
    /// `before_sleep` and there are no messages, the next message wakes the poll.
    pub(super) fn collect(&self, notes: &mut Vec<Note>, before_sleep: bool) -> bool {
        let mut mail = locked(&self.mail);
        std::mem::swap(&mut mail.notes, notes);
        mail.asleep = before_sleep && notes.is_empty();
        mail.drain
    }

    fn change(&self, change: impl FnOnce(&mut Mail)) {
        let wake = {
            let mut mail = locked(&self.mail);
            change(&mut mail);
            std::mem::take(&mut mail.asleep)
        };
        if wake && let Err(error) = self.waker.wake() {
            // The loop finds the message at its next event or timer anyway.
            let fields = [("error", Value::Text(&error))];
            log::event(Level::Error, "could not wake the event loop", &fields);
        }
    }
}

/// Locks a mutex and ignores poisoning: the critical sections only move values, so a panic leaves no inconsistent
/// state.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
