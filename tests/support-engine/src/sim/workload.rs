//! A workload: random steps on a simulated disk, and their crash points.
//!
//! This module records the promises at each moment; [`super::recovery`] checks the requirements after a cut.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use engine::{
    AnnPolicy, Durability, OpenError, Options, SearchMode, Store, StoreReader, WriteError,
};

use super::copies::{Copies, Copy};
use super::disk::{Fault, SimDisk};
use super::oracle::Oracle;
use super::shown::Shown;
use super::state::{Cut, DiskState, FileSystem};
use super::step::Step;
use super::{Scenario, Tally};
use crate::ground::{self, Dice};
use crate::sample::{items, note};

const STEPS_MIN: u64 = 12;
const STEPS_SPREAD: u64 = 16;
/// A fault hits one of this many operations of a process.
const FAULT_OPERATIONS: u64 = 48;

/// The expected contents of a store after some step.
#[derive(Debug)]
pub struct Version {
    /// Everything written.
    pub oracle: Oracle,
    /// The expected observation.
    pub shown: Shown,
    /// During an erasure: the rows to remove, and the observation without them.
    erasing: Option<(BTreeSet<u128>, Shown)>,
}

impl Version {
    /// Computes the expected observation of an oracle.
    pub fn of(oracle: Oracle) -> Arc<Self> {
        let shown = oracle.shown();
        let erasing = oracle.is_erasing().then(|| {
            let going = oracle.going();
            let left = shown.without(&going);
            (going, left)
        });
        Arc::new(Self { shown, oracle, erasing })
    }

    /// Returns true if a store with this observation is correct. Rows that are being erased may exist or not, but
    /// existing ones are complete, and hidden.
    pub fn is_shown_by(&self, found: &Shown) -> bool {
        let Some((going, left)) = &self.erasing else { return *found == self.shown };
        if found.seq != self.shown.seq || found.without(going) != *left {
            return false;
        }
        found.items.iter().all(|item| {
            let goes = item.draft.id.is_some_and(|id| going.contains(&id.0));
            let same = |other: &super::shown::ShownItem| {
                (&item.draft, item.status) == (&other.draft, other.status)
            };
            !goes || self.shown.items.iter().any(same)
        })
    }
}

/// A crash point.
#[derive(Debug)]
pub struct Point {
    /// State of the disk.
    pub state: DiskState,
    /// Versions that may be found afterwards: the last promised one, and those begun since.
    pub allowed: Vec<Arc<Version>>,
    /// Number of these that are not allowed if only the process ends, since acknowledged writes are with the operating
    /// system.
    pub outdated: usize,
    /// Description of the current step.
    pub during: String,
}

impl Point {
    /// Returns the state after the end of the process, and the versions allowed then. Bytes lost by a failed sync can
    /// still be read (ext4 and XFS), so an open that only synced them again would not write them to disk.
    pub fn killed(&self) -> (DiskState, &[Arc<Version>]) {
        let left = self.state.clone();
        let first = if left.has_lost() { 0 } else { self.outdated };
        (left, &self.allowed[first..])
    }
}

/// Random configuration of the store and the disk of one seed.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Options of the store.
    pub options: Options,
    /// Power-cut model of the disk.
    pub cut: Cut,
}

impl Manner {
    fn draw(dice: &mut Dice) -> Self {
        let mut one = |of: &[usize]| of[dice.index(of.len())];
        let tail_bytes_seal = one(&[1, 6 << 10, 24 << 10, 1 << 20, 1 << 20]);
        let merge_bytes_max = one(&[0, 0, 16 << 10, 1 << 20]);
        let is_synced = one(&[0, 1, 1]) == 1;
        let durability = if is_synced {
            Durability::Sync
        } else {
            Durability::Interval(std::time::Duration::ZERO)
        };
        let file_system = FileSystem::ALL[one(&[0, 1, 2, 3, 3])];
        let garbage = one(&[0, 1]) == 1;
        let compact_bytes_max = one(&[48 << 10, 1 << 20, 1 << 20]);
        // Every segment is indexed, so that crashes hit indexes, too; the compared results do not depend on them.
        let (mode, approximate_rows_min, index_rows_min) = (SearchMode::Approximate, 0, 1);
        let searching = AnnPolicy { mode, approximate_rows_min, index_rows_min };
        let options = Options {
            durability,
            tail_bytes_seal,
            merge_bytes_max,
            compact_bytes_max,
            ann_policy: searching,
        };
        Self { options, cut: Cut { file_system, garbage } }
    }
}

/// A run of steps, up to its current step.
#[derive(Debug)]
pub struct Workload {
    seed: u64,
    /// Configuration of store and disk.
    pub manner: Manner,
    dice: Dice,
    with_faults: bool,
    disk: SimDisk,
    /// Number of states of `disk` that are points already.
    seen: usize,
    versions: Vec<Arc<Version>>,
    /// Index of the last version that must survive a power cut.
    durable: usize,
    /// Index of the last acknowledged version.
    acknowledged: usize,
    /// Every moment between two operations.
    pub points: Vec<Point>,
    /// Index of the first point after each fault that stopped a process.
    pub restarts: Vec<usize>,
    /// The disk of the backups.
    pub copies: Copies,
    /// Another process that reads the same directory.
    reader: Option<StoreReader>,
}

/// Results of the work in the middle of a step.
#[derive(Debug, Default)]
struct Beside {
    /// Number of disk states when each batch was acknowledged.
    acknowledged: Vec<usize>,
    has_run: bool,
    /// Error of a write that a fault ended, which may exist or not.
    in_flight: Option<WriteError>,
    /// An unexpected error.
    trouble: Option<String>,
}

/// Opens a store on a disk, always with the same time and randomness.
pub fn open(disk: &SimDisk, seed: u64, options: Options) -> Result<Store, OpenError> {
    Store::open(ground::still(Arc::new(disk.clone()), seed), options)
}

/// Returns the version of `allowed` that a store shows, or an error if there is none.
pub fn which(store: &Store, allowed: &[Arc<Version>]) -> Result<Arc<Version>, String> {
    let newest = allowed.last().expect("something is always allowed");
    let found = Shown::of(&store.snapshot(), &newest.oracle.names());
    let found = found.map_err(|damage| format!("what it shows is damaged: {damage}"))?;
    let is_erasing = store.erasures_pending().ok().map(|pending| pending > 0);
    let is_it = |version: &&Arc<Version>| {
        version.is_shown_by(&found) && is_erasing.is_none_or(|it| it == version.oracle.is_erasing())
    };
    if let Some(version) = allowed.iter().find(is_it) {
        return Ok(version.clone());
    }
    let seqs: Vec<u64> = allowed.iter().map(|version| version.shown.seq).collect();
    let nearest = allowed.iter().find(|version| version.shown.seq == found.seq).unwrap_or(newest);
    let difference = found.differs_from(&nearest.shown).unwrap_or_default();
    let seq = found.seq;
    let erasing = format!("with erasures pending: {is_erasing:?}");
    Err(format!("commits {seqs:?} were allowed, {seq} was found, {erasing}: {difference}"))
}

/// Checks that no file contains erased bytes once an open store has no pending erasure.
pub fn check_gone(disk: &SimDisk, version: &Version) -> Result<(), String> {
    match disk.state().holder_of(version.oracle.gone()) {
        Some(name) if !version.oracle.is_erasing() => {
            Err(format!("{name} holds what was erased\n{}", disk.state().describe()))
        }
        _ => Ok(()),
    }
}

impl Workload {
    /// Runs all steps of a seed.
    pub fn run(scenario: Scenario, seed: u64, tally: &mut Tally) -> Result<Self, String> {
        let mut dice = Dice::new(seed);
        let mut manner = Manner::draw(&mut dice);
        if scenario == Scenario::Spoilt {
            // Corruption of unsynced bytes could not be detected.
            manner.options.durability = Durability::Sync;
        }
        let mut run = Self {
            seed,
            manner,
            dice,
            with_faults: scenario == Scenario::Faults,
            disk: SimDisk::on(DiskState::default()),
            seen: 0,
            versions: vec![Version::of(Oracle::default())],
            durable: 0,
            acknowledged: 0,
            points: Vec::new(),
            restarts: Vec::new(),
            copies: Copies::default(),
            reader: None,
        };
        let mut store = run.start(DiskState::default(), "make", tally)?;
        let steps = STEPS_MIN + run.dice.below(STEPS_SPREAD);
        for n in 0..steps {
            let step = Step::draw(&run.newest().oracle, &run.manner.options, &mut run.dice);
            let during = format!("step {n} ({})", step.name());
            tally.steps += 1;
            let manner = run.manner;
            let told = |why: String| format!("{during}: {why}\n{manner:?}");
            store = run.step(&step, store, &during, tally).map_err(told)?;
            run.look(&store).map_err(|why| format!("after {during}: {why}\n{:?}", run.manner))?;
        }
        let state = run.end(store, "the end", tally);
        run.disk = SimDisk::on(state);
        Ok(run)
    }

    /// All versions so far, in order.
    pub fn versions(&self) -> &[Arc<Version>] {
        &self.versions
    }

    /// The disk as the last process left it.
    pub fn left(&self) -> DiskState {
        self.disk.state()
    }

    /// Checks the contents between two steps, in this process and in another one.
    fn look(&mut self, store: &Store) -> Result<(), String> {
        let newest = self.newest();
        which(store, std::slice::from_ref(&newest))?;
        check_gone(&self.disk, &newest)?;
        let told = |why: String| format!("another process: {why}");
        let reader = match self.reader.take() {
            Some(reader) => {
                reader.refresh().map_err(|error| told(error.to_string()))?;
                reader
            }
            None => StoreReader::open(Arc::new(self.disk.beside()))
                .map_err(|error| told(error.to_string()))?,
        };
        let found = Shown::of(&reader.snapshot(), &newest.oracle.names());
        let found = found.map_err(|damage| told(damage.to_string()))?;
        if !newest.is_shown_by(&found) {
            return Err(told(found.differs_from(&newest.shown).unwrap_or_default()));
        }
        self.reader = Some(reader);
        Ok(())
    }

    /// The current version.
    pub fn newest(&self) -> Arc<Version> {
        self.versions.last().expect("there is a first one").clone()
    }

    /// Records the states since the last call as points, all with the current promises.
    fn see(&mut self, during: &str) {
        self.see_until(self.disk.states_count(), during);
    }

    fn see_until(&mut self, end: usize, during: &str) {
        let allowed: Vec<_> = self.versions[self.durable..].to_vec();
        let end = end.saturating_sub(self.seen);
        for state in self.disk.states_from(self.seen).into_iter().take(end) {
            let (allowed, during) = (allowed.clone(), during.to_owned());
            let outdated = self.acknowledged - self.durable;
            self.points.push(Point { state, allowed, outdated, during });
        }
        self.seen += end;
    }

    /// Records the success of a step: from its last operation on, these versions are acknowledged or on disk.
    fn promise(&mut self, acknowledged: usize, durable: usize) {
        self.acknowledged = acknowledged;
        let is_synced = self.manner.options.durability == Durability::Sync;
        self.durable = self.durable.max(if is_synced { acknowledged } else { durable });
        if let Some(last) = self.points.last_mut() {
            last.allowed = self.versions[self.durable..].to_vec();
            last.outdated = self.acknowledged - self.durable;
        }
    }

    /// Marks all versions as acknowledged and on disk.
    fn promise_all(&mut self) {
        let last = self.versions.len() - 1;
        self.promise(last, last);
    }

    /// Opens the store in a new process. If a fault ends the open, it is retried without faults.
    fn start(
        &mut self,
        state: DiskState,
        during: &str,
        tally: &mut Tally,
    ) -> Result<Arc<Store>, String> {
        let fault = Fault::ALL[self.dice.index(Fault::ALL.len())];
        // Half of the faults come early, during the recovery of an open.
        let most = if self.dice.below(2) == 0 { FAULT_OPERATIONS } else { FAULT_OPERATIONS / 4 };
        let fault = (self.dice.below(most), fault);
        let has_fault = self.with_faults && self.dice.below(3) > 0;
        self.reader = None;
        self.disk = SimDisk::failing(state, has_fault.then_some(fault), self.dice.roll());
        self.seen = 0;
        let opened = open(&self.disk, self.seed, self.manner.options);
        self.see(&format!("{during}, opening"));
        match opened {
            Ok(store) if store.stop_reason().is_some() && self.disk.has_failed() => {
                // The disk has no room for the recovery's writes: the store serves reads until it is reopened.
                let told = |why: String| format!("{during}, on a full disk: {why}");
                which(&store, &[self.newest()]).map_err(told)?;
                check_stopped(&store, &WriteError::Stopped(String::new())).map_err(told)?;
                drop(store);
                self.restart(during, tally)
            }
            Ok(store) => Ok(Arc::new(store)),
            Err(OpenError::Disk(_)) if self.disk.has_failed() => self.restart(during, tally),
            Err(error) => {
                Err(format!("it does not open: {error}\n{}", self.disk.state().describe()))
            }
        }
    }

    /// Ends a process, and returns the disk as it leaves it.
    fn end(&mut self, store: Arc<Store>, during: &str, tally: &mut Tally) -> DiskState {
        drop(store);
        self.see(during);
        tally.operations += self.disk.operations();
        tally.faults += u64::from(self.disk.has_failed());
        self.disk.kill()
    }

    /// Reopens the store after a fault, on a working disk; in-flight writes may exist or not.
    fn restart(&mut self, during: &str, tally: &mut Tally) -> Result<Arc<Store>, String> {
        tally.operations += self.disk.operations();
        tally.faults += u64::from(self.disk.has_failed());
        let mut state = self.disk.kill();
        let how = match self.dice.below(3) {
            0 => "a power cut",
            1 => "nothing more",
            _ => "what it lost is lost to reads too",
        };
        if how == "a power cut" || state.has_lost() {
            self.acknowledged = self.durable;
        }
        match how {
            "a power cut" => state = state.after_cut(self.manner.cut, &mut self.dice),
            "nothing more" => {}
            _ => state.forget_lost(),
        }
        let during = format!("{during}, then {how}, opening again");
        self.reader = None;
        self.disk = SimDisk::on(state);
        self.seen = 0;
        self.restarts.push(self.points.len());
        let allowed = self.versions[self.acknowledged..].to_vec();
        let store = open(&self.disk, self.seed, self.manner.options).map_err(|error| {
            format!("{during}: it does not open: {error}\n{}", self.disk.state().describe())
        })?;
        self.see(&during);
        let found = which(&store, &allowed).map_err(|why| format!("{during}: {why}"))?;
        let at = self.versions.iter().position(|version| Arc::ptr_eq(version, &found));
        self.versions.truncate(at.expect("it is one of them") + 1);
        self.promise_all();
        check_gone(&self.disk, &found)?;
        Ok(Arc::new(store))
    }

    fn step(
        &mut self,
        step: &Step,
        store: Arc<Store>,
        during: &str,
        tally: &mut Tally,
    ) -> Result<Arc<Store>, String> {
        match step {
            Step::Reopen | Step::Kill => {
                let killed = matches!(step, Step::Kill).then(|| self.disk.kill());
                let left = self.end(store, during, tally);
                let store = self.start(killed.unwrap_or(left), during, tally)?;
                self.promise_all();
                Ok(store)
            }
            Step::Backup => {
                let (newest, how) = (self.newest(), (self.manner, self.with_faults));
                let with = (&mut self.dice, &mut *tally);
                let from = (&*store, &self.disk);
                let made = self.copies.backup(from, &newest, how, during, with)?;
                self.see(during);
                let stopped = match made {
                    Copy::Stopped(error) => Err(error),
                    Copy::Made | Copy::Failed => Ok(0),
                };
                let is_made = matches!(stopped, Ok(0));
                let last = self.versions.len() - 1;
                if is_made {
                    self.promise(last, last);
                }
                self.go_on(stopped, store, last, during, tally)
            }
            Step::Restore => {
                let with = (&mut self.dice, &mut *tally);
                self.copies.restore(self.with_faults, during, with)?;
                Ok(store)
            }
            _ => self.take(step, store, during, tally),
        }
    }

    /// Runs a step of the store itself.
    fn take(
        &mut self,
        step: &Step,
        store: Arc<Store>,
        during: &str,
        tally: &mut Tally,
    ) -> Result<Arc<Store>, String> {
        let before = self.versions.len() - 1;
        if step.erases() {
            self.disk.wipe();
            self.copies.wipe();
        }
        let beside = self.set_meanwhile(step, &store);
        let taken = step.take(&store);
        self.disk.meanwhile(None);
        let beside = std::mem::take(&mut *beside.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(trouble) = beside.trouble {
            return Err(format!("in the middle of it: {trouble}"));
        }
        tally.interleaved += u64::from(beside.has_run);
        let in_flight = usize::from(beside.in_flight.is_some());
        // The result of a cancelled job does not show if the writer stopped meanwhile.
        let taken = match beside.in_flight {
            Some(error) => taken.and(Err(error)),
            None => taken,
        };
        let written = beside.acknowledged.len();
        let expected = step.expect(&self.newest().oracle, written + in_flight);
        self.versions.extend(expected.into_iter().map(Version::of));
        let first =
            self.versions.len().saturating_sub(1 + written + usize::from(step.may_end_early()));
        if in_flight == 0 {
            for (n, &end) in beside.acknowledged.iter().enumerate() {
                self.see_until(end, during);
                self.promise(first + n + 1, self.durable);
            }
        }
        self.see(during);
        if let Ok(segments) = taken {
            tally.compactions += u64::from(segments > 1);
            let has_ended = step.may_end_early() && {
                step.is_done(&store).map_err(|error| format!("its end: {error}"))?
            };
            tally.erasures += u64::from(has_ended && step.erases());
            tally.moves += u64::from(has_ended && !step.erases());
            if step.may_end_early() && !has_ended {
                self.versions.pop();
            }
            let last = self.versions.len() - 1;
            let durable = match step {
                _ if has_ended => last,
                _ if step.may_end_early() => self.durable,
                _ if step.makes_durable() => last - written,
                _ => self.durable,
            };
            self.promise(last, durable);
        }
        self.go_on(taken, store, before, during, tally)
    }

    /// Schedules the step's batches and its other job for the middle of its job.
    fn set_meanwhile(&self, step: &Step, store: &Arc<Store>) -> Arc<Mutex<Beside>> {
        let beside = Arc::<Mutex<Beside>>::default();
        let Some(meanwhile) = step.meanwhile().cloned() else { return beside };
        let (store, disk, step) = (Arc::clone(store), self.disk.clone(), step.clone());
        let result = Arc::clone(&beside);
        self.disk.meanwhile(Some(Box::new(move || {
            let mut beside = result.lock().unwrap_or_else(PoisonError::into_inner);
            beside.has_run = true;
            let is_fault = |error: &WriteError| {
                disk.has_failed() && !matches!(error, WriteError::Refused { .. })
            };
            for batch in meanwhile.batches {
                match store.write(batch) {
                    Ok(_) => beside.acknowledged.push(disk.states_count()),
                    Err(error) if is_fault(&error) => {
                        beside.in_flight = Some(error);
                        return;
                    }
                    Err(error) => beside.trouble = Some(error.to_string()),
                }
            }
            if meanwhile.job {
                let error = step.run_beside(&store).err();
                beside.trouble = error.filter(|error| !is_fault(error)).map(|it| it.to_string());
            }
        })));
        beside
    }

    /// Continues after a step: with the same process, or with another one if its writer has stopped.
    fn go_on(
        &mut self,
        taken: Result<usize, WriteError>,
        store: Arc<Store>,
        before: usize,
        during: &str,
        tally: &mut Tally,
    ) -> Result<Arc<Store>, String> {
        let Err(error) = taken else { return Ok(store) };
        if !self.disk.has_failed() {
            return Err(format!("it is refused: {error}"));
        }
        if matches!(error, WriteError::Postponed { .. }) && store.stop_reason().is_none() {
            // Versions that the postponed step had not begun do not exist.
            let found = which(&store, &self.versions[before..])?;
            let at = self.versions.iter().position(|version| Arc::ptr_eq(version, &found));
            self.versions.truncate(at.expect("it is one of them") + 1);
            let last = self.versions.len() - 1;
            self.promise(last, self.durable);
            return Ok(store);
        }
        check_stopped(&store, &error)?;
        let reads = which(&store, &self.versions[before..]);
        reads.map_err(|why| format!("reads do not go on: {why}"))?;
        drop(store);
        self.see(during);
        self.restart(during, tally)
    }
}

/// The first error reports the disk, or the stopped writer if the disk failed after a successful write; all later
/// errors report the stopped writer.
fn check_stopped(store: &Store, error: &WriteError) -> Result<(), String> {
    if !matches!(error, WriteError::Disk(_) | WriteError::Stopped(_)) {
        return Err(format!("a fault of the disk gives another error: {error}"));
    }
    let later = store.write(items([note("too late")]));
    if store.stop_reason().is_some() && matches!(later, Err(WriteError::Stopped(_))) {
        return Ok(());
    }
    Err(format!("the writer goes on after {error}: {later:?}"))
}
