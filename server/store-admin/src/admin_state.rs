//! The parts of a server that jobs on whole stores use: backups, erasures, the emptying of deleted workspaces.

use std::path::PathBuf;
use std::sync::Arc;

use engine::os::clock::{Clock, Random};

use crate::scheduled::Scheduled;
use recalld_cluster::control_chain::ControlChain;
use recalld_cluster::seats::Seats;
use recalld_metastore::Control;
use recalld_workspace::local::Local;
use recalld_workspace::tenants::Tenants;

/// Shared by the service and the threads that work on whole stores.
pub struct StoreAdmin {
    /// The data directory.
    pub data: PathBuf,
    /// The operator's workspace.
    pub local: Arc<Local>,
    /// Those of tenants.
    pub tenants: Arc<Tenants>,
    /// Tenants, credentials, clients, grants and usage.
    pub control: Arc<Control>,
    /// The replicated control store of nodes that share a secret.
    pub control_chain: Option<Arc<ControlChain>>,
    /// The roles of this node for workspaces on a remote, where there is one.
    pub seats: Option<Arc<Seats>>,
    /// Backups that are made again and again.
    pub scheduled: Arc<Scheduled>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
}
