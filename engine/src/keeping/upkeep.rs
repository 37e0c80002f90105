//! Upkeep: what a store needs done in the background, and the threads that do it.
//!
//! Owns when things are done and how much of the machine they may take; what is done are calls
//! anyone can make: [`Store::seal`], [`Store::sync`], [`Store::compact`], [`Store::erase_pending`],
//! [`Store::index`].
//! A store without upkeep works too: a full tail is then sealed by the write that filled it.

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

/// Share of one core that compaction, erasure and indexing take together at most, in percent: the last
/// one waits while the others have something to do.
pub const UPKEEP_CPU_PERCENT: u32 = 50;
/// How long compaction or indexing rests after an error or for want of room.
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
    /// Begins to keep `store`: one thread seals, one erases and compacts, one makes indexes while that one
    /// has nothing to do, and where writes are not synced one by one a fourth one syncs, which so never
    /// waits for the work of the others. A store that [follows](Store::follow) has nothing to do, and no
    /// thread.
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

/// Syncs at each interval until the writer stops: the next write then says why.
fn sync_loop(store: &Store, interval: Duration) {
    while store.wanted.rest(interval) && store.stopped().is_none() {
        let _told_by_the_writer = store.sync();
    }
}

fn flush_loop(store: &Store) {
    let is_stopped = || store.stopped().is_some();
    flush_until(&store.wanted, UPKEEP_PAUSE, || store.seal_if_full(), is_stopped);
}

/// Seals whenever it is wanted, until the writer has stopped. What is refused without stopping it,
/// such as one segment more than there may be, is tried again after a pause. However this ends, the
/// writes that fill the tail seal it themselves from then on.
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

/// Tells that nobody seals any more, after a panic too.
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

/// Makes one index after another. What takes minutes so keeps no erasure waiting.
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

/// What one round of rewriting did.
enum Done {
    /// There may be more of it.
    Something,
    Nothing,
}

/// Erases, then compacts. `None` where either met an error, or no room.
fn rewrite(store: &Store, pace: &dyn Pace) -> Option<Done> {
    let erased = store.erase_pending(pace);
    let compacted = store.compact(pace);
    match (erased.ok()?, compacted.ok()?) {
        (_, Compacted::Merged { .. }) => Some(Done::Something),
        (_, Compacted::NoRoom { .. }) => None,
        (_, Compacted::Nothing | Compacted::Cancelled) => Some(Done::Nothing),
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

/// The same, and stands still while anybody compacts or erases: an index of a segment that is taken then
/// would be for nothing, and one of another goes on where it stood.
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
        // Standing still is no work that is rested for.
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
