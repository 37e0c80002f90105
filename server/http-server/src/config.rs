//! Configuration of the HTTP server: plain data.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

/// The listener that accepted a request. The caller of the crate assigns the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u16);

/// An address to listen on.
#[derive(Clone, Copy, Debug)]
pub struct Listen {
    /// Reported in every request of this listener.
    pub id: ListenerId,
    /// Address to bind; port 0 binds a free port.
    pub address: SocketAddr,
}

/// A listener's limits on connections and on buffered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Connections reserved for this listener.
    pub reserved: usize,
    /// Connections per peer. A peer is an IPv4 address or an IPv6 /64 prefix, the least that one site has.
    pub per_peer_max: usize,
    /// Buffered bytes (unread or unsent) reserved for the connections of this listener.
    pub waiting_bytes_reserved: usize,
    /// Buffered bytes of one peer above which no large addition is accepted.
    pub waiting_bytes_per_peer_max: usize,
}

/// Reserves nothing; only the limits of the server apply.
impl Default for Places {
    fn default() -> Places {
        Places {
            reserved: 0,
            per_peer_max: usize::MAX,
            waiting_bytes_reserved: 0,
            waiting_bytes_per_peer_max: usize::MAX,
        }
    }
}

/// Configuration for `Server::bind`.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// Listeners, `1..=limits::LISTENERS_MAX`.
    pub listeners: Vec<Listen>,
    /// Worker threads, `1..=limits::WORKERS_MAX`.
    pub workers: usize,
    /// Limits and timeouts; each may be lower than its default, never higher.
    pub limits: Limits,
    /// Wall clock, used only for the `Date` field.
    pub wall_clock: fn() -> SystemTime,
}

/// The configurable limits and timeouts. Each field is named like its constant in `limits.rs`, which documents the
/// bound and its reason.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each field is documented at its constant in limits.rs")]
pub struct Limits {
    pub head_bytes_max: usize,
    pub headers_max: usize,
    pub body_bytes_max: usize,
    pub bodies_bytes_max: usize,
    pub waiting_bytes_max: usize,
    pub pipelined_bytes_max: usize,
    pub handshake_timeout: Duration,
    pub idle_timeout: Duration,
    pub head_timeout: Duration,
    pub body_timeout: Duration,
    pub write_timeout: Duration,
    pub half_closed_grace: Duration,
    pub linger_timeout: Duration,
    pub connections_max: usize,
    pub streams_max: usize,
    pub stream_backlog_bytes_max: usize,
    pub queue_max: usize,
    pub job_queue_max: usize,
    pub drain_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            head_bytes_max: crate::limits::HEAD_BYTES_MAX,
            headers_max: crate::limits::HEADERS_MAX,
            body_bytes_max: crate::limits::BODY_BYTES_MAX,
            bodies_bytes_max: crate::limits::BODIES_BYTES_MAX,
            waiting_bytes_max: crate::limits::WAITING_BYTES_MAX,
            pipelined_bytes_max: crate::limits::PIPELINED_BYTES_MAX,
            handshake_timeout: crate::limits::HANDSHAKE_TIMEOUT,
            idle_timeout: crate::limits::IDLE_TIMEOUT,
            head_timeout: crate::limits::HEAD_TIMEOUT,
            body_timeout: crate::limits::BODY_TIMEOUT,
            write_timeout: crate::limits::WRITE_TIMEOUT,
            half_closed_grace: crate::limits::HALF_CLOSED_GRACE,
            linger_timeout: crate::limits::LINGER_TIMEOUT,
            connections_max: crate::limits::CONNECTIONS_MAX,
            streams_max: crate::limits::STREAMS_MAX,
            stream_backlog_bytes_max: crate::limits::STREAM_BACKLOG_BYTES_MAX,
            queue_max: crate::limits::QUEUE_MAX,
            job_queue_max: crate::limits::JOB_QUEUE_MAX,
            drain_grace: crate::limits::DRAIN_GRACE,
        }
    }
}

impl Limits {
    /// Returns the name of the first limit that exceeds its default or is too small to serve any request.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let top = Limits::default();
        let sizes = [
            ("head_bytes_max", self.head_bytes_max, top.head_bytes_max),
            ("headers_max", self.headers_max, top.headers_max),
            ("body_bytes_max", self.body_bytes_max, top.body_bytes_max),
            ("bodies_bytes_max", self.bodies_bytes_max, top.bodies_bytes_max),
            ("waiting_bytes_max", self.waiting_bytes_max, top.waiting_bytes_max),
            ("pipelined_bytes_max", self.pipelined_bytes_max, top.pipelined_bytes_max),
            ("connections_max", self.connections_max, top.connections_max),
            ("streams_max", self.streams_max, top.streams_max),
            (
                "stream_backlog_bytes_max",
                self.stream_backlog_bytes_max,
                top.stream_backlog_bytes_max,
            ),
            ("queue_max", self.queue_max, top.queue_max),
            ("job_queue_max", self.job_queue_max, top.job_queue_max),
        ];
        let times = [
            ("handshake_timeout", self.handshake_timeout, top.handshake_timeout),
            ("idle_timeout", self.idle_timeout, top.idle_timeout),
            ("head_timeout", self.head_timeout, top.head_timeout),
            ("body_timeout", self.body_timeout, top.body_timeout),
            ("write_timeout", self.write_timeout, top.write_timeout),
            ("half_closed_grace", self.half_closed_grace, top.half_closed_grace),
            ("linger_timeout", self.linger_timeout, top.linger_timeout),
            ("drain_grace", self.drain_grace, top.drain_grace),
        ];
        let size = sizes.into_iter().find(|(_, value, max)| *value == 0 || value > max);
        let time = times.into_iter().find(|(_, value, max)| value > max);
        let head = (self.head_bytes_max > self.pipelined_bytes_max).then_some("head_bytes_max");
        size.map(|found| found.0).or(time.map(|found| found.0)).or(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_may_be_lowered_and_never_raised() {
        assert_eq!(Limits::default().fault(), None);
        assert_eq!(Limits { queue_max: 1, ..Limits::default() }.fault(), None);
        let raised = Limits { queue_max: crate::limits::QUEUE_MAX + 1, ..Limits::default() };
        assert_eq!(raised.fault(), Some("queue_max"));
        assert_eq!(Limits { headers_max: 0, ..Limits::default() }.fault(), Some("headers_max"));
        let long = Limits { idle_timeout: Duration::from_secs(76), ..Limits::default() };
        assert_eq!(long.fault(), Some("idle_timeout"));
        let narrow = Limits { pipelined_bytes_max: 100, ..Limits::default() };
        assert_eq!(narrow.fault(), Some("head_bytes_max"));
    }
}
