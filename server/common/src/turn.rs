//! One at a time: a turn that callers wait for, and give up waiting for when nobody needs them, or after a while.
//!
//! Owns whose turn it is. Must not know what is done in it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often one who waits looks whether it still should.
const LOOK: Duration = Duration::from_millis(100);

/// Something that one caller has at a time.
#[derive(Debug, Default)]
pub struct Turns {
    taken: Mutex<bool>,
    freed: Condvar,
}

/// The turn, until it is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Turns {
    /// Nobody has the turn.
    pub const fn new() -> Self {
        Self { taken: Mutex::new(false), freed: Condvar::new() }
    }

    /// Waits for the turn; `None` where `is_over` says before that it is no longer wanted.
    pub fn take(&self, is_over: &dyn Fn() -> bool) -> Option<Turn<'_>> {
        let mut taken = self.taken();
        while *taken {
            if is_over() {
                return None;
            }
            taken = self.wait(taken, LOOK);
        }
        *taken = true;
        Some(Turn(self))
    }

    /// Waits for the turn so long at most.
    pub fn take_within(&self, patience: Duration) -> Option<Turn<'_>> {
        let mut taken = self.wait(self.taken(), patience);
        // Whoever has it still keeps it.
        (!std::mem::replace(&mut *taken, true)).then(|| Turn(self))
    }

    /// Whether somebody has it now.
    pub fn is_taken(&self) -> bool {
        *self.taken()
    }

    /// Until it is free, or for so long.
    fn wait<'a>(&self, taken: MutexGuard<'a, bool>, most: Duration) -> MutexGuard<'a, bool> {
        let waited = self.freed.wait_timeout_while(taken, most, |taken| *taken);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn taken(&self) -> MutexGuard<'_, bool> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.taken() = false;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_waits_until_the_first_is_done() {
        let turns = Turns::default();
        assert!(!turns.is_taken());
        let first = turns.take(&|| false).unwrap();
        assert!(turns.is_taken());
        assert!(turns.take(&|| true).is_none(), "taken, and not worth waiting for");
        assert!(turns.take_within(Duration::ZERO).is_none(), "nor for ever");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| turns.take(&|| false).is_some());
            drop(first);
            assert!(second.join().unwrap());
        });
        assert!(turns.take_within(Duration::ZERO).is_some(), "free again");
        assert!(turns.take(&|| true).is_some(), "and again");
    }
}
