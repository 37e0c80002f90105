//! Waiting for another thread or process, with a timeout that only a stalled machine exceeds.

use std::thread;
use std::time::{Duration, Instant};

/// Timeout of every wait.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until the condition is true.
///
/// # Panics
/// The condition is false for longer than [`PATIENCE`].
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::yield_now();
    }
}
