//! Builds the application state and starts its threads. Only this module reads the system clock and randomness.

mod among;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use engine::os::clock::{Clock, Random, SystemClock, SystemRandom};
use engine::{AnnPolicy, Durability, Model, Options, SearchMode, Store, WriteError, hex};
use recalld_replication::{BootClock, TickSource};

use recalld_embedding::encoding::{Encoding, model_request};
use recalld_embedding::encoding::{OpenedModel, open_model};
use recalld_fs_util::start_error::StartError;
use recalld_fs_util::start_error::failed;
use recalld_workspace::opening::credentials;
use recalld_workspace::opening::{forget_server, open_audit, open_store};

use recalld_api::app_state::AppState;
use recalld_api::console::Sessions;
use recalld_api::pipeline::name_of;
use recalld_auth::{ClusterSecret, Created, Credentials, take_shared_signing_key};
use recalld_cluster::seats::{Seats, is_locked};
use recalld_common::cancel::{CallScope, CancellationToken};
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_config::{Config, MailSecurity};
use recalld_documents::PdfReader;
use recalld_embedding::encoders::Encoders;
use recalld_embedding::model::Progress;
use recalld_embedding::model_file;
use recalld_embedding::model_file::KnownModel;
use recalld_fs_util::data_dir;
use recalld_fs_util::data_dir::{CONTROL_FILE, workspace_dir};
use recalld_http_server::limits::workers;
use recalld_mail::{MailQueue, MailSettings, Security, SmtpMailer};
use recalld_metastore::Control;
use recalld_oauth::Places;
use recalld_oauth::authority::Authority;
use recalld_policy::meter::Meter;
use recalld_policy::rate::{Buckets, Guesses};
use recalld_policy::{Rules, rules_file};
use recalld_recall::{Meaning, Threads};
use recalld_store_admin::{Scheduled, StoreAdmin};
use recalld_telemetry::log;
use recalld_telemetry::log::Said;
use recalld_telemetry::log::{Level, Value};
use recalld_telemetry::metrics::Stages;
use recalld_workspace::local::Local;
use recalld_workspace::roots;
use recalld_workspace::tenants;
use recalld_workspace::tenants::{Door, Tenants};
use recalld_workspace::workspace::{Opened, Workspace};

use among::{blocks, cluster, relay, seats, secret, share_control};

/// The inputs of [`start`].
#[derive(Debug, Clone)]
pub struct Settings {
    /// The data directory.
    pub data: PathBuf,
    /// Directory of the encoder's files; if `None`, the directory recorded for the store's model, else the default
    /// model's.
    pub model: Option<PathBuf>,
    /// Kernels, precision and threads of the encoder.
    pub encoding: Encoding,
    /// Longest duration of a tool call.
    pub call_time_max: Duration,
    /// Durability at which a write is acknowledged.
    pub durability: Durability,
    /// Exact or approximate vector search.
    pub search_mode: SearchMode,
    /// The loaded settings file.
    pub config: Config,
    /// Public origin of the hosted listener, without a trailing slash.
    pub public_url: Option<String>,
    /// The PDF reader; `None` if PDFs are not read.
    pub pdf: Option<PdfReader>,
}

impl Settings {
    /// The store's part of the settings.
    fn options(&self) -> Options {
        let searching = AnnPolicy { mode: self.search_mode, ..AnnPolicy::default() };
        Options { durability: self.durability, ann_policy: searching, ..Options::default() }
    }
}

/// A started service, and the files that the start created.
pub struct Started {
    /// The application state.
    pub parts: Arc<AppState>,
    /// The files and folders that the start created.
    pub created: Created,
}

/// Removes the benchmark's scratch store. Benchmarks run under the store's lock, so a scratch store found here belongs
/// to a killed process.
fn forget_scratch(data: &Path) {
    // If the removal fails, the next benchmark retries the removal and reports the error.
    let _not_there = std::fs::remove_dir_all(data.join(data_dir::BENCH_SCRATCH));
}

/// Loads the credentials. A node with a cluster secret gets the signing key derived from that secret, which all its
/// nodes share.
fn credentials_sharing(
    data: &Path,
    secret: Option<&ClusterSecret>,
) -> Result<(Credentials, Created), StartError> {
    let (credentials, created) = credentials(data)?;
    let Some(secret) = secret else { return Ok((credentials, created)) };
    let mut random = |bytes: &mut [u8]| SystemRandom.fill(bytes);
    take_shared_signing_key(data, LOCAL_WORKSPACE, secret, &mut random).map_err(failed)?;
    Ok((recalld_workspace::opening::credentials(data)?.0, created))
}

/// Opens the store, the encoder and the ledger.
pub fn start(settings: &Settings, progress: &mut dyn Progress) -> Result<Started, StartError> {
    start_unless(settings, progress, &CancellationToken::new())
}

/// The clocks of a service.
#[derive(Debug, Clone)]
pub struct Times {
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// The monotonic ticks that time the remote's operations.
    pub ticks: Arc<dyn TickSource>,
}

impl Times {
    /// The system's clocks.
    pub fn real() -> Self {
        Self { clock: Arc::new(SystemClock), ticks: Arc::new(BootClock) }
    }
}

/// As [`start`], but cancellable: with an empty remote, the start waits until `stopping` is cancelled.
pub fn start_unless(
    settings: &Settings,
    progress: &mut dyn Progress,
    stopping: &CancellationToken,
) -> Result<Started, StartError> {
    start_by(settings, progress, stopping, &Times::real())
}

/// As [`start_unless`], with the given clocks.
pub fn start_by(
    settings: &Settings,
    progress: &mut dyn Progress,
    stopping: &CancellationToken,
    times: &Times,
) -> Result<Started, StartError> {
    let secret = secret(settings)?;
    let (credentials, created) = credentials_sharing(&settings.data, secret.as_deref())?;
    let workspace = workspace_dir(&settings.data);
    let clock = Arc::clone(&times.clock);
    let random: Arc<dyn Random> = Arc::new(SystemRandom);
    // The store comes first: opening takes milliseconds, and if opening fails, no model need be fetched.
    let seats = seats(settings, times, &random)?;
    let control = settings.data.join(CONTROL_FILE);
    let control = Arc::new(Control::at(&control, Arc::clone(&clock), Arc::clone(&random)));
    // Before the remote learns of `local`: a node with tenants of its own must not join a cluster.
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
    let tenants = Arc::new(Tenants::start(door, bounds).map_err(failed)?);
    let local = Arc::new(Local::new(Workspace::new(Opened {
        name: LOCAL_WORKSPACE.to_owned(),
        encoders,
        meaning: Meaning::new(settings.encoding.kernels, threads.clone()),
        audit: Arc::new(audit),
        signer: credentials.signer().clone(),
        rules,
        roots: Arc::new(folders),
    })));
    let scheduled = Arc::new(Scheduled::new(settings.config.backup.clone()));
    let admin = Arc::new(StoreAdmin {
        data: settings.data.clone(),
        local: Arc::clone(&local),
        tenants: Arc::clone(&tenants),
        control: Arc::clone(&control),
        control_chain: control_chain.clone(),
        seats: seats.clone(),
        scheduled: Arc::clone(&scheduled),
        clock: Arc::clone(&clock),
        random: Arc::clone(&random),
    });
    let parts = AppState {
        admin,
        data: settings.data.clone(),
        local,
        tenants,
        authority: authority(settings, &*random)?,
        meter: Meter::new(blocks, Arc::clone(&random)),
        control,
        control_chain,
        secret,
        mail: letters(&settings.config, (&clock, &random))?,
        scheduled,
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

/// Opens the store of `local` through the remote. A follower waits until its leader has bound a model: without a model
/// the store answers no query.
fn seat(
    seats: &Seats,
    settings: &Settings,
    workspace: &Path,
    stopping: &CancellationToken,
) -> Result<Arc<Store>, StartError> {
    let opened = seats.open_store(LOCAL_WORKSPACE, workspace, settings.options(), Some(stopping));
    let store = opened.map_err(|why| match why {
        why if is_locked(&why) => StartError::Busy(settings.data.clone()),
        why => failed(format!("{}: {why}", seats.settings().address)),
    })?;
    let until_stopped = CallScope { token: stopping, deadline: None };
    let is_answering = || (!store.is_replica() || store.snapshot().model().is_some()).then_some(());
    if seats.wait_for(&until_stopped, is_answering).is_none() {
        return Err(failed("told to end before there was anything to follow"));
    }
    Ok(store)
}

/// Loads the policy file of the settings, or returns the initial rules.
fn rules(config: &Config) -> Result<Rules, StartError> {
    let Some(file) = &config.policy_file else { return Ok(Rules::initial()) };
    rules_file::read(file, &config.plans).map_err(|error| {
        let file = file.display();
        failed(format!("{file}: {error}; mend it, and see: recalld policy check {file}"))
    })
}

/// Timeout of one read from, or one write to, the mail server.
const MAIL_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts the mail queue; `None` if no mail server is configured. No connection is opened yet.
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

/// The token issuer; `None` if the service has no public URL.
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

/// Opens the encoder and binds the store to it: the configured encoder, else the encoder recorded in the data directory
/// for the store's model, else the default.
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

/// Opens the default model if the recorded folder no longer contains it. For any other model, returns the error with
/// its remedies.
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

/// The error message for a store bound to another model, with both remedies.
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

/// The model's fingerprint prefix and dimensions.
fn described(model: Model) -> String {
    format!("{}, {} wide", hex(&model.fingerprint[..6]), model.dimensions)
}
