//! Long-lived components of a running service, shared by all calls.

use std::net::IpAddr;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::os::clock::{Clock, Random};

use crate::console::Sessions;
use recalld_auth::{Checker, ClusterSecret};
use recalld_cluster::control_chain::ControlChain;
use recalld_cluster::seats::Seats;
use recalld_cluster::{Cluster, NotHere};
use recalld_common::cancel::CancellationToken;
use recalld_common::wants::Wants;
use recalld_config::Config;
use recalld_documents::PdfReader;
use recalld_embedding::encoding::Encoding;
use recalld_mail::MailQueue;
use recalld_metastore::Control;
use recalld_oauth::OAuthContext;
use recalld_oauth::authority::Authority;
use recalld_policy::Caller;
use recalld_policy::meter::Meter;
use recalld_policy::rate::{Buckets, Guesses, RetryAfter};
use recalld_recall::Threads;
use recalld_store_admin::{Scheduled, StoreAdmin};
use recalld_telemetry::log::Said;
use recalld_telemetry::metrics::Stages;
use recalld_tool_framework::{ServiceError, ToolServices};
use recalld_tools::CATALOG;
use recalld_workspace::local::Local;
use recalld_workspace::tenants::{Closed, Lease, Tenants};
use recalld_workspace::workspace::Workspace;

/// Components of the service that calls use.
pub struct AppState {
    /// Components for jobs on whole stores.
    pub admin: Arc<StoreAdmin>,
    /// The data directory.
    pub data: PathBuf,
    /// The operator's workspace, `local`; always open.
    pub local: Arc<Local>,
    /// Workspaces of tenants, opened on demand.
    pub tenants: Arc<Tenants>,
    /// The metastore: tenants, credentials, clients, grants, usage. Opened on first use.
    pub control: Arc<Control>,
    /// Replicates the metastore between nodes; `None` if the node has no cluster secret.
    pub control_chain: Option<Arc<ControlChain>>,
    /// The secret shared by all nodes of the cluster, if one is configured.
    pub secret: Option<Arc<ClusterSecret>>,
    /// Issues access tokens; `None` if the hosted listener has no public URL.
    pub authority: Option<Authority>,
    /// Sends mails; `None` if the settings name no mail server.
    pub mail: Option<MailQueue>,
    /// The settings.
    pub config: Config,
    /// Token buckets by credential.
    pub rates: Buckets,
    /// Token buckets by site, for public endpoints. Separate from `rates`, so that strangers evict no bucket of a
    /// credential.
    pub strangers: Buckets,
    /// Recent failed credentials by client address.
    pub guesses: Guesses,
    /// Sessions of the operator in the console.
    pub console: Sessions,
    /// Quotas of calls.
    pub meter: Meter,
    /// Scheduled backups.
    pub scheduled: Arc<Scheduled>,
    /// Replicas of the workspaces on this node; `None` if no remote is configured.
    pub seats: Option<Arc<Seats>>,
    /// Threads that scan the rows of a vector search in parallel.
    pub threads: Threads,
    /// The cluster of this node; `None` if this node is the leader of every workspace.
    pub cluster: Option<Cluster>,
    /// Reads PDFs in a separate process.
    pub pdf: Option<PdfReader>,
    /// Configuration of the embedding and of the vector comparison.
    pub encoding: Encoding,
    /// Finds the owner of a credential.
    pub checker: Checker,
    /// Throttles log messages about faults that affect every request.
    pub said: Said,
    /// Latencies of the stages of a call.
    pub stages: Stages,
    /// Maximum duration of a tool call.
    pub call_time_max: Duration,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// Source of random bytes.
    pub random: Arc<dyn Random>,
    /// Start time of the service.
    pub started: Instant,
}

impl AppState {
    /// Components that tools use.
    pub fn tool_services(&self) -> ToolServices<'_> {
        ToolServices {
            catalog: CATALOG,
            data: &self.data,
            control: &self.control,
            control_chain: self.control_chain.as_deref(),
            encoding: self.encoding,
            meter: &self.meter,
            rates: &self.rates,
            pdf: self.pdf.as_ref(),
            issuer: self.authority.as_ref().map(|authority| authority.places.issuer()),
            said: &self.said,
            stages: &self.stages,
            call_time_max: self.call_time_max,
            clock: &*self.clock,
            started: self.started,
        }
    }

    /// Components that the authorization server uses for a call from `client_address`.
    pub fn oauth(&self, client_address: IpAddr) -> OAuthContext<'_> {
        OAuthContext {
            authority: self.authority.as_ref(),
            control: &self.control,
            tenants: &self.tenants,
            config: &self.config,
            rates: &self.rates,
            strangers: &self.strangers,
            guesses: &self.guesses,
            clock: &*self.clock,
            random: &*self.random,
            client_address,
        }
    }

    /// Returns the caller's workspace, open as long as the guard lives.
    ///
    /// # Errors
    /// The workspace is not open and cannot be opened.
    pub fn workspace_of(&self, caller: &Caller) -> Result<Held, Closed> {
        if caller.workspace == self.local.name() {
            return Ok(Held::Local(self.local.get()));
        }
        self.tenants.open(&caller.workspace).map(Held::Tenant)
    }

    /// Returns the caller's workspace if it is open already.
    pub fn workspace_if_open(&self, caller: &Caller) -> Option<Held> {
        if caller.workspace == self.local.name() {
            return Some(Held::Local(self.local.get()));
        }
        self.tenants.if_open(&caller.workspace).map(Held::Tenant)
    }

    /// In a cluster, opens the workspace if it is closed: its leader is known only while the workspace is open.
    ///
    /// # Errors
    /// The workspace cannot be opened.
    pub fn locate(&self, workspace: &str) -> Result<(), Closed> {
        match self.is_located(workspace) {
            true => Ok(()),
            false => self.tenants.open(workspace).map(drop),
        }
    }

    /// Returns true if the leader of an open workspace is known. The result is valid until the workspace is closed.
    pub fn is_located(&self, workspace: &str) -> bool {
        let is_known = self.cluster.is_none() || workspace == self.local.name();
        is_known || self.tenants.if_open(workspace).is_some()
    }

    /// Checks that a call may use a located workspace on this node. Returns the staleness in seconds if another node is
    /// the leader.
    ///
    /// # Errors
    /// The workspace belongs to another node, or the local copy is too stale.
    pub fn reach(
        &self,
        workspace: &str,
        wants: Wants,
        cancel: &CancellationToken,
    ) -> Result<Option<u64>, NotHere> {
        self.cluster.as_ref().map_or(Ok(None), |cluster| cluster.reach(workspace, wants, cancel))
    }

    /// Opens the caller's workspace on this node. Returns the staleness in seconds as well if another node is the
    /// leader. The wait for a lease ends when `cancel` is cancelled.
    ///
    /// # Errors
    /// The workspace cannot be opened, it belongs to another node, or the local copy is too stale.
    pub fn enter(
        &self,
        caller: &Caller,
        wants: Wants,
        cancel: &CancellationToken,
    ) -> Result<(Held, Option<u64>), ServiceError> {
        let closed = |closed| self.elsewhere(&caller.workspace, closed, cancel);
        if wants == Wants::Reads {
            // The workspace is pinned first, because the staleness must hold for the data that is read afterwards.
            let held = self.workspace_of(caller).map_err(closed)?;
            return Ok((held, self.reach(&caller.workspace, wants, cancel)?));
        }
        self.locate(&caller.workspace).map_err(closed)?;
        // The workspace is not pinned while `reach` waits for the lease: a workspace in use cannot be reopened as the
        // leader.
        let stale = self.reach(&caller.workspace, wants, cancel)?;
        Ok((self.workspace_of(caller).map_err(closed)?, stale))
    }

    /// Builds the error for a workspace that cannot be opened. If the leader is known, the error names the leader.
    fn elsewhere(
        &self,
        workspace: &str,
        closed: Closed,
        cancel: &CancellationToken,
    ) -> ServiceError {
        match self.reach(workspace, Wants::Reads, cancel) {
            Err(by @ NotHere::WrittenBy(_)) => by.into(),
            _ => closed.into(),
        }
    }

    /// Closes the ledgers and all unused workspaces. No call is answered afterwards.
    pub fn close(&self) {
        self.local.get().audit.close();
        self.tenants.close_idle(Duration::ZERO);
    }

    /// Takes one call from the token bucket of the caller's credential.
    ///
    /// # Errors
    /// The bucket is empty; the error contains the time to wait.
    pub fn limit(&self, caller: &Caller) -> Result<(), RetryAfter> {
        let (Some(metered), Some(rate)) = (&caller.metered, caller.entitled.rate) else {
            return Ok(());
        };
        self.rates.take(&metered.bucket, rate, Instant::now())
    }
}

/// A guard that keeps a workspace open.
pub enum Held {
    /// The operator's workspace.
    Local(Arc<Workspace>),
    /// A tenant's workspace.
    Tenant(Lease),
}

impl Deref for Held {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        match self {
            Self::Local(workspace) => workspace,
            Self::Tenant(lease) => lease,
        }
    }
}
