//! What a tool works with.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::os::clock::Clock;
use engine::{Hidden, ItemView, SearchError, Sensitivity, Snapshot, Stop};

use super::catalog::Catalog;
use recalld_cluster::control_chain::ControlChain;
use recalld_common::cancel::{CallScope, CancellationToken, Progress};
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_documents::PdfReader;
use recalld_embedding::encoders::View;
use recalld_embedding::encoding::Encoding;
use recalld_metastore::Control;
use recalld_policy::Caller;
use recalld_policy::meter::Meter;
use recalld_policy::rate::Buckets;
use recalld_policy::{Action, Verdict, What};
use recalld_recall::AccessView;
use recalld_telemetry::log::Said;
use recalld_telemetry::metrics::Stages;
use recalld_workspace::workspace::Workspace;

/// The parts of the service that tools use.
#[derive(Clone, Copy)]
pub struct ToolServices<'a> {
    /// Every tool that there is.
    pub catalog: Catalog,
    /// The data directory.
    pub data: &'a Path,
    /// Tenants, credentials, clients, grants and usage.
    pub control: &'a Control,
    /// The replicated control store of nodes that share a secret.
    pub control_chain: Option<&'a ControlChain>,
    /// How texts become vectors, and how vectors are compared.
    pub encoding: Encoding,
    /// Calls out of quotas.
    pub meter: &'a Meter,
    /// The rate limit of each credential.
    pub rates: &'a Buckets,
    /// Reads PDFs in a process of its own; `None` where no PDF is read.
    pub pdf: Option<&'a PdfReader>,
    /// The issuer of access tokens, where the server has a public URL.
    pub issuer: Option<&'a str>,
    /// Logs a fault that everybody meets once.
    pub said: &'a Said,
    /// How long each step of answering takes.
    pub stages: &'a Stages,
    /// The longest that a tool call may take.
    pub call_time_max: Duration,
    /// The time.
    pub clock: &'a dyn Clock,
    /// When the service started.
    pub started: Instant,
}

/// What a tool works with.
pub struct Context<'a> {
    /// The parts of the service that tools use.
    pub services: ToolServices<'a>,
    /// The workspace that the call is about.
    pub workspace: &'a Workspace,
    /// Who calls.
    pub caller: &'a Caller,
    /// Cancelled when the caller has left.
    pub cancel: &'a CancellationToken,
    /// When the call must have ended.
    pub deadline: Instant,
    /// Whom to tell how far it has come.
    pub progress: Option<Progress<'a>>,
}

impl Context<'_> {
    /// What policy says of an item.
    pub fn judge(&self, item: &ItemView<'_>, action: Action) -> (Verdict, Arc<str>) {
        self.judge_class(item.kind, item.sensitivity, &item.gates, action)
    }

    /// What policy says of items like this.
    pub fn judge_class(
        &self,
        kind: &str,
        sensitivity: Sensitivity,
        gates: &[&str],
        action: Action,
    ) -> (Verdict, Arc<str>) {
        let what = What { workspace: &self.workspace.name, kind, sensitivity, gates };
        self.caller.judge(&self.workspace.rules, &what, action)
    }

    /// Whether the caller may know that an item is there, if only by its id.
    pub fn may_know(&self, item: &ItemView<'_>) -> bool {
        self.judge(item, Action::Read).0 != Verdict::Deny
    }

    /// What policy hides of a snapshot from the caller; `None` where that is nothing.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    pub fn hidden(&self, snapshot: &Snapshot) -> Result<Option<Arc<Hidden>>, SearchError> {
        let hidden = &self.workspace.hidden;
        self.caller.as_who(|who| hidden.of(snapshot, &self.workspace.rules, who))
    }

    /// The items of a snapshot that the caller may see.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    pub fn access(&self, snapshot: &Snapshot) -> Result<AccessView<'_>, SearchError> {
        let Workspace { rules, hidden, .. } = self.workspace;
        AccessView::of(snapshot, self.caller, rules, hidden)
    }

    /// Returns true if the workspace is the operator's own.
    pub fn is_local(&self) -> bool {
        self.workspace.name == LOCAL_WORKSPACE
    }

    /// How long the work goes on.
    pub fn scope(&self) -> CallScope<'_> {
        CallScope { token: self.cancel, deadline: Some(self.deadline) }
    }

    /// Whether the work is to stop: nobody waits for it any more.
    pub fn is_over(&self) -> bool {
        self.scope().is_over()
    }

    /// The same, for those that know no calls.
    fn stop(&self) -> Stop {
        let (token, deadline) = (self.cancel.clone(), Some(self.deadline));
        Stop::when(move || CallScope { token: &token, deadline }.is_over())
    }

    /// The store as of the last acknowledged write; long reads of it end when the call is over.
    pub fn snapshot(&self) -> Snapshot {
        self.workspace.store.snapshot().until(self.stop())
    }

    /// The same, with the encoder that belongs to it.
    pub fn view(&self) -> View {
        let View { snapshot, embedder } = self.workspace.encoders.view();
        View { snapshot: snapshot.until(self.stop()), embedder }
    }
}
