//! Threads for calls that may block: one per waiting call, up to a limit.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Spawns threads up to a limit and counts them.
pub struct Threads {
    running: Arc<Running>,
    name: &'static str,
    max: usize,
}

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

/// The right to one thread; dropping it frees the slot.
pub struct Place {
    running: Arc<Running>,
    name: &'static str,
}

impl Place {
    /// Runs `work` on a new thread. Returns false if the system cannot start a thread.
    pub fn run(self, work: impl FnOnce() + Send + 'static) -> bool {
        let named = thread::Builder::new().name(self.name.to_owned());
        let started = named.spawn(move || {
            let _place = self;
            work();
        });
        started.is_ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.running.count() -= 1;
        self.running.ended.notify_all();
    }
}

impl Threads {
    /// Creates a spawner of at most `max` threads with this name.
    pub fn new(name: &'static str, max: usize) -> Self {
        Self { running: Arc::default(), name, max }
    }

    /// Reserves a slot for one thread; `None` if the limit is reached.
    pub fn place(&self) -> Option<Place> {
        let mut count = self.running.count();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(Place { running: Arc::clone(&self.running), name: self.name })
    }

    /// Runs `work` on a new thread. Returns false if the limit is reached or the system cannot start a thread.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) -> bool {
        self.place().is_some_and(|place| place.run(work))
    }

    /// Waits until no thread runs, at most for `at_most`.
    pub fn wait(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut count = self.running.count();
        while *count > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.running.ended.wait_timeout(count, left);
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
        const MAX: usize = 4;
        let threads = Threads::new("counted", MAX);
        let (let_go, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..MAX {
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
        assert_eq!(*threads.running.count(), 0);
    }
}
