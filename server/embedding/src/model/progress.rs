//! Progress reports of a long fetch, without any knowledge of terminals (`bar.rs`).

/// Receives progress reports of a fetch.
pub trait Progress {
    /// Reports a sentence for people: the next attempt, or a fault that was repaired.
    fn say(&mut self, message: &str);

    /// Reports `done` of `total` bytes of `what`; `total` is `None` while unknown. Called once per piece read, so an
    /// implementation must be cheap.
    fn advance(&mut self, what: &str, done: u64, total: Option<u64>);
}

/// Ignores all reports.
#[derive(Debug, Default, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {
    fn say(&mut self, _message: &str) {}
    fn advance(&mut self, _what: &str, _done: u64, _total: Option<u64>) {}
}
