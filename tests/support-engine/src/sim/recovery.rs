//! Requirements after a power cut, a fault, or a change of stored bytes.
//!
//! Every promised commit exists, at most one in-flight commit besides, and none in part. The store then accepts a
//! write, and shows it after reopening.

use std::ops::Range;
use std::sync::Arc;

use engine::{Durability, NoThrottle, OpenError, Seq};

use super::disk::SimDisk;
use super::shown::Shown;
use super::state::{DiskState, SECTOR_BYTES};
use super::step;
use super::workload::{Manner, Point, Version, Workload, check_gone, open, which};
use super::{Scenario, Tally, copies};
use crate::ground::Dice;

/// States drawn at each point of a workload.
const DRAWS: u64 = 3;
/// After one recovery in this many, a write, a second crash and another opening follow, which cost three times as much
/// as the recovery itself.
const FOLLOWED: u64 = 3;
/// Cuts and kills during each such recovery.
const SECOND_CRASHES: u64 = 2;
/// Points of a workload with faults at which the power is cut, anywhere in it.
const FAULT_POINTS: u64 = 24;
/// Points after each fault that stopped a process at which the power is cut.
const NEAR_POINTS: usize = 24;
/// Files of a workload that are corrupted.
const SPOILT: u64 = 64;

/// Cuts the power after every operation of a workload.
pub fn power_cuts(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let run = Workload::run(Scenario::PowerCuts, seed, tally)?;
    let mut dice = Dice::new(!seed);
    for (n, point) in run.points.iter().enumerate() {
        tally.crash_points += 1;
        // If nothing is pending, every draw is the same.
        let draws = if point.state.is_settled() { 1 } else { DRAWS };
        for _ in 0..draws {
            crash(point, run.manner, &mut dice, tally).map_err(|why| at(n, point, &run, &why))?;
        }
    }
    copies_cut(&run, &mut dice, tally)
}

/// Cuts the power of the backup's disk after every operation on it.
fn copies_cut(run: &Workload, dice: &mut Dice, tally: &mut Tally) -> Result<(), String> {
    let disk = SimDisk::on(run.left());
    let store = open(&disk, dice.roll(), run.manner.options).map_err(|error| error.to_string())?;
    let newest = run.newest();
    for (n, point) in run.copies.points.iter().enumerate() {
        tally.crash_points += 1;
        copies::crash(point, run.manner, &store, &newest, (dice, tally)).map_err(|why| {
            let (during, state) = (&point.during, point.state.describe());
            format!("copy, point {n}, during {during}: {why}\n{:?}\nbefore:\n{state}", run.manner)
        })?;
    }
    Ok(())
}

/// Injects faults, and cuts the power at some points and at the end.
pub fn faults(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let run = Workload::run(Scenario::Faults, seed, tally)?;
    let mut dice = Dice::new(!seed);
    let last = run.points.len() - 1;
    let near = run.restarts.iter().flat_map(|&first| first..(first + NEAR_POINTS).min(last));
    let some: Vec<usize> = (0..FAULT_POINTS).map(|_| dice.index(last + 1)).collect();
    for n in near.chain(some).chain([last]) {
        let point = &run.points[n];
        tally.crash_points += 1;
        crash(point, run.manner, &mut dice, tally).map_err(|why| at(n, point, &run, &why))?;
    }
    copies_cut(&run, &mut dice, tally)
}

fn at(n: usize, point: &Point, run: &Workload, why: &str) -> String {
    let (during, manner) = (&point.during, run.manner);
    let state = point.state.describe();
    format!("point {n}, during {during}: {why}\n{manner:?}\nthe disk before it:\n{state}")
}

/// Simulates a power cut or the end of the process at a point, the recovery, and a second crash.
fn crash(point: &Point, manner: Manner, dice: &mut Dice, tally: &mut Tally) -> Result<(), String> {
    let is_cut = dice.below(4) > 0;
    let how = if is_cut { "after a power cut" } else { "after the process was killed" };
    let (left, allowed) = if is_cut {
        (point.state.after_cut(manner.cut, dice), &point.allowed[..])
    } else {
        point.killed()
    };
    tally.crash_states += 1;
    let told = |why: String| format!("{how}: {why}\nthe disk then:\n{}", left.describe());
    if !is_cut && dice.clone().below(FOLLOWED) == 0 {
        // A read-only process may open the store at any moment.
        let held = allowed.iter().cloned().map(Some);
        copies::held(&left, &std::iter::once(None).chain(held).collect::<Vec<_>>())?;
    }
    let disk = SimDisk::on(left.clone());
    let seed = dice.roll();
    let store = open(&disk, seed, manner.options);
    let store = store.map_err(|error| told(format!("it does not open: {error}")))?;
    let found = which(&store, allowed).map_err(told)?;
    check_gone(&disk, &found).map_err(told)?;
    if dice.below(FOLLOWED) > 0 {
        return Ok(());
    }
    let opened = disk.states_count() - 1;

    let batch = step::batch(&found.oracle, dice);
    let mut oracle = found.oracle.clone();
    oracle.write(&batch);
    let next = Version::of(oracle);
    let written = store.write(batch);
    written.map_err(|error| told(format!("it takes no write: {error}")))?;
    let mut versions = vec![found.clone(), next.clone()];
    let mut next = next;
    if next.oracle.is_erasing() {
        disk.wipe();
        let erased = store.erase_pending(&NoThrottle);
        erased.map_err(|error| told(format!("the erasure does not go on: {error}")))?;
        let mut oracle = next.oracle.clone();
        oracle.erase();
        next = Version::of(oracle);
        versions.push(next.clone());
        check_gone(&disk, &next).map_err(told)?;
    }
    which(&store, std::slice::from_ref(&next))
        .map_err(|why| told(format!("after a write: {why}")))?;

    let is_synced = manner.options.durability == Durability::Sync;
    let states = disk.states_from(0);
    for _ in 0..SECOND_CRASHES {
        let n = dice.index(states.len());
        let is_last = n + 1 == states.len();
        let allowed = match () {
            // The state after a cut is on disk, so an interrupted recovery cannot lose it. The state after a killed
            // process is not.
            () if n < opened && is_cut => vec![found.clone()],
            () if n < opened => point.allowed.clone(),
            () if is_last && is_synced => vec![next.clone()],
            () => versions.clone(),
        };
        tally.crash_states += 1;
        tally.second_crashes += 1;
        second(&states[n], &allowed, manner, dice)
            .map_err(|why| told(format!("a second crash, operation {n} of {opened}: {why}")))?;
    }

    drop(store);
    let again = open(&SimDisk::on(disk.kill()), seed, manner.options);
    let again = again.map_err(|error| told(format!("it does not open again: {error}")))?;
    which(&again, &[next]).map(drop).map_err(|why| told(format!("opened again: {why}")))
}

fn second(
    state: &DiskState,
    allowed: &[Arc<Version>],
    manner: Manner,
    dice: &mut Dice,
) -> Result<(), String> {
    let is_cut = dice.below(4) > 0;
    let left = if is_cut { state.after_cut(manner.cut, dice) } else { state.clone() };
    let told = |why: String| format!("{why}\nthe disk after the second:\n{}", left.describe());
    let disk = SimDisk::on(left.clone());
    let store = open(&disk, dice.roll(), manner.options);
    let store = store.map_err(|error| told(format!("it does not open: {error}")))?;
    let found = which(&store, allowed).map_err(told)?;
    check_gone(&disk, &found).map_err(told)
}

/// Changes bytes on disk: the store reports damage, or shows the same contents.
pub fn spoilt(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let run = Workload::run(Scenario::Spoilt, seed, tally)?;
    let mut dice = Dice::new(!seed);
    for _ in 0..SPOILT {
        let n = dice.index(run.points.len());
        let point = &run.points[n];
        let mut state = point.state.clone();
        state.settle();
        let store = open(&SimDisk::on(state.clone()), seed, run.manner.options);
        let store = store.map_err(|error| at(n, point, &run, &format!("settled: {error}")))?;
        let right = which(&store, &point.allowed).map_err(|why| at(n, point, &run, &why))?;
        drop(store);
        tally.spoilt += 1;
        spoil(state, &right, (&run, n), &mut dice).map_err(|why| at(n, point, &run, &why))?;
    }
    Ok(())
}

fn spoil(
    mut state: DiskState,
    right: &Version,
    (run, n): (&Workload, usize),
    dice: &mut Dice,
) -> Result<(), String> {
    let names: Vec<String> = state.names().map(str::to_owned).collect();
    let logs: Vec<String> = names.iter().filter(|name| name.starts_with("log-")).cloned().collect();
    // Only a log may end earlier than before, so corruption of a log is the hardest to judge.
    let some = if !logs.is_empty() && dice.below(3) == 0 { &logs } else { &names };
    if some.is_empty() {
        return Ok(());
    }
    let name = &some[dice.index(some.len())];
    let last = state.last_synced_write(name);
    let is_lost = dice.below(4) == 0;
    let range = if is_lost {
        state.lose(name);
        0..usize::MAX
    } else {
        spoil_file(&mut state, name, dice)
    };
    let told = |why: &str| format!("{name}, bytes {range:?} spoilt, last write {last:?}: {why}");
    let store = match open(&SimDisk::on(state.clone()), 1, run.manner.options) {
        Err(OpenError::Damaged(_) | OpenError::TooNew { .. }) => return Ok(()),
        Err(error) => return Err(told(&error.to_string())),
        Ok(store) => store,
    };
    let Ok(found) = Shown::of(&store.snapshot(), &right.oracle.names()) else { return Ok(()) };
    if right.is_shown_by(&found) {
        return Ok(());
    }
    let may_be_older = if is_lost {
        // If its newest manifest is lost, a store cannot know that it existed: an older manifest is then valid, and
        // without rows and manifests the store is empty.
        let others = names.iter().filter(|other| *other != name);
        let mut others = others.filter(|other| !other.ends_with(".new"));
        name.starts_with("manifest-")
            && (others.clone().count() == 0 || others.any(|other| other.starts_with("manifest-")))
    } else {
        // The end of the newest log cannot be distinguished from unsynced writes, unless a manifest records that it was
        // synced (LOG-08).
        name.starts_with("log-")
            && last.is_some_and(|last| range.end > last)
            && found.seq >= on_disk_at_manifest(run, n)
    };
    let mut older = run.versions().iter().filter(|version| version.shown.seq <= right.shown.seq);
    if may_be_older && older.any(|version| version.is_shown_by(&found)) {
        return Ok(());
    }
    Err(told(&found.differs_from(&right.shown).unwrap_or_default()))
}

/// Returns the newest promised commit that was on disk when the newest manifest of a point was published. The
/// manifest's own record of it is not used.
fn on_disk_at_manifest(run: &Workload, n: usize) -> Seq {
    let manifest = newest_manifest(&run.points[n]);
    let same = run.points[..n].iter().rev().take_while(|point| newest_manifest(point) == manifest);
    let first = same.last().unwrap_or(&run.points[n]);
    first.allowed.first().map_or(0, |version| version.shown.seq)
}

fn newest_manifest(point: &Point) -> Option<&str> {
    let manifests = point.state.names().filter(|name| name.starts_with("manifest-"));
    manifests.filter(|name| !name.ends_with(".new")).max()
}

/// Flips a bit, clears a sector or fills it with garbage. The position is one time in four anywhere in the file,
/// reserved space of a log included; one time in four in the newest write; otherwise in all written bytes.
fn spoil_file(state: &mut DiskState, name: &str, dice: &mut Dice) -> Range<usize> {
    let bytes = state.bytes(name).unwrap_or_default();
    let length = bytes.len();
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(length, |last| last + 1);
    let last = state.last_synced_write(name).unwrap_or_default().min(used.saturating_sub(1));
    let byte = match dice.below(4) {
        0 => dice.index(length.max(1)),
        1 => last + dice.index((used - last).max(1)),
        _ => dice.index(used.max(1)),
    };
    let sector = byte / SECTOR_BYTES * SECTOR_BYTES;
    let sector = sector..length.min(sector + SECTOR_BYTES);
    match dice.below(3) {
        0 => {
            let bit = 1 << dice.below(8);
            state.spoil(name, byte..byte + 1, |spoilt| *spoilt ^= bit);
            byte..byte + 1
        }
        1 => {
            state.spoil(name, sector.clone(), |spoilt| *spoilt = 0);
            sector
        }
        _ => {
            state.spoil(name, sector.clone(), |spoilt| *spoilt = dice.roll().to_le_bytes()[0]);
            sector
        }
    }
}
