//! A thread that does something again and again until nobody wants it any more.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::log;
use crate::log::{Level, Value};

/// The thread; it ends when this is dropped, after what it is at.
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
    /// Does `work` now, and then again `every` so long after it has ended.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        name: &str,
        every: Duration,
        mut work: impl FnMut() + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let (theirs, label) = (Arc::clone(&stop), name.to_owned());
        let run = move || {
            loop {
                // Whatever went wrong with it, there is a next time.
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

    /// Waits; gives whether to go on.
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
        // What was sent before the end is there, and the sender is gone: so is its thread.
        while ticks.try_recv().is_ok() {}
        assert_eq!(ticks.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        // It goes on after a panic.
        let (sender, ticks) = mpsc::channel();
        let ticker = Ticker::start("ticks", Duration::from_micros(1), move || {
            let _nobody_listens_any_more = sender.send(());
            panic!("on purpose");
        });
        for _ in 0..3 {
            ticks.recv().unwrap();
        }
        drop(ticker.unwrap());
        // One that waits for an hour hears its end at once.
        let (sender, ticks) = mpsc::channel();
        let ticker = Ticker::start("ticks", Duration::from_secs(3600), move || {
            let _nobody_listens_any_more = sender.send(());
        });
        ticks.recv().unwrap();
        drop(ticker.unwrap());
        assert!(ticks.recv().is_err());
    }
}
