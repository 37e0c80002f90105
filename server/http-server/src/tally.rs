//! Budgets shared by all loops: open streams and bytes of request bodies are limited per server, not per loop.

use std::fmt;
use std::sync::Arc;

use super::config::Limits;
use super::counters::Counters;

/// Open streams and body bytes of all loops. The metrics counters are also the values checked against the limits.
pub(super) struct Tally {
    counters: Arc<Counters>,
    limits: Arc<Limits>,
}

/// Permit for one open stream.
pub(super) struct OpenStream(Arc<Counters>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.lower();
    }
}

/// Accounts for a complete request body, at the service or on the way to the service. Counted until both the connection
/// and the service have dropped the body.
pub(super) struct HeldBody {
    tally: Arc<Tally>,
    bytes: usize,
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        self.tally.count_bodies(self.bytes, 0);
    }
}

impl fmt::Debug for HeldBody {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes", self.bytes)
    }
}

impl Tally {
    /// Creates budgets over `counters`.
    pub(super) fn new(counters: Arc<Counters>, limits: Arc<Limits>) -> Tally {
        Tally { counters, limits }
    }

    /// Acquires a stream; `None` above `streams_max`.
    pub(super) fn open_stream(&self) -> Option<OpenStream> {
        // Incremented before the check, so that two loops together cannot exceed the limit.
        let is_admitted = self.counters.streams.raise() <= self.limits.streams_max as u64;
        let stream = OpenStream(Arc::clone(&self.counters));
        is_admitted.then_some(stream)
    }

    /// Updates the body bytes of a connection from `before` to `now`.
    pub(super) fn count_bodies(&self, before: usize, now: usize) {
        self.counters.bodies_bytes.shift(before, now);
    }

    /// Accounts for a complete body; `None` if the body is empty.
    pub(super) fn hold_body(self: &Arc<Tally>, bytes: usize) -> Option<Arc<HeldBody>> {
        if bytes == 0 {
            return None;
        }
        self.count_bodies(0, bytes);
        Some(Arc::new(HeldBody { tally: Arc::clone(self), bytes }))
    }

    /// Returns true if the body bytes exceed their limit.
    pub(super) fn has_too_many_bodies(&self) -> bool {
        self.counters.bodies_bytes.get() > self.limits.bodies_bytes_max as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(limits: Limits) -> (Tally, Arc<Counters>) {
        let counters: Arc<Counters> = Arc::default();
        (Tally::new(Arc::clone(&counters), Arc::new(limits)), counters)
    }

    #[test]
    fn bounds_hold_for_all_together() {
        let limits = Limits { streams_max: 1, bodies_bytes_max: 3, ..Limits::default() };
        let (tally, counters) = tally(limits);
        let one = tally.open_stream();
        assert!(one.is_some() && tally.open_stream().is_none() && counters.streams.get() == 1);
        drop(one);
        assert!(tally.open_stream().is_some() && counters.streams.get() == 0);

        tally.count_bodies(0, 5);
        tally.count_bodies(0, 3);
        tally.count_bodies(5, 1);
        assert!(counters.bodies_bytes.get() == 4 && tally.has_too_many_bodies());
        tally.count_bodies(1, 0);
        assert!(!tally.has_too_many_bodies());
    }
}
