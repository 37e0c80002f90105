//! What all loops count together, because its bounds are the server's and not a loop's.

use std::fmt;
use std::sync::Arc;

use super::config::Limits;
use super::counters::Counters;

/// Streams and bodies in hand, of all loops: the counters that are shown, held to their bounds.
pub(super) struct Tally {
    counters: Arc<Counters>,
    limits: Arc<Limits>,
}

/// Stands for one open stream.
pub(super) struct OpenStream(Arc<Counters>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.lower();
    }
}

/// Stands for a whole body, with the service or on its way there: counted until the last that has a part in
/// it, the connection that waits for the answer or whoever has the call, lets go.
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
    /// Nothing is open yet.
    pub(super) fn new(counters: Arc<Counters>, limits: Arc<Limits>) -> Tally {
        Tally { counters, limits }
    }

    /// Counts one more stream; `None` when there are `streams_max`.
    pub(super) fn open_stream(&self) -> Option<OpenStream> {
        // Counted before it is looked at, so that two loops together never admit one too many.
        let is_admitted = self.counters.streams.raise() <= self.limits.streams_max as u64;
        let stream = OpenStream(Arc::clone(&self.counters));
        is_admitted.then_some(stream)
    }

    /// A connection has `now` bytes of bodies in hand where it had `before`.
    pub(super) fn count_bodies(&self, before: usize, now: usize) {
        self.counters.bodies_bytes.shift(before, now);
    }

    /// Counts a whole body; `None` where there is none.
    pub(super) fn hold_body(self: &Arc<Tally>, bytes: usize) -> Option<Arc<HeldBody>> {
        if bytes == 0 {
            return None;
        }
        self.count_bodies(0, bytes);
        Some(Arc::new(HeldBody { tally: Arc::clone(self), bytes }))
    }

    /// Whether there are more bytes of bodies in hand than there may be.
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
