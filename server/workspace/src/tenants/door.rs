//! Opens the workspace of a tenant.
//!
//! Owns the parts shared by tenant stores: encoders, scan threads, clock and randomness. Does not decide when and for
//! whom a workspace is opened.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::os::clock::{Clock, Random};
use engine::{Env, Model, Options, Store};

use super::{Closed, anchoring};
use crate::limits::{TENANT_MODELS_MAX, TENANT_TAIL_BYTES_SEAL};
use crate::workspace::{Opened, Workspace};
use recalld_audit::Audit;
use recalld_audit::AuditSync;
use recalld_auth::ClusterSecret;
use recalld_cluster::seats::Seats;
use recalld_common::slug::is_slug;
use recalld_embedding::embed::Embedder;
use recalld_embedding::encoders::Encoders;
use recalld_embedding::encoding::Encoding;
use recalld_embedding::model::Silent;
use recalld_embedding::model_file;
use recalld_fs_util::data_dir;
use recalld_fs_util::roots::Roots;
use recalld_metastore::Control;
use recalld_policy::Rules;
use recalld_recall::{Meaning, Threads};

/// Dependencies for opening workspaces.
pub struct Door {
    /// The data directory.
    pub data: PathBuf,
    /// Embedding model and vector distance.
    pub encoding: Encoding,
    /// Embedder for stores without a recorded model.
    pub embedder: Arc<Embedder>,
    /// Thread pool that splits the rows of a scan.
    pub threads: Threads,
    /// Store options; tenant stores seal their tail earlier.
    pub options: Options,
    /// Replicas of the workspaces on the remote; `None` without a remote.
    pub seats: Option<Arc<Seats>>,
    /// Secret from which all nodes derive the keys of workspaces; `None` if the nodes share no secret.
    pub secret: Option<Arc<ClusterSecret>>,
    /// Policy rules, shared by all workspaces.
    pub rules: Arc<Rules>,
    /// When ledger entries are synced to disk.
    pub audit_sync: AuditSync,
    /// Metastore, which stores the last checkpoints of ledgers.
    pub control: Arc<Control>,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// Source of randomness.
    pub random: Arc<dyn Random>,
    /// Cached encoders of other models.
    pub others: Mutex<Vec<Arc<Embedder>>>,
}

impl Door {
    /// Creates the folders of a new workspace.
    pub(super) fn make(&self, name: &str) -> io::Result<()> {
        if !is_slug(name) {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        let folder = data_dir::tenant_dir(&self.data, name);
        DirBuilder::new().mode(0o700).create(&folder)?;
        DirBuilder::new().mode(0o700).create(folder.join("store"))
    }

    /// Opens an existing workspace.
    pub(super) fn open(&self, name: &str) -> Result<Workspace, Closed> {
        let folder = data_dir::tenant_dir(&self.data, name);
        // A workspace created on another node gets its local folders on first use; the metastore has its key.
        if is_slug(name) && self.secret.is_some() && !folder.join("store").is_dir() {
            make_folders(&folder).map_err(failed)?;
        }
        if !is_slug(name) || !folder.join("store").is_dir() {
            return Err(Closed::Missing);
        }
        let options = Options { tail_bytes_seal: TENANT_TAIL_BYTES_SEAL, ..self.options };
        let Some(seats) = &self.seats else {
            let ground = Env::on_disk(&folder.join("store")).map_err(failed)?;
            let store = Store::open(ground, options).map_err(failed)?;
            return self.furnish(name, &folder, Arc::new(store));
        };
        let store = seats.open_store(name, &folder, options, None).map_err(failed)?;
        // If the workspace does not open here, release its lease, so that another node can lead it.
        self.furnish(name, &folder, store)
            .inspect_err(|closed| seats.give_back(name, &closed.why()))
    }

    /// Builds the workspace over its store. On an error, the store is closed.
    fn furnish(&self, name: &str, folder: &Path, store: Arc<Store>) -> Result<Workspace, Closed> {
        let embedder = self.embedder_of(store.snapshot().model())?;
        let encoders = Encoders::bind(store, embedder).map_err(failed)?;
        let mut random = |bytes: &mut [u8]| self.random.fill(bytes);
        if let Some(secret) = &self.secret {
            recalld_auth::take_shared_signing_key(folder, name, secret, &mut random)
                .map_err(failed)?;
        }
        let signer =
            recalld_auth::open_or_create_signing_key(folder, &mut random).map_err(failed)?.0;
        let with = (Arc::clone(&self.clock), Arc::clone(&self.random));
        let ledger = folder.join("ledger");
        let anchoring = anchoring(&self.control, name, &ledger).map_err(failed)?;
        let audit = Audit::open_anchored(&ledger, name, signer.clone(), with, anchoring);
        let audit = audit.map_err(failed)?.syncing(self.audit_sync);
        let elsewhere = self.seats.as_ref().map(|seats| seats.ledger(name, folder)).transpose();
        let audit = audit.brought(elsewhere.map_err(failed)?);
        Ok(Workspace::new(Opened {
            name: name.to_owned(),
            encoders,
            meaning: Meaning::new(self.encoding.kernels, self.threads.clone()),
            audit: Arc::new(audit),
            signer,
            rules: Arc::clone(&self.rules),
            // Tenants must not read the operator's files on this machine.
            roots: Arc::new(Roots::open(&[]).map_err(failed)?),
        }))
    }

    /// Embedder of a store's model.
    fn embedder_of(&self, model: Option<Model>) -> Result<Arc<Embedder>, Closed> {
        let is_ours = |embedder: &Embedder| model.is_none_or(|model| embedder.model() == model);
        if is_ours(&self.embedder) {
            return Ok(Arc::clone(&self.embedder));
        }
        let mut others = self.others();
        if let Some(other) = others.iter().find(|other| is_ours(other)) {
            return Ok(Arc::clone(other));
        }
        let model = model.expect("none is wanted where there is none");
        let known = model_file::find(&self.data, model).map_err(failed)?;
        let known = known.ok_or_else(|| {
            failed("its store has a model that is not known here; start once with --model DIR")
        })?;
        let opened = recalld_embedding::encoding::open_model(
            Some(&known.directory),
            self.encoding,
            &mut Silent,
        );
        let opened = Arc::new(opened.map_err(failed)?.embedder);
        if !is_ours(&opened) {
            return Err(failed("the folder of its store's model holds another one now"));
        }
        if others.len() == TENANT_MODELS_MAX {
            others.remove(0);
        }
        others.push(Arc::clone(&opened));
        Ok(opened)
    }

    fn others(&self) -> MutexGuard<'_, Vec<Arc<Embedder>>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates the missing folders of a workspace, with access for their owner only.
pub fn make_folders(folder: &Path) -> io::Result<()> {
    for folder in [folder, &folder.join("store")] {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
    }
    Ok(())
}

fn failed(why: impl ToString) -> Closed {
    Closed::Failed(why.to_string())
}
