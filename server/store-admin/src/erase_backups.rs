//! Erasure in the registered backups.
//!
//! The store of a backup is opened, erases the ids, and is closed. The pending ids of an unreachable backup remain in
//! `backups.json`; the server and `recalld erase --pending` retry.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use engine::os::disk::FsDisk;
use engine::{
    Batch, Env, ItemId, OpenError, Options, Snapshot, Store, StoreReader, TombstoneDraft,
};
use serde::{Deserialize, Serialize};

use crate::backup::store_of;
use crate::catalogue::Catalogue;
use crate::keep_error::KeepError;
use crate::keeping::Keeper;
use crate::known::{Known, KnownBackup};
use crate::limits::ERASE_ITEMS_MAX;
use recalld_fs_util::copies;

/// Result of the erasure in one backup.
#[derive(Debug, Serialize, Deserialize)]
pub struct BackupErasure {
    /// True if the backup has no pending ids any more.
    pub done: bool,
    /// Number of erased items.
    pub erased: usize,
    /// Path of the backup.
    pub path: String,
    /// The reason for which the backup still has pending ids.
    pub why: Option<String>,
}

/// Erases the pending ids in each registered backup. The caller holds the job permit.
pub(super) fn erase(keeper: &Keeper<'_>) -> Result<Vec<BackupErasure>, KeepError> {
    let failed = |why| {
        KeepError::failed(why, "run `recalld erase --pending` when it may be read and written")
    };
    let known = {
        let _noting = keeper.noting();
        Known::read(keeper.data).map_err(failed)?
    };
    // Taken after the registry was read, so the snapshot has the tombstones of all recorded ids.
    let snapshot = keeper.store.snapshot();
    let mut lost = Vec::with_capacity(known.backups.len());
    for backup in known.backups.iter().filter(|backup| !backup.pending.is_empty()) {
        let path = backup.path.display().to_string();
        match requests(&snapshot, &backup.pending)
            .and_then(|requests| erase_in(keeper, backup, requests))
        {
            Err(why) => {
                lost.push(BackupErasure { done: false, erased: 0, path, why: Some(why) });
            }
            Ok(erased) => {
                note_lost(keeper, backup).map_err(failed)?;
                lost.push(BackupErasure { done: true, erased, path, why: None });
            }
        }
    }
    Ok(lost)
}

/// Removes the erased ids of a backup from the registry; others may have been added in the meantime.
fn note_lost(keeper: &Keeper<'_>, lost: &KnownBackup) -> Result<(), String> {
    let _noting = keeper.noting();
    let mut known = Known::read(keeper.data)?;
    if let Some(backup) = known.backups.iter_mut().find(|backup| backup.id == lost.id) {
        backup.pending.retain(|id| !lost.pending.contains(id));
        known.write(keeper.data)?;
    }
    Ok(())
}

/// Returns true if a backup with pending ids is still at its registered path.
pub(super) fn is_due(known: &Known) -> bool {
    known.backups.iter().filter(|backup| !backup.pending.is_empty()).any(|backup| {
        let there = Catalogue::read(&backup.path);
        // A backup that cannot be read counts, because the attempt reports the error.
        there.map_or(true, |there| there.is_some_and(|there| there.id == backup.id))
    })
}

/// Returns the store's tombstones of the pending ids, so that the backup records the same author, time and reason. An
/// id without an erasing tombstone was never erased, because its request failed.
fn requests(snapshot: &Snapshot, pending: &BTreeSet<u128>) -> Result<Vec<TombstoneDraft>, String> {
    let mut requests = Vec::with_capacity(pending.len());
    for &target in pending {
        let stones = snapshot.tombstones(target).map_err(|damage| damage.to_string())?;
        if let Some(stone) = stones.iter().rev().find(|stone| stone.erase) {
            requests.push(TombstoneDraft {
                target,
                at: Some(stone.at),
                by: stone.by.to_owned(),
                reason: stone.reason.to_owned(),
                erase: true,
                ..TombstoneDraft::default()
            });
        }
    }
    Ok(requests)
}

fn erase_in(
    keeper: &Keeper<'_>,
    backup: &KnownBackup,
    requests: Vec<TombstoneDraft>,
) -> Result<usize, String> {
    let there = Catalogue::read(&backup.path)?;
    let there = there.ok_or("it is not there; is the disk mounted?")?;
    if there.id != backup.id {
        return Err("another backup is there now".to_owned());
    }
    let folder = store_of(&backup.path);
    if !folder.is_dir() {
        return Ok(0);
    }
    if there.made_at.is_none() && is_begun_only(&folder)? {
        remove_files(&folder).map_err(copies::at(&folder))?;
        return Ok(0);
    }
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let ground = Env::on_disk(&folder).map_err(|error| text(&error))?;
    let store = Store::open(ground, Options::default()).map_err(|error| text(&error))?;
    let snapshot = store.snapshot();
    let pace = keeper.pace("erasing in a backup", store.bytes_on_disk());
    let mut tombstones = Vec::new();
    for stone in requests {
        if snapshot.find(ItemId(stone.target)).map_err(|damage| text(&damage))?.is_some() {
            tombstones.push(stone);
        }
    }
    drop(snapshot);
    let erased = tombstones.len();
    // Ids that accumulated over time may exceed the batch limit of a store.
    for part in tombstones.chunks(ERASE_ITEMS_MAX) {
        let batch = Batch { tombstones: part.to_vec(), ..Batch::default() };
        store.write(batch).map_err(|error| text(&error))?;
        store.erase_pending(&pace).map_err(|error| text(&error))?;
    }
    store.erase_pending(&pace).map_err(|error| text(&error))?;
    match store.erasures_pending() {
        Ok(0) => Ok(erased),
        Ok(_) => Err("called off".to_owned()),
        Err(error) => Err(text(&error)),
    }
}

/// Returns true if a first backup was interrupted before it had a manifest; its files are then useless.
fn is_begun_only(folder: &Path) -> Result<bool, String> {
    let disk = FsDisk::open(folder).map_err(|error| error.to_string())?;
    match StoreReader::open(Arc::new(disk)) {
        Err(OpenError::NoStore) => Ok(true),
        Err(error) => Err(error.to_string()),
        Ok(_) => Ok(false),
    }
}

fn remove_files(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        fs::remove_file(entry?.path())?;
    }
    copies::sync_folder(folder)
}
