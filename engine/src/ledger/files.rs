//! File system calls of the ledger; no other ledger module makes any.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::error::{DiskError, disk_error};
use crate::os::file_lock::FileLock;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Name of a volume that is being created (see format-spec/ledger.md, "A new volume").
const NEW_NAME: &str = "volume.new";
const LOCK_NAME: &str = "lock";

/// Creates the directory, readable by its owner only, unless the directory exists.
pub(super) fn make_folder(folder: &Path) -> Result<(), DiskError> {
    match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(disk_error("create", folder, error))
        }
        Err(_) => Ok(()),
        Ok(()) => folder.parent().map_or(Ok(()), sync_folder),
    }
}

/// Acquires the writer's lock (LED-02); `None` if another writer holds the lock.
pub(super) fn lock(folder: &Path) -> Result<Option<FileLock>, DiskError> {
    let path = folder.join(LOCK_NAME);
    FileLock::try_acquire(&path).map_err(|error| disk_error("lock", &path, error))
}

/// Lists at most `names_max + 1` names of `folder`, so that the caller notices an excess.
pub(super) fn names(folder: &Path, names_max: usize) -> Result<Vec<std::ffi::OsString>, DiskError> {
    let failed = |error| disk_error("list", folder, error);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    entries
        .take(names_max.saturating_add(1))
        .map(|entry| Ok(entry.map_err(failed)?.file_name()))
        .collect()
}

pub(super) fn open_for_reading(path: &Path) -> Result<File, DiskError> {
    File::open(path).map_err(|error| disk_error("open", path, error))
}

pub(super) fn open_for_appending(path: &Path) -> Result<File, DiskError> {
    OpenOptions::new().append(true).open(path).map_err(|error| disk_error("open", path, error))
}

pub(super) fn bytes(path: &Path) -> Result<u64, DiskError> {
    std::fs::metadata(path)
        .map(|about| about.len())
        .map_err(|error| disk_error("look at", path, error))
}

pub(super) fn seek(mut file: &File, path: &Path, at: u64) -> Result<(), DiskError> {
    file.seek(SeekFrom::Start(at)).map(drop).map_err(|error| disk_error("read", path, error))
}

pub(super) fn read_exact(
    from: &mut impl Read,
    path: &Path,
    into: &mut [u8],
) -> Result<(), DiskError> {
    from.read_exact(into).map_err(|error| disk_error("read", path, error))
}

pub(super) fn write(mut file: &File, path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    file.write_all(bytes).map_err(|error| disk_error("write", path, error))
}

pub(super) fn sync(file: &File, path: &Path) -> Result<(), DiskError> {
    file.sync_data().map_err(|error| disk_error("sync", path, error))
}

/// Truncates `path` to `bytes` and syncs the file.
pub(super) fn cut(path: &Path, bytes: u64) -> Result<(), DiskError> {
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|error| disk_error("open", path, error))?;
    let done = file.set_len(bytes).and_then(|()| file.sync_all());
    done.map_err(|error| disk_error("cut the torn end of", path, error))
}

/// Removes the incomplete volume that a crash during creation left behind.
pub(super) fn remove_unfinished(folder: &Path) -> Result<(), DiskError> {
    let path = folder.join(NEW_NAME);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(disk_error("remove", &path, error))
        }
        _ => Ok(()),
    }
}

/// Creates the volume `path` of `folder` with `header`, durably and atomically, and returns the file open for
/// appending.
pub(super) fn create_volume(folder: &Path, path: &Path, header: &[u8]) -> Result<File, DiskError> {
    let new: PathBuf = folder.join(NEW_NAME);
    let file = OpenOptions::new().append(true).create_new(true).mode(FILE_MODE).open(&new);
    let file = file.map_err(|error| disk_error("create", &new, error))?;
    write(&file, &new, header)?;
    file.sync_all().map_err(|error| disk_error("sync", &new, error))?;
    std::fs::rename(&new, path).map_err(|error| disk_error("rename", &new, error))?;
    sync_folder(folder)?;
    Ok(file)
}

fn sync_folder(folder: &Path) -> Result<(), DiskError> {
    // The parent of a relative path of one component is the empty path, which names no directory.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let synced = File::open(folder).and_then(|open| open.sync_all());
    synced.map_err(|error| disk_error("sync", folder, error))
}
