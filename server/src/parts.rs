//! What a running service is made of: long-lived components, handed to every call.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::os::clock::{Clock, Random};

use crate::app::Encoding;
use crate::auth::Checker;
use crate::govern::Who;
use crate::metrics::Stages;
use crate::tenants::{Closed, Lease, Tenants};
use crate::tools::Scope;
use crate::workspace::Workspace;

/// Everything that calls need.
pub struct Parts {
    /// The data directory.
    pub data: PathBuf,
    /// The operator's workspace, `local`; open all the time.
    pub local: Workspace,
    /// Those of tenants, opened when they are needed.
    pub tenants: Tenants,
    /// How texts become vectors, and how vectors are compared.
    pub encoding: Encoding,
    /// Who a credential belongs to.
    pub checker: Checker,
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
    pub fn workspace_of(&self, caller: &Caller) -> Result<Held<'_>, Closed> {
        if caller.workspace == self.local.name {
            return Ok(Held::Local(&self.local));
        }
        self.tenants.open(&caller.workspace).map(Held::Tenant)
    }

    /// The same, only if it is open.
    pub fn workspace_if_open(&self, caller: &Caller) -> Option<Held<'_>> {
        if caller.workspace == self.local.name {
            return Some(Held::Local(&self.local));
        }
        self.tenants.if_open(&caller.workspace).map(Held::Tenant)
    }
}

/// A workspace that somebody works with.
pub enum Held<'a> {
    /// The operator's.
    Local(&'a Workspace),
    /// A tenant's.
    Tenant(Lease),
}

impl Deref for Held<'_> {
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
    /// The plan.
    pub plan: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
}

impl Caller {
    /// The operator of this machine, on the local listener.
    pub fn local_operator(workspace: &str) -> Self {
        Self {
            workspace: workspace.to_owned(),
            principal: "operator".to_owned(),
            plan: "operator".to_owned(),
            scopes: Scope::ALL.to_vec(),
        }
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
