//! What every engine can be asked in a benchmark.

use crate::corpus::{Edge, Item, Outcome};

/// An engine open for writing.
pub trait Appender: Sync {
    /// Stores all of `items` in one transaction; when this returns they survive a power cut.
    fn append(&self, items: &[Item]) -> Outcome<()>;
    /// The same for edges; an engine without them has nothing to do.
    fn append_edges(&self, _edges: &[Edge]) -> Outcome<()> {
        Ok(())
    }
    /// Brings the files to the form in which they rest: sealed, merged, checkpointed.
    fn finish(&self) -> Outcome<()> {
        Ok(())
    }
}

/// An engine open for reading.
pub trait Reader {
    /// Finds an item by its id and says how long its text is.
    fn text_bytes(&self, number: u64) -> Outcome<usize>;
    /// Ids of the `limit` items that answer the words of a question best, best first.
    fn best(&self, _question: &str, _limit: usize) -> Outcome<Vec<u128>> {
        Err("this engine has no index of words".into())
    }
    /// How many other items are one or two edges away, whichever way the edges run.
    fn two_hops(&self, _number: u64) -> Outcome<usize> {
        Err("this engine has no edges".into())
    }
}
