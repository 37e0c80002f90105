//! What a running service is made of: long-lived components, handed to every call.

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

/// Everything that calls need.
pub struct AppState {
    /// The parts that jobs on whole stores use.
    pub admin: Arc<StoreAdmin>,
    /// The data directory.
    pub data: PathBuf,
    /// The operator's workspace, `local`; open all the time.
    pub local: Arc<Local>,
    /// Those of tenants, opened when they are needed.
    pub tenants: Arc<Tenants>,
    /// Tenants, credentials, clients, grants, usage; opened by the first who needs it.
    pub control: Arc<Control>,
    /// What makes that store one of several nodes', where they share a secret.
    pub control_chain: Option<Arc<ControlChain>>,
    /// The secret that this node shares with others, if it does.
    pub secret: Option<Arc<ClusterSecret>>,
    /// Issues access tokens, where the hosted listener has an address known from outside.
    pub authority: Option<Authority>,
    /// Sends letters, where the settings say by which server.
    pub mail: Option<MailQueue>,
    /// The settings.
    pub config: Config,
    /// How often each credential called lately.
    pub rates: Buckets,
    /// How often each site asked lately for what anybody may: apart, so that strangers push out no credential's.
    pub strangers: Buckets,
    /// Wrong credentials lately.
    pub guesses: Guesses,
    /// Who administers in a browser.
    pub console: Sessions,
    /// Calls out of quotas.
    pub meter: Meter,
    /// Backups that are made again and again.
    pub scheduled: Arc<Scheduled>,
    /// The workspaces' places on a remote, where there is one.
    pub seats: Option<Arc<Seats>>,
    /// Share out the rows of a pass.
    pub threads: Threads,
    /// This node among others; `None` where every workspace is written here.
    pub cluster: Option<Cluster>,
    /// What reads PDFs, in a process of its own.
    pub pdf: Option<PdfReader>,
    /// How texts become vectors, and how vectors are compared.
    pub encoding: Encoding,
    /// Who a credential belongs to.
    pub checker: Checker,
    /// What the log was told of faults that everybody meets.
    pub said: Said,
    /// How long each step of answering took.
    pub stages: Stages,
    /// The longest that a tool call may take.
    pub call_time_max: Duration,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// When the service started.
    pub started: Instant,
}

impl AppState {
    /// The parts that tools use.
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

    /// The parts that the authorization server uses for a call from `client_address`.
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

    /// The workspace of a caller, which stays open while this is there.
    ///
    /// # Errors
    /// It is not open, and could not be opened.
    pub fn workspace_of(&self, caller: &Caller) -> Result<Held, Closed> {
        if caller.workspace == self.local.name() {
            return Ok(Held::Local(self.local.get()));
        }
        self.tenants.open(&caller.workspace).map(Held::Tenant)
    }

    /// The same, only if it is open.
    pub fn workspace_if_open(&self, caller: &Caller) -> Option<Held> {
        if caller.workspace == self.local.name() {
            return Some(Held::Local(self.local.get()));
        }
        self.tenants.if_open(&caller.workspace).map(Held::Tenant)
    }

    /// Opens a workspace that is not, where this node is one of several: who writes it is known only then.
    ///
    /// # Errors
    /// It does not open.
    pub fn locate(&self, workspace: &str) -> Result<(), Closed> {
        match self.is_located(workspace) {
            true => Ok(()),
            false => self.tenants.open(workspace).map(drop),
        }
    }

    /// Whether who writes a workspace is known, as long as it stays open.
    pub fn is_located(&self, workspace: &str) -> bool {
        let is_known = self.cluster.is_none() || workspace == self.local.name();
        is_known || self.tenants.if_open(workspace).is_some()
    }

    /// Lets a call work with a workspace that was located. Gives how many seconds old what is here is, where another
    /// node writes it.
    ///
    /// # Errors
    /// It belongs to another node, or what is here is too old.
    pub fn reach(&self, workspace: &str, wants: Wants) -> Result<Option<u64>, NotHere> {
        self.cluster.as_ref().map_or(Ok(None), |cluster| cluster.reach(workspace, wants))
    }

    /// The workspace of a caller who works with it here, and how many seconds old what is here is, where another node
    /// writes it.
    ///
    /// # Errors
    /// It does not open, it belongs to another node, or what is here is too old.
    pub fn enter(
        &self,
        caller: &Caller,
        wants: Wants,
    ) -> Result<(Held, Option<u64>), ServiceError> {
        let closed = |closed| self.elsewhere(&caller.workspace, closed);
        if wants == Wants::Reads {
            // Held first: how old it is is told of what is read.
            let held = self.workspace_of(caller).map_err(closed)?;
            return Ok((held, self.reach(&caller.workspace, wants)?));
        }
        self.locate(&caller.workspace).map_err(closed)?;
        // Not held, for whoever waits until this node may write it: what is in use is not opened anew.
        let stale = self.reach(&caller.workspace, wants)?;
        Ok((self.workspace_of(caller).map_err(closed)?, stale))
    }

    /// Why a workspace is not entered that does not open: another node writes it, where that is known.
    fn elsewhere(&self, workspace: &str, closed: Closed) -> ServiceError {
        match self.reach(workspace, Wants::Reads) {
            Err(by @ NotHere::WrittenBy(_)) => by.into(),
            _ => closed.into(),
        }
    }

    /// Closes the ledgers, and the workspaces that nobody uses: no call is answered from then on.
    pub fn close(&self) {
        self.local.get().audit.close();
        self.tenants.close_idle(Duration::ZERO);
    }

    /// Takes one call from the bucket of the caller's credential.
    ///
    /// # Errors
    /// There is none now: how long to wait.
    pub fn limit(&self, caller: &Caller) -> Result<(), RetryAfter> {
        let (Some(metered), Some(rate)) = (&caller.metered, caller.entitled.rate) else {
            return Ok(());
        };
        self.rates.take(&metered.bucket, rate, Instant::now())
    }
}

/// A workspace that somebody works with.
pub enum Held {
    /// The operator's.
    Local(Arc<Workspace>),
    /// A tenant's.
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
