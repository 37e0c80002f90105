//! Read-only access to a store that another process writes.
//!
//! Acquires no lock and changes nothing. The writer may remove files between the read of a manifest and the mapping of
//! its segments; the reader then retries with the newer manifest. A mapped file stays readable after its removal.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::OpenError;
use crate::ids::Seq;
use crate::manifest::Manifest;
use crate::os::disk::Disk;
use crate::query::snapshot::Snapshot;
use crate::store::recovery::RecoveredState;

/// Maximum attempts of a reader whose files a writer replaces meanwhile.
pub const OPEN_ATTEMPTS_MAX: u32 = 32;

/// Refreshable view of a store's directory.
#[derive(Debug)]
pub struct StoreReader {
    disk: Arc<dyn Disk>,
    state: Mutex<RecoveredState>,
}

impl StoreReader {
    /// Opens the newest manifest of a directory and replays its logs, including unsynced commits. A directory without a
    /// manifest has no store.
    pub fn open(disk: Arc<dyn Disk>) -> Result<Self, OpenError> {
        let opened = open(&*disk, None)?;
        Ok(Self { disk, state: Mutex::new(opened) })
    }

    /// Snapshot as of the open or the last refresh.
    pub fn snapshot(&self) -> Snapshot {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).snapshot()
    }

    /// Reads all later commits; returns the newest commit. After an error the older view stays.
    pub fn refresh(&self) -> Result<Seq, OpenError> {
        let mut opened = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *opened = open(&*self.disk, Some(&opened))?;
        Ok(opened.next_seq - 1)
    }
}

fn open(disk: &dyn Disk, known: Option<&RecoveredState>) -> Result<RecoveredState, OpenError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match try_open(disk, known) {
            // Retries for a commit in progress or a file removed meanwhile. Real damage fails every attempt.
            Err(OpenError::Damaged(_) | OpenError::Disk(_)) if attempts < OPEN_ATTEMPTS_MAX => {
                std::thread::yield_now();
            }
            other => return other,
        }
    }
}

fn try_open(disk: &dyn Disk, known: Option<&RecoveredState>) -> Result<RecoveredState, OpenError> {
    let names = disk.names()?;
    let (manifest, _) = Manifest::newest(disk, &names)?.ok_or(OpenError::NoStore)?;
    let mut opened = RecoveredState::open_sealed(disk, manifest, known)?;
    opened.replay(disk, &names, true)?;
    opened.load_indexes(disk, &names);
    Ok(opened)
}
