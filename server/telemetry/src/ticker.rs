//! A thread that runs a task periodically until dropped.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::log;
use crate::log::{Level, Value};

/// A periodic task on its own thread. Dropping it waits for the current run and ends the thread.
pub struct Ticker {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Ticker {
    /// Runs `work` at once, and again `every` after the end of each run.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(
        name: &str,
        every: Duration,
        mut work: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let (theirs, label) = (Arc::clone(&stop), name.to_owned());
        let run = move || {
            loop {
                // A panic does not end the task; the next run follows.
                if catch_unwind(AssertUnwindSafe(&mut work)).is_err() {
                    let fields = [("thread", Value::Text(&label))];
                    log::event(Level::Error, "what is done again and again panicked", &fields);
                }
                if !theirs.wait(every) {
                    return;
                }
            }
        };
        let thread = Some(thread::Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(Self { stop, thread })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        *self.stop.is_over() = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _its_panic_is_on_stderr = thread.join();
        }
    }
}

impl Stop {
    fn is_over(&self) -> MutexGuard<'_, bool> {
        self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the interval. Returns false if the task must end.
    fn wait(&self, every: Duration) -> bool {
        let (mut is_over, began) = (self.is_over(), Instant::now());
        while !*is_over {
            let Some(left) = every.checked_sub(began.elapsed()) else { break };
            let waited = self.changed.wait_timeout(is_over, left);
            is_over = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !*is_over
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn it_works_again_and_again_and_ends_when_it_is_dropped() {
        let (sender, ticks) = mpsc::channel();
        let ticker = Ticker::start("ticks", Duration::from_micros(1), move || {
            let _nobody_listens_any_more = sender.send(());
        });
        for _ in 0..3 {
            ticks.recv().unwrap();
        }
        drop(ticker.unwrap());
        // Messages from before the end may remain. The disconnected sender shows that the thread has ended.
        while ticks.try_recv().is_ok() {}
        assert_eq!(ticks.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        // The task continues after a panic.
        let (sender, ticks) = mpsc::channel();
        let ticker = Ticker::start("ticks", Duration::from_micros(1), move || {
            let _nobody_listens_any_more = sender.send(());
            panic!("on purpose");
        });
        for _ in 0..3 {
            ticks.recv().unwrap();
        }
        drop(ticker.unwrap());
        // A task that waits for an hour ends at once when dropped.
        let (sender, ticks) = mpsc::channel();
        let ticker = Ticker::start("ticks", Duration::from_secs(3600), move || {
            let _nobody_listens_any_more = sender.send(());
        });
        ticks.recv().unwrap();
        drop(ticker.unwrap());
        assert!(ticks.recv().is_err());
    }
}
