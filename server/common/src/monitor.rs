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

/// Counts events that threads wait for (an eventcount). Clones share the count.
#[derive(Debug, Clone)]
pub struct EventCount(Monitor<u64>);

impl Default for EventCount {
    fn default() -> Self {
        Self(Monitor::new(0))
    }
}

impl EventCount {
    /// Counts an event and wakes all waiting threads.
    pub fn advance(&self) {
        *self.0.lock() += 1;
        self.0.notify_all();
    }

    /// Returns the first result of `check`, which runs at once and again after events; `None` if the call is over
    /// before.
    pub fn wait_for<T>(
        &self,
        call: &CallScope<'_>,
        mut check: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let _woken = self.0.woken_by(call);
        loop {
            // Read before the check: an event during the check leads to another one.
            let seen = *self.0.lock();
            if let Some(found) = check() {
                return Some(found);
            }
            let mut count = self.0.lock();
            while *count == seen {
                if call.is_over() {
                    return None;
                }
                count = self.0.wait_until(count, call.deadline);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::cancel::CancellationToken;

    #[test]
    fn a_check_runs_again_after_an_event_and_until_the_call_is_over() {
        let (events, token) = (EventCount::default(), CancellationToken::new());
        let (endless, value) = (CallScope { token: &token, deadline: None }, AtomicU32::new(0));
        let check = || Some(value.load(Ordering::SeqCst)).filter(|&value| value == 2);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| events.wait_for(&endless, check));
            for _ in 0..2 {
                value.fetch_add(1, Ordering::SeqCst);
                events.advance();
            }
            assert_eq!(waiting.join().unwrap(), Some(2));
            let waiting = scope.spawn(|| events.wait_for(&endless, || None::<()>));
            token.cancel();
            assert_eq!(waiting.join().unwrap(), None);
        });
        let token = CancellationToken::new();
        let deadline = Instant::now() + Duration::from_millis(20);
        let late = CallScope { token: &token, deadline: Some(deadline) };
        assert_eq!(events.wait_for(&late, || None::<()>), None);
        assert!(Instant::now() >= deadline);
        assert_eq!(events.wait_for(&late, check), Some(2), "the first check comes before the end");
    }
}
