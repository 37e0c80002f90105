//! Replication threads: role changes of workspaces, garbage collection, purges, the inventory and ledger uploads.
//!
//! Owns their schedule and the role change of `local`, which is always open. A tenant's workspace is closed instead,
//! and the next caller reopens it.

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

/// Interval of checks for role changes.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Interval of garbage collections.
const COLLECT_EVERY: Duration = Duration::from_secs(3600);
/// Delay of the first garbage collection after the start: by then, records have been known long enough to be removed.
const COLLECT_FIRST: Duration = Duration::from_secs(600);
/// Delay until a purge with waiting records is retried: by then, they may be removed.
const EMPTY_AGAIN: Duration = CHAIN_KEPT_MIN.saturating_add(Duration::from_secs(1));

/// The replication threads, which run until this is dropped.
pub(crate) struct KeepSeats {
    halt: Arc<Halt>,
    seats: Option<Arc<Seats>>,
    threads: Vec<JoinHandle<()>>,
}

impl KeepSeats {
    /// Starts the threads; none without a remote.
    ///
    /// # Errors
    /// If a thread cannot be spawned.
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
        // Separate threads, because each task may take minutes.
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

/// Closes tenants' workspaces that are due for a role change. The closings are sequential, and each may wait for the
/// remote.
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

/// Purges deleted workspaces from the remote. While records must wait, the retries come sooner.
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

/// Logs why deleted workspaces are still on the remote, if the reason is new. Returns the current reasons.
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

/// Opens idle tenants' workspaces whose local copy still has data erased elsewhere, so that they apply the erasures.
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

/// Reopens `local` in whichever role is available.
fn change_local(parts: &AppState, seats: &Seats) -> Result<(), String> {
    let before = parts.local.get();
    parts.local.rest();
    let (mut role, mut kept) = ("written", Ok(()));
    let put = |store: Arc<Store>| {
        if store.is_replica() {
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
