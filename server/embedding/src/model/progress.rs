//! How a long fetch tells the one who waits. Knows nothing of terminals; `bar.rs` does.

/// Hears how far a fetch is.
pub trait Progress {
    /// A sentence for people: what is tried next, or what went wrong and was put right.
    fn say(&mut self, message: &str);

    /// `done` of `total` bytes of `what` are here; `total` is `None` while nobody knows it. Called once per
    /// piece read, so an implementation must be cheap.
    fn advance(&mut self, what: &str, done: u64, total: Option<u64>);
}

/// Hears and says nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {
    fn say(&mut self, _message: &str) {}
    fn advance(&mut self, _what: &str, _done: u64, _total: Option<u64>) {}
}
