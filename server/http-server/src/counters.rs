//! Metrics of the HTTP server: atomic counters and gauges, written by the threads of the server and read without a
//! lock.

use std::sync::atomic::{AtomicU64, Ordering};

use recalld_telemetry::metrics::Latencies;

/// A monotonic counter.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The current sum.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A value that rises and falls.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub(crate) fn set(&self, now: usize) {
        self.0.store(now as u64, Ordering::Relaxed);
    }

    /// Replaces `before` by `now`, the contribution of one connection.
    pub(super) fn shift(&self, before: usize, now: usize) {
        if now > before {
            self.0.fetch_add((now - before) as u64, Ordering::Relaxed);
        } else if now < before {
            self.0.fetch_sub((before - now) as u64, Ordering::Relaxed);
        }
    }

    /// Adds one and returns the new value.
    pub(super) fn raise(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn lower(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// The current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// All metrics of a server. Fields written by the event loops and fields written by the workers are on separate cache
/// lines.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections answered 503, or closed, over the limit of the server.
    pub turned_away: Counter,
    /// Connections answered 503, or closed, over the limit of their peer.
    pub turned_away_of_peer: Counter,
    /// Connections now open.
    pub open: Gauge,
    /// Streams now open.
    pub streams: Gauge,
    /// Bytes of all request bodies in memory. A body counts until its request is answered and the service has dropped
    /// the body.
    pub bodies_bytes: Gauge,
    /// Memory allocated for unparsed and unsent bytes, of all connections.
    pub waiting_bytes: Gauge,
    /// Bytes read from sockets, TLS included.
    pub bytes_in: Counter,
    /// Bytes written to sockets, TLS included.
    pub bytes_out: Counter,
    /// Requests rejected before they reached the service: malformed, too large, too slow.
    pub refused: Refused,
    /// Requests that found the worker queue full, all streams in use, or no memory for their response.
    pub overloaded: Counter,
    /// TLS handshakes completed.
    pub handshakes: Counter,
    /// TLS handshakes and connections that violated the protocol, timed out, or did not speak TLS.
    pub handshakes_failed: Counter,
    /// Time that requests waited for a worker.
    pub queue_wait: Latencies,
    /// Requests waiting for a worker.
    pub queue: Depth,
    /// Long-running requests waiting for a thread.
    pub jobs: Depth,
}

/// Statuses with which the HTTP server itself rejects requests.
const REFUSALS: [u16; 9] = [400, 408, 413, 417, 431, 500, 501, 503, 505];

/// Rejected requests, by status.
#[derive(Debug, Default)]
pub struct Refused([Counter; REFUSALS.len()]);

impl Refused {
    pub(super) fn add(&self, status: u16) {
        if let Some(at) = REFUSALS.iter().position(|known| *known == status) {
            self.0[at].add(1);
        }
    }

    /// Each status with its count.
    pub fn by_status(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        REFUSALS.iter().zip(&self.0).map(|(status, count)| (*status, count.get()))
    }
}

/// Queue length. On its own cache line, because workers write the value.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Depth(Gauge);

impl Depth {
    pub(super) fn set(&self, now: usize) {
        self.0.set(now);
    }

    /// The current queue length.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}
