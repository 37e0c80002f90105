//! The way of many batches into the store: while one is written the next is embedded, and the one
//! after that is read.
//!
//! Owns the two threads between who makes batches and the store, their order, and how much of their
//! work a kill can take with it. Must not know where batches come from, how they are embedded, nor what
//! is done with one that the store refuses.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::Scope;

use recalld_common::cancel::CallScope;
use recalld_common::monitor::Monitor;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Texts of a parcel, which are embedded together and stored together. One document of an ingest is
    /// stored whole, so a long one is a parcel by itself, of as many texts as it has.
    pub const PARCEL_TEXTS_MAX: usize = 128;
    /// What a kill costs at most: texts that are embedded once more when the same is begun again, if no
    /// document has more than [`PARCEL_TEXTS_MAX`] of them.
    pub const TEXTS_LOST_MAX: usize = PARCELS_EMBEDDED_MAX * PARCEL_TEXTS_MAX;
}

/// Parcels that are embedded, or begun, and not stored: one that is written, and the next.
const PARCELS_EMBEDDED_MAX: usize = 2;
/// Parcels that were handed over and of which nobody was told yet: those above, and two that wait, so
/// that embedding goes on while the next one is read.
const PARCELS_MAX: usize = PARCELS_EMBEDDED_MAX + 2;

/// What is embedded and stored together.
pub trait Parcel: Send {
    /// What embeds and stores it.
    type Store: Sync;
    /// What became of it.
    type Done: Send + 'static;
    /// Why nothing more can be stored.
    type Error: Send + 'static;

    /// Embeds what of it has no embedding of the store's model, for as long as `goes_on`. Gives how
    /// many texts that were; `None` where it did not come to the end.
    fn embed(&mut self, store: &Self::Store, goes_on: &dyn Fn() -> bool) -> Option<u64>;
    /// Stores it.
    fn write(self, store: &Self::Store) -> Result<Self::Done, Self::Error>;
}

/// A parcel that is stored, or as much of it as the store takes.
pub struct Settled<D> {
    /// What became of it.
    pub done: D,
    /// How many texts were embedded for it; each once, though a move to another model in between has
    /// some embedded again as they are written.
    pub embedded: u64,
}

/// Why an inflow ended.
pub enum Halt<E> {
    /// Nobody waits for it any more.
    Cancelled,
    /// Nothing more can be stored.
    Failed(E),
}

impl<E> Halt<E> {
    /// The same with another error.
    pub fn map<F>(self, into: impl FnOnce(E) -> F) -> Halt<F> {
        match self {
            Self::Cancelled => Halt::Cancelled,
            Self::Failed(error) => Halt::Failed(into(error)),
        }
    }
}

/// The way into the store. What was handed over and is not begun when this is dropped is left out.
pub struct Inflow<P: Parcel> {
    parcels: SyncSender<P>,
    results: Monitor<Results<P::Done, P::Error>>,
    /// Parcels handed over and not settled, at most [`PARCELS_MAX`].
    on_the_way: usize,
    /// Those that are settled and were not given yet, in their order: they stay through an error, so
    /// that nothing that is stored is forgotten.
    untold: Vec<Settled<P::Done>>,
    over: Over,
}

/// What the writer has settled, and nobody took yet.
struct Results<D, E> {
    /// In the order of the parcels; at most [`PARCELS_MAX`].
    settled: VecDeque<Result<Settled<D>, E>>,
    /// Returns true if the writer has ended, so that nothing follows.
    is_all: bool,
}

/// The writer's end of it.
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

/// Has the threads begin nothing more once it is dropped.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// What was stored since that was told last, or why nothing more is.
pub type Given<P> = Result<Vec<Settled<<P as Parcel>::Done>>, Halt<<P as Parcel>::Error>>;

/// What was stored since that was told last, and why nothing more is, unless that was told.
pub type Ended<P> = (Vec<Settled<<P as Parcel>::Done>>, Result<(), <P as Parcel>::Error>);

/// A parcel with its embeddings, and how many of them were made here.
type Embedded<P> = (P, u64);

impl<P: Parcel> Inflow<P> {
    /// Begins the threads, which end with the inflow.
    pub fn start<'scope, 'env>(scope: &'scope Scope<'scope, 'env>, store: &'env P::Store) -> Self
    where
        P: 'scope,
    {
        // Never full: `on_the_way` is at most PARCELS_MAX.
        let (parcels, waiting) = sync_channel(PARCELS_MAX);
        // Whoever embeds keeps what it has until the writer takes it: PARCELS_EMBEDDED_MAX.
        let (embedded, unwritten) = sync_channel(0);
        let results = Monitor::new(Results { settled: VecDeque::new(), is_all: false });
        let settling = Settling(results.clone());
        let over = Over(Arc::default());
        let is_over = Arc::clone(&over.0);
        scope.spawn(move || embed(store, &waiting, &embedded, &is_over));
        scope.spawn(move || write(store, &unwritten, &settling));
        Self { parcels, results, on_the_way: 0, untold: Vec::new(), over }
    }

    /// Whether nothing is on the way.
    pub fn is_empty(&self) -> bool {
        self.on_the_way == 0
    }

    /// Hands over a parcel, once there is room for it. Gives those that were stored meanwhile, in
    /// their order; after an error [`Self::stop`] gives them.
    pub fn give(&mut self, parcel: P, call: CallScope<'_>) -> Given<P> {
        self.wait(PARCELS_MAX - 1, call)?;
        self.on_the_way += 1;
        match self.parcels.try_send(parcel) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => unreachable!("it holds all that may be on the way"),
            // The threads have ended, and said why.
            Err(TrySendError::Disconnected(_)) => self.wait(0, call)?,
        }
        Ok(std::mem::take(&mut self.untold))
    }

    /// Waits for all that is on the way; gives as [`Self::give`] does.
    pub fn drain(&mut self, call: CallScope<'_>) -> Given<P> {
        self.wait(0, call)?;
        Ok(std::mem::take(&mut self.untold))
    }

    /// Ends the inflow. Gives what was stored and not told yet, and why nothing more could be stored,
    /// unless that was told. What is being written is stored, and what has its embeddings and waits
    /// for that; nothing else is begun.
    pub fn stop(self) -> Ended<P> {
        let Self { parcels, results, mut untold, over, .. } = self;
        drop((over, parcels));
        let mut state = results.lock();
        loop {
            match state.settled.pop_front() {
                Some(Ok(one)) => untold.push(one),
                // The writer has ended with it.
                Some(Err(error)) => return (untold, Err(error)),
                None if state.is_all => return (untold, Ok(())),
                None => state = results.wait_until(state, None),
            }
        }
    }

    /// Waits until at most so many are on the way; takes what else is settled by then.
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

/// Embeds parcels until no more come, or nobody wants them.
fn embed<P: Parcel>(
    store: &P::Store,
    waiting: &Receiver<P>,
    embedded: &SyncSender<Embedded<P>>,
    is_over: &AtomicBool,
) {
    let goes_on = || !is_over.load(Ordering::Acquire);
    while let Ok(mut parcel) = waiting.recv() {
        let Some(made) = parcel.embed(store, &goes_on) else { return };
        // The writer has ended where it takes no more.
        if !goes_on() || embedded.send((parcel, made)).is_err() {
            return;
        }
    }
}

/// Writes parcels in their order, until no more come or one cannot be written.
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

    /// Where numbers are stored: each step waits for its leave, so that a test knows what stands where.
    struct Shelf {
        embeds: Mutex<Receiver<()>>,
        writes: Mutex<Receiver<()>>,
        written: Mutex<Vec<u32>>,
        /// Told of each number as its embedding begins.
        begun: SyncSender<u32>,
    }

    /// What lets the steps of a shelf go on, and hears of them.
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

        /// Waits until the embedding of this number begins.
        fn until(&self, number: u32) {
            while self.begun.recv().unwrap() != number {}
        }
    }

    /// A number that the embedder stumbles over, and one that cannot be written.
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
            // Whoever gives no leave any more has ended.
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
            // None of 7 and 13.
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
            // Two are written, the third is in the middle of its embedding.
            leave.embed(2);
            leave.write(2);
            leave.until(3);
            // Called off while somebody waits for the third.
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
                // The one that cannot be written is with the writer by then.
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
