//! Statistics of a data directory's backups: their number and the time of the newest.

use std::path::Path;

use crate::catalogue::Catalogue;
use crate::known::Known;

/// Statistics of a data directory's backups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToldBackups {
    /// Registered backups.
    pub known: usize,
    /// Registered backups that can be read now.
    pub reachable: usize,
    /// Completion time of the newest readable backup.
    pub last_at: Option<String>,
    /// Pending erasures of all backups together.
    pub pending: usize,
}

/// Reads the registry and all reachable backups.
///
/// # Errors
/// The registry cannot be read, with the reason.
pub fn told_backups(data: &Path) -> Result<ToldBackups, String> {
    let known = Known::read(data)?.backups;
    let mut told = ToldBackups { known: known.len(), ..ToldBackups::default() };
    for backup in known {
        told.pending += backup.pending.len();
        // A backup on an unmounted disk is not an error.
        let Ok(Some(made)) = Catalogue::read(&backup.path) else { continue };
        told.reachable += 1;
        told.last_at = told.last_at.max(made.made_at); // in RFC 3339, in UTC: later is greater
    }
    Ok(told)
}
