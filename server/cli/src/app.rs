//! Builds the parts and owns the threads: the one place that reads the clock and randomness.

mod among;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use engine::os::clock::{Clock, Random, SystemClock, SystemRandom};
use engine::{Durability, Model, Options, SearchMode, Searching, Store, WriteError, hex};
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
use recalld_common::cancel::CancellationToken;
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

/// What a started service is, and what it made on the way.
pub struct Started {
    /// Its parts.
    pub parts: Arc<AppState>,
    /// What was not there before.
    pub created: Created,
}

/// Whoever has the store's lock runs the benchmarks: the scratch store of a process that was killed is nobody's.
fn forget_scratch(data: &Path) {
    // What cannot be removed goes before the next benchmark, which says so where it cannot.
    let _not_there = std::fs::remove_dir_all(data.join(data_dir::BENCH_SCRATCH));
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
    Ok((recalld_workspace::opening::credentials(data)?.0, created))
}

/// Opens the store, the encoder and the ledger.
pub fn start(settings: &Settings, progress: &mut dyn Progress) -> Result<Started, StartError> {
    start_unless(settings, progress, &CancellationToken::new())
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
    stopping: &CancellationToken,
) -> Result<Started, StartError> {
    start_by(settings, progress, stopping, &Times::real())
}

/// The same, by these clocks.
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

/// The store of `local` in its place there. One that is followed is waited for until it has a model: before,
/// nothing can be asked of it.
fn seat(
    seats: &Seats,
    settings: &Settings,
    workspace: &Path,
    stopping: &CancellationToken,
) -> Result<Arc<Store>, StartError> {
    let goes_on = || !stopping.is_cancelled();
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
