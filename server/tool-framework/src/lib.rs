//! The catalog: one row for each tool, read by everything that needs to know about it.
//!
//! A family's file holds its tools' arguments, rows and functions side by side. The list, the
//! schemas, the hints, the scope check and the audit label all come from the row.
#![forbid(unsafe_code)]

pub mod args;
mod error;
pub mod governed;
pub mod idempotency;
pub mod paging;
mod profile;
pub mod reading;
pub mod records;
pub mod results;
pub mod writing;

pub use error::IN_THE_LOG;
pub use error::{Stored, ToolError};
pub use governed::{
    NO_QUOTA, NOT_ENTITLED, NOT_IDENTIFIED, Refused, UNMETERED, UNVERIFIED, governed,
    record_refusal, record_wrong,
};
pub use profile::Profile;
use recalld_audit::BY_SCOPE;
pub use recalld_common::own_kinds::ANSWER as ANSWER_KIND;
use recalld_common::scope::Scope;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::ledger::{Decision, Effect, RULE_BYTES_MAX, Touched};
use engine::os::clock::Clock;
use engine::{Hidden, ItemId, ItemView, SearchError, Sensitivity, Snapshot, Stop};
use serde_json::{Map, Value, json};

use recalld_cluster::control_chain::ControlChain;
use recalld_common::cancel::{CallScope, CancellationToken, Progress};
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_common::wants::Wants;
use recalld_documents::PdfReader;
use recalld_embedding::encoders::View;
use recalld_embedding::encoding::Encoding;
use recalld_metastore::Control;
use recalld_policy::Caller;
use recalld_policy::meter::Meter;
use recalld_policy::rate::Buckets;
use recalld_policy::{Action, Verdict, What};
use recalld_recall::AccessView;
use recalld_secret_scan::Kind;
use recalld_telemetry::log::Said;
use recalld_telemetry::metrics::Stages;
use recalld_workspace::workspace::Workspace;

/// What a tool may change; the hints of the catalog come from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// It adds; doing it again may add again.
    Adds,
    /// It adds; doing it again adds nothing.
    AddsOnce,
    /// It hides or erases what is there.
    Removes,
}

/// One tool.
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What it does, when to use it, when not.
    pub about: &'static str,
    /// What it takes.
    pub shape: args::Shape,
    /// What it gives, beside the receipt.
    pub results: &'static [results::Output],
    /// What the caller must hold; `None` where whoever may call at all may call it.
    pub scope: Option<Scope>,
    /// What it may change.
    pub change: Change,
    /// Whether an agent needs it daily: the core profile has it.
    pub core: bool,
    /// Does it.
    pub run: fn(&Context<'_>, &Map<String, Value>) -> Result<Answer, ToolError>,
    /// Arguments that work on a store with the sample of the tests in it (`tests/support-server/src/sample_catalog.rs`).
    pub example: &'static str,
}

/// Tools that belong together; plans name families.
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Its tools.
    pub tools: &'static [Tool],
}

/// The parts of the service that tools use.
#[derive(Clone, Copy)]
pub struct ToolServices<'a> {
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

/// What a tool gives.
#[derive(Debug)]
pub struct Answer {
    /// `structuredContent`, without the receipt: an object.
    pub structured: Value,
    /// The same facts, short enough to read.
    pub text: String,
    /// What became of which items, sensitivity events first.
    pub touched: Vec<Touched>,
    /// The strictest policy decision of the call.
    pub decision: Decision,
    /// Name of its rule.
    pub rule: String,
}

impl Answer {
    /// An answer that no policy rule touched.
    pub fn plain(structured: Value, text: String) -> Self {
        let rule = BY_SCOPE.to_owned();
        Self { structured, text, touched: Vec::new(), decision: Decision::Allow, rule }
    }

    /// Notes items that secrets of these kinds raised: the call's rule names them. Before [`Self::touching`], since
    /// sensitivity events come first.
    pub fn raising(
        mut self,
        items: impl IntoIterator<Item = ItemId>,
        kinds: &BTreeSet<Kind>,
    ) -> Self {
        let before = self.touched.len();
        self = self.touching(Effect::Raised, items);
        if self.touched.len() > before {
            self.touched.rotate_left(before);
            self.rule = raised_by(kinds);
        }
        self
    }

    /// Notes items that are less sensitive than what they replace. Before [`Self::touching`], as [`Self::raising`].
    pub fn lowering(mut self, items: impl IntoIterator<Item = ItemId>) -> Self {
        let before = self.touched.len();
        self = self.touching(Effect::Lowered, items);
        self.touched.rotate_left(before);
        self
    }

    /// Notes items that were read or written.
    pub fn touching(mut self, effect: Effect, items: impl IntoIterator<Item = ItemId>) -> Self {
        self.touched.extend(items.into_iter().map(|id| touched(effect, id)));
        self
    }
}

/// The name of the rule by which secrets of these kinds raise what holds them; as many kinds as a rule's name has
/// room for.
fn raised_by(kinds: &BTreeSet<Kind>) -> String {
    let mut rule = String::from("secrets/");
    for (at, kind) in kinds.iter().enumerate() {
        if rule.len() + 1 + kind.name().len() > RULE_BYTES_MAX {
            break;
        }
        rule.push_str(if at > 0 { "+" } else { "" });
        rule.push_str(kind.name());
    }
    rule
}

/// An item in a ledger entry.
pub fn touched(effect: Effect, id: ItemId) -> Touched {
    Touched { effect, item: id.0.to_le_bytes() }
}

/// A policy verdict as the ledger names it.
pub fn decision_of(verdict: Verdict) -> Decision {
    match verdict {
        Verdict::Allow => Decision::Allow,
        Verdict::Redact => Decision::Redact,
        Verdict::Deny => Decision::Deny,
    }
}

impl Tool {
    /// What a call of it wants of its workspace.
    pub fn wants(&self) -> Wants {
        match self.change {
            Change::Nothing => Wants::Reads,
            Change::Adds | Change::AddsOnce | Change::Removes => Wants::Writes,
        }
    }

    /// The row as `tools/list` gives it.
    pub fn describe(&self) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.about,
            "inputSchema": args::input_schema(&(self.shape)()),
            "outputSchema": results::output_schema(self.results),
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.change == Change::Nothing,
                "destructiveHint": self.change == Change::Removes,
                "idempotentHint": !matches!(self.change, Change::Adds | Change::Removes),
                "openWorldHint": false,
            },
        })
    }

    /// Runs the tool as a governed call.
    pub fn call(&self, context: &Context<'_>, raw: &Map<String, Value>) -> Result<Answer, Refused> {
        let at_once = self.change != Change::Nothing;
        governed(context, self.name, raw, at_once, |context| self.checked(context, raw))
    }

    /// Runs the tool within the call of another one, which was reserved: with an entry of its own. Beside what it
    /// gives, what became of items.
    pub fn call_within(
        &self,
        context: &Context<'_>,
        raw: &Map<String, Value>,
    ) -> (Result<Answer, Refused>, Vec<Touched>) {
        let at_once = self.change != Change::Nothing;
        governed::within(context, self.name, raw, at_once, |context| self.checked(context, raw))
    }

    fn checked(
        &self,
        context: &Context<'_>,
        raw: &Map<String, Value>,
    ) -> Result<Answer, ToolError> {
        if self.change != Change::Nothing && !context.caller.may_write() {
            return Err(ToolError::Unverified);
        }
        (self.run)(context, raw)
    }
}
