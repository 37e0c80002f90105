//! Open tenant workspaces: opened on first use, bounded in number, closed when idle.
//!
//! Opens, closes and maintains the stores of tenants, except for `local`, which is always open. Does not decide who may
//! use a workspace.

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

use engine::BACKGROUND_RETRY_PAUSE;

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

/// The open workspaces of tenants.
pub struct Tenants {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

/// Limits on open workspaces and on waiting calls.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum open workspaces.
    pub open_max: usize,
    /// Maximum wait of a call for a workspace to open, or for a free slot.
    pub wait_max: Duration,
    /// Time after which an unused workspace is closed.
    pub idle_max: Duration,
    /// Maximum calls of one workspace that wait up to `wait_max`.
    pub waiters_max: usize,
    /// Maximum wait of further calls.
    pub crowd_wait_max: Duration,
    /// Interval of the search for idle workspaces, and delay before failed maintenance of a store is retried.
    pub pause: Duration,
    /// Maximum concurrent calls that open or close workspaces on a remote, or wait up to `wait_max` for one; at most
    /// half of them may wait.
    pub turns_max: usize,
}

impl Bounds {
    /// Limits for a server with `workers` workers.
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
            pause: BACKGROUND_RETRY_PAUSE,
            turns_max: OPENINGS_MIN,
        }
    }
}

struct Shared {
    door: Door,
    bounds: Bounds,
    state: Mutex<State>,
    /// Signalled when a store is opened, closed, released or changed, and at shutdown.
    changed: Condvar,
    on_news: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct State {
    slots: HashMap<String, Slot>,
    /// Number of calls that wait for a slot or for the end of a use, by workspace name.
    waiting: HashMap<String, usize>,
    turns: Turns,
    is_over: bool,
}

/// Permits of calls that open or close workspaces on a remote, or wait the full time for one.
#[derive(Default)]
struct Turns {
    all: usize,
    /// Permits acquired for waiting. Their number is bounded, so that a slow workspace leaves permits for others.
    waiting: usize,
}

/// A permit; released on drop.
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
    /// A thread opens or closes the workspace.
    Moving,
    Open(Open),
}

struct Open {
    workspace: Arc<Workspace>,
    users: usize,
    /// Time when the last user released the workspace.
    idle_since: Instant,
    /// True if a call on behalf of the tenant has used the workspace.
    was_used: bool,
    /// True if the store has changed since its last maintenance.
    has_news: Arc<AtomicBool>,
    /// Time to retry failed maintenance.
    again_at: Option<Instant>,
    opened_at: Instant,
}

/// Minimum time that a store without write access stays open before the next call reopens it.
const STOPPED_MIN: Duration = Duration::from_secs(1);

impl Open {
    /// Returns true if the workspace must be reopened: the workspace is unused, and its writer stopped at a fault that
    /// may be over, or its role must change.
    fn is_spent(&self, seats: Option<&Seats>) -> bool {
        let is_over = || seats.is_some_and(|seats| seats.wants_change(&self.workspace.name));
        self.users == 0
            && self.opened_at.elapsed() >= STOPPED_MIN
            && (self.workspace.store.stop_reason().is_some() || is_over())
    }
}

/// Error of opening a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closed {
    /// The workspace has no data on this node.
    Missing,
    /// All slots are in use, or the workspace is still being opened or closed.
    Busy,
    /// The workspace could not be opened. The reason is for the log only, because it may name files that callers must
    /// not learn.
    Failed(String),
}

impl Closed {
    /// Full reason, for the log.
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

/// Lease of an open workspace, which stays open until the drop.
pub struct Lease {
    /// `Some` until the lease is dropped.
    workspace: Option<Arc<Workspace>>,
    shared: Arc<Shared>,
    /// True for use by a caller. Maintenance does not extend the time that a workspace stays open.
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
            // Drop this handle before the workspace counts as unused. The thread that closes the workspace then has the
            // last handle, and after the close its files are unused.
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
    /// Starts the maintenance thread; workspaces are opened by `door`.
    ///
    /// # Errors
    /// Returns an error if the system cannot create a thread.
    pub fn start(door: Door, bounds: Bounds) -> std::io::Result<Self> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { door, bounds, state, changed, on_news: OnceLock::new() });
        let theirs = Arc::clone(&shared);
        let keeper =
            thread::Builder::new().name("tenants".to_owned()).spawn(move || keep::run(&theirs))?;
        Ok(Self { shared, keeper: Some(keeper) })
    }

    /// Registers `tell` to be called after each commit of a tenant store, on the committing thread. `tell` must be
    /// quick and must not block. Only the first registration is effective.
    pub fn tell_of_news(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _the_first_stays = self.shared.on_news.set(Box::new(tell));
    }

    /// Opens a workspace for a caller, or returns the open one.
    ///
    /// # Errors
    /// Returns an error if the workspace does not exist, all slots are in use, or the workspace fails to open.
    pub fn open(&self, name: &str) -> Result<Lease, Closed> {
        self.open_as(name, true)
    }

    /// Opens a workspace for maintenance, which does not extend the time that the workspace stays open. Among unused
    /// workspaces, those opened only for maintenance are closed first.
    ///
    /// # Errors
    /// Returns the errors of [`Tenants::open`].
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

    /// Returns a workspace if it is open.
    pub fn if_open(&self, name: &str) -> Option<Lease> {
        self.shared.if_open(name)
    }

    /// Creates the folders of a new workspace.
    ///
    /// # Errors
    /// Returns an error if the folders exist or the system refuses.
    pub fn make(&self, name: &str) -> std::io::Result<()> {
        self.shared.door.make(name)
    }

    /// Number of slots that are open, opening or closing.
    pub fn count(&self) -> usize {
        self.shared.state().slots.len()
    }

    /// Closes workspaces unused for at least `for_at_least`, and those never used by a caller; returns their number.
    pub fn close_idle(&self, for_at_least: Duration) -> usize {
        self.shared.close_idle(for_at_least)
    }

    /// Closes a workspace that is to be removed, once it is unused. The caller must ensure that no new call of the
    /// workspace begins meanwhile.
    ///
    /// # Errors
    /// Returns an error if the workspace is still in use after `wait_max`.
    pub fn close(&self, name: &str) -> Result<(), Closed> {
        self.close_for(name, Ending::Kept)
    }

    /// Closes a deleted workspace for good: data not uploaded to the remote by now stays local.
    ///
    /// # Errors
    /// Returns the errors of [`Tenants::close`].
    pub fn close_deleted(&self, name: &str) -> Result<(), Closed> {
        self.close_for(name, Ending::Deleted)
    }

    fn close_for(&self, name: &str, ending: Ending) -> Result<(), Closed> {
        let give_up = Instant::now() + self.shared.bounds.wait_max;
        let mut turn = None;
        let mut state = self.shared.state();
        loop {
            // Even without a slot, the workspace may still have a replica on the remote to close.
            let is_unused =
                matches!(state.slots.get(name), Some(Slot::Open(Open { users: 0, .. })) | None);
            if is_unused && self.shared.has_turn(&mut state, &mut turn, false) {
                drop(self.shared.close(state, name, ending));
                return Ok(());
            }
            state = self.shared.wait(state, name, give_up)?;
        }
    }

    /// Closes unused workspaces that must be reopened, because their writer stopped or their lease can now be acquired.
    /// The next call opens such a workspace again.
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

    /// Lease of a workspace; the caller must have incremented `users`.
    fn lease(self: &Arc<Self>, workspace: Arc<Workspace>, is_use: bool) -> Lease {
        Lease { workspace: Some(workspace), shared: Arc::clone(self), is_use }
    }

    fn if_open(self: &Arc<Self>, name: &str) -> Option<Lease> {
        let mut state = self.state();
        let Some(Slot::Open(open)) = state.slots.get_mut(name) else { return None };
        open.users += 1;
        Some(self.lease(Arc::clone(&open.workspace), false))
    }

    /// Waits for a change, at most until `give_up`.
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

    /// Acquires a permit to open or close a workspace, or, with `waits`, to wait the full time for one; false if none
    /// is free.
    ///
    /// Permits are bounded only for workspaces on a remote. If the remote does not respond, workers remain free for
    /// open workspaces; if one workspace is slow, permits remain free for others.
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

    /// Opens a workspace without a slot, for one user.
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
        workspace.store.on_commit(self.news(&has_news));
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

    /// Callback for the commits of a store.
    fn news(self: &Arc<Self>, has_news: &Arc<AtomicBool>) -> impl Fn() + Send + Sync + 'static {
        let (has_news, shared) = (Arc::clone(has_news), Arc::downgrade(self));
        move || {
            let Some(shared) = shared.upgrade() else { return };
            // Only the first change needs to wake the maintenance thread.
            if !has_news.swap(true, Ordering::AcqRel) {
                shared.changed.notify_all();
            }
            if let Some(tell) = shared.on_news.get() {
                tell();
            }
        }
    }

    /// Closes an unused workspace and its replica on the remote.
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
                && !open.workspace.store.is_replica()
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

/// Ends the opening or closing of a slot on drop, also after a panic, so that the next call can retry.
struct Moving<'a> {
    shared: &'a Shared,
    name: &'a str,
    /// New content of the slot; `None` removes the slot.
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
