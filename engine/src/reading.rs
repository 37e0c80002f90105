//! Reads of a snapshot: look-ups, searches and traversals over the segments of a store as of one commit.
//!
//! A snapshot never changes. Reads are evaluated as of a transaction time and a valid time, and are independent of how
//! the segments were made and of the writer.

pub(crate) mod by_segment;
pub(crate) mod filter;
pub(crate) mod gone;
pub(crate) mod graph;
pub(crate) mod hidden;
pub(crate) mod moment;
pub(crate) mod places;
pub(crate) mod recorded;
pub(crate) mod resume;
pub(crate) mod score;
pub(crate) mod searching;
pub(crate) mod snapshot;
pub(crate) mod sources;
pub(crate) mod supersede;
pub(crate) mod walk;

limit_table::limits! {
    pub(crate) const LIMITS = [graph, hidden, places, score, supersede];
}
