//! Background workers of a store: their threads, their schedule and their CPU share.
//!
//! The work consists of public calls: [`Store::seal`], [`Store::sync`], [`Store::compact`], [`Store::erase_pending`],
//! [`Store::build_next_index`]. Without background workers a store works too: the write that fills the tail then seals
//! it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::WriteError;
use crate::maintenance::compact::CompactionOutcome;
use crate::maintenance::index_build::IndexOutcome;
use crate::store::Store;
use crate::store::maintenance_queue::MaintenanceQueue;
use crate::throttle::Throttle;
use crate::wal::Durability;

/// Maximum share of one core for compaction, erasure and indexing together, in percent. Indexing pauses while a
/// compaction or erasure runs.
pub const BACKGROUND_CPU_PERCENT: u32 = 50;
/// Pause of compaction or indexing after an error or a lack of disk space.
pub const BACKGROUND_RETRY_PAUSE: Duration = Duration::from_secs(30);
/// Minimum work between two throttle pauses.
const WORK_SLICE_MIN: Duration = Duration::from_millis(10);

/// Background threads of a store; dropping this value ends and joins them.
#[derive(Debug)]
pub struct BackgroundWorkers {
    store: Arc<Store>,
    threads: Vec<JoinHandle<()>>,
}

impl BackgroundWorkers {
    /// Starts the background threads of `store`: one seals, one erases and compacts, and one builds indexes while the
    /// second is idle. If writes are not synced individually ([`Durability::Interval`]), a fourth thread syncs, so that
    /// a sync never waits for the other work. A [replica](Store::open_replica) needs no background work and gets no
    /// thread.
    pub fn start(store: Arc<Store>) -> std::io::Result<Self> {
        if store.is_replica() {
            return Ok(Self { store, threads: Vec::new() });
        }
        store.maintenance.attach_worker();
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

impl Drop for BackgroundWorkers {
    fn drop(&mut self) {
        self.store.maintenance.stop();
        for thread in self.threads.drain(..) {
            let _its_panic_is_on_stderr = thread.join();
        }
        self.store.maintenance.reset();
    }
}

/// Syncs at each interval until the writer stops; the next write then reports the reason.
fn sync_loop(store: &Store, interval: Duration) {
    while store.maintenance.sleep(interval) && store.stop_reason().is_none() {
        let _told_by_the_writer = store.sync();
    }
}

fn flush_loop(store: &Store) {
    let is_stopped = || store.stop_reason().is_some();
    flush_until(&store.maintenance, BACKGROUND_RETRY_PAUSE, || store.seal_if_full(), is_stopped);
}

/// Seals on every flush request until the writer has stopped. If a seal is rejected without stopping the writer, such
/// as one segment above the limit, it is retried after a pause. After any end of this function, a panic too, writes
/// that fill the tail seal it themselves.
fn flush_until(
    wanted: &MaintenanceQueue,
    pause: Duration,
    seal: impl Fn() -> Result<(), WriteError>,
    is_stopped: impl Fn() -> bool,
) {
    let _attended = FlushWorkerGuard(wanted);
    while wanted.wait_for_flush() {
        if seal().is_ok() {
            continue;
        }
        if is_stopped() {
            return;
        }
        wanted.sleep(pause);
        wanted.request_flush();
    }
}

/// Detaches the flush worker on drop, after a panic too.
struct FlushWorkerGuard<'a>(&'a MaintenanceQueue);

impl Drop for FlushWorkerGuard<'_> {
    fn drop(&mut self) {
        self.0.detach_worker();
    }
}

fn rewrite_loop(store: &Store) {
    let pace =
        CpuShareThrottle { queue: &store.maintenance, work_began: Mutex::new(Instant::now()) };
    while store.maintenance.wait_for_rewrite() {
        pace.restart_clock();
        let done = rewrite_round(store, &pace);
        if let Some(RoundOutcome::Progress) = done {
            store.maintenance.request_rewrite();
        }
        store.maintenance.finish_rewrite();
        match done {
            Some(_) => {}
            None if store.stop_reason().is_some() => return,
            None => {
                store.maintenance.pause_after_error(BACKGROUND_RETRY_PAUSE);
                store.maintenance.request_rewrite();
            }
        }
    }
}

/// Builds one index after another, on a thread of its own: an index can take minutes and must not delay an erasure.
fn index_loop(store: &Store) {
    let pace =
        CpuShareThrottle { queue: &store.maintenance, work_began: Mutex::new(Instant::now()) };
    let pace = YieldingThrottle { throttle: pace };
    while store.maintenance.wait_for_index() {
        pace.throttle.restart_clock();
        match store.build_next_index(&pace) {
            Ok(IndexOutcome::Built { .. } | IndexOutcome::Cancelled) => {
                store.maintenance.request_index()
            }
            Ok(IndexOutcome::NothingToDo) => {}
            Ok(IndexOutcome::NoRoom { .. }) | Err(_) => {
                if store.stop_reason().is_some() {
                    return;
                }
                store.maintenance.sleep(BACKGROUND_RETRY_PAUSE);
                store.maintenance.request_index();
            }
        }
    }
}

/// Result of one round of erasure and compaction.
enum RoundOutcome {
    /// A run was merged, so another run may be due.
    Progress,
    Idle,
}

/// Erases, then compacts. Returns `None` after an error or a lack of disk space.
fn rewrite_round(store: &Store, pace: &dyn Throttle) -> Option<RoundOutcome> {
    let erased = store.erase_pending(pace);
    let compacted = store.compact(pace);
    match (erased.ok()?, compacted.ok()?) {
        (_, CompactionOutcome::Merged { .. }) => Some(RoundOutcome::Progress),
        (_, CompactionOutcome::NoRoom { .. }) => None,
        (_, CompactionOutcome::NothingToDo | CompactionOutcome::Cancelled) => {
            Some(RoundOutcome::Idle)
        }
    }
}

/// Throttle that works at most [`BACKGROUND_CPU_PERCENT`] of the time.
struct CpuShareThrottle<'a> {
    queue: &'a MaintenanceQueue,
    /// Start of the work since the last pause.
    work_began: Mutex<Instant>,
}

impl CpuShareThrottle<'_> {
    fn work_began(&self) -> MutexGuard<'_, Instant> {
        self.work_began.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn restart_clock(&self) {
        *self.work_began() = Instant::now();
    }
}

/// Returns the pause due after `worked`. The pause needs no upper bound, as a stop request ends it at once.
fn rest_after(worked: Duration) -> Duration {
    worked * (100 - BACKGROUND_CPU_PERCENT) / BACKGROUND_CPU_PERCENT
}

impl Throttle for CpuShareThrottle<'_> {
    fn after_write(&self, _bytes: usize) -> bool {
        self.after_work()
    }

    fn after_work(&self) -> bool {
        let worked = self.work_began().elapsed();
        if worked < WORK_SLICE_MIN {
            return !self.queue.is_stopped();
        }
        let goes_on = self.queue.sleep(rest_after(worked));
        self.restart_clock();
        goes_on
    }
}

/// Throttle like [`CpuShareThrottle`] that also pauses while a compaction or an erasure runs. An index of a segment
/// that is being rewritten would be wasted; an index of another segment resumes where it paused.
struct YieldingThrottle<'a> {
    throttle: CpuShareThrottle<'a>,
}

impl Throttle for YieldingThrottle<'_> {
    fn after_write(&self, _bytes: usize) -> bool {
        self.after_work()
    }

    fn after_work(&self) -> bool {
        let goes_on = self.throttle.after_work();
        if self.throttle.queue.is_rewrite_idle() {
            return goes_on;
        }
        let goes_on = goes_on && self.throttle.queue.wait_for_rewrite_idle();
        // The wait is no work, so no throttle pause is due for it.
        self.throttle.restart_clock();
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn wanted() -> MaintenanceQueue {
        let wanted = MaintenanceQueue::default();
        wanted.attach_worker();
        assert!(wanted.request_flush(), "somebody is there");
        wanted
    }

    #[test]
    fn flush_loop_retries_failed_seals_and_ends_with_the_writer() {
        let (wanted, tries) = (wanted(), Cell::new(0));
        let seal = || {
            tries.set(tries.get() + 1);
            Err(WriteError::refused("segments", "there are too many"))
        };
        flush_until(&wanted, Duration::ZERO, seal, || tries.get() == 3);
        assert_eq!(tries.get(), 3);
        assert!(!wanted.request_flush(), "nobody is there any more");
    }

    #[test]
    fn writes_seal_the_tail_after_the_flush_worker_panicked() {
        let wanted = wanted();
        let panics = || flush_until(&wanted, Duration::ZERO, || panic!("in a seal"), || false);
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(!wanted.request_flush(), "nobody is there any more");
    }

    #[test]
    fn cpu_share_throttle_sleeps_in_proportion_to_work() {
        for millis in [0, 10, 100, 1_000, 60_000] {
            let worked = Duration::from_millis(millis);
            let all = worked + rest_after(worked);
            assert_eq!(all * BACKGROUND_CPU_PERCENT / 100, worked, "{millis} ms");
        }
    }
}
