//! What a running service is made of: long-lived components, handed to every call.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use engine::Store;
use engine::os::clock::{Clock, Random};

use crate::app::Encoding;
use crate::auth::{Checker, Signer};
use crate::encoders::Encoders;
use crate::govern::{Audit, Rules, Who};
use crate::ingest::Roots;
use crate::metrics::{Latencies, Stages};
use crate::recall::{HiddenFrom, Meaning};
use crate::tools::Scope;
use crate::turn::Turns;

/// One tenant's data.
pub struct Workspace {
    /// Its name.
    pub name: String,
    /// Its items.
    pub store: Arc<Store>,
    /// Texts to vectors: the encoders of that store.
    pub encoders: Encoders,
    /// What questions by meaning share.
    pub meaning: Meaning,
    /// Its ledger.
    pub audit: Audit,
    /// One ingest at a time.
    pub ingesting: Turns,
    /// One backup, compaction, erasure or move to another model at a time.
    pub keeping: Turns,
    /// Held while the list of known backups is changed.
    pub noting: Mutex<()>,
    /// What policy hides from whom.
    pub hidden: HiddenFrom,
    /// How long recalls took since the start.
    pub recalls: Latencies,
}

/// Everything that calls need.
pub struct Parts {
    /// The data directory.
    pub data: PathBuf,
    /// The only workspace so far: `local`.
    pub workspace: Workspace,
    /// How texts become vectors, and how vectors are compared.
    pub encoding: Encoding,
    /// Who a credential belongs to.
    pub checker: Checker,
    /// Signs grounding tokens.
    pub signer: Signer,
    /// Who may see what.
    pub rules: Rules,
    /// Where files may be read; an operator's ingest can add to it.
    pub roots: RwLock<Arc<Roots>>,
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
    /// Where files may be read now.
    pub fn roots(&self) -> Arc<Roots> {
        Arc::clone(&self.roots.read().unwrap_or_else(PoisonError::into_inner))
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
    pub scopes: &'static [Scope],
}

impl Caller {
    /// The operator of this machine, on the local listener.
    pub fn local_operator(workspace: &str) -> Self {
        Self {
            workspace: workspace.to_owned(),
            principal: "operator".to_owned(),
            plan: "operator".to_owned(),
            scopes: Scope::ALL,
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
