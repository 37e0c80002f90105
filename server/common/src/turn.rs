//! A binary semaphore. A wait for its permit ends when the call is over, or after a time limit.

use std::time::{Duration, Instant};

use crate::cancel::CallScope;
use crate::monitor::Monitor;

/// A binary semaphore: one caller has the permit at a time.
#[derive(Debug)]
pub struct Turns {
    taken: Monitor<bool>,
}

/// The permit, released when dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Default for Turns {
    fn default() -> Self {
        Self { taken: Monitor::new(false) }
    }
}

impl Turns {
    /// Waits for the permit; `None` if the call is over first.
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

    /// Waits for the permit at most for `patience`.
    pub fn take_within(&self, patience: Duration) -> Option<Turn<'_>> {
        let until = Instant::now() + patience;
        let mut taken = self.taken.lock();
        while *taken && Instant::now() < until {
            taken = self.taken.wait_until(taken, Some(until));
        }
        // If the permit is still taken, the flag stays true.
        (!std::mem::replace(&mut *taken, true)).then(|| Turn(self))
    }

    /// Returns true if the permit is taken now.
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
