//! Context of the operator's jobs on a whole store: backup, compaction, erasure, model migration.
//!
//! A job runs in the server that has the store, or in a command that opened the store without its encoder. Jobs that
//! copy or rewrite share one permit, which may be held for hours. Acts that must not wait for the permit use the lock
//! `noting`, held only briefly: registering a backup, and recording pending erasures. A backup is registered before it
//! reads the store. An erasure records pending ids and hides the items under one lock. Therefore no erasure misses a
//! backup that read the store before it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::ledger::{Decision, Outcome, TouchedItem};
use engine::os::clock::{Random, SystemRandom};
use engine::{Snapshot, Store, Throttle};
use serde_json::{Value, json};

use crate::admin_state::StoreAdmin;
use crate::keep_error::KeepError;
use crate::scheduled::Scheduled;
use crate::workspaces::{Opener, Others};
use recalld_audit::{Audit, BY_SCOPE, Trace, Unrecorded, hash_call};
use recalld_auth::Signer;
use recalld_cluster::seats::Seats;
use recalld_common::cancel::Progress;
use recalld_common::cancel::{CallScope, CancellationToken};
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_common::slug::is_slug;
use recalld_common::turn::{Turn, Turns};
use recalld_fs_util::data_dir::tenant_dir;
use recalld_fs_util::start_error::StartError;
use recalld_metastore::Control;
use recalld_policy::Caller;
use recalld_policy::Rules;
use recalld_tool_framework::ServiceError;
use recalld_workspace::opening;
use recalld_workspace::opening::Kept;
use recalld_workspace::workspace::Workspace;

/// Bytes between two progress reports.
const PROGRESS_BYTES: u64 = 1 << 20;

/// Context of a job.
pub struct Keeper<'a> {
    /// The data directory.
    pub data: &'a Path,
    /// Store of the operator's workspace.
    pub store: &'a Store,
    /// Ledger of the operator's workspace.
    pub audit: &'a Audit,
    /// Key that signs the ledger's checkpoints.
    pub signer: &'a Signer,
    /// Policy rules.
    pub rules: &'a Rules,
    /// Principal on whose behalf the job runs.
    pub caller: &'a Caller,
    /// Source of randomness.
    pub random: &'a dyn Random,
    /// The tenants' workspaces, if there is a metastore.
    pub others: Option<Others<'a>>,
    /// The server's backup schedule; `None` in a command.
    pub scheduled: Option<&'a Scheduled>,
    /// This node's replicas on the remote, in a server with a remote.
    pub seats: Option<&'a Seats>,
    /// Permit for one job at a time.
    pub turns: &'a Turns,
    /// Lock for changes to `backups.json`. The holder must not wait for a job permit.
    pub noting: &'a Mutex<()>,
    /// Cancelled when nobody waits for the job any more.
    pub cancel: &'a CancellationToken,
    /// Receiver of progress reports.
    pub progress: Progress<'a>,
}

impl<'a> Keeper<'a> {
    /// Returns the context of a job in a server.
    pub fn of(
        admin: &'a StoreAdmin,
        local: &'a Workspace,
        caller: &'a Caller,
        cancel: &'a CancellationToken,
        progress: Progress<'a>,
    ) -> Self {
        Self {
            data: &admin.data,
            store: &local.store,
            audit: &local.audit,
            signer: &local.signer,
            rules: &local.rules,
            caller,
            random: &*admin.random,
            others: admin.control.exists().then_some(Others {
                data: &admin.data,
                control: &admin.control,
                opener: Opener::Server(&admin.tenants),
            }),
            scheduled: Some(&admin.scheduled),
            seats: admin.seats.as_deref(),
            turns: &local.keeping,
            noting: &local.noting,
            cancel,
            progress,
        }
    }

    /// Waits until no other job runs, and acquires the job permit.
    pub(super) fn turn(&self) -> Result<Turn<'a>, KeepError> {
        self.turns.take(&CallScope { token: self.cancel, deadline: None }).ok_or_else(|| {
            KeepError::failed(ServiceError::Cancelled, "ask again when the other job is done")
        })
    }

    /// Locks `backups.json` for a change. The lock is held briefly, never during a copy.
    pub(super) fn noting(&self) -> MutexGuard<'a, ()> {
        self.noting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a ledger entry, which is on disk on return.
    pub fn record(&self, note: Note<'_>) -> Result<(), KeepError> {
        let trace = Trace {
            tool: note.operation,
            principal: self.caller.principal.clone(),
            arguments: hash_call(note.operation, note.arguments),
            decision: note.decision,
            rule: note.rule.to_owned(),
            touched: note.touched,
            outcome: note.outcome,
        };
        let recorded = self.audit.record(&trace, true);
        recorded.map(drop).map_err(|error| {
            KeepError::failed(
                format!("the ledger took no entry: {error}"),
                "free space, start again and repeat the command",
            )
        })
    }

    /// Returns a throttle that reports progress and stops when the job is cancelled.
    pub(super) fn pace(&self, what: &'static str, total: u64) -> Telling<'_> {
        Telling { what, total, ..Telling::new(self.cancel, self.progress) }
    }
}

/// Content of a ledger entry about a job.
pub struct Note<'a> {
    /// Name of the operation.
    pub operation: &'static str,
    /// Arguments, of which the ledger stores a hash.
    pub arguments: &'a Value,
    /// Policy decision.
    pub decision: Decision,
    /// Rule of the decision.
    pub rule: &'a str,
    /// Items that the operation read or changed.
    pub touched: Vec<TouchedItem>,
    /// Outcome of the operation.
    pub outcome: Outcome,
}

impl<'a> Note<'a> {
    /// Returns an entry for a job that policy allows.
    pub fn of(operation: &'static str, arguments: &'a Value) -> Self {
        Self {
            operation,
            arguments,
            decision: Decision::Allow,
            rule: BY_SCOPE,
            touched: Vec::new(),
            outcome: Outcome::Done,
        }
    }
}

/// Counts written bytes, reports them, and stops the job on cancellation.
pub(super) struct Telling<'a> {
    what: &'static str,
    total: u64,
    done: AtomicU64,
    told: AtomicU64,
    cancel: &'a CancellationToken,
    progress: Progress<'a>,
}

impl<'a> Telling<'a> {
    fn new(cancel: &'a CancellationToken, progress: Progress<'a>) -> Self {
        let (done, told) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { what: "", total: 0, done, told, cancel, progress }
    }

    /// Adds `bytes` written bytes; returns false if the job must stop.
    pub(super) fn count(&self, bytes: usize) -> bool {
        let done = self.done.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        if done >= self.told.load(Ordering::Relaxed) + PROGRESS_BYTES {
            self.told.store(done, Ordering::Relaxed);
            (self.progress)(done, self.total.max(done), self.what);
        }
        !self.cancel.is_cancelled()
    }
}

impl Throttle for Telling<'_> {
    fn after_write(&self, bytes: usize) -> bool {
        self.count(bytes)
    }

    fn after_work(&self) -> bool {
        self.count(0)
    }
}

/// A store that this process opened for one job.
pub struct Alone {
    data: PathBuf,
    store: Store,
    audit: Audit,
    signer: Signer,
    rules: Rules,
    /// Opened on first use.
    control: Arc<Control>,
    caller: Caller,
    turns: Turns,
    noting: Mutex<()>,
    cancel: CancellationToken,
}

impl Alone {
    /// Opens the store of a data directory; [`StartError::Busy`] if a server has it open.
    pub fn open(data: &Path) -> Result<Self, StartError> {
        let Kept { store, audit, control, .. } = opening::open_with_control(data)?;
        let (credentials, _) = opening::credentials(data)?;
        Ok(Self {
            data: data.to_owned(),
            store,
            audit,
            control,
            signer: credentials.signer().clone(),
            rules: Rules::initial(),
            caller: Caller::local_operator(LOCAL_WORKSPACE),
            turns: Turns::default(),
            noting: Mutex::default(),
            cancel: CancellationToken::new(),
        })
    }

    /// Passes a snapshot of a workspace to `write`: the operator's by default, or the named tenant's. The ledger entry
    /// is on disk before.
    ///
    /// # Errors
    /// There is no such workspace, the workspace cannot be opened, or its ledger refuses the entry.
    pub fn export<T>(
        &self,
        workspace: Option<&str>,
        write: impl FnOnce(&Snapshot) -> T,
    ) -> Result<T, KeepError> {
        let record = |audit: &Audit| {
            let recorded = record_export(audit, &self.caller.principal);
            recorded.map_err(|error| KeepError::failed(error, "free space, and try again"))
        };
        let Some(name) = workspace.filter(|name| *name != LOCAL_WORKSPACE) else {
            record(&self.audit)?;
            return Ok(write(&self.store.snapshot()));
        };
        let store = tenant_dir(&self.data, name).join("store");
        if !is_slug(name) || !store.is_dir() {
            let why = format!("--workspace {name}: there is no workspace of that name");
            return Err(KeepError::Wrong(why));
        }
        let (data, control) = (&*self.data, &self.control);
        Others { data, control, opener: Opener::Alone }.with(name, |lent| {
            record(lent.audit)?;
            Ok(write(&lent.store.snapshot()))
        })
    }

    /// Returns the context of a job.
    pub fn keeper<'a>(&'a self, progress: Progress<'a>) -> Keeper<'a> {
        Keeper {
            data: &self.data,
            store: &self.store,
            audit: &self.audit,
            signer: &self.signer,
            rules: &self.rules,
            caller: &self.caller,
            random: &SystemRandom,
            others: self.control.exists().then_some(Others {
                data: &self.data,
                control: &self.control,
                opener: Opener::Alone,
            }),
            scheduled: None,
            seats: None,
            turns: &self.turns,
            noting: &self.noting,
            cancel: &self.cancel,
            progress,
        }
    }
}

/// Writes the ledger entry of an export, which is on disk before the first line is output.
pub fn record_export(audit: &Audit, principal: &str) -> Result<(), Unrecorded> {
    let operation = "recalld export";
    let trace = Trace {
        tool: operation,
        principal: principal.to_owned(),
        arguments: hash_call(operation, &json!({})),
        decision: Decision::Allow,
        rule: BY_SCOPE.to_owned(),
        touched: Vec::new(),
        outcome: Outcome::Done,
    };
    audit.record(&trace, true).map(drop)
}
