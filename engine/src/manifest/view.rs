//! Public view of a manifest, for copying a store's files without opening the store.

use std::collections::BTreeSet;

use super::contents::{ListedFile, Manifest, Model, READ_VERSION, WRITE_VERSION};
use super::json;
use crate::error::{CorruptionError, OpenError};
use crate::ids::{Seq, StoreId};
use crate::os::clock::Micros;

/// Checked manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestView(Manifest);

impl ManifestView {
    pub(crate) fn new(manifest: Manifest) -> Self {
        Self(manifest)
    }

    /// Manifest of an empty store.
    pub fn initial(store: StoreId, created_at: Micros) -> Self {
        Self(Manifest::initial(store, created_at))
    }

    /// Encodes the next manifest of a store whose rows are all removed as of commit `seq`. The new manifest lists
    /// nothing, and no log up to `last_log` is needed any more.
    ///
    /// # Errors
    /// Corruption if a number is too large, or a version that this build does not write.
    pub fn encode_emptied(&self, seq: Seq, last_log: u64) -> Result<Vec<u8>, OpenError> {
        if !self.0.can_write() {
            let (file, version) = ("a manifest".to_owned(), self.0.write_version);
            return Err(OpenError::TooNew { file, version });
        }
        let too_large = || CorruptionError::new("MAN-06", "a number is too large");
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

    /// Returns true if the manifest lists neither a file nor a log.
    pub fn is_empty(&self) -> bool {
        self.0.segments.is_empty() && self.0.logs.is_empty()
    }

    /// Decodes and checks a manifest file.
    ///
    /// # Errors
    /// Corruption, or a version that this build does not read.
    pub fn parse(bytes: &[u8]) -> Result<Self, OpenError> {
        json::decode("a manifest", bytes).map(Self)
    }

    /// Number of the manifest; the largest number in a directory is the current manifest.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// Id of the store.
    pub fn store(&self) -> StoreId {
        self.0.store
    }

    /// Newest commit in the segments.
    pub fn last_seq(&self) -> Seq {
        self.0.last_seq
    }

    /// Newest commit on disk when the manifest was written; the logs must reach at least this commit.
    pub fn synced_seq(&self) -> Seq {
        self.0.synced_seq
    }

    /// Lowest log number that may still be needed.
    pub fn log_floor(&self) -> u64 {
        self.0.log_floor
    }

    /// Numbers of the logs that must exist, ascending. Later logs may exist, too.
    pub fn logs(&self) -> &[u64] {
        &self.0.logs
    }

    /// Segments and their states, in commit order.
    pub fn files(&self) -> impl Iterator<Item = ListedFile> {
        self.0.listed_files()
    }

    /// Encoder of the store's embeddings; `None` if there is none yet.
    pub fn model(&self) -> Option<Model> {
        self.0.model
    }

    /// Number of ids pending erasure.
    pub fn erasure_count(&self) -> usize {
        self.0.erasures.len()
    }

    /// Returns the names of store files that the manifest does not need. Unfinished files are not included.
    pub fn obsolete_files<'a>(&self, names: &'a [String]) -> Vec<&'a str> {
        self.0.obsolete_files(names)
    }
}
