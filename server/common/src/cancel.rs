//! Calling work off, waking those who wait meanwhile, and being told how far work has come.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Says whether a call's answer is still wanted. Clones speak of the same call.
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

/// A waker of a token, until it is dropped.
pub struct Registration {
    token: CancellationToken,
    number: u64,
}

impl CancellationToken {
    /// A token of a call that goes on.
    pub fn new() -> CancellationToken {
        CancellationToken::default()
    }

    /// Says that the answer is no longer wanted, and wakes whoever waits.
    pub fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::SeqCst);
        // Called without the lock: a waker takes the lock of those whom it wakes, and they register under it.
        let wakers: Vec<Wake> =
            self.wakers().registered.iter().map(|(_, wake)| Arc::clone(wake)).collect();
        wakers.iter().for_each(|wake| wake());
    }

    /// Returns true if the answer is no longer wanted. Long work asks this now and then.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::SeqCst)
    }

    /// Has `wake` called when the token is cancelled. Whoever registers asks [`Self::is_cancelled`] once more behind
    /// it: a token that was cancelled before wakes nobody.
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

/// How long a call's work goes on: until it is called off, or its time is up.
#[derive(Clone, Copy)]
pub struct CallScope<'a> {
    /// Cancelled when the answer is no longer wanted.
    pub token: &'a CancellationToken,
    /// When the call must have ended, if ever.
    pub deadline: Option<Instant>,
}

impl CallScope<'static> {
    /// That of work which nobody calls off.
    pub fn endless() -> Self {
        static NEVER: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);
        Self { token: &NEVER, deadline: None }
    }
}

impl CallScope<'_> {
    /// Returns true if nobody waits for the work any more.
    pub fn is_over(&self) -> bool {
        self.token.is_cancelled()
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// Told how far a long call has come: done, of how many, and what is being done.
pub type Progress<'a> = &'a (dyn Fn(u64, u64, &str) + Sync);

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

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
