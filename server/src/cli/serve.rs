//! `recalld serve`.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use engine::Upkeep;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::remote::Announcement;
use super::tell::{say, tell_line};
use super::{Failure, ServeArgs, ingest};
use crate::app::{self, Settings, Started};
use crate::limits::{WORKERS_MAX, WORKERS_MIN};
use crate::model::{Bar, Unit};
use crate::net::{Cancel, Limits, Listen, ListenerId, NetConfig, Server};
use crate::operator::EraseLater;
use crate::parts::Parts;
use crate::pipeline::{HOSTED, LOCAL, Pipeline};

pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let server = bind(args)?;
    check_folders(args)?;
    let durability = args.durability.durability();
    let settings = Settings { durability, ..args.common.settings()? };
    // From here on SIGTERM is heard, and acted upon as soon as the parts stand.
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(Failure::could)?;
    let mut bar = Bar::stderr(Unit::Bytes);
    let started = app::start(&settings, &mut bar).map_err(Failure::could)?;
    drop(bar);
    say_created(&started);
    let parts = Arc::clone(&started.parts);
    let upkeep = Upkeep::start(Arc::clone(&parts.workspace.store)).map_err(Failure::could)?;
    let every = Duration::from_secs(args.backup_erasures_every);
    let later = EraseLater::start(Arc::clone(&parts), every);
    let later = later.map_err(Failure::could)?;
    let addresses = server.addresses().map_err(Failure::could)?;
    let address = |id: ListenerId| addresses.iter().find(|(of, _)| *of == id).map(|(_, at)| *at);
    let (local, hosted) = (address(LOCAL), address(HOSTED));
    let handle = server.handle();
    let pipeline = Pipeline::new(Arc::clone(&parts), local.map_or(0, |at| at.port()));
    let pipeline = Arc::new(pipeline.map_err(Failure::could)?);
    let closing = signals.handle();
    let stopping = Cancel::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            if signals.forever().next().is_some() {
                stopping.raise();
                pipeline.close();
                handle.drain();
            }
        });
        let service = Arc::clone(&pipeline);
        let serving = scope.spawn(|| server.run(service));
        let begun = begin(args, &parts, (local, hosted), &stopping);
        if begun.is_err() {
            handle.drain();
        }
        let ended = serving.join();
        closing.close();
        let announced = begun?;
        drop(announced);
        match ended {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(Failure::could(error)),
            Err(_) => Err(Failure::Could("the event loop panicked".to_owned())),
        }
    })?;
    drop((pipeline, later, upkeep));
    parts.workspace.store.seal().map_err(Failure::could)
}

/// The listeners come first: a taken port is said before anything long begins.
fn bind(args: &ServeArgs) -> Result<Server, Failure> {
    let chosen = [(LOCAL, args.local.0), (HOSTED, args.hosted.0)];
    let listeners: Vec<Listen> = chosen
        .into_iter()
        .filter_map(|(id, address)| address.map(|address| Listen { id, address }))
        .collect();
    if listeners.is_empty() {
        let why = "--local off and --hosted off leave nothing to listen on; give one an address";
        return Err(Failure::Usage(why.to_owned()));
    }
    if args.local.0.is_some_and(|address| !address.ip().is_loopback()) {
        let why = "--local must be a loopback address: /mcp is token-free there; use --hosted";
        return Err(Failure::Usage(why.to_owned()));
    }
    let cores = thread::available_parallelism().map_or(WORKERS_MIN, usize::from);
    Server::bind(NetConfig {
        listeners,
        workers: cores.clamp(WORKERS_MIN, WORKERS_MAX),
        limits: Limits::default(),
        wall_clock: SystemTime::now,
    })
    .map_err(Failure::could)
}

/// What is wrong with a folder is said before anything begins.
fn check_folders(args: &ServeArgs) -> Result<(), Failure> {
    args.ingest.iter().try_for_each(|path| match path.canonicalize() {
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

/// Ingests, then says that it is ready. Calls are answered all the while.
fn begin(
    args: &ServeArgs,
    parts: &Parts,
    (local, hosted): (Option<SocketAddr>, Option<SocketAddr>),
    stopping: &Cancel,
) -> Result<Option<Announcement>, Failure> {
    let announced = local.and_then(|at| announce(&parts.data, &format!("http://{at}")));
    if let Some(why) = parts.workspace.store.stopped() {
        say(&format_args!("the store takes no writes: {why}"));
        say(&"questions are answered; free some space on that disk, then start again");
        say_ready(args, parts, (local, hosted))?;
        return Ok(announced);
    }
    if !args.ingest.is_empty() {
        let mut bar = Bar::stderr(Unit::Files);
        let raw = ingest::arguments(&args.ingest, false)?;
        let done = ingest::alone(parts, &raw, &mut bar, stopping);
        if stopping.is_raised() {
            // Told to end meanwhile: what was read is stored, the next start reads the rest.
            return Ok(announced);
        }
        let answer = done?;
        drop(bar);
        say(&answer.text);
    }
    parts.workspace.store.seal().map_err(Failure::could)?;
    say_ready(args, parts, (local, hosted))?;
    Ok(announced)
}

/// Commands find the server by its announcement; without one it is still there for everyone else.
fn announce(data: &Path, local: &str) -> Option<Announcement> {
    let announced = Announcement::write(data, local);
    announced.inspect_err(|error| say(&format_args!("serving.json: {error}"))).ok()
}

fn say_ready(
    args: &ServeArgs,
    parts: &Parts,
    (local, hosted): (Option<SocketAddr>, Option<SocketAddr>),
) -> Result<(), Failure> {
    let url =
        |at: Option<SocketAddr>| at.map_or_else(|| "off".to_owned(), |at| format!("http://{at}"));
    let (local, hosted) = (url(local), url(hosted));
    let data = parts.data.display().to_string();
    if args.common.json {
        tell_line(&json!({"ready": true, "local": local, "hosted": hosted, "data": data}))
    } else {
        tell_line(&format_args!("ready local={local} hosted={hosted} data={data}"))
    }
}
