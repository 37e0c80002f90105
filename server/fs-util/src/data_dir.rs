//! Layout of a data directory, and detection of folders that only resemble one.
//!
//! Defines names and checks based on names; opens no file.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use recalld_common::slug::LOCAL_WORKSPACE;

/// Backup manifest.
pub const BACKUP_FILE: &str = "backup.json";
/// Metastore: tenants, credentials, clients, grants, usage.
pub const CONTROL_FILE: &str = "control.redb";
/// Folder of a benchmark's temporary store while the benchmark runs.
pub const BENCH_SCRATCH: &str = "bench-scratch";
/// Folder of the workspaces.
pub const TENANTS: &str = "tenants";
/// Folder that exists in a data directory during a restore.
pub const RESTORING: &str = "restoring";

/// Folder of the workspace `local`.
pub fn workspace_dir(data: &Path) -> PathBuf {
    tenant_dir(data, LOCAL_WORKSPACE)
}

/// Folder of a workspace.
pub fn tenant_dir(data: &Path, name: &str) -> PathBuf {
    data.join(TENANTS).join(name)
}

/// Folders of all workspaces.
pub fn tenant_dirs(data: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(data.join(TENANTS)) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Returns true if a folder is a backup, possibly damaged or unfinished.
pub fn is_backup(folder: &Path) -> bool {
    folder.join(BACKUP_FILE).symlink_metadata().is_ok()
}

/// Returns true if a data directory has a store.
pub fn has_store(data: &Path) -> bool {
    workspace_dir(data).join("store").is_dir()
}

/// Returns true if a folder can become a data directory and is not one yet.
pub fn is_unused(data: &Path) -> bool {
    data.is_dir() && !has_store(data) && !is_backup(data) && check_restored(data).is_ok()
}

/// Checks that a store exists. For read-only commands, which must not create a store.
pub fn check_store(data: &Path) -> Result<(), String> {
    check_restored(data)?;
    if has_store(data) {
        return Ok(());
    }
    let shown = data.display();
    match data.metadata() {
        Ok(about) if !about.is_dir() => {
            Err(format!("{shown} is no folder; say where the data is with --data DIR"))
        }
        Ok(_) => Err(format!(
            "{shown}: there is no store yet; recalld serve, remember, ingest or import makes one, or say \
             where the data is with --data DIR"
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!(
            "{shown} is not there; say where the data is with --data DIR, or make a store there: \
             recalld serve, remember, ingest, import or restore"
        )),
        Err(error) => Err(format!("{shown}: {error}; run this as the user that serves")),
    }
}

/// Rejects a data directory with a running or interrupted restore (BAK-08).
pub fn check_restored(data: &Path) -> Result<(), String> {
    let within = data.join(RESTORING);
    match within.symlink_metadata() {
        Err(_) => Ok(()),
        Ok(_) => Err(format!(
            "{} is there: a restore runs, or was cut short; wait for it, or remove all that is in \
             {} and restore again",
            within.display(),
            data.display()
        )),
    }
}
