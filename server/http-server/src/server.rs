//! Starting and stopping the HTTP server.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::UNIX_EPOCH;

use mio::net::TcpListener;
use mio::{Interest, Poll, Token, Waker};

use super::config::{ListenerId, NetConfig, Places};
use super::counters::Counters;
use super::event_loop::{EventLoop, Listener, LoopEnd, Settings};
use super::identity::Identity;
use super::mailbox::Mailbox;
use super::places::Room;
use super::pool::{Pool, Shown};
use super::reply::Service;
use super::shared::{Job, Shared};
use super::tally::Tally;
use crate::limits::{HANDSHAKES_PER_PASS, JOB_THREADS, LISTENERS_MAX, LOOPS_MAX, WORKERS_MAX};

/// Token of the waker: after those of all listeners, before those of all connections.
const WAKER: Token = Token(LISTENERS_MAX);

/// Reason why the server did not start listening. No socket is left open.
#[derive(Debug)]
#[non_exhaustive]
pub enum BindError {
    /// The number of listeners is not in `1..=LISTENERS_MAX`.
    Listeners(usize),
    /// The number of workers is not in `1..=WORKERS_MAX`.
    Workers(usize),
    /// A limit is zero, above its default, or inconsistent with another.
    Limit(&'static str),
    /// Listening on this address failed.
    Address(SocketAddr, io::Error),
    /// The system provided no poll.
    System(io::Error),
}

impl fmt::Display for BindError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::Listeners(count) => {
                write!(out, "{count} addresses to listen on; 1 to {LISTENERS_MAX} are possible")
            }
            BindError::Workers(count) => {
                write!(out, "{count} workers; 1 to {WORKERS_MAX} are possible")
            }
            BindError::Limit(name) => write!(
                out,
                "limit {name} is zero, above its default or at odds with another; limits can only \
                 be lowered"
            ),
            BindError::Address(address, error) => {
                let what = if error.kind() == io::ErrorKind::AddrInUse {
                    "end what listens there (a recalld, if `recalld doctor` finds one), or choose another address or \
                     port"
                } else {
                    "choose another address or port"
                };
                write!(out, "cannot listen on {address}: {error}; {what}")
            }
            BindError::System(error) => write!(out, "cannot wait for network events: {error}"),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BindError::Address(_, error) | BindError::System(error) => Some(error),
            _ => None,
        }
    }
}

/// Reason why the server stopped serving without a drain.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The system started no thread.
    Threads(io::Error),
    /// Polling for events failed.
    Events(io::Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Threads(error) => write!(out, "cannot start the workers: {error}"),
            RunError::Events(error) => write!(out, "cannot wait for network events: {error}"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RunError::Threads(error) | RunError::Events(error) => Some(error),
        }
    }
}

/// Result of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections aborted at the end of the grace period.
    pub connections_cut_off: usize,
    /// True if every request was completed.
    pub workers_ended: bool,
}

/// A server that listens and does not serve yet; clients that connect wait.
pub struct Server {
    poll: Poll,
    listeners: Vec<Listener>,
    mailbox: Arc<Mailbox>,
    config: NetConfig,
    counters: Arc<Counters>,
    loops: usize,
    places: Vec<(ListenerId, Places)>,
}

/// A listening socket opened by another process, such as the system's service manager.
#[derive(Debug)]
pub struct Inherited {
    /// Reported in every request of this listener.
    pub id: ListenerId,
    /// The listening socket.
    pub socket: std::net::TcpListener,
}

impl Server {
    /// Checks the configuration and listens on every address.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind(config: NetConfig) -> Result<Server, BindError> {
        Server::bind_with(config, Vec::new())
    }

    /// Checks the configuration and listens, with inherited listening sockets in addition to the configured addresses
    /// or in their place.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind_with(config: NetConfig, inherited: Vec<Inherited>) -> Result<Server, BindError> {
        let count = config.listeners.len() + inherited.len();
        if !(1..=LISTENERS_MAX).contains(&count) {
            return Err(BindError::Listeners(count));
        }
        if !(1..=WORKERS_MAX).contains(&config.workers) {
            return Err(BindError::Workers(config.workers));
        }
        if let Some(name) = config.limits.fault() {
            return Err(BindError::Limit(name));
        }
        let (poll, mailbox) = woken_poll().map_err(BindError::System)?;
        let mut sockets = Vec::with_capacity(count);
        for listen in &config.listeners {
            let fault = |error| BindError::Address(listen.address, error);
            sockets.push((listen.id, TcpListener::bind(listen.address).map_err(fault)?));
        }
        for Inherited { id, socket } in inherited {
            // The loop accepts until `WouldBlock` and must not block.
            socket.set_nonblocking(true).map_err(BindError::System)?;
            sockets.push((id, TcpListener::from_std(socket)));
        }
        let mut listeners = Vec::with_capacity(count);
        for (index, (id, mut socket)) in sockets.into_iter().enumerate() {
            let registry = poll.registry();
            let registered = registry.register(&mut socket, Token(index), Interest::READABLE);
            registered.map_err(BindError::System)?;
            listeners.push(Listener::new(id, socket));
        }
        let counters = Arc::default();
        let places = Vec::new();
        Ok(Server { poll, listeners, mailbox, config, counters, loops: 1, places })
    }

    /// Enables TLS on a listener.
    #[must_use]
    pub fn with_tls(mut self, listener: ListenerId, identity: &Arc<Identity>) -> Server {
        for one in self.listeners.iter_mut().filter(|one| one.id == listener) {
            one.identity = Some(Arc::clone(identity));
        }
        self
    }

    /// Reserves connections and buffered bytes for a listener, and limits the usage of each of its peers. Call once per
    /// listener. Reservations reduce the capacity of other listeners: reserve nothing for a listener that does not
    /// exist. A limit for a missing listener has no effect.
    ///
    /// # Panics
    /// If more connections or bytes are reserved than exist.
    #[must_use]
    pub fn with_places(mut self, listener: ListenerId, places: Places) -> Server {
        self.places.push((listener, places));
        let reserved: usize = self.places.iter().map(|(_, places)| places.reserved).sum();
        assert!(reserved < self.config.limits.connections_max, "places are left for everyone");
        let bytes: usize =
            self.places.iter().map(|(_, places)| places.waiting_bytes_reserved).sum();
        assert!(bytes < self.config.limits.waiting_bytes_max, "bytes are left for everyone");
        self
    }

    /// Distributes connections over `loops` event loops, one thread each, instead of one; the number is clamped to 1 to
    /// `LOOPS_MAX`.
    #[must_use]
    pub fn with_loops(self, loops: usize) -> Server {
        Server { loops: loops.clamp(1, LOOPS_MAX), ..self }
    }

    /// Metrics of this server.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Serves on this thread, and on loops and workers that it starts, until a handle requests a drain.
    ///
    /// # Errors
    /// See [`RunError`].
    pub fn run<S: Service>(self, service: Arc<S>) -> Result<Drained, RunError> {
        let Server { poll, listeners, mailbox, config, counters, loops, places } = self;
        let limits = Arc::new(config.limits);
        let start = |name, threads, queue_max, depth| {
            let service = Arc::clone(&service);
            let shown = Shown { counters: Arc::clone(&counters), depth };
            let counters = Arc::clone(&counters);
            let run = move |job: Job<S::RouteMatch>| job.run(&*service, &counters);
            Pool::start(name, threads, queue_max, shown, run)
                .map(Arc::new)
                .map_err(RunError::Threads)
        };
        let pool = start("worker", config.workers, limits.queue_max, |all| &all.queue)?;
        let jobs = start("job", JOB_THREADS, limits.job_queue_max, |all| &all.jobs)?;
        let tally = Arc::new(Tally::new(Arc::clone(&counters), Arc::clone(&limits)));
        let room = Room::new(Arc::clone(&counters), &limits, &places);
        let room = Arc::new(room);
        let share = |mailbox: &Arc<Mailbox>| Shared {
            service: Arc::clone(&service),
            pool: Arc::clone(&pool),
            jobs: Arc::clone(&jobs),
            mailbox: Arc::clone(mailbox),
            limits: Arc::clone(&limits),
            tally: Arc::clone(&tally),
            room: Arc::clone(&room),
            counters: Arc::clone(&counters),
            handshakes_left: Cell::new(HANDSHAKES_PER_PASS),
        };
        // Two runs that start within one microsecond have the same value; the value is not secret.
        let since = (config.wall_clock)().duration_since(UNIX_EPOCH).unwrap_or_default();
        let low = since.as_micros() & u128::from(u32::MAX);
        let instance = u32::try_from(low).expect("masked to 32 bits");
        let settings = Settings { wall_clock: config.wall_clock, instance };
        let mut others = Others { mailboxes: Vec::new(), threads: Vec::new() };
        for number in 1..loops {
            let (poll, own) = woken_poll().map_err(RunError::Events)?;
            let event_loop = EventLoop::new(poll, Vec::new(), Vec::new(), share(&own), settings);
            others.start(number, event_loop, own, &mailbox).map_err(RunError::Threads)?;
        }
        let mailboxes = others.mailboxes.clone();
        let first = EventLoop::new(poll, listeners, mailboxes, share(&mailbox), settings).run();
        let end = others.end(first).map_err(RunError::Events)?;
        let workers_ended = pool.close(end.grace_end) & jobs.close(end.grace_end);
        Ok(Drained { connections_cut_off: end.cut_off, workers_ended })
    }

    /// Addresses of the listeners, with the ports chosen by the system.
    ///
    /// # Errors
    /// The system reports no address.
    pub fn addresses(&self) -> io::Result<Vec<(ListenerId, SocketAddr)>> {
        self.listeners.iter().map(|one| Ok((one.id, one.socket.local_addr()?))).collect()
    }

    /// Returns a handle that ends `run` from another thread.
    pub fn handle(&self) -> ShutdownHandle {
        ShutdownHandle { mailbox: Arc::clone(&self.mailbox) }
    }
}

/// Creates the poll of a loop and the mailbox that wakes the poll.
fn woken_poll() -> io::Result<(Poll, Arc<Mailbox>)> {
    let poll = Poll::new()?;
    let waker = Waker::new(poll.registry(), WAKER)?;
    Ok((poll, Arc::new(Mailbox::new(waker))))
}

/// The loops besides the first. They are drained on every exit path.
struct Others {
    mailboxes: Vec<Arc<Mailbox>>,
    threads: Vec<thread::JoinHandle<io::Result<LoopEnd>>>,
}

impl Others {
    /// Starts one loop. When the loop ends, even by an error, `first` is drained too.
    fn start<S: Service>(
        &mut self,
        number: usize,
        event_loop: EventLoop<S>,
        own: Arc<Mailbox>,
        first: &Arc<Mailbox>,
    ) -> io::Result<()> {
        let first = DrainsAtEnd(Arc::clone(first));
        let thread = thread::Builder::new().name(format!("loop-{number}")).spawn(move || {
            let _first = first;
            event_loop.run()
        })?;
        self.mailboxes.push(own);
        self.threads.push(thread);
        Ok(())
    }

    /// Joins all loops after the first has ended; a panic of a loop is resumed here.
    fn end(mut self, first: io::Result<LoopEnd>) -> io::Result<LoopEnd> {
        self.mailboxes.iter().for_each(|mailbox| mailbox.drain());
        let threads = std::mem::take(&mut self.threads);
        threads.into_iter().fold(first, |all, thread| {
            let end = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let (all, end) = (all?, end?);
            let grace_end = all.grace_end.max(end.grace_end);
            Ok(LoopEnd { grace_end, cut_off: all.cut_off + end.cut_off })
        })
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.drain());
    }
}

/// Drains a loop when dropped.
struct DrainsAtEnd(Arc<Mailbox>);

impl Drop for DrainsAtEnd {
    fn drop(&mut self) {
        self.0.drain();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Server").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Ends a running server, from any thread.
#[derive(Clone)]
pub struct ShutdownHandle {
    mailbox: Arc<Mailbox>,
}

impl ShutdownHandle {
    /// Stops accepting, lets requests in flight finish and streams end, and makes `run` return within the grace period.
    /// Repeated calls have no effect.
    pub fn drain(&self) {
        self.mailbox.drain();
    }
}

impl fmt::Debug for ShutdownHandle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ShutdownHandle")
    }
}
