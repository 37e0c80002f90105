//! Lists registered backups, and forgets deleted ones.
//!
//! Erasures no longer wait for a forgotten backup. A backup that still exists is never forgotten, because it would
//! retain items that are reported as erased everywhere.

use std::path::Path;

use serde_json::{Value, json};

use crate::catalogue::Catalogue;
use crate::keep_error::KeepError;
use crate::keeping::Keeper;
use crate::known::{Known, KnownBackup};

/// Content of a registered backup's path.
enum Seen {
    /// The registered backup, with the time of its last completion if any.
    There(Option<String>),
    /// No backup.
    Missing,
    /// Another backup.
    Another,
    /// A folder that cannot be read as a backup.
    Unreadable(String),
}

impl Seen {
    fn look(backup: &KnownBackup) -> Self {
        match Catalogue::read(&backup.path) {
            Ok(Some(there)) if there.id == backup.id => Self::There(there.made_at),
            Ok(Some(_)) => Self::Another,
            Ok(None) => Self::Missing,
            Err(why) => Self::Unreadable(why),
        }
    }

    /// Returns true if the backup may be forgotten.
    fn is_gone(&self) -> bool {
        matches!(self, Self::Missing | Self::Another)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::There(_) => "there",
            Self::Missing => "missing",
            Self::Another => "another",
            Self::Unreadable(_) => "unreadable",
        }
    }
}

fn failed(why: String) -> KeepError {
    KeepError::failed(why, "try again")
}

/// Lists the registered backups: path, completion time, presence, and number of pending erasures.
pub(super) fn list(keeper: &Keeper<'_>) -> Result<Value, KeepError> {
    let known = Known::read(keeper.data).map_err(failed)?;
    let row = |backup: &KnownBackup| {
        let seen = Seen::look(backup);
        let made_at = match &seen {
            Seen::There(made_at) => made_at.as_deref(),
            _ => None,
        };
        let why = match &seen {
            Seen::Unreadable(why) => Some(why),
            _ => None,
        };
        json!({
            "path": backup.path.to_str(), "id": backup.id, "made_at": made_at,
            "seen": seen.name(), "why": why, "pending": backup.pending.len(),
            "scheduled": backup.is_scheduled,
        })
    };
    let schedule = keeper.scheduled.map_or(Value::Null, |it| it.to_json(keeper.store.now()));
    let backups: Vec<Value> = known.backups.iter().map(row).collect();
    Ok(json!({"backups": backups, "schedule": schedule}))
}

/// Removes a deleted backup from the registry.
pub(super) fn forget(keeper: &Keeper<'_>, path: &Path) -> Result<Value, KeepError> {
    let _noting = keeper.noting();
    let mut known = Known::read(keeper.data).map_err(failed)?;
    let here: Vec<&KnownBackup> = known.backups.iter().filter(|it| it.path == path).collect();
    if here.is_empty() {
        let why = format!("{} is not a known backup; {}", path.display(), known.names());
        return Err(KeepError::Wrong(why));
    }
    let gone: Vec<String> =
        here.iter().filter(|it| Seen::look(it).is_gone()).map(|it| it.id.clone()).collect();
    if gone.is_empty() {
        let why = match Seen::look(here[0]) {
            Seen::Unreadable(why) => why,
            _ => "the backup is there, and may hold what was erased".to_owned(),
        };
        let remedy = "delete the folder first, then forget it";
        return Err(KeepError::Wrong(format!("{}: {why}; {remedy}", path.display())));
    }
    known.backups.retain(|backup| !gone.contains(&backup.id));
    known.write(keeper.data).map_err(failed)?;
    Ok(json!({"forgotten": [path.to_str()]}))
}

/// Removes every backup from the registry that is not at its path.
pub(super) fn forget_missing(keeper: &Keeper<'_>) -> Result<Value, KeepError> {
    let _noting = keeper.noting();
    let mut known = Known::read(keeper.data).map_err(failed)?;
    let (gone, kept): (Vec<KnownBackup>, Vec<KnownBackup>) =
        known.backups.into_iter().partition(|backup| Seen::look(backup).is_gone());
    known.backups = kept;
    if !gone.is_empty() {
        known.write(keeper.data).map_err(failed)?;
    }
    Ok(json!({"forgotten": gone.iter().map(|backup| backup.path.to_str()).collect::<Vec<_>>()}))
}
