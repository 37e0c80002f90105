//! A shared state with a condition variable, whose waits end when the call is over.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::cancel::{CallScope, Registration};

/// A mutex with its condition variable, which the cancellation of a call notifies too.
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
    /// Creates a monitor with an initial state.
    pub fn new(state: T) -> Self {
        Self(Arc::new(Inner { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// Locks the state.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.changed.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.changed.notify_all();
    }

    /// Wakes all waiting threads when `call` is cancelled, until the returned registration is dropped. The state may be
    /// locked. The caller must check the call after registering.
    #[must_use]
    pub fn woken_by(&self, call: &CallScope<'_>) -> Registration {
        let inner = Arc::clone(&self.0);
        call.token.on_cancel(move || {
            // Locking orders this wake-up after each check of a thread that is about to wait: the thread has either
            // seen the cancellation or is already waiting.
            drop(inner.lock());
            inner.changed.notify_all();
        })
    }

    /// Waits for a notification, at most until `until`.
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
