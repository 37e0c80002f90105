//! One after the other, and nobody waits for long.
//!
//! Owns whose turn it is. Must not know what is done in it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::error::ControlError;

/// Whether somebody has the turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    is_taken: Mutex<bool>,
    left: Condvar,
}

/// That it is one's turn, until this is dropped.
pub(super) struct Taken<'a>(&'a Turn);

impl Turn {
    /// Waits for it so long at most.
    ///
    /// # Errors
    /// Somebody else has it still.
    pub(super) fn take(&self, patience: Duration) -> Result<Taken<'_>, ControlError> {
        let is_taken = self.is_taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.left.wait_timeout_while(is_taken, patience, |is_taken| *is_taken);
        let mut is_taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        if *is_taken {
            let why = "a change of the control store is on its way to other nodes; try again";
            return Err(ControlError::far(why));
        }
        *is_taken = true;
        Ok(Taken(self))
    }

    /// Whether somebody has it now.
    pub(super) fn is_taken(&self) -> bool {
        *self.is_taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.is_taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_turn_and_another_one_is_told_so() {
        let turn = Turn::default();
        let taken = turn.take(Duration::ZERO).unwrap();
        assert!(turn.take(Duration::ZERO).is_err() && turn.is_taken());
        drop(taken);
        assert!(turn.take(Duration::ZERO).is_ok());
    }
}
