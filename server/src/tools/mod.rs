//! The catalog: one row for each tool, read by everything that needs to know about it.
//!
//! A family's file holds its tools' arguments, rows and functions side by side. The list, the
//! schemas, the hints, the scope check and the audit label all come from the row.

mod agent_state;
pub mod args;
mod artifacts;
mod bench;
pub(crate) mod brief;
mod command;
mod connectors;
mod continuity;
pub mod docstore;
mod error;
mod governed;
mod graph;
mod idempotency;
pub mod ingest;
mod items;
pub(crate) mod nearest;
mod paging;
mod profile;
mod reading;
pub mod recall;
mod recall_names;
mod recall_text;
mod records;
pub mod results;
mod startup;
pub mod status;
mod tenant;
mod verify;
mod work;
mod writing;

pub(crate) use error::IN_THE_LOG;
pub use error::{Stored, ToolError};
pub use governed::{
    NO_QUOTA, NOT_ENTITLED, NOT_IDENTIFIED, Refused, UNMETERED, UNVERIFIED, governed,
    record_refusal, record_wrong,
};
pub(crate) use idempotency::KIND as ANSWER_KIND;
pub(crate) use items::would_forget;
pub use profile::Profile;
pub(crate) use records::OWN_KINDS;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use engine::ledger::{Decision, Effect, RULE_BYTES_MAX, Touched};
use engine::{Hidden, ItemId, ItemView, SearchError, Sensitivity, Snapshot, Stop};
use serde_json::{Map, Value, json};

use crate::cluster::Wants;
use crate::encoders::View;
use crate::govern::{Action, Verdict, What};
use crate::net::Cancel;
use crate::parts::{Caller, Parts};
use crate::secrets::Kind;
use crate::workspace::Workspace;

/// What a caller may do, as tokens and the catalog name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Read items, documents, the graph, status.
    TenantRead,
    /// Recall.
    BrainProxy,
    /// Write items.
    MemoryWrite,
    /// Ingest files and texts.
    IngestWrite,
    /// Read and write agents' state.
    AgentState,
    /// Read the ledger.
    AuditRead,
    /// Run benchmarks.
    BenchRun,
    /// Say for whom a call is made.
    IdentityAssert,
}

impl Scope {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::TenantRead,
        Self::BrainProxy,
        Self::MemoryWrite,
        Self::IngestWrite,
        Self::AgentState,
        Self::AuditRead,
        Self::BenchRun,
        Self::IdentityAssert,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::TenantRead => "tenant:read",
            Self::BrainProxy => "brain:proxy",
            Self::MemoryWrite => "memory:write",
            Self::IngestWrite => "ingest:write",
            Self::AgentState => "agent:state",
            Self::AuditRead => "audit:read",
            Self::BenchRun => "bench:run",
            Self::IdentityAssert => "identity:assert",
        }
    }

    /// The scope of this name; `None` for any other text.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.name() == name)
    }
}

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
    /// Arguments that work on a store with the sample of the tests in it (`tests/src/sample_catalog.rs`).
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

/// Every family, in the order of the catalog.
pub static FAMILIES: &[&Family] = &[
    &recall::FAMILY,
    &docstore::FAMILY,
    &graph::FAMILY,
    &items::FAMILY,
    &status::FAMILY,
    &verify::FAMILY,
    &continuity::FAMILY,
    &work::FAMILY,
    &artifacts::FAMILY,
    &ingest::FAMILY,
    &agent_state::FAMILY,
    &bench::FAMILY,
    &tenant::FAMILY,
];

/// Whether a tool waits for others that do the same, or may call one that does: it is not to wait where all calls are
/// worked on.
pub fn waits(tool: &str) -> bool {
    [ingest::INGEST_PATHS, bench::STORAGE_NAME, command::NAME].contains(&tool)
}

/// Told how far a long call has come: done, of how many, and what is being done.
pub type Progress<'a> = &'a (dyn Fn(u64, u64, &str) + Sync);

/// What a tool works with.
pub struct Context<'a> {
    /// The service.
    pub parts: &'a Parts,
    /// The workspace that the call is about.
    pub workspace: &'a Workspace,
    /// Who calls.
    pub caller: &'a Caller,
    /// Raised when the caller has left.
    pub cancel: &'a Cancel,
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

    /// Whether the work is to stop: nobody waits for it any more.
    pub fn is_over(&self) -> bool {
        is_over(self.cancel, self.deadline)
    }

    /// The same, for those that know no calls.
    fn stop(&self) -> Stop {
        let (cancel, deadline) = (self.cancel.clone(), self.deadline);
        Stop::when(move || is_over(&cancel, deadline))
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

fn is_over(cancel: &Cancel, deadline: Instant) -> bool {
    cancel.is_raised() || Instant::now() >= deadline
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

/// The rule's name where no item was judged: the scope let the call through.
pub const BY_SCOPE: &str = "scope";

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

/// The tools that this caller may use, in the order of the catalog, as far as the profile shows them.
pub fn visible_to(caller: &Caller, profile: Profile) -> impl Iterator<Item = &'static Tool> {
    let families = FAMILIES.iter().flat_map(|family| {
        let name = family.name;
        family.tools.iter().map(move |tool| (name, tool))
    });
    let has = |(family, tool): &(&str, &Tool)| caller.entitled.has_tool(family, tool.name);
    let shown = families.filter(has).map(|(_, tool)| tool);
    let shown = shown.filter(move |tool| profile == Profile::Full || tool.core);
    shown.filter(|tool| tool.scope.is_none_or(|scope| caller.scopes.contains(&scope)))
}

/// The scope that keeps a caller from a tool of its plan, and that its plan would grant it: another credential of
/// the same workspace could use the tool.
pub fn lacking(caller: &Caller, name: &str) -> Option<Scope> {
    let mut families = FAMILIES.iter();
    let tool = families.find_map(|family| {
        let tool = family.tools.iter().find(|tool| tool.name == name)?;
        caller.entitled.has_tool(family.name, name).then_some(tool)
    })?;
    let may_have = |scope: &Scope| caller.entitled.may_grant(*scope);
    tool.scope.filter(|scope| !caller.scopes.contains(scope)).filter(may_have)
}

/// The tool of this name, if the caller may use it: to anyone else it does not exist.
///
/// # Errors
/// There is none: what to tell the caller, with the nearest name of a tool that it may use.
pub fn find(caller: &Caller, name: &str) -> Result<&'static Tool, String> {
    let mut usable = visible_to(caller, Profile::Full);
    usable.find(|tool| tool.name == name).ok_or_else(|| {
        let names = visible_to(caller, Profile::Full).map(|tool| tool.name);
        let hint = match nearest::nearest(name, names) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "tools/list names those there are".to_owned(),
        };
        format!("Unknown tool: {}; {hint}", nearest::cut(name))
    })
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
        let arguments = Value::Object(raw.clone());
        let at_once = self.change != Change::Nothing;
        governed(context, self.name, &arguments, at_once, |context| self.checked(context, raw))
    }

    /// Runs the tool within the call of another one, which was reserved: with an entry of its own. Beside what it
    /// gives, what became of items.
    fn call_within(
        &self,
        context: &Context<'_>,
        raw: &Map<String, Value>,
    ) -> (Result<Answer, Refused>, Vec<Touched>) {
        let arguments = Value::Object(raw.clone());
        let at_once = self.change != Change::Nothing;
        governed::within(context, self.name, &arguments, at_once, |context| {
            self.checked(context, raw)
        })
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
