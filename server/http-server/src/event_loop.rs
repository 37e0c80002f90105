//! An event loop: one thread that owns its sockets and blocks only in `poll`.
//!
//! Owns connections and timers and decides when to drive a connection; `live` does the driving. The first loop also
//! owns the listeners and distributes new connections round-robin over all loops. A connection stays with its loop, and
//! no other loop accesses it.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token};

use super::config::ListenerId;
use super::conn::Conn;
use super::identity::Identity;
use super::line::Line;
use super::live::{Live, Turn};
use super::mailbox::{Mailbox, Newcomer, Note};
use super::places::Full;
use super::render::{self, Exchange};
use super::reply::Service;
use super::shared::{Shared, overloaded};
use super::slots::{Name, Slots};
use super::timers::Timers;
use super::tls::Tls;
use crate::limits::{
    ACCEPT_BURST_MAX, ACCEPT_RETRY, EVENTS_MAX, HANDSHAKES_PER_PASS, READ_BYTES_MAX,
};
use recalld_common::date::Moment;
use recalld_common::request_id::Numbering;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// A listening socket. Its poll token is its index.
pub(super) struct Listener {
    pub id: ListenerId,
    pub socket: TcpListener,
    /// The server certificate, if the listener speaks TLS.
    pub identity: Option<Arc<Identity>>,
    /// More connections may be pending.
    ready: bool,
    /// Time to retry after the system refused a socket.
    retry_at: Option<Instant>,
}

impl Listener {
    /// Creates a listener without pending connections.
    pub(super) fn new(id: ListenerId, socket: TcpListener) -> Listener {
        Listener { id, socket, identity: None, ready: false, retry_at: None }
    }
}

/// Result of a drain.
pub(super) struct LoopEnd {
    /// End of the grace period.
    pub grace_end: Instant,
    /// Connections aborted at the end of the grace period.
    pub cut_off: usize,
}

/// State of one event loop; `run` consumes the loop.
pub(super) struct EventLoop<S: Service> {
    poll: Poll,
    listeners: Vec<Listener>,
    /// The loops that share new connections with the first loop; empty in every other loop.
    others: Vec<Arc<Mailbox>>,
    shared: Shared<S>,
    slots: Slots<Live<S>>,
    timers: Timers,
    /// Connections that used up their share of the pass and can continue; each at most once.
    again: Vec<Name>,
    /// Handshakes that wait for the next pass.
    handshakes: Line,
    buffer: Box<[u8]>,
    settings: Settings,
    /// Number of connections so far, part of the generated request ids.
    connections: u64,
    moment: Moment,
    grace_end: Option<Instant>,
}

/// Settings of an event loop.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    /// Wall clock, for the `Date` field.
    pub wall_clock: fn() -> SystemTime,
    /// Distinguishes the request ids of two runs of the server.
    pub instance: u32,
}

impl<S: Service> EventLoop<S> {
    /// Creates a loop over `listeners`, which are registered with `poll`. The loop shares new connections with
    /// `others`.
    pub(super) fn new(
        poll: Poll,
        listeners: Vec<Listener>,
        others: Vec<Arc<Mailbox>>,
        shared: Shared<S>,
        settings: Settings,
    ) -> EventLoop<S> {
        let slots = Slots::new(shared.limits.connections_max);
        EventLoop {
            poll,
            listeners,
            others,
            shared,
            slots,
            timers: Timers::default(),
            again: Vec::new(),
            handshakes: Line::default(),
            buffer: vec![0; READ_BYTES_MAX].into_boxed_slice(),
            connections: 0,
            moment: Moment::at(Instant::now(), (settings.wall_clock)()),
            settings,
            grace_end: None,
        }
    }

    /// Serves until a requested drain is complete.
    pub(super) fn run(mut self) -> io::Result<LoopEnd> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut notes = Vec::new();
        loop {
            let drain = self.shared.mailbox.collect(&mut notes, !self.is_busy());
            if drain && self.grace_end.is_none() {
                self.begin_drain();
            }
            if let Some(end) = self.drained(notes.is_empty()) {
                return Ok(end);
            }
            // Checked again: the drain drove the connections, and some may be ready to continue.
            let timeout = if self.is_busy() || !notes.is_empty() {
                Some(Duration::ZERO)
            } else {
                self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()))
            };
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => self.moment.advance(Instant::now(), (self.settings.wall_clock)()),
            }
            self.shared.handshakes_left.set(HANDSHAKES_PER_PASS);
            self.deliver(&mut notes);
            self.go_on();
            self.shake_hands();
            self.handle(&events);
            self.accept();
            self.look_at_timers();
        }
    }

    /// Handles the readiness events.
    fn handle(&mut self, events: &Events) {
        for event in events {
            let name = Name::from_number(event.token().0);
            if name.is_connection() {
                if let Some(live) = self.slots.get_mut(name) {
                    live.note(event);
                    self.turn(name);
                }
            } else if let Some(listener) = self.listeners.get_mut(event.token().0) {
                listener.ready = true;
            }
        }
    }

    /// Handles the messages of workers and of other loops.
    fn deliver(&mut self, notes: &mut Vec<Note>) {
        for note in notes.drain(..) {
            let name = match note {
                Note::Newcomer(newcomer) => {
                    self.welcome(*newcomer);
                    continue;
                }
                Note::Answer(name, _) | Note::Stream(name, ..) | Note::Fed(name) => name,
            };
            // A connection that was closed meanwhile has already cancelled its request and closed its stream.
            let Some(live) = self.slots.get_mut(name) else {
                if let Note::Stream(_, _, feed) = note {
                    feed.close();
                }
                continue;
            };
            match note {
                Note::Answer(_, response) => live.answer(response, &self.shared, &self.moment),
                Note::Stream(_, head, feed) => {
                    live.open_stream(&head, feed, &self.shared, &self.moment);
                    if self.grace_end.is_some() {
                        live.drain(self.moment.now);
                    }
                }
                Note::Fed(_) | Note::Newcomer(_) => {}
            }
            self.turn(name);
        }
    }

    /// Drives the connections that can continue.
    fn go_on(&mut self) {
        for name in std::mem::take(&mut self.again) {
            if let Some(live) = self.slots.get_mut(name) {
                live.queued = false;
                self.turn(name);
            }
        }
    }

    /// Drives waiting handshakes, at most `HANDSHAKES_PER_PASS` costly steps. The longest-waiting handshake comes
    /// first, before new ones.
    fn shake_hands(&mut self) {
        while self.shared.handshakes_left.get() > 0
            && let Some(name) = self.handshakes.next()
        {
            if let Some(live) = self.slots.get_mut(name) {
                live.in_line = None;
                self.turn(name);
            }
        }
    }

    fn look_at_timers(&mut self) {
        while let Some(name) = self.timers.take_due(self.moment.now) {
            if let Some(live) = self.slots.get_mut(name) {
                live.timer = None;
                live.check_deadline(&self.shared, &self.moment);
                self.turn(name);
            }
        }
    }

    /// Drives one connection and updates its queue entries and its timer.
    fn turn(&mut self, name: Name) {
        let Some(live) = self.slots.get_mut(name) else { return };
        let turn = live.turn(&mut self.buffer, &self.shared, &self.moment);
        if live.is_closed() {
            return self.remove(name);
        }
        match turn {
            Turn::Again if !live.queued => {
                live.queued = true;
                self.again.push(name);
            }
            Turn::Later => self.handshakes.join(name, &mut live.in_line),
            Turn::Again | Turn::Rest => {}
        }
        if let Some(deadline) = live.deadline(&self.shared.limits) {
            self.timers.arm(name, &mut live.timer, deadline);
        }
    }

    fn remove(&mut self, name: Name) {
        if let Some(mut live) = self.slots.remove(name) {
            self.timers.disarm(name, &mut live.timer);
            self.handshakes.leave(&mut live.in_line);
            live.release(&self.shared, self.moment.now);
        }
    }

    /// Accepts new connections, at most a burst per listener.
    fn accept(&mut self) {
        let now = self.moment.now;
        for index in 0..self.listeners.len() {
            let listener = &mut self.listeners[index];
            if listener.retry_at.is_some_and(|at| at <= now) {
                listener.retry_at = None;
                listener.ready = true;
            }
            for _ in 0..ACCEPT_BURST_MAX {
                let listener = &mut self.listeners[index];
                if !listener.ready {
                    break;
                }
                match listener.socket.accept() {
                    Ok((socket, peer)) => {
                        self.open(index, socket, peer);
                    }
                    Err(error) => match error.kind() {
                        ErrorKind::WouldBlock => listener.ready = false,
                        // The client gave up while waiting in the backlog: no fault of the server.
                        ErrorKind::Interrupted
                        | ErrorKind::ConnectionAborted
                        | ErrorKind::ConnectionReset => {}
                        _ => {
                            let fields = [("error", Value::Text(&error))];
                            log::event(Level::Error, "could not accept a connection", &fields);
                            listener.ready = false;
                            listener.retry_at = Some(now + ACCEPT_RETRY);
                        }
                    },
                }
            }
        }
    }

    /// Admits a connection and assigns a loop.
    fn open(&mut self, listener: usize, socket: TcpStream, peer: SocketAddr) {
        let Listener { id, identity, .. } = &self.listeners[listener];
        self.connections += 1;
        let (instance, connection) = (self.settings.instance, self.connections);
        let mut numbering = Numbering { instance, connection, requests: 0 };
        self.shared.counters.accepted.add(1);
        let place = match self.shared.room.take(*id, peer.ip()) {
            Ok(place) => place,
            Err(full) => {
                let counters = &self.shared.counters;
                let (counter, why) = match full {
                    Full::All => (&counters.turned_away, "too many connections"),
                    Full::Peer => (&counters.turned_away_of_peer, "too many connections of yours"),
                };
                counter.add(1);
                // A TLS client could not read a plain response, and an overloaded server has no time for a handshake.
                let exchange = identity.is_none().then(|| Exchange::refused(numbering.next()));
                return turn_away(socket, exchange, why, &self.moment);
            }
        };
        let (listener, identity) = (*id, identity.clone());
        let newcomer = Newcomer { listener, identity, peer, socket, numbering, place };
        let turn = usize::try_from(connection % (self.others.len() as u64 + 1));
        match self.others.get(turn.expect("less than the number of loops")) {
            Some(other) => other.send(Note::Newcomer(Box::new(newcomer))),
            None => self.welcome(newcomer),
        }
    }

    /// Registers an admitted connection with this loop.
    fn welcome(&mut self, newcomer: Newcomer) {
        let Newcomer { listener, identity, peer, mut socket, numbering, place } = newcomer;
        let (limits, now) = (Arc::clone(&self.shared.limits), self.moment.now);
        let registry = self.poll.registry();
        let opened = self.slots.insert(|name| {
            register(registry, &mut socket, name)?;
            let session = identity.as_ref().map(|identity| identity.session()).transpose();
            let tls = session.map_err(io::Error::other)?.map(|session| Tls::open(session, now));
            let conn = Conn::open(limits, numbering, now);
            Ok::<_, io::Error>(Live::open(name, listener, peer, socket, place, conn, tls))
        });
        match opened {
            Some(Ok(name)) => {
                if self.grace_end.is_some()
                    && let Some(live) = self.slots.get_mut(name)
                {
                    live.drain(now);
                }
                self.turn(name);
            }
            Some(Err(error)) => {
                let fields = [("error", Value::Text(&error))];
                log::event(Level::Error, "could not watch a connection", &fields);
            }
            None => unreachable!("there are places for all that are admitted"),
        }
    }

    /// Stops accepting and starts the drain of all connections.
    fn begin_drain(&mut self) {
        if !self.listeners.is_empty() {
            self.listeners.clear();
            self.shared.service.drain();
            self.others.iter().for_each(|other| other.drain());
        }
        self.grace_end = Some(self.moment.now + self.shared.limits.drain_grace);
        for name in self.slots.names() {
            if let Some(live) = self.slots.get_mut(name) {
                live.drain(self.moment.now);
                self.turn(name);
            }
        }
    }

    /// Returns the result once the drain is over: no connection is left or in transit to this loop, or the grace period
    /// is over.
    fn drained(&mut self, all_delivered: bool) -> Option<LoopEnd> {
        let grace_end = self.grace_end?;
        let left = self.slots.names();
        if !(all_delivered && left.is_empty()) && self.moment.now < grace_end {
            return None;
        }
        left.iter().for_each(|name| self.remove(*name));
        Some(LoopEnd { grace_end, cut_off: left.len() })
    }

    /// Returns true if work is ready, so that `poll` must not block.
    fn is_busy(&self) -> bool {
        !self.again.is_empty()
            || !self.handshakes.is_empty()
            || self.listeners.iter().any(|listener| listener.ready)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let retries = self.listeners.iter().filter_map(|listener| listener.retry_at);
        retries.chain(self.timers.next()).chain(self.grace_end).min()
    }
}

fn register(registry: &Registry, socket: &mut TcpStream, name: Name) -> io::Result<()> {
    // Responses are written whole, so Nagle's algorithm would only delay them.
    socket.set_nodelay(true)?;
    registry.register(socket, Token(name.to_number()), Interest::READABLE | Interest::WRITABLE)
}

/// Answers 503 with the reason, as far as the socket accepts the bytes without blocking, and closes.
fn turn_away(socket: TcpStream, exchange: Option<Exchange>, why: &str, moment: &Moment) {
    use std::io::Write;
    if let Some(exchange) = exchange {
        let answer = overloaded(why);
        let (bytes, _) =
            render::response(exchange, answer, moment).expect("our own answers are well formed");
        // Best effort: an overloading client gets no more time of the loop.
        let _ = (&socket).write(&bytes);
    }
    let _ = socket.shutdown(Shutdown::Write);
}
