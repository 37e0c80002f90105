//! The way of many batches into the store: while one is written the next is embedded, and the one
//! after that is read.
//!
//! Owns the two threads between who makes batches and the store, their order, and how much of their
//! work a kill can take with it. Must not know where batches come from, nor what is done with one that
//! the store refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::Scope;
use std::time::Duration;

use engine::Batch;

use crate::encoders::Encoders;

/// Texts of a parcel, which are embedded together and stored together. One document of an ingest is
/// stored whole, so a long one is a parcel by itself, of as many texts as it has.
pub const PARCEL_TEXTS_MAX: usize = 128;
/// Parcels that are embedded, or begun, and not stored: one that is written, and the next.
const PARCELS_EMBEDDED_MAX: usize = 2;
/// What a kill costs at most: texts that are embedded once more when the same is begun again, if no
/// document has more than [`PARCEL_TEXTS_MAX`] of them.
pub const TEXTS_LOST_MAX: usize = PARCELS_EMBEDDED_MAX * PARCEL_TEXTS_MAX;
/// Parcels that were handed over and of which nobody was told yet: those above, and two that wait, so
/// that embedding goes on while the next one is read.
const PARCELS_MAX: usize = PARCELS_EMBEDDED_MAX + 2;
/// How often one who waits looks whether it still should.
const LOOK: Duration = Duration::from_millis(100);

/// What is embedded and stored together.
pub trait Parcel: Send {
    /// What became of it.
    type Done: Send;
    /// Why nothing more can be stored.
    type Error: Send;

    /// The records. Searchable items without an embedding get one, as do all where those that are
    /// there are not of the store's model any more.
    fn batch(&mut self) -> &mut Batch;
    /// Stores it.
    fn write(self, encoders: &Encoders) -> Result<Self::Done, Self::Error>;
}

/// A parcel that is stored, or as much of it as the store takes.
pub struct Settled<D> {
    /// What became of it.
    pub done: D,
    /// How many texts were embedded for it.
    pub embedded: u64,
}

/// Why an inflow ended.
pub enum Halt<E> {
    /// Nobody waits for it any more.
    Cancelled,
    /// Nothing more can be stored.
    Failed(E),
}

/// The way into the store. What was handed over and is not begun when this is dropped is left out.
pub struct Inflow<P: Parcel> {
    parcels: SyncSender<P>,
    settled: Receiver<Result<Settled<P::Done>, P::Error>>,
    /// Parcels handed over and not given back as settled, at most [`PARCELS_MAX`].
    on_the_way: usize,
    over: Over,
}

/// Has the threads begin nothing more once it is dropped.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A parcel with its embeddings, and how many of them were made here.
type Embedded<P> = (P, u64);

impl<P: Parcel> Inflow<P> {
    /// Begins the threads, which end with the inflow.
    pub fn start<'scope, 'env>(scope: &'scope Scope<'scope, 'env>, encoders: &'env Encoders) -> Self
    where
        P: 'scope,
    {
        // Neither the first nor the last is ever full: `on_the_way` is at most PARCELS_MAX.
        let (parcels, waiting) = sync_channel(PARCELS_MAX);
        // Whoever embeds keeps what it has until the writer takes it: PARCELS_EMBEDDED_MAX.
        let (embedded, unwritten) = sync_channel(0);
        let (settle, settled) = sync_channel(PARCELS_MAX);
        let over = Over(Arc::default());
        let is_over = Arc::clone(&over.0);
        scope.spawn(move || embed(encoders, &waiting, &embedded, &is_over));
        scope.spawn(move || write::<P>(encoders, &unwritten, &settle));
        Self { parcels, settled, on_the_way: 0, over }
    }

    /// Whether nothing is on the way.
    pub fn is_empty(&self) -> bool {
        self.on_the_way == 0
    }

    /// Hands over a parcel, once there is room for it. Gives those that were stored meanwhile, in
    /// their order.
    pub fn give(
        &mut self,
        parcel: P,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Settled<P::Done>>, Halt<P::Error>> {
        let settled = self.wait(PARCELS_MAX - 1, cancelled)?;
        self.on_the_way += 1;
        match self.parcels.try_send(parcel) {
            Ok(()) => Ok(settled),
            Err(TrySendError::Full(_)) => unreachable!("it holds all that may be on the way"),
            // The threads have ended, and said why.
            Err(TrySendError::Disconnected(_)) => {
                self.wait(0, cancelled).map(|more| settled.into_iter().chain(more).collect())
            }
        }
    }

    /// Waits for all that is on the way.
    pub fn drain(
        &mut self,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Settled<P::Done>>, Halt<P::Error>> {
        self.wait(0, cancelled)
    }

    /// Ends the inflow, and gives what was stored until then and not told yet. What is being written
    /// is stored; nothing else is begun.
    pub fn stop(self) -> Result<Vec<Settled<P::Done>>, P::Error> {
        let Self { parcels, settled, over, .. } = self;
        drop((over, parcels));
        settled.into_iter().collect()
    }

    /// Waits until at most so many are on the way; takes what else is settled by then.
    fn wait(
        &mut self,
        most: usize,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Settled<P::Done>>, Halt<P::Error>> {
        let mut all = Vec::new();
        loop {
            let one = if self.on_the_way > most {
                if cancelled() {
                    return Err(Halt::Cancelled);
                }
                match self.settled.recv_timeout(LOOK) {
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => panic!("a thread of it has panicked"),
                    Ok(one) => one,
                }
            } else {
                let Ok(one) = self.settled.try_recv() else { return Ok(all) };
                one
            };
            self.on_the_way -= 1;
            all.push(one.map_err(Halt::Failed)?);
        }
    }
}

/// Embeds parcels until no more come, or nobody wants them.
fn embed<P: Parcel>(
    encoders: &Encoders,
    waiting: &Receiver<P>,
    embedded: &SyncSender<Embedded<P>>,
    is_over: &AtomicBool,
) {
    let goes_on = || !is_over.load(Ordering::Acquire);
    while let Ok(mut parcel) = waiting.recv() {
        let embedder = encoders.view().embedder;
        let batch = parcel.batch();
        if batch.embedded_by.is_some_and(|by| by != embedder.model()) {
            batch.items.iter_mut().for_each(|item| item.embedding.clear());
        }
        let wants = |item: &engine::ItemDraft| item.searchable && item.embedding.is_empty();
        let Some(made) = embedder.embed_batch_while(batch, wants, &goes_on) else { return };
        // The writer has ended where it takes no more.
        if !goes_on() || embedded.send((parcel, made)).is_err() {
            return;
        }
    }
}

/// Writes parcels in their order, until no more come or one cannot be written.
fn write<P: Parcel>(
    encoders: &Encoders,
    unwritten: &Receiver<Embedded<P>>,
    settle: &SyncSender<Result<Settled<P::Done>, P::Error>>,
) {
    while let Ok((parcel, embedded)) = unwritten.recv() {
        let done = parcel.write(encoders).map(|done| Settled { done, embedded });
        let is_end = done.is_err();
        if settle.send(done).is_err() || is_end {
            return;
        }
    }
}
