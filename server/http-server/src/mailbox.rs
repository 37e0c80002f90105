//! What workers tell the event loop, and how it is woken.
//!
//! The loop is woken by the system only when it sleeps: a busy loop looks into the mailbox anyway
//! before it sleeps, so most notes cost no system call.
//!
//! A loop tells another of new connections in the same way.
//!
//! Bounded without a count: a call sends one answer or opens one stream, and a stream has at most one
//! note under way and one about its breaking, so there are at most three notes per call, and at most
//! `connections_max` calls and newcomers.

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

/// One message to the event loop.
pub(super) enum Note {
    /// The answer to the call of that connection.
    Answer(Name, Response),
    /// The call of that connection is answered by a stream.
    Stream(Name, Head, Arc<Feed>),
    /// The stream of that connection has news: bytes, its end, or both.
    Fed(Name),
    /// A connection that was accepted and is to live here.
    Newcomer(Box<Newcomer>),
}

/// A connection that was accepted and is not watched yet.
pub(super) struct Newcomer {
    pub listener: ListenerId,
    /// Who we are to its client, where it speaks TLS.
    pub identity: Option<Arc<Identity>>,
    pub peer: SocketAddr,
    pub socket: TcpStream,
    pub numbering: Numbering,
    pub place: Place,
}

/// What has arrived since the loop last looked.
#[derive(Default)]
pub(super) struct Mail {
    pub notes: Vec<Note>,
    pub drain: bool,
    asleep: bool,
}

/// The way from workers (and whoever shuts the server down) to the loop.
pub(super) struct Mailbox {
    mail: Mutex<Mail>,
    waker: Waker,
}

impl Mailbox {
    /// A mailbox that wakes the poll `waker` belongs to.
    pub(super) fn new(waker: Waker) -> Mailbox {
        Mailbox { mail: Mutex::default(), waker }
    }

    /// Sends a note.
    pub(super) fn send(&self, note: Note) {
        self.change(|mail| mail.notes.push(note));
    }

    /// Asks the loop to close down.
    pub(super) fn drain(&self) {
        self.change(|mail| mail.drain = true);
    }

    /// Moves the notes into `notes` (which must be empty) and says whether a drain was asked for.
    /// Without notes, and if `before_sleep`, the next note will wake the poll.
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
            // The loop still finds the note at its next event or timer.
            let fields = [("error", Value::Text(&error))];
            log::event(Level::Error, "could not wake the event loop", &fields);
        }
    }
}

/// Locks, whatever happened to the last holder: our critical sections only move values, so a panic
/// in one leaves nothing half done.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
