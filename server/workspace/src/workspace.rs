//! One tenant's data, and what goes with it: store, encoders, ledger, signing key, rules.
//!
//! Owns what calls of one workspace share. Must not know who calls, nor which other workspaces there are.

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

/// What a workspace is opened with.
pub struct Opened {
    /// Its name.
    pub name: String,
    /// Its store, bound to its encoder.
    pub encoders: Encoders,
    /// What its questions by meaning share.
    pub meaning: Meaning,
    /// Its ledger.
    pub audit: Arc<Audit>,
    /// Signs the ledger's checkpoints, and its grounding tokens.
    pub signer: Signer,
    /// Who may see what.
    pub rules: Arc<Rules>,
    /// Where files may be read.
    pub roots: Arc<Roots>,
}

/// An ingest that runs now.
#[derive(Debug, Clone)]
pub struct Running {
    /// Under which it will be recorded.
    pub job: ItemId,
    /// Who asked.
    pub by: String,
    /// The tool that it came through.
    pub via: &'static str,
    /// What was asked for.
    pub paths: Vec<String>,
    /// When it began.
    pub began: Micros,
    /// Steps done, of how many.
    pub done: (u64, u64),
}

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
    pub audit: Arc<Audit>,
    /// Signs the ledger's checkpoints, and its grounding tokens.
    pub signer: Signer,
    /// Who may see what.
    pub rules: Arc<Rules>,
    /// Where files may be read; an operator's ingest can add to it.
    pub roots: RwLock<Arc<Roots>>,
    /// One ingest at a time.
    pub ingesting: Turns,
    /// The job that runs now.
    running: Mutex<Option<Running>>,
    /// One backup, compaction, erasure or move to another model at a time.
    pub keeping: Turns,
    /// Held while the list of known backups is changed.
    pub noting: Mutex<()>,
    /// What policy hides from whom.
    pub hidden: HiddenFrom,
    /// How long recalls took since it was opened.
    pub recalls: Latencies,
    /// How its graph hangs together.
    pub shapes: Shapes,
}

impl Workspace {
    /// A workspace of these.
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

    /// The same workspace over a store that was opened anew, whose model is the one it had.
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

    /// The job that runs now, locked for a moment.
    pub fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where files may be read now.
    pub fn roots(&self) -> Arc<Roots> {
        Arc::clone(&self.roots.read().unwrap_or_else(PoisonError::into_inner))
    }
}
