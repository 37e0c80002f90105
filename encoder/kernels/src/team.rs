//! The threads of one piece of work, be it a forward pass or a search: it is cut into chunks, and
//! whoever is free takes the next one.
//!
//! Owns the threads and how they wait. Every thread has a range of the chunks of its own, which it
//! takes first and in order, so that what it reads and writes from one piece of work to the next
//! tends to be in its caches already; then it helps the others.
//!
//! A pass has some tens of pieces of work of some ten microseconds each, too short to wake a thread
//! for; so a helper that has nothing to do looks for work for a while ([`LOOKS_MAX`]) before it goes
//! to sleep. Nobody waits for a helper that sleeps or has not come yet: the caller takes chunks too,
//! and waits only for those that others have begun. Knows nothing of what is computed.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Most threads of one pass.
    pub const THREADS_MAX: usize = 16;
    /// How often an idle helper looks for work before it sleeps: some tens of microseconds.
    const LOOKS_MAX: usize = 2_000;
    /// How often the caller looks whether the helpers are done before it lets others run.
    const LOOKS_BEFORE_YIELD: usize = 2_000;
}

/// A piece of work: does chunk `.0` with the memory of thread `.1`.
pub type Work<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// A few threads that work together on what one caller asks for. A team of one has no threads.
pub struct Team {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

struct Shared {
    /// The piece of work under way; read only between `enter` and `leave`.
    work: UnsafeCell<Option<*const Work<'static>>>,
    chunks: AtomicUsize,
    /// One per thread.
    ranges: Vec<Range>,
    is_open: AtomicBool,
    /// Helpers that may be looking at `work`.
    inside: AtomicUsize,
    sleepers: AtomicUsize,
    has_failed: AtomicBool,
    is_over: AtomicBool,
}

/// The chunks that a thread takes first: how many of them were taken. A cache line each.
#[derive(Default)]
#[repr(align(64))]
struct Range {
    taken: AtomicUsize,
}

// SAFETY: `work` is written by the caller while `is_open` is false and `inside` is zero, and read by
// helpers that have raised `inside` and then seen `is_open`; both are sequentially consistent, so
// no write meets a read. What it points to is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is followed only while the work it points to is borrowed by `run`.
unsafe impl Send for Shared {}

impl Team {
    /// A team of so many threads, the caller's own included; at least one, at most
    /// [`THREADS_MAX`]. Where the system has no more threads to give, those there are do the work.
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

    /// How many threads there are, the caller's included.
    pub fn threads(&self) -> usize {
        self.shared.ranges.len()
    }

    /// Does `work` for every chunk below `chunks`, each once, on any of the threads, and returns
    /// when all are done. The second number says which thread, below [`Team::threads`].
    ///
    /// # Panics
    /// If `work` did, on any thread.
    pub fn run(&mut self, chunks: usize, work: &Work<'_>) {
        if self.helpers.is_empty() || chunks < 2 {
            for chunk in 0..chunks {
                work(chunk, 0);
            }
            return;
        }
        let shared = &*self.shared;
        let pointer = std::ptr::from_ref(work);
        // SAFETY: only the lifetime changes. `Round` below does not let this function end, not even
        // by a panic, before every helper has let go of it.
        let pointer =
            unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(pointer) };
        // SAFETY: no round is open and no helper inside: the last round's end saw to it.
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

/// An open round; its end waits until no helper is inside.
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
                // Looked at before it is raised, so that those who come last leave it alone.
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

    /// Whether any chunk of the last round was not taken yet.
    fn has_chunks(&self) -> bool {
        let (chunks, threads) = (self.chunks.load(Ordering::Relaxed), self.ranges.len());
        self.ranges.iter().enumerate().any(|(of, range)| {
            let count = first_chunk(of + 1, chunks, threads) - first_chunk(of, chunks, threads);
            range.taken.load(Ordering::Relaxed) < count
        })
    }

    /// Helps with the round that is open, if one is and has chunks left.
    fn help_once(&self, thread: usize) -> bool {
        if !self.is_open.load(Ordering::Relaxed) || !self.has_chunks() {
            return false;
        }
        self.inside.fetch_add(1, Ordering::SeqCst);
        if self.is_open.load(Ordering::SeqCst) {
            // SAFETY: the round was open after `inside` was raised, so its caller waits for this
            // helper before it writes `work` again.
            let work = unsafe { *self.work.get() };
            // SAFETY: the work is borrowed by `run`, which waits as said above.
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

/// The first of the chunks that are a thread's own.
pub(crate) fn first_chunk(thread: usize, chunks: usize, threads: usize) -> usize {
    thread * chunks / threads
}

/// The life of a helper.
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
            // Whoever opens a round after this sees a sleeper and wakes it; one opened before is
            // seen here. A wake-up that comes early is kept by `park`.
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
        // The caller's chunk ends only when the helper has had one.
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
            // The team is none the worse for it.
            let done = AtomicUsize::new(0);
            team.run(5, &|_, _| {
                done.fetch_add(1, Ordering::SeqCst);
            });
            assert_eq!(done.into_inner(), 5);
        }
    }
}
