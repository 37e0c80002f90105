//! Maintenance thread of tenant stores: erases, compacts and indexes one store after another, and closes idle stores.
//!
//! Throttled to half of one core, as for the store of `local`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::{
    BACKGROUND_CPU_PERCENT, CompactionOutcome, IndexOutcome, Store, Throttle, WriteError,
};

use super::{Shared, Slot, State};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// Minimum work time before the thread pauses for it.
const WORK_MIN: Duration = Duration::from_millis(10);

/// Runs until shutdown.
pub(super) fn run(shared: &Arc<Shared>) {
    while let Some(changed) = shared.wait_for_work() {
        for name in changed {
            // Opens one workspace at a time, so that a workspace waiting for maintenance can be closed.
            let Some(workspace) = shared.if_open(&name) else { continue };
            let kept =
                catch_unwind(AssertUnwindSafe(|| keep(&workspace.store, &Share::begin(shared))));
            let Ok(kept) = kept else {
                let fields = [("workspace", Value::Text(&workspace.name))];
                log::event(Level::Error, "the upkeep of a store panicked", &fields);
                shared.try_later(&workspace.name);
                continue;
            };
            if let Err(error) = kept {
                let fields =
                    [("workspace", Value::Text(&workspace.name)), ("error", Value::Text(&error))];
                log::event(Level::Warn, "a store could not be kept; tried again", &fields);
                shared.try_later(&workspace.name);
            }
        }
        shared.close_idle(shared.bounds.idle_max);
    }
}

/// Runs all due maintenance of a store.
fn keep(store: &Store, pace: &Share<'_>) -> Result<(), WriteError> {
    store.erase_pending(pace)?;
    while let CompactionOutcome::Merged { .. } = store.compact(pace)? {}
    while let IndexOutcome::Built { .. } = store.build_next_index(pace)? {}
    Ok(())
}

impl Shared {
    /// Names of the changed workspaces, empty after a pause without changes; `None` at shutdown.
    fn wait_for_work(&self) -> Option<Vec<String>> {
        let nothing = |state: &mut State| !state.is_over && !state.has_news();
        let waited = self.changed.wait_timeout_while(self.state(), self.bounds.pause, nothing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_over {
            return None;
        }
        let now = Instant::now();
        let is_wanted = |slot: &mut Slot| {
            let Slot::Open(open) = slot else { return false };
            let is_due = open.again_at.take_if(|at| now >= *at).is_some();
            let is_wanted = open.has_news.swap(false, Ordering::AcqRel) || is_due;
            if is_wanted {
                open.again_at = None;
            }
            is_wanted
        };
        let wanted =
            state.slots.iter_mut().filter_map(|(name, slot)| is_wanted(slot).then(|| name.clone()));
        Some(wanted.collect())
    }

    /// Schedules a retry of the maintenance after a pause; a change triggers it earlier.
    pub(super) fn try_later(&self, name: &str) {
        if let Some(Slot::Open(open)) = self.state().slots.get_mut(name) {
            open.again_at = Some(Instant::now() + self.bounds.pause);
        }
    }

    /// Sleeps for `time`; returns false at shutdown.
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

/// Pace that works for a share of the time, pauses for the rest, and stops at shutdown.
struct Share<'a> {
    shared: &'a Shared,
    /// Start of the work that has not been paused for yet.
    began: Mutex<Instant>,
}

impl<'a> Share<'a> {
    fn begin(shared: &'a Shared) -> Self {
        Self { shared, began: Mutex::new(Instant::now()) }
    }
}

impl Throttle for Share<'_> {
    fn after_write(&self, _bytes: usize) -> bool {
        self.after_work()
    }

    fn after_work(&self) -> bool {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let worked = began.elapsed();
        let rest = worked * (100 - BACKGROUND_CPU_PERCENT) / BACKGROUND_CPU_PERCENT;
        let rest = if worked < WORK_MIN { Duration::ZERO } else { rest };
        let goes_on = self.shared.rest(rest);
        if !rest.is_zero() {
            *began = Instant::now();
        }
        goes_on
    }
}
