//! Backups and restored stores on disks of their own, with faults and power cuts as well.
//!
//! This module defines the allowed contents of a backup's directory at each moment: the older backup or the newer one,
//! complete.

use std::sync::Arc;

use engine::{CopyError, OpenError, Store, StoreReader, WriteError, restore};

use super::Tally;
use super::disk::{Fault, SimDisk};
use super::shown::Shown;
use super::state::DiskState;
use super::workload::{Manner, Version, open};
use crate::ground::Dice;

/// A fault hits one of this many operations of a copy.
const FAULT_OPERATIONS: u64 = 40;

/// A version, or no store at all.
type Held = Option<Arc<Version>>;

/// The disk of the backups.
#[derive(Debug)]
pub struct Copies {
    state: DiskState,
    allowed: Vec<Held>,
    /// Crash points between two operations on the backup's disk, and on disks of restored stores.
    pub points: Vec<CopyPoint>,
}

/// A crash point of a copy's disk.
#[derive(Debug)]
pub struct CopyPoint {
    /// State of the disk.
    pub state: DiskState,
    /// Contents that the disk may have afterwards.
    pub allowed: Vec<Held>,
    /// True if the next backup may go to this disk.
    pub is_backup: bool,
    /// Description of the current operation.
    pub during: String,
}

/// Outcome of a copy.
#[derive(Debug)]
pub enum Copy {
    /// The copy was made.
    Made,
    /// The copy's own disk failed.
    Failed,
    /// The source store has failed.
    Stopped(WriteError),
}

impl Default for Copies {
    fn default() -> Self {
        Self { state: DiskState::default(), allowed: vec![None], points: Vec::new() }
    }
}

impl Copies {
    /// Stops the file system from exposing erased bytes: see [`DiskState::wipe`].
    pub fn wipe(&mut self) {
        self.state.wipe();
    }

    /// Copies the store, whose newest version is `newest`, to a disk. The backup's disk may have had a power cut since
    /// the last backup.
    pub fn backup(
        &mut self,
        (store, source): (&Store, &SimDisk),
        newest: &Arc<Version>,
        (manner, with_faults): (Manner, bool),
        during: &str,
        (dice, tally): (&mut Dice, &mut Tally),
    ) -> Result<Copy, String> {
        if dice.below(3) == 0 {
            self.state = self.state.after_cut(manner.cut, dice);
            self.allowed = vec![held(&self.state, &self.allowed)?];
        }
        let disk = failing(&self.state, with_faults, dice);
        let before = self.allowed.clone();
        let made = store.backup(&disk);
        tally.operations += disk.operations();
        tally.faults += u64::from(disk.has_failed());
        if !before.iter().flatten().any(|held| Arc::ptr_eq(held, newest)) {
            self.allowed.push(Some(newest.clone()));
        }
        self.state = disk.kill();
        self.see(&disk, &self.allowed.clone(), true, during);
        match made {
            Ok(copied) => {
                tally.copies += 1;
                self.allowed = vec![Some(newest.clone())];
                self.promise();
                if copied.seq != newest.shown.seq {
                    return Err(format!("commit {} was copied", copied.seq));
                }
                let gone = newest.oracle.gone();
                if let Some(name) = self.state.holder_of(gone) {
                    return Err(format!("{name} of the backup holds what was erased"));
                }
                held(&self.state, &self.allowed)?;
                Ok(Copy::Made)
            }
            Err(CopyError::Store(error)) => {
                self.allowed = before;
                Ok(Copy::Stopped(error))
            }
            // If a file of the store is unreadable once, the backup fails, and the store continues.
            Err(CopyError::Source(OpenError::Disk(_))) if source.has_failed() => {
                held(&self.state, &self.allowed).map(|_| Copy::Failed)
            }
            Err(CopyError::Target(OpenError::Disk(_))) if disk.has_failed() => {
                held(&self.state, &self.allowed)?;
                if self.state.has_lost() {
                    // The bytes lost by the failed sync may stay readable until the power cut.
                    self.state = self.state.after_cut(manner.cut, dice);
                    self.allowed = vec![held(&self.state, &self.allowed)?];
                }
                Ok(Copy::Failed)
            }
            Err(error) => Err(format!("it is refused: {error}\n{}", self.state.describe())),
        }
    }

    /// Copies the backup to an empty disk.
    pub fn restore(
        &mut self,
        with_faults: bool,
        during: &str,
        (dice, tally): (&mut Dice, &mut Tally),
    ) -> Result<(), String> {
        let Some(version) = held(&self.state, &self.allowed)? else { return Ok(()) };
        let mut empty = DiskState::default();
        empty.wipe();
        let disk = failing(&empty, with_faults, dice);
        let made = restore(&SimDisk::on(self.state.clone()), &disk);
        tally.operations += disk.operations();
        tally.faults += u64::from(disk.has_failed());
        let whole = vec![Some(version)];
        self.see(&disk, &[vec![None], whole.clone()].concat(), false, during);
        match made {
            Ok(_) => {
                tally.copies += 1;
                let last = self.points.last_mut().expect("a restored store has files");
                last.allowed = whole;
                held(&last.state, &last.allowed).map(drop)
            }
            Err(CopyError::Target(OpenError::Disk(_))) if disk.has_failed() => Ok(()),
            Err(error) => Err(format!("it is refused: {error}")),
        }
    }

    fn see(&mut self, disk: &SimDisk, allowed: &[Held], is_backup: bool, during: &str) {
        self.points.extend(disk.states_from(0).into_iter().map(|state| CopyPoint {
            state,
            allowed: allowed.to_vec(),
            is_backup,
            during: during.to_owned(),
        }));
    }

    fn promise(&mut self) {
        let last = self.points.last_mut().expect("the state before the first operation is one");
        last.allowed.clone_from(&self.allowed);
    }
}

fn failing(state: &DiskState, with_faults: bool, dice: &mut Dice) -> SimDisk {
    let fault = (dice.below(FAULT_OPERATIONS), Fault::ALL[dice.index(Fault::ALL.len())]);
    let has_fault = with_faults && dice.below(2) == 0;
    SimDisk::failing(state.clone(), has_fault.then_some(fault), dice.roll())
}

/// Returns the contents of a disk, read as another process would; an error if they are not among `allowed`.
pub fn held(state: &DiskState, allowed: &[Held]) -> Result<Held, String> {
    let told = |why: String| format!("a copy: {why}\n{}", state.describe());
    let reader = match StoreReader::open(Arc::new(SimDisk::on(state.clone()))) {
        Err(OpenError::NoStore) if allowed.iter().any(Option::is_none) => return Ok(None),
        other => other.map_err(|error| told(format!("it cannot be read: {error}")))?,
    };
    let versions: Vec<_> = allowed.iter().flatten().cloned().collect();
    let Some(newest) = versions.last() else {
        return Err(told("there is a store where none was".to_owned()));
    };
    let found = Shown::of(&reader.snapshot(), &newest.oracle.names());
    let found = found.map_err(|damage| told(format!("what it shows is damaged: {damage}")))?;
    let version = versions.iter().rev().find(|version| version.is_shown_by(&found));
    version.map(|version| Some(version.clone())).ok_or_else(|| {
        told(format!("it holds another state: {:?}", found.differs_from(&newest.shown)))
    })
}

/// Cuts the power of a copy's disk. The older or the newer copy exists with correct hashes, opens for writing, and the
/// next backup succeeds.
pub fn crash(
    point: &CopyPoint,
    manner: Manner,
    store: &Store,
    newest: &Arc<Version>,
    (dice, tally): (&mut Dice, &mut Tally),
) -> Result<(), String> {
    let left = point.state.after_cut(manner.cut, dice);
    tally.crash_states += 1;
    let found = held(&left, &point.allowed)?;
    if dice.below(3) > 0 {
        return Ok(());
    }
    let told = |why: String| format!("{why}\n{}", left.describe());
    if found.is_some() {
        let place = SimDisk::on(DiskState::default());
        restore(&SimDisk::on(left.clone()), &place)
            .map_err(|error| told(format!("it cannot be restored: {error}")))?;
        held(&place.state(), std::slice::from_ref(&found))?;
        let opened = SimDisk::on(left.clone());
        let opened = open(&opened, dice.roll(), manner.options);
        opened.map_err(|error| told(format!("it does not open: {error}")))?;
    }
    if point.is_backup {
        let place = SimDisk::on(left.clone());
        let again = store.backup(&place);
        again.map_err(|error| told(format!("the next backup: {error}")))?;
        held(&place.state(), &[Some(newest.clone())])?;
    }
    Ok(())
}
