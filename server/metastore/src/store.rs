//! The open store: transactions, and reopening after a fault.
//!
//! After a fault, the file is closed and reopened by its path, at most once a second. So the store recovers as soon as
//! the fault is repaired, by the system or by the operator. Acknowledged changes are durable before that (CTL-07).

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::Duration;

use engine::Micros;
use engine::os::clock::{Clock, Random};
use redb::{Database, ReadableDatabase};
use serde::{Deserialize, Serialize};

use super::error::ControlError;
use super::far::{Elsewhere, Far};
use super::file::{Mark, OnDisk, Place, guarded};
use super::latest::Latest;
use super::record::Record;
use super::schema::{self, EXPIRIES, TABLE_NAMES, TableEntry};
use super::sealed::Seal;
use super::table::{Change, Health, Look, View};
use recalld_common::secret::Secret;
use recalld_common::turn::{Turn, Turns};

/// Version of the tables that this build writes and reads.
pub const VERSION: u32 = 1;

/// Minimum time between two attempts to open the file, in microseconds.
const REOPEN_MICROS: i64 = 1_000_000;
/// As [`REOPEN_MICROS`], if only one record is damaged: readers of the other records wait while the file is opened.
const REOPEN_RECORD_MICROS: i64 = 60_000_000;
/// Interval in which readers check the file for writes by other processes, in microseconds. Writers always check.
const LOOK_MICROS: i64 = 1_000_000;
const SECOND_MICROS: i64 = 1_000_000;

/// Maximum wait of a change behind another change that is being replicated.
const TURN_WAIT_MAX: Duration = Duration::from_secs(2);

pub(super) const VERSION_KEY: &[u8] = b"version";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Meta {
    version: u32,
    /// The clock watermark, in seconds since 1970.
    #[serde(default)]
    pub(super) latest: u64,
}

impl Record for Meta {
    const ENTRY: TableEntry = schema::META;
}

/// The metastore of a data directory. The operations are implemented in the sibling modules.
pub struct Control {
    place: Box<dyn Place>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    state: RwLock<State>,
    pub(super) latest: Latest,
    /// Change sink, if the store is replicated.
    pub(super) far: OnceLock<Arc<dyn Far>>,
    /// Client of the leader for operations that this node cannot perform.
    pub(super) elsewhere: OnceLock<Arc<dyn Elsewhere>>,
    /// Serializes changes, which may take long while they are replicated.
    pub(super) turns: Turns,
    /// Lower bound of the expiry of all clients without a sign-in: start of the search for a client to remove.
    pub(super) no_client_unused_before: AtomicU64,
}

struct State {
    open: Option<Arc<Open>>,
    /// Time of the last attempt to open the file; `None` before.
    tried_at: Option<Micros>,
    /// Reason for which the file is not open.
    why: ControlError,
    /// True after the first successful opening: from then on a missing file is a fault.
    was_open: bool,
}

/// The open database. Closed on drop; errors of redb are ignored.
struct Open {
    database: Option<Database>,
    seal: Seal,
    /// Locked by writers of the file.
    known: Mutex<Known>,
}

/// State of the file at the last change by this process.
struct Known {
    mark: Option<Mark>,
    looked_at: Micros,
}

impl State {
    fn open(&self) -> Result<&Arc<Open>, ControlError> {
        self.open.as_ref().ok_or_else(|| self.why.clone())
    }
}

impl Open {
    fn database(&self) -> &Database {
        self.database.as_ref().expect("it is taken where it is dropped, and nowhere else")
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Acknowledged changes are durable. If the close fails, the next opening takes longer.
        let closed = guarded(|| self.database.take().map_or(Ok(()), Database::close));
        drop(closed);
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &state.open
            && self.place.mark().is_ok_and(|found| found != open.known().mark)
        {
            open.seal.set();
        }
    }
}

impl Control {
    /// Opens the store at `path`, or creates a file readable by its owner only.
    ///
    /// # Errors
    /// As any operation's, if the file cannot be opened now; a store of [`Control::at`] retries.
    pub fn open(
        path: &Path,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self, ControlError> {
        let control = Self::at(path, clock, random);
        control.ready()?;
        Ok(control)
    }

    /// A store at `path` that is opened lazily by the first operation. So commands that do not use the store still run
    /// if the file is damaged.
    pub fn at(path: &Path, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Self {
        Self::of(Box::new(OnDisk(path.to_owned())), clock, random)
    }

    pub(super) fn of(
        place: Box<dyn Place>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        let why = ControlError::unavailable("it was not opened yet");
        let state = State { open: None, tried_at: None, why, was_open: false };
        let (state, no_client_unused_before) = (RwLock::new(state), AtomicU64::default());
        let latest = Latest::default();
        let (far, elsewhere, turns) = (OnceLock::new(), OnceLock::new(), Turns::default());
        Self { place, clock, random, state, latest, far, elsewhere, turns, no_client_unused_before }
    }

    /// Waits for the exclusive right to make a replicated change.
    ///
    /// # Errors
    /// A timeout behind another change.
    pub(super) fn turn(&self) -> Result<Turn<'_>, ControlError> {
        let why = "a change of the control store is on its way to other nodes; try again";
        self.turns.take_within(TURN_WAIT_MAX).ok_or_else(|| ControlError::far(why))
    }

    /// Returns true if the store exists. A missing store is created by the first change.
    pub fn exists(&self) -> bool {
        self.place.is_there()
    }

    /// Checks that operations are possible; opens the file if necessary.
    ///
    /// # Errors
    /// The reason for which operations are not possible.
    pub fn ready(&self) -> Result<(), ControlError> {
        self.read(|_| Ok(()))
    }

    /// The time, in whole seconds since 1970.
    pub fn now(&self) -> u64 {
        u64::try_from(self.clock.now().0 / SECOND_MICROS).unwrap_or(0)
    }

    pub(super) fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.random.fill(&mut bytes);
        bytes
    }

    /// Generates a secret with the prefix `start`.
    pub(super) fn secret(&self, start: &str) -> Secret {
        Secret::generate(start, &mut |bytes| self.random.fill(bytes))
    }

    /// Runs `act` on a snapshot, if the replica is fresh enough and the clock is not behind the watermark.
    pub(super) fn read<T, E: From<ControlError>>(
        &self,
        act: impl FnOnce(&View<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.far.get().map_or(Ok(()), |far| far.may_read())?;
        self.check_clock()?;
        self.look(act)
    }

    /// Runs `act` on a snapshot, however stale.
    pub(super) fn look<T, E: From<ControlError>>(
        &self,
        act: impl FnOnce(&View<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let health = Health::default();
        let state = self.ours(|open| {
            // A writer has the lock, and checks the file, too.
            let Ok(mut known) = open.known.try_lock() else { return Ok(true) };
            if !self.is_time(Some(known.looked_at), LOOK_MICROS) {
                return Ok(true);
            }
            known.looked_at = self.clock.now();
            Ok(self.place.mark()? == known.mark)
        })?;
        let done = state.open().and_then(|open| {
            let transaction = guarded(|| open.database().begin_read())?;
            Ok(act(&View { transaction: &transaction, health: &health }))
        });
        let tried_at = state.tried_at;
        drop(state);
        self.finish(tried_at, &health, done)?
    }

    /// Changes the store in one transaction, durable on return. If `act` fails, nothing changes.
    pub(super) fn write<T, E: From<ControlError>>(
        &self,
        act: impl FnOnce(&Change<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.check_clock()?;
        self.commit(act)
    }

    /// As [`Self::write`], without the check of the clock. If the store is replicated, the change set is durable for
    /// all nodes on return.
    fn commit<T, E: From<ControlError>>(
        &self,
        act: impl FnOnce(&Change<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let far = self.far.get();
        let _turn = match far {
            Some(far) => {
                far.may_write()?;
                Some(self.turn()?)
            }
            None => None,
        };
        let (latest, is_carried) = (Cell::new(None), Cell::new(false));
        let done = self.transact(act, |change| {
            latest.set(self.latest.due());
            if let Some(latest) = latest.get() {
                change.put(VERSION_KEY, &Meta { version: VERSION, latest })?;
            }
            let Some(far) = far else { return Ok(()) };
            let operations = change.recorded.as_ref().map(RefCell::take).unwrap_or_default();
            if operations.is_empty() {
                return Ok(());
            }
            let place = far.carry(&operations)?;
            is_carried.set(true);
            change.keep_place(&place)
        });
        match &done {
            Ok(_) => latest.get().into_iter().for_each(|latest| self.latest.read(latest)),
            // The other nodes receive the change set although the local commit failed.
            Err(_) if is_carried.get() => far.into_iter().for_each(|far| far.missed()),
            Err(_) => {}
        }
        done
    }

    /// Changes the file in one transaction, durable on return. `last` runs only if `act` succeeded.
    pub(super) fn transact<T, E: From<ControlError>>(
        &self,
        act: impl FnOnce(&Change<'_>) -> Result<T, E>,
        last: impl FnOnce(&Change<'_>) -> Result<(), ControlError>,
    ) -> Result<T, E> {
        let health = Health::default();
        let state = self.ours(|open| {
            let known = open.known();
            Ok(self.place.mark()? == known.mark)
        })?;
        let (open, tried_at) = (state.open().cloned(), state.tried_at);
        // A change that waits for its replication must not block others from reopening the file.
        let held = Some(state).filter(|_| self.far.get().is_none());
        let done = open.and_then(|open| {
            let mut known = open.known();
            let transaction = guarded(|| open.database().begin_write())?;
            let recorded = self.far.get().map(|_| RefCell::default());
            let change = Change { transaction: &transaction, health: &health, recorded };
            let done = act(&change);
            if let Some(why) = health.fault().filter(|_| done.is_ok()) {
                return Err(why);
            }
            if done.is_ok() {
                last(&change)?;
                guarded(|| transaction.commit())?;
            } else {
                // Nothing was changed, even if the abort fails.
                drop(guarded(|| transaction.abort()));
            }
            // The commit succeeded. If the file's state cannot be read, the next operation reopens the file.
            known.mark = self.place.mark().unwrap_or_default();
            Ok(done)
        });
        drop(held);
        self.finish(tried_at, &health, done)?
    }

    /// Checks the clock against the watermark: a clock that was set back stops reads and writes (CTL-09).
    fn check_clock(&self) -> Result<(), ControlError> {
        // Opening the file loads the recorded watermark.
        self.opened()?;
        self.latest.check(self.now())
    }

    /// Returns true if the watermark is due to be recorded, even without another change.
    pub(super) fn is_time_to_keep(&self) -> bool {
        self.latest.due().is_some()
    }

    /// Sets the watermark to the current time on the operator's authority, after the clock was wrong. Expired state
    /// becomes valid again if its expiry lies after the current time. Returns the previous watermark, in seconds since
    /// 1970.
    ///
    /// # Errors
    /// A store error; the watermark is then unchanged.
    pub fn accept_clock(&self) -> Result<u64, ControlError> {
        self.opened()?;
        let before = self.latest.accept(self.now());
        self.commit(|_| Ok::<(), ControlError>(())).map(|()| before).inspect_err(|_| {
            self.latest.accept(before);
        })
    }

    /// The open file, if still the file at the path and not written by another process, as far as `is_ours` checks.
    /// Otherwise reopens the file.
    fn ours(
        &self,
        is_ours: impl FnOnce(&Open) -> Result<bool, ControlError>,
    ) -> Result<RwLockReadGuard<'_, State>, ControlError> {
        self.opened()?;
        let state = self.shared();
        let found = is_ours(state.open()?);
        if found == Ok(true) {
            return Ok(state);
        }
        let tried_at = state.tried_at;
        drop(state);
        let other =
            || ControlError::unavailable("another file, or other bytes, were put in its place");
        self.close(tried_at, &found.err().unwrap_or_else(other));
        self.opened()?;
        Ok(self.shared())
    }

    /// Closes the file if an operation found a fault.
    fn finish<T>(
        &self,
        tried_at: Option<Micros>,
        health: &Health,
        done: Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        let fault = done.as_ref().err().cloned().or_else(|| health.fault());
        // While a change is being replicated the file is in use, and a single damaged record can wait.
        let is_time = |why: &ControlError| {
            why.is_of_file()
                || (why.is_of_record()
                    && self.is_time(tried_at, REOPEN_RECORD_MICROS)
                    && !self.turns.is_taken())
        };
        if let Some(why) = fault.filter(is_time) {
            self.close(tried_at, &why);
        }
        done
    }

    /// Opens the file if closed and the retry interval is over.
    fn opened(&self) -> Result<(), ControlError> {
        if self.shared().open.is_some() {
            return Ok(());
        }
        let mut state = self.exclusive();
        if state.open.is_none() && self.is_time(state.tried_at, REOPEN_MICROS) {
            state.tried_at = Some(self.clock.now());
            match self.open_now(!state.was_open) {
                Ok(open) => {
                    state.open = Some(Arc::new(open));
                    state.was_open = true;
                }
                Err(why) => state.why = why,
            }
        }
        state.open().map(|_| ())
    }

    fn shared(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if `micros` have passed since `since`, or the clock was set back.
    fn is_time(&self, since: Option<Micros>, micros: i64) -> bool {
        let now = self.clock.now();
        since.is_none_or(|since| now < since || now.0.saturating_sub(since.0) >= micros)
    }

    /// Closes the file opened at `tried_at`, unless already closed, and freezes its content.
    fn close(&self, tried_at: Option<Micros>, why: &ControlError) {
        let mut state = self.exclusive();
        if state.tried_at == tried_at {
            if let Some(open) = state.open.take() {
                open.seal.set();
            }
            state.why = why.clone();
        }
    }

    fn open_now(&self, may_make: bool) -> Result<Open, ControlError> {
        let (database, seal) = self.place.open(may_make)?;
        let known = Mutex::new(Known { mark: None, looked_at: self.clock.now() });
        let open = Open { database: Some(database), seal, known };
        let checked = Self::latest_in(open.database()).and_then(|latest| match latest {
            Some(latest) => {
                self.latest.read(latest);
                Ok(())
            }
            None => Self::make_tables(open.database()),
        });
        if let Err(why) = checked {
            open.seal.set();
            return Err(why);
        }
        open.known().mark = self.place.mark()?;
        Ok(open)
    }

    /// The recorded watermark; `None` for a new file. Fails if the version is not this build's.
    fn latest_in(database: &Database) -> Result<Option<u64>, ControlError> {
        let transaction = guarded(|| database.begin_read())?;
        let mut tables = guarded(|| transaction.list_tables())?;
        if tables.next().is_none() {
            return Ok(None);
        }
        let health = Health::default();
        let view = View { transaction: &transaction, health: &health };
        let meta: Option<Meta> = view.find(VERSION_KEY)?;
        let meta = meta.ok_or_else(|| ControlError::damaged(Meta::TABLE, "it has no version"))?;
        match meta.version {
            VERSION => Ok(Some(meta.latest)),
            0 => Err(ControlError::damaged(Meta::TABLE, "its version is 0")),
            found => Err(ControlError::TooNew { found, known: VERSION }),
        }
    }

    fn make_tables(database: &Database) -> Result<(), ControlError> {
        let transaction = guarded(|| database.begin_write())?;
        let health = Health::default();
        let change = Change { transaction: &transaction, health: &health, recorded: None };
        for (name, _) in TABLE_NAMES {
            change.make(name)?;
        }
        change.make(EXPIRIES)?;
        change.put(VERSION_KEY, &Meta { version: VERSION, latest: 0 })?;
        guarded(|| transaction.commit())
    }
}
