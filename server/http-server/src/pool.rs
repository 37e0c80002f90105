//! A fixed number of threads with a bounded queue.
//!
//! Must not know requests. A panicking job does not affect other jobs.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use super::counters::{Counters, Depth};
use super::mailbox::locked;
use recalld_telemetry::log;
use recalld_telemetry::log::Level;

/// The threads and their queue. After a drop, the threads end once the queue is empty.
pub(super) struct Pool<J> {
    shared: Arc<Shared<J>>,
}

struct Shared<J> {
    state: Mutex<State<J>>,
    /// Notified for a new job and on close.
    work: Condvar,
    /// Notified when the last worker ends.
    ended: Condvar,
    queue_max: usize,
    /// Gauge of the queue length.
    shown: Shown,
}

/// The gauge of a queue's length among the counters.
#[derive(Clone)]
pub(super) struct Shown {
    pub counters: Arc<Counters>,
    pub depth: fn(&Counters) -> &Depth,
}

impl Shown {
    fn set(&self, length: usize) {
        (self.depth)(&self.counters).set(length);
    }
}

struct State<J> {
    queue: VecDeque<J>,
    /// Workers waiting for `work`.
    idle: usize,
    /// Notifications for which no worker has woken up yet. A notification is a system call, so sending more than there
    /// are idle workers is wasted.
    signalled: usize,
    workers: usize,
    closed: bool,
}

impl<J: Send + 'static> Pool<J> {
    /// Starts `workers` threads, named `name` with a number, which run `run` for each job.
    pub(super) fn start(
        name: &str,
        workers: usize,
        queue_max: usize,
        shown: Shown,
        run: impl Fn(J) + Send + Sync + 'static,
    ) -> io::Result<Pool<J>> {
        let state =
            State { queue: VecDeque::new(), idle: 0, signalled: 0, workers: 0, closed: false };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            ended: Condvar::new(),
            queue_max,
            shown,
        });
        let pool = Pool { shared };
        let run = Arc::new(run);
        for number in 0..workers {
            let (shared, run) = (Arc::clone(&pool.shared), Arc::clone(&run));
            locked(&pool.shared.state).workers += 1;
            let started = thread::Builder::new()
                .name(format!("{name}-{number}"))
                .spawn(move || work(&shared, &*run));
            if let Err(error) = started {
                locked(&pool.shared.state).workers -= 1;
                return Err(error);
            }
        }
        Ok(pool)
    }

    /// Queues a job; a full queue returns the job immediately.
    pub(super) fn submit(&self, job: J) -> Result<(), J> {
        let wake = {
            let mut state = locked(&self.shared.state);
            if state.queue.len() >= self.shared.queue_max {
                return Err(job);
            }
            state.queue.push_back(job);
            self.shared.shown.set(state.queue.len());
            let wake = state.idle > state.signalled;
            state.signalled += usize::from(wake);
            wake
        };
        if wake {
            self.shared.work.notify_one();
        }
        Ok(())
    }

    /// Lets the workers finish the queue and end. Returns true if all ended before `deadline`; the others are detached.
    pub(super) fn close(&self, deadline: Instant) -> bool {
        let mut state = locked(&self.shared.state);
        state.closed = true;
        self.shared.work.notify_all();
        while state.workers > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.ended.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl<J> Drop for Pool<J> {
    fn drop(&mut self) {
        locked(&self.shared.state).closed = true;
        self.shared.work.notify_all();
    }
}

/// Main loop of one worker.
fn work<J>(shared: &Shared<J>, run: &dyn Fn(J)) {
    while let Some(job) = next(shared) {
        if catch_unwind(AssertUnwindSafe(|| run(job))).is_err() {
            // The panic hook has printed the location. The unwinding dropped the job's responder, which answered 500.
            let what = "a call panicked and was answered 500; its worker goes on";
            log::event(Level::Error, what, &[]);
        }
    }
    let mut state = locked(&shared.state);
    state.workers -= 1;
    if state.workers == 0 {
        shared.ended.notify_all();
    }
}

/// Waits for a job; `None` if the pool is closed and the queue empty.
fn next<J>(shared: &Shared<J>) -> Option<J> {
    let mut state = locked(&shared.state);
    loop {
        if let Some(job) = state.queue.pop_front() {
            shared.shown.set(state.queue.len());
            return Some(job);
        }
        if state.closed {
            return None;
        }
        state.idle += 1;
        state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
        // A spurious wake-up may consume the count of another worker; then one notification too many is sent.
        state.signalled = state.signalled.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(20);

    fn shown() -> Shown {
        Shown { counters: Arc::default(), depth: |counters| &counters.queue }
    }

    #[test]
    fn a_full_queue_gives_the_job_back() {
        let (entered, has_entered) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let pool = Pool::start("test", 1, 2, shown(), move |job: u32| {
            entered.send(job).unwrap();
            released.lock().unwrap().recv().unwrap();
        })
        .unwrap();
        pool.submit(1).unwrap();
        assert_eq!(has_entered.recv_timeout(LONG), Ok(1));
        pool.submit(2).unwrap();
        pool.submit(3).unwrap();
        assert_eq!(pool.submit(4), Err(4));
        (0..3).for_each(|_| release.send(()).unwrap());
        assert!(pool.close(Instant::now() + LONG));
        assert_eq!(has_entered.iter().collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn a_panic_costs_one_job() {
        let (done, is_done) = mpsc::channel();
        let pool = Pool::start("test", 1, 8, shown(), move |job: u32| {
            assert_ne!(job, 1, "this job panics on purpose");
            done.send(job).unwrap();
        })
        .unwrap();
        pool.submit(1).unwrap();
        pool.submit(2).unwrap();
        assert_eq!(is_done.recv_timeout(LONG), Ok(2));
        assert!(pool.close(Instant::now() + LONG));
    }

    #[test]
    fn close_does_not_wait_for_a_stuck_worker() {
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let pool = Pool::start("test", 1, 8, shown(), move |_: u32| {
            let _ = released.lock().unwrap().recv();
        })
        .unwrap();
        pool.submit(1).unwrap();
        assert!(!pool.close(Instant::now()));
        drop(release);
    }
}
