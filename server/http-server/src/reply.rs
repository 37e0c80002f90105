//! A call and the ways to answer it: what a service sees of the front end.
//!
//! Owns the hand-over between a worker and the event loop; knows nothing of sockets or framing.

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

/// What answers calls.
pub trait Service: Send + Sync + 'static {
    /// A request, resolved by its head. The connection retains the match while the body arrives, and
    /// hands it to every later step of the same request.
    type RouteMatch: Send + 'static;

    /// Resolves a request, once, on the event loop. The body of `call` may not have arrived.
    fn resolve(&self, call: &Call) -> Self::RouteMatch;

    /// Answers a call. Runs on a worker and may take its time; the reply may also be kept and
    /// answered later from another thread.
    fn serve(&self, call: Call, matched: Self::RouteMatch, reply: Reply);

    /// Answers a call on the event loop itself, which saves the way to a worker and back. Only for
    /// answers that need no lock, no disk and no arithmetic to speak of: every other connection
    /// waits meanwhile. `None` sends the call to a worker.
    fn quick(&self, call: &Call, matched: &Self::RouteMatch) -> Option<Response> {
        let _ = (call, matched);
        None
    }

    /// Whether a call may have a body that is not small, or whose client waits to be told to go on. Asked
    /// on the event loop, as `quick` is, before that body is taken, so that nobody fills the memory with
    /// bodies of calls that will be refused. `call` is as it will be, with an empty body in its place, of
    /// which `body_bytes` at least are to come. Asked again when a body of unknown length is to become
    /// longer than was said.
    fn admit(&self, call: &Call, matched: &mut Self::RouteMatch, body_bytes: usize) -> Admission {
        let _ = (call, matched, body_bytes);
        Admission::UpTo(usize::MAX)
    }

    /// The server is closing down: streams that were kept open are to end now, in good order. Called
    /// once, on the event loop; it must not wait.
    fn drain(&self) {}

    /// Whether a call may take minutes or hours, or wait that long for its turn. Such a call has
    /// threads of its own and cannot hold up others. Asked on the event loop, as `quick` is.
    fn takes_long(&self, call: &Call, matched: &mut Self::RouteMatch) -> bool {
        let _ = (call, matched);
        false
    }

    /// A small number of the service's own for this match, which comes back in `answered`: which route
    /// it takes, say. Asked on the event loop, as `quick` is.
    fn route(&self, matched: &Self::RouteMatch) -> u16 {
        let _ = matched;
        0
    }

    /// A call is over, as far as the service is concerned. Told on the event loop, as `quick` is asked:
    /// for counting.
    fn answered(&self, answered: &Answered) {
        let _ = answered;
    }
}

/// What becomes of a call whose body has not been taken.
#[derive(Debug)]
pub enum Admission {
    /// It may have a body of so many bytes.
    UpTo(usize),
    /// It is answered without its body; the connection closes.
    Answer(Response),
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// The listener it came in by.
    pub listener: ListenerId,
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// What the request is called.
    pub id: RequestId,
    /// What [`Service::route`] said.
    pub route: u16,
    /// The status; `None` when the client left before it was answered.
    pub status: Option<u16>,
    /// Bytes of the answer's body; `None` for a stream, which has only begun.
    pub body_bytes: Option<usize>,
    /// From the last byte of the request to the answer, or to the head of a stream.
    pub took: Duration,
}

/// One request and where it came from.
#[derive(Debug)]
pub struct Call {
    /// What the request is called, in its answer and in logs.
    pub id: RequestId,
    /// The listener it came in by.
    pub listener: ListenerId,
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// The request, whole.
    pub request: Request,
    /// When the last byte of the request was read.
    pub arrived: Instant,
    /// Cancelled when the client is gone.
    pub cancel: CancellationToken,
    /// The body counts as long as the call is kept, whatever becomes of its connection.
    pub(super) _body: Option<Arc<HeldBody>>,
}

/// The duty to answer a call. Dropped unanswered (or by a panic), it answers 500.
pub struct Reply {
    to: Option<(Name, Arc<Mailbox>)>,
    id: RequestId,
    stream_backlog_bytes_max: usize,
    /// Counts what a stream has waiting.
    account: Account,
    /// What every answer carries beside its own fields.
    fields: Vec<(&'static str, String)>,
}

impl Reply {
    /// The reply to the call of connection `name`.
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

    /// Adds fields to the answer, whatever it will be: a response, a stream, or the 500 of a panic.
    #[must_use]
    pub fn with_fields(mut self, fields: Vec<(&'static str, String)>) -> Reply {
        self.fields.extend(fields);
        self
    }

    fn dressed(&mut self, head: Head) -> Head {
        let fields = std::mem::take(&mut self.fields);
        fields.into_iter().fold(head, |head, (name, value)| head.header(name, value))
    }

    /// Answers the call. Never waits.
    pub fn send(mut self, mut response: Response) {
        response.head = self.dressed(response.head);
        if let Some((name, mailbox)) = self.to.take() {
            mailbox.send(Note::Answer(name, response));
        }
    }

    /// Answers the call by a stream of bytes, which ends when the sender is dropped. A 503 goes out
    /// in its place when there are too many streams; the sender then reports `Gone`.
    /// When the server closes down, it ends at once with what it has.
    pub fn stream(self, head: Head) -> StreamSender {
        self.streamed(head, OnDrain::End)
    }

    /// The same for an answer that comes in pieces: when the server closes down, its sender may still
    /// bring it to its end, within the grace.
    pub fn answer_by_stream(self, head: Head) -> StreamSender {
        self.streamed(head, OnDrain::Finish)
    }

    /// The same for an answer that would take too long: when the server closes down, its call is called
    /// off, and its sender says so before it ends the stream, within the grace. One that does not is cut
    /// off, so that in no case a client takes a part for the whole.
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

    /// Gives the duty back to the loop, which answers by itself.
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

/// The client of a stream is gone, or read too slowly and was cut off, or the server closes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the client of this stream is gone")
    }
}

impl std::error::Error for Gone {}

/// Sends the body of a streamed answer, from any thread. Dropping it ends the stream; dropping it in
/// a panic breaks the stream off, so that the client does not take a part for the whole.
pub struct StreamSender {
    name: Name,
    feed: Arc<Feed>,
    mailbox: Arc<Mailbox>,
}

impl StreamSender {
    /// Sends bytes. Never waits: a client that lets more than `STREAM_BACKLOG_BYTES_MAX` pile up is
    /// cut off, and so is a stream with a message over `STREAM_MESSAGE_BYTES_MAX`. Where
    /// `WAITING_BYTES_MAX` is reached, so is one with more than `WAITING_BYTES_SMALL`, unless its reader has
    /// taken everything before it (`WAITING_BYTES_PROMPT_MAX`).
    ///
    /// # Errors
    /// [`Gone`] when nobody will read it; nothing more need be sent.
    pub fn send(&self, bytes: &[u8]) -> Result<(), Gone> {
        let (note, outcome) = self.feed.push(bytes);
        self.tell(note);
        outcome
    }

    /// Sends bytes once those sent before are on their way, so that a client may take them as slowly
    /// as the write timeout allows. For long answers, and only from a worker: it waits.
    ///
    /// # Errors
    /// [`Gone`], as for [`StreamSender::send`].
    pub fn send_in_turn(&self, bytes: &[u8]) -> Result<(), Gone> {
        self.feed.wait_until_taken();
        self.send(bytes)
    }

    /// Ends the stream where it is, in a way that its client does not take for the end of all that was to come.
    pub fn break_off(self) {
        self.tell(self.feed.finish(End::Broken));
    }

    /// Whether the client is gone, without sending anything.
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

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The sender said all it had to say.
    Clean,
    /// The connection must break.
    Broken,
}

/// The bytes between a sender and the loop.
pub(super) struct Feed {
    state: Mutex<FeedState>,
    /// Told when what was pending is taken, or will never be.
    taken: Condvar,
    backlog_bytes_max: usize,
    account: Account,
    pub(super) on_drain: OnDrain,
}

/// What becomes of a stream when the server closes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDrain {
    /// It ends at once, with what it has.
    End,
    /// Its sender brings it to its end.
    Finish,
    /// Its call is called off, and its sender says so at its end.
    CallOff,
}

#[derive(Default)]
struct FeedState {
    pending: Vec<u8>,
    end: Option<End>,
    /// Nobody will read what is sent.
    gone: bool,
    /// What the loop took last is under way to the reader.
    is_taking: bool,
    /// A note is under way to the loop; it will find everything that came after, too.
    noted: bool,
}

impl Feed {
    pub(super) fn new(backlog_bytes_max: usize, account: Account, on_drain: OnDrain) -> Feed {
        let (state, taken) = (Mutex::default(), Condvar::new());
        Feed { state, taken, backlog_bytes_max, account, on_drain }
    }

    /// Takes what is pending, and the end if it has been reached. Asked when all that was taken before is
    /// sent.
    pub(super) fn take(&self) -> (Vec<u8>, Option<End>) {
        let mut state = locked(&self.state);
        state.noted = false;
        self.taken.notify_all();
        let pending = self.empty(&mut state);
        state.is_taking = !pending.is_empty();
        (pending, state.end)
    }

    /// Whether it broke because it had no room for what was sent.
    pub(super) fn has_overflowed(&self) -> bool {
        let state = locked(&self.state);
        state.gone && state.end == Some(End::Broken)
    }

    /// Whether the connection must break, whatever is still unsent.
    pub(super) fn is_broken(&self) -> bool {
        locked(&self.state).end == Some(End::Broken)
    }

    /// Nobody will read any more.
    pub(super) fn close(&self) {
        let mut state = locked(&self.state);
        state.gone = true;
        self.empty(&mut state);
        self.taken.notify_all();
    }

    /// What was pending, which counts here no longer.
    fn empty(&self, state: &mut FeedState) -> Vec<u8> {
        self.account.count_waiting(state.pending.capacity(), 0);
        std::mem::take(&mut state.pending)
    }

    /// Waits until nothing is pending. The loop takes or closes every feed in the end: it keeps the
    /// timeouts of its connection.
    fn wait_until_taken(&self) {
        let state = locked(&self.state);
        let waited = self.taken.wait_while(state, |state| !state.pending.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds bytes. Says whether the loop needs a note, and whether the bytes were taken.
    fn push(&self, bytes: &[u8]) -> (bool, Result<(), Gone>) {
        let mut state = locked(&self.state);
        if state.gone {
            return (false, Err(Gone));
        }
        let (before, after) = (state.pending.len(), state.pending.len() + bytes.len());
        let fits = after <= self.backlog_bytes_max
            || (before == 0 && bytes.len() <= STREAM_MESSAGE_BYTES_MAX);
        // A reader who has taken everything so far is not made to pay for those who have not.
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
            // The loop leaves a feed alone while the socket is full; this it must know at once.
            return (true, Err(Gone));
        }
        (!std::mem::replace(&mut state.noted, true), Ok(()))
    }

    /// Marks the end, unless there was one before. Says whether the loop needs a note.
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

    /// A feed with a backlog of ten bytes, of a peer that may have so many bytes waiting.
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
            // Taken, and then sent.
            assert_eq!(feed.take().0.len(), large.len());
            assert!(feed.take().0.is_empty());
        }
        // Not while the one before it is under way.
        assert_eq!(feed.push(&large).1, Ok(()));
        feed.take();
        assert!(!feed.has_overflowed());
        assert_eq!(feed.push(&large).1, Err(Gone));
        assert!(feed.has_overflowed());
        // Nor for ever.
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
        // As its sender is dropped.
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
        // The first of all finds nothing waiting.
        assert_eq!(feed.push(&[b'x'; WAITING_BYTES_SMALL + 1]).1, Ok(()));
        assert_eq!(feed.push(b"y").1, Err(Gone));
        assert!(feed.is_broken() && counters.waiting_bytes.get() == 0);
        let (feed, counters) = fresh(1);
        assert_eq!(feed.push(b"x").1, Ok(()));
        assert_eq!(feed.push(b"small").1, Ok(()));
        assert!(counters.waiting_bytes.get() >= 6 && !feed.is_broken());
    }
}
