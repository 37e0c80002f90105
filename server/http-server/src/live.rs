//! A connection with its socket: moves bytes between the socket, the state machine and the service.
//!
//! Readiness is edge-triggered, so the flags persist until the system returns `WouldBlock`. A short read or write
//! implies the same: epoll(7), question 9.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use mio::event::Event;
use mio::net::TcpStream;

use super::config::{Limits, ListenerId};
use super::conn::{Arrived, Conn};
use super::message::{Head, Request, Response};
use super::places::Place;
use super::render::AnswerFault;
use super::reply::{Admission, Answered, Call, End, Feed, OnDrain, Reply, Service};
use super::shared::{Job, Shared, overloaded};
use super::slots::Name;
use super::tally::{HeldBody, OpenStream};
use super::tls::{Change, Tls};
use crate::limits::{BODY_BYTES_SMALL, TLS_RECORD_BYTES_MAX, TURN_STEPS_MAX, WAITING_BYTES_SMALL};
use recalld_common::cancel::CancellationToken;
use recalld_common::date::Moment;
use recalld_common::request_id::RequestId;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// Metadata of a request until its response.
struct Asked {
    id: RequestId,
    route: u16,
    arrived: Instant,
}

/// Result of driving a connection once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing to do until the next event.
    Rest,
    /// Ready to continue after the other connections.
    Again,
    /// A handshake can continue, but this pass of the loop has used its handshake steps.
    Later,
}

pub(super) struct Live<S: Service> {
    /// The deadline registered in `Timers`.
    pub timer: Option<Instant>,
    /// True if the connection is in the loop's list of ready connections.
    pub queued: bool,
    /// Key in the queue of handshakes that wait for the next pass.
    pub in_line: Option<u64>,
    name: Name,
    listener: ListenerId,
    peer: SocketAddr,
    socket: TcpStream,
    /// Released when the connection is dropped.
    place: Place,
    conn: Conn,
    /// TLS layer between `socket` and `conn`, on a TLS listener. Boxed, because the state is large and most
    /// installations terminate TLS at a gateway.
    tls: Option<Box<Tls>>,
    readable: bool,
    writable: bool,
    /// The system reported that the client sends no more; only a read of zero bytes proves the end.
    end_announced: bool,
    write_shut: bool,
    /// Bytes of the body being received, as counted in `bodies_bytes`.
    body_bytes: usize,
    /// Accounts for the body of the request in flight.
    held_body: Option<Arc<HeldBody>>,
    /// Unread and unsent bytes, as counted in `waiting_bytes`.
    waiting_bytes: usize,
    /// Boxed, because an idle connection has none.
    asked: Option<Box<Asked>>,
    /// Route match of the request whose body is being received, if there was a body decision.
    matched: Option<Box<S::RouteMatch>>,
    cancel: Option<CancellationToken>,
    stream: Option<(Arc<Feed>, OpenStream)>,
}

impl<S: Service> Live<S> {
    /// Creates a connection from an accepted socket.
    pub(super) fn open(
        name: Name,
        listener: ListenerId,
        peer: SocketAddr,
        socket: TcpStream,
        place: Place,
        conn: Conn,
        tls: Option<Tls>,
    ) -> Self {
        // Memory of an idle connection, `Conn` included, besides the kernel's part.
        const { assert!(size_of::<Self>() <= 1024) };
        Live {
            timer: None,
            queued: false,
            in_line: None,
            name,
            listener,
            peer,
            socket,
            place,
            conn,
            tls: tls.map(Box::new),
            readable: false,
            writable: true,
            end_announced: false,
            write_shut: false,
            body_bytes: 0,
            held_body: None,
            waiting_bytes: 0,
            asked: None,
            matched: None,
            cancel: None,
            stream: None,
        }
    }

    /// Records the readiness of the socket.
    pub(super) fn note(&mut self, event: &Event) {
        self.readable |= event.is_readable();
        self.writable |= event.is_writable();
        self.end_announced |= event.is_read_closed();
        // Both directions are closed: the client reset the connection, or closed after our side was shut down.
        if event.is_error() || (event.is_write_closed() && !self.write_shut) {
            self.conn.lose();
        }
    }

    /// Reads, serves and writes until no progress is possible or the other connections must be driven.
    pub(super) fn turn(&mut self, buffer: &mut [u8], shared: &Shared<S>, moment: &Moment) -> Turn {
        let turn = self.steps(buffer, shared, moment);
        let turn = if self.is_held_back(shared) { Turn::Later } else { turn };
        self.set_waiting_bytes(self.held_bytes());
        turn
    }

    /// Returns true if a handshake must wait for the next pass: handshakes are cheap for a client to request and must
    /// not delay established connections.
    fn is_held_back(&self, shared: &Shared<S>) -> bool {
        let is_shaking_hands = self.tls.as_ref().is_some_and(|tls| tls.is_shaking_hands());
        is_shaking_hands && self.readable && shared.handshakes_left.get() == 0
    }

    fn steps(&mut self, buffer: &mut [u8], shared: &Shared<S>, moment: &Moment) -> Turn {
        for _ in 0..TURN_STEPS_MAX {
            let has_read = self.read(buffer, shared, moment);
            let was_full = (self.conn.room() == 0, self.room() == 0);
            let arrived = self.conn.advance(moment);
            // Readiness reported while the connection was full is still valid: the system reports each edge once.
            let has_room_again =
                was_full.0 && self.conn.room() > 0 || was_full.1 && self.room() > 0;
            let has_called = arrived.is_some();
            match arrived {
                Some(Arrived::Call(request)) => self.start(request, shared, moment),
                Some(Arrived::Head(request, bytes)) => self.judge(request, bytes, shared, moment),
                None => {}
            }
            self.count_body(shared, moment);
            if let Some(status) = self.conn.take_refused() {
                shared.counters.refused.add(status);
            }
            self.pull_stream(moment.now);
            let has_written = self.write(shared, moment.now);
            if self.conn.is_closed() || !(has_read || has_room_again || has_called || has_written) {
                return Turn::Rest;
            }
        }
        Turn::Again
    }

    /// Answers the request in flight.
    pub(super) fn answer(&mut self, response: Response, shared: &Shared<S>, moment: &Moment) {
        self.cancel = None;
        self.held_body = None;
        let has_room =
            response.body.len() <= WAITING_BYTES_SMALL || !self.place.account().is_brimful();
        let response = if has_room { response } else { too_many_answers(shared) };
        self.count(Some(response.head.status), Some(response.body.len()), shared, Instant::now());
        let outcome = self.conn.respond(response, moment);
        report(outcome);
    }

    /// Reports to the service how the request in flight ended, or that its response has begun.
    fn count(
        &mut self,
        status: Option<u16>,
        body_bytes: Option<usize>,
        shared: &Shared<S>,
        now: Instant,
    ) {
        let Some(asked) = self.asked.take() else { return };
        let Asked { id, route, arrived } = *asked;
        let took = now.saturating_duration_since(arrived);
        let (listener, peer) = (self.listener, self.peer);
        shared.service.answered(&Answered { listener, peer, id, route, status, body_bytes, took });
    }

    /// Answers the request in flight by a stream.
    pub(super) fn open_stream(
        &mut self,
        head: &Head,
        feed: Arc<Feed>,
        shared: &Shared<S>,
        moment: &Moment,
    ) {
        let Some(open) = shared.tally.open_stream() else {
            feed.close();
            self.give_up_call();
            shared.counters.overloaded.add(1);
            return self.answer(overloaded("too many streams"), shared, moment);
        };
        // The head is not sent yet, so the client can still get a 503.
        if feed.has_overflowed() {
            self.give_up_call();
            let response = too_many_answers(shared);
            return self.answer(response, shared, moment);
        }
        self.count(Some(head.status), None, shared, moment.now);
        report(self.conn.begin_stream(head, moment));
        self.held_body = None;
        if self.conn.is_streaming() {
            self.stream = Some((feed, open));
        } else {
            feed.close();
            self.give_up_call();
        }
    }

    /// Handles the deadline, if it has passed.
    pub(super) fn check_deadline(&mut self, shared: &Shared<S>, moment: &Moment) {
        if self.handshake_deadline(&shared.limits).is_some_and(|deadline| deadline <= moment.now) {
            shared.counters.handshakes_failed.add(1);
            return self.conn.lose();
        }
        if self.conn.deadline().is_some_and(|deadline| deadline <= moment.now) {
            self.conn.expire(moment);
        }
        if self.conn.is_abandoned() {
            self.give_up_call();
        }
    }

    /// Starts the drain: no new request begins. A stream ends with its pending bytes, unless its policy lets the sender
    /// finish the response or cancels the request so that the sender can report the cancellation.
    pub(super) fn drain(&mut self, now: Instant) {
        self.conn.drain();
        match self.stream.as_ref().map(|(feed, _)| feed.on_drain) {
            None | Some(OnDrain::Finish) => {}
            Some(OnDrain::CallOff) => self.give_up_call(),
            Some(OnDrain::End) => self.end_stream(now),
        }
    }

    fn end_stream(&mut self, now: Instant) {
        let Some((feed, _)) = self.stream.take() else { return };
        let (pending, _) = feed.take();
        feed.close();
        self.give_up_call();
        self.conn.feed(pending, now);
        self.conn.end_stream(now);
    }

    /// Releases the connection: cancels its request and closes its stream.
    pub(super) fn release(mut self, shared: &Shared<S>, now: Instant) {
        self.say_farewell();
        self.set_body_bytes(shared, 0);
        self.set_waiting_bytes(0);
        self.count(None, None, shared, now);
        if let Some((feed, _)) = self.stream.take() {
            feed.close();
        }
        self.give_up_call();
    }

    /// Sends `close_notify` to a TLS client, which marks a complete end, as far as the socket accepts the bytes without
    /// blocking.
    fn say_farewell(&mut self) {
        let Some(tls) = &mut self.tls else { return };
        if !self.conn.is_cut_off() && tls.is_quiet() {
            tls.close();
            // Best effort: the socket is closed next in any case.
            let _ = self.socket.write(tls.output());
        }
    }

    /// Cancels the request in flight and closes its stream after a TLS failure.
    fn break_off(&mut self) {
        if let Some((feed, _)) = self.stream.take() {
            feed.close();
        }
        self.give_up_call();
    }

    /// Returns true if the socket can be closed.
    pub(super) fn is_closed(&self) -> bool {
        self.conn.is_closed()
    }

    /// Time at which the connection must be checked without an event.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        self.handshake_deadline(limits).or_else(|| self.conn.deadline())
    }

    fn handshake_deadline(&self, limits: &Limits) -> Option<Instant> {
        let since = self.tls.as_ref().and_then(|tls| tls.handshake_since())?;
        (!self.conn.is_closed()).then_some(since + limits.handshake_timeout)
    }

    /// Updates the count of body bytes, and rejects a large body over the limit.
    fn count_body(&mut self, shared: &Shared<S>, moment: &Moment) {
        self.set_body_bytes(shared, self.conn.body_bytes());
        if self.conn.is_gathering() && Self::is_one_too_large(self.body_bytes, shared) {
            self.conn.turn_down(too_many_bodies(), moment);
            self.set_body_bytes(shared, 0);
        }
    }

    /// Returns true if a body of `bytes` is large and the limit of all bodies is reached.
    fn is_one_too_large(bytes: usize, shared: &Shared<S>) -> bool {
        bytes > BODY_BYTES_SMALL && shared.tally.has_too_many_bodies()
    }

    fn set_body_bytes(&mut self, shared: &Shared<S>, bytes: usize) {
        shared.tally.count_bodies(self.body_bytes, bytes);
        self.body_bytes = bytes;
    }

    fn set_waiting_bytes(&mut self, bytes: usize) {
        self.place.account().count_waiting(self.waiting_bytes, bytes);
        self.waiting_bytes = bytes;
    }

    fn unread_bytes(&self) -> usize {
        self.conn.unread_bytes() + self.tls.as_ref().map_or(0, |tls| tls.unread_bytes())
    }

    fn held_bytes(&self) -> usize {
        self.conn.held_bytes() + self.tls.as_ref().map_or(0, |tls| tls.held_bytes())
    }

    /// Bytes that may be read now. Over the memory limit, only small amounts are read and the client must wait. An
    /// unfinished head, and a record that contains the head, always fit. Any further bytes are therefore pipelined
    /// requests, which proceed after the response to their predecessor.
    fn room(&self) -> usize {
        let (room, allowance) = match &self.tls {
            None => (self.conn.room(), WAITING_BYTES_SMALL),
            Some(tls) => (tls.room(&self.conn), WAITING_BYTES_SMALL + TLS_RECORD_BYTES_MAX),
        };
        if room == 0 || !self.place.account().is_brimful() {
            return room;
        }
        room.min(allowance.saturating_sub(self.unread_bytes()))
    }

    fn give_up_call(&mut self) {
        if let Some(cancel) = self.cancel.take() {
            cancel.cancel();
        }
    }

    /// Performs one read. Returns true on progress.
    fn read(&mut self, buffer: &mut [u8], shared: &Shared<S>, moment: &Moment) -> bool {
        let now = moment.now;
        let handed_over = self.tls.as_mut().is_some_and(|tls| tls.hand_over(&mut self.conn, now));
        let room = self.room().min(buffer.len());
        if !self.readable || room == 0 || self.is_held_back(shared) {
            return handed_over;
        }
        match self.socket.read(&mut buffer[..room]) {
            Ok(0) => {
                self.readable = false;
                match &mut self.tls {
                    None => self.conn.end(now),
                    Some(tls) => tls.end(&mut self.conn, now),
                }
                true
            }
            Ok(count) => {
                self.readable = count == room || self.end_announced;
                shared.counters.bytes_in.add(count as u64);
                self.take(&buffer[..count], shared, moment);
                true
            }
            Err(error) => self.failed(&error, |live| live.readable = false) || handed_over,
        }
    }

    /// Processes the bytes of a read, through TLS if present.
    fn take(&mut self, bytes: &[u8], shared: &Shared<S>, moment: &Moment) {
        let Some(tls) = &mut self.tls else { return self.conn.receive(bytes, moment.now) };
        if tls.is_plain_http(bytes) {
            self.tls = None;
            shared.counters.handshakes_failed.add(1);
            let answer = Response::detail(400, "Bad Request: this port speaks HTTPS");
            return self.conn.turn_down(answer, moment);
        }
        let change = tls.receive(bytes, &mut self.conn, moment.now);
        let worked = tls.take_worked();
        shared.handshakes_left.update(|left| left.saturating_sub(worked));
        self.note_tls(change, shared);
    }

    fn note_tls(&mut self, change: Change, shared: &Shared<S>) {
        match change {
            Change::None => {}
            Change::Opened => shared.counters.handshakes.add(1),
            Change::Failed => {
                shared.counters.handshakes_failed.add(1);
                if let Some(fault) = self.tls.as_ref().and_then(|tls| tls.fault()) {
                    let fields = [("peer", Value::Text(&self.peer)), ("why", Value::Text(fault))];
                    log::event(Level::Debug, "a TLS connection failed", &fields);
                }
                self.break_off();
            }
        }
    }

    /// Performs one write. Returns true on progress.
    fn write(&mut self, shared: &Shared<S>, now: Instant) -> bool {
        if let Some(tls) = &mut self.tls {
            let change = tls.seal(&mut self.conn, now);
            self.note_tls(change, shared);
        }
        let output = self.tls.as_ref().map_or_else(|| self.conn.output(), |tls| tls.output());
        let has_written = if self.writable && !output.is_empty() {
            match self.socket.write(output) {
                Ok(count) => {
                    self.writable = count == output.len();
                    shared.counters.bytes_out.add(count as u64);
                    match &mut self.tls {
                        None => self.conn.wrote(count, now),
                        Some(tls) => tls.wrote(count, &mut self.conn, now),
                    }
                    true
                }
                Err(error) => self.failed(&error, |live| live.writable = false),
            }
        } else {
            false
        };
        if self.conn.is_lingering() && !self.write_shut {
            if let Some(tls) = &mut self.tls {
                tls.close();
                if !tls.is_quiet() {
                    return has_written || self.writable;
                }
            }
            self.write_shut = true;
            if self.socket.shutdown(Shutdown::Write).is_err() {
                self.conn.lose();
            }
        }
        has_written
    }

    /// Handles the error of a read or write. Returns true if the connection must be driven again.
    fn failed(&mut self, error: &io::Error, would_block: impl FnOnce(&mut Self)) -> bool {
        match error.kind() {
            ErrorKind::Interrupted => true,
            ErrorKind::WouldBlock => {
                would_block(self);
                false
            }
            _ => {
                self.conn.lose();
                true
            }
        }
    }

    /// Wraps a request for the service.
    fn call(&self, request: Request, body: Option<Arc<HeldBody>>) -> Call {
        let (listener, peer) = (self.listener, self.peer);
        let id = self.conn.request_id().expect("a request that was given has a name");
        // Read from the system: an inline response takes less time than the resolution of the loop clock.
        let (arrived, cancel) = (Instant::now(), CancellationToken::new());
        Call { id, listener, peer, request, arrived, cancel, _body: body }
    }

    /// Requests the body decision of the service.
    fn judge(&mut self, request: Request, body_bytes: usize, shared: &Shared<S>, moment: &Moment) {
        let call = self.call(request, None);
        let (id, arrived, service) = (call.id, call.arrived, &shared.service);
        let matched = self.matched.take();
        let judged = || {
            let mut matched = matched.unwrap_or_else(|| Box::new(service.resolve(&call)));
            let admission = service.admit(&call, &mut matched, body_bytes);
            (service.route(&matched), Some(matched), admission)
        };
        let judged = log::for_request(id.as_str(), || catch_unwind(AssertUnwindSafe(judged)));
        let (route, matched, admission) = judged.unwrap_or_else(|_| {
            report_panic(&id);
            (0, None, Admission::Answer(Response::internal(&id)))
        });
        match admission {
            Admission::UpTo(_) if Self::is_one_too_large(body_bytes, shared) => {
                self.conn.turn_down(too_many_bodies(), moment);
            }
            Admission::UpTo(bytes_max) => {
                self.matched = matched;
                self.conn.admit(call.request, bytes_max, moment);
            }
            Admission::Answer(response) => {
                self.asked = Some(Box::new(Asked { id, route, arrived }));
                let (status, bytes) = (response.head.status, response.body.len());
                self.count(Some(status), Some(bytes), shared, Instant::now());
                report(self.conn.decline(response, moment));
            }
        }
    }

    /// Answers a request inline if the service can, else queues it for a worker or for a thread of long-running
    /// requests.
    fn start(&mut self, request: Request, shared: &Shared<S>, moment: &Moment) {
        // From here on the request accounts for the body, because the request may outlive the connection.
        self.set_body_bytes(shared, 0);
        self.held_body = shared.tally.hold_body(request.body.len());
        let call = self.call(request, self.held_body.clone());
        let (id, arrived, cancel) = (call.id, call.arrived, call.cancel.clone());
        let service = &shared.service;
        let (asked, matched) = (&mut self.asked, self.matched.take());
        let triage = || {
            let mut matched = matched.map_or_else(|| service.resolve(&call), |matched| *matched);
            let route = service.route(&matched);
            *asked = Some(Box::new(Asked { id, route, arrived }));
            match service.quick(&call, &matched) {
                Some(response) => Err(response),
                None => Ok((service.takes_long(&call, &mut matched), matched)),
            }
        };
        let triage = AssertUnwindSafe(triage);
        let (pool, full, matched) = match log::for_request(id.as_str(), || catch_unwind(triage)) {
            Ok(Ok((false, matched))) => (&shared.pool, "the queue is full", matched),
            Ok(Ok((true, matched))) => {
                let full = "too many jobs wait already; ask again when some are done";
                (&shared.jobs, full, matched)
            }
            Ok(Err(response)) => return self.answer(response, shared, moment),
            Err(_) => {
                report_panic(&id);
                return self.answer(Response::internal(&id), shared, moment);
            }
        };
        let backlog = shared.limits.stream_backlog_bytes_max;
        let (mailbox, account) = (Arc::clone(&shared.mailbox), self.place.account().clone());
        let reply = Reply::new(self.name, mailbox, id, backlog, account);
        match pool.submit(Job { call, matched, reply }) {
            Ok(()) => self.cancel = Some(cancel),
            Err(job) => {
                job.reply.disarm();
                shared.counters.overloaded.add(1);
                self.answer(overloaded(full), shared, moment);
            }
        }
    }

    /// Takes the next bytes of a stream only after the previous bytes are sent, so that the backlog stays in the `Feed`
    /// and is counted there.
    fn pull_stream(&mut self, now: Instant) {
        let Some((feed, _)) = &self.stream else { return };
        if feed.is_broken() {
            return self.conn.lose();
        }
        if !self.conn.output().is_empty() {
            return;
        }
        let (pending, end) = feed.take();
        self.conn.feed(pending, now);
        match end {
            None => {}
            Some(End::Broken) => self.conn.lose(),
            Some(End::Clean) => {
                self.conn.end_stream(now);
                self.cancel = None;
                self.stream = None;
            }
        }
    }
}

fn too_many_answers<S: Service>(shared: &Shared<S>) -> Response {
    shared.counters.overloaded.add(1);
    overloaded("too many answers wait for slow readers")
}

fn too_many_bodies() -> Response {
    overloaded("too many large bodies at once")
}

/// Logs a panic of the service on the event loop; the panic hook has printed the location.
fn report_panic(id: &RequestId) {
    let fields = [("request_id", Value::Text(id))];
    log::event(Level::Error, "a quick call panicked and was answered 500", &fields);
}

/// Logs a response that could not be sent: a fault of the service that is visible only in the log.
fn report(outcome: Result<(), AnswerFault>) {
    if let Err(fault) = outcome {
        let why = format!("{fault:?}");
        let fields = [("why", Value::Text(&why))];
        log::event(Level::Error, "an answer was replaced by a 500", &fields);
    }
}
