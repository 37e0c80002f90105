//! A fork-join pool: the threads of one job, a forward pass or a search. A job is divided into chunks, and each idle
//! thread runs the next one.
//!
//! This module defines the threads and how they wait. Every thread runs its own range of the chunks first and in order,
//! so that the data of consecutive jobs tends to be in its caches; then it helps the other threads.
//!
//! A pass has some tens of jobs of some ten microseconds each, too short to wake a thread for. So an idle helper spins
//! for a while ([`LOOKS_MAX`]) before it parks. No thread waits for a helper that is parked or late: the caller runs
//! chunks too, and waits only for chunks that others have begun.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Most threads of one pass.
    pub const THREADS_MAX: usize = 16;
    /// Spins of an idle helper before it parks: some tens of microseconds.
    const LOOKS_MAX: usize = 2_000;
    /// Spins of the caller, waiting for helpers to finish, between two yields.
    const LOOKS_BEFORE_YIELD: usize = 2_000;
}

/// A job: a function that runs chunk `.0` with the memory of thread `.1`.
pub type Work<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// Threads that work together on the jobs of one caller. A pool of one thread spawns none.
pub struct Team {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

struct Shared {
    /// The job in progress; helpers read it only while `inside` counts them.
    work: UnsafeCell<Option<*const Work<'static>>>,
    chunks: AtomicUsize,
    /// Ranges of the chunks, one per thread.
    ranges: Vec<Range>,
    is_open: AtomicBool,
    /// Helpers that may be reading `work`.
    inside: AtomicUsize,
    sleepers: AtomicUsize,
    has_failed: AtomicBool,
    is_over: AtomicBool,
}

/// The number of chunks taken from a thread's own range. A cache line each.
#[derive(Default)]
#[repr(align(64))]
struct Range {
    taken: AtomicUsize,
}

// SAFETY: the caller writes `work` while `is_open` is false and `inside` is zero; helpers read `work` after they have
// raised `inside` and then seen `is_open`. Both are sequentially consistent, so no write meets a read. The pointee of
// `work` is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is dereferenced only while `run` borrows the job that it points to.
unsafe impl Send for Shared {}

impl Team {
    /// Starts a pool of `threads` threads, the caller's own included; at least one, at most [`THREADS_MAX`]. If the
    /// system refuses more threads, the pool has those that started.
    pub fn of(threads: usize) -> Team {
        let shared = Arc::new(Shared {
            work: UnsafeCell::new(None),
            chunks: AtomicUsize::new(0),
            ranges: (0..threads.clamp(1, THREADS_MAX)).map(|_| Range::default()).collect(),
            is_open: AtomicBool::new(false),
            inside: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            has_failed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let helper = |index| {
            let shared = Arc::clone(&shared);
            let name = format!("helper-{index}");
            thread::Builder::new().name(name).spawn(move || help(&shared, index)).ok()
        };
        let helpers = (1..shared.ranges.len()).map_while(helper).collect();
        Team { shared, helpers }
    }

    /// Number of threads, the caller's included.
    pub fn threads(&self) -> usize {
        self.shared.ranges.len()
    }

    /// Runs `work` once for every chunk below `chunks`, on any of the threads, and returns when all are done. The
    /// second argument is the thread's index, below [`Team::threads`].
    ///
    /// # Panics
    /// `work` panicked on any thread.
    pub fn run(&mut self, chunks: usize, work: &Work<'_>) {
        if self.helpers.is_empty() || chunks < 2 {
            for chunk in 0..chunks {
                work(chunk, 0);
            }
            return;
        }
        let shared = &*self.shared;
        let pointer = std::ptr::from_ref(work);
        // SAFETY: only the lifetime changes. `Round` below does not let this function end, not even by a panic, before
        // every helper has released the job.
        let pointer =
            unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(pointer) };
        // SAFETY: no round is open and no helper is inside: the end of the last round made sure.
        unsafe { *shared.work.get() = Some(pointer) };
        shared.chunks.store(chunks, Ordering::Relaxed);
        shared.ranges.iter().for_each(|range| range.taken.store(0, Ordering::Relaxed));
        shared.is_open.store(true, Ordering::SeqCst);
        let round = Round { shared };
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            self.helpers.iter().for_each(|helper| helper.thread().unpark());
        }
        shared.take_chunks(work, 0);
        drop(round);
        let has_failed = shared.has_failed.swap(false, Ordering::SeqCst);
        assert!(!has_failed, "a thread of the team has panicked");
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            let _its_panic_was_reported_by_run = helper.join();
        }
    }
}

/// An open round; dropping it waits until no helper is inside.
struct Round<'a> {
    shared: &'a Shared,
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.shared.is_open.store(false, Ordering::SeqCst);
        let mut looks = 0;
        while self.shared.inside.load(Ordering::SeqCst) > 0 {
            looks += 1;
            if looks % LOOKS_BEFORE_YIELD == 0 {
                thread::yield_now()
            } else {
                std::hint::spin_loop()
            }
        }
    }
}

impl Shared {
    fn take_chunks(&self, work: &Work<'_>, thread: usize) {
        let (chunks, threads) = (self.chunks.load(Ordering::Relaxed), self.ranges.len());
        for of in (0..threads).map(|i| (thread + i) % threads) {
            let (start, end) =
                (first_chunk(of, chunks, threads), first_chunk(of + 1, chunks, threads));
            loop {
                // The count is read before it is raised, so that late threads do not write to its cache line.
                let taken = &self.ranges[of].taken;
                if taken.load(Ordering::Relaxed) >= end - start {
                    break;
                }
                let chunk = start + taken.fetch_add(1, Ordering::Relaxed);
                if chunk >= end {
                    break;
                }
                work(chunk, thread);
            }
        }
    }

    /// Returns true if the last round has a chunk that no thread has taken.
    fn has_chunks(&self) -> bool {
        let (chunks, threads) = (self.chunks.load(Ordering::Relaxed), self.ranges.len());
        self.ranges.iter().enumerate().any(|(of, range)| {
            let count = first_chunk(of + 1, chunks, threads) - first_chunk(of, chunks, threads);
            range.taken.load(Ordering::Relaxed) < count
        })
    }

    /// Helps with the open round, if there is one with chunks left; returns true if it had.
    fn help_once(&self, thread: usize) -> bool {
        if !self.is_open.load(Ordering::Relaxed) || !self.has_chunks() {
            return false;
        }
        self.inside.fetch_add(1, Ordering::SeqCst);
        if self.is_open.load(Ordering::SeqCst) {
            // SAFETY: the round was open after `inside` was raised, so its caller waits for this
            // helper before it writes `work` again.
            let work = unsafe { *self.work.get() };
            // SAFETY: `run` borrows the job and waits for this helper, as above.
            let work = work.map(|work| unsafe { &*work });
            let done = catch_unwind(AssertUnwindSafe(|| {
                if let Some(work) = work {
                    self.take_chunks(work, thread);
                }
            }));
            if done.is_err() {
                self.has_failed.store(true, Ordering::SeqCst);
            }
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        true
    }
}

/// First chunk of a thread's own range.
pub(crate) fn first_chunk(thread: usize, chunks: usize, threads: usize) -> usize {
    thread * chunks / threads
}

/// Main loop of a helper thread.
fn help(shared: &Shared, thread: usize) {
    let mut looks = 0;
    while !shared.is_over.load(Ordering::Relaxed) {
        if shared.help_once(thread) {
            looks = 0;
        } else if looks < LOOKS_MAX {
            looks += 1;
            std::hint::spin_loop();
        } else {
            shared.sleepers.fetch_add(1, Ordering::SeqCst);
            // A caller that opens a round after this point sees a sleeper and wakes it; a round opened before is seen
            // here. `park` remembers a wake-up that comes early.
            if !shared.is_open.load(Ordering::SeqCst) && !shared.is_over.load(Ordering::SeqCst) {
                thread::park();
            }
            shared.sleepers.fetch_sub(1, Ordering::SeqCst);
            looks = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_is_done_once_by_any_number_of_threads() {
        for threads in [0, 1, 2, 3, 7] {
            let mut team = Team::of(threads);
            for chunks in (0..40).chain([1000]) {
                let counts: Vec<AtomicUsize> = (0..chunks).map(|_| AtomicUsize::new(0)).collect();
                let members = team.threads();
                team.run(chunks, &|chunk, thread| {
                    assert!(thread < members);
                    counts[chunk].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn a_helper_that_slept_comes_back() {
        let mut team = Team::of(2);
        while team.shared.sleepers.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        let helped = AtomicBool::new(false);
        // The caller's chunk ends only after the helper has run one.
        team.run(2, &|_, thread| {
            if thread == 1 {
                helped.store(true, Ordering::SeqCst);
            }
            while !helped.load(Ordering::SeqCst) {
                thread::yield_now();
            }
        });
        assert!(helped.load(Ordering::SeqCst));
    }

    #[test]
    fn a_panic_on_any_thread_reaches_the_caller() {
        for thread_that_fails in [0, 1] {
            let mut team = Team::of(2);
            let met = AtomicUsize::new(0);
            let run = AssertUnwindSafe(|| {
                team.run(2, &|_, thread| {
                    met.fetch_add(1, Ordering::SeqCst);
                    while met.load(Ordering::SeqCst) < 2 {
                        thread::yield_now();
                    }
                    assert!(thread != thread_that_fails, "as asked");
                });
            });
            assert!(catch_unwind(run).is_err());
            // The pool still works after the panic.
            let done = AtomicUsize::new(0);
            team.run(5, &|_, _| {
                done.fetch_add(1, Ordering::SeqCst);
            });
            assert_eq!(done.into_inner(), 5);
        }
    }
}
