//! A store in a temporary folder that is removed with the test.

use engine::{
    Batch, CommitInfo, CorruptionError, EdgeFilter, Env, Filter, ItemId, NEIGHBOURS_MAX, Neighbour,
    OpenError, Options, RowAddress, Snapshot, Store,
};
use std::sync::Arc;
use support_engine::ground;
use support_engine::listing::ALL;
use tempfile::TempDir;

pub(crate) struct ScratchStore {
    pub(crate) folder: TempDir,
    store: Option<Arc<Store>>,
    opened: u64,
    options: Options,
}

impl ScratchStore {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    /// Makes a store whose sealed segments are not merged.
    pub(crate) fn unmerged() -> Self {
        Self::with(ground::unmerged())
    }

    pub(crate) fn with(options: Options) -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder can be made");
        let mut scratch = Self { folder, store: None, opened: 0, options };
        scratch.reopen();
        scratch
    }

    /// Each opening draws other ids, as the kernel's randomness would.
    pub(crate) fn env(&self) -> Env {
        ground::folder(self.folder.path(), self.opened)
    }

    pub(crate) fn store(&self) -> &Store {
        self.store.as_ref().expect("it is closed only within reopen")
    }

    /// Makes a store that draws its ids from another seed.
    pub(crate) fn with_seed(seed: u64) -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder can be made");
        let mut scratch = Self { folder, store: None, opened: seed, options: Options::default() };
        scratch.reopen();
        scratch
    }

    /// Returns the store, for the test's own threads. The caller MUST drop it before the next opening.
    pub(crate) fn share(&self) -> Arc<Store> {
        Arc::clone(self.store.as_ref().expect("it is closed only within reopen"))
    }

    pub(crate) fn close(&mut self) {
        self.store = None;
    }

    pub(crate) fn try_open(&mut self) -> Result<(), OpenError> {
        self.close();
        self.opened += 1;
        self.store = Some(Arc::new(Store::open(self.env(), self.options)?));
        Ok(())
    }

    pub(crate) fn reopen(&mut self) {
        self.try_open().expect("the store opens");
    }

    pub(crate) fn write(&self, batch: Batch) -> CommitInfo {
        self.store().write(batch).expect("the batch is right")
    }

    /// Writes a batch that must be rejected, and returns the field and the reason.
    pub(crate) fn write_error(&self, batch: Batch) -> (&'static str, String) {
        let before = self.store().snapshot().seq();
        let error = self.store().write(batch).expect_err("the batch is wrong");
        assert_eq!(self.store().snapshot().seq(), before, "a refused batch is not committed");
        let engine::WriteError::Refused { field, why } = error else {
            panic!("refused otherwise: {error}");
        };
        (field, why)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.store().snapshot()
    }

    pub(crate) fn seal(&self) {
        self.store().seal().expect("the disk works");
    }
}

pub(crate) fn address_of(snapshot: &Snapshot, id: ItemId) -> RowAddress {
    snapshot.find(id).expect("no damage").expect("it was written")
}

/// Ids that a word finds, best first.
pub(crate) fn search_word(snapshot: &Snapshot, word: &str, filter: &Filter) -> Vec<ItemId> {
    let hits = snapshot.search_words(word, ALL, filter).expect("no damage");
    hits.iter().map(|hit| snapshot.id(hit.address).expect("no damage")).collect()
}

/// Ids near a vector, best first.
pub(crate) fn nearest_ids(snapshot: &Snapshot, query: &[f32], filter: &Filter) -> Vec<ItemId> {
    let kernels = kernels::Kernels::detect();
    let hits = snapshot.nearest(&kernels, query, ALL, filter).expect("no damage");
    hits.iter().map(|hit| snapshot.id(hit.address).expect("no damage")).collect()
}

/// All neighbours, strongest first.
pub(crate) fn neighbours(snapshot: &Snapshot, id: ItemId) -> Vec<Neighbour<'_>> {
    snapshot.neighbours(id, NEIGHBOURS_MAX, &EdgeFilter::default()).expect("no damage")
}

/// Ids of the rows of a lookup.
pub(crate) fn ids(
    snapshot: &Snapshot,
    places: Result<Vec<RowAddress>, CorruptionError>,
) -> Vec<ItemId> {
    support_engine::listing::ids(snapshot, &places.expect("no damage")).expect("no damage")
}
