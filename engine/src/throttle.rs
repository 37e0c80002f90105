//! Throttling of background work in favour of requests. The real throttle is that of the maintenance workers.

/// Limits the speed of a job. Called after each chunk written, and every few milliseconds while a chunk takes long to
/// compute.
pub trait Throttle: Sync {
    /// Accounts for `bytes` written: waits as long as they should have taken, and returns false to cancel the job.
    /// Re-embedding passes 0 bytes between two segments, while it holds no lock.
    fn after_write(&self, bytes: usize) -> bool;

    /// Accounts for work that has written no bytes yet; returns false to cancel the job. A throttle that only counts
    /// bytes need not implement it.
    fn after_work(&self) -> bool {
        true
    }
}

/// A throttle that never waits.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoThrottle;

impl Throttle for NoThrottle {
    fn after_write(&self, _bytes: usize) -> bool {
        true
    }
}
