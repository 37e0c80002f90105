//! What the front end counts of itself: numbers that only grow, kept by whoever is at work and read by
//! whoever wants to know, without a lock between them.

use std::sync::atomic::{AtomicU64, Ordering};

use recalld_telemetry::metrics::Latencies;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// What it is now.
    pub(crate) fn set(&self, now: usize) {
        self.0.store(now as u64, Ordering::Relaxed);
    }

    /// Goes from `before` to `now` for one of many that share it.
    pub(super) fn shift(&self, before: usize, now: usize) {
        if now > before {
            self.0.fetch_add((now - before) as u64, Ordering::Relaxed);
        } else if now < before {
            self.0.fetch_sub((before - now) as u64, Ordering::Relaxed);
        }
    }

    /// One more; gives how many that makes.
    pub(super) fn raise(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// One less.
    pub(super) fn lower(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// What it is now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// All that a server counts. Those of the event loop lie together, those of the workers apart.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that were accepted.
    pub accepted: Counter,
    /// Connections that were answered 503, or closed, because there were too many.
    pub turned_away: Counter,
    /// The same, because their peer had too many.
    pub turned_away_of_peer: Counter,
    /// Connections that are open.
    pub open: Gauge,
    /// Streams that are open.
    pub streams: Gauge,
    /// Bytes of all bodies in hand, until their calls are answered and nobody has them.
    pub bodies_bytes: Gauge,
    /// Memory held for what has arrived and is not read, or is said and not sent, of all connections.
    pub waiting_bytes: Gauge,
    /// Bytes read from sockets, TLS included.
    pub bytes_in: Counter,
    /// Bytes written to sockets, TLS included.
    pub bytes_out: Counter,
    /// Requests that were refused before they were calls: malformed, too large, too slow.
    pub refused: Refused,
    /// Calls that found the workers' queue full, all streams taken, or no room for their answer.
    pub overloaded: Counter,
    /// TLS handshakes that came to their end.
    pub handshakes: Counter,
    /// TLS handshakes and connections that broke the protocol, were too slow, or were no TLS.
    pub handshakes_failed: Counter,
    /// How long calls waited for a worker.
    pub queue_wait: Latencies,
    /// Calls that wait for a worker.
    pub queue: Depth,
    /// Jobs that wait for a thread.
    pub jobs: Depth,
}

/// Statuses that the front end refuses requests with by itself.
const REFUSALS: [u16; 9] = [400, 408, 413, 417, 431, 500, 501, 503, 505];

/// Refused requests, by status.
#[derive(Debug, Default)]
pub struct Refused([Counter; REFUSALS.len()]);

impl Refused {
    pub(super) fn add(&self, status: u16) {
        if let Some(at) = REFUSALS.iter().position(|known| *known == status) {
            self.0[at].add(1);
        }
    }

    /// Each status, and how many so far.
    pub fn by_status(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        REFUSALS.iter().zip(&self.0).map(|(status, count)| (*status, count.get()))
    }
}

/// How many wait. On a line of its own, for workers write it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Depth(Gauge);

impl Depth {
    pub(super) fn set(&self, now: usize) {
        self.0.set(now);
    }

    /// How many wait now.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}
