//! A state that callers wait to see changed, until their call is over.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::cancel::{CallScope, Registration};

/// A mutex with its condition variable, which a cancelled call notifies too.
#[derive(Debug)]
pub struct Monitor<T>(Arc<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    state: Mutex<T>,
    changed: Condvar,
}

impl<T> Inner<T> {
    fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Clones share the state.
impl<T> Clone for Monitor<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Send + 'static> Monitor<T> {
    /// A state to begin with.
    pub fn new(state: T) -> Self {
        Self(Arc::new(Inner { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// The state, locked.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }

    /// Wakes one who waits.
    pub fn notify_one(&self) {
        self.0.changed.notify_one();
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        self.0.changed.notify_all();
    }

    /// Has those who wait woken when a call is called off, until what this gives is dropped. May be asked with the
    /// state locked; the call has to be looked at once more behind it.
    #[must_use]
    pub fn woken_by(&self, call: &CallScope<'_>) -> Registration {
        let inner = Arc::clone(&self.0);
        call.token.on_cancel(move || {
            // Who is about to wait has looked, or is waited for here.
            drop(inner.lock());
            inner.changed.notify_all();
        })
    }

    /// Waits for a change, until then at most.
    pub fn wait_until<'a>(
        &'a self,
        state: MutexGuard<'a, T>,
        until: Option<Instant>,
    ) -> MutexGuard<'a, T> {
        let Some(until) = until else {
            return self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.0.changed.wait_timeout(state, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
