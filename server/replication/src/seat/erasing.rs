//! The items whose erasure is to reach a remote and the nodes that follow it: `erasing.json`, beside the store.
//!
//! An id is noted before anything hides the item, and stays until nothing of it is anywhere, whatever crashes
//! in between.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::memo::Memo;
use crate::hex::Hex;
use crate::limits::{ERASING_BYTES_MAX, ERASING_MAX};
use crate::small_file;

pub(super) const FILE: &str = "erasing.json";
const FORMAT: &str = "recalld erasing";

/// The list of one workspace.
#[derive(Debug)]
pub struct Erasing {
    home: PathBuf,
    list: List,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct List {
    format: String,
    /// How many notes were ever made.
    notes: u64,
    /// By id.
    ids: BTreeMap<String, Noted>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Noted {
    /// Which note it is: the last one of this id.
    note: u64,
    /// The record before which history goes, once that is in the chain.
    record: Option<u64>,
}

/// An item of which no record says yet that history goes, as it was noted last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owed {
    /// The item.
    pub id: u128,
    note: u64,
}

impl Erasing {
    /// The list in a workspace's folder; `None` where the workspace has nothing to do with a remote.
    ///
    /// # Errors
    /// What is wrong with the file.
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

    /// Notes items that are about to be hidden.
    ///
    /// # Errors
    /// They are too many, or the list could not be written: nothing may be hidden.
    pub fn note(&mut self, ids: impl IntoIterator<Item = u128>) -> Result<(), String> {
        for id in ids {
            // What is asked for once more is to be proven once more.
            self.list.notes += 1;
            let noted = Noted { note: self.list.notes, record: None };
            self.list.ids.insert(format!("{id:032x}"), noted);
        }
        if self.list.ids.len() > ERASING_MAX {
            return Err(format!("more than {ERASING_MAX} items wait for a remote to lose them"));
        }
        self.write()
    }

    /// Whether an item may have left the files here, and no record says yet that history goes.
    #[must_use]
    pub fn owes(&self) -> bool {
        self.list.ids.values().any(|noted| noted.record.is_none())
    }

    /// How many items wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.list.ids.len()
    }

    /// The items of which no record says yet that history goes.
    #[must_use]
    pub fn owed(&self) -> Vec<Owed> {
        let owed = self.list.ids.iter().filter(|(_, noted)| noted.record.is_none());
        let owed = owed.map(|(id, noted)| {
            let id = u128::from_str_radix(id, 16).ok()?;
            Some(Owed { id, note: noted.note })
        });
        owed.flatten().collect()
    }

    /// The newest record by which items ended that wait here.
    #[must_use]
    pub fn newest(&self) -> Option<u64> {
        self.list.ids.values().filter_map(|noted| noted.record).max()
    }

    /// These were out of the files here before this record was made, which ends history. One that was noted again
    /// meanwhile is owed still.
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

    /// What ended with this record or an earlier one is nowhere any more.
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
