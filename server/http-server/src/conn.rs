//! One connection as a state machine without a socket: bytes in, bytes out, next deadline.
//!
//! Owns the phase, the unread and unsent bytes and the clock of the phase; must not know sockets,
//! threads or services. Time comes in as a parameter. One call is in flight at a time: bytes that
//! arrive meanwhile wait, at most `pipelined_bytes_max` of them, and then reading stops.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::buffers::{Inbox, Outbox};
use super::config::Limits;
use super::gathering::Gathering;
use super::http::{self, Fault, RequestHead};
use super::message::{Head, Request, Response, Version};
use super::render::{self, AnswerFault, Exchange};
use crate::limits::{
    ANSWER_TIME_MAX, BODY_BYTES_PER_SECOND_MIN, LINGER_BYTES_MAX, READ_BYTES_MAX,
    WRITE_BYTES_PER_SECOND_MIN,
};
use recalld_common::date::Moment;
use recalld_common::request_id::{Numbering, RequestId};

/// Where one connection stands.
enum Phase {
    /// Between requests, or gathering a request head.
    Head,
    /// The service is being asked whether the request may have its body.
    Judged(Box<Gathering>),
    /// Head accepted, the body still to come.
    Body(Box<Incoming>),
    /// The service has the call.
    Working(Exchange),
    /// An answer waits for the socket.
    Writing(After),
    /// An answer of unknown length; more of it comes until the stream ends.
    Streaming { chunked: bool, after: After },
    /// Everything is said and our side is shut; `left` late bytes of the client's are thrown away,
    /// so that they do not reset the connection before the client has read its answer.
    Lingering { left: usize },
    /// Nothing more will happen; the socket can go.
    Closed,
}

/// What follows an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    KeepAlive,
    Close,
}

/// A request whose body is being read.
struct Incoming {
    /// All but the body.
    request: Request,
    gathering: Gathering,
}

/// What `advance` has for the service.
#[derive(Debug)]
pub(super) enum Arrived {
    /// The head of a request, whose body will have at least so many bytes and is not to be taken unasked.
    /// `admit` or `decline` goes on, at once.
    Head(Request, usize),
    /// A whole request, to be answered by `respond` or `begin_stream`.
    Call(Request),
}

/// One connection. See the module comment.
pub(super) struct Conn {
    limits: Arc<Limits>,
    numbering: Numbering,
    phase: Phase,
    inbox: Inbox,
    /// How much of the inbox is known not to hold the end of a head.
    scanned: usize,
    outbox: Outbox,
    /// When the clock of this phase began.
    since: Instant,
    /// Body bytes received or answer bytes sent since then, which earn more time.
    moved: usize,
    /// When the last of them moved.
    moved_at: Instant,
    /// Body bytes of the request that is being read.
    body_bytes: usize,
    peer_ended: bool,
    abandoned: bool,
    cut_off: bool,
    draining: bool,
    refused: Option<u16>,
}

// An idle connection is this and its socket; both buffers are given back when they are empty.
const _: () = assert!(size_of::<Conn>() <= 512);

impl Conn {
    /// A fresh connection, which names its requests by `numbering`.
    pub(super) fn open(limits: Arc<Limits>, numbering: Numbering, now: Instant) -> Conn {
        Conn {
            limits,
            numbering,
            phase: Phase::Head,
            inbox: Inbox::default(),
            scanned: 0,
            outbox: Outbox::default(),
            since: now,
            moved: 0,
            moved_at: now,
            body_bytes: 0,
            peer_ended: false,
            abandoned: false,
            cut_off: false,
            draining: false,
            refused: None,
        }
    }

    /// Takes bytes from the socket, at most `room` of them. Call `advance` afterwards.
    pub(super) fn receive(&mut self, bytes: &[u8], now: Instant) {
        assert!(bytes.len() <= self.room(), "the caller asks for room first");
        match &mut self.phase {
            Phase::Closed => {}
            Phase::Lingering { left } => {
                *left = left.saturating_sub(bytes.len());
                if *left == 0 {
                    self.phase = Phase::Closed;
                }
            }
            Phase::Head if self.inbox.is_empty() => {
                self.since = now;
                self.inbox.push(bytes);
            }
            _ => self.inbox.push(bytes),
        }
    }

    /// The client closed its sending half, or all of it. Call `advance` afterwards.
    pub(super) fn end(&mut self, now: Instant) {
        self.peer_ended = true;
        match self.phase {
            // Whoever reads a stream says nothing meanwhile; an end is taken for leaving.
            Phase::Streaming { .. } => self.lose(),
            Phase::Lingering { .. } => self.phase = Phase::Closed,
            Phase::Working(_) => self.since = now,
            _ => {}
        }
    }

    /// Reads on in what has arrived. Gives a request when one is complete, or when it must be asked
    /// about; the next one is given when it is answered.
    pub(super) fn advance(&mut self, moment: &Moment) -> Option<Arrived> {
        let step = match self.phase {
            Phase::Head => self.read_head(moment),
            Phase::Body(_) => self.read_body(moment.now),
            _ => return None,
        };
        match step {
            Ok(Some(arrived)) => return Some(arrived),
            Ok(None) => {}
            Err(fault) => {
                self.refuse(&fault, moment);
                return None;
            }
        }
        if self.peer_ended && matches!(self.phase, Phase::Head | Phase::Body(_)) {
            if self.inbox.is_empty() && matches!(self.phase, Phase::Head) {
                self.phase = Phase::Closed;
            } else {
                self.refuse(&Fault::bad("the request ended early"), moment);
            }
        }
        None
    }

    /// The request that was asked about may have a body of `bytes_max`.
    pub(super) fn admit(&mut self, request: Request, bytes_max: usize, moment: &Moment) {
        let Some(mut gathering) = self.take_judged() else { return };
        let granted = gathering.grant(bytes_max);
        self.phase = Phase::Body(Box::new(Incoming { request, gathering: *gathering }));
        match granted {
            Ok(true) => self.outbox.push(render::CONTINUE.to_vec()),
            Ok(false) => {}
            Err(fault) => self.refuse(&fault, moment),
        }
    }

    /// The request that was asked about is answered without its body, which may be under way: the
    /// connection closes. A fault is as that of `respond`.
    pub(super) fn decline(
        &mut self,
        response: Response,
        moment: &Moment,
    ) -> Result<(), AnswerFault> {
        let Some(gathering) = self.take_judged() else { return Ok(()) };
        self.inbox = Inbox::default();
        let exchange = Exchange { keep_alive: false, ..gathering.exchange };
        self.write_answer(exchange, response, moment)
    }

    /// Answers the call in flight. An answer that must not be sent becomes a 500, and its fault is
    /// given back for the log.
    pub(super) fn respond(
        &mut self,
        response: Response,
        moment: &Moment,
    ) -> Result<(), AnswerFault> {
        let Phase::Working(exchange) = self.phase else { return Ok(()) };
        self.write_answer(self.settle(exchange), response, moment)
    }

    /// Begins a streamed answer to the call in flight, which `feed` and `end_stream` continue; an
    /// answer without a body (HEAD, 204, 304) is complete at once.
    pub(super) fn begin_stream(&mut self, head: &Head, moment: &Moment) -> Result<(), AnswerFault> {
        let Phase::Working(exchange) = self.phase else { return Ok(()) };
        let mut exchange = self.settle(exchange);
        let chunked = exchange.version == Version::Http11;
        let bodiless = exchange.head_only || render::is_bodiless(head.status);
        exchange.keep_alive &= chunked || bodiless;
        let bytes = match render::stream_head(exchange, head, moment) {
            Ok(bytes) => bytes,
            Err(fault) => {
                self.refuse_ours(exchange, moment);
                return Err(fault);
            }
        };
        let after = if exchange.keep_alive { After::KeepAlive } else { After::Close };
        self.say(bytes, moment.now);
        self.phase =
            if bodiless { Phase::Writing(after) } else { Phase::Streaming { chunked, after } };
        Ok(())
    }

    /// Continues a streamed answer.
    pub(super) fn feed(&mut self, data: Vec<u8>, now: Instant) {
        let Phase::Streaming { chunked, .. } = self.phase else { return };
        if data.is_empty() {
            return;
        }
        if !chunked {
            return self.say(data, now);
        }
        let mut framed = Vec::with_capacity(data.len() + 16);
        render::chunk(&mut framed, &data);
        self.say(framed, now);
    }

    /// Ends a streamed answer.
    pub(super) fn end_stream(&mut self, now: Instant) {
        let Phase::Streaming { chunked, after } = self.phase else { return };
        if chunked {
            self.say(render::LAST_CHUNK.to_vec(), now);
        }
        self.phase = Phase::Writing(after);
        self.finish_writing(now);
    }

    /// The socket took `count` bytes of `output`. Call `advance` afterwards, for a request may have
    /// been waiting behind the answer.
    pub(super) fn wrote(&mut self, count: usize, now: Instant) {
        self.outbox.consume(count);
        self.moved += count;
        self.moved_at = now;
        self.finish_writing(now);
    }

    /// The deadline has passed. Only call it when it has.
    pub(super) fn expire(&mut self, moment: &Moment) {
        match self.phase {
            Phase::Head if self.inbox.is_empty() => self.phase = Phase::Closed,
            Phase::Head | Phase::Body(_) => {
                self.refuse(&Fault::too_slow(), moment);
            }
            Phase::Working(_) => self.abandoned = true,
            Phase::Writing(_) | Phase::Streaming { .. } => self.lose(),
            _ => self.phase = Phase::Closed,
        }
    }

    /// Refuses the request that is being read, and closes, whatever phase it is in.
    pub(super) fn turn_down(&mut self, answer: Response, moment: &Moment) {
        self.turn_down_as(None, answer, moment);
    }

    /// The same of a request that may have brought an id in a head that was not accepted.
    fn turn_down_as(&mut self, id: Option<RequestId>, answer: Response, moment: &Moment) {
        self.inbox = Inbox::default();
        self.refused = Some(answer.head.status);
        let id = match &self.phase {
            Phase::Body(incoming) => incoming.gathering.exchange.id,
            Phase::Judged(gathering) => gathering.exchange.id,
            _ => id.unwrap_or_else(|| self.numbering.next()),
        };
        self.write_answer(Exchange::refused(id), answer, moment)
            .expect("our own answers are well formed");
    }

    /// The server is closing down: what is begun is finished, nothing new begins. A stream is ended
    /// by whoever feeds it.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        if matches!(self.phase, Phase::Head) && self.inbox.is_empty() {
            self.phase = Phase::Closed;
        }
    }

    /// The connection is lost: nothing more can be sent.
    pub(super) fn lose(&mut self) {
        self.cut_off = true;
        self.phase = Phase::Closed;
    }

    /// What the client says can no longer be understood, nor can it be told so: nothing begun comes to
    /// an end, and what still arrives is thrown away, so that whatever was sent before is read.
    pub(super) fn break_off(&mut self, now: Instant) {
        self.inbox = Inbox::default();
        self.outbox = Outbox::default();
        self.body_bytes = 0;
        self.since = now;
        self.phase = Phase::Lingering { left: LINGER_BYTES_MAX };
    }

    /// How many bytes `receive` may be given now; with none, the socket is not to be read.
    pub(super) fn room(&self) -> usize {
        match self.phase {
            Phase::Closed | Phase::Writing(After::Close) => 0,
            Phase::Lingering { .. } => READ_BYTES_MAX,
            _ => self.limits.pipelined_bytes_max - self.inbox.len(),
        }
    }

    /// The next bytes to send; empty when there are none.
    pub(super) fn output(&self) -> &[u8] {
        self.outbox.next()
    }

    /// When `expire` is due. It may move with every other call.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let limits = &self.limits;
        match self.phase {
            Phase::Head if self.inbox.is_empty() => Some(self.since + limits.idle_timeout),
            Phase::Head => Some(self.since + limits.head_timeout),
            Phase::Body(_) => Some(self.paced(limits.body_timeout, BODY_BYTES_PER_SECOND_MIN)),
            Phase::Working(_) if self.peer_ended && !self.abandoned => {
                Some(self.since + limits.half_closed_grace)
            }
            // Whoever was given the head goes on at once, so no time passes in it.
            Phase::Judged(_) => None,
            Phase::Working(_) | Phase::Closed => None,
            Phase::Streaming { .. } if self.outbox.is_empty() => None,
            Phase::Writing(_) | Phase::Streaming { .. } => {
                let paced = self.paced(limits.write_timeout, WRITE_BYTES_PER_SECOND_MIN);
                Some(paced.min(self.since + ANSWER_TIME_MAX))
            }
            Phase::Lingering { .. } => Some(self.since + limits.linger_timeout),
        }
    }

    /// Body bytes of the request that is being read. Those of a call that was given count with it.
    pub(super) fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// Bytes that have arrived and are not read.
    pub(super) fn unread_bytes(&self) -> usize {
        self.inbox.len()
    }

    /// Bytes of memory held for what is not read, and for what is said and not sent.
    pub(super) fn held_bytes(&self) -> usize {
        self.inbox.held() + self.outbox.held()
    }

    /// What the request is called that the service has, or is asked about.
    pub(super) fn request_id(&self) -> Option<RequestId> {
        match &self.phase {
            Phase::Working(exchange) => Some(exchange.id),
            Phase::Judged(gathering) => Some(gathering.exchange.id),
            _ => None,
        }
    }

    /// The status that a request was refused with since this was asked last.
    pub(super) fn take_refused(&mut self) -> Option<u16> {
        self.refused.take()
    }

    /// Whether a body is arriving.
    pub(super) fn is_gathering(&self) -> bool {
        matches!(self.phase, Phase::Body(_))
    }

    /// Whether the socket can go.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Whether it ended before everything was said, so that its end must not pass for a good one.
    pub(super) fn is_cut_off(&self) -> bool {
        self.cut_off || !matches!(self.phase, Phase::Closed | Phase::Lingering { .. })
    }

    /// Whether our side of the socket is to be shut.
    pub(super) fn is_lingering(&self) -> bool {
        matches!(self.phase, Phase::Lingering { .. })
    }

    /// Whether `feed` and `end_stream` have an effect.
    pub(super) fn is_streaming(&self) -> bool {
        matches!(self.phase, Phase::Streaming { .. })
    }

    /// Whether the client of the call in flight must be taken for gone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    fn read_head(&mut self, moment: &Moment) -> Result<Option<Arrived>, Fault> {
        // RFC 9112, section 2.2: an empty line before a request is ignored. Some clients end a body
        // with one too many. None of this counts as the start of a request.
        while self.scanned == 0 && self.inbox.rest().starts_with(b"\r\n") {
            self.inbox.consume(2);
        }
        let bytes = self.inbox.rest();
        if self.scanned == 0 && bytes == b"\r" {
            return Ok(None);
        }
        let end = http::find_head_end(bytes, self.scanned, self.limits.head_bytes_max)?;
        let Some(end) = end else {
            self.scanned = bytes.len();
            return Ok(None);
        };
        let head = http::parse_head(&bytes[..end], &self.limits)?;
        self.inbox.consume(end);
        self.scanned = 0;
        let id = head.id.unwrap_or_else(|| self.numbering.next());
        let exchange = Exchange::of(&head, id);
        let RequestHead { method, target, version, headers, framing, expects_continue, .. } = head;
        let request = Request { method, target, version, headers, body: Vec::new() };
        let gathering = Gathering::of(framing, exchange, expects_continue, &self.limits);
        let Some(gathering) = gathering else {
            return Ok(Some(self.call(request, exchange, moment.now)));
        };
        self.start_clock(moment.now);
        if let Some(bytes) = gathering.unasked() {
            self.phase = Phase::Judged(Box::new(gathering));
            return Ok(Some(Arrived::Head(request, bytes)));
        }
        self.phase = Phase::Body(Box::new(Incoming { request, gathering }));
        self.read_body(moment.now)
    }

    fn read_body(&mut self, now: Instant) -> Result<Option<Arrived>, Fault> {
        let Phase::Body(incoming) = &mut self.phase else { return Ok(None) };
        let gathering = &mut incoming.gathering;
        let used = gathering.read(self.inbox.rest())?;
        self.inbox.consume(used);
        self.body_bytes = gathering.bytes();
        if self.body_bytes > self.moved {
            self.moved = self.body_bytes;
            self.moved_at = now;
        }
        let unasked = gathering.unasked();
        if unasked.is_none() && !gathering.is_whole() {
            return Ok(None);
        }
        let Phase::Body(incoming) = std::mem::replace(&mut self.phase, Phase::Closed) else {
            unreachable!("the phase was matched above and nothing changed it")
        };
        let Incoming { mut request, gathering } = *incoming;
        if let Some(bytes) = unasked {
            self.phase = Phase::Judged(Box::new(gathering));
            return Ok(Some(Arrived::Head(request, bytes)));
        }
        let exchange = gathering.exchange;
        request.body = gathering.into_body();
        Ok(Some(self.call(request, exchange, now)))
    }

    /// Hands a whole request out and waits for its answer.
    fn call(&mut self, request: Request, exchange: Exchange, now: Instant) -> Arrived {
        self.phase = Phase::Working(exchange);
        self.body_bytes = 0;
        self.since = now;
        self.abandoned = false;
        Arrived::Call(request)
    }

    /// The body that the service was asked about.
    fn take_judged(&mut self) -> Option<Box<Gathering>> {
        if !matches!(self.phase, Phase::Judged(_)) {
            return None;
        }
        match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Judged(gathering) => Some(gathering),
            _ => unreachable!("the phase was matched above and nothing changed it"),
        }
    }

    /// The exchange as it ends: a closing server keeps no connection.
    fn settle(&self, exchange: Exchange) -> Exchange {
        Exchange { keep_alive: exchange.keep_alive && !self.draining, ..exchange }
    }

    fn write_answer(
        &mut self,
        exchange: Exchange,
        response: Response,
        moment: &Moment,
    ) -> Result<(), AnswerFault> {
        let (bytes, body) = match render::response(exchange, response, moment) {
            Ok(rendered) => rendered,
            Err(fault) => {
                self.refuse_ours(exchange, moment);
                return Err(fault);
            }
        };
        self.body_bytes = 0;
        self.say(bytes, moment.now);
        body.into_iter().for_each(|body| self.outbox.push(body));
        let after = if exchange.keep_alive { After::KeepAlive } else { After::Close };
        self.phase = Phase::Writing(after);
        Ok(())
    }

    /// The service's answer cannot be sent; the client gets a 500 in its place.
    fn refuse_ours(&mut self, exchange: Exchange, moment: &Moment) {
        let answer = Response::internal(&exchange.id);
        self.write_answer(exchange, answer, moment).expect("our own answers are well formed");
    }

    /// Answers what the client did wrong and closes: after a fault nobody knows where the next
    /// request would begin.
    fn refuse(&mut self, fault: &Fault, moment: &Moment) {
        self.turn_down_as(fault.id, fault.response(), moment);
    }

    /// Queues bytes, and starts the write clock when nothing was waiting.
    fn say(&mut self, bytes: Vec<u8>, now: Instant) {
        if self.outbox.is_empty() {
            self.start_clock(now);
        }
        self.outbox.push(bytes);
    }

    /// Goes on from an answer that is wholly sent.
    fn finish_writing(&mut self, now: Instant) {
        let Phase::Writing(after) = self.phase else { return };
        if !self.outbox.is_empty() {
            return;
        }
        self.since = now;
        self.phase = match after {
            After::KeepAlive if !self.draining => Phase::Head,
            _ if self.peer_ended => Phase::Closed,
            _ => Phase::Lingering { left: LINGER_BYTES_MAX },
        };
        if matches!(self.phase, Phase::Lingering { .. }) {
            self.inbox = Inbox::default();
        }
    }

    fn start_clock(&mut self, now: Instant) {
        self.since = now;
        self.moved = 0;
        self.moved_at = now;
    }

    /// `grace` from the start of the phase, and a second more for every `rate` bytes moved, so that
    /// a slow line is served and a trickle is not; but never more than `grace` without any movement,
    /// for the system's own buffers swallow megabytes that nobody reads.
    fn paced(&self, grace: Duration, rate: usize) -> Instant {
        let earned = u64::try_from(self.moved / rate).unwrap_or(u64::MAX);
        (self.since + grace + Duration::from_secs(earned)).min(self.moved_at + grace)
    }
}

#[cfg(test)]
mod tests;
