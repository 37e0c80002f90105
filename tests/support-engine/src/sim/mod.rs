//! Deterministic simulation of the disk: a seed decides a workload, where the power is cut, what the
//! cut leaves, and what goes wrong; the store is then compared with a plain model.
//!
//! After TigerBeetle's simulator and SQLite's crash tests. Everything runs in one thread over a disk
//! in memory, so a seed repeats a failure exactly. The layers, upward: [`state`] (what a disk holds,
//! what a cut leaves), [`disk`] (the engine's trait, faults), [`shown`] (all that a store shows),
//! [`oracle`] (what it should show), [`step`] (what is done to it), [`workload`] (a run of steps and
//! the points where a cut is tried), [`copies`] (backups on disks of their own), [`recovery`] (what
//! must hold after a cut).
//!
//! # What is modelled
//!
//! A write is in memory until its file is synced, a name until the directory is. At a power cut:
//!
//! - each write that is not synced is kept, lost or torn at sectors of 512 bytes, in any subset: a
//!   later one may survive an earlier one. A torn sector may hold garbage where it was being
//!   written; bytes beside that range stay as they are (SQLite's "powersafe overwrite");
//! - a file may have grown without its data and then shows zeros (XFS, unwritten extents) or stale
//!   bytes of files that were removed (ext4 `data=writeback`). With ext4 `data=ordered` a length
//!   grows only with its data;
//! - names that were made, changed or removed since the directory was synced survive up to some
//!   point in their order, as the journals of ext4 and XFS have it: a rename whose file was synced
//!   may be lost, a file that was removed may come back, a file may be there without its data. Or
//!   (`FileSystem::Posix`) in any subset in which each has what it builds on, which is all that
//!   POSIX promises. A rename is never half done.
//!
//! A sync of a file is not taken to bring its name to disk, though ext4 and XFS do so.
//!
//! Faults are EIO of any operation (with or without its effect), short writes, a disk that is full,
//! and a sync that fails once while what it should have written is lost for good. When a process
//! ends, what it wrote stays with the operating system, as it does on a machine that stays up; what
//! a failed sync has lost can still be read then, or is lost to reads too: both are tried.
//! Spoilt bytes model a disk that forgets what it had stored.

pub mod copies;
pub mod disk;
pub mod oracle;
pub mod recovery;
pub mod shown;
pub mod state;
pub mod step;
pub mod workload;

use std::fmt;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a seed is run through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// The power is cut after every operation of a workload.
    PowerCuts,
    /// Operations fail; the power is cut at some of them and afterwards.
    Faults,
    /// Bytes that were on disk change.
    Spoilt,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::PowerCuts, Self::Faults, Self::Spoilt];

    /// The test of `engine/tests/it/simulation.rs` that runs it.
    pub fn test(self) -> &'static str {
        match self {
            Self::PowerCuts => "a_power_cut_at_any_operation_loses_nothing",
            Self::Faults => "a_failing_operation_loses_nothing",
            Self::Spoilt => "spoilt_bytes_are_never_shown",
        }
    }

    /// Runs one seed. A panic of the engine is a failure like any other.
    pub fn run(self, seed: u64, tally: &mut Tally) -> Result<(), Failure> {
        tally.seeds += 1;
        let run = AssertUnwindSafe(|| match self {
            Self::PowerCuts => recovery::power_cuts(seed, tally),
            Self::Faults => recovery::faults(seed, tally),
            Self::Spoilt => recovery::spoilt(seed, tally),
        });
        let done = catch_unwind(run).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            Err(format!("a panic: {}", text.unwrap_or_default()))
        });
        done.map_err(|what| Failure { scenario: self, seed, what })
    }
}

/// A seed whose run went wrong.
#[derive(Debug)]
pub struct Failure {
    /// What it was run through.
    pub scenario: Scenario,
    /// The seed.
    pub seed: u64,
    /// What was found and what was wanted.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, seed, what } = self;
        let test = scenario.test();
        writeln!(f, "{scenario:?}, seed {seed}: {what}")?;
        write!(
            f,
            "again: RECALLD_TEST_SEED={seed} cargo test -p engine --test it simulation::{test}"
        )
    }
}

/// How much was tried.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Seeds.
    pub seeds: u64,
    /// Steps of workloads.
    pub steps: u64,
    /// Operations of the disk in workloads.
    pub operations: u64,
    /// Operations after which the power was cut.
    pub crash_points: u64,
    /// States of the disk, after a cut, that a store was opened on.
    pub crash_states: u64,
    /// Of these, cuts or kills during a recovery or just after one.
    pub second_crashes: u64,
    /// Faults that came.
    pub faults: u64,
    /// Spoilt files that a store was opened on.
    pub spoilt: u64,
    /// Compactions that merged segments.
    pub compactions: u64,
    /// Erasures that ended.
    pub erasures: u64,
    /// Moves to another model that ended.
    pub moves: u64,
    /// Jobs in the middle of which something else was done.
    pub interleaved: u64,
    /// Backups and restores.
    pub copies: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.operations += other.operations;
        self.crash_points += other.crash_points;
        self.crash_states += other.crash_states;
        self.second_crashes += other.second_crashes;
        self.faults += other.faults;
        self.spoilt += other.spoilt;
        self.compactions += other.compactions;
        self.erasures += other.erasures;
        self.moves += other.moves;
        self.interleaved += other.interleaved;
        self.copies += other.copies;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} seeds, {} steps, {} operations, {} crash points, {} crash states opened ({} second \
             crashes), {} faults, {} spoilt files, {} compactions, {} erasures, {} moves, \
             {} jobs interleaved, {} copies",
            self.seeds,
            self.steps,
            self.operations,
            self.crash_points,
            self.crash_states,
            self.second_crashes,
            self.faults,
            self.spoilt,
            self.compactions,
            self.erasures,
            self.moves,
            self.interleaved,
            self.copies,
        )
    }
}
