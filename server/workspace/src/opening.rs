//! Opens a data directory: its credentials, the store of `local`, the ledger and the metastore.

use std::path::Path;
use std::sync::Arc;

use engine::os::clock::{Clock, Random, SystemClock, SystemRandom};
use engine::{Env, Micros, OpenError, Options, Remedy, Store};

use crate::tenants;
use recalld_audit::Audit;
use recalld_auth::{Created, Credentials, Prefix};
use recalld_cluster::control_chain;
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_fs_util::data_dir;
use recalld_fs_util::data_dir::{CONTROL_FILE, workspace_dir};
use recalld_fs_util::start_error::{StartError, failed};
use recalld_metastore::{Control, Foreign};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// File with the address on which the server of a data directory listens.
pub const SERVING: &str = "serving.json";

/// Removes the serving file of an ended server. The owner of the store lock is the only server of the directory, so an
/// older file is stale. A credential must not be sent to the process that uses the old port now.
pub fn forget_server(data: &Path) {
    let _not_there = std::fs::remove_file(data.join(SERVING));
}

/// Rejects a backup. A backup has the layout of a data directory, and opening it as one would create keys and change
/// files listed in its `backup.json`.
fn refuse_backup(data: &Path) -> Result<(), StartError> {
    if !data_dir::is_backup(data) {
        return Ok(());
    }
    let data = data.display();
    Err(failed(format!(
        "BAK-09: {data} is a backup, which only `verify`, `salvage` and `restore` work with; restore it: \
         recalld restore {data} --data NEW_DIR"
    )))
}

/// Opens the credentials of a data directory, or creates them.
pub fn credentials(data: &Path) -> Result<(Credentials, Created), StartError> {
    data_dir::check_restored(data).map_err(failed)?;
    refuse_backup(data)?;
    let prefix = Prefix::new("recalld").expect("the default prefix is a good one");
    Credentials::open_or_create(data, &prefix, &mut |bytes| SystemRandom.fill(bytes))
        .map_err(failed)
}

/// Opens the store and the ledger of an existing data directory without the encoder, for commands that neither query
/// nor embed.
pub fn open(data: &Path) -> Result<(Store, Audit), StartError> {
    let Kept { store, audit, .. } = open_with_control(data)?;
    Ok((store, audit))
}

/// Store, ledger and metastore of a data directory, opened by a command without a server.
pub struct Kept {
    /// The store of `local`; its lock protects the whole data directory.
    pub store: Store,
    /// The ledger of `local`.
    pub audit: Audit,
    /// The metastore, opened on first use.
    pub control: Arc<Control>,
    /// Wall-clock time at opening.
    pub now: Micros,
}

/// Opens an existing data directory with its metastore. A process must open the metastore file only once, because two
/// handles would block each other.
pub fn open_with_control(data: &Path) -> Result<Kept, StartError> {
    refuse_backup(data)?;
    data_dir::check_store(data).map_err(failed)?;
    open_or_make(data)
}

/// Opens a data directory with its metastore, and creates missing parts as the first start of a server would.
pub fn open_or_make(data: &Path) -> Result<Kept, StartError> {
    let (credentials, _) = credentials(data)?;
    let workspace = workspace_dir(data);
    let store = open_store(data, &workspace, Options::default())?;
    forget_server(data);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let random: Arc<dyn Random> = Arc::new(SystemRandom);
    let file = data.join(CONTROL_FILE);
    let control = Arc::new(Control::at(&file, Arc::clone(&clock), Arc::clone(&random)));
    keep_as_it_is(data, &control);
    let audit = open_audit(&workspace, &credentials, (&clock, &random), &control)?;
    let now = clock.now();
    Ok(Kept { store, audit, control, now })
}

/// Opens the ledger of `local`. If the metastore exists, it stores the last checkpoint. An unreadable metastore is only
/// logged, because the commands that repair it must be able to run.
pub fn open_audit(
    workspace: &Path,
    credentials: &Credentials,
    (clock, random): (&Arc<dyn Clock>, &Arc<dyn Random>),
    control: &Arc<Control>,
) -> Result<Audit, StartError> {
    let signer = credentials.signer().clone();
    let folder = workspace.join("ledger");
    let with = (Arc::clone(clock), Arc::clone(random));
    match tenants::anchoring(control, LOCAL_WORKSPACE, &folder) {
        Ok(anchoring) => Audit::open_anchored(&folder, LOCAL_WORKSPACE, signer, with, anchoring),
        Err(why) => {
            let fields = [("why", Value::Text(&why))];
            log::event(Level::Warn, "the ledger's last checkpoint is not known", &fields);
            Audit::open(&folder, LOCAL_WORKSPACE, signer, with.0, with.1)
        }
    }
    .map_err(failed)
}

/// Opens and locks the store of `local`.
///
/// # Errors
/// Returns an error if the store is locked or damaged, the workspace follows another node, or the disk fails.
pub fn open_store(data: &Path, workspace: &Path, options: Options) -> Result<Store, StartError> {
    let ground = Env::on_disk(&workspace.join("store")).map_err(failed)?;
    if recalld_replication::is_followed(workspace).map_err(failed)? {
        if ground.disk.lock().map_err(failed)?.is_none() {
            return Err(StartError::Busy(data.to_owned()));
        }
        return Err(failed(format!(
            "{} follows another node's workspace: only a server with the settings of its remote may open it; \
             start one, or remove {} to make the data directory one of its own",
            data.display(),
            workspace.join("remote.json").display()
        )));
    }
    Store::open(ground, options).map_err(|error| match error {
        OpenError::Locked => StartError::Busy(data.to_owned()),
        other => {
            let advice = match other.remedy() {
                Remedy::Restore => damaged_advice(data),
                Remedy::Upgrade => "; use the newer build that wrote it".to_owned(),
                Remedy::FreeSpace => "; free some space on that disk".to_owned(),
                _ => String::new(),
            };
            failed(format!("{}: {other}{advice}", workspace.display()))
        }
    })
}

/// Advice for a damaged store: nothing was changed yet, so the operator can make a copy first.
fn damaged_advice(data: &Path) -> String {
    let data = data.display();
    format!(
        "\n  keep a copy of it first: cp -a {data} {data}.damaged\n  \
         see all that is wrong: recalld verify --data {data}\n  \
         with a backup: recalld restore BACKUP --data NEW_DIR\n  \
         without one: recalld salvage --data {data} --to lines.jsonl, then \
         recalld import lines.jsonl --data NEW_DIR"
    )
}

/// Freezes a replicated metastore: only a process that follows its record log may change it.
pub fn keep_as_it_is(data: &Path, control: &Control) {
    let marker = data.join(control_chain::MARKER);
    if marker.exists() {
        let marker = marker.display();
        control.carry_by(Arc::new(Foreign(format!(
            "tenants and their keys are shared with other nodes: only a server with `remote.secret_file` may change \
             them; start one, or remove {marker} to make them this node's own"
        ))));
    }
}
