//! Upkeep: what a store needs done in the background, and the threads that do it.
//!
//! Owns when things are done and how much of the machine they may take; what is done are calls
//! anyone can make: [`Store::seal`], [`Store::sync`], [`Store::compact`], [`Store::erase_pending`].
//! A store without upkeep works too: a full tail is then sealed by the write that filled it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::compact::Compacted;
use crate::log::Durability;
use crate::pace::Pace;
use crate::store::Store;
use crate::wanted::Wanted;

/// Share of one core that compaction and erasure take at most, in percent.
pub const UPKEEP_CPU_PERCENT: u32 = 50;
/// How long compaction rests after an error or for want of room.
pub const UPKEEP_PAUSE: Duration = Duration::from_secs(30);
/// Work that is rested for at once, at the least.
const WORK_MIN: Duration = Duration::from_millis(10);

/// The threads that keep a store; they end when this is dropped.
#[derive(Debug)]
pub struct Upkeep {
    store: Arc<Store>,
    threads: Vec<JoinHandle<()>>,
}

impl Upkeep {
    /// Begins to keep `store`: one thread seals and syncs, one compacts and erases.
    pub fn start(store: Arc<Store>) -> std::io::Result<Self> {
        store.wanted.attend();
        let mut upkeep = Self { store, threads: Vec::new() };
        for (name, work) in
            [("store-flush", flush_loop as fn(&Store)), ("store-compact", rewrite_loop)]
        {
            let store = Arc::clone(&upkeep.store);
            let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(&store));
            upkeep.threads.push(thread?);
        }
        Ok(upkeep)
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.store.wanted.stop();
        for thread in self.threads.drain(..) {
            let _its_panic_is_on_stderr = thread.join();
        }
        self.store.wanted.forget();
    }
}

/// Errors here stop the writer, and the next write says why.
fn flush_loop(store: &Store) {
    let interval = match store.options.durability {
        Durability::Interval(interval) => Some(interval),
        Durability::Sync => None,
    };
    while store.wanted.wait_for_flush(interval) {
        if interval.is_some() && store.sync().is_err() {
            return;
        }
        if store.seal_if_full().is_err() {
            return;
        }
    }
}

fn rewrite_loop(store: &Store) {
    let pace = Shared { wanted: &store.wanted, began: Mutex::new(Instant::now()) };
    while store.wanted.wait_for_change() {
        pace.begin();
        let erased = store.erase_pending(&pace);
        let compacted = store.compact(&pace);
        match (erased, compacted) {
            (Ok(_), Ok(Compacted::Merged { .. })) => store.wanted.note_change(),
            (Ok(_), Ok(Compacted::Nothing | Compacted::Cancelled)) => {}
            _ if store.stopped().is_some() => return,
            _ => {
                store.wanted.rest(UPKEEP_PAUSE);
                store.wanted.note_change();
            }
        }
    }
}

/// Works at most [`UPKEEP_CPU_PERCENT`] of the time and rests for the remainder.
struct Shared<'a> {
    wanted: &'a Wanted,
    /// When the work that was not rested for yet began.
    began: Mutex<Instant>,
}

impl Shared<'_> {
    fn began(&self) -> MutexGuard<'_, Instant> {
        self.began.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        *self.began() = Instant::now();
    }
}

/// How long to rest after working for so long. However long that was: a rest hears a stop at once.
fn rest_after(worked: Duration) -> Duration {
    worked * (100 - UPKEEP_CPU_PERCENT) / UPKEEP_CPU_PERCENT
}

impl Pace for Shared<'_> {
    fn wrote(&self, _bytes: usize) -> bool {
        self.worked()
    }

    fn worked(&self) -> bool {
        let worked = self.began().elapsed();
        if worked < WORK_MIN {
            return !self.wanted.is_stopped();
        }
        let goes_on = self.wanted.rest(rest_after(worked));
        self.begin();
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upkeep_rests_for_its_share_of_all_that_it_worked() {
        for millis in [0, 10, 100, 1_000, 60_000] {
            let worked = Duration::from_millis(millis);
            let all = worked + rest_after(worked);
            assert_eq!(all * UPKEEP_CPU_PERCENT / 100, worked, "{millis} ms");
        }
    }
}
