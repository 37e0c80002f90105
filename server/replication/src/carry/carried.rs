//! Uploaded parts of files that no record references yet: `carried.json`, beside the store. After a restart these parts
//! are not uploaded again.
//!
//! Objects in the list on disk count as live, whatever became of their file. No object of the list may be removed
//! before a list without the object is on disk (REM-35).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::core::may_resume;
use crate::hex::{Hash, Nonce};
use crate::limits::{CARRIED_BYTES_MAX, CARRIED_FILES_MAX};
use crate::names::DataKey;
use crate::parts::Runs;
use crate::small_file;

pub(crate) const FILE: &str = "carried.json";
const FORMAT: &str = "recalld carried";

/// Uploaded parts of one workspace, for the epoch that writes the list.
#[derive(Debug)]
pub struct Carried {
    home: PathBuf,
    store: Nonce,
    epoch: u64,
    /// Uploads of the previous epoch, which this epoch may adopt.
    pub(super) left: BTreeMap<String, Listed>,
}

#[derive(Debug, Serialize, Deserialize)]
struct List {
    format: String,
    store: Nonce,
    epoch: u64,
    files: BTreeMap<String, Listed>,
}

/// A file of which at least one part is uploaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    pub(super) key: DataKey,
    pub(super) bytes: u64,
    pub(super) sha256: Hash,
    /// Ranges of uploaded part numbers, both ends inclusive.
    pub(super) parts: Runs,
}

impl Carried {
    /// Opens the list in a workspace's directory, for the writer of `epoch` of this store. A list that cannot be read,
    /// or that is not of the epoch right before, is ignored: all files are then uploaded again.
    #[must_use]
    pub fn of(home: &Path, store: Nonce, epoch: u64) -> Self {
        let list = small_file::read_json::<List>(&home.join(FILE), CARRIED_BYTES_MAX);
        let is_ours = |list: &List| {
            list.format == FORMAT && list.store == store && may_resume(list.epoch, epoch)
        };
        let left = list.ok().flatten().filter(is_ours).map(|list| list.files).unwrap_or_default();
        Self { home: home.to_owned(), store, epoch, left }
    }

    /// Replaces the list on disk. If there are more files than `CARRIED_FILES_MAX`, the largest are retained.
    pub(super) fn write(&self, files: &BTreeMap<String, Listed>) -> io::Result<()> {
        let mut largest: Vec<(&String, &Listed)> = files.iter().collect();
        largest.sort_by_key(|(_, listed)| std::cmp::Reverse(listed.bytes));
        largest.truncate(CARRIED_FILES_MAX);
        let files = largest.into_iter().map(|(name, listed)| (name.clone(), listed.clone()));
        let list = List {
            format: FORMAT.into(),
            store: self.store,
            epoch: self.epoch,
            files: files.collect(),
        };
        small_file::put_json(&self.home, FILE, &list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(count: u64) -> BTreeMap<String, Listed> {
        let file = |bytes| {
            let key = DataKey { epoch: 4, nonce: Nonce::MOST };
            let listed = Listed { key, bytes, sha256: Hash::MOST, parts: vec![(0, 3), (7, 9)] };
            (format!("segment-{bytes:020}"), listed)
        };
        (0..count).map(file).collect()
    }

    #[test]
    fn a_list_counts_for_the_next_epoch_of_its_store_alone() {
        let home = tempfile::tempdir().unwrap();
        let of = |store, epoch| Carried::of(home.path(), store, epoch);
        assert!(of(Nonce::NONE, 5).left.is_empty());
        of(Nonce::NONE, 4).write(&files(3)).unwrap();
        assert_eq!(of(Nonce::NONE, 5).left, files(3));
        for (store, epoch) in [(Nonce::NONE, 4), (Nonce::NONE, 6), (Nonce::MOST, 5)] {
            assert!(of(store, epoch).left.is_empty(), "{epoch}");
        }
        std::fs::write(home.path().join(FILE), "{").unwrap();
        assert!(of(Nonce::NONE, 5).left.is_empty());
    }

    #[test]
    fn the_longest_list_has_the_largest_files_and_can_be_read() {
        let home = tempfile::tempdir().unwrap();
        let most = CARRIED_FILES_MAX as u64;
        Carried::of(home.path(), Nonce::NONE, 4).write(&files(most + 9)).unwrap();
        let left = Carried::of(home.path(), Nonce::NONE, 5).left;
        assert_eq!(
            (left.len(), left.values().map(|listed| listed.bytes).min()),
            (CARRIED_FILES_MAX, Some(9))
        );
    }
}
