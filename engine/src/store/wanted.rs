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
    stop: bool,
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

    /// Tells that there may be something to compact or to erase.
    pub(crate) fn note_change(&self) {
        self.wants().rewrite = true;
        self.changed.notify_all();
    }

    fn wants(&self) -> MutexGuard<'_, Wants> {
        self.wants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the tail is to be sealed. Gives whether to go on.
    pub(crate) fn wait_for_flush(&self) -> bool {
        self.wait(None, |wants| std::mem::take(&mut wants.flush))
    }

    /// Waits until there may be something to compact or to erase. Gives whether to go on.
    pub(crate) fn wait_for_change(&self) -> bool {
        self.wait(None, |wants| std::mem::take(&mut wants.rewrite))
    }

    /// Waits until `time` has passed. Gives whether to go on.
    pub(crate) fn rest(&self, time: Duration) -> bool {
        self.wait(Some(time), |_| false)
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
