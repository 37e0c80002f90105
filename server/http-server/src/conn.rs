//! A connection as a sans-IO state machine: bytes in, bytes out, next deadline.
//!
//! Owns the phase, the unparsed and unsent bytes and the timer of the phase. Must not depend on sockets, threads or
//! services; the time is a parameter. Only one request is in flight at a time. Pipelined bytes are buffered up to
//! `pipelined_bytes_max`; then reading stops.

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

/// Protocol phase of a connection.
enum Phase {
    /// Idle between requests, or receiving a request head.
    Head,
    /// Waiting for the service's body decision.
    Judged(Box<Gathering>),
    /// Head accepted, receiving the body.
    Body(Box<Incoming>),
    /// The service processes the request.
    Working(Exchange),
    /// Sending a response.
    Writing(After),
    /// Sending a streamed response of unknown length, until the stream ends.
    Streaming { chunked: bool, after: After },
    /// Lingering close: the response is sent and the sending half is shut down. Up to `left` late bytes are discarded,
    /// so that a reset does not destroy the response before the client reads it.
    Lingering { left: usize },
    /// Terminal; the socket can be closed.
    Closed,
}

/// Persistence of the connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    KeepAlive,
    Close,
}

struct Incoming {
    /// The request without its body.
    request: Request,
    gathering: Gathering,
}

/// Event that `advance` returns for the service.
#[derive(Debug)]
pub(super) enum Arrived {
    /// A request head whose body needs a body decision; the number is a lower bound of its size in bytes. The caller
    /// must call `admit` or `decline` immediately.
    Head(Request, usize),
    /// A complete request, to be answered by `respond` or `begin_stream`.
    Call(Request),
}

/// State of one connection. See the module comment.
pub(super) struct Conn {
    limits: Arc<Limits>,
    numbering: Numbering,
    phase: Phase,
    inbox: Inbox,
    /// Length of the inbox prefix that was scanned and contains no end of a head.
    scanned: usize,
    outbox: Outbox,
    /// Start of the timer of this phase.
    since: Instant,
    /// Body bytes received or response bytes sent since `since`; they extend the deadline.
    moved: usize,
    /// Time of the last progress.
    moved_at: Instant,
    /// Body bytes received of the current request.
    body_bytes: usize,
    peer_ended: bool,
    abandoned: bool,
    cut_off: bool,
    draining: bool,
    refused: Option<u16>,
}

// Memory of an idle connection is this struct and its socket: both buffers free their memory when empty.
const _: () = assert!(size_of::<Conn>() <= 512);

impl Conn {
    /// Creates a connection; `numbering` generates its request ids.
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

    /// Appends bytes from the socket, at most `room` of them. Call `advance` afterwards.
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

    /// Records that the client closed its sending half or the whole connection. Call `advance` afterwards.
    pub(super) fn end(&mut self, now: Instant) {
        self.peer_ended = true;
        match self.phase {
            // A client that reads a stream sends nothing meanwhile: treat end of file as a disconnect.
            Phase::Streaming { .. } => self.lose(),
            Phase::Lingering { .. } => self.phase = Phase::Closed,
            Phase::Working(_) => self.since = now,
            _ => {}
        }
    }

    /// Parses the received bytes. Returns a request if one is complete or needs a body decision; the next request is
    /// returned only after its predecessor was answered.
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

    /// Accepts a body of up to `bytes_max` for the request that awaits its body decision.
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

    /// Answers the request that awaits its body decision without reading its body, which may be in transit: the
    /// connection closes. Errors are those of `respond`.
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

    /// Answers the request in flight. If the response must not be sent, the client gets a 500 and the error is returned
    /// for the log.
    pub(super) fn respond(
        &mut self,
        response: Response,
        moment: &Moment,
    ) -> Result<(), AnswerFault> {
        let Phase::Working(exchange) = self.phase else { return Ok(()) };
        self.write_answer(self.settle(exchange), response, moment)
    }

    /// Begins a streamed response to the request in flight, continued by `feed` and `end_stream`. A response without a
    /// body (HEAD, 204, 304) is complete immediately.
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

    /// Appends data to a streamed response.
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

    pub(super) fn end_stream(&mut self, now: Instant) {
        let Phase::Streaming { chunked, after } = self.phase else { return };
        if chunked {
            self.say(render::LAST_CHUNK.to_vec(), now);
        }
        self.phase = Phase::Writing(after);
        self.finish_writing(now);
    }

    /// Records that the socket accepted `count` bytes of `output`. Call `advance` afterwards, because a pipelined
    /// request may be waiting.
    pub(super) fn wrote(&mut self, count: usize, now: Instant) {
        self.outbox.consume(count);
        self.moved += count;
        self.moved_at = now;
        self.finish_writing(now);
    }

    /// Handles the expired deadline. Call only after the deadline passed.
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

    /// Rejects the request being received, in any phase, and closes.
    pub(super) fn turn_down(&mut self, answer: Response, moment: &Moment) {
        self.turn_down_as(None, answer, moment);
    }

    /// Rejects the request being received and closes. `id` is the request id of a head that was not accepted.
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

    /// Starts the drain: requests in flight finish, no new request begins. The sender of a stream must end the stream.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        if matches!(self.phase, Phase::Head) && self.inbox.is_empty() {
            self.phase = Phase::Closed;
        }
    }

    /// Records that the connection is lost: nothing more can be sent.
    pub(super) fn lose(&mut self) {
        self.cut_off = true;
        self.phase = Phase::Closed;
    }

    /// Aborts after undecodable input, when no response can be sent either. Requests in flight are dropped and late
    /// bytes are discarded, so that the client reads the bytes sent before.
    pub(super) fn break_off(&mut self, now: Instant) {
        self.inbox = Inbox::default();
        self.outbox = Outbox::default();
        self.body_bytes = 0;
        self.since = now;
        self.phase = Phase::Lingering { left: LINGER_BYTES_MAX };
    }

    /// Bytes that `receive` accepts now; if 0, the socket must not be read.
    pub(super) fn room(&self) -> usize {
        match self.phase {
            Phase::Closed | Phase::Writing(After::Close) => 0,
            Phase::Lingering { .. } => READ_BYTES_MAX,
            _ => self.limits.pipelined_bytes_max - self.inbox.len(),
        }
    }

    /// The next bytes to send; empty if there are none.
    pub(super) fn output(&self) -> &[u8] {
        self.outbox.next()
    }

    /// Time at which `expire` is due. Any other call may change the deadline.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let limits = &self.limits;
        match self.phase {
            Phase::Head if self.inbox.is_empty() => Some(self.since + limits.idle_timeout),
            Phase::Head => Some(self.since + limits.head_timeout),
            Phase::Body(_) => Some(self.paced(limits.body_timeout, BODY_BYTES_PER_SECOND_MIN)),
            Phase::Working(_) if self.peer_ended && !self.abandoned => {
                Some(self.since + limits.half_closed_grace)
            }
            // The caller decides immediately, so no time passes in this phase.
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

    /// Body bytes of the current request, received or already handed to the service.
    pub(super) fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// Bytes received and not parsed.
    pub(super) fn unread_bytes(&self) -> usize {
        self.inbox.len()
    }

    /// Memory allocated for unparsed and unsent bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.inbox.held() + self.outbox.held()
    }

    /// Id of the request that is in flight or awaits its body decision.
    pub(super) fn request_id(&self) -> Option<RequestId> {
        match &self.phase {
            Phase::Working(exchange) => Some(exchange.id),
            Phase::Judged(gathering) => Some(gathering.exchange.id),
            _ => None,
        }
    }

    /// Takes the status of the request rejected since the last call.
    pub(super) fn take_refused(&mut self) -> Option<u16> {
        self.refused.take()
    }

    /// Returns true if a body is being received.
    pub(super) fn is_gathering(&self) -> bool {
        matches!(self.phase, Phase::Body(_))
    }

    /// Returns true if the socket can be closed.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Returns true if the connection ended before all output was sent; such an end must not look complete.
    pub(super) fn is_cut_off(&self) -> bool {
        self.cut_off || !matches!(self.phase, Phase::Closed | Phase::Lingering { .. })
    }

    /// Returns true if the sending half of the socket must be shut down.
    pub(super) fn is_lingering(&self) -> bool {
        matches!(self.phase, Phase::Lingering { .. })
    }

    /// Returns true if `feed` and `end_stream` have an effect.
    pub(super) fn is_streaming(&self) -> bool {
        matches!(self.phase, Phase::Streaming { .. })
    }

    /// Returns true if the client of the request in flight is presumed gone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    fn read_head(&mut self, moment: &Moment) -> Result<Option<Arrived>, Fault> {
        // RFC 9112, section 2.2: an empty line before a request is ignored. Some clients send an extra CRLF after a
        // body. Empty lines do not start the head timer.
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

    /// Returns a complete request as event and enters `Working`.
    fn call(&mut self, request: Request, exchange: Exchange, now: Instant) -> Arrived {
        self.phase = Phase::Working(exchange);
        self.body_bytes = 0;
        self.since = now;
        self.abandoned = false;
        Arrived::Call(request)
    }

    /// Takes the body that awaits its body decision.
    fn take_judged(&mut self) -> Option<Box<Gathering>> {
        if !matches!(self.phase, Phase::Judged(_)) {
            return None;
        }
        match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Judged(gathering) => Some(gathering),
            _ => unreachable!("the phase was matched above and nothing changed it"),
        }
    }

    /// Final persistence of the exchange: a draining server keeps no connection alive.
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

    /// Sends a 500 in place of a response that must not be sent.
    fn refuse_ours(&mut self, exchange: Exchange, moment: &Moment) {
        let answer = Response::internal(&exchange.id);
        self.write_answer(exchange, answer, moment).expect("our own answers are well formed");
    }

    /// Answers a malformed request and closes: after an error the start of the next request is unknown.
    fn refuse(&mut self, fault: &Fault, moment: &Moment) {
        self.turn_down_as(fault.id, fault.response(), moment);
    }

    /// Queues bytes, and starts the write timer if nothing was queued.
    fn say(&mut self, bytes: Vec<u8>, now: Instant) {
        if self.outbox.is_empty() {
            self.start_clock(now);
        }
        self.outbox.push(bytes);
    }

    /// Leaves `Writing` if the response is sent completely.
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

    /// Deadline `grace` after the start of the phase, plus a second per `rate` bytes of progress: a slow link is
    /// served, a trickle is not. Never later than `grace` after the last progress, because the system's buffers absorb
    /// megabytes that the client never reads.
    fn paced(&self, grace: Duration, rate: usize) -> Instant {
        let earned = u64::try_from(self.moved / rate).unwrap_or(u64::MAX);
        (self.since + grace + Duration::from_secs(earned)).min(self.moved_at + grace)
    }
}

#[cfg(test)]
mod tests;
