//! The interface between the HTTP server and a service: requests, responders and streams.
//!
//! Owns the hand-over between a worker and the event loop; must not know sockets or framing.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::config::ListenerId;
use super::mailbox::{Mailbox, Note, locked};
use super::message::{Head, Request, Response};
use super::places::Account;
use super::slots::Name;
use super::tally::HeldBody;
use crate::limits::{STREAM_MESSAGE_BYTES_MAX, WAITING_BYTES_SMALL};
use recalld_common::cancel::CancellationToken;
use recalld_common::request_id::RequestId;

/// A service that answers requests.
pub trait Service: Send + Sync + 'static {
    /// Route match of a request, resolved from its head. The connection retains the match while the body arrives and
    /// passes it to every later step of the request.
    type RouteMatch: Send + 'static;

    /// Resolves a request, once, on the event loop. The body of `call` may not have arrived.
    fn resolve(&self, call: &Call) -> Self::RouteMatch;

    /// Answers a request. Runs on a worker and may block. The responder may also be stored and answered later by
    /// another thread.
    fn serve(&self, call: Call, matched: Self::RouteMatch, reply: Reply);

    /// Answers a request inline on the event loop, which saves the hand-over to a worker. Suitable only for responses
    /// that need no lock, no disk and no significant computation: every other connection waits meanwhile. `None` passes
    /// the request to a worker.
    fn quick(&self, call: &Call, matched: &Self::RouteMatch) -> Option<Response> {
        let _ = (call, matched);
        None
    }

    /// Body decision for a body that is not small, or whose client waits for `100 Continue`. Called on the event loop,
    /// like `quick`, before the body is read, so that bodies of rejected requests cannot exhaust the memory. `call` is
    /// complete except for its empty body; at least `body_bytes` will follow. Called again if a body of unknown length
    /// would exceed the accepted size.
    fn admit(&self, call: &Call, matched: &mut Self::RouteMatch, body_bytes: usize) -> Admission {
        let _ = (call, matched, body_bytes);
        Admission::UpTo(usize::MAX)
    }

    /// Starts the drain: streams kept open must now end in an orderly way. Called once, on the event loop; must not
    /// block.
    fn drain(&self) {}

    /// Returns true if a request may run or wait for minutes or hours. Such a request runs on a separate thread and
    /// cannot delay others. Called on the event loop, like `quick`.
    fn takes_long(&self, call: &Call, matched: &mut Self::RouteMatch) -> bool {
        let _ = (call, matched);
        false
    }

    /// Returns a small number for this match, such as a route number, which `answered` receives back. Called on the
    /// event loop, like `quick`.
    fn route(&self, matched: &Self::RouteMatch) -> u16 {
        let _ = matched;
        0
    }

    /// Reports that a request is over for the service, for metrics. Called on the event loop, like `quick`.
    fn answered(&self, answered: &Answered) {
        let _ = answered;
    }
}

/// Body decision of a service.
#[derive(Debug)]
pub enum Admission {
    /// Accept a body of up to this many bytes.
    UpTo(usize),
    /// Reject: send the response without reading the body, and close the connection.
    Answer(Response),
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// The listener that accepted the connection.
    pub listener: ListenerId,
    /// The client's address.
    pub peer: SocketAddr,
    /// The request id.
    pub id: RequestId,
    /// The result of [`Service::route`].
    pub route: u16,
    /// Status; `None` if the client disconnected before the response.
    pub status: Option<u16>,
    /// Bytes of the response's body; `None` for a stream, which has only begun.
    pub body_bytes: Option<usize>,
    /// Time from the last byte of the request to the response, or to the head of a stream.
    pub took: Duration,
}

/// A request with its origin.
#[derive(Debug)]
pub struct Call {
    /// The request id, used in the response and in logs.
    pub id: RequestId,
    /// The listener that accepted the connection.
    pub listener: ListenerId,
    /// The client's address.
    pub peer: SocketAddr,
    /// The complete request.
    pub request: Request,
    /// Time at which the last byte of the request was read.
    pub arrived: Instant,
    /// Cancelled when the client disconnects.
    pub cancel: CancellationToken,
    /// Accounts for the body as long as the request exists, even after a disconnect.
    pub(super) _body: Option<Arc<HeldBody>>,
}

/// Responder: the obligation to answer one request. If dropped unanswered (or by a panic), the client gets a 500.
pub struct Reply {
    to: Option<(Name, Arc<Mailbox>)>,
    id: RequestId,
    stream_backlog_bytes_max: usize,
    /// Accounts for the backlog of a stream.
    account: Account,
    /// Header fields added to every response.
    fields: Vec<(&'static str, String)>,
}

impl Reply {
    /// Creates the responder for the request of connection `name`.
    pub(super) fn new(
        name: Name,
        mailbox: Arc<Mailbox>,
        id: RequestId,
        stream_backlog_bytes_max: usize,
        account: Account,
    ) -> Reply {
        let to = Some((name, mailbox));
        Reply { to, id, stream_backlog_bytes_max, account, fields: Vec::new() }
    }

    /// Adds fields to the response of any kind: a response, a stream, or the 500 of a panic.
    #[must_use]
    pub fn with_fields(mut self, fields: Vec<(&'static str, String)>) -> Reply {
        self.fields.extend(fields);
        self
    }

    fn dressed(&mut self, head: Head) -> Head {
        let fields = std::mem::take(&mut self.fields);
        fields.into_iter().fold(head, |head, (name, value)| head.header(name, value))
    }

    /// Answers the request. Never blocks.
    pub fn send(mut self, mut response: Response) {
        response.head = self.dressed(response.head);
        if let Some((name, mailbox)) = self.to.take() {
            mailbox.send(Note::Answer(name, response));
        }
    }

    /// Answers the request by a stream of bytes, which ends when the sender is dropped. If there are too many streams,
    /// the client gets a 503 and the sender reports `Gone`. A drain ends the stream at once, with its pending bytes.
    pub fn stream(self, head: Head) -> StreamSender {
        self.streamed(head, OnDrain::End)
    }

    /// Answers the request by a stream that carries one response in pieces. During a drain, the sender may finish the
    /// response within the grace period.
    pub fn answer_by_stream(self, head: Head) -> StreamSender {
        self.streamed(head, OnDrain::Finish)
    }

    /// Answers the request by a stream whose response may take too long for a drain. A drain cancels the request, and
    /// the sender must report the cancellation before ending the stream, within the grace period. Otherwise the stream
    /// is aborted, so that a client never accepts a part as the whole.
    pub fn report_by_stream(self, head: Head) -> StreamSender {
        self.streamed(head, OnDrain::CallOff)
    }

    fn streamed(mut self, head: Head, on_drain: OnDrain) -> StreamSender {
        let account = self.account.clone();
        let feed = Arc::new(Feed::new(self.stream_backlog_bytes_max, account, on_drain));
        let head = self.dressed(head);
        let (name, mailbox) = self.to.take().expect("only send, stream and drop take it, once");
        mailbox.send(Note::Stream(name, head, Arc::clone(&feed)));
        StreamSender { name, feed, mailbox }
    }

    /// Returns the obligation to the loop, which answers itself.
    pub(super) fn disarm(mut self) {
        self.to = None;
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some((name, mailbox)) = self.to.take() {
            let mut response = Response::internal(&self.id);
            response.head = self.dressed(response.head);
            mailbox.send(Note::Answer(name, response));
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Reply")
    }
}

/// Error: the client of a stream disconnected, was aborted as a slow reader, or the server is draining.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the client of this stream is gone")
    }
}

impl std::error::Error for Gone {}

/// Sends the body of a streamed response, from any thread. Dropping the sender ends the stream; a drop by a panic
/// aborts the stream, so that the client does not accept a part as the whole.
pub struct StreamSender {
    name: Name,
    feed: Arc<Feed>,
    mailbox: Arc<Mailbox>,
}

impl StreamSender {
    /// Sends bytes. Never blocks. A stream is aborted if its backlog exceeds `STREAM_BACKLOG_BYTES_MAX`, or if a
    /// message exceeds `STREAM_MESSAGE_BYTES_MAX`. Above `WAITING_BYTES_MAX`, a stream with a backlog of more than
    /// `WAITING_BYTES_SMALL` is aborted too, unless its reader has received all earlier bytes
    /// (`WAITING_BYTES_PROMPT_MAX`).
    ///
    /// # Errors
    /// [`Gone`] if the stream has no reader; nothing more need be sent.
    pub fn send(&self, bytes: &[u8]) -> Result<(), Gone> {
        let (note, outcome) = self.feed.push(bytes);
        self.tell(note);
        outcome
    }

    /// Sends bytes after the loop has taken all earlier ones, so that a client may read as slowly as the write timeout
    /// allows. For long responses, and only from a worker: the call blocks.
    ///
    /// # Errors
    /// [`Gone`], as for [`StreamSender::send`].
    pub fn send_in_turn(&self, bytes: &[u8]) -> Result<(), Gone> {
        self.feed.wait_until_taken();
        self.send(bytes)
    }

    /// Aborts the stream, so that the client does not accept the bytes sent as the complete response.
    pub fn break_off(self) {
        self.tell(self.feed.finish(End::Broken));
    }

    /// Returns true if the client is gone, without sending anything.
    pub fn is_gone(&self) -> bool {
        locked(&self.feed.state).gone
    }

    fn tell(&self, note: bool) {
        if note {
            self.mailbox.send(Note::Fed(self.name));
        }
    }
}

impl Drop for StreamSender {
    fn drop(&mut self) {
        let end = if std::thread::panicking() { End::Broken } else { End::Clean };
        self.tell(self.feed.finish(end));
    }
}

impl fmt::Debug for StreamSender {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("StreamSender")
    }
}

/// End of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The sender completed the stream.
    Clean,
    /// The connection must be aborted.
    Broken,
}

/// Buffer between the sender of a stream and its event loop.
pub(super) struct Feed {
    state: Mutex<FeedState>,
    /// Notified when the pending bytes are taken or discarded.
    taken: Condvar,
    backlog_bytes_max: usize,
    account: Account,
    pub(super) on_drain: OnDrain,
}

/// Policy for a stream during a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDrain {
    /// The stream ends at once, with its pending bytes.
    End,
    /// The sender finishes the stream.
    Finish,
    /// The request is cancelled, and the sender reports the cancellation at the end.
    CallOff,
}

#[derive(Default)]
struct FeedState {
    pending: Vec<u8>,
    end: Option<End>,
    /// The stream has no reader any more.
    gone: bool,
    /// The bytes last taken are being sent.
    is_taking: bool,
    /// A message to the loop is in transit; the loop will find all later bytes too.
    noted: bool,
}

impl Feed {
    pub(super) fn new(backlog_bytes_max: usize, account: Account, on_drain: OnDrain) -> Feed {
        let (state, taken) = (Mutex::default(), Condvar::new());
        Feed { state, taken, backlog_bytes_max, account, on_drain }
    }

    /// Takes the pending bytes, and the end if reached. Called after all bytes taken before are sent.
    pub(super) fn take(&self) -> (Vec<u8>, Option<End>) {
        let mut state = locked(&self.state);
        state.noted = false;
        self.taken.notify_all();
        let pending = self.empty(&mut state);
        state.is_taking = !pending.is_empty();
        (pending, state.end)
    }

    /// Returns true if the stream was aborted because a push exceeded its limits.
    pub(super) fn has_overflowed(&self) -> bool {
        let state = locked(&self.state);
        state.gone && state.end == Some(End::Broken)
    }

    /// Returns true if the connection must be aborted, even with unsent bytes.
    pub(super) fn is_broken(&self) -> bool {
        locked(&self.state).end == Some(End::Broken)
    }

    /// Marks the reader as gone and discards the pending bytes.
    pub(super) fn close(&self) {
        let mut state = locked(&self.state);
        state.gone = true;
        self.empty(&mut state);
        self.taken.notify_all();
    }

    /// Takes the pending bytes and removes them from the account.
    fn empty(&self, state: &mut FeedState) -> Vec<u8> {
        self.account.count_waiting(state.pending.capacity(), 0);
        std::mem::take(&mut state.pending)
    }

    /// Waits until no bytes are pending. The loop eventually takes from or closes every feed, because the loop enforces
    /// the timeouts of the connection.
    fn wait_until_taken(&self) {
        let state = locked(&self.state);
        let waited = self.taken.wait_while(state, |state| !state.pending.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Appends bytes. Returns true if the loop needs a message, and the result of the append.
    fn push(&self, bytes: &[u8]) -> (bool, Result<(), Gone>) {
        let mut state = locked(&self.state);
        if state.gone {
            return (false, Err(Gone));
        }
        let (before, after) = (state.pending.len(), state.pending.len() + bytes.len());
        let fits = after <= self.backlog_bytes_max
            || (before == 0 && bytes.len() <= STREAM_MESSAGE_BYTES_MAX);
        // A reader who has received all earlier bytes is not penalized for slow readers.
        let is_prompt = before == 0 && !state.is_taking;
        let is_welcome = after <= WAITING_BYTES_SMALL
            || !self.account.is_brimful()
            || (is_prompt && !self.account.is_brimful_to_the_prompt());
        if fits && is_welcome {
            let held = state.pending.capacity();
            state.pending.extend_from_slice(bytes);
            self.account.count_waiting(held, state.pending.capacity());
        } else {
            self.empty(&mut state);
            state.gone = true;
            state.end = Some(End::Broken);
            // The loop ignores a feed while the socket is full; an abort must be noticed at once.
            return (true, Err(Gone));
        }
        (!std::mem::replace(&mut state.noted, true), Ok(()))
    }

    /// Marks the end, unless already marked. Returns true if the loop needs a message.
    fn finish(&self, end: End) -> bool {
        let mut state = locked(&self.state);
        if state.gone || state.end.is_some() {
            return false;
        }
        state.end = Some(end);
        !std::mem::replace(&mut state.noted, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    use crate::config::{Limits, Places};
    use crate::counters::Counters;
    use crate::limits::WAITING_BYTES_PROMPT_MAX;
    use crate::places::Room;

    /// Creates a feed with a backlog of ten bytes, and a memory limit for its peer.
    fn fresh(waiting_bytes_per_peer_max: usize) -> (Feed, Arc<Counters>) {
        let bounded = Places { waiting_bytes_per_peer_max, ..Places::default() };
        fresh_where(bounded, Limits::default())
    }

    fn fresh_where(places: Places, limits: Limits) -> (Feed, Arc<Counters>) {
        let counters: Arc<Counters> = Arc::default();
        let room = Room::new(Arc::clone(&counters), &limits, &[(ListenerId(0), places)]);
        let place = Arc::new(room).take(ListenerId(0), IpAddr::from([192, 0, 2, 1])).unwrap();
        (Feed::new(10, place.account().clone(), OnDrain::End), counters)
    }

    #[test]
    fn a_prompt_reader_gets_a_large_message_where_too_much_waits() {
        let limits = Limits { waiting_bytes_max: 1, ..Limits::default() };
        let (feed, _counters) = fresh_where(Places::default(), limits);
        feed.account.count_waiting(0, 1);
        let large = vec![b'x'; WAITING_BYTES_SMALL + 1];
        for _ in 0..3 {
            assert_eq!(feed.push(&large).1, Ok(()));
            // First call takes the bytes, second call finds them sent.
            assert_eq!(feed.take().0.len(), large.len());
            assert!(feed.take().0.is_empty());
        }
        // A message is rejected while its predecessor is being sent.
        assert_eq!(feed.push(&large).1, Ok(()));
        feed.take();
        assert!(!feed.has_overflowed());
        assert_eq!(feed.push(&large).1, Err(Gone));
        assert!(feed.has_overflowed());
        // A prompt reader is limited too.
        let limits = Limits { waiting_bytes_max: 1, ..Limits::default() };
        let (feed, _counters) = fresh_where(Places::default(), limits);
        feed.account.count_waiting(0, WAITING_BYTES_PROMPT_MAX + 1);
        assert_eq!(feed.push(&large).1, Err(Gone));
    }

    #[test]
    fn one_note_until_the_loop_has_looked() {
        let (feed, _) = fresh(1000);
        assert_eq!(feed.push(b"ab"), (true, Ok(())));
        assert_eq!(feed.push(b"cd"), (false, Ok(())));
        assert_eq!(feed.take(), (b"abcd".to_vec(), None));
        assert_eq!(feed.push(b"e"), (true, Ok(())));
        assert!(!feed.finish(End::Clean));
        assert_eq!(feed.take(), (b"e".to_vec(), Some(End::Clean)));
    }

    #[test]
    fn a_backlog_is_cut_off_and_one_large_message_is_not() {
        let (feed, _) = fresh(1000);
        assert_eq!(feed.push(&[b'x'; 50]), (true, Ok(())));
        assert!(!feed.is_broken());
        assert_eq!(feed.push(b"y"), (true, Err(Gone)));
        assert!(feed.is_broken());
        assert_eq!(feed.take(), (Vec::new(), Some(End::Broken)));
        assert_eq!(feed.push(b"z"), (false, Err(Gone)));
        let (feed, _) = fresh(1000);
        let huge = vec![b'x'; STREAM_MESSAGE_BYTES_MAX + 1];
        assert_eq!(feed.push(&huge), (true, Err(Gone)));
    }

    #[test]
    fn a_sender_in_turn_waits_for_the_loop_and_for_the_end() {
        let (feed, _) = fresh(1000);
        feed.wait_until_taken();
        assert_eq!(feed.push(b"ab"), (true, Ok(())));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| feed.wait_until_taken());
            assert_eq!(feed.take(), (b"ab".to_vec(), None));
            assert!(waiting.join().is_ok());
        });
        assert_eq!(feed.push(b"cd"), (true, Ok(())));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| feed.wait_until_taken());
            feed.close();
            assert!(waiting.join().is_ok());
        });
    }

    #[test]
    fn a_stream_that_was_broken_off_did_not_end_well() {
        let (feed, _) = fresh(1000);
        assert!(feed.finish(End::Broken));
        // As by the drop of the sender.
        assert!(!feed.finish(End::Clean));
        assert!(feed.is_broken());
    }

    #[test]
    fn a_closed_feed_takes_nothing() {
        let (feed, _) = fresh(1000);
        feed.close();
        assert_eq!(feed.push(b"a"), (false, Err(Gone)));
        assert!(!feed.finish(End::Clean));
    }

    #[test]
    fn what_is_pending_counts_until_it_is_taken_or_given_up() {
        let (one, counters) = fresh(1000);
        assert_eq!(one.push(b"abc").1, Ok(()));
        assert_eq!(one.push(b"de").1, Ok(()));
        let held = locked(&one.state).pending.capacity() as u64;
        assert_eq!(counters.waiting_bytes.get(), held);
        assert!(held >= 5);
        one.take();
        assert_eq!(counters.waiting_bytes.get(), 0);
        assert_eq!(one.push(b"abc").1, Ok(()));
        one.close();
        assert_eq!(counters.waiting_bytes.get(), 0);
    }

    #[test]
    fn a_stream_that_is_no_small_one_is_cut_off_where_too_much_waits() {
        let (feed, counters) = fresh(1);
        // The first message finds nothing pending.
        assert_eq!(feed.push(&[b'x'; WAITING_BYTES_SMALL + 1]).1, Ok(()));
        assert_eq!(feed.push(b"y").1, Err(Gone));
        assert!(feed.is_broken() && counters.waiting_bytes.get() == 0);
        let (feed, counters) = fresh(1);
        assert_eq!(feed.push(b"x").1, Ok(()));
        assert_eq!(feed.push(b"small").1, Ok(()));
        assert!(counters.waiting_bytes.get() >= 6 && !feed.is_broken());
    }
}
