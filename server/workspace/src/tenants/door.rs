//! How the workspace of a tenant is opened.
//!
//! Owns what stores of tenants share: encoders, the threads of a pass, clock and randomness. Must not know
//! when a workspace is opened, nor for whom.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::os::clock::{Clock, Random};
use engine::{Ground, Model, Options, Store};

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

/// What workspaces are opened with.
pub struct Door {
    /// The data directory.
    pub data: PathBuf,
    /// How texts become vectors.
    pub encoding: Encoding,
    /// The model of a store that has none yet.
    pub embedder: Arc<Embedder>,
    /// Share out the rows of a pass.
    pub threads: Threads,
    /// How stores are opened; of tenants the tail is sealed sooner.
    pub options: Options,
    /// Their places on a remote, where there is one.
    pub seats: Option<Arc<Seats>>,
    /// What all nodes derive the keys of workspaces from, where they share a secret.
    pub secret: Option<Arc<ClusterSecret>>,
    /// Who may see what: the same rules for all.
    pub rules: Arc<Rules>,
    /// When entries of their ledgers are on disk.
    pub audit_sync: AuditSync,
    /// Keeps the last checkpoints of ledgers.
    pub control: Arc<Control>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// Encoders of other models, for stores that have one.
    pub others: Mutex<Vec<Arc<Embedder>>>,
}

impl Door {
    /// Makes the folders of a workspace that has none.
    pub(super) fn make(&self, name: &str) -> io::Result<()> {
        if !is_slug(name) {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        let folder = data_dir::tenant_dir(&self.data, name);
        DirBuilder::new().mode(0o700).create(&folder)?;
        DirBuilder::new().mode(0o700).create(folder.join("store"))
    }

    /// Opens a workspace that was made before.
    pub(super) fn open(&self, name: &str) -> Result<Workspace, Closed> {
        let folder = data_dir::tenant_dir(&self.data, name);
        // One that was made on another node has its folders here once somebody asks for it, whose key the control
        // store knows.
        if is_slug(name) && self.secret.is_some() && !folder.join("store").is_dir() {
            make_folders(&folder).map_err(failed)?;
        }
        if !is_slug(name) || !folder.join("store").is_dir() {
            return Err(Closed::Missing);
        }
        let options = Options { tail_bytes_seal: TENANT_TAIL_BYTES_SEAL, ..self.options };
        let Some(seats) = &self.seats else {
            let ground = Ground::real(&folder.join("store")).map_err(failed)?;
            let store = Store::open(ground, options).map_err(failed)?;
            return self.furnish(name, &folder, Arc::new(store));
        };
        let store = seats.open_store(name, &folder, options, &|| false).map_err(failed)?;
        // Nobody is to hold, for all nodes, what does not open here.
        self.furnish(name, &folder, store)
            .inspect_err(|closed| seats.give_back(name, &closed.why()))
    }

    /// A workspace over its store. Where that fails, the store is closed.
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
            // Of this machine's files the operator's are no tenant's.
            roots: Arc::new(Roots::open(&[]).map_err(failed)?),
        }))
    }

    /// The encoder of a store's model.
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

/// The folders of a workspace, as far as they are missing, for their owner alone.
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
