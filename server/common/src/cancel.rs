//! Cancellation of work, with wake-up of waiting threads, and reporting of progress.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::monitor::EventCount;

/// Signals that a call's answer is no longer wanted. Clones belong to the same call.
#[derive(Clone, Default)]
pub struct CancellationToken(Arc<Shared>);

#[derive(Default)]
struct Shared {
    is_cancelled: AtomicBool,
    wakers: Mutex<Wakers>,
}

type Wake = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Wakers {
    next: u64,
    registered: Vec<(u64, Wake)>,
}

/// A registered waker of a token; dropping the registration removes the waker.
pub struct Registration {
    token: CancellationToken,
    number: u64,
}

impl CancellationToken {
    /// Creates a token that is not cancelled.
    pub fn new() -> CancellationToken {
        CancellationToken::default()
    }

    /// Cancels the token and runs the registered wakers.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::SeqCst);
        // Run without the lock: a waker takes the lock of the waiting threads, and these register while holding that
        // lock.
        let wakers: Vec<Wake> =
            self.wakers().registered.iter().map(|(_, wake)| Arc::clone(wake)).collect();
        wakers.iter().for_each(|wake| wake());
    }

    /// Returns true if the token is cancelled. Long work polls this.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::SeqCst)
    }

    /// Waits for `length`, or until the token is cancelled. Returns true if the token is cancelled.
    pub fn wait(&self, length: Duration) -> bool {
        let call = CallScope { token: self, deadline: Some(Instant::now() + length) };
        EventCount::default().wait_for(&call, || None::<()>);
        self.is_cancelled()
    }

    /// Registers `wake` to run on cancellation. The caller must check [`Self::is_cancelled`] after registering: a token
    /// that was cancelled before runs no waker.
    pub fn on_cancel(&self, wake: impl Fn() + Send + Sync + 'static) -> Registration {
        let mut wakers = self.wakers();
        let number = wakers.next;
        wakers.next += 1;
        wakers.registered.push((number, Arc::new(wake)));
        Registration { token: self.clone(), number }
    }

    fn wakers(&self) -> MutexGuard<'_, Wakers> {
        self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CancellationToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("CancellationToken").field(&self.is_cancelled()).finish()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.token.wakers().registered.retain(|(number, _)| *number != self.number);
    }
}

/// A cancellation token with a deadline, which long work polls.
#[derive(Clone, Copy)]
pub struct CallScope<'a> {
    /// Cancelled when the answer is no longer wanted.
    pub token: &'a CancellationToken,
    /// Time by which the call must have ended; `None` for no limit.
    pub deadline: Option<Instant>,
}

impl CallScope<'static> {
    /// Creates a scope that is never cancelled and has no deadline.
    pub fn endless() -> Self {
        static NEVER: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);
        Self { token: &NEVER, deadline: None }
    }
}

impl CallScope<'_> {
    /// Returns true if the call is cancelled or its deadline has passed.
    pub fn is_over(&self) -> bool {
        self.token.is_cancelled()
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// Callback for the progress of a long call: units done, units in total, and the current step.
pub type Progress<'a> = &'a (dyn Fn(u64, u64, &str) + Sync);

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    #[test]
    fn a_wait_lasts_until_its_end_or_the_cancellation() {
        let token = CancellationToken::new();
        let length = Duration::from_millis(20);
        let began = Instant::now();
        assert!(!token.wait(length));
        assert!(began.elapsed() >= length);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| token.wait(Duration::from_secs(600)));
            token.cancel();
            assert!(waiting.join().unwrap());
        });
        assert!(token.wait(Duration::from_secs(600)), "a cancelled token is not waited for");
    }

    #[test]
    fn a_waker_is_called_once_and_not_after_its_registration() {
        let (token, woken) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let wake = |token: &CancellationToken| {
            let woken = Arc::clone(&woken);
            token.on_cancel(move || {
                woken.fetch_add(1, Ordering::SeqCst);
            })
        };
        drop(wake(&token));
        let _stays = wake(&token);
        token.clone().cancel();
        assert!(token.is_cancelled());
        assert_eq!(woken.load(Ordering::SeqCst), 1);
        let scope = CallScope { token: &token, deadline: None };
        assert!(scope.is_over());
        let goes_on = CancellationToken::new();
        assert!(!CallScope { token: &goes_on, deadline: None }.is_over());
        assert!(CallScope { token: &goes_on, deadline: Some(Instant::now()) }.is_over());
    }
}
