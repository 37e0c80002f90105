//! Background workers of a store: their threads, their schedule and their CPU share.
//!
//! The work consists of public calls: [`Store::seal`], [`Store::sync`], [`Store::compact`], [`Store::erase_pending`],
//! [`Store::index`]. Without background workers a store works too: the write that fills the tail then seals it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::WriteError;
use crate::keeping::compact::Compacted;
use crate::keeping::indexing::Indexed;
use crate::log::Durability;
use crate::pace::Pace;
use crate::store::Store;
use crate::store::wanted::Wanted;

/// Maximum share of one core for compaction, erasure and indexing together, in percent. Indexing pauses while a
/// compaction or erasure runs.
pub const UPKEEP_CPU_PERCENT: u32 = 50;
/// Pause of compaction or indexing after an error or a lack of disk space.
pub const UPKEEP_PAUSE: Duration = Duration::from_secs(30);
/// Minimum work between two throttle pauses.
const WORK_MIN: Duration = Duration::from_millis(10);

/// Background threads of a store; dropping this value ends and joins them.
#[derive(Debug)]
pub struct Upkeep {
    store: Arc<Store>,
    threads: Vec<JoinHandle<()>>,
}

impl Upkeep {
    /// Starts the background threads of `store`: one seals, one erases and compacts, and one builds indexes while the
    /// second is idle. If writes are not synced individually ([`Durability::Interval`]), a fourth thread syncs, so that
    /// a sync never waits for the other work. A [replica](Store::follow) needs no background work and gets no thread.
    pub fn start(store: Arc<Store>) -> std::io::Result<Self> {
        if store.follows() {
            return Ok(Self { store, threads: Vec::new() });
        }
        store.wanted.attend();
        let interval = match store.options.durability {
            Durability::Interval(interval) => Some(interval),
            Durability::Sync => None,
        };
        let mut upkeep = Self { store, threads: Vec::new() };
        upkeep.spawn("store-flush", flush_loop)?;
        upkeep.spawn("store-compact", rewrite_loop)?;
        upkeep.spawn("store-index", index_loop)?;
        if let Some(interval) = interval {
            upkeep.spawn("store-sync", move |store| sync_loop(store, interval))?;
        }
        Ok(upkeep)
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce(&Store) + Send + 'static,
    ) -> std::io::Result<()> {
        let store = Arc::clone(&self.store);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(&store));
        self.threads.push(thread?);
        Ok(())
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

/// Syncs at each interval until the writer stops; the next write then reports the reason.
fn sync_loop(store: &Store, interval: Duration) {
    while store.wanted.rest(interval) && store.stopped().is_none() {
        let _told_by_the_writer = store.sync();
    }
}

fn flush_loop(store: &Store) {
    let is_stopped = || store.stopped().is_some();
    flush_until(&store.wanted, UPKEEP_PAUSE, || store.seal_if_full(), is_stopped);
}

/// Seals on every flush request until the writer has stopped. If a seal is rejected without stopping the writer, such
/// as one segment above the limit, it is retried after a pause. After any end of this function, a panic too, writes
/// that fill the tail seal it themselves.
fn flush_until(
    wanted: &Wanted,
    pause: Duration,
    seal: impl Fn() -> Result<(), WriteError>,
    is_stopped: impl Fn() -> bool,
) {
    let _attended = Attended(wanted);
    while wanted.wait_for_flush() {
        if seal().is_ok() {
            continue;
        }
        if is_stopped() {
            return;
        }
        wanted.rest(pause);
        wanted.ask_for_flush();
    }
}

/// Detaches the flush worker on drop, after a panic too.
struct Attended<'a>(&'a Wanted);

impl Drop for Attended<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

fn rewrite_loop(store: &Store) {
    let pace = Shared { wanted: &store.wanted, began: Mutex::new(Instant::now()) };
    while store.wanted.wait_for_change() {
        pace.begin();
        let done = rewrite(store, &pace);
        if let Some(Done::Something) = done {
            store.wanted.note_change();
        }
        store.wanted.note_rewritten();
        match done {
            Some(_) => {}
            None if store.stopped().is_some() => return,
            None => {
                store.wanted.pause(UPKEEP_PAUSE);
                store.wanted.note_change();
            }
        }
    }
}

/// Builds one index after another, on a thread of its own: an index can take minutes and must not delay an erasure.
fn index_loop(store: &Store) {
    let pace = Shared { wanted: &store.wanted, began: Mutex::new(Instant::now()) };
    let pace = Yielding { pace };
    while store.wanted.wait_for_index() {
        pace.pace.begin();
        match store.index(&pace) {
            Ok(Indexed::Made { .. } | Indexed::Cancelled) => store.wanted.note_index(),
            Ok(Indexed::Nothing) => {}
            Ok(Indexed::NoRoom { .. }) | Err(_) => {
                if store.stopped().is_some() {
                    return;
                }
                store.wanted.rest(UPKEEP_PAUSE);
                store.wanted.note_index();
            }
        }
    }
}

/// Result of one round of erasure and compaction.
enum Done {
    /// A run was merged, so another run may be due.
    Something,
    Nothing,
}

/// Erases, then compacts. Returns `None` after an error or a lack of disk space.
fn rewrite(store: &Store, pace: &dyn Pace) -> Option<Done> {
    let erased = store.erase_pending(pace);
    let compacted = store.compact(pace);
    match (erased.ok()?, compacted.ok()?) {
        (_, Compacted::Merged { .. }) => Some(Done::Something),
        (_, Compacted::NoRoom { .. }) => None,
        (_, Compacted::Nothing | Compacted::Cancelled) => Some(Done::Nothing),
    }
}

/// Throttle that works at most [`UPKEEP_CPU_PERCENT`] of the time.
struct Shared<'a> {
    wanted: &'a Wanted,
    /// Start of the work since the last pause.
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

/// Returns the pause due after `worked`. The pause needs no upper bound, as a stop request ends it at once.
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

/// Throttle like [`Shared`] that also pauses while a compaction or an erasure runs. An index of a segment that is being
/// rewritten would be wasted; an index of another segment resumes where it paused.
struct Yielding<'a> {
    pace: Shared<'a>,
}

impl Pace for Yielding<'_> {
    fn wrote(&self, _bytes: usize) -> bool {
        self.worked()
    }

    fn worked(&self) -> bool {
        let goes_on = self.pace.worked();
        if self.pace.wanted.is_at_rest() {
            return goes_on;
        }
        let goes_on = goes_on && self.pace.wanted.wait_for_rest();
        // The wait is no work, so no throttle pause is due for it.
        self.pace.begin();
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn wanted() -> Wanted {
        let wanted = Wanted::default();
        wanted.attend();
        assert!(wanted.ask_for_flush(), "somebody is there");
        wanted
    }

    #[test]
    fn a_refused_seal_is_tried_again_and_a_stopped_writer_ends_it() {
        let (wanted, tries) = (wanted(), Cell::new(0));
        let seal = || {
            tries.set(tries.get() + 1);
            Err(WriteError::refused("segments", "there are too many"))
        };
        flush_until(&wanted, Duration::ZERO, seal, || tries.get() == 3);
        assert_eq!(tries.get(), 3);
        assert!(!wanted.ask_for_flush(), "nobody is there any more");
    }

    #[test]
    fn a_seal_that_panics_leaves_the_sealing_to_the_writes() {
        let wanted = wanted();
        let panics = || flush_until(&wanted, Duration::ZERO, || panic!("in a seal"), || false);
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(!wanted.ask_for_flush(), "nobody is there any more");
    }

    #[test]
    fn upkeep_rests_for_its_share_of_all_that_it_worked() {
        for millis in [0, 10, 100, 1_000, 60_000] {
            let worked = Duration::from_millis(millis);
            let all = worked + rest_after(worked);
            assert_eq!(all * UPKEEP_CPU_PERCENT / 100, worked, "{millis} ms");
        }
    }
}
