//! Opening a data directory: its credentials, the store of `local`, its ledger and the control store.

use std::path::Path;
use std::sync::Arc;

use engine::os::clock::{Clock, Random, SystemClock, SystemRandom};
use engine::{Ground, Micros, OpenError, Options, Remedy, Store};

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

/// The file that says where the server of a data directory listens.
pub const SERVING: &str = "serving.json";

/// Whoever has the store's lock answers for it: what an ended server said of itself is over, and a
/// credential must not be sent to whoever has its port now.
pub fn forget_server(data: &Path) {
    let _not_there = std::fs::remove_file(data.join(SERVING));
}

/// A backup is laid out as a data directory is, and whoever works in one spoils it: keys would be made
/// there, and files that its `backup.json` lists would change.
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

/// The credentials in a data directory, made where there are none.
pub fn credentials(data: &Path) -> Result<(Credentials, Created), StartError> {
    data_dir::check_restored(data).map_err(failed)?;
    refuse_backup(data)?;
    let prefix = Prefix::new("recalld").expect("the default prefix is a good one");
    Credentials::open_or_create(data, &prefix, &mut |bytes| SystemRandom.fill(bytes))
        .map_err(failed)
}

/// The store and the ledger of a data directory that is there, without the encoder: for commands
/// that neither ask nor embed.
pub fn open(data: &Path) -> Result<(Store, Audit), StartError> {
    let Kept { store, audit, .. } = open_with_control(data)?;
    Ok((store, audit))
}

/// What a command has that keeps a data directory.
pub struct Kept {
    /// The store of `local`. Whoever has it has the data directory.
    pub store: Store,
    /// Its ledger.
    pub audit: Audit,
    /// The control store, opened by the first who needs it.
    pub control: Arc<Control>,
    /// The time.
    pub now: Micros,
}

/// The same, with the control store: two of one file in one process would stand in each other's way.
pub fn open_with_control(data: &Path) -> Result<Kept, StartError> {
    refuse_backup(data)?;
    data_dir::check_store(data).map_err(failed)?;
    open_or_make(data)
}

/// The same, which makes what is not there yet, as the first start of a server would.
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

/// The ledger of `local`. As soon as there is a control store, it keeps the last checkpoint; one that cannot be asked
/// stands in nobody's way here, for whoever has to mend it must be able to.
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

/// Opens the store of `local`, and takes its lock.
///
/// # Errors
/// It is locked or damaged, follows another node, or the disk fails.
pub fn open_store(data: &Path, workspace: &Path, options: Options) -> Result<Store, StartError> {
    let ground = Ground::real(&workspace.join("store")).map_err(failed)?;
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

/// What to do about a damaged store: nothing was changed, and nothing has to be lost in a hurry.
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

/// A control store that is one of several nodes' is changed by none that does not follow their chain.
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
