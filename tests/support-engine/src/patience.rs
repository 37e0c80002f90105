//! Waiting for what another thread or process does, within a bound that only a machine that stands still exceeds.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything is waited for.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again and again until it is so.
///
/// # Panics
/// It is not so within [`PATIENCE`].
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::yield_now();
    }
}
