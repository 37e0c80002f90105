//! The simulated disk: the engine's [`Disk`] over a [`DiskState`], with one fault at one operation.
//!
//! This module counts operations, injects the fault, and records the states that power cuts start from; the effects of
//! a cut are in [`super::state`].

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::DiskError;
use engine::os::disk::{Disk, DiskFile, DiskLock, DiskRead, FileBytes};
use rustix::io::Errno;

use super::state::DiskState;
use crate::ground::Dice;

/// Fault of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// EIO without an effect.
    Refused,
    /// EIO after the full effect.
    DoneButRefused,
    /// An append that writes some of its bytes and then fails with EIO.
    ShortWrite,
    /// The disk is full from this operation on: an append writes the bytes that fit, and operations that create files
    /// or need space fail.
    Full,
    /// A sync that fails once: reads still see the written bytes, later syncs succeed, and some of the bytes never
    /// reach the disk (ext4 and XFS mark the pages clean).
    SyncForgets,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 5] =
        [Self::Refused, Self::DoneButRefused, Self::ShortWrite, Self::Full, Self::SyncForgets];
}

/// A simulated disk as seen by one process. Clones share it.
#[derive(Debug, Clone)]
pub struct SimDisk {
    shared: Arc<Mutex<Shared>>,
    meanwhile: Arc<Mutex<Meanwhile>>,
    /// True for the view of another process, which is excluded from faults.
    is_beside: bool,
}

/// Work that runs once in the middle of a job: when the first piece of its segment is written.
#[derive(Default)]
struct Meanwhile(Option<Box<dyn FnOnce() + Send>>);

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", if self.0.is_some() { "something" } else { "nothing" })
    }
}

#[derive(Debug)]
struct Shared {
    state: DiskState,
    /// Number of operations so far, reads included.
    operations: u64,
    fault: Option<(u64, Fault)>,
    has_failed: bool,
    dice: Dice,
    /// The state before the first operation, and after each changing operation.
    states: Vec<DiskState>,
    is_locked: bool,
    is_dead: bool,
}

/// Kind of an operation, as far as faults distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Sync,
    /// A change of names, or of a length.
    Other,
}

/// Injected outcome of an operation.
enum Turn {
    Works,
    Fails(Fault),
}

impl Fault {
    fn is_of(self, kind: Kind) -> bool {
        match self {
            Self::Refused => true,
            Self::DoneButRefused => kind != Kind::Read,
            Self::ShortWrite => kind == Kind::Write,
            Self::Full => kind == Kind::Write || kind == Kind::Other,
            Self::SyncForgets => kind == Kind::Sync,
        }
    }
}

impl SimDisk {
    /// Makes a new process's view of a disk in this state.
    pub fn on(state: DiskState) -> Self {
        Self::failing(state, None, 0)
    }

    /// Makes a disk with a fault at the first applicable operation from a number on, counted from 0; the seed decides
    /// how much of the operation takes effect.
    pub fn failing(state: DiskState, fault: Option<(u64, Fault)>, seed: u64) -> Self {
        let states = vec![state.clone()];
        let shared = Shared {
            state,
            operations: 0,
            fault,
            has_failed: false,
            dice: Dice::new(seed),
            states,
            is_locked: false,
            is_dead: false,
        };
        Self { shared: Arc::new(Mutex::new(shared)), meanwhile: Arc::default(), is_beside: false }
    }

    /// Returns the view of another process, whose reads are not counted and do not fail.
    pub fn beside(&self) -> Self {
        Self { is_beside: true, ..self.clone() }
    }

    /// Sets the work for the middle of the next job, or clears it.
    pub fn meanwhile(&self, act: Option<Box<dyn FnOnce() + Send>>) {
        self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner).0 = act;
    }

    /// Calls [`DiskState::wipe`].
    pub fn wipe(&self) {
        self.held().state.wipe();
    }

    /// The current state.
    pub fn state(&self) -> DiskState {
        self.held().state.clone()
    }

    /// The state before the first operation, and after each changing operation, without the first `seen` of these.
    pub fn states_from(&self, seen: usize) -> Vec<DiskState> {
        self.held().states[seen..].to_vec()
    }

    /// Number of states so far.
    pub fn states_count(&self) -> usize {
        self.held().states.len()
    }

    /// Number of operations so far.
    pub fn operations(&self) -> u64 {
        self.held().operations
    }

    /// Returns true if the fault has occurred.
    pub fn has_failed(&self) -> bool {
        self.held().has_failed
    }

    /// Kills the process: its later operations have no effect.
    pub fn kill(&self) -> DiskState {
        let mut shared = self.held();
        shared.is_dead = true;
        shared.state.clone()
    }

    fn held(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a read operation.
    fn look<T>(
        &self,
        action: &'static str,
        name: &str,
        read: impl FnOnce(&DiskState) -> Result<T, io::Error>,
    ) -> Result<T, DiskError> {
        let mut shared = self.held();
        if self.is_beside {
            return read(&shared.state).map_err(error(action, name));
        }
        let turn = shared.turn(Kind::Read).and_then(|turn| match turn {
            Turn::Fails(_) => Err(Errno::IO.into()),
            Turn::Works => Ok(()),
        });
        turn.and_then(|()| read(&shared.state)).map_err(error(action, name))
    }

    /// Runs a changing operation.
    fn change<T>(
        &self,
        (kind, action): (Kind, &'static str),
        name: &str,
        change: impl FnOnce(&mut Shared, Turn) -> Result<T, io::Error>,
    ) -> Result<T, DiskError> {
        let mut shared = self.held();
        let done = shared.turn(kind).and_then(|turn| {
            let done = change(&mut shared, turn);
            let state = shared.state.clone();
            shared.states.push(state);
            done
        });
        done.map_err(error(action, name))
    }
}

impl Shared {
    fn turn(&mut self, kind: Kind) -> Result<Turn, io::Error> {
        if self.is_dead {
            return Err(io::Error::other("the process is dead"));
        }
        let now = self.operations;
        self.operations += 1;
        let Some((at, fault)) = self.fault else { return Ok(Turn::Works) };
        if now < at || !fault.is_of(kind) {
            return Ok(Turn::Works);
        }
        self.has_failed = true;
        if fault != Fault::Full {
            self.fault = None;
        }
        Ok(Turn::Fails(fault))
    }

    /// Runs a changing operation that needs no space.
    fn without_room<T>(
        &mut self,
        turn: Turn,
        change: impl FnOnce(&mut Self) -> T,
    ) -> Result<T, io::Error> {
        match turn {
            Turn::Works | Turn::Fails(Fault::Full) => Ok(change(self)),
            Turn::Fails(Fault::DoneButRefused) => {
                change(self);
                Err(Errno::IO.into())
            }
            Turn::Fails(_) => Err(Errno::IO.into()),
        }
    }

    /// Runs a changing operation that needs space.
    fn with_room<T>(
        &mut self,
        turn: Turn,
        change: impl FnOnce(&mut Self) -> T,
    ) -> Result<T, io::Error> {
        match turn {
            Turn::Fails(Fault::Full) => Err(Errno::NOSPC.into()),
            turn => self.without_room(turn, change),
        }
    }

    fn sync(&mut self, turn: Turn, file: u64) -> Result<(), io::Error> {
        if matches!(turn, Turn::Fails(Fault::SyncForgets)) {
            self.state.forget(file, &mut self.dice);
            return Err(Errno::IO.into());
        }
        self.without_room(turn, |shared| shared.state.sync(file))
    }

    fn found(&self, name: &str) -> Result<u64, io::Error> {
        self.state.file(name).ok_or_else(|| Errno::NOENT.into())
    }
}

fn error(action: &'static str, name: &str) -> impl FnOnce(io::Error) -> DiskError {
    move |source| DiskError { action, name: name.to_owned(), source }
}

#[derive(Debug)]
struct SimLock(SimDisk);

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.held().is_locked = false;
    }
}

/// A file that one process is writing; it stays the same file when renamed.
#[derive(Debug)]
struct SimHandle {
    disk: SimDisk,
    name: String,
    file: u64,
    /// Bytes appended so far; the file may be longer.
    end: Mutex<usize>,
}

impl DiskFile for SimHandle {
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        self.disk.change((Kind::Write, "write"), &self.name, |shared, turn| {
            if let Turn::Fails(fault @ (Fault::ShortWrite | Fault::Full)) = turn {
                let written = shared.dice.index(bytes.len() + 1);
                shared.state.write(self.file, *end, &bytes[..written]);
                let why = if fault == Fault::Full { Errno::NOSPC } else { Errno::IO };
                return Err(why.into());
            }
            shared.with_room(turn, |shared| shared.state.write(self.file, *end, bytes))
        })?;
        *end += bytes.len();
        if self.name.starts_with("segment-") {
            let act = self.disk.meanwhile.lock().unwrap_or_else(PoisonError::into_inner).0.take();
            act.into_iter().for_each(|act| act());
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.disk
            .change((Kind::Sync, "sync"), &self.name, |shared, turn| shared.sync(turn, self.file))
    }

    fn reserve(&self, bytes: u64) -> Result<(), DiskError> {
        let bytes = usize::try_from(bytes).expect("a test's files fit into memory");
        self.disk.change((Kind::Other, "reserve"), &self.name, |shared, turn| {
            shared.with_room(turn, |shared| shared.state.reserve(self.file, bytes))
        })
    }
}

/// A file that is read while it may grow, and after its name is removed. Its reads do not count as operations; its
/// opening did.
#[derive(Debug)]
struct SimRead {
    disk: SimDisk,
    name: String,
    file: u64,
}

impl DiskRead for SimRead {
    fn bytes(&self) -> u64 {
        self.disk.held().state.bytes_of(self.file).len() as u64
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let shared = self.disk.held();
        let from = usize::try_from(at).ok();
        let found =
            from.and_then(|at| shared.state.bytes_of(self.file).get(at..)?.get(..into.len()));
        let short = || error("read", &self.name)(io::ErrorKind::UnexpectedEof.into());
        into.copy_from_slice(found.ok_or_else(short)?);
        Ok(())
    }
}

impl Disk for SimDisk {
    fn lock(&self) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        let taken = std::mem::replace(&mut self.held().is_locked, true);
        Ok((!taken).then(|| Box::new(SimLock(self.clone())) as Box<dyn DiskLock>))
    }

    fn names(&self) -> Result<Vec<String>, DiskError> {
        self.look("list", "the directory", |state| Ok(state.names().map(str::to_owned).collect()))
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let file = self.change((Kind::Other, "create"), name, |shared, turn| {
            if shared.state.file(name).is_some() {
                return Err(Errno::EXIST.into());
            }
            shared.with_room(turn, |shared| shared.state.create(name))
        })?;
        let name = name.to_owned();
        Ok(Box::new(SimHandle { disk: self.clone(), name, file, end: Mutex::default() }))
    }

    fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, DiskError> {
        self.look("read", name, |state| match state.bytes(name) {
            None => Err(Errno::NOENT.into()),
            Some(bytes) if bytes.len() as u64 > bytes_max => Err(Errno::FBIG.into()),
            Some(bytes) => Ok(bytes.to_vec()),
        })
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskRead>, DiskError> {
        let file =
            self.look("open", name, |state| state.file(name).ok_or_else(|| Errno::NOENT.into()))?;
        Ok(Box::new(SimRead { disk: self.clone(), name: name.to_owned(), file }))
    }

    fn map(&self, name: &str) -> Result<FileBytes, DiskError> {
        self.look("open", name, |state| {
            state.bytes(name).map(FileBytes::copy_from).ok_or_else(|| Errno::NOENT.into())
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.change((Kind::Other, "rename"), from, |shared, turn| {
            let file = shared.found(from)?;
            shared.without_room(turn, |shared| shared.state.rename(from, to, file))
        })
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.change((Kind::Other, "remove"), name, |shared, turn| {
            let file = shared.found(name)?;
            shared.without_room(turn, |shared| shared.state.remove(name, file))
        })
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        self.change((Kind::Sync, "sync"), "the directory", |shared, turn| {
            shared.without_room(turn, |shared| shared.state.sync_names())
        })
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        Ok(u64::MAX)
    }
}
