//! A store that another process writes, opened for reading only.
//!
//! Takes no lock and changes nothing. The writer may remove files between the moment a manifest is
//! read and the moment its segments are mapped; the newer manifest is then read instead. What is
//! mapped stays readable after it is removed.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::OpenError;
use crate::ids::Seq;
use crate::manifest::Manifest;
use crate::os::disk::Disk;
use crate::reading::snapshot::Snapshot;
use crate::store::opening::Opened;

/// How often a reader begins again while a writer moves files under it.
pub const OPEN_ATTEMPTS_MAX: u32 = 32;

/// A view of a store's directory that can be brought up to date.
#[derive(Debug)]
pub struct Reader {
    disk: Arc<dyn Disk>,
    opened: Mutex<Opened>,
}

impl Reader {
    /// Opens the newest manifest of a directory and all that its logs hold, unsynced commits
    /// included. A directory without a manifest holds no store.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        let opened = open(&*disk, None)?;
        Ok(Self { disk, opened: Mutex::new(opened) })
    }

    /// The store as it was found last.
    pub fn snapshot(&self) -> Snapshot {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).snapshot()
    }

    /// Reads what has been written since. Gives the newest commit. After an error the older view
    /// stays.
    pub fn refresh(&self) -> Result<Seq, OpenError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        *opened = open(&*self.disk, Some(&opened))?;
        Ok(opened.next_seq - 1)
    }
}

fn open(disk: &dyn Disk, known: Option<&Opened>) -> Result<Opened, OpenError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match try_open(disk, known) {
            // A commit that is being appended, a file that was just removed: look again. What is
            // really wrong stays wrong.
            Err(OpenError::Damaged(_) | OpenError::Disk(_)) if attempts < OPEN_ATTEMPTS_MAX => {
                std::thread::yield_now();
            }
            other => return other,
        }
    }
}

fn try_open(disk: &dyn Disk, known: Option<&Opened>) -> Result<Opened, OpenError> {
    let names = disk.names()?;
    let (manifest, _) = Manifest::newest(disk, &names)?.ok_or(OpenError::NoStore)?;
    let mut opened = Opened::sealed(disk, manifest, known)?;
    opened.replay(disk, &names, true)?;
    opened.take_indexes(disk, &names);
    Ok(opened)
}
