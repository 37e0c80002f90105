//! Work requests of a store to its background workers, and the waits between both.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Queue of maintenance requests, with at most one request of each kind.
#[derive(Debug, Default)]
pub(crate) struct MaintenanceQueue {
    pending: Mutex<PendingWork>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PendingWork {
    has_worker: bool,
    flush_requested: bool,
    /// True if segments or erasures have changed since the last compaction round.
    rewrite_requested: bool,
    /// True during a compaction or erasure round.
    is_rewriting: bool,
    /// True while the compaction worker pauses after an error.
    is_paused: bool,
    /// True if a segment may need an index.
    index_requested: bool,
    stop_requested: bool,
}

impl PendingWork {
    fn is_rewrite_idle(&self) -> bool {
        !self.is_rewriting && (!self.rewrite_requested || self.is_paused)
    }
}

impl MaintenanceQueue {
    /// Attaches the background workers, which check for all kinds of work once.
    pub(crate) fn attach_worker(&self) {
        self.lock_pending().has_worker = true;
        self.request_rewrite();
    }

    /// Requests the workers to end.
    pub(crate) fn stop(&self) {
        self.lock_pending().stop_requested = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock_pending().stop_requested
    }

    /// Returns true if there is nothing to compact or erase.
    pub(crate) fn is_rewrite_idle(&self) -> bool {
        self.lock_pending().is_rewrite_idle()
    }

    /// Detaches the flush worker.
    pub(crate) fn detach_worker(&self) {
        self.lock_pending().has_worker = false;
    }

    /// Resets the queue after all workers have ended.
    pub(crate) fn reset(&self) {
        *self.lock_pending() = PendingWork::default();
    }

    /// Requests a seal of the tail; returns `false` if no worker is attached.
    pub(crate) fn request_flush(&self) -> bool {
        let mut wants = self.lock_pending();
        wants.flush_requested |= wants.has_worker;
        let is_attended = wants.has_worker;
        drop(wants);
        self.changed.notify_all();
        is_attended
    }

    #[cfg(test)]
    pub(crate) fn is_rewrite_requested(&self) -> bool {
        self.lock_pending().rewrite_requested
    }

    /// Requests a compaction and erasure round, and indexing after it.
    pub(crate) fn request_rewrite(&self) {
        let mut wants = self.lock_pending();
        (wants.rewrite_requested, wants.index_requested) = (true, true);
        drop(wants);
        self.changed.notify_all();
    }

    /// Requests an indexing round.
    pub(crate) fn request_index(&self) {
        self.lock_pending().index_requested = true;
        self.changed.notify_all();
    }

    /// Ends the round that [`wait_for_rewrite`](Self::wait_for_rewrite) began.
    pub(crate) fn finish_rewrite(&self) {
        self.lock_pending().is_rewriting = false;
        self.changed.notify_all();
    }

    fn lock_pending(&self) -> MutexGuard<'_, PendingWork> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until a seal is requested; returns false on a stop request.
    pub(crate) fn wait_for_flush(&self) -> bool {
        self.wait(None, |wants| std::mem::take(&mut wants.flush_requested))
    }

    /// Blocks until a compaction and erasure round is requested; returns false on a stop request. From then on,
    /// indexing waits until [`finish_rewrite`](Self::finish_rewrite).
    pub(crate) fn wait_for_rewrite(&self) -> bool {
        self.wait(None, |wants| {
            wants.is_rewriting |= wants.rewrite_requested;
            std::mem::take(&mut wants.rewrite_requested)
        })
    }

    /// Blocks until indexing is requested while there is nothing to compact or erase; returns false on a stop request.
    pub(crate) fn wait_for_index(&self) -> bool {
        self.wait(None, |wants| {
            wants.is_rewrite_idle() && std::mem::take(&mut wants.index_requested)
        })
    }

    /// Blocks until there is nothing to compact or erase; returns false on a stop request.
    pub(crate) fn wait_for_rewrite_idle(&self) -> bool {
        self.wait(None, |wants| wants.is_rewrite_idle())
    }

    /// Sleeps for `time`; returns false on a stop request.
    pub(crate) fn sleep(&self, time: Duration) -> bool {
        self.wait(Some(time), |_| false)
    }

    /// As [`Self::sleep`], after an error of compaction or erasure; indexing runs meanwhile.
    pub(crate) fn pause_after_error(&self, time: Duration) -> bool {
        self.lock_pending().is_paused = true;
        self.changed.notify_all();
        let goes_on = self.sleep(time);
        self.lock_pending().is_paused = false;
        goes_on
    }

    /// Blocks until `is_due`, a stop request, or the end of `at_most`; returns false on a stop request.
    fn wait(&self, at_most: Option<Duration>, is_due: impl Fn(&mut PendingWork) -> bool) -> bool {
        let mut wants = self.lock_pending();
        let began = Instant::now();
        while !wants.stop_requested && !is_due(&mut wants) {
            wants = match at_most.map(|at_most| at_most.checked_sub(began.elapsed())) {
                None => self.changed.wait(wants).unwrap_or_else(PoisonError::into_inner),
                Some(None) => break,
                Some(Some(left)) => {
                    self.changed.wait_timeout(wants, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        !wants.stop_requested
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn index_build_waits_only_while_rewrites_are_pending() {
        let (wanted, is_rewritten) = (MaintenanceQueue::default(), AtomicBool::new(false));
        wanted.attach_worker();
        std::thread::scope(|scope| {
            let indexing = scope.spawn(|| {
                let goes_on = wanted.wait_for_index();
                goes_on && is_rewritten.load(Ordering::SeqCst)
            });
            assert!(wanted.wait_for_rewrite(), "an opening is a change");
            is_rewritten.store(true, Ordering::SeqCst);
            wanted.finish_rewrite();
            assert!(indexing.join().unwrap(), "it began before");
        });
        assert!(wanted.wait_for_rewrite_idle(), "nobody rewrites");
        wanted.request_rewrite();
        std::thread::scope(|scope| {
            let resting = scope.spawn(|| wanted.wait_for_rewrite_idle());
            assert!(wanted.wait_for_rewrite(), "no index keeps an erasure waiting");
            wanted.stop();
            assert!(!resting.join().unwrap(), "it heard the stop");
        });
    }
}
