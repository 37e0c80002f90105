//! Threads for calls that may wait: as many as wait at a time, up to a bound.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::limits::LONG_CALLS_MAX;

/// How many run.
#[derive(Default)]
pub(super) struct Threads(Arc<Running>);

#[derive(Default)]
struct Running {
    count: Mutex<usize>,
    ended: Condvar,
}

impl Running {
    fn count(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them, until it is dropped.
struct Place(Arc<Running>);

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.count() -= 1;
        self.0.ended.notify_all();
    }
}

impl Threads {
    /// Runs `work` on a thread of its own; false where there are too many already, or the system
    /// gives none.
    pub(super) fn run(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let place = {
            let mut count = self.0.count();
            if *count >= LONG_CALLS_MAX {
                return false;
            }
            *count += 1;
            Place(Arc::clone(&self.0))
        };
        let started = thread::Builder::new().name("mcp-call".to_owned()).spawn(move || {
            let _place = place;
            work();
        });
        started.is_ok()
    }

    /// Waits until none runs, or for so long.
    pub(super) fn wait(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut count = self.0.count();
        while *count > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.ended.wait_timeout(count, left);
            count = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn there_are_so_many_and_no_more() {
        let threads = Threads::default();
        let (let_go, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..LONG_CALLS_MAX {
            let gate = Arc::clone(&gate);
            assert!(threads.run(move || {
                let _ended = gate.lock().unwrap().recv();
            }));
        }
        assert!(!threads.run(|| {}));
        drop(let_go);
        threads.wait(Duration::from_secs(20));
        assert!(threads.run(|| {}));
        threads.wait(Duration::from_secs(20));
        assert_eq!(*threads.0.count(), 0);
    }
}
