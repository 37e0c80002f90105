//! What is asked of whatever keeps the chains: numbered records of which each is created once, a boundary
//! below which they may be removed, and the beats of nodes. An object store that honours
//! `If-None-Match: *` does, or etcd.

#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub(crate) mod objects;

use std::fmt::Debug;
use std::time::Duration;

use crate::beat::Beat;
use crate::edge::Edge;
use crate::names::Tenant;
use crate::objects::{Away, Tried};

/// The chains of all workspaces. Every call blocks and has a deadline of its own.
pub trait Chain: Send + Sync + Debug {
    /// Creates record `number`, in one attempt that nothing below repeats. `Unsure` where there is one
    /// already.
    fn create(&self, tenant: &Tenant, number: u64, bytes: &[u8]) -> Tried;

    /// The bytes of record `number`; `None` where there is none.
    ///
    /// # Errors
    /// No answer.
    fn read(&self, tenant: &Tenant, number: u64) -> Result<Option<Vec<u8>>, Away>;

    /// How long ago record `number` was made by the clock of whatever keeps the chain; `None` where that does not say.
    ///
    /// # Errors
    /// No answer, or there is no such record.
    fn age(&self, tenant: &Tenant, number: u64) -> Result<Option<Duration>, Away>;

    /// The first `most` numbers above `after` that have a record, ascending.
    ///
    /// # Errors
    /// No answer.
    fn numbers(&self, tenant: &Tenant, after: u64, most: usize) -> Result<Vec<u64>, Away>;

    /// The highest edge, which is at 0 where there is none.
    ///
    /// # Errors
    /// No answer, or one that breaks rule REM-20.
    fn edge(&self, tenant: &Tenant) -> Result<Edge, Away>;

    /// Puts an edge there. `Unsure` where there is one at its place already.
    fn raise_edge(&self, tenant: &Tenant, edge: &Edge) -> Tried;

    /// Removes records.
    ///
    /// # Errors
    /// Some may be there still.
    fn remove(&self, tenant: &Tenant, numbers: &[u64]) -> Result<(), Away>;

    /// Says that this node lives.
    ///
    /// # Errors
    /// No answer: whoever looks may have seen it, or not.
    fn beat(&self, beat: &Beat) -> Result<(), Away>;

    /// The beats of all nodes.
    ///
    /// # Errors
    /// No answer.
    fn beats(&self) -> Result<Vec<Beat>, Away>;

    /// Whether a creation at or below the edge, or by a node whose beat has lapsed, is refused by the store
    /// itself, so that nobody has to look afterwards (rule REM-31).
    fn guards_edge(&self) -> bool;
}
