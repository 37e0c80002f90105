//! Interface of a storage for record logs: numbered records, each created once; a low watermark below which records may
//! be removed; and the heartbeats of nodes. The storage is an object store that honours `If-None-Match: *`, or etcd.

#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub(crate) mod objects;

use std::fmt::Debug;
use std::time::Duration;

use crate::beat::Beat;
use crate::edge::Edge;
use crate::names::Tenant;
use crate::objects::{Away, Tried};

/// Record logs of all workspaces. Every call blocks and has a deadline of its own.
pub trait Chain: Send + Sync + Debug {
    /// Creates record `number` in one attempt, which no lower layer repeats. Returns `Indeterminate` if the number has
    /// a record already.
    fn create(&self, tenant: &Tenant, number: u64, bytes: &[u8]) -> Tried;

    /// Bytes of record `number`; `None` if there is no such record.
    ///
    /// # Errors
    /// The storage did not respond.
    fn read(&self, tenant: &Tenant, number: u64) -> Result<Option<Vec<u8>>, Away>;

    /// Age of record `number` by the storage's clock; `None` if the storage does not report ages.
    ///
    /// # Errors
    /// The storage did not respond, or there is no such record.
    fn age(&self, tenant: &Tenant, number: u64) -> Result<Option<Duration>, Away>;

    /// First `most` record numbers above `after`, ascending.
    ///
    /// # Errors
    /// The storage did not respond.
    fn numbers(&self, tenant: &Tenant, after: u64, most: usize) -> Result<Vec<u64>, Away>;

    /// Highest low watermark; its boundary is 0 if none was published.
    ///
    /// # Errors
    /// The storage did not respond, or the watermark breaks rule REM-20.
    fn edge(&self, tenant: &Tenant) -> Result<Edge, Away>;

    /// Publishes a low watermark. Returns `Indeterminate` if its version exists already.
    fn raise_edge(&self, tenant: &Tenant, edge: &Edge) -> Tried;

    /// Removes records.
    ///
    /// # Errors
    /// Some records may still exist.
    fn remove(&self, tenant: &Tenant, numbers: &[u64]) -> Result<(), Away>;

    /// Publishes a heartbeat of this node.
    ///
    /// # Errors
    /// The storage did not respond: other nodes may or may not have received the heartbeat.
    fn beat(&self, beat: &Beat) -> Result<(), Away>;

    /// Heartbeats of all nodes.
    ///
    /// # Errors
    /// The storage did not respond.
    fn beats(&self) -> Result<Vec<Beat>, Away>;

    /// Returns true if the storage itself refuses a creation at or below the watermark, or by a node whose heartbeat
    /// has expired. The watermark then need not be read after a creation (rule REM-31).
    fn guards_edge(&self) -> bool;
}
