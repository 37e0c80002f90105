//! What a data directory can say of its backups: how many there are, and when one was made last.

use std::path::Path;

use crate::catalogue::Catalogue;
use crate::known::Known;

/// The backups of a data directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToldBackups {
    /// Backups on record.
    pub known: usize,
    /// Of these, those whose place can be read now.
    pub reachable: usize,
    /// When the newest of those was finished.
    pub last_at: Option<String>,
    /// Ids that they have yet to lose, all together.
    pub pending: usize,
}

/// Asks the record, and the backups themselves where they can be reached.
///
/// # Errors
/// The record cannot be read; says why.
pub fn told_backups(data: &Path) -> Result<ToldBackups, String> {
    let known = Known::read(data)?.backups;
    let mut told = ToldBackups { known: known.len(), ..ToldBackups::default() };
    for backup in known {
        told.pending += backup.pending.len();
        // A backup whose disk is away says nothing; that is no fault.
        let Ok(Some(made)) = Catalogue::read(&backup.path) else { continue };
        told.reachable += 1;
        told.last_at = told.last_at.max(made.made_at); // in RFC 3339, in UTC: later is greater
    }
    Ok(told)
}
