//! A data directory: what lies where in it, and what only looks like one.
//!
//! Owns names and questions that a look at names answers; opens nothing.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use recalld_common::slug::LOCAL_WORKSPACE;

/// The file's name in a backup.
pub const BACKUP_FILE: &str = "backup.json";
/// The control store: tenants, credentials, clients, grants, usage.
pub const CONTROL_FILE: &str = "control.redb";
/// The folder of the scratch store of a benchmark, while that runs.
pub const BENCH_SCRATCH: &str = "bench-scratch";
/// The folder of the workspaces.
pub const TENANTS: &str = "tenants";
/// The folder in a data directory that is there, while it is restored.
pub const RESTORING: &str = "restoring";

/// The directory of the workspace `local`.
pub fn workspace_dir(data: &Path) -> PathBuf {
    tenant_dir(data, LOCAL_WORKSPACE)
}

/// The directory of a workspace.
pub fn tenant_dir(data: &Path, name: &str) -> PathBuf {
    data.join(TENANTS).join(name)
}

/// The folders of all workspaces.
pub fn tenant_dirs(data: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(data.join(TENANTS)) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Whether a folder is a backup's, be it damaged or unfinished.
pub fn is_backup(folder: &Path) -> bool {
    folder.join(BACKUP_FILE).symlink_metadata().is_ok()
}

/// Whether a store was ever made in a data directory.
pub fn has_store(data: &Path) -> bool {
    workspace_dir(data).join("store").is_dir()
}

/// Whether a folder could become a data directory, and has not.
pub fn is_unused(data: &Path) -> bool {
    data.is_dir() && !has_store(data) && !is_backup(data) && check_restored(data).is_ok()
}

/// For whoever only reads: a store must be there, and must not be made by looking at it.
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

/// Refuses a data directory that a restore was cut short in (BAK-08).
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
