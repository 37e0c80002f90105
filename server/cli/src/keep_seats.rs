//! The threads that change the role of a workspace where that is due, have old objects and deleted workspaces
//! removed, and bring ledgers.
//!
//! Owns when that is looked at, and the change of `local`, which is open all the time; a tenant's workspace is closed,
//! and opened anew by whoever asks for it next.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::Store;
use recalld_replication::Halt;
use recalld_replication::limits::{CHAIN_KEPT_MIN, HOLDS_PACE, HOLDS_ROUNDS, LEDGER_DELAY};

use recalld_api::app_state::AppState;
use recalld_cluster::seats::Seats;
use recalld_embedding::encoders::Encoders;
use recalld_fs_util::data_dir::tenant_dirs;
use recalld_recall::Meaning;
use recalld_store_admin::{Emptying, Pass, Which, empty_deleted, give_up_deleted};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// How long after one look at the roles of workspaces the next one comes.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long after one collection the next one comes.
const COLLECT_EVERY: Duration = Duration::from_secs(3600);
/// How long after the start the first one comes: by then records are known for long enough to go.
const COLLECT_FIRST: Duration = Duration::from_secs(600);
/// How long after a step that left records the next one comes: by then they may go.
const EMPTY_AGAIN: Duration = CHAIN_KEPT_MIN.saturating_add(Duration::from_secs(1));

/// Those threads, until this is dropped.
pub(crate) struct KeepSeats {
    halt: Arc<Halt>,
    seats: Option<Arc<Seats>>,
    threads: Vec<JoinHandle<()>>,
}

impl KeepSeats {
    /// Begins, where there is a remote.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(parts: &Arc<AppState>) -> io::Result<Self> {
        let halt = Arc::new(Halt::default());
        let mut kept = Self { halt, seats: parts.seats.clone(), threads: Vec::new() };
        let Some(seats) = &parts.seats else { return Ok(kept) };
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let (halt, theirs, parts) = (Arc::clone(&kept.halt), Arc::clone(seats), Arc::clone(parts));
        let [holder, sweeper, emptier, closer] = [(); 4].map(|()| Arc::clone(&parts));
        kept.threads.push(spawn("seats").spawn(move || change(&halt, &parts, &theirs))?);
        let (halt, theirs) = (Arc::clone(&kept.halt), Arc::clone(seats));
        kept.threads.push(spawn("confirm").spawn(move || confirm(&halt, &theirs))?);
        // Apart, since each may take minutes.
        let halt = Arc::clone(&kept.halt);
        kept.threads.push(spawn("spent").spawn(move || close_spent(&halt, &closer))?);
        let (halt, theirs) = (Arc::clone(&kept.halt), Arc::clone(seats));
        kept.threads.push(spawn("collect").spawn(move || collect(&halt, &sweeper, &theirs))?);
        let halt = Arc::clone(&kept.halt);
        kept.threads.push(spawn("empty").spawn(move || empty(&halt, &emptier))?);
        let (halt, theirs) = (Arc::clone(&kept.halt), Arc::clone(seats));
        kept.threads.push(spawn("holds").spawn(move || tell_holds(&halt, &holder, &theirs))?);
        let (halt, theirs) = (Arc::clone(&kept.halt), Arc::clone(seats));
        kept.threads.push(spawn("ledgers").spawn(move || bring_ledgers(&halt, &theirs))?);
        Ok(kept)
    }
}

impl Drop for KeepSeats {
    fn drop(&mut self) {
        self.halt.raise();
        self.seats.iter().for_each(|seats| seats.end_calls());
        for thread in self.threads.drain(..) {
            let _its_panic_is_on_stderr = thread.join();
        }
    }
}

fn change(halt: &Halt, parts: &AppState, seats: &Seats) {
    while !halt.wait(LOOK_EVERY) {
        if seats.wants_change(parts.local.name())
            && let Err(why) = change_local(parts, seats)
        {
            let fields = [("why", Value::Text(&why))];
            log::event(Level::Error, "the workspace local is not open", &fields);
        }
    }
}

fn confirm(halt: &Halt, seats: &Seats) {
    while !halt.wait(LOOK_EVERY) {
        seats.confirm_led();
    }
}

/// Closes tenants' workspaces whose role is due to change. Each may wait for the remote, and the next one waits for it.
fn close_spent(halt: &Halt, parts: &AppState) {
    while !halt.wait(LOOK_EVERY) {
        let closing = || parts.tenants.close_spent(&|| !halt.is_raised());
        if catch_unwind(AssertUnwindSafe(closing)).is_err() {
            log::event(Level::Error, "the closing of a workspace panicked", &[]);
        }
    }
}

fn bring_ledgers(halt: &Halt, seats: &Seats) {
    while !halt.wait(LEDGER_DELAY) {
        seats.bring_ledgers(&|| !halt.is_raised());
    }
}

fn collect(halt: &Halt, parts: &AppState, seats: &Seats) {
    let mut pause = COLLECT_FIRST;
    while !halt.wait(pause) {
        seats.collect_all();
        catch_up(parts, seats);
        pause = COLLECT_EVERY;
    }
}

/// Empties deleted workspaces on the remote; until records of one may go it is looked at more often.
fn empty(halt: &Arc<Halt>, parts: &AppState) {
    let mut pause = COLLECT_FIRST;
    let mut told = BTreeMap::new();
    while !halt.wait(pause) {
        give_up_deleted(&parts.admin, halt);
        let done = empty_deleted(&parts.admin, Which::Due, halt, &|| true);
        if let Err(why) = &done {
            let fields = [("why", Value::Text(why))];
            log::event(Level::Warn, "deleted workspaces are on the remote still", &fields);
        }
        let goes_on = |pass: &Pass| pass.put_off > 0 || pass.all.iter().any(Emptying::waits);
        pause = match done.as_ref().is_ok_and(goes_on) {
            true => EMPTY_AGAIN,
            false => COLLECT_EVERY,
        };
        if let Ok(pass) = done {
            told = tell_staying(&pass, &told);
        }
    }
}

/// Tells why deleted workspaces are there still, where it is not what was told before; gives what is told now.
fn tell_staying(pass: &Pass, told: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let stays = pass.all.iter().filter_map(|one| Some((one.workspace(), one.why()?)));
    let stays: BTreeMap<_, _> =
        stays.map(|(slug, why)| (slug.to_owned(), why.to_owned())).collect();
    for (slug, why) in stays.iter().filter(|(slug, why)| told.get(*slug) != Some(*why)) {
        let fields = [("workspace", Value::Text(slug)), ("why", Value::Text(why))];
        log::event(Level::Warn, "a deleted workspace is on the remote still", &fields);
    }
    if pass.put_off > 0 {
        let fields = [("workspaces", Value::Text(&pass.put_off))];
        log::event(Level::Info, "more deleted workspaces are emptied later, after others", &fields);
    }
    stays
}

/// Opens workspaces of tenants that nobody asks for, where something was erased elsewhere that is here still.
fn catch_up(parts: &AppState, seats: &Seats) {
    let Ok(homes) = tenant_dirs(&parts.data) else { return };
    for name in homes.iter().filter_map(|home| home.file_name()?.to_str()) {
        if name != parts.local.name()
            && seats.is_behind(&parts.data, name)
            && let Err(closed) = parts.tenants.visit(name)
        {
            let why = closed.to_string();
            let fields = [("workspace", Value::Text(&name)), ("why", Value::Text(&why))];
            log::event(Level::Warn, "what was erased elsewhere is here still", &fields);
        }
    }
}

fn tell_holds(halt: &Halt, parts: &AppState, seats: &Seats) {
    let mut told = None;
    for round in 1.. {
        let why = seats.tell_holds(&parts.data, round % HOLDS_ROUNDS == 0).err();
        if let Some(why) = why.as_ref().filter(|_| why != told) {
            let fields = [("why", Value::Text(why))];
            log::event(Level::Warn, "nobody was told what this node has copies of", &fields);
        }
        told = why;
        if halt.wait(HOLDS_PACE) {
            return;
        }
    }
}

/// Opens `local` anew, in whatever role can be had.
fn change_local(parts: &AppState, seats: &Seats) -> Result<(), String> {
    let before = parts.local.get();
    parts.local.rest();
    let (mut role, mut kept) = ("written", Ok(()));
    let put = |store: Arc<Store>| {
        if store.follows() {
            role = "followed";
        }
        let embedder = before.encoders.view().embedder;
        let encoders = Encoders::bind(store, embedder).map_err(|error| error.to_string())?;
        let meaning = Meaning::new(parts.encoding.kernels, parts.threads.clone());
        kept = parts.local.put(before.over(encoders, meaning));
        Ok(())
    };
    let opened = seats.reopen(parts.local.name(), &before.store, put);
    opened.map_err(|why| why.to_string())?;
    kept.map_err(|error| error.to_string())?;
    let fields = [("workspace", Value::Text(&parts.local.name())), ("is", Value::Text(&role))];
    log::event(Level::Info, "the role of a workspace changed", &fields);
    Ok(())
}
