//! Which workspaces are open: each when somebody needs it, so many at a time, and no longer than that.
//!
//! Owns opening, closing and upkeep of the stores of tenants. `local` is not among them: it is open all the
//! time. Must not know who may use a workspace.

pub mod anchoring;
mod door;
mod keep;

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use engine::UPKEEP_PAUSE;

pub use anchoring::anchoring;
pub use door::Door;
pub use door::make_folders;

use crate::limits::{
    OPEN_CROWD_WAIT_MAX, OPEN_STORES_MAX, OPEN_WAITERS_MAX, OPENINGS_MIN, STORE_IDLE_MAX,
};
use crate::workspace::Workspace;
use recalld_cluster::limits::OPEN_WAIT_MAX;
use recalld_cluster::seats::{Ending, Seats};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// The workspaces of tenants, as far as they are open.
pub struct Tenants {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

/// How many workspaces are open, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Open at a time.
    pub open_max: usize,
    /// How long a call waits for one to be opened, or for a place.
    pub wait_max: Duration,
    /// How long one stays open that nobody uses.
    pub idle_max: Duration,
    /// How many calls of one workspace wait so long.
    pub waiters_max: usize,
    /// How long those wait that come when so many wait already.
    pub crowd_wait_max: Duration,
    /// How long upkeep waits before it looks again for what is idle, and at a store that it could not keep.
    pub pause: Duration,
    /// How many calls open or close workspaces that are on a remote, or wait for `wait_max` for that; half of them may
    /// be waiting.
    pub turns_max: usize,
}

impl Bounds {
    /// Of a server with so many workers.
    pub fn of_workers(workers: usize) -> Self {
        Self { turns_max: (workers / 2).max(OPENINGS_MIN), ..Self::default() }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            open_max: OPEN_STORES_MAX,
            wait_max: OPEN_WAIT_MAX,
            idle_max: STORE_IDLE_MAX,
            waiters_max: OPEN_WAITERS_MAX,
            crowd_wait_max: OPEN_CROWD_WAIT_MAX,
            pause: UPKEEP_PAUSE,
            turns_max: OPENINGS_MIN,
        }
    }
}

struct Shared {
    door: Door,
    bounds: Bounds,
    state: Mutex<State>,
    /// A store was opened or closed, is used no more, has news, or all is over.
    changed: Condvar,
    on_news: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct State {
    slots: HashMap<String, Slot>,
    /// How many wait for a slot to become free, or for one to be no longer in use; by the workspace they wait for.
    waiting: HashMap<String, usize>,
    turns: Turns,
    is_over: bool,
}

/// How many calls open or close workspaces that are on a remote, or wait so long for that.
#[derive(Default)]
struct Turns {
    all: usize,
    /// Those that began as ones that wait: a workspace that takes long leaves turns to the others.
    waiting: usize,
}

/// That a call may do so.
struct Turn<'a> {
    shared: &'a Shared,
    waits: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.turns.all -= 1;
        state.turns.waiting -= usize::from(self.waits);
        drop(state);
        self.shared.changed.notify_all();
    }
}

enum Slot {
    /// Somebody opens or closes it.
    Moving,
    Open(Open),
}

struct Open {
    workspace: Arc<Workspace>,
    users: usize,
    /// When the last user left.
    idle_since: Instant,
    /// Whether any of its users were callers of its own.
    was_used: bool,
    /// Whether it has changed since upkeep looked at it last.
    has_news: Arc<AtomicBool>,
    /// When upkeep is to look at it again, where it could not keep it.
    again_at: Option<Instant>,
    opened_at: Instant,
}

/// How long a store that takes no writes stays open before it is opened anew for the next call.
const STOPPED_MIN: Duration = Duration::from_secs(1);

impl Open {
    /// Whether it is to be opened anew: its writer stopped at a fault, which may be over, and nobody uses it.
    fn is_spent(&self, seats: Option<&Seats>) -> bool {
        let is_over = || seats.is_some_and(|seats| seats.wants_change(&self.workspace.name));
        self.users == 0
            && self.opened_at.elapsed() >= STOPPED_MIN
            && (self.workspace.store.stopped().is_some() || is_over())
    }
}

/// Why a workspace is not open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closed {
    /// It has no data here.
    Missing,
    /// As many are in use as may be open, or it is still being opened or closed.
    Busy,
    /// It could not be opened, for this reason, which the log has: it may name files, which are nothing for
    /// callers.
    Failed(String),
}

impl Closed {
    /// The reason, for the log.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Failed(why) => why.clone(),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the workspace has no data here"),
            Self::Busy => f.write_str("too many workspaces are in use; try again"),
            Self::Failed(_) => {
                f.write_str("the workspace cannot be opened; the server's log says why")
            }
        }
    }
}

impl std::error::Error for Closed {}

/// A workspace that stays open while this is there.
pub struct Lease {
    /// There until the lease ends.
    workspace: Option<Arc<Workspace>>,
    shared: Arc<Shared>,
    /// Whether somebody asked for it: upkeep keeps nothing open for longer.
    is_use: bool,
}

impl Deref for Lease {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        self.workspace.as_ref().expect("a lease has its workspace until it is dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(workspace) = self.workspace.take() else { return };
        let mut state = self.shared.state();
        if let Some(Slot::Open(open)) = state.slots.get_mut(&workspace.name) {
            // Before it counts as unused: whoever closes it then holds the last handle, and once it is closed its
            // files are nobody's.
            drop(workspace);
            open.users -= 1;
            if self.is_use {
                open.idle_since = Instant::now();
                open.was_used = true;
            }
            if open.users == 0 && !state.waiting.is_empty() {
                self.shared.changed.notify_all();
            }
        }
    }
}

impl Tenants {
    /// Opens workspaces by `door`; a thread of its own keeps those that are open.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(door: Door, bounds: Bounds) -> std::io::Result<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { door, bounds, state, changed, on_news: OnceLock::new() });
        let theirs = Arc::clone(&shared);
        let keeper =
            thread::Builder::new().name("tenants".to_owned()).spawn(move || keep::run(&theirs))?;
        Ok(Self { shared, keeper: Some(keeper) })
    }

    /// Has `tell` called whenever one of them has changed, by the thread that changed it: it must be quick and
    /// wait for nothing. The first stays.
    pub fn tell_of_news(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _the_first_stays = self.shared.on_news.set(Box::new(tell));
    }

    /// A workspace, opened if it is not.
    ///
    /// # Errors
    /// It is not there, too many others are in use, or it does not open.
    pub fn open(&self, name: &str) -> Result<Lease, Closed> {
        self.open_as(name, true)
    }

    /// The same, for what its own callers have no part in: it keeps no workspace open, and of those that nobody uses
    /// the ones that were opened for this alone are closed first.
    ///
    /// # Errors
    /// As for [`Tenants::open`].
    pub fn visit(&self, name: &str) -> Result<Lease, Closed> {
        self.open_as(name, false)
    }

    fn open_as(&self, name: &str, is_use: bool) -> Result<Lease, Closed> {
        let lease = |workspace| self.shared.lease(workspace, is_use);
        let mut give_up = None;
        let mut turn = None;
        let mut state = self.shared.state();
        loop {
            let is_full = state.slots.len() >= self.shared.bounds.open_max;
            match state.slots.get_mut(name) {
                Some(Slot::Open(open)) if open.is_spent(self.shared.door.seats.as_deref()) => {
                    if self.shared.has_turn(&mut state, &mut turn, false) {
                        state = self.shared.close(state, name, Ending::Kept);
                        continue;
                    }
                }
                Some(Slot::Open(open)) => {
                    open.users += 1;
                    return Ok(lease(Arc::clone(&open.workspace)));
                }
                Some(Slot::Moving) => {}
                None if !is_full => {
                    if self.shared.has_turn(&mut state, &mut turn, false) {
                        return self.shared.open_here(state, name).map(lease);
                    }
                }
                None => {
                    if let Some(idle) = state.longest_idle()
                        && self.shared.has_turn(&mut state, &mut turn, false)
                    {
                        state = self.shared.close(state, &idle, Ending::Kept);
                        continue;
                    }
                }
            }
            let bounds = &self.shared.bounds;
            let waiting = state.waiting.get(name).copied().unwrap_or_default();
            let is_crowd =
                waiting >= bounds.waiters_max || !self.shared.has_turn(&mut state, &mut turn, true);
            let longest = if is_crowd { bounds.crowd_wait_max } else { bounds.wait_max };
            let give_up = *give_up.get_or_insert_with(|| Instant::now() + longest);
            state = self.shared.wait(state, name, give_up)?;
        }
    }

    /// A workspace, if it is open.
    pub fn if_open(&self, name: &str) -> Option<Lease> {
        self.shared.if_open(name)
    }

    /// Makes the folders of a workspace that has none.
    ///
    /// # Errors
    /// They are there, or the system refuses.
    pub fn make(&self, name: &str) -> std::io::Result<()> {
        self.shared.door.make(name)
    }

    /// How many are open, or about to be.
    pub fn count(&self) -> usize {
        self.shared.state().slots.len()
    }

    /// Closes what nobody has used for so long or at all, and gives how many that were.
    pub fn close_idle(&self, for_at_least: Duration) -> usize {
        self.shared.close_idle(for_at_least)
    }

    /// Closes a workspace that is to be removed, once nobody uses it: no call of it begins meanwhile, if
    /// whoever asks has seen to that.
    ///
    /// # Errors
    /// It is still in use after a time.
    pub fn close(&self, name: &str) -> Result<(), Closed> {
        self.close_for(name, Ending::Kept)
    }

    /// The same, where nobody is to open it again: what it did not send to a remote by now stays here.
    ///
    /// # Errors
    /// As for [`Tenants::close`].
    pub fn close_deleted(&self, name: &str) -> Result<(), Closed> {
        self.close_for(name, Ending::Deleted)
    }

    fn close_for(&self, name: &str, ending: Ending) -> Result<(), Closed> {
        let give_up = Instant::now() + self.shared.bounds.wait_max;
        let mut turn = None;
        let mut state = self.shared.state();
        loop {
            // Of one that has no slot a place may be left on a remote.
            let is_unused =
                matches!(state.slots.get(name), Some(Slot::Open(Open { users: 0, .. })) | None);
            if is_unused && self.shared.has_turn(&mut state, &mut turn, false) {
                drop(self.shared.close(state, name, ending));
                return Ok(());
            }
            state = self.shared.wait(state, name, give_up)?;
        }
    }

    /// Closes those that nobody uses and that are to be opened anew, since their writer stopped, or since they can be
    /// had for writing by now: whoever asks next opens them.
    pub fn close_spent(&self, goes_on: &dyn Fn() -> bool) {
        let mut state = self.shared.state();
        while goes_on()
            && let Some(name) = state.spent(self.shared.door.seats.as_deref())
        {
            state = self.shared.close(state, &name, Ending::Kept);
        }
    }
}

impl Drop for Tenants {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.changed.notify_all();
        if let Some(keeper) = self.keeper.take() {
            let _its_panic_is_on_stderr = keeper.join();
        }
        self.close_idle(Duration::ZERO);
    }
}

impl State {
    fn spent(&self, seats: Option<&Seats>) -> Option<String> {
        let mut slots = self.slots.iter();
        let is_spent = |slot: &Slot| matches!(slot, Slot::Open(open) if open.is_spent(seats));
        slots.find(|(_, slot)| is_spent(slot)).map(|(name, _)| name.clone())
    }

    fn longest_idle(&self) -> Option<String> {
        let idle = self.slots.iter().filter_map(|(name, slot)| match slot {
            Slot::Open(open) if open.users == 0 => Some(((open.was_used, open.idle_since), name)),
            _ => None,
        });
        idle.min().map(|(_, name)| name.clone())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lease of a workspace whose users have been counted.
    fn lease(self: &Arc<Self>, workspace: Arc<Workspace>, is_use: bool) -> Lease {
        Lease { workspace: Some(workspace), shared: Arc::clone(self), is_use }
    }

    fn if_open(self: &Arc<Self>, name: &str) -> Option<Lease> {
        let mut state = self.state();
        let Some(Slot::Open(open)) = state.slots.get_mut(name) else { return None };
        open.users += 1;
        Some(self.lease(Arc::clone(&open.workspace), false))
    }

    /// Waits for a change until then.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        name: &str,
        give_up: Instant,
    ) -> Result<MutexGuard<'a, State>, Closed> {
        let left = give_up.saturating_duration_since(Instant::now());
        if left.is_zero() || state.is_over {
            return Err(Closed::Busy);
        }
        *state.waiting.entry(name.to_owned()).or_default() += 1;
        let waited = self.changed.wait_timeout(state, left);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if let Some(waiting) = state.waiting.get_mut(name) {
            *waiting -= 1;
            if *waiting == 0 {
                state.waiting.remove(name);
            }
        }
        Ok(state)
    }

    /// Whether a call may open or close a workspace, or, with `waits`, wait for that as long as it takes. Where that
    /// hangs on a remote, only so many may at a time: one that does not answer leaves workers to the workspaces that
    /// are open, and one workspace that takes long leaves turns to others.
    fn has_turn<'a>(&'a self, state: &mut State, turn: &mut Option<Turn<'a>>, waits: bool) -> bool {
        if self.door.seats.is_none() || turn.is_some() {
            return true;
        }
        let (turns, most) = (&mut state.turns, self.bounds.turns_max);
        let is_free = turns.all < most && !(waits && turns.waiting >= most / 2);
        if is_free {
            turns.all += 1;
            turns.waiting += usize::from(waits);
            *turn = Some(Turn { shared: self, waits });
        }
        is_free
    }

    /// Opens a workspace that has no slot, for one user.
    fn open_here(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        name: &str,
    ) -> Result<Arc<Workspace>, Closed> {
        state.slots.insert(name.to_owned(), Slot::Moving);
        drop(state);
        let mut moving = Moving { shared: self, name, into: None };
        let workspace = Arc::new(self.door.open(name).inspect_err(|why| say(name, why))?);
        let has_news = Arc::new(AtomicBool::new(true));
        workspace.store.tell_of_news(self.news(&has_news));
        let opened_at = Instant::now();
        moving.into = Some(Open {
            workspace: Arc::clone(&workspace),
            users: 1,
            idle_since: opened_at,
            was_used: false,
            has_news,
            again_at: None,
            opened_at,
        });
        Ok(workspace)
    }

    /// What a store tells its changes.
    fn news(self: &Arc<Self>, has_news: &Arc<AtomicBool>) -> impl Fn() + Send + Sync + 'static {
        let (has_news, shared) = (Arc::clone(has_news), Arc::downgrade(self));
        move || {
            let Some(shared) = shared.upgrade() else { return };
            // Whoever is not the first need not wake the keeper.
            if !has_news.swap(true, Ordering::AcqRel) {
                shared.changed.notify_all();
            }
            if let Some(tell) = shared.on_news.get() {
                tell();
            }
        }
    }

    /// Closes a workspace that nobody uses, with its place on a remote.
    fn close<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        name: &str,
        ending: Ending,
    ) -> MutexGuard<'a, State> {
        let slot = state.slots.insert(name.to_owned(), Slot::Moving);
        drop(state);
        let moving = Moving { shared: self, name, into: None };
        let seats = self.door.seats.as_ref();
        if let Some(Slot::Open(open)) = slot {
            if let Some(seats) = seats {
                seats.end_following(name);
            }
            if ending == Ending::Kept
                && !open.workspace.store.follows()
                && let Err(error) = open.workspace.store.seal()
            {
                let fields = [("workspace", Value::Text(&name)), ("error", Value::Text(&error))];
                log::event(Level::Warn, "a store was closed with an unsealed tail", &fields);
            }
            drop(open);
        }
        if let Some(seats) = seats {
            seats.close(name, ending);
        }
        drop(moving);
        self.state()
    }

    fn close_idle(&self, for_at_least: Duration) -> usize {
        let mut closed = 0;
        let mut state = self.state();
        while let Some(name) = state.longest_idle() {
            if let Some(Slot::Open(open)) = state.slots.get(&name)
                && open.was_used
                && open.idle_since.elapsed() < for_at_least
            {
                break;
            }
            state = self.close(state, &name, Ending::Kept);
            closed += 1;
        }
        closed
    }
}

fn say(name: &str, why: &Closed) {
    if let Closed::Failed(why) = why {
        let fields = [("workspace", Value::Text(&name)), ("why", Value::Text(why))];
        log::event(Level::Error, "a workspace could not be opened", &fields);
    }
}

/// Ends the opening or closing of a slot when it is dropped, after a panic too: the next one who asks then
/// tries anew.
struct Moving<'a> {
    shared: &'a Shared,
    name: &'a str,
    /// What the slot becomes; without it, it goes.
    into: Option<Open>,
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        match self.into.take() {
            Some(open) => drop(state.slots.insert(self.name.to_owned(), Slot::Open(open))),
            None => drop(state.slots.remove(self.name)),
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}
