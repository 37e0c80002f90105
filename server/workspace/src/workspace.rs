//! Data of one tenant: store, encoders, ledger, signing key and rules.
//!
//! Owns the state shared by the calls of one workspace. Does not know callers or other workspaces.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use engine::{ItemId, Micros, Store};

use recalld_audit::Audit;
use recalld_auth::Signer;
use recalld_common::turn::Turns;
use recalld_embedding::encoders::Encoders;
use recalld_fs_util::roots::Roots;
use recalld_policy::Rules;
use recalld_recall::graph_shape::Shapes;
use recalld_recall::{HiddenFrom, Meaning};
use recalld_telemetry::metrics::Latencies;

/// Parts from which a workspace is built.
pub struct Opened {
    /// Workspace name.
    pub name: String,
    /// Store, bound to its encoder.
    pub encoders: Encoders,
    /// State shared by the vector queries of the workspace.
    pub meaning: Meaning,
    /// Audit ledger.
    pub audit: Arc<Audit>,
    /// Signs ledger checkpoints and grounding tokens.
    pub signer: Signer,
    /// Policy rules.
    pub rules: Arc<Rules>,
    /// Folders below which files may be read.
    pub roots: Arc<Roots>,
}

/// A running ingest job.
#[derive(Debug, Clone)]
pub struct Running {
    /// Item id of the future job record.
    pub job: ItemId,
    /// Principal that started the job.
    pub by: String,
    /// Tool of the call.
    pub via: &'static str,
    /// Paths in the request.
    pub paths: Vec<String>,
    /// Start time.
    pub began: Micros,
    /// Steps done, and steps in total.
    pub done: (u64, u64),
}

/// Data of one tenant.
pub struct Workspace {
    /// Workspace name.
    pub name: String,
    /// Store of the items.
    pub store: Arc<Store>,
    /// Encoders of the store.
    pub encoders: Encoders,
    /// State shared by the vector queries of the workspace.
    pub meaning: Meaning,
    /// Audit ledger.
    pub audit: Arc<Audit>,
    /// Signs ledger checkpoints and grounding tokens.
    pub signer: Signer,
    /// Policy rules.
    pub rules: Arc<Rules>,
    /// Folders below which files may be read; an operator's ingest can add folders.
    pub roots: RwLock<Arc<Roots>>,
    /// Permits one ingest at a time.
    pub ingesting: Turns,
    running: Mutex<Option<Running>>,
    /// Permits one store job at a time: backup, compaction, erasure or model migration.
    pub keeping: Turns,
    /// Lock for changes of the backup registry.
    pub noting: Mutex<()>,
    /// Cache of visibility masks.
    pub hidden: HiddenFrom,
    /// Recall latencies since the workspace was opened.
    pub recalls: Latencies,
    /// Cache of graph statistics.
    pub shapes: Shapes,
}

impl Workspace {
    /// Builds a workspace from its parts.
    pub fn new(opened: Opened) -> Self {
        let Opened { name, encoders, meaning, audit, signer, rules, roots } = opened;
        Self {
            name,
            store: encoders.store_handle(),
            encoders,
            meaning,
            audit,
            signer,
            rules,
            roots: RwLock::new(roots),
            ingesting: Turns::default(),
            running: Mutex::default(),
            keeping: Turns::default(),
            noting: Mutex::default(),
            hidden: HiddenFrom::default(),
            recalls: Latencies::default(),
            shapes: Shapes::default(),
        }
    }

    /// The workspace over a reopened store with the same model.
    pub fn over(&self, encoders: Encoders, meaning: Meaning) -> Self {
        Self::new(Opened {
            name: self.name.clone(),
            encoders,
            meaning,
            audit: Arc::clone(&self.audit),
            signer: self.signer.clone(),
            rules: Arc::clone(&self.rules),
            roots: self.roots(),
        })
    }

    /// The running ingest job, locked; do not block while the guard exists.
    pub fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Folders below which files may be read now.
    pub fn roots(&self) -> Arc<Roots> {
        Arc::clone(&self.roots.read().unwrap_or_else(PoisonError::into_inner))
    }
}
