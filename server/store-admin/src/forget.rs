//! Lists registered backups, and forgets deleted ones.
//!
//! Erasures no longer wait for a forgotten backup. A backup that still exists is never forgotten, because it would
//! retain items that are reported as erased everywhere.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::catalogue::Catalogue;
use crate::keep_error::KeepError;
use crate::keeping::Keeper;
use crate::known::{Known, KnownBackup, path_text};
use crate::scheduled::ScheduleReport;

/// The known backups and their schedule.
#[derive(Debug, Serialize, Deserialize)]
pub struct BackupList {
    /// The backups, in order of registration.
    pub backups: Vec<ListedBackup>,
    /// The schedule of a running server, if there is one.
    pub schedule: Option<ScheduleReport>,
}

/// A known backup.
#[derive(Debug, Serialize, Deserialize)]
pub struct ListedBackup {
    /// Id of the backup.
    pub id: String,
    /// Time of its last completion, if the backup is at its path and was finished.
    pub made_at: Option<String>,
    /// Last known path; `None` if the path is not UTF-8.
    pub path: Option<String>,
    /// Number of ids that the backup must still erase.
    pub pending: usize,
    /// True if the server created the backup on schedule.
    pub scheduled: bool,
    /// Content of the path.
    pub seen: Presence,
    /// The reason for which the backup cannot be read.
    pub why: Option<String>,
}

/// Content of a known backup's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// The known backup.
    There,
    /// No backup.
    Missing,
    /// Another backup.
    Another,
    /// A folder that cannot be read as a backup.
    Unreadable,
}

/// Backups that were forgotten.
#[derive(Debug, Serialize, Deserialize)]
pub struct ForgottenBackups {
    /// Their paths; `None` for a path that is not UTF-8.
    pub forgotten: Vec<Option<String>>,
}

/// A look at a registered backup's path: its presence, the time of the backup's last completion if it is there, and the
/// reason for which it cannot be read.
type Found = (Presence, Option<String>, Option<String>);

fn look(backup: &KnownBackup) -> Found {
    match Catalogue::read(&backup.path) {
        Ok(Some(there)) if there.id == backup.id => (Presence::There, there.made_at, None),
        Ok(Some(_)) => (Presence::Another, None, None),
        Ok(None) => (Presence::Missing, None, None),
        Err(why) => (Presence::Unreadable, None, Some(why)),
    }
}

/// Returns true if the backup may be forgotten.
fn is_gone(backup: &KnownBackup) -> bool {
    matches!(look(backup).0, Presence::Missing | Presence::Another)
}

fn failed(why: String) -> KeepError {
    KeepError::failed(why, "try again")
}

/// Lists the registered backups: path, completion time, presence, and number of pending erasures.
///
/// # Errors
/// The registry cannot be read.
pub fn list(keeper: &Keeper<'_>) -> Result<BackupList, KeepError> {
    let known = Known::read(keeper.data).map_err(failed)?;
    let row = |backup: &KnownBackup| {
        let (seen, made_at, why) = look(backup);
        ListedBackup {
            id: backup.id.clone(),
            made_at,
            path: path_text(&backup.path),
            pending: backup.pending.len(),
            scheduled: backup.is_scheduled,
            seen,
            why,
        }
    };
    let schedule = keeper.scheduled.and_then(|it| it.report(keeper.store.now()));
    Ok(BackupList { backups: known.backups.iter().map(row).collect(), schedule })
}

/// Removes a deleted backup from the registry.
pub(super) fn forget(keeper: &Keeper<'_>, path: &Path) -> Result<ForgottenBackups, KeepError> {
    let _noting = keeper.noting();
    let mut known = Known::read(keeper.data).map_err(failed)?;
    let here: Vec<&KnownBackup> = known.backups.iter().filter(|it| it.path == path).collect();
    if here.is_empty() {
        let why = format!("{} is not a known backup; {}", path.display(), known.names());
        return Err(KeepError::Wrong(why));
    }
    let gone: Vec<String> = here.iter().filter(|it| is_gone(it)).map(|it| it.id.clone()).collect();
    if gone.is_empty() {
        let (.., why) = look(here[0]);
        let there = || "the backup is there, and may hold what was erased".to_owned();
        let why = why.unwrap_or_else(there);
        let remedy = "delete the folder first, then forget it";
        return Err(KeepError::Wrong(format!("{}: {why}; {remedy}", path.display())));
    }
    known.backups.retain(|backup| !gone.contains(&backup.id));
    known.write(keeper.data).map_err(failed)?;
    Ok(ForgottenBackups { forgotten: vec![path_text(path)] })
}

/// Removes every backup from the registry that is not at its path.
pub(super) fn forget_missing(keeper: &Keeper<'_>) -> Result<ForgottenBackups, KeepError> {
    let _noting = keeper.noting();
    let mut known = Known::read(keeper.data).map_err(failed)?;
    let (gone, kept): (Vec<KnownBackup>, Vec<KnownBackup>) =
        known.backups.into_iter().partition(is_gone);
    known.backups = kept;
    if !gone.is_empty() {
        known.write(keeper.data).map_err(failed)?;
    }
    Ok(ForgottenBackups { forgotten: gone.iter().map(|backup| path_text(&backup.path)).collect() })
}
