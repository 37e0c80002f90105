//! What a manifest says, for whoever copies the files of a store without opening it.

use std::collections::BTreeSet;

use super::contents::{ListedFile, Manifest, Model, READ_VERSION, WRITE_VERSION};
use super::json;
use crate::error::{Damage, OpenError};
use crate::ids::{Seq, StoreId};
use crate::os::clock::Micros;

/// A manifest that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing(Manifest);

impl Listing {
    pub(crate) fn of(manifest: Manifest) -> Self {
        Self(manifest)
    }

    /// That of a store that holds nothing.
    pub fn first(store: StoreId, created_at: Micros) -> Self {
        Self(Manifest::first(store, created_at))
    }

    /// The bytes of the manifest that comes next where all rows are gone as of commit `seq`: it lists nothing, and no
    /// log up to `last_log` is needed any more.
    ///
    /// # Errors
    /// Damage, where a number is too large; or a version that this build does not write.
    pub fn emptied(&self, seq: Seq, last_log: u64) -> Result<Vec<u8>, OpenError> {
        if !self.0.may_write() {
            let (file, version) = ("a manifest".to_owned(), self.0.write_version);
            return Err(OpenError::TooNew { file, version });
        }
        let too_large = || Damage::new("MAN-06", "a number is too large");
        let next = |number: u64| number.checked_add(1).ok_or_else(too_large);
        let next_file = self.0.next_file.max(next(last_log)?);
        let emptied = Manifest {
            read_version: READ_VERSION,
            write_version: WRITE_VERSION,
            number: next(self.0.number)?,
            last_seq: seq,
            synced_seq: seq,
            log_floor: next_file,
            next_file,
            segments: Vec::new(),
            logs: Vec::new(),
            erasures: BTreeSet::new(),
            ..self.0
        };
        emptied.check()?;
        Ok(emptied.encode())
    }

    /// Whether it lists neither a file nor a log.
    pub fn is_empty(&self) -> bool {
        self.0.segments.is_empty() && self.0.logs.is_empty()
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
