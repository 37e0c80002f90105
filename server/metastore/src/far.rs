//! What carries the control store away from this machine, as far as the store has to know it.
//!
//! Owns the words between the two. Must not know chains, nodes or networks.

use super::error::ControlError;
use super::last_checkpoint::LastCheckpoint;
use super::operations::Operations;

/// Carries what is changed to where all nodes have it from, and knows whether what is here may be told.
pub trait Far: Send + Sync {
    /// Whether what is here may be answered with.
    ///
    /// # Errors
    /// It is too old, or nobody can tell how old it is.
    fn may_read(&self) -> Result<(), ControlError>;

    /// Whether this node may change something now; asked before a transaction begins.
    ///
    /// # Errors
    /// Another node changes it.
    fn may_write(&self) -> Result<(), ControlError>;

    /// Returns once all nodes will have these changes. Gives what is to be kept beside them, in the same transaction.
    /// One at a time, which comes right after the one before.
    ///
    /// # Errors
    /// They will not, or nobody knows. This store then changes nothing; where they will all the same, they come back
    /// by [`Control::apply`](super::Control::apply).
    fn carry(&self, operations: &Operations) -> Result<Vec<u8>, ControlError>;

    /// What was carried last did not come into this store.
    fn missed(&self);
}

/// Does for this node what only the one that changes the store can.
pub trait Elsewhere: Send + Sync {
    /// What this node is called.
    fn node(&self) -> &str;

    /// Notes the last checkpoint of a ledger of this node.
    ///
    /// # Errors
    /// It was not noted, or nobody knows.
    fn put_anchor(&self, slug: &str, last: &LastCheckpoint) -> Result<(), ControlError>;
}
