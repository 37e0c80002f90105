//! The thread that keeps the stores of tenants: it erases, compacts and indexes in one after another, and
//! closes those that nobody uses.
//!
//! Owns when that is done, and how much of the machine it may take: half of one core, as for the store of
//! `local`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::{Compacted, Indexed, Pace, Store, UPKEEP_CPU_PERCENT, WriteError};

use super::{Lease, Shared, Slot, State};
use crate::log::{self, Level, Value};

/// Work that is rested for at once, at the least.
const WORK_MIN: Duration = Duration::from_millis(10);

/// Works until all is over.
pub(super) fn run(shared: &Arc<Shared>) {
    while let Some(changed) = shared.wait_for_work() {
        for workspace in changed {
            if let Err(error) = keep(&workspace.store, &Share::begin(shared)) {
                let fields =
                    [("workspace", Value::Text(&workspace.name)), ("error", Value::Text(&error))];
                log::event(Level::Warn, "a store could not be kept; tried again", &fields);
                shared.try_later(&workspace.name);
            }
        }
        shared.close_idle(shared.bounds.idle_max);
    }
}

/// All that is to be done in a store now.
fn keep(store: &Store, pace: &Share<'_>) -> Result<(), WriteError> {
    store.erase_pending(pace)?;
    while let Compacted::Merged { .. } = store.compact(pace)? {}
    while let Indexed::Made { .. } = store.index(pace)? {}
    Ok(())
}

impl Shared {
    /// The workspaces that have changed, none after a pause; `None` when all is over.
    fn wait_for_work(self: &Arc<Self>) -> Option<Vec<Lease>> {
        let nothing = |state: &mut State| !state.is_over && !state.has_news();
        let waited = self.changed.wait_timeout_while(self.state(), self.bounds.pause, nothing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_over {
            return None;
        }
        let open = state.slots.values_mut().filter_map(|slot| match slot {
            Slot::Open(open) => Some(open),
            Slot::Moving => None,
        });
        let now = Instant::now();
        let changed = open.filter_map(|open| {
            let is_due = open.again_at.is_some_and(|at| now >= at);
            let is_wanted = open.has_news.swap(false, Ordering::AcqRel) || is_due;
            if is_wanted {
                open.again_at = None;
            }
            is_wanted.then_some(open)
        });
        let lease = |open: &mut super::Open| {
            open.users += 1;
            self.lease(Arc::clone(&open.workspace), false)
        };
        Some(changed.map(lease).collect())
    }

    /// Has a store looked at again after a pause, unless somebody changes it before.
    pub(super) fn try_later(&self, name: &str) {
        if let Some(Slot::Open(open)) = self.state().slots.get_mut(name) {
            open.again_at = Some(Instant::now() + self.bounds.pause);
        }
    }

    /// Waits; false when all is over.
    fn rest(&self, time: Duration) -> bool {
        let goes_on = |state: &mut State| !state.is_over;
        let waited = self.changed.wait_timeout_while(self.state(), time, goes_on);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }
}

impl State {
    fn has_news(&self) -> bool {
        let has = |slot: &Slot| match slot {
            Slot::Open(open) => open.has_news.load(Ordering::Acquire),
            Slot::Moving => false,
        };
        self.slots.values().any(has)
    }
}

/// Works for its share of the time and rests for the remainder, until all is over.
struct Share<'a> {
    shared: &'a Shared,
    /// When the work that was not rested for yet began.
    began: Mutex<Instant>,
}

impl<'a> Share<'a> {
    fn begin(shared: &'a Shared) -> Self {
        Self { shared, began: Mutex::new(Instant::now()) }
    }
}

impl Pace for Share<'_> {
    fn wrote(&self, _bytes: usize) -> bool {
        self.worked()
    }

    fn worked(&self) -> bool {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let worked = began.elapsed();
        let rest = worked * (100 - UPKEEP_CPU_PERCENT) / UPKEEP_CPU_PERCENT;
        let rest = if worked < WORK_MIN { Duration::ZERO } else { rest };
        let goes_on = self.shared.rest(rest);
        if !rest.is_zero() {
            *began = Instant::now();
        }
        goes_on
    }
}
