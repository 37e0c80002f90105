//! Deterministic simulation of the disk: a seed decides a workload, the crash points, the effects of power cuts, and
//! the faults; the store is then compared with a plain model.
//!
//! After TigerBeetle's simulator and SQLite's crash tests. Everything runs in one thread over a disk in memory, so a
//! seed repeats a failure exactly. The layers, upward:
//!
//! - [`state`] - contents of a disk, and effects of a cut;
//! - [`disk`] - the engine's trait, and faults;
//! - [`shown`] - observation of a store;
//! - [`oracle`] - the expected observation;
//! - [`step`] - operations;
//! - [`workload`] - a run of steps and its crash points;
//! - [`copies`] - backups on disks of their own;
//! - [`recovery`] - requirements after a cut.
//!
//! # Power-cut model
//!
//! A write is in memory until its file is synced, a name until the directory is. At a power cut:
//!
//! - Each unsynced write is kept, lost or torn at sectors of 512 bytes, in any subset: a later write may survive an
//!   earlier one. A torn sector may contain garbage in the written range; bytes outside of that range stay as they are
//!   (SQLite's "powersafe overwrite").
//! - A file may have grown without its data and then shows zeros (XFS, unwritten extents) or stale bytes of removed
//!   files (ext4 `data=writeback`). With ext4 `data=ordered` a length grows only with its data.
//! - Names that were created, changed or removed since the directory was synced survive up to some point in their
//!   order, as in the journals of ext4 and XFS. A rename whose file was synced may be lost, a removed file may come
//!   back, a file may exist without its data. With `FileSystem::Posix`, any subset survives in which each change has
//!   its prerequisites, which is all that POSIX promises. A rename is never partial.
//!
//! A sync of a file does not sync its name, though ext4 and XFS do so.
//!
//! Faults are EIO of any operation (with or without its effect), short writes, a full disk, and a sync that fails once
//! while its bytes are lost for good. When a process ends, its writes stay with the operating system, as on a machine
//! that stays up. The bytes lost by a failed sync are then readable or unreadable: both are tried. Corrupt bytes model
//! a disk that loses stored data.

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

/// Simulation of a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// The power is cut after every operation of a workload.
    PowerCuts,
    /// Operations fail; the power is cut at some of them and afterwards.
    Faults,
    /// Bytes on disk change.
    Spoilt,
}

impl Scenario {
    /// Every scenario.
    pub const ALL: [Self; 3] = [Self::PowerCuts, Self::Faults, Self::Spoilt];

    /// Name of the test in `engine/tests/it/simulation.rs` that runs the scenario.
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

/// A seed whose run failed.
#[derive(Debug)]
pub struct Failure {
    /// Scenario of the run.
    pub scenario: Scenario,
    /// Seed of the run.
    pub seed: u64,
    /// Found and expected results.
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

/// Counts of the work done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Seeds run.
    pub seeds: u64,
    /// Steps of workloads.
    pub steps: u64,
    /// Disk operations in workloads.
    pub operations: u64,
    /// Operations after which the power was cut.
    pub crash_points: u64,
    /// States of the disk after a cut on which a store was opened.
    pub crash_states: u64,
    /// Crash states whose cut or kill came during a recovery or just after it.
    pub second_crashes: u64,
    /// Injected faults.
    pub faults: u64,
    /// Corrupted files with which a store was opened.
    pub spoilt: u64,
    /// Compactions that merged segments.
    pub compactions: u64,
    /// Completed erasures.
    pub erasures: u64,
    /// Completed migrations to another model.
    pub moves: u64,
    /// Jobs with other work in their middle.
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
