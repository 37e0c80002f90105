//! Calling work off, and being told how far it has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says whether a call's answer is still wanted. Clones speak of the same call.
#[derive(Clone, Debug, Default)]
pub struct CancellationToken(Arc<AtomicBool>);

impl CancellationToken {
    /// A flag that is not raised.
    pub fn new() -> CancellationToken {
        CancellationToken::default()
    }

    /// Says that the answer is no longer wanted.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the answer is no longer wanted. Long work asks this now and then.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Told how far a long call has come: done, of how many, and what is being done.
pub type Progress<'a> = &'a (dyn Fn(u64, u64, &str) + Sync);
