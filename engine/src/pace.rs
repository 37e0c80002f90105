//! How fast a job may go on: the tap between background work and everything else.
//!
//! Owns the question and the trivial answer; what a real pace weighs is upkeep's.

/// How fast a job may go on. It is asked after every piece that was written,
/// and every few milliseconds where the making of a piece takes long.
pub trait Pace: Sync {
    /// `bytes` were written; waits as long as they ought to have taken. `false` ends the job. With 0
    /// bytes a move to another model is between two segments, and holds nothing.
    fn wrote(&self, bytes: usize) -> bool;

    /// Work was done that has put no bytes yet; the same otherwise. A pace that only counts bytes has
    /// nothing to do here.
    fn worked(&self) -> bool {
        true
    }
}

/// As fast as the machine is.
#[derive(Debug, Clone, Copy, Default)]
pub struct FullSpeed;

impl Pace for FullSpeed {
    fn wrote(&self, _bytes: usize) -> bool {
        true
    }
}
