//! What a running service is made of: long-lived components, handed to every call.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use engine::Micros;
use engine::os::clock::{Clock, Random};

use crate::app::Encoding;
use crate::auth::{Checker, ClusterSecret};
use crate::authority::Authority;
use crate::cluster::{Cluster, NotHere, Wants};
use crate::config::Config;
use crate::console::Sessions;
use crate::control::Control;
use crate::control_chain::ControlChain;
use crate::govern::identity::{Enforcement, Turn, in_ledger};
use crate::govern::meter::Meter;
use crate::govern::plans::{OPERATOR, Plan};
use crate::govern::rate::{Buckets, Guesses, Key, RetryAfter};
use crate::govern::{Action, Judged, Rules, Verdict, What, Who, decide};
use crate::ingest::read::PdfReader;
use crate::local::Local;
use crate::log::Said;
use crate::mail::MailQueue;
use crate::metrics::Stages;
use crate::operator::Scheduled;
use crate::recall::Threads;
use crate::seats::Seats;
use crate::tenants::{Closed, Lease, Tenants};
use crate::tools::{Scope, ToolError};
use crate::workspace::Workspace;

/// Everything that calls need.
pub struct Parts {
    /// The data directory.
    pub data: PathBuf,
    /// The operator's workspace, `local`; open all the time.
    pub local: Local,
    /// Those of tenants, opened when they are needed.
    pub tenants: Tenants,
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
    pub scheduled: Scheduled,
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

impl Parts {
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
    pub fn enter(&self, caller: &Caller, wants: Wants) -> Result<(Held, Option<u64>), ToolError> {
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
    fn elsewhere(&self, workspace: &str, closed: Closed) -> ToolError {
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

/// Who calls: made by [`crate::pipeline`] from a credential or from the local listener, and by
/// nothing that stands in a request's body.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The workspace.
    pub workspace: String,
    /// The name in ledger entries and policy rules.
    pub principal: String,
    /// The plan's name.
    pub plan: String,
    /// What the workspace is entitled to.
    pub entitled: Arc<Plan>,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// What is counted for it; `None` for the operator of this machine.
    pub metered: Option<Metered>,
    /// What it showed; `None` for the operator, whose credential only a restart changes.
    pub credential: Option<Credential>,
    /// What policy said of classes of items so far.
    pub judged: Judged,
    /// For whom it calls this time.
    pub turn: Turn,
}

/// What a caller showed, so that it can be asked again whether it stands.
#[derive(Debug, Clone)]
pub struct Credential {
    /// When it was issued.
    pub issued_at: Micros,
    /// The credential or grant that it is, or hangs on.
    pub hold: String,
    /// Of an access token.
    pub token: Option<Token>,
}

/// What of an access token can end, beside what it hangs on.
#[derive(Debug, Clone)]
pub struct Token {
    /// Its own id.
    pub id: String,
    /// In seconds since 1970.
    pub issued_at: u64,
    /// The first second in which it is not good any more, since 1970.
    pub expires_at: u64,
}

/// What is counted for a caller.
#[derive(Debug, Clone)]
pub struct Metered {
    /// The bucket of its credential.
    pub bucket: Key,
    /// Calls of a calendar month, if that is bounded.
    pub calls_per_month: Option<u64>,
    /// Whether it may write: not before the e-mail address is verified, where the plan wants that.
    pub may_write: bool,
}

impl Caller {
    /// The operator of this machine, on the local listener.
    pub fn local_operator(workspace: &str) -> Self {
        static ENTITLED: LazyLock<Arc<Plan>> = LazyLock::new(Plan::operators);
        Self {
            workspace: workspace.to_owned(),
            principal: "operator".to_owned(),
            plan: OPERATOR.to_owned(),
            entitled: Arc::clone(&ENTITLED),
            scopes: Scope::ALL.to_vec(),
            metered: None,
            credential: None,
            judged: Judged::default(),
            turn: Turn::of(Enforcement::Off, None, true),
        }
    }

    /// What stands in the ledger as the principal of its calls.
    pub fn in_ledger(&self) -> String {
        in_ledger(self.turn.identity().ok().flatten(), &self.principal)
    }

    /// Whether its credential still stands. Where that cannot be told, it does not.
    pub fn stands(&self, control: &Control) -> bool {
        let Some(Credential { hold, token, .. }) = &self.credential else { return true };
        // That a workspace's tokens have to be newer is nothing to a key.
        let (id, issued_at) =
            token.as_ref().map_or(("", u64::MAX), |token| (&token.id, token.issued_at));
        let is_over = token.as_ref().is_some_and(|token| control.now() >= token.expires_at);
        !is_over && control.standing(&self.workspace, hold, id, issued_at).is_ok()
    }

    /// Whether it may write anything at all.
    pub fn may_write(&self) -> bool {
        self.metered.as_ref().is_none_or(|metered| metered.may_write)
    }

    /// Whether it may read the ledger.
    pub fn audits(&self) -> bool {
        self.scopes.contains(&Scope::AuditRead)
    }

    /// What policy says of items like this, and the rule. The rules are asked once for each class of items.
    pub fn judge(&self, rules: &Rules, what: &What<'_>, action: Action) -> (Verdict, Arc<str>) {
        self.judged.of(what, action, || {
            self.as_who(|who| {
                let decision = decide(rules, who, what, action);
                (decision.verdict, Arc::from(decision.rule))
            })
        })
    }

    /// Runs `work` with this caller as policy sees it.
    pub fn as_who<T>(&self, work: impl FnOnce(&Who<'_>) -> T) -> T {
        let scopes: Vec<&str> = self.scopes.iter().map(|scope| scope.name()).collect();
        work(&Who {
            workspace: &self.workspace,
            principal: &self.principal,
            plan: &self.plan,
            scopes: &scopes,
            purpose: None,
        })
    }
}
