//! Whether what is being read is still wanted.
//!
//! Owns the question and how often it is put. Must not know who asks for what is read, nor why they
//! may lose interest: a call that was called off and one past its time look the same from here.

use std::fmt;
use std::sync::Arc;

use crate::error::SearchError;

/// Says when a read is to end early, with [`SearchError::Interrupted`]. Asked by every read whose work
/// grows with the store, about once a millisecond; it must be quick, and true for good once it is.
#[derive(Clone, Default)]
pub struct Stop(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Stop {
    /// Stops once `asked` says so.
    pub fn when(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(asked)))
    }

    /// Whether what is read is still wanted.
    ///
    /// # Errors
    /// [`SearchError::Interrupted`] where it is not.
    pub fn check(&self) -> Result<(), SearchError> {
        match &self.0 {
            Some(asked) if asked() => Err(SearchError::Interrupted),
            _ => Ok(()),
        }
    }

    /// A check for a loop of small steps: asked at the first one, and then once in `every`.
    pub(crate) fn each(&self, every: u32) -> Steps<'_> {
        Steps { stop: self, every, left: 0 }
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Stop(when asked)" } else { "Stop(never)" })
    }
}

/// Counts the steps of a loop, and asks its [`Stop`] now and then.
pub(crate) struct Steps<'a> {
    stop: &'a Stop,
    every: u32,
    left: u32,
}

impl Steps<'_> {
    /// One more step.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<(), SearchError> {
        if self.left == 0 {
            self.left = self.every;
            self.stop.check()?;
        }
        self.left -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_loop_asks_at_its_first_step_and_once_in_so_many() {
        let asked = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&asked);
        let stop = Stop::when(move || counted.fetch_add(1, Ordering::Relaxed) == 2);
        let mut steps = stop.each(10);
        let made = (0..100).take_while(|_| steps.step().is_ok()).count();
        assert_eq!((made, asked.load(Ordering::Relaxed)), (20, 3));
        assert!((0..100).all(|_| Stop::default().check().is_ok()));
    }
}
