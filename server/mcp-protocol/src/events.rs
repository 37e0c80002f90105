//! Numbered events of one stream, with a replay buffer for a client that loses the stream.
//!
//! An event id consists of the stream's number and the event's own: `3-12`. The replay buffer is limited in number and
//! bytes; the oldest event is evicted first.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::limits::{
    ENDED_STREAM_KEPT, EVENTS_KEPT_BYTES_MAX, EVENTS_KEPT_PER_PRINCIPAL_BYTES_MAX,
    STREAM_EVENTS_KEPT_BYTES_MAX, STREAM_EVENTS_KEPT_MAX, STREAM_RETRY,
};
use recalld_http_server::{StreamSender, sse};

/// Bytes in the replay buffers of one caller's sessions, and of all sessions.
#[derive(Clone, Default)]
pub(super) struct Budget {
    own: Arc<AtomicUsize>,
    all: Arc<AtomicUsize>,
}

impl Budget {
    /// Creates the budget of another caller.
    pub(super) fn of_another(&self) -> Self {
        Self { own: Arc::default(), all: Arc::clone(&self.all) }
    }

    fn take(&self, bytes: usize) -> bool {
        let take = |used: &AtomicUsize, most: usize| {
            let fits = |used: usize| Some(used + bytes).filter(|sum| *sum <= most);
            used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
        };
        if !take(&self.own, EVENTS_KEPT_PER_PRINCIPAL_BYTES_MAX) {
            return false;
        }
        let has_room = take(&self.all, EVENTS_KEPT_BYTES_MAX);
        if !has_room {
            self.own.fetch_sub(bytes, Ordering::Relaxed);
        }
        has_room
    }

    fn give_back(&self, bytes: usize) {
        self.own.fetch_sub(bytes, Ordering::Relaxed);
        self.all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventId {
    /// Number of the stream.
    pub stream: u64,
    /// Number of the event in its stream.
    pub place: u64,
}

impl EventId {
    /// Parses a client's `Last-Event-ID`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (stream, place) = text.split_once('-')?;
        Some(Self { stream: stream.parse().ok()?, place: place.parse().ok()? })
    }

    fn text(self) -> String {
        format!("{}-{}", self.stream, self.place)
    }
}

/// An event stream with its replay buffer.
pub(super) struct Events {
    number: u64,
    next: u64,
    kept: VecDeque<(u64, Vec<u8>)>,
    kept_bytes: usize,
    budget: Budget,
    sender: Option<StreamSender>,
    ended_at: Option<Instant>,
}

impl Events {
    /// Creates an open stream. If `primes`, the client first gets an event id to reconnect with and the reconnection
    /// delay.
    pub(super) fn open(number: u64, budget: Budget, sender: StreamSender, primes: bool) -> Self {
        let kept = VecDeque::new();
        let mut events = Self {
            number,
            next: 1,
            kept,
            kept_bytes: 0,
            budget,
            sender: Some(sender),
            ended_at: None,
        };
        if primes {
            events.prime(0);
        }
        events
    }

    /// Sends a priming event. `place` is the last event that the client has, so that a reconnect replays only later
    /// events.
    fn prime(&mut self, place: u64) {
        let id = EventId { stream: self.number, place }.text();
        let retry = u64::try_from(STREAM_RETRY.as_millis()).unwrap_or(u64::MAX);
        let event = sse::Event {
            id: Some(&id),
            retry_milliseconds: Some(retry),
            data: Some(""),
            ..sse::Event::default()
        };
        self.send(&event.encode().expect("an id of digits and a dash is one line"));
    }

    /// Sends and retains a message. Returns false if the message is neither sent nor retained.
    pub(super) fn push(&mut self, message: &str) -> bool {
        let id = EventId { stream: self.number, place: self.next };
        self.next += 1;
        let bytes = event(Some(&id.text()), message);
        let is_sent = self.send(&bytes);
        self.keep(id.place, bytes) || is_sent
    }

    /// Sends bytes that are not an event.
    pub(super) fn comment(&mut self, bytes: &[u8]) {
        self.send(bytes);
    }

    fn send(&mut self, bytes: &[u8]) -> bool {
        let is_sent = self.sender.as_ref().is_some_and(|sender| sender.send(bytes).is_ok());
        if !is_sent {
            self.sender = None;
        }
        is_sent
    }

    fn keep(&mut self, place: u64, bytes: Vec<u8>) -> bool {
        let size = bytes.len();
        if size > STREAM_EVENTS_KEPT_BYTES_MAX {
            return false;
        }
        while self.kept.len() >= STREAM_EVENTS_KEPT_MAX
            || self.kept_bytes + size > STREAM_EVENTS_KEPT_BYTES_MAX
        {
            self.forget_oldest();
        }
        let is_kept = self.budget.take(size);
        if is_kept {
            self.kept_bytes += size;
            self.kept.push_back((place, bytes));
        }
        is_kept
    }

    fn forget_oldest(&mut self) {
        if let Some((_, bytes)) = self.kept.pop_front() {
            self.kept_bytes -= bytes.len();
            self.budget.give_back(bytes.len());
        }
    }

    /// Attaches a new connection of the client. Retained events after `place` are sent again, and later events follow.
    /// Without `place`, only new events are sent.
    pub(super) fn resume(&mut self, sender: StreamSender, place: Option<u64>, primes: bool) {
        self.sender = Some(sender);
        // A client cannot have received an event that was not sent yet.
        let place = place.map_or(self.next - 1, |place| place.min(self.next - 1));
        if primes && !self.has_ended() {
            self.prime(place);
        }
        let missed = self.kept.iter().filter(|(at, _)| *at > place);
        let missed: Vec<u8> = missed.flat_map(|(_, bytes)| bytes.iter().copied()).collect();
        if !missed.is_empty() {
            self.send(&missed);
        }
        if self.has_ended() {
            self.sender = None;
        }
    }

    /// Closes the connection, not the stream.
    pub(super) fn pause(&mut self) {
        self.sender = None;
    }

    /// Marks the stream as complete and closes the connection.
    pub(super) fn end(&mut self) {
        self.ended_at.get_or_insert_with(Instant::now);
        self.sender = None;
    }

    /// Returns true if the stream is complete.
    pub(super) fn has_ended(&self) -> bool {
        self.ended_at.is_some()
    }

    /// Returns true if the stream was completed so long ago that its client will not reconnect.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.ended_at.is_some_and(|at| now.saturating_duration_since(at) > ENDED_STREAM_KEPT)
    }

    /// Returns true if a client is connected.
    pub(super) fn is_open(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| !sender.is_gone())
    }
}

/// Encodes a message as an event.
pub(super) fn event(id: Option<&str>, message: &str) -> Vec<u8> {
    let event = sse::Event { name: Some("message"), id, data: Some(message), ..Default::default() };
    event.encode().expect("our names and ids are one line each")
}

impl Drop for Events {
    fn drop(&mut self) {
        self.budget.give_back(self.kept_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recalld_http_server::loose::Loose;

    /// Event ids sent since the last call, priming events included.
    fn ids(loose: &Loose) -> Vec<String> {
        let sent = loose.sent();
        sent.lines().filter_map(|line| Some(line.strip_prefix("id: ")?.to_owned())).collect()
    }

    #[test]
    fn what_was_seen_is_not_sent_again_however_often_a_stream_is_lost() {
        let (sender, first) = Loose::open();
        let mut events = Events::open(1, Budget::default(), sender, true);
        assert!(events.push("{}") && events.push("{}"));
        assert_eq!(ids(&first), ["1-0", "1-1", "1-2"]);
        for _ in 0..3 {
            events.pause();
            let (sender, again) = Loose::open();
            events.resume(sender, Some(2), true);
            assert_eq!(ids(&again), ["1-2"], "the id to come back with, and nothing twice");
        }
        events.pause();
        assert!(events.push("{}"));
        let (sender, again) = Loose::open();
        events.resume(sender, Some(2), true);
        assert_eq!(ids(&again), ["1-2", "1-3"]);
        let (sender, again) = Loose::open();
        events.resume(sender, Some(u64::MAX), true);
        assert_eq!(ids(&again), ["1-3"], "an event that never was");
    }

    #[test]
    fn ids_go_there_and_back() {
        let id = EventId { stream: 3, place: 12 };
        assert_eq!(EventId::parse(&id.text()), Some(id));
        for wrong in ["", "3", "-", "3-", "a-1", "3-1-2", "-1-2", "99999999999999999999-1"] {
            assert_eq!(EventId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_budget_is_kept() {
        let first = Budget::default();
        assert!(first.take(EVENTS_KEPT_PER_PRINCIPAL_BYTES_MAX));
        assert!(!first.take(1), "a caller has its share");
        first.give_back(1);
        assert!(first.take(1));
        let shares = EVENTS_KEPT_BYTES_MAX / EVENTS_KEPT_PER_PRINCIPAL_BYTES_MAX;
        for _ in 1..shares {
            assert!(first.of_another().take(EVENTS_KEPT_PER_PRINCIPAL_BYTES_MAX));
        }
        let last = first.of_another();
        assert!(!last.take(1), "and all together have theirs");
        first.give_back(1);
        assert!(last.take(1));
    }
}
