//! A workload: steps that a seed decides, run on a simulated disk, and the points where it can be cut.
//!
//! Owns what was promised at each moment; what must hold after a cut is checked in
//! [`super::recovery`].

use std::sync::Arc;

use engine::{Durability, OpenError, Options, Store, WriteError};

use super::disk::{Fault, SimDisk};
use super::oracle::Oracle;
use super::shown::Shown;
use super::state::{Cut, DiskState, FileSystem};
use super::step::{Promise, Step};
use super::{Scenario, Tally};
use crate::ground::{self, Dice};
use crate::sample::{items, note};

const STEPS_MIN: u64 = 12;
const STEPS_SPREAD: u64 = 16;
/// A fault comes at one of this many operations of a process.
const FAULT_OPERATIONS: u64 = 48;
/// Whether reads may go on seeing what a failed sync has lost, when the next process opens the store
/// without a power cut between (ext4 and XFS). An opening shows whole frames of a log and then syncs
/// it, which such a file system answers with success and does nothing. `false` until openings write
/// anew what they replay; then the memory is taken to be dropped with the process.
const LOST_WRITES_STAY_READABLE: bool = true;

/// What a store should show after some step.
#[derive(Debug)]
pub struct Version {
    /// What was written.
    pub oracle: Oracle,
    /// All that is to be seen of it.
    pub shown: Shown,
}

impl Version {
    /// What should be shown of what was written.
    pub fn of(oracle: Oracle) -> Arc<Self> {
        Arc::new(Self { shown: oracle.shown(), oracle })
    }
}

/// A moment at which the power may be cut.
#[derive(Debug)]
pub struct Point {
    /// The disk.
    pub state: DiskState,
    /// What may be found afterwards: the last one that was promised, and those begun since.
    pub allowed: Vec<Arc<Version>>,
    /// How many of these are no longer allowed when only the process ends: what was acknowledged is
    /// with the operating system.
    pub outdated: usize,
    /// What was going on.
    pub during: String,
}

impl Point {
    /// What the end of the process leaves, and what may be found then.
    pub fn killed(&self) -> (DiskState, &[Arc<Version>]) {
        let mut left = self.state.clone();
        if !left.has_lost() {
            return (left, &self.allowed[self.outdated..]);
        }
        if !LOST_WRITES_STAY_READABLE {
            left.forget_lost();
        }
        (left, &self.allowed)
    }
}

/// How the store and the disk of one seed behave.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// The store's.
    pub options: Options,
    /// The disk's.
    pub cut: Cut,
}

impl Manner {
    fn draw(dice: &mut Dice) -> Self {
        let mut one = |of: &[usize]| of[dice.index(of.len())];
        let tail_bytes_seal = one(&[1, 6 << 10, 24 << 10, 1 << 20, 1 << 20]);
        let merge_bytes_max = one(&[0, 16 << 10, 1 << 20]);
        let is_synced = one(&[0, 1, 1]) == 1;
        let durability = if is_synced {
            Durability::Sync
        } else {
            Durability::Interval(std::time::Duration::ZERO)
        };
        let file_system = FileSystem::ALL[one(&[0, 1, 2, 3, 3])];
        let garbage = one(&[0, 1]) == 1;
        let mut options = Options { durability, tail_bytes_seal, ..Options::default() };
        options.merge_bytes_max = merge_bytes_max;
        Self { options, cut: Cut { file_system, garbage } }
    }
}

/// A run of steps, as far as it came.
#[derive(Debug)]
pub struct Workload {
    seed: u64,
    /// How store and disk behave.
    pub manner: Manner,
    dice: Dice,
    with_faults: bool,
    disk: SimDisk,
    /// States of `disk` that points were made of.
    seen: usize,
    versions: Vec<Arc<Version>>,
    /// The last of the versions that a power cut must leave.
    durable: usize,
    /// The last of the versions that was acknowledged.
    acknowledged: usize,
    /// Every moment between two operations.
    pub points: Vec<Point>,
    /// The first point after each fault that stopped a process.
    pub restarts: Vec<usize>,
}

/// Opens a store on a disk, always with the same time and randomness.
pub fn open(disk: &SimDisk, seed: u64, options: Options) -> Result<Store, OpenError> {
    Store::open(ground::still(Arc::new(disk.clone()), seed), options)
}

/// Which of `allowed` a store shows; an error where it is none of them.
pub fn which(store: &Store, allowed: &[Arc<Version>]) -> Result<Arc<Version>, String> {
    let newest = allowed.last().expect("something is always allowed");
    let found = Shown::of(&store.snapshot(), &newest.oracle.names());
    let found = found.map_err(|damage| format!("what it shows is damaged: {damage}"))?;
    if let Some(version) = allowed.iter().find(|version| version.shown == found) {
        return Ok(version.clone());
    }
    let seqs: Vec<u64> = allowed.iter().map(|version| version.shown.seq).collect();
    let nearest = allowed.iter().find(|version| version.shown.seq == found.seq).unwrap_or(newest);
    let difference = found.differs_from(&nearest.shown).unwrap_or_default();
    Err(format!("commits {seqs:?} were allowed, {} was found: {difference}", found.seq))
}

impl Workload {
    /// Runs all steps of a seed.
    pub fn run(scenario: Scenario, seed: u64, tally: &mut Tally) -> Result<Self, String> {
        let mut dice = Dice::new(seed);
        let mut manner = Manner::draw(&mut dice);
        if scenario == Scenario::Spoilt {
            // What no sync has confirmed may change unseen.
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
        };
        let mut store = run.start(DiskState::default(), "make", tally)?;
        let steps = STEPS_MIN + run.dice.below(STEPS_SPREAD);
        for n in 0..steps {
            let step = Step::draw(&run.newest().oracle, &mut run.dice);
            let during = format!("step {n} ({})", step.name());
            tally.steps += 1;
            store =
                run.step(&step, store, &during, tally).map_err(|why| format!("{during}: {why}"))?;
            which(&store, &[run.newest()]).map_err(|why| format!("after {during}: {why}"))?;
        }
        let state = run.end(store, "the end", tally);
        run.disk = SimDisk::on(state);
        Ok(run)
    }

    /// What the store shows now.
    pub fn newest(&self) -> Arc<Version> {
        self.versions.last().expect("there is a first one").clone()
    }

    /// Takes the states that came since as points, all of them with the promises of before.
    fn see(&mut self, during: &str) {
        let allowed: Vec<_> = self.versions[self.durable..].to_vec();
        for state in self.disk.states_from(self.seen) {
            let (allowed, during) = (allowed.clone(), during.to_owned());
            let outdated = self.acknowledged - self.durable;
            self.points.push(Point { state, allowed, outdated, during });
        }
        self.seen = self.disk.states_count();
    }

    /// A step has succeeded: from its last operation on, its promise holds.
    fn promise(&mut self, promise: Promise) {
        self.acknowledged = self.versions.len() - 1;
        let is_synced = self.manner.options.durability == Durability::Sync;
        if promise == Promise::Durable || is_synced {
            self.durable = self.versions.len() - 1;
        }
        if let Some(last) = self.points.last_mut() {
            last.allowed = self.versions[self.durable..].to_vec();
            last.outdated = self.acknowledged - self.durable;
        }
    }

    /// A process opens the store. An opening that a fault ends is tried again without one.
    fn start(
        &mut self,
        state: DiskState,
        during: &str,
        tally: &mut Tally,
    ) -> Result<Store, String> {
        let fault = Fault::ALL[self.dice.index(Fault::ALL.len())];
        // Half of them come early, where an opening still recovers.
        let most = if self.dice.below(2) == 0 { FAULT_OPERATIONS } else { FAULT_OPERATIONS / 4 };
        let fault = (self.dice.below(most), fault);
        let has_fault = self.with_faults && self.dice.below(3) > 0;
        self.disk = SimDisk::failing(state, has_fault.then_some(fault), self.dice.roll());
        self.seen = 0;
        let opened = open(&self.disk, self.seed, self.manner.options);
        self.see(&format!("{during}, opening"));
        match opened {
            Ok(store) => Ok(store),
            Err(OpenError::Disk(_)) if self.disk.has_failed() => self.restart(during, tally),
            Err(error) => {
                Err(format!("it does not open: {error}\n{}", self.disk.state().describe()))
            }
        }
    }

    /// A process ends; gives the disk as it leaves it.
    fn end(&mut self, store: Store, during: &str, tally: &mut Tally) -> DiskState {
        drop(store);
        self.see(during);
        tally.operations += self.disk.operations();
        tally.faults += u64::from(self.disk.has_failed());
        self.disk.kill()
    }

    /// Opens the store once more after a fault, on a disk that works; what was in flight may be
    /// there or not.
    fn restart(&mut self, during: &str, tally: &mut Tally) -> Result<Store, String> {
        tally.operations += self.disk.operations();
        tally.faults += u64::from(self.disk.has_failed());
        let mut state = self.disk.kill();
        let how = match self.dice.below(3) {
            0 => "a power cut",
            1 if LOST_WRITES_STAY_READABLE => "nothing more",
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
        self.promise(Promise::Durable);
        Ok(store)
    }

    fn step(
        &mut self,
        step: &Step,
        store: Store,
        during: &str,
        tally: &mut Tally,
    ) -> Result<Store, String> {
        if matches!(step, Step::Reopen | Step::Kill) {
            let state = if matches!(step, Step::Kill) {
                let state = self.disk.kill();
                self.end(store, during, tally);
                state
            } else {
                self.end(store, during, tally)
            };
            let store = self.start(state, during, tally)?;
            self.promise(step.promise());
            return Ok(store);
        }
        let before = self.newest();
        let after = step.expect(&before.oracle).map(Version::of);
        self.versions.extend(after.clone());
        let taken = step.take(&store);
        self.see(during);
        match taken {
            Ok(()) => {
                self.promise(step.promise());
                Ok(store)
            }
            Err(error) if self.disk.has_failed() => {
                check_stopped(&store, &error)?;
                which(&store, &[before]).map_err(|why| format!("reads do not go on: {why}"))?;
                drop(store);
                self.see(during);
                self.restart(during, tally)
            }
            Err(error) => Err(format!("it is refused: {error}")),
        }
    }
}

/// The first error tells of the disk, or of the writer when the disk failed behind a write that
/// stands; all later ones tell of the writer.
fn check_stopped(store: &Store, error: &WriteError) -> Result<(), String> {
    if !matches!(error, WriteError::Disk(_) | WriteError::Stopped(_)) {
        return Err(format!("a fault of the disk gives another error: {error}"));
    }
    let later = store.write(items([note("too late")]));
    if store.stopped().is_some() && matches!(later, Err(WriteError::Stopped(_))) {
        return Ok(());
    }
    Err(format!("the writer goes on after {error}: {later:?}"))
}
