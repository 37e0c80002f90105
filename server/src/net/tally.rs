//! What all loops count together, because its bounds are the server's and not a loop's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::counters::Counters;

/// Connections, streams and bodies in hand, of all loops. The first two are what is shown of them, too.
pub(super) struct Tally {
    counters: Arc<Counters>,
    bodies_bytes: AtomicUsize,
}

/// Stands for one open stream.
pub(super) struct OpenStream(Arc<Counters>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.lower();
    }
}

impl Tally {
    /// Nothing is open yet.
    pub(super) fn new(counters: Arc<Counters>) -> Tally {
        Tally { counters, bodies_bytes: AtomicUsize::new(0) }
    }

    /// Counts one more connection, unless there are `connections_max`.
    pub(super) fn admit(&self, connections_max: usize) -> bool {
        // Counted before it is looked at, so that two loops together never admit one too many.
        let is_admitted = self.counters.open.raise() <= connections_max as u64;
        if !is_admitted {
            self.leave();
        }
        is_admitted
    }

    /// A connection that was admitted is gone.
    pub(super) fn leave(&self) {
        self.counters.open.lower();
    }

    /// Counts one more stream; `None` when there are `streams_max`.
    pub(super) fn open_stream(&self, streams_max: usize) -> Option<OpenStream> {
        let is_admitted = self.counters.streams.raise() <= streams_max as u64;
        let stream = OpenStream(Arc::clone(&self.counters));
        is_admitted.then_some(stream)
    }

    /// A connection has `now` bytes of bodies in hand where it had `before`.
    pub(super) fn count_bodies(&self, before: usize, now: usize) {
        if now > before {
            self.bodies_bytes.fetch_add(now - before, Ordering::Relaxed);
        } else if now < before {
            self.bodies_bytes.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    /// Bytes of all bodies in hand.
    pub(super) fn bodies_bytes(&self) -> usize {
        self.bodies_bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_for_all_together() {
        let counters: Arc<Counters> = Arc::default();
        let tally = Tally::new(Arc::clone(&counters));
        assert_eq!([(); 3].map(|()| tally.admit(2)), [true, true, false]);
        tally.leave();
        assert!(tally.admit(2) && counters.open.get() == 2);

        let one = tally.open_stream(1);
        assert!(one.is_some() && tally.open_stream(1).is_none() && counters.streams.get() == 1);
        drop(one);
        assert!(tally.open_stream(1).is_some() && counters.streams.get() == 0);

        tally.count_bodies(0, 5);
        tally.count_bodies(0, 3);
        tally.count_bodies(5, 1);
        assert_eq!(tally.bodies_bytes(), 4);
    }
}
