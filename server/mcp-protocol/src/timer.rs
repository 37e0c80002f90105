//! Jobs that run at a given time, on one thread.
//!
//! A job must be short, because the others wait meanwhile. The callers bound the number of entries: a request has one
//! entry while in flight, and removes the entry when answered.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use recalld_telemetry::log;

type Job = Box<dyn FnOnce() + Send>;

/// Id of a scheduled job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry(Instant, u64);

/// The timer thread and its jobs.
pub(super) struct Timer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: BTreeMap<Entry, Job>,
    next: u64,
    closing: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.state();
        while !state.closing {
            let now = Instant::now();
            let due = state.jobs.keys().next().map(|entry| entry.0);
            if due.is_some_and(|at| at <= now) {
                if let Some((_, job)) = state.jobs.pop_first() {
                    drop(state);
                    caught("a job of the timer panicked", job);
                    state = self.state();
                }
                continue;
            }
            // Without an entry, any wait is long enough.
            let wait = due.map_or(Duration::from_secs(3600), |at| at - now);
            let waited = self.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.jobs.clear();
    }
}

/// Runs `job`. A panic is logged and goes no further, because the thread has other jobs.
pub(super) fn caught(what: &'static str, job: impl FnOnce()) {
    // State shared with a job is behind locks that ignore poisoning.
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        log::event(log::Level::Error, what, &[]);
    }
}

impl Timer {
    /// Starts the thread.
    pub(super) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread = thread::Builder::new().name("mcp-timer".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.run()
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Schedules `job` to run at the given time or soon after.
    pub(super) fn schedule(&self, at: Instant, job: impl FnOnce() + Send + 'static) -> Entry {
        let mut state = self.shared.state();
        state.next += 1;
        let entry = Entry(at, state.next);
        state.jobs.insert(entry, Box::new(job));
        let is_first = state.jobs.first_key_value().is_some_and(|(first, _)| *first == entry);
        drop(state);
        if is_first {
            self.shared.changed.notify_one();
        }
        entry
    }

    /// Cancels a job that has not started.
    pub(super) fn take_back(&self, entry: Entry) {
        let taken = self.shared.state().jobs.remove(&entry);
        // Dropped without the lock: the job's destructor may schedule another job.
        drop(taken);
    }

    /// Stops the thread.
    pub(super) fn close(&self) {
        self.shared.state().closing = true;
        self.shared.changed.notify_one();
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.close();
        // The last owner may be a job on this thread, which cannot join itself.
        let me = thread::current().id();
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != me)
            && thread.join().is_err()
        {
            log::event(log::Level::Error, "the thread of the time bounds had panicked", &[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_run_in_order_of_their_time_and_not_when_taken_back() {
        let timer = Timer::start().unwrap();
        let (told, tells) = mpsc::channel();
        let now = Instant::now();
        let tell = |name: &'static str| {
            let told = told.clone();
            move || told.send(name).unwrap()
        };
        // Blocks the timer thread until all jobs are scheduled, however slow the test thread is.
        let (let_go, held) = mpsc::channel::<()>();
        timer.schedule(now, move || assert!(held.recv().is_err()));
        let never = timer.schedule(now + Duration::from_millis(10), tell("never"));
        timer.schedule(now + Duration::from_millis(30), tell("second"));
        timer.schedule(now + Duration::from_millis(20), tell("first"));
        timer.schedule(now + Duration::from_millis(25), || panic!("this job panics on purpose"));
        timer.take_back(never);
        drop(let_go);
        let wait = Duration::from_secs(60);
        assert_eq!(tells.recv_timeout(wait), Ok("first"));
        assert_eq!(tells.recv_timeout(wait), Ok("second"));
        drop(timer);
        drop(told);
        assert!(tells.recv().is_err());
    }
}
