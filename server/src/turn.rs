//! One at a time: a turn that callers wait for, and give up waiting for when nobody needs them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::tools::ToolError;

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

    /// Waits for the turn, or until `is_over` says that it is no longer wanted.
    pub fn take(&self, is_over: &dyn Fn() -> bool) -> Result<Turn<'_>, ToolError> {
        let mut taken = self.taken();
        while *taken {
            if is_over() {
                return Err(ToolError::Cancelled);
            }
            let waited = self.freed.wait_timeout(taken, LOOK);
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *taken = true;
        Ok(Turn(self))
    }

    /// Whether somebody has it now.
    pub fn is_taken(&self) -> bool {
        *self.taken()
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
        assert!(turns.take(&|| true).is_err(), "taken, and not worth waiting for");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| turns.take(&|| false).is_ok());
            drop(first);
            assert!(second.join().unwrap());
        });
        assert!(turns.take(&|| true).is_ok(), "free again");
    }
}
