//! One connection with its socket: moves bytes between the socket, the state machine and the service.
//!
//! Readiness is edge-triggered, so it is remembered here and forgotten only when the system says
//! `WouldBlock`. A read or write that moved less than it could tells the same: epoll(7), question 9.

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

/// What is remembered of a call until it is answered.
struct Asked {
    id: RequestId,
    route: u16,
    arrived: Instant,
}

/// What a turn left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing more to do until the next event.
    Rest,
    /// More could be done at once; the others go first.
    Again,
    /// A handshake could go on, and this pass of the loop has done its share of them.
    Later,
}

/// An open connection.
pub(super) struct Live<S: Service> {
    /// The entry in `Timers`, if any.
    pub timer: Option<Instant>,
    /// Whether it stands in the loop's list of those that go on.
    pub queued: bool,
    /// Its place in the line of handshakes that wait for the next pass.
    pub in_line: Option<u64>,
    name: Name,
    listener: ListenerId,
    peer: SocketAddr,
    socket: TcpStream,
    /// Given back with the connection.
    place: Place,
    conn: Conn,
    /// Between the two, on a listener that speaks TLS. Its own allocation: it is much larger, and
    /// most installations have it done by a gateway.
    tls: Option<Box<Tls>>,
    readable: bool,
    writable: bool,
    /// The system said that the client will send no more; only a read of nothing proves it.
    end_announced: bool,
    write_shut: bool,
    /// What of the bodies in hand is this connection's, as long as it arrives.
    body_bytes: usize,
    /// That of the call in flight.
    held_body: Option<Arc<HeldBody>>,
    /// The same of the memory held for what waits, unread or unsent.
    waiting_bytes: usize,
    asked: Option<Asked>,
    /// Of the request whose body is arriving, where its service was asked about that body.
    matched: Option<Box<S::RouteMatch>>,
    cancel: Option<CancellationToken>,
    stream: Option<(Arc<Feed>, OpenStream)>,
}

impl<S: Service> Live<S> {
    /// A connection that was just accepted.
    pub(super) fn open(
        name: Name,
        listener: ListenerId,
        peer: SocketAddr,
        socket: TcpStream,
        place: Place,
        conn: Conn,
        tls: Option<Tls>,
    ) -> Self {
        // With `Conn` inside, this is what an idle connection costs beside the system's own part.
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

    /// Takes note of what the system says about the socket.
    pub(super) fn note(&mut self, event: &Event) {
        self.readable |= event.is_readable();
        self.writable |= event.is_writable();
        self.end_announced |= event.is_read_closed();
        // Both directions dead: the client reset the connection, or closed it after we shut our side.
        if event.is_error() || (event.is_write_closed() && !self.write_shut) {
            self.conn.lose();
        }
    }

    /// Reads, serves and writes until nothing moves or the others must have their turn.
    pub(super) fn turn(&mut self, buffer: &mut [u8], shared: &Shared<S>, moment: &Moment) -> Turn {
        let turn = self.steps(buffer, shared, moment);
        let turn = if self.is_held_back(shared) { Turn::Later } else { turn };
        self.set_waiting_bytes(self.held_bytes());
        turn
    }

    /// Whether a handshake waits for the next pass: what costs its client little to ask for must not hold
    /// up those who are past it.
    fn is_held_back(&self, shared: &Shared<S>) -> bool {
        let is_shaking_hands = self.tls.as_ref().is_some_and(|tls| tls.is_shaking_hands());
        is_shaking_hands && self.readable && shared.handshakes_left.get() == 0
    }

    fn steps(&mut self, buffer: &mut [u8], shared: &Shared<S>, moment: &Moment) -> Turn {
        for _ in 0..TURN_STEPS_MAX {
            let has_read = self.read(buffer, shared, moment);
            let was_full = (self.conn.room() == 0, self.room() == 0);
            let arrived = self.conn.advance(moment);
            // What the system said about a full connection holds still: it says it once.
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

    /// The call in flight is answered.
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

    /// Tells the service how the call in flight ended, or that its answer has begun.
    fn count(
        &mut self,
        status: Option<u16>,
        body_bytes: Option<usize>,
        shared: &Shared<S>,
        now: Instant,
    ) {
        let Some(Asked { id, route, arrived }) = self.asked.take() else { return };
        let took = now.saturating_duration_since(arrived);
        let (listener, peer) = (self.listener, self.peer);
        shared.service.answered(&Answered { listener, peer, id, route, status, body_bytes, took });
    }

    /// The call in flight is answered by a stream.
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
        // Before its head is sent, its client can still be told.
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

    /// The deadline may have passed.
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

    /// The server closes down: nothing new begins, and a stream ends with what it has, unless it is an
    /// answer that its sender will bring to its end, or to an end that says that it was called off.
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

    /// The connection goes: tells whoever works for it.
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

    /// Tells a client of TLS that this is an end and no cut, as far as its socket takes it at once.
    fn say_farewell(&mut self) {
        let Some(tls) = &mut self.tls else { return };
        if !self.conn.is_cut_off() && tls.is_quiet() {
            tls.close();
            // Best effort: the socket closes next, whatever becomes of it.
            let _ = self.socket.write(tls.output());
        }
    }

    /// Everything that was begun is cut off: what is between here and the client broke.
    fn break_off(&mut self) {
        if let Some((feed, _)) = self.stream.take() {
            feed.close();
        }
        self.give_up_call();
    }

    /// Whether the socket can go.
    pub(super) fn is_closed(&self) -> bool {
        self.conn.is_closed()
    }

    /// When to look at it again without an event.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        self.handshake_deadline(limits).or_else(|| self.conn.deadline())
    }

    fn handshake_deadline(&self, limits: &Limits) -> Option<Instant> {
        let since = self.tls.as_ref().and_then(|tls| tls.handshake_since())?;
        (!self.conn.is_closed()).then_some(since + limits.handshake_timeout)
    }

    /// Keeps the count of body bytes, and refuses a large body when there are too many.
    fn count_body(&mut self, shared: &Shared<S>, moment: &Moment) {
        self.set_body_bytes(shared, self.conn.body_bytes());
        if self.conn.is_gathering() && Self::is_one_too_large(self.body_bytes, shared) {
            self.conn.turn_down(too_many_bodies(), moment);
            self.set_body_bytes(shared, 0);
        }
    }

    /// Whether a body of so many bytes is large, and there are too many of them.
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

    /// How many bytes may be read now. Where too many wait, what is not small waits with its client: an
    /// unfinished head, and a record that holds it, always fit, so whatever fills the rest is requests
    /// ahead of their turn, which comes with the answer to the one before them.
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

    /// One read. Says whether something came of it.
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

    /// What a read gave, through TLS where there is any.
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

    /// One write. Says whether something came of it.
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

    /// What a failed read or write means. Says whether to try again.
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

    /// A request as the service sees it.
    fn call(&self, request: Request, body: Option<Arc<HeldBody>>) -> Call {
        let (listener, peer) = (self.listener, self.peer);
        let id = self.conn.request_id().expect("a request that was given has a name");
        // Asked anew: an answer on the loop takes less time than the loop's own clock moves in.
        let (arrived, cancel) = (Instant::now(), CancellationToken::new());
        Call { id, listener, peer, request, arrived, cancel, _body: body }
    }

    /// Asks the service whether a request may have its body.
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
                self.asked = Some(Asked { id, route, arrived });
                let (status, bytes) = (response.head.status, response.body.len());
                self.count(Some(status), Some(bytes), shared, Instant::now());
                report(self.conn.decline(response, moment));
            }
        }
    }

    /// Answers a call here if the service can, else gives it to a worker, or to a thread for jobs.
    fn start(&mut self, request: Request, shared: &Shared<S>, moment: &Moment) {
        // From here on the body counts with the call, for that may last longer than the connection.
        self.set_body_bytes(shared, 0);
        self.held_body = shared.tally.hold_body(request.body.len());
        let call = self.call(request, self.held_body.clone());
        let (id, arrived, cancel) = (call.id, call.arrived, call.cancel.clone());
        let service = &shared.service;
        let (asked, matched) = (&mut self.asked, self.matched.take());
        let triage = || {
            let mut matched = matched.map_or_else(|| service.resolve(&call), |matched| *matched);
            *asked = Some(Asked { id, route: service.route(&matched), arrived });
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

    /// Takes the next piece of a stream once the last one is sent, so that what waits, waits in the
    /// feed and is counted there.
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

/// A service panicked on the event loop; the panic hook has printed where.
fn report_panic(id: &RequestId) {
    let fields = [("request_id", Value::Text(id))];
    log::event(Level::Error, "a quick call panicked and was answered 500", &fields);
}

/// An answer that could not be sent is a fault of ours that only the log can tell.
fn report(outcome: Result<(), AnswerFault>) {
    if let Err(fault) = outcome {
        let why = format!("{fault:?}");
        let fields = [("why", Value::Text(&why))];
        log::event(Level::Error, "an answer was replaced by a 500", &fields);
    }
}
