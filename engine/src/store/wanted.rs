//! Work requests of a store to its background workers, and the waits between both.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Queue of maintenance requests, with at most one request of each kind.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    wants: Mutex<Wants>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Wants {
    is_attended: bool,
    flush: bool,
    /// True if segments or erasures have changed since the last compaction round.
    rewrite: bool,
    /// True during a compaction or erasure round.
    is_rewriting: bool,
    /// True while the compaction worker pauses after an error.
    is_paused: bool,
    /// True if a segment may need an index.
    index: bool,
    stop: bool,
}

impl Wants {
    fn is_at_rest(&self) -> bool {
        !self.is_rewriting && (!self.rewrite || self.is_paused)
    }
}

impl Wanted {
    /// Attaches the background workers, which check for all kinds of work once.
    pub(crate) fn attend(&self) {
        self.wants().is_attended = true;
        self.note_change();
    }

    /// Requests the workers to end.
    pub(crate) fn stop(&self) {
        self.wants().stop = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.wants().stop
    }

    /// Returns true if there is nothing to compact or erase.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.wants().is_at_rest()
    }

    /// Detaches the flush worker.
    pub(crate) fn leave(&self) {
        self.wants().is_attended = false;
    }

    /// Resets the queue after all workers have ended.
    pub(crate) fn forget(&self) {
        *self.wants() = Wants::default();
    }

    /// Requests a seal of the tail; returns `false` if no worker is attached.
    pub(crate) fn ask_for_flush(&self) -> bool {
        let mut wants = self.wants();
        wants.flush |= wants.is_attended;
        let is_attended = wants.is_attended;
        drop(wants);
        self.changed.notify_all();
        is_attended
    }

    #[cfg(test)]
    pub(crate) fn has_change(&self) -> bool {
        self.wants().rewrite
    }

    /// Requests a compaction and erasure round, and indexing after it.
    pub(crate) fn note_change(&self) {
        let mut wants = self.wants();
        (wants.rewrite, wants.index) = (true, true);
        drop(wants);
        self.changed.notify_all();
    }

    /// Requests an indexing round.
    pub(crate) fn note_index(&self) {
        self.wants().index = true;
        self.changed.notify_all();
    }

    /// Ends the round that [`wait_for_change`](Self::wait_for_change) began.
    pub(crate) fn note_rewritten(&self) {
        self.wants().is_rewriting = false;
        self.changed.notify_all();
    }

    fn wants(&self) -> MutexGuard<'_, Wants> {
        self.wants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until a seal is requested; returns false on a stop request.
    pub(crate) fn wait_for_flush(&self) -> bool {
        self.wait(None, |wants| std::mem::take(&mut wants.flush))
    }

    /// Blocks until a compaction and erasure round is requested; returns false on a stop request. From then on,
    /// indexing waits until [`note_rewritten`](Self::note_rewritten).
    pub(crate) fn wait_for_change(&self) -> bool {
        self.wait(None, |wants| {
            wants.is_rewriting |= wants.rewrite;
            std::mem::take(&mut wants.rewrite)
        })
    }

    /// Blocks until indexing is requested while there is nothing to compact or erase; returns false on a stop request.
    pub(crate) fn wait_for_index(&self) -> bool {
        self.wait(None, |wants| wants.is_at_rest() && std::mem::take(&mut wants.index))
    }

    /// Blocks until there is nothing to compact or erase; returns false on a stop request.
    pub(crate) fn wait_for_rest(&self) -> bool {
        self.wait(None, |wants| wants.is_at_rest())
    }

    /// Sleeps for `time`; returns false on a stop request.
    pub(crate) fn rest(&self, time: Duration) -> bool {
        self.wait(Some(time), |_| false)
    }

    /// As [`Self::rest`], after an error of compaction or erasure; indexing runs meanwhile.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        self.wants().is_paused = true;
        self.changed.notify_all();
        let goes_on = self.rest(time);
        self.wants().is_paused = false;
        goes_on
    }

    /// Blocks until `is_due`, a stop request, or the end of `at_most`; returns false on a stop request.
    fn wait(&self, at_most: Option<Duration>, is_due: impl Fn(&mut Wants) -> bool) -> bool {
        let mut wants = self.wants();
        let began = Instant::now();
        while !wants.stop && !is_due(&mut wants) {
            wants = match at_most.map(|at_most| at_most.checked_sub(began.elapsed())) {
                None => self.changed.wait(wants).unwrap_or_else(PoisonError::into_inner),
                Some(None) => break,
                Some(Some(left)) => {
                    self.changed.wait_timeout(wants, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        !wants.stop
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn an_index_waits_while_there_is_something_to_erase_and_no_longer() {
        let (wanted, is_rewritten) = (Wanted::default(), AtomicBool::new(false));
        wanted.attend();
        std::thread::scope(|scope| {
            let indexing = scope.spawn(|| {
                let goes_on = wanted.wait_for_index();
                goes_on && is_rewritten.load(Ordering::SeqCst)
            });
            assert!(wanted.wait_for_change(), "an opening is a change");
            is_rewritten.store(true, Ordering::SeqCst);
            wanted.note_rewritten();
            assert!(indexing.join().unwrap(), "it began before");
        });
        assert!(wanted.wait_for_rest(), "nobody rewrites");
        wanted.note_change();
        std::thread::scope(|scope| {
            let resting = scope.spawn(|| wanted.wait_for_rest());
            assert!(wanted.wait_for_change(), "no index keeps an erasure waiting");
            wanted.stop();
            assert!(!resting.join().unwrap(), "it heard the stop");
        });
    }
}
