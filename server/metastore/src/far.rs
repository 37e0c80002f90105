//! Replication hooks of the metastore.
//!
//! Owns the interface only. Must not know record logs, nodes or networks.

use super::error::ControlError;
use super::last_checkpoint::LastCheckpoint;
use super::operations::Operations;

/// Change sink: replicates change sets, and knows whether the local replica is fresh enough to be read.
pub trait Far: Send + Sync {
    /// Checks that the local replica may be read.
    ///
    /// # Errors
    /// The replica is too stale, or its staleness is unknown.
    fn may_read(&self) -> Result<(), ControlError>;

    /// Checks that this node is the leader. Called before a transaction begins.
    ///
    /// # Errors
    /// Another node is the leader.
    fn may_write(&self) -> Result<(), ControlError>;

    /// Replicates a change set, and returns once it is durable for all nodes. Returns the replication position to be
    /// committed in the same transaction. Called sequentially; change sets follow each other without a gap.
    ///
    /// # Errors
    /// The replication failed, or its outcome is unknown. The local transaction is then aborted. If the change set was
    /// replicated after all, it arrives by [`Control::apply`](super::Control::apply).
    fn carry(&self, operations: &Operations) -> Result<Vec<u8>, ControlError>;

    /// Reports that the local commit of the last replicated change set failed.
    fn missed(&self);
}

/// Leader client: performs operations that only the leader can perform.
pub trait Elsewhere: Send + Sync {
    /// The name of this node.
    fn node(&self) -> &str;

    /// Records the last checkpoint of a ledger of this node.
    ///
    /// # Errors
    /// The checkpoint was not recorded, or the outcome is unknown.
    fn put_anchor(&self, slug: &str, last: &LastCheckpoint) -> Result<(), ControlError>;
}
