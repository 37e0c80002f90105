//! Pending erasures: items whose erasure has not reached the remote and its followers yet, in `erasing.json` beside the
//! store.
//!
//! An id is added before anything hides the item. The id stays until nothing of the item is left anywhere, whatever
//! crashes in between.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::memo::Memo;
use crate::hex::Hex;
use crate::limits::{ERASING_BYTES_MAX, ERASING_MAX};
use crate::small_file;

pub(super) const FILE: &str = "erasing.json";
const FORMAT: &str = "recalld erasing";

/// Pending erasures of one workspace.
#[derive(Debug)]
pub struct Erasing {
    home: PathBuf,
    list: List,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct List {
    format: String,
    /// Number of entries ever added.
    notes: u64,
    /// Entries by item id, as 32 hexadecimal digits.
    ids: BTreeMap<String, Noted>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Noted {
    /// Sequence number of the last entry of this id.
    note: u64,
    /// Record before which history is removed, once this record is in the log.
    record: Option<u64>,
}

/// Item whose erasure no record states yet, with its last entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owed {
    /// Id of the item.
    pub id: u128,
    note: u64,
}

impl Erasing {
    /// Opens the list in a workspace's directory; `None` if the workspace has no remote.
    ///
    /// # Errors
    /// The file is invalid or cannot be read.
    pub fn of(home: &Path) -> Result<Option<Self>, String> {
        if Memo::read(home)?.is_none() {
            return Ok(None);
        }
        let path = home.join(FILE);
        let wrong = |why: &str| format!("{}: {why}; mend it, or restore it", path.display());
        let list = match small_file::read(&path, ERASING_BYTES_MAX)? {
            None => List { format: FORMAT.into(), ..List::default() },
            Some(bytes) => {
                serde_json::from_slice(&bytes).map_err(|error| wrong(&error.to_string()))?
            }
        };
        let is_id = |id: &String| Hex::<16>::parse(id).is_some();
        if list.format != FORMAT || list.ids.len() > ERASING_MAX || !list.ids.keys().all(is_id) {
            return Err(wrong("not a list of what is to be erased"));
        }
        Ok(Some(Self { home: home.to_owned(), list }))
    }

    /// Adds items that are about to be hidden.
    ///
    /// # Errors
    /// There are too many items, or the list could not be written: nothing may be hidden.
    pub fn note(&mut self, ids: impl IntoIterator<Item = u128>) -> Result<(), String> {
        for id in ids {
            // A repeated erasure must be proven again.
            self.list.notes += 1;
            let noted = Noted { note: self.list.notes, record: None };
            self.list.ids.insert(format!("{id:032x}"), noted);
        }
        if self.list.ids.len() > ERASING_MAX {
            return Err(format!("more than {ERASING_MAX} items wait for a remote to lose them"));
        }
        self.write()
    }

    /// Returns true if an item may be gone from the local files while no record states yet that history is removed.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.list.ids.values().any(|noted| noted.record.is_none())
    }

    /// Number of pending items.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.list.ids.len()
    }

    /// Items for which no record states yet that history is removed.
    #[must_use]
    pub fn owed(&self) -> Vec<Owed> {
        let owed = self.list.ids.iter().filter(|(_, noted)| noted.record.is_none());
        let owed = owed.map(|(id, noted)| {
            let id = u128::from_str_radix(id, 16).ok()?;
            Some(Owed { id, note: noted.note })
        });
        owed.flatten().collect()
    }

    /// Newest record that ended the erasure of a pending item.
    #[must_use]
    pub fn newest(&self) -> Option<u64> {
        self.list.ids.values().filter_map(|noted| noted.record).max()
    }

    /// Notes that `record` ends history, and was made after these items were gone from the local files. An item that
    /// was added again meanwhile is still unrecorded.
    ///
    /// # Errors
    /// The list could not be written.
    pub fn ended_by(&mut self, owed: &[Owed], record: u64) -> Result<(), String> {
        for Owed { id, note } in owed {
            let noted = self.list.ids.get_mut(&format!("{id:032x}"));
            if let Some(noted) = noted.filter(|noted| noted.note == *note) {
                noted.record = Some(record);
            }
        }
        self.write()
    }

    /// Removes the items whose erasure ended with `record` or an earlier record: their data is gone everywhere.
    ///
    /// # Errors
    /// The list could not be written.
    pub fn everywhere(&mut self, record: u64) -> Result<(), String> {
        self.list.ids.retain(|_, noted| noted.record.is_none_or(|ended| ended > record));
        self.write()
    }

    fn write(&self) -> Result<(), String> {
        let path = self.home.join(FILE);
        small_file::put_json(&self.home, FILE, &self.list)
            .map_err(|error| format!("{}: {error}", path.display()))
    }
}
