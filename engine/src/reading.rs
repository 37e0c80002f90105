//! Reading: everything asked of a snapshot, which never changes.
//!
//! Owns look-ups, searches and walks over the parts of a store as of one commit, and the two axes of
//! time. Knows nothing of how the parts came to be, nor of who writes.

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
