//! Builds the parts and owns the threads: the one place that reads the clock and randomness.

mod among;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use encoder::Precision;
use engine::os::clock::{Clock, Random, SystemClock, SystemRandom};
use engine::{
    Durability, Ground, Micros, Model, OpenError, Options, Remedy, SearchMode, Searching, Store,
    WriteError, hex,
};
use kernels::Kernels;
use remote::{BootClock, TickSource};

use crate::auth::{
    ClusterSecret, Created, Credentials, LOCAL_WORKSPACE, Prefix, take_shared_signing_key,
};
use crate::authority::Authority;
use crate::config::{Config, MailSecurity};
use crate::console::Sessions;
use crate::control::Control;
use crate::data_dir::{self, CONTROL_FILE, workspace_dir};
use crate::embed::Embedder;
use crate::encoders::Encoders;
use crate::govern::meter::Meter;
use crate::govern::rate::{Buckets, Guesses};
use crate::govern::{Audit, Rules, rules_file};
use crate::ingest::read::PdfReader;
use crate::limits::workers;
use crate::local::Local;
use crate::log::Said;
use crate::log::{self, Level, Value};
use crate::mail::{MailQueue, MailSettings, Security, SmtpMailer};
use crate::metrics::Stages;
use crate::model::{self, ModelRequest, Progress, Sha256};
use crate::model_file::{self, KnownModel};
use crate::net::Cancel;
use crate::oauth::Places;
use crate::operator::Scheduled;
use crate::parts::Parts;
use crate::pipeline::name_of;
use crate::recall::{Meaning, Threads};
use crate::roots;
use crate::seats::{Seats, is_locked};
use crate::tenants::{self, Door, Tenants};
use crate::workspace::{Opened, Workspace};

use among::{blocks, cluster, keep_as_it_is, relay, seats, secret, share_control};

/// What the service is started with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The data directory.
    pub data: PathBuf,
    /// Where the encoder's files are; found by themselves where none is given.
    pub model: Option<PathBuf>,
    /// How texts become vectors.
    pub encoding: Encoding,
    /// The longest that a tool call may take.
    pub call_time_max: Duration,
    /// When a write is acknowledged.
    pub durability: Durability,
    /// How the store is searched by meaning.
    pub search_mode: SearchMode,
    /// What the settings file says.
    pub config: Config,
    /// Where the hosted listener is reached from outside: an origin, without a slash behind it.
    pub public_url: Option<String>,
    /// What reads PDFs: `recalld` itself, or nothing, when no PDF is read.
    pub pdf: Option<PdfReader>,
}

impl Settings {
    /// What of them is the store's.
    fn options(&self) -> Options {
        let searching = Searching { mode: self.search_mode, ..Searching::default() };
        Options { durability: self.durability, searching, ..Options::default() }
    }
}

/// How the arithmetic of embedding is done, whatever the model.
#[derive(Debug, Clone, Copy)]
pub struct Encoding {
    /// At which level.
    pub kernels: Kernels,
    /// With which form of the weights.
    pub precision: Precision,
    /// Threads that a batch may use.
    pub threads: usize,
}

impl Encoding {
    /// The fastest level of this CPU, the precision that goes with it, and a thread for each core.
    pub fn detect() -> Self {
        let kernels = Kernels::detect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { kernels, precision: encoder::default_precision(kernels), threads }
    }
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

/// Whoever has the store's lock runs the benchmarks: the scratch store of a process that was killed is nobody's.
fn forget_scratch(data: &Path) {
    // What cannot be removed goes before the next benchmark, which says so where it cannot.
    let _not_there = std::fs::remove_dir_all(data.join(data_dir::BENCH_SCRATCH));
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

/// The same of a node that shares a secret with others: its signing key is the one that all of them derive.
fn credentials_sharing(
    data: &Path,
    secret: Option<&ClusterSecret>,
) -> Result<(Credentials, Created), StartError> {
    let (credentials, created) = credentials(data)?;
    let Some(secret) = secret else { return Ok((credentials, created)) };
    let mut random = |bytes: &mut [u8]| SystemRandom.fill(bytes);
    take_shared_signing_key(data, LOCAL_WORKSPACE, secret, &mut random).map_err(failed)?;
    Ok((self::credentials(data)?.0, created))
}

/// Opens the store, the encoder and the ledger.
pub fn start(settings: &Settings, progress: &mut dyn Progress) -> Result<Started, StartError> {
    start_unless(settings, progress, &Cancel::new())
}

/// The clocks that a service goes by.
#[derive(Debug, Clone)]
pub struct Times {
    /// The date.
    pub clock: Arc<dyn Clock>,
    /// How long things take on a remote.
    pub ticks: Arc<dyn TickSource>,
}

impl Times {
    /// Those of the system.
    pub fn real() -> Self {
        Self { clock: Arc::new(SystemClock), ticks: Arc::new(BootClock) }
    }
}

/// The same, which waits for a remote that has nothing yet, unless it is called off.
pub fn start_unless(
    settings: &Settings,
    progress: &mut dyn Progress,
    stopping: &Cancel,
) -> Result<Started, StartError> {
    start_by(settings, progress, stopping, &Times::real())
}

/// The same, by these clocks.
pub fn start_by(
    settings: &Settings,
    progress: &mut dyn Progress,
    stopping: &Cancel,
    times: &Times,
) -> Result<Started, StartError> {
    let secret = secret(settings)?;
    let (credentials, created) = credentials_sharing(&settings.data, secret.as_deref())?;
    let workspace = workspace_dir(&settings.data);
    let clock = Arc::clone(&times.clock);
    let random: Arc<dyn Random> = Arc::new(SystemRandom);
    // The store first: it opens in milliseconds, and without it there is no need to fetch a model.
    let seats = seats(settings, times, &random)?;
    let control = settings.data.join(CONTROL_FILE);
    let control = Arc::new(Control::at(&control, Arc::clone(&clock), Arc::clone(&random)));
    // Before `local` becomes anything to the remote: a node with tenants of its own joins no others.
    let control_chain = share_control(settings, seats.as_deref(), secret.as_ref(), &control)?;
    let relay = relay(seats.as_ref())?;
    let blocks = blocks((seats.as_ref(), relay.as_ref()), &control, control_chain.as_ref());
    let store = match &seats {
        None => Arc::new(open_store(&settings.data, &workspace, settings.options())?),
        Some(seats) => seat(seats, settings, &workspace, stopping)?,
    };
    forget_server(&settings.data);
    forget_scratch(&settings.data);
    let encoders = bind_encoder(settings, store, progress)?;
    let audit = open_audit(&workspace, &credentials, (&clock, &random), &control)?;
    let elsewhere = seats.as_ref().map(|seats| seats.ledger(LOCAL_WORKSPACE, &workspace));
    let elsewhere = elsewhere.transpose().map_err(failed)?;
    let audit = audit.syncing(settings.config.audit_sync).brought(elsewhere);
    let rules = Arc::new(rules(&settings.config)?);
    let folders = roots::kept(&settings.data).map_err(failed)?;
    let threads = Threads::new(settings.encoding.threads);
    let began = Instant::now();
    let door = Door {
        data: settings.data.clone(),
        encoding: settings.encoding,
        embedder: encoders.view().embedder,
        threads: threads.clone(),
        options: settings.options(),
        seats: seats.clone(),
        secret: secret.clone(),
        clock: Arc::clone(&clock),
        random: Arc::clone(&random),
        rules: Arc::clone(&rules),
        audit_sync: settings.config.audit_sync,
        control: Arc::clone(&control),
        others: Mutex::default(),
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let bounds = tenants::Bounds::of_workers(workers(cores));
    let tenants = Tenants::start(door, bounds).map_err(failed)?;
    let parts = Parts {
        data: settings.data.clone(),
        local: Local::new(Workspace::new(Opened {
            name: LOCAL_WORKSPACE.to_owned(),
            encoders,
            meaning: Meaning::new(settings.encoding.kernels, threads.clone()),
            audit: Arc::new(audit),
            signer: credentials.signer().clone(),
            rules,
            roots: Arc::new(folders),
        })),
        tenants,
        authority: authority(settings, &*random)?,
        meter: Meter::new(blocks, Arc::clone(&random)),
        control,
        control_chain,
        secret,
        mail: letters(&settings.config, (&clock, &random))?,
        scheduled: Scheduled::new(settings.config.backup.clone()),
        config: settings.config.clone(),
        rates: Buckets::new(began),
        strangers: Buckets::new(began),
        guesses: Guesses::new(began),
        console: Sessions::default(),
        cluster: cluster(seats.as_ref(), relay),
        seats,
        threads,
        pdf: settings.pdf.clone(),
        encoding: settings.encoding,
        checker: credentials.checker(),
        said: Said::default(),
        stages: Stages::default(),
        call_time_max: settings.call_time_max,
        clock,
        random,
        started: began,
    };
    Ok(Started { parts: Arc::new(parts), created })
}

/// The store of `local` in its place there. One that is followed is waited for until it has a model: before,
/// nothing can be asked of it.
fn seat(
    seats: &Seats,
    settings: &Settings,
    workspace: &Path,
    stopping: &Cancel,
) -> Result<Arc<Store>, StartError> {
    let goes_on = || !stopping.is_raised();
    let opened = seats.open_store(LOCAL_WORKSPACE, workspace, settings.options(), &goes_on);
    let store = opened.map_err(|why| match why {
        why if is_locked(&why) => StartError::Busy(settings.data.clone()),
        why => failed(format!("{}: {why}", seats.settings().address)),
    })?;
    while store.follows() && store.snapshot().model().is_none() {
        if !goes_on() {
            return Err(failed("told to end before there was anything to follow"));
        }
        thread::sleep(MODEL_PAUSE);
    }
    Ok(store)
}

/// How long a start waits between two looks for the model of a store that is followed.
const MODEL_PAUSE: Duration = Duration::from_millis(50);

/// The rules that the settings name, or the initial ones.
fn rules(config: &Config) -> Result<Rules, StartError> {
    let Some(file) = &config.policy_file else { return Ok(Rules::initial()) };
    rules_file::read(file, &config.plans).map_err(|error| {
        let file = file.display();
        failed(format!("{file}: {error}; mend it, and see: recalld policy check {file}"))
    })
}

/// Longest time for one read from the mail server, or one write to it.
const MAIL_TIMEOUT: Duration = Duration::from_secs(30);

/// What sends letters, where the settings say by which server. Nobody is connected to yet.
fn letters(
    config: &Config,
    (clock, random): (&Arc<dyn Clock>, &Arc<dyn Random>),
) -> Result<Option<MailQueue>, StartError> {
    let Some(mail) = &config.mail else { return Ok(None) };
    let login = mail.login.clone();
    let settings = MailSettings {
        host: mail.host.clone(),
        port: mail.port,
        security: match mail.security {
            MailSecurity::Tls => Security::Tls,
            MailSecurity::StartTls => Security::StartTls,
            MailSecurity::None => Security::None,
        },
        user: login.as_ref().map(|login| login.user.clone()),
        password_file: login.map(|login| login.password_file),
        roots_file: None,
        from: mail.from.clone(),
        timeout: MAIL_TIMEOUT,
    };
    let mailer = SmtpMailer::open(&settings, Arc::clone(clock), Arc::clone(random));
    let mailer = mailer.map_err(|error| failed(format!("the settings of [mail]: {error}")))?;
    MailQueue::start(Arc::new(mailer)).map(Some).map_err(failed)
}

/// What issues access tokens, where there is an address for it.
fn authority(settings: &Settings, random: &dyn Random) -> Result<Option<Authority>, StartError> {
    let Some(issuer) = &settings.public_url else { return Ok(None) };
    let places = Places::new(issuer, &format!("{issuer}/mcp"));
    let places = places.map_err(|why| failed(format!("--public-url: {why}")))?;
    let host = issuer.split_once("://").map_or("", |(_, authority)| name_of(authority));
    let mut legacy = settings.config.legacy.hosts.iter();
    if let Some(listed) = legacy.find(|listed| listed.eq_ignore_ascii_case(host)) {
        return Err(failed(format!(
            "legacy.hosts: {listed} is where the service is now, by --public-url; list those of before alone"
        )));
    }
    Ok(Some(Authority::new(places, random)))
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
fn open_audit(
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

fn open_store(data: &Path, workspace: &Path, options: Options) -> Result<Store, StartError> {
    let ground = Ground::real(&workspace.join("store")).map_err(failed)?;
    if remote::is_followed(workspace).map_err(failed)? {
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

/// An encoder, and the folder that its files are in.
pub(crate) struct OpenedModel {
    pub(crate) embedder: Embedder,
    pub(crate) known: KnownModel,
    /// SHA-256 of its `model.safetensors`.
    pub(crate) weights_sha256: Sha256,
}

/// The model in a folder, or the default one, with the places that this process's environment names.
pub fn model_request(directory: Option<PathBuf>) -> ModelRequest {
    ModelRequest::from_variables(directory, &|name| std::env::var_os(name))
}

/// Opens the model in a folder; without one the default model, wherever it is found.
pub(crate) fn open_model(
    directory: Option<&Path>,
    encoding: Encoding,
    progress: &mut dyn Progress,
) -> Result<OpenedModel, StartError> {
    open_request(&model_request(directory.map(Path::to_owned)), encoding, progress)
}

/// The same, wherever a request has it looked for.
pub(crate) fn open_request(
    request: &ModelRequest,
    encoding: Encoding,
    progress: &mut dyn Progress,
) -> Result<OpenedModel, StartError> {
    let Encoding { kernels, precision, threads } = encoding;
    let files = model::open(request, kernels, precision, progress).map_err(failed)?;
    let folder = files.dir.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = match folder {
        Some(folder) if files.weights_sha256 != request.expected.weights => folder,
        _ => request.name.clone(),
    };
    let weights_sha256 = files.weights_sha256;
    let embedder = Embedder::new(files.encoder, name, threads);
    let is_telling = std::env::var_os(TELL_EMBEDDING).is_some();
    let embedder = if is_telling { embedder.telling() } else { embedder };
    let known = KnownModel {
        model: embedder.model(),
        name: embedder.name().to_owned(),
        directory: files.dir,
    };
    Ok(OpenedModel { embedder, known, weights_sha256 })
}

/// Set in the environment, it has every step of embedding said on standard error, for tests that kill
/// the process and then want to know what it did.
const TELL_EMBEDDING: &str = "RECALLD_TELL_EMBEDDING";

/// Opens the encoder that the settings name, or the one that the data directory remembers for the
/// store's model, or the default one; and binds the store to it.
fn bind_encoder(
    settings: &Settings,
    store: Arc<Store>,
    progress: &mut dyn Progress,
) -> Result<Encoders, StartError> {
    let bound = store.snapshot().model();
    let known = match (&settings.model, bound) {
        (None, Some(model)) => model_file::find(&settings.data, model).map_err(failed)?,
        _ => None,
    };
    let directory = settings.model.as_deref().or(known.as_ref().map(|it| &*it.directory));
    let opened = match (open_model(directory, settings.encoding, progress), &known) {
        (Err(why), Some(known)) => instead_of(known, &why, settings.encoding, progress)?,
        (opened, _) => opened?,
    };
    let embedder = Arc::new(opened.embedder);
    let encoders = Encoders::bind(store, embedder).map_err(|error| match (error, bound) {
        (WriteError::Refused { .. }, Some(bound)) => {
            failed(another_model(settings, bound, &opened.known))
        }
        (error, _) => failed(error),
    })?;
    let is_elsewhere = known.is_some_and(|known| known.directory != opened.known.directory);
    if (settings.model.is_some() || is_elsewhere)
        && let Err(why) = model_file::remember(&settings.data, &opened.known, bound)
    {
        let what = "the next start has to look for the model again, or be given --model";
        log::event(Level::Warn, what, &[("why", Value::Text(&why))]);
    }
    Ok(encoders)
}

/// The folder of a known model holds it no more: the default model is looked for elsewhere.
fn instead_of(
    known: &KnownModel,
    why: &StartError,
    encoding: Encoding,
    progress: &mut dyn Progress,
) -> Result<OpenedModel, StartError> {
    if known.name == model_request(None).name {
        let fields = [("why", Value::Text(why)), ("model", Value::Text(&known.name))];
        log::event(Level::Warn, "the model is not where it was; looking for it elsewhere", &fields);
        return open_model(None, encoding, progress);
    }
    Err(failed(format!(
        "{why}\nThe store has the model {} ({}), which was in that folder when it was used last; put \
         it back, start with --model DIR where it is now, or move the store to another model: \
         recalld reembed --model DIR",
        known.name,
        described(known.model),
    )))
}

/// Why a store does not open with an encoder, and the two ways out.
fn another_model(settings: &Settings, bound: Model, opened: &KnownModel) -> String {
    let known = model_file::find(&settings.data, bound).ok().flatten();
    let (name, folder) = match &known {
        Some(known) => (format!(" {}", known.name), known.directory.display().to_string()),
        None => (String::new(), "DIR, where its files are".to_owned()),
    };
    let other = opened.directory.display();
    format!(
        "the store has the model{name} ({}); {} ({}) is in {other}: start with --model {folder}, or \
         move the store: recalld reembed --model {other}",
        described(bound),
        opened.name,
        described(opened.model),
    )
}

/// Some digits of a fingerprint, which tell models apart, and the width.
fn described(model: Model) -> String {
    format!("{}, {} wide", hex(&model.fingerprint[..6]), model.dimensions)
}
