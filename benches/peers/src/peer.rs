//! Operations that a benchmark can run on every engine.

use crate::corpus::{Edge, Item, Outcome};

/// An engine open for writing.
pub trait Appender: Sync {
    /// Stores all of `items` in one transaction, durably: when the call returns, they survive a power cut.
    fn append(&self, items: &[Item]) -> Outcome<()>;
    /// Stores `edges` durably in one transaction; an engine without edges does nothing.
    fn append_edges(&self, _edges: &[Edge]) -> Outcome<()> {
        Ok(())
    }
    /// Brings the files to their final form: sealed, merged, checkpointed.
    fn finish(&self) -> Outcome<()> {
        Ok(())
    }
}

/// An engine open for reading.
pub trait Reader {
    /// Finds an item by its id and returns the length of its text in bytes.
    fn text_bytes(&self, number: u64) -> Outcome<usize>;
    /// Returns the ids of the `limit` best items for the words of a query, best first.
    fn best(&self, _question: &str, _limit: usize) -> Outcome<Vec<u128>> {
        Err("this engine has no index of words".into())
    }
    /// Counts the other items that are one or two edges away, in either direction.
    fn two_hops(&self, _number: u64) -> Outcome<usize> {
        Err("this engine has no edges".into())
    }
}
