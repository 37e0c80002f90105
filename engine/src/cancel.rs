use std::fmt;
use std::sync::Arc;

use crate::error::SearchError;

/// Cancel token of a read, which then ends with [`SearchError::Interrupted`]. Reads whose work grows with the store
/// poll the token about once a millisecond, so its closure must be fast; once true, it must stay true.
#[derive(Clone, Default)]
pub struct CancelToken(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl CancelToken {
    /// Makes a token that is cancelled once `asked` returns true.
    pub fn from_fn(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
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
    pub(crate) fn every(&self, every: u32) -> CancelCheck<'_> {
        CancelCheck { token: self, every, steps_left: 0 }
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Stop(when asked)" } else { "Stop(never)" })
    }
}

/// Step counter of a loop that polls its [`CancelToken`] periodically.
pub(crate) struct CancelCheck<'a> {
    token: &'a CancelToken,
    every: u32,
    steps_left: u32,
}

impl CancelCheck<'_> {
    /// Counts a step, and polls the token if due.
    #[inline]
    pub(crate) fn tick(&mut self) -> Result<(), SearchError> {
        if self.steps_left == 0 {
            self.steps_left = self.every;
            self.token.check()?;
        }
        self.steps_left -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn cancel_check_asks_on_the_first_tick_and_every_nth() {
        let asked = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&asked);
        let stop = CancelToken::from_fn(move || counted.fetch_add(1, Ordering::Relaxed) == 2);
        let mut steps = stop.every(10);
        let made = (0..100).take_while(|_| steps.tick().is_ok()).count();
        assert_eq!((made, asked.load(Ordering::Relaxed)), (20, 3));
        assert!((0..100).all(|_| CancelToken::default().check().is_ok()));
    }
}
