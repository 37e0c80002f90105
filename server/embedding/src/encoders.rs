//! Model registry: the encoder of a store's model and, during a model migration, the encoder of the next model.
//!
//! Owns the mapping from snapshot to encoder, so a question is only compared with vectors of the same model. Embeddings
//! of an outdated model are recomputed only here. Must not know the callers, nor how a migration starts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use engine::{Batch, BatchError, CommitInfo, ItemDraft, Snapshot, Store, WriteError};

use crate::embed::Embedder;

/// Maximum number of re-embeddings of one write because the store migrated meanwhile. A migration takes longer than the
/// embedding of a batch, so even the second attempt is rare.
const EMBED_AGAIN_MAX: usize = 3;

/// A snapshot with the encoder of its model.
pub struct View<S = Snapshot> {
    /// The snapshot.
    pub snapshot: S,
    /// The encoder of the snapshot's embeddings.
    pub embedder: Arc<Embedder>,
}

/// A store that is bound to a model, and its encoders.
pub struct Encoders {
    store: Arc<Store>,
    /// The encoder of the store's model and, during a migration, that of the next model. While a read lock is held, the
    /// encoder of any new snapshot is in the list.
    held: RwLock<Vec<Arc<Embedder>>>,
    is_moving: AtomicBool,
}

impl Encoders {
    /// Binds a store to the encoder's model.
    ///
    /// # Errors
    /// [`WriteError::Refused`] if the store has another model.
    pub fn bind(store: Arc<Store>, embedder: Arc<Embedder>) -> Result<Self, WriteError> {
        // A store that accepts no writes (disk full, for example) still answers with its own model.
        if store.snapshot().model() != Some(embedder.model()) {
            store.bind_model(embedder.model())?;
        }
        Ok(Self { store, held: RwLock::new(vec![embedder]), is_moving: AtomicBool::new(false) })
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// A shared handle to the store.
    pub fn store_handle(&self) -> Arc<Store> {
        Arc::clone(&self.store)
    }

    /// The snapshot of the last acknowledged write, and its encoder.
    pub fn view(&self) -> View {
        let held = self.held();
        let snapshot = self.store.snapshot();
        let of = held.iter().find(|embedder| snapshot.model() == Some(embedder.model()));
        let embedder = of.expect("an encoder goes only after the store has left its model");
        View { embedder: Arc::clone(embedder), snapshot }
    }

    /// Embeds the searchable items of a batch that have no embedding, polling `goes_on`. If the batch has embeddings of
    /// a model that the store has left, all its searchable items are embedded again. Returns the number of embedded
    /// items; `None` if `goes_on` returned false.
    pub fn embed_while(&self, batch: &mut Batch, goes_on: &dyn Fn() -> bool) -> Option<u64> {
        let embedder = self.view().embedder;
        if batch.embedded_by.is_some_and(|by| by != embedder.model()) {
            batch.items.iter_mut().for_each(|item| item.embedding.clear());
        }
        let wants = |item: &ItemDraft| item.searchable && item.embedding.is_empty();
        embedder.embed_batch_while(batch, wants, goes_on)
    }

    /// Writes a batch whose embeddings, if any, are of the model `batch.embedded_by`. If the store has left that model
    /// meanwhile, the embeddings are recomputed with the encoder of the new model.
    pub fn write(&self, batch: Batch) -> Result<CommitInfo, WriteError> {
        self.try_write(batch).map_err(|unwritten| unwritten.error)
    }

    /// As [`Self::write`], but returns a rejected batch with the error.
    pub fn try_write(&self, mut batch: Batch) -> Result<CommitInfo, BatchError> {
        for _ in 0..EMBED_AGAIN_MAX {
            self.embed_again(&mut batch);
            let unwritten = match self.store.try_write(batch) {
                Err(unwritten) if matches!(unwritten.error, WriteError::Refused { .. }) => {
                    unwritten
                }
                done => return done,
            };
            // The field that the error names depends on the dimensions of the two models.
            if !self.is_outdated(&unwritten.batch) {
                return Err(unwritten);
            }
            batch = *unwritten.batch;
        }
        self.embed_again(&mut batch);
        self.store.try_write(batch)
    }

    /// Returns true if a batch has embeddings of a model that the store has left.
    fn is_outdated(&self, batch: &Batch) -> bool {
        batch.embedded_by.is_some_and(|by| by != self.view().embedder.model())
    }

    fn embed_again(&self, batch: &mut Batch) {
        if self.is_outdated(batch) {
            self.view().embedder.embed_batch(batch, |item| !item.embedding.is_empty());
        }
    }

    /// Begins a model migration; `None` if another one is running.
    pub fn begin_move(&self) -> Option<Move<'_>> {
        let is_moving = self.is_moving.swap(true, Ordering::AcqRel);
        // Constructed only on success, as dropping a `Move` ends the migration.
        (!is_moving).then(|| Move(self))
    }

    fn held(&self) -> RwLockReadGuard<'_, Vec<Arc<Embedder>>> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running model migration. On drop, encoders of models other than the store's are removed, whether or not the
/// migration finished.
pub struct Move<'a>(&'a Encoders);

impl Move<'_> {
    /// Registers the encoder of the next model; must precede the first snapshot of that model.
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
        // Until the next migration, later snapshots have the same model as this one.
        let model = self.0.store.snapshot().model();
        let (stay, go): (Vec<_>, Vec<_>) =
            held.drain(..).partition(|embedder| model == Some(embedder.model()));
        *held = stay;
        drop(held);
        // Unmaps the weights outside the lock: no question waits for the unmapping.
        drop(go);
        self.0.is_moving.store(false, Ordering::Release);
    }
}
