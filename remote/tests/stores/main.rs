//! Real stores and what becomes of them on a storage: carried, followed, taken over, brought back.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod carry;
mod erasing;
mod filling;
mod keeping;
mod ledgers;
mod memory;
#[path = "../both/plain.rs"]
mod plain;
mod seats;

use std::time::{Duration, Instant};

/// How long anything may take here.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::yield_now();
    }
}
