//! The encoders of a store: that of its model, and while it moves to another one, that one too.
//!
//! Owns which encoder belongs to which snapshot, so that a question and the vectors it is compared
//! with are always of one model, and the one place where embeddings that came too late are made
//! again. Must not know who asks, nor how a move is begun.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use engine::{Batch, ItemDraft, Snapshot, Store, Unwritten, WriteError, Written};

use crate::embed::Embedder;

/// How often one write is embedded again because the store moved meanwhile. A move takes longer than
/// embedding one batch, so even the second time is hardly ever needed.
const EMBED_AGAIN_MAX: usize = 3;

/// The store at one moment, with the encoder of its model.
pub struct View {
    /// The store.
    pub snapshot: Snapshot,
    /// What made the snapshot's embeddings.
    pub embedder: Arc<Embedder>,
}

/// A store that is bound to a model, and its encoders.
pub struct Encoders {
    store: Arc<Store>,
    /// That of the store's model; during a move also the one of the model to come. Whoever holds this
    /// for reading can be sure that the encoder of a snapshot taken now is in it.
    held: RwLock<Vec<Arc<Embedder>>>,
    is_moving: AtomicBool,
}

impl Encoders {
    /// Binds a store to the encoder's model.
    ///
    /// # Errors
    /// [`WriteError::Refused`] where the store has another model.
    pub fn bind(store: Arc<Store>, embedder: Arc<Embedder>) -> Result<Self, WriteError> {
        // A store that takes no writes, for want of space maybe, still answers with its own model.
        if store.snapshot().model() != Some(embedder.model()) {
            store.bind_model(embedder.model())?;
        }
        Ok(Self { store, held: RwLock::new(vec![embedder]), is_moving: AtomicBool::new(false) })
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The same, for those who keep it.
    pub fn store_handle(&self) -> Arc<Store> {
        Arc::clone(&self.store)
    }

    /// The store as of the last acknowledged write, and the encoder that belongs to it.
    pub fn view(&self) -> View {
        let held = self.held();
        let snapshot = self.store.snapshot();
        let of = held.iter().find(|embedder| snapshot.model() == Some(embedder.model()));
        let embedder = of.expect("an encoder goes only after the store has left its model");
        View { embedder: Arc::clone(embedder), snapshot }
    }

    /// Embeds those searchable items of a batch that have no embedding, and all of them anew where
    /// those that are there are of a model that the store has left; for as long as `goes_on`. Gives
    /// how many it embedded; `None` where it did not come to the end.
    pub fn embed_while(&self, batch: &mut Batch, goes_on: &dyn Fn() -> bool) -> Option<u64> {
        let embedder = self.view().embedder;
        if batch.embedded_by.is_some_and(|by| by != embedder.model()) {
            batch.items.iter_mut().for_each(|item| item.embedding.clear());
        }
        let wants = |item: &ItemDraft| item.searchable && item.embedding.is_empty();
        embedder.embed_batch_while(batch, wants, goes_on)
    }

    /// Writes a batch whose embeddings, if it has any, are those of `batch.embedded_by`. Where the
    /// store has left that model since, they are made again with the encoder of the new one.
    pub fn write(&self, batch: Batch) -> Result<Written, WriteError> {
        self.try_write(batch).map_err(|unwritten| unwritten.error)
    }

    /// The same; a batch that is refused comes back.
    pub fn try_write(&self, mut batch: Batch) -> Result<Written, Unwritten> {
        for _ in 0..EMBED_AGAIN_MAX {
            self.embed_again(&mut batch);
            let unwritten = match self.store.try_write(batch) {
                Err(unwritten) if matches!(unwritten.error, WriteError::Refused { .. }) => {
                    unwritten
                }
                done => return done,
            };
            // Which field the refusal names depends on the widths of the two models.
            if !self.is_outdated(&unwritten.batch) {
                return Err(unwritten);
            }
            batch = *unwritten.batch;
        }
        self.embed_again(&mut batch);
        self.store.try_write(batch)
    }

    /// Whether a batch has embeddings of a model that the store has left.
    fn is_outdated(&self, batch: &Batch) -> bool {
        batch.embedded_by.is_some_and(|by| by != self.view().embedder.model())
    }

    fn embed_again(&self, batch: &mut Batch) {
        if self.is_outdated(batch) {
            self.view().embedder.embed_batch(batch, |item| !item.embedding.is_empty());
        }
    }

    /// Begins a move to another model; `None` while one runs.
    pub fn begin_move(&self) -> Option<Move<'_>> {
        let is_moving = self.is_moving.swap(true, Ordering::AcqRel);
        // Made only where it is handed out: dropping one ends the move.
        (!is_moving).then(|| Move(self))
    }

    fn held(&self) -> RwLockReadGuard<'_, Vec<Arc<Embedder>>> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A move to another model, until it is dropped: then the encoder that the store does not need goes,
/// be the move done or not.
pub struct Move<'a>(&'a Encoders);

impl Move<'_> {
    /// Has the encoder of the model to come at hand, before any snapshot can be of it.
    pub fn hold(&self, next: Arc<Embedder>) {
        let mut held = self.0.held.write().unwrap_or_else(PoisonError::into_inner);
        if held.iter().all(|embedder| embedder.model() != next.model()) {
            held.push(next);
        }
    }
}

impl Drop for Move<'_> {
    fn drop(&mut self) {
        let mut held = self.0.held.write().unwrap_or_else(PoisonError::into_inner);
        // No later snapshot has another model than this one, until the next move.
        let model = self.0.store.snapshot().model();
        let (stay, go): (Vec<_>, Vec<_>) =
            held.drain(..).partition(|embedder| model == Some(embedder.model()));
        *held = stay;
        drop(held);
        // Unmaps its weights, which no question should wait for.
        drop(go);
        self.0.is_moving.store(false, Ordering::Release);
    }
}
