//! Builds the parts and owns the threads: the one place that reads the clock and randomness.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use encoder::Encoder;
use engine::os::clock::{Clock, Random, SystemClock, SystemRandom};
use engine::{Durability, Ground, OpenError, Options, Remedy, Store};
use kernels::Kernels;

use crate::auth::{Created, Credentials, LOCAL_WORKSPACE, Prefix};
use crate::embed::Embedder;
use crate::govern::{Audit, Rules};
use crate::metrics::Latencies;
use crate::model::{self, ModelRequest, Progress};
use crate::parts::{Parts, Workspace};
use crate::roots;
use crate::turn::Turns;

/// What the service is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The data directory.
    pub data: PathBuf,
    /// Where the encoder's files are; found by themselves where none is given.
    pub model: Option<PathBuf>,
    /// Threads that embedding may use.
    pub threads: usize,
    /// The longest that a tool call may take.
    pub call_time_max: Duration,
    /// When a write is acknowledged.
    pub durability: Durability,
}

/// Why the service did not start.
#[derive(Debug)]
pub enum StartError {
    /// Another process, very likely a running server, has the store.
    Busy(PathBuf),
    /// Anything else; the message ends with what to do.
    Failed(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(data) => write!(
                f,
                "{} is in use by another recalld process; stop it, or use another --data directory",
                data.display()
            ),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for StartError {}

fn failed(why: impl fmt::Display) -> StartError {
    StartError::Failed(why.to_string())
}

/// What a started service is, and what it made on the way.
pub struct Started {
    /// Its parts.
    pub parts: Arc<Parts>,
    /// What was not there before.
    pub created: Created,
}

/// The file that says where the server of a data directory listens.
pub const SERVING: &str = "serving.json";

/// Whoever has the store's lock answers for it: what an ended server said of itself is over, and a
/// credential must not be sent to whoever has its port now.
fn forget_server(data: &Path) {
    let _not_there = std::fs::remove_file(data.join(SERVING));
}

/// The directory of the workspace `local`.
pub fn workspace_dir(data: &Path) -> PathBuf {
    data.join("tenants").join(LOCAL_WORKSPACE)
}

/// The credentials in a data directory, made where there are none.
pub fn credentials(data: &Path) -> Result<(Credentials, Created), StartError> {
    let prefix = Prefix::new("recalld").expect("the default prefix is a good one");
    Credentials::open_or_create(data, &prefix, &mut |bytes| SystemRandom.fill(bytes))
        .map_err(failed)
}

/// Opens the store, the encoder and the ledger.
pub fn start(settings: &Settings, progress: &mut dyn Progress) -> Result<Started, StartError> {
    let (credentials, created) = credentials(&settings.data)?;
    let workspace = workspace_dir(&settings.data);
    // The store first: it opens in milliseconds, and without it there is no need to fetch a model.
    let store = open_store(&settings.data, &workspace, settings.durability)?;
    forget_server(&settings.data);
    let embedder = open_encoder(settings, progress)?;
    store.bind_model(embedder.model()).map_err(failed)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let random: Arc<dyn Random> = Arc::new(SystemRandom);
    let audit = open_audit(&workspace, &credentials, &clock, &random)?;
    let folders = roots::kept(&settings.data).map_err(failed)?;
    let parts = Parts {
        data: settings.data.clone(),
        workspace: Workspace {
            name: LOCAL_WORKSPACE.to_owned(),
            store: Arc::new(store),
            audit,
            ingesting: Turns::default(),
            keeping: Turns::default(),
            recalls: Latencies::default(),
        },
        embedder: Arc::new(embedder),
        kernels: Kernels::detect(),
        checker: credentials.checker(),
        signer: credentials.signer().clone(),
        rules: Rules::initial(),
        roots: RwLock::new(Arc::new(folders)),
        call_time_max: settings.call_time_max,
        clock,
        random,
        started: Instant::now(),
    };
    Ok(Started { parts: Arc::new(parts), created })
}

/// The store and the ledger of a data directory that is there, without the encoder: for commands
/// that neither ask nor embed.
pub fn open(data: &Path) -> Result<(Store, Audit), StartError> {
    let workspace = workspace_dir(data);
    if !workspace.join("store").is_dir() {
        let why = "there is no store; say where it is with --data DIR";
        return Err(failed(format!("{}: {why}", data.display())));
    }
    let (credentials, _) = credentials(data)?;
    let store = open_store(data, &workspace, Durability::Sync)?;
    forget_server(data);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let random: Arc<dyn Random> = Arc::new(SystemRandom);
    let audit = open_audit(&workspace, &credentials, &clock, &random)?;
    Ok((store, audit))
}

fn open_audit(
    workspace: &Path,
    credentials: &Credentials,
    clock: &Arc<dyn Clock>,
    random: &Arc<dyn Random>,
) -> Result<Audit, StartError> {
    let signer = credentials.signer().clone();
    let folder = workspace.join("ledger");
    Audit::open(&folder, LOCAL_WORKSPACE, signer, Arc::clone(clock), Arc::clone(random))
        .map_err(failed)
}

fn open_store(data: &Path, workspace: &Path, durability: Durability) -> Result<Store, StartError> {
    let ground = Ground::real(&workspace.join("store")).map_err(failed)?;
    let options = Options { durability, ..Options::default() };
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

fn open_encoder(settings: &Settings, progress: &mut dyn Progress) -> Result<Embedder, StartError> {
    let request = ModelRequest::from_environment(settings.model.clone());
    let name = request.name.clone();
    let files = model::ensure(&request, progress)
        .map_err(|error| failed(format!("{error}\n{}", error.remedy())))?;
    let encoder = Encoder::open(&files.borrowed())
        .map_err(|error| failed(format!("the model in {}: {error}", files.dir.display())))?;
    Ok(Embedder::new(encoder, name, settings.threads))
}
