//! Services and call state that a tool runs with.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::os::clock::Clock;
use engine::{CancelToken, Sensitivity, Snapshot};

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

/// Service components that tools use.
#[derive(Clone, Copy)]
pub struct ToolServices<'a> {
    /// All tools of the service.
    pub catalog: Catalog,
    /// The data directory.
    pub data: &'a Path,
    /// The metastore: tenants, credentials, clients, grants and usage.
    pub control: &'a Control,
    /// The replicated metastore; `None` if the node shares no secret with other nodes.
    pub control_chain: Option<&'a ControlChain>,
    /// Embedding model and vector distance.
    pub encoding: Encoding,
    /// Meter of the monthly call quotas.
    pub meter: &'a Meter,
    /// Token buckets of the credentials.
    pub rates: &'a Buckets,
    /// PDF reader in a separate process; `None` if PDFs are not read.
    pub pdf: Option<&'a PdfReader>,
    /// Issuer of access tokens; `None` if the server has no public URL.
    pub issuer: Option<&'a str>,
    /// Throttle that logs a fault shared by many calls only once.
    pub said: &'a Said,
    /// Latencies of the steps of an answer.
    pub stages: &'a Stages,
    /// Maximum duration of a tool call.
    pub call_time_max: Duration,
    /// Wall clock.
    pub clock: &'a dyn Clock,
    /// Start time of the service.
    pub started: Instant,
}

/// Everything that one tool call runs with.
pub struct ToolContext<'a> {
    /// Service components that tools use.
    pub services: ToolServices<'a>,
    /// Workspace that the call addresses.
    pub workspace: &'a Workspace,
    /// Authenticated caller.
    pub caller: &'a Caller,
    /// Cancelled when the client disconnects.
    pub cancel: &'a CancellationToken,
    /// End of the time for this call.
    pub deadline: Instant,
    /// Receiver of progress reports; `None` if the client asked for none.
    pub progress: Option<Progress<'a>>,
}

impl ToolContext<'_> {
    /// Evaluates policy for the class of items with this kind, sensitivity and gates. For a stored item, use
    /// [`AccessView::judge`].
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

    /// The snapshot as the caller may see it.
    pub fn access(&self, snapshot: Snapshot) -> AccessView<'_> {
        let Workspace { rules, hidden, .. } = self.workspace;
        AccessView::of(snapshot, self.caller, rules, hidden)
    }

    /// Returns true if the workspace is the operator's own.
    pub fn is_local(&self) -> bool {
        self.workspace.name == LOCAL_WORKSPACE
    }

    /// Cancellation token and deadline of the call.
    pub fn scope(&self) -> CallScope<'_> {
        CallScope { token: self.cancel, deadline: Some(self.deadline) }
    }

    /// Returns true if the work must stop because the call was cancelled or has passed its deadline.
    pub fn is_over(&self) -> bool {
        self.scope().is_over()
    }

    /// Stop signal for components that do not know [`CallScope`].
    fn stop(&self) -> CancelToken {
        let (token, deadline) = (self.cancel.clone(), Some(self.deadline));
        CancelToken::from_fn(move || CallScope { token: &token, deadline }.is_over())
    }

    /// Snapshot as of the last acknowledged write. Long reads of the snapshot stop when the call is over.
    pub fn snapshot(&self) -> AccessView<'_> {
        self.access(self.workspace.store.snapshot().with_cancel(self.stop()))
    }

    /// Snapshot as of the last acknowledged write, together with the embedder of its model.
    pub fn view(&self) -> View<AccessView<'_>> {
        let View { snapshot, embedder } = self.workspace.encoders.view();
        View { snapshot: self.access(snapshot.with_cancel(self.stop())), embedder }
    }
}
