use std::fmt;
use std::sync::Arc;

use crate::error::SearchError;

/// Cancel token of a read, which then ends with [`SearchError::Interrupted`]. Reads whose work grows with the store
/// poll the token about once a millisecond, so its closure must be fast; once true, it must stay true.
#[derive(Clone, Default)]
pub struct Stop(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Stop {
    /// Makes a token that is cancelled once `asked` returns true.
    pub fn when(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(asked)))
    }

    /// Checks for cancellation.
    ///
    /// # Errors
    /// [`SearchError::Interrupted`] if the token is cancelled.
    pub fn check(&self) -> Result<(), SearchError> {
        match &self.0 {
            Some(asked) if asked() => Err(SearchError::Interrupted),
            _ => Ok(()),
        }
    }

    /// Makes a check for a loop of short steps, which polls the token at the first step and then once in `every`.
    pub(crate) fn each(&self, every: u32) -> Steps<'_> {
        Steps { stop: self, every, left: 0 }
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Stop(when asked)" } else { "Stop(never)" })
    }
}

/// Step counter of a loop that polls its [`Stop`] periodically.
pub(crate) struct Steps<'a> {
    stop: &'a Stop,
    every: u32,
    left: u32,
}

impl Steps<'_> {
    /// Counts a step, and polls the token if due.
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
