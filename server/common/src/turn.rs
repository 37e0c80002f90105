//! One at a time: a turn that callers wait for, and give up waiting for when nobody needs them, or after a while.
//!
//! Owns whose turn it is. Must not know what is done in it.

use std::time::{Duration, Instant};

use crate::cancel::CallScope;
use crate::monitor::Monitor;

/// Something that one caller has at a time.
#[derive(Debug)]
pub struct Turns {
    taken: Monitor<bool>,
}

/// The turn, until it is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Default for Turns {
    fn default() -> Self {
        Self { taken: Monitor::new(false) }
    }
}

impl Turns {
    /// Waits for the turn; `None` where the call is over before that.
    pub fn take(&self, call: &CallScope<'_>) -> Option<Turn<'_>> {
        let mut taken = self.taken.lock();
        let mut waker = None;
        while *taken {
            if waker.is_none() {
                waker = Some(self.taken.woken_by(call));
            }
            if call.is_over() {
                return None;
            }
            taken = self.taken.wait_until(taken, call.deadline);
        }
        *taken = true;
        Some(Turn(self))
    }

    /// Waits for the turn so long at most.
    pub fn take_within(&self, patience: Duration) -> Option<Turn<'_>> {
        let until = Instant::now() + patience;
        let mut taken = self.taken.lock();
        while *taken && Instant::now() < until {
            taken = self.taken.wait_until(taken, Some(until));
        }
        // Whoever has it still keeps it.
        (!std::mem::replace(&mut *taken, true)).then(|| Turn(self))
    }

    /// Whether somebody has it now.
    pub fn is_taken(&self) -> bool {
        *self.taken.lock()
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock() = false;
        self.0.taken.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancellationToken;

    #[test]
    fn the_second_waits_until_the_first_is_done() {
        let (turns, wanted, unwanted) =
            (Turns::default(), CancellationToken::new(), CancellationToken::new());
        let call = CallScope { token: &wanted, deadline: None };
        let over = CallScope { token: &unwanted, deadline: None };
        assert!(!turns.is_taken());
        let first = turns.take(&call).unwrap();
        assert!(turns.is_taken());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| turns.take(&over).is_none());
            unwanted.cancel();
            assert!(waits.join().unwrap(), "taken, and not worth waiting for");
        });
        let late = CallScope { deadline: Some(Instant::now()), ..call };
        assert!(turns.take(&late).is_none(), "nor so late");
        assert!(turns.take_within(Duration::ZERO).is_none(), "nor for ever");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| turns.take(&call).is_some());
            drop(first);
            assert!(second.join().unwrap());
        });
        assert!(turns.take_within(Duration::ZERO).is_some(), "free again");
        assert!(turns.take(&over).is_some(), "and again");
    }
}
