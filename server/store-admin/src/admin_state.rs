//! The state that jobs on whole stores use: backups, erasures, the purge of deleted workspaces.

use std::path::PathBuf;
use std::sync::Arc;

use engine::os::clock::{Clock, Random};

use crate::scheduled::Scheduled;
use recalld_cluster::control_chain::ControlChain;
use recalld_cluster::seats::Seats;
use recalld_metastore::Control;
use recalld_workspace::local::Local;
use recalld_workspace::tenants::Tenants;

/// State shared by the service and the threads that work on whole stores.
pub struct StoreAdmin {
    /// The data directory.
    pub data: PathBuf,
    /// The operator's workspace.
    pub local: Arc<Local>,
    /// The tenants' workspaces.
    pub tenants: Arc<Tenants>,
    /// The metastore: tenants, credentials, clients, grants and usage.
    pub control: Arc<Control>,
    /// The replicated metastore of nodes that share a secret.
    pub control_chain: Option<Arc<ControlChain>>,
    /// This node's replicas of workspaces on a remote, if a remote is configured.
    pub seats: Option<Arc<Seats>>,
    /// The backup schedule and its results.
    pub scheduled: Arc<Scheduled>,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Source of randomness.
    pub random: Arc<dyn Random>,
}
