//! What a manifest says, for whoever copies the files of a store without opening it.

use super::{ListedFile, Manifest, Model, json};
use crate::error::OpenError;
use crate::ids::{Seq, StoreId};

/// A manifest that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing(Manifest);

impl Listing {
    pub(crate) fn of(manifest: Manifest) -> Self {
        Self(manifest)
    }

    /// The manifest in these bytes of a file.
    ///
    /// # Errors
    /// Damage, or a version that this build does not read.
    pub fn read(bytes: &[u8]) -> Result<Self, OpenError> {
        json::decode("a manifest", bytes).map(Self)
    }

    /// Its number: the largest one of a directory counts.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// Whose it is.
    pub fn store(&self) -> StoreId {
        self.0.store
    }

    /// The newest commit that is in its segments.
    pub fn last_seq(&self) -> Seq {
        self.0.last_seq
    }

    /// The newest commit that was on disk when it was written: the logs that go with it hold no less.
    pub fn synced_seq(&self) -> Seq {
        self.0.synced_seq
    }

    /// Logs below this number are not needed.
    pub fn log_floor(&self) -> u64 {
        self.0.log_floor
    }

    /// Logs that must be there, ascending. Later ones may be, too.
    pub fn logs(&self) -> &[u64] {
        &self.0.logs
    }

    /// Segments and their states, in commit order.
    pub fn files(&self) -> impl Iterator<Item = ListedFile> {
        self.0.listed()
    }

    /// What made its embeddings.
    pub fn model(&self) -> Option<Model> {
        self.0.model
    }

    /// How many ids wait for their bytes to be removed.
    pub fn erasures(&self) -> usize {
        self.0.erasures.len()
    }

    /// Which of these names of a directory are files of a store that it does not need. Those that are being
    /// written are not among them.
    pub fn leaves_behind<'a>(&self, names: &'a [String]) -> Vec<&'a str> {
        self.0.leftovers(names)
    }
}
