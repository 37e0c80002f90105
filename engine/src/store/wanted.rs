//! What a store asks of its upkeep, and how the two wait for each other.
//!
//! Owns the wishes and the waking; knows neither what they mean nor who fulfils them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a store asks of its upkeep.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    wants: Mutex<Wants>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Wants {
    is_attended: bool,
    flush: bool,
    /// The segments or the erasures have changed since compaction looked last.
    rewrite: bool,
    /// Somebody is compacting or erasing.
    is_rewriting: bool,
    /// Whoever does so rests after an error.
    is_paused: bool,
    /// There may be something to index.
    index: bool,
    stop: bool,
}

impl Wants {
    fn is_at_rest(&self) -> bool {
        !self.is_rewriting && (!self.rewrite || self.is_paused)
    }
}

impl Wanted {
    /// Somebody is there from now on to do what is asked, and has not looked at anything yet.
    pub(crate) fn attend(&self) {
        self.wants().is_attended = true;
        self.note_change();
    }

    /// Tells whoever is there to end.
    pub(crate) fn stop(&self) {
        self.wants().stop = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.wants().stop
    }

    /// Whether there is nothing to compact or to erase.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.wants().is_at_rest()
    }

    /// Whoever did what is asked does it no longer.
    pub(crate) fn leave(&self) {
        self.wants().is_attended = false;
    }

    /// Nobody is there any more.
    pub(crate) fn forget(&self) {
        *self.wants() = Wants::default();
    }

    /// Asks for the tail to be sealed; `false` where nobody is there to do it.
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

    /// Tells that there may be something to compact, to erase, or to index after that.
    pub(crate) fn note_change(&self) {
        let mut wants = self.wants();
        (wants.rewrite, wants.index) = (true, true);
        drop(wants);
        self.changed.notify_all();
    }

    /// Tells that there may be something to index.
    pub(crate) fn note_index(&self) {
        self.wants().index = true;
        self.changed.notify_all();
    }

    /// Tells that what [`wait_for_change`](Self::wait_for_change) gave is done.
    pub(crate) fn note_rewritten(&self) {
        self.wants().is_rewriting = false;
        self.changed.notify_all();
    }

    fn wants(&self) -> MutexGuard<'_, Wants> {
        self.wants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the tail is to be sealed. Gives whether to go on.
    pub(crate) fn wait_for_flush(&self) -> bool {
        self.wait(None, |wants| std::mem::take(&mut wants.flush))
    }

    /// Waits until there may be something to compact or to erase. Gives whether to go on. Whoever makes
    /// indexes waits from then on, until [`note_rewritten`](Self::note_rewritten).
    pub(crate) fn wait_for_change(&self) -> bool {
        self.wait(None, |wants| {
            wants.is_rewriting |= wants.rewrite;
            std::mem::take(&mut wants.rewrite)
        })
    }

    /// Waits until there may be something to index, and nothing to compact or to erase. Gives whether to
    /// go on.
    pub(crate) fn wait_for_index(&self) -> bool {
        self.wait(None, |wants| wants.is_at_rest() && std::mem::take(&mut wants.index))
    }

    /// Waits until there is nothing to compact or to erase. Gives whether to go on.
    pub(crate) fn wait_for_rest(&self) -> bool {
        self.wait(None, |wants| wants.is_at_rest())
    }

    /// Waits until `time` has passed. Gives whether to go on.
    pub(crate) fn rest(&self, time: Duration) -> bool {
        self.wait(Some(time), |_| false)
    }

    /// The same after compacting or erasing met an error: indexes are made meanwhile.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        self.wants().is_paused = true;
        self.changed.notify_all();
        let goes_on = self.rest(time);
        self.wants().is_paused = false;
        goes_on
    }

    /// Waits until `is_due` or a stop, or until `at_most` has passed. Gives whether to go on.
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
