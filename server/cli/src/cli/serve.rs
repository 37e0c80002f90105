//! `recalld serve`: the start, life and end of the server process.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use clap::Args;
use engine::{Durability, SearchMode};
use serde_json::json;

use super::common::Common;
use super::failure::Failure;
use super::given::Flags;
use super::reload::Reload;
use super::remote::Announcement;
use super::signals::{self, Reach};
use super::systemd::{self, Notifier};
use super::tell::{say, tell_line};
use super::{descriptors, encoding, ingest};
use crate::app;
use crate::app::{Settings, Started};
use crate::housekeeping::Housekeeping;
use crate::keep_seats::KeepSeats;
use crate::limits::{
    BACKUP_ERASURES_EVERY, CONNECTIONS_LOCAL_RESERVED, SYNC_INTERVAL, WAITING_BYTES_LOCAL_RESERVED,
    WAITING_BYTES_PEER_MAX,
};
use recalld_api::app_state::AppState;
use recalld_api::listeners::{HOSTED, LOCAL};
use recalld_api::pipeline::{Origins, Pipeline};
use recalld_cluster::seats::Ending;
use recalld_common::cancel::CancellationToken;
use recalld_config::Config;
use recalld_config::serving::{Acknowledged, Logging, Searched, Serving, TlsFiles};
use recalld_embedding::model::{Bar, Unit};
use recalld_http_server::limits::workers;
use recalld_http_server::{
    Drained, Identity, Inherited, Limits, Listen, ListenerId, NetConfig, Places, Server,
};
use recalld_store_admin::{EraseLater, ScheduledBackups};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    flags: Flags,
    /// Interval in seconds at which backups with pending erasures are retried. For tests.
    #[arg(
        long,
        hide = true,
        value_name = "SECONDS",
        default_value_t = BACKUP_ERASURES_EVERY.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    backup_erasures_every: u64,
}

pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    // Before any thread starts, because this changes the environment.
    let inherited = systemd::sockets()?;
    // Errors in flags and variables are reported as by every command, before the log starts.
    args.common.encoding()?;
    let flags = args.flags.clone().beside(&args.common);
    let loaded = flags.settings()?;
    let Config { serving, model, log: Logging { level, format, access }, .. } = &loaded.config;
    let log =
        log::Settings { level: *level, format: *format, access: *access, clock: SystemTime::now };
    log::start(log).map_err(Failure::could)?;
    descriptors::raise();
    let notifier = Arc::new(Notifier::from_env());
    let identity = identity(serving)?;
    let server = bind(serving, inherited, identity.as_ref())?;
    check_folders(serving)?;
    let addresses = Addresses::of(&server, identity.is_some())?;
    let common = args.common.settings()?;
    let settings = Settings {
        durability: durability(serving.durability),
        call_time_max: serving.call_time,
        search_mode: search_mode(serving.search_mode),
        public_url: serving.public_url.clone().or_else(|| addresses.public_url()),
        model: model.directory.clone(),
        encoding: encoding::named(model.kernel, model.precision).map_err(Failure::Usage)?,
        config: loaded.config.clone(),
        ..common
    };
    let reload = Arc::new(Reload::new(flags, &loaded));
    // From here on SIGTERM is handled, and acted upon when the start completes.
    let stopping = CancellationToken::new();
    let handle = server.handle();
    signals::listen(Reach {
        handle: handle.clone(),
        stopping: stopping.clone(),
        identity: identity.clone(),
        settings: Arc::clone(&reload),
        notifier: Arc::clone(&notifier),
    })
    .map_err(Failure::could)?;
    let mut bar = Bar::stderr(Unit::Bytes);
    let started = app::start_unless(&settings, &mut bar, &stopping).map_err(Failure::could)?;
    drop(bar);
    say_created(&started);
    let parts = Arc::clone(&started.parts);
    reload.reach(&parts);
    parts.local.begin_upkeep().map_err(Failure::could)?;
    let seated = KeepSeats::start(&parts).map_err(Failure::could)?;
    let every = Duration::from_secs(args.backup_erasures_every);
    let later = EraseLater::start(Arc::clone(&parts.admin), every);
    let later = later.map_err(Failure::could)?;
    let scheduled = ScheduledBackups::start(Arc::clone(&parts.admin)).map_err(Failure::could)?;
    let housekeeping = Housekeeping::start(Arc::clone(&parts)).map_err(Failure::could)?;
    let pipeline = Pipeline::new(Arc::clone(&parts), &addresses.local_ports);
    let pipeline = pipeline.map_err(Failure::could)?;
    let origins = Origins::new(serving.allow_origins.clone());
    let pipeline = pipeline.with_hosted_tls(identity.is_some());
    let pipeline = Arc::new(pipeline.counting(server.counters()).sharing_with(origins));
    let service = Arc::clone(&pipeline);
    thread::scope(|scope| {
        let running = scope.spawn(|| server.run(service));
        let begun = begin((args, serving), &parts, &addresses, &stopping);
        match &begun {
            Ok(_) if !stopping.is_cancelled() => notifier.ready(),
            Ok(_) => {}
            Err(_) => handle.drain(),
        }
        let ended = running.join();
        let announced = begun?;
        drop(announced);
        match ended {
            Ok(Ok(drained)) => {
                say_drained(drained);
                Ok(())
            }
            Ok(Err(error)) => Err(Failure::could(error)),
            Err(_) => Err(Failure::Could("the event loop panicked".to_owned())),
        }
    })?;
    drop((pipeline, housekeeping, scheduled, later, seated));
    parts.local.end_upkeep();
    // Closed explicitly rather than by the last reference: a worker may still be exiting.
    parts.close();
    let local = parts.local.get();
    let sealed = if local.store.is_replica() { Ok(()) } else { local.store.seal() };
    if let Some(seats) = &parts.seats {
        seats.close(parts.local.name(), Ending::Kept);
    }
    // The metastore comes last: closed ledgers have recorded their last checkpoints in it.
    if let Some(chain) = &parts.control_chain {
        chain.end();
    }
    sealed.map_err(Failure::could)
}

/// The server's listen addresses.
struct Addresses {
    local: Option<SocketAddr>,
    /// Ports of all local sockets: a service manager may pass several.
    local_ports: Vec<u16>,
    hosted: Option<SocketAddr>,
    hosted_scheme: &'static str,
}

impl Addresses {
    fn of(server: &Server, is_secured: bool) -> Result<Addresses, Failure> {
        let addresses = server.addresses().map_err(Failure::could)?;
        let address =
            |id: ListenerId| addresses.iter().find(|(of, _)| *of == id).map(|(_, at)| *at);
        let locals = addresses.iter().filter(|(of, _)| *of == LOCAL);
        let local_ports = locals.map(|(_, at)| at.port()).collect();
        let hosted_scheme = if is_secured { "https" } else { "http" };
        Ok(Addresses { local: address(LOCAL), local_ports, hosted: address(HOSTED), hosted_scheme })
    }

    fn local_url(&self) -> Option<String> {
        self.local.map(|at| format!("http://{at}"))
    }

    /// The hosted listener's own URL, if its address is loopback.
    fn public_url(&self) -> Option<String> {
        let at = self.hosted.filter(|at| at.ip().is_loopback())?;
        Some(format!("{}://{at}", self.hosted_scheme))
    }

    fn hosted_url(&self) -> Option<String> {
        self.hosted.map(|at| format!("{}://{at}", self.hosted_scheme))
    }
}

fn durability(acknowledged: Acknowledged) -> Durability {
    match acknowledged {
        Acknowledged::Sync => Durability::Sync,
        Acknowledged::Interval => Durability::Interval(SYNC_INTERVAL),
    }
}

fn search_mode(searched: Searched) -> SearchMode {
    match searched {
        Searched::Auto => SearchMode::Auto,
        Searched::Exact => SearchMode::Exact,
        Searched::Approximate => SearchMode::Approximate,
    }
}

/// The certificate and key of the hosted listener, if configured.
fn identity(serving: &Serving) -> Result<Option<Arc<Identity>>, Failure> {
    let Some(TlsFiles { certificate, key }) = &serving.tls else { return Ok(None) };
    let identity = Identity::load(certificate, key);
    Ok(Some(Arc::new(identity.map_err(|error| Failure::Usage(error.to_string()))?)))
}

/// Binds the listeners first, so that a used port is reported before any long work. A socket passed by the service
/// manager replaces an address.
fn bind(
    serving: &Serving,
    inherited: Vec<Inherited>,
    identity: Option<&Arc<Identity>>,
) -> Result<Server, Failure> {
    let chosen = [(LOCAL, serving.local), (HOSTED, serving.hosted)];
    let is_inherited = |id: ListenerId| inherited.iter().any(|socket| socket.id == id);
    let listeners: Vec<Listen> = chosen
        .into_iter()
        .filter(|(id, _)| !is_inherited(*id))
        .filter_map(|(id, address)| address.map(|address| Listen { id, address }))
        .collect();
    if listeners.is_empty() && inherited.is_empty() {
        let why = "--local off and --hosted off leave nothing to listen on; give one an address";
        return Err(Failure::Usage(why.to_owned()));
    }
    let has_hosted = is_inherited(HOSTED) || serving.hosted.is_some();
    if serving.public_url.is_some() && !has_hosted {
        let why = "--public-url is of the hosted listener, which is off; give --hosted an address";
        return Err(Failure::Usage(why.to_owned()));
    }
    if identity.is_some() && !has_hosted {
        let why = "--tls-cert is for the hosted listener, which is off; give --hosted an address";
        return Err(Failure::Usage(why.to_owned()));
    }
    let locals = inherited.iter().filter(|socket| socket.id == LOCAL);
    let locals: io::Result<Vec<SocketAddr>> =
        locals.map(|socket| socket.socket.local_addr()).collect();
    let locals = locals.map_err(|error| {
        Failure::Usage(format!(
            "a socket named `local` was handed over that does not tell its address: {error}; it must \
             be of a loopback address"
        ))
    })?;
    let given = listeners.iter().find(|listen| listen.id == LOCAL).map(|listen| listen.address);
    if locals.iter().any(|at| !at.ip().is_loopback())
        || given.is_some_and(|at| !at.ip().is_loopback())
    {
        let why = "--local must be a loopback address: /mcp is token-free there; use --hosted";
        return Err(Failure::Usage(why.to_owned()));
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let config = NetConfig {
        listeners,
        workers: workers(cores),
        limits: Limits::default(),
        wall_clock: SystemTime::now,
    };
    let has_local = is_inherited(LOCAL) || serving.local.is_some();
    let server = Server::bind_with(config, inherited).map_err(Failure::could)?.with_loops(cores);
    let local = Places {
        reserved: CONNECTIONS_LOCAL_RESERVED,
        waiting_bytes_reserved: WAITING_BYTES_LOCAL_RESERVED,
        ..Places::default()
    };
    let per_peer_max = serving.peer_connections;
    let waiting_bytes_per_peer_max = WAITING_BYTES_PEER_MAX;
    let hosted = Places { per_peer_max, waiting_bytes_per_peer_max, ..Places::default() };
    let server = if has_local { server.with_places(LOCAL, local) } else { server };
    let server = server.with_places(HOSTED, hosted);
    Ok(match identity {
        Some(identity) => server.with_tls(HOSTED, identity),
        None => server,
    })
}

fn say_drained(drained: Drained) {
    if drained.connections_cut_off > 0 || !drained.workers_ended {
        let cut_off = drained.connections_cut_off as u64;
        let unfinished = if drained.workers_ended { "no" } else { "yes" };
        let fields = [
            ("connections", Value::Count(cut_off)),
            ("calls_unfinished", Value::Text(&unfinished)),
        ];
        log::event(Level::Warn, "the grace is over; not everything was answered", &fields);
    }
}

/// Checks the ingest folders before the service starts.
fn check_folders(serving: &Serving) -> Result<(), Failure> {
    serving.ingest.iter().try_for_each(|path| match path.canonicalize() {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::Usage(format!("--ingest {}: {error}", path.display()))),
    })
}

fn say_created(started: &Started) {
    let data = started.parts.data.display();
    let created = &started.created;
    if created.folder {
        say(&format_args!("made the data directory {data}"));
    }
    if created.credentials {
        say(&format_args!(
            "made credentials in {data}/credentials.toml; `recalld credentials show` prints them"
        ));
    }
}

/// Ingests the startup folders, then reports readiness. Calls are served during the ingest.
fn begin(
    (args, serving): (&ServeArgs, &Serving),
    parts: &AppState,
    addresses: &Addresses,
    stopping: &CancellationToken,
) -> Result<Option<Announcement>, Failure> {
    let announced = addresses.local_url().and_then(|url| announce(&parts.data, &url));
    let store = &parts.local.get().store;
    let is_read = match store.stop_reason() {
        _ if store.is_replica() => Ok(()),
        None => read_first(serving, parts, stopping),
        Some(_) => Ok(()),
    };
    if stopping.is_cancelled() {
        // Cancelled during the ingest: the ingested files are stored, and the next start reads the rest.
        return Ok(announced);
    }
    match (store.stop_reason(), is_read) {
        (None, is_read) => is_read?,
        // A full disk does not fail the start, whether found now or on opening.
        (Some(why), _) => {
            say(&format_args!("the store takes no writes: {why}"));
            say(&"questions are answered; free some space on that disk, then start again");
        }
    }
    say_ready(args, parts, addresses)?;
    Ok(announced)
}

/// Advertises the server to commands. If that fails, the server is still reachable for other clients.
fn announce(data: &Path, local: &str) -> Option<Announcement> {
    let announced = Announcement::write(data, local);
    announced.inspect_err(|error| say(&format_args!("serving.json: {error}"))).ok()
}

/// Ingests the folders that every start ingests, and seals the store.
fn read_first(
    serving: &Serving,
    parts: &AppState,
    stopping: &CancellationToken,
) -> Result<(), Failure> {
    let read = if serving.ingest.is_empty() {
        Ok(())
    } else {
        let mut bar = Bar::stderr(Unit::Files);
        let raw = ingest::arguments(&serving.ingest, false, None)?;
        let done = ingest::alone(parts, &raw, &mut bar, stopping);
        drop(bar);
        done.map(|answer| {
            if !stopping.is_cancelled() {
                say(&answer.text);
            }
        })
    };
    // Seal whatever the ingest's result: only a write shows whether the store accepts writes.
    let sealed = parts.local.get().store.seal().map_err(Failure::could);
    read.and(sealed)
}

fn say_ready(args: &ServeArgs, parts: &AppState, addresses: &Addresses) -> Result<(), Failure> {
    let url = |url: Option<String>| url.unwrap_or_else(|| "off".to_owned());
    let (local, hosted) = (url(addresses.local_url()), url(addresses.hosted_url()));
    let data = parts.data.display().to_string();
    if args.common.json {
        tell_line(&json!({"ready": true, "local": local, "hosted": hosted, "data": data}))
    } else {
        tell_line(&format_args!("ready local={local} hosted={hosted} data={data}"))
    }
}
