//! Ingest pipeline: while one write batch is written, the next is embedded and the one after that is read.
//!
//! Owns the two threads between the reader and the store, the order of the batches, and the amount of work that a kill
//! can lose. Must not know the source of the batches, how they are embedded, nor how a rejected batch is handled.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use recalld_common::cancel::CallScope;
use recalld_common::monitor::Monitor;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Texts of a write batch, which are embedded and stored together. A document of an ingest is stored whole, so a
    /// long document is one write batch with as many texts as the document has.
    pub const PARCEL_TEXTS_MAX: usize = 128;
    /// Maximum loss of a kill: texts that are embedded again on the next run, if no document has more than
    /// [`PARCEL_TEXTS_MAX`] texts.
    pub const TEXTS_LOST_MAX: usize = PARCELS_EMBEDDED_MAX * PARCEL_TEXTS_MAX;
}

/// Maximum number of write batches whose embedding has started and that are not stored: the batch being written, and
/// the next.
const PARCELS_EMBEDDED_MAX: usize = 2;
/// Maximum number of write batches submitted and not reported: those above, and two queued, so that embedding continues
/// while the next batch is read.
const PARCELS_MAX: usize = PARCELS_EMBEDDED_MAX + 2;

/// A write batch: records that are embedded and stored together.
pub trait Parcel: Send {
    /// The target that embeds and stores the batch.
    type Store: Sync;
    /// Result of a stored batch.
    type Done: Send + 'static;
    /// Error that ends the pipeline.
    type Error: Send + 'static;

    /// Embeds the records that have no embedding of the store's model, polling `goes_on`. Returns the number of
    /// embedded texts; `None` if `goes_on` returned false.
    fn embed(&mut self, store: &Self::Store, goes_on: &dyn Fn() -> bool) -> Option<u64>;
    /// Stores the batch.
    fn write(self, store: &Self::Store) -> Result<Self::Done, Self::Error>;
}

/// A write batch that is stored, as far as the store accepts its records.
pub struct Settled<D> {
    /// Result of the write.
    pub done: D,
    /// Number of texts embedded for the batch. Each text counts once, although a model migration in between makes some
    /// texts be embedded again on write.
    pub embedded: u64,
}

/// Reason for which the pipeline ended.
pub enum Halt<E> {
    /// The call was cancelled or has timed out.
    Cancelled,
    /// The store accepts no more batches.
    Failed(E),
}

impl<E> Halt<E> {
    /// Converts the error type.
    pub fn map<F>(self, into: impl FnOnce(E) -> F) -> Halt<F> {
        match self {
            Self::Cancelled => Halt::Cancelled,
            Self::Failed(error) => Halt::Failed(into(error)),
        }
    }
}

/// The ingest pipeline. On drop, submitted batches whose embedding has not started are discarded.
pub struct Inflow<'scope, P: Parcel> {
    parcels: SyncSender<P>,
    results: Monitor<Results<P::Done, P::Error>>,
    /// Batches submitted and not settled, at most [`PARCELS_MAX`].
    on_the_way: usize,
    /// Settled batches that were not reported yet, in order. They survive an error, so every stored batch is reported.
    untold: Vec<Settled<P::Done>>,
    over: Over,
    /// Dropped last: the threads end when the fields above are gone.
    threads: Threads<'scope>,
}

/// Results of the writer that the caller has not received yet.
struct Results<D, E> {
    /// In the order of the batches; at most [`PARCELS_MAX`].
    settled: VecDeque<Result<Settled<D>, E>>,
    /// True if the writer has ended, so that no result follows.
    is_all: bool,
}

/// The writer's end of the results.
struct Settling<D: Send + 'static, E: Send + 'static>(Monitor<Results<D, E>>);

impl<D: Send + 'static, E: Send + 'static> Settling<D, E> {
    fn add(&self, one: Result<Settled<D>, E>) {
        self.0.lock().settled.push_back(one);
        self.0.notify_all();
    }
}

impl<D: Send + 'static, E: Send + 'static> Drop for Settling<D, E> {
    fn drop(&mut self) {
        self.0.lock().is_all = true;
        self.0.notify_all();
    }
}

/// On drop, the threads start no more work.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// On drop, waits until the threads have freed all their memory: the end of a scope does not wait for thread-locals.
struct Threads<'scope>(Vec<ScopedJoinHandle<'scope, ()>>);

impl Drop for Threads<'_> {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            let _the_scope_panics_too = thread.join();
        }
    }
}

/// Batches stored since the last report, or the reason for which the pipeline ended.
pub type Given<P> = Result<Vec<Settled<<P as Parcel>::Done>>, Halt<<P as Parcel>::Error>>;

/// Batches stored since the last report, and the error of the writer unless already reported.
pub type Ended<P> = (Vec<Settled<<P as Parcel>::Done>>, Result<(), <P as Parcel>::Error>);

/// A batch with its embeddings, and the number of texts embedded by the pipeline.
type Embedded<P> = (P, u64);

impl<'scope, P: Parcel + 'scope> Inflow<'scope, P> {
    /// Starts the threads, which end with the pipeline.
    pub fn start<'env>(scope: &'scope Scope<'scope, 'env>, store: &'env P::Store) -> Self {
        // Never full: `on_the_way` is at most `PARCELS_MAX`.
        let (parcels, waiting) = sync_channel(PARCELS_MAX);
        // Rendezvous channel: the embedding thread retains its batch until the writer receives it
        // (`PARCELS_EMBEDDED_MAX`).
        let (embedded, unwritten) = sync_channel(0);
        let results = Monitor::new(Results { settled: VecDeque::new(), is_all: false });
        let settling = Settling(results.clone());
        let over = Over(Arc::default());
        let is_over = Arc::clone(&over.0);
        let threads = Threads(vec![
            scope.spawn(move || embed(store, &waiting, &embedded, &is_over)),
            scope.spawn(move || write(store, &unwritten, &settling)),
        ]);
        Self { parcels, results, on_the_way: 0, untold: Vec::new(), over, threads }
    }

    /// Returns true if no batch is in flight.
    pub fn is_empty(&self) -> bool {
        self.on_the_way == 0
    }

    /// Submits a batch as soon as there is capacity. Returns the batches stored meanwhile, in order; after an error,
    /// [`Self::stop`] returns them.
    pub fn give(&mut self, parcel: P, call: CallScope<'_>) -> Given<P> {
        self.wait(PARCELS_MAX - 1, call)?;
        self.on_the_way += 1;
        match self.parcels.try_send(parcel) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => unreachable!("it holds all that may be on the way"),
            // The threads have ended; the results contain the reason.
            Err(TrySendError::Disconnected(_)) => self.wait(0, call)?,
        }
        Ok(std::mem::take(&mut self.untold))
    }

    /// Waits for all batches in flight. Returns as [`Self::give`] does.
    pub fn drain(&mut self, call: CallScope<'_>) -> Given<P> {
        self.wait(0, call)?;
        Ok(std::mem::take(&mut self.untold))
    }

    /// Ends the pipeline. Returns stored batches that were not reported yet, and the writer's error unless already
    /// reported. Batches that are embedded or being written are still stored; no other work starts.
    pub fn stop(self) -> Ended<P> {
        let Self { parcels, results, mut untold, over, threads, .. } = self;
        drop((over, parcels));
        drop(threads);
        let mut ended = Ok(());
        for one in results.lock().settled.drain(..) {
            match one {
                Ok(one) => untold.push(one),
                Err(error) => ended = Err(error),
            }
        }
        (untold, ended)
    }

    /// Waits until at most `most` batches are in flight, and receives all results that are ready by then.
    fn wait(&mut self, most: usize, call: CallScope<'_>) -> Result<(), Halt<P::Error>> {
        let _woken = self.results.woken_by(&call);
        let mut state = self.results.lock();
        loop {
            if self.on_the_way > most && call.is_over() {
                return Err(Halt::Cancelled);
            }
            match state.settled.pop_front() {
                Some(one) => {
                    self.on_the_way -= 1;
                    self.untold.push(one.map_err(Halt::Failed)?);
                }
                None if self.on_the_way <= most => return Ok(()),
                None => {
                    assert!(!state.is_all, "a thread of it has panicked");
                    state = self.results.wait_until(state, call.deadline);
                }
            }
        }
    }
}

/// Embeds batches until the input ends or the pipeline is stopped.
fn embed<P: Parcel>(
    store: &P::Store,
    waiting: &Receiver<P>,
    embedded: &SyncSender<Embedded<P>>,
    is_over: &AtomicBool,
) {
    let goes_on = || !is_over.load(Ordering::Acquire);
    while let Ok(mut parcel) = waiting.recv() {
        let Some(made) = parcel.embed(store, &goes_on) else { return };
        // A closed channel means that the writer has ended.
        if !goes_on() || embedded.send((parcel, made)).is_err() {
            return;
        }
    }
}

/// Writes batches in order, until the input ends or a write fails.
fn write<P: Parcel>(
    store: &P::Store,
    unwritten: &Receiver<Embedded<P>>,
    settling: &Settling<P::Done, P::Error>,
) {
    while let Ok((parcel, embedded)) = unwritten.recv() {
        let done = parcel.write(store).map(|done| Settled { done, embedded });
        let is_end = done.is_err();
        settling.add(done);
        if is_end {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;

    use recalld_common::cancel::CancellationToken;

    use super::*;

    /// Store of numbers in which each step waits for a permit, so that a test controls the position of each batch.
    struct Shelf {
        embeds: Mutex<Receiver<()>>,
        writes: Mutex<Receiver<()>>,
        written: Mutex<Vec<u32>>,
        /// Receives each number as its embedding starts.
        begun: SyncSender<u32>,
    }

    /// The test's end: sends permits, and receives the numbers whose embedding starts.
    struct Leave {
        embed: SyncSender<()>,
        write: SyncSender<()>,
        begun: Receiver<u32>,
    }

    fn shelf() -> (Shelf, Leave) {
        const ALL: usize = 100;
        let (embed, embeds) = sync_channel(ALL);
        let (write, writes) = sync_channel(ALL);
        let (tell, begun) = sync_channel(ALL);
        let (embeds, writes) = (Mutex::new(embeds), Mutex::new(writes));
        let shelf = Shelf { embeds, writes, written: Mutex::default(), begun: tell };
        (shelf, Leave { embed, write, begun })
    }

    impl Leave {
        fn embed(&self, times: usize) {
            (0..times).for_each(|_| self.embed.send(()).unwrap());
        }

        fn write(&self, times: usize) {
            (0..times).for_each(|_| self.write.send(()).unwrap());
        }

        /// Waits until the embedding of `number` starts.
        fn until(&self, number: u32) {
            while self.begun.recv().unwrap() != number {}
        }
    }

    /// The number whose embedding panics; the next constant is the number whose write fails.
    const STUMBLES: u32 = 13;
    const UNWRITABLE: u32 = 7;

    struct Number(u32);

    impl Parcel for Number {
        type Store = Shelf;
        type Done = u32;
        type Error = &'static str;

        fn embed(&mut self, shelf: &Shelf, _: &dyn Fn() -> bool) -> Option<u64> {
            shelf.begun.send(self.0).unwrap();
            assert_ne!(self.0, STUMBLES, "this one cannot be embedded");
            // A closed channel means that the test has ended.
            shelf.embeds.lock().unwrap().recv().ok()?;
            Some(u64::from(self.0))
        }

        fn write(self, shelf: &Shelf) -> Result<u32, &'static str> {
            shelf.writes.lock().unwrap().recv().map_err(|_| "no leave")?;
            if self.0 == UNWRITABLE {
                return Err("it cannot be written");
            }
            shelf.written.lock().unwrap().push(self.0);
            Ok(self.0)
        }
    }

    fn numbers(settled: &[Settled<u32>]) -> Vec<u32> {
        settled.iter().map(|one| one.done).collect()
    }

    fn given(inflow: &mut Inflow<Number>, number: u32) -> Vec<u32> {
        let given = inflow.give(Number(number), CallScope::endless());
        numbers(&given.unwrap_or_else(|_| panic!("{number} is taken")))
    }

    #[test]
    fn all_is_stored_in_order_and_told_once() {
        let (shelf, leave) = shelf();
        leave.embed(20);
        leave.write(20);
        let mut told = Vec::new();
        std::thread::scope(|scope| {
            let mut inflow = Inflow::start(scope, &shelf);
            // Without `UNWRITABLE` and `STUMBLES`.
            for number in 20..40 {
                told.extend(given(&mut inflow, number));
            }
            let rest =
                inflow.drain(CallScope::endless()).unwrap_or_else(|_| panic!("nothing fails"));
            assert!(rest.iter().all(|one| one.embedded == u64::from(one.done)));
            told.extend(numbers(&rest));
            assert!(inflow.is_empty());
            let (rest, ended) = inflow.stop();
            assert_eq!((rest.len(), ended), (0, Ok(())));
        });
        assert_eq!(told, (20..40).collect::<Vec<_>>());
        assert_eq!(*shelf.written.lock().unwrap(), told);
    }

    #[test]
    fn what_is_stored_before_a_cancel_is_told() {
        let (shelf, leave) = shelf();
        let token = CancellationToken::new();
        let call = CallScope { token: &token, deadline: None };
        std::thread::scope(|scope| {
            let mut inflow = Inflow::start(scope, &shelf);
            assert!((1..=4).all(|number| given(&mut inflow, number).is_empty()));
            // Two are written; the embedding of the third has started.
            leave.embed(2);
            leave.write(2);
            leave.until(3);
            // Cancelled while `drain` waits for the third.
            scope.spawn(|| {
                while !shelf.written.lock().unwrap().ends_with(&[2]) {
                    std::thread::yield_now();
                }
                token.cancel();
            });
            assert!(matches!(inflow.drain(call), Err(Halt::Cancelled)));
            let Leave { embed, write, .. } = leave;
            drop((embed, write));
            let (told, ended) = inflow.stop();
            assert_eq!((numbers(&told), ended), (vec![1, 2], Ok(())));
        });
        assert_eq!(*shelf.written.lock().unwrap(), [1, 2]);
    }

    #[test]
    fn what_is_stored_before_a_failure_is_told_with_it() {
        for drains in [true, false] {
            let (shelf, leave) = shelf();
            std::thread::scope(|scope| {
                let mut inflow = Inflow::start(scope, &shelf);
                let numbered = [1, 2, UNWRITABLE, 9];
                assert!(numbered.iter().all(|&number| given(&mut inflow, number).is_empty()));
                leave.embed(3);
                leave.write(3);
                // By then the writer has received the number that it cannot write.
                leave.until(9);
                drop(leave);
                let drained = drains.then(|| inflow.drain(CallScope::endless()).err());
                let (told, ended) = inflow.stop();
                assert_eq!(numbers(&told), [1, 2]);
                match drained {
                    Some(Some(Halt::Failed(why))) => {
                        assert_eq!((why, ended), ("it cannot be written", Ok(())));
                    }
                    None => assert_eq!(ended, Err("it cannot be written")),
                    Some(_) => panic!("a failure is told"),
                }
            });
            assert_eq!(*shelf.written.lock().unwrap(), [1, 2]);
        }
    }

    #[test]
    fn a_panic_of_a_thread_reaches_who_waits() {
        let (shelf, leave) = shelf();
        leave.embed(1);
        leave.write(1);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            std::thread::scope(|scope| {
                let mut inflow = Inflow::start(scope, &shelf);
                given(&mut inflow, 1);
                given(&mut inflow, STUMBLES);
                drop(inflow.drain(CallScope::endless()));
                unreachable!("it waits for what never comes");
            });
        }));
        let why = ended.unwrap_err();
        assert_eq!(why.downcast_ref(), Some(&"a thread of it has panicked"));
        assert_eq!(*shelf.written.lock().unwrap(), [1]);
    }
}
