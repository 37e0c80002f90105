//! Type of a folder to verify or salvage: a data directory, a backup, or a single store.
//!
//! Read-only: creates no folders, keys or locks.

use std::path::{Path, PathBuf};

use engine::ledger::LedgerReport;

use crate::catalogue::Catalogue;
use crate::trusted::{LedgerPlace, walk_ledger_in};
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_common::slug::is_slug;
use recalld_fs_util::copies;
use recalld_fs_util::data_dir::{is_backup, tenant_dir, workspace_dir};

/// Maximum attempts to read a backup that changes during the check.
const ATTEMPTS_MAX: u32 = 3;

/// A folder with a store.
#[derive(Debug)]
pub struct Place {
    root: PathBuf,
    kind: Kind,
    workspace: String,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Data,
    Backup,
    Store,
}

/// Result of checking a backup's files outside the stores and the ledger's chain.
#[derive(Debug)]
pub struct BackupFiles {
    /// Time of the last completion.
    pub made_at: Option<String>,
    /// Number of files listed in `backup.json`.
    pub files: usize,
    /// Violated rules, each with its id.
    pub findings: Vec<String>,
}

/// Result of checking the ledger and files around a store.
#[derive(Debug)]
pub struct Beside {
    /// Result of walking the ledger, or the reason for which it could not be walked. `None` if there is no ledger, or
    /// its owner is unknown.
    pub ledger: Option<Result<LedgerReport, String>>,
    /// Result for the files that a backup lists; `None` if the folder is not a backup.
    pub backup: Option<BackupFiles>,
}

impl Beside {
    fn is_clean(&self) -> bool {
        self.ledger.as_ref().is_none_or(|told| told.as_ref().is_ok_and(|report| report.ok))
            && self.backup.as_ref().is_none_or(|backup| backup.findings.is_empty())
    }
}

impl Place {
    /// Describes a data directory, or a backup if `data` is one.
    pub fn data(data: &Path) -> Self {
        let kind = if is_backup(data) { Kind::Backup } else { Kind::Data };
        Self { root: data.to_owned(), kind, workspace: LOCAL_WORKSPACE.to_owned() }
    }

    /// Detects the type of `folder`.
    pub fn of(folder: &Path) -> Self {
        let kind = if is_backup(folder) {
            Kind::Backup
        } else if workspace_dir(folder).is_dir() {
            Kind::Data
        } else {
            Kind::Store
        };
        Self { root: folder.to_owned(), kind, workspace: LOCAL_WORKSPACE.to_owned() }
    }

    /// Returns the directories of the tenants that have a store, sorted by name.
    ///
    /// # Errors
    /// The tenants cannot be listed; the text names the file.
    pub fn tenants(&self) -> Result<Vec<Self>, String> {
        let mut names: Vec<String> = match self.kind {
            Kind::Store => Vec::new(),
            Kind::Backup => {
                // A manifest that cannot be read is reported as a finding elsewhere.
                let parts = self.made().ok().flatten().map(|made| made.parts).unwrap_or_default();
                let with_store = parts.into_iter().filter(|part| part.seq.is_some());
                with_store.map(|part| part.name).collect()
            }
            Kind::Data => {
                let folder = self.root.join("tenants");
                let entries = std::fs::read_dir(&folder).map_err(copies::at(&folder))?;
                let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
                names
                    .filter(|name| *name != LOCAL_WORKSPACE && is_slug(name))
                    .filter(|name| tenant_dir(&self.root, name).join("store").is_dir())
                    .collect()
            }
        };
        names.sort_unstable();
        let of = |workspace| Self { root: self.root.clone(), kind: self.kind, workspace };
        Ok(names.into_iter().map(of).collect())
    }

    /// Name of the workspace.
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Path of the store, which may not exist.
    pub fn store(&self) -> PathBuf {
        match self.kind {
            Kind::Data | Kind::Backup => self.home().join("store"),
            Kind::Store => self.root.clone(),
        }
    }

    fn home(&self) -> PathBuf {
        tenant_dir(&self.root, &self.workspace)
    }

    /// Checks the ledger and files around the store. If a new backup was written into the folder during the check, the
    /// ledger's volumes and the backup's files are checked again. A running backup changes these before its
    /// `backup.json`, which would otherwise be reported as damage.
    ///
    /// `tell` receives the current step and its progress.
    pub fn beside(&self, tell: &dyn Fn(&str, u64)) -> Beside {
        settled(|| self.made(), |made| self.read_beside(made, tell), Beside::is_clean)
    }

    /// Reads the current manifest of a backup.
    fn made(&self) -> Result<Option<Catalogue>, String> {
        match self.kind {
            Kind::Backup => Catalogue::read(&self.root),
            Kind::Data | Kind::Store => Ok(None),
        }
    }

    fn read_beside(
        &self,
        made: &Result<Option<Catalogue>, String>,
        tell: &dyn Fn(&str, u64),
    ) -> Beside {
        let is_whole = matches!(self.kind, Kind::Backup) && self.workspace == LOCAL_WORKSPACE;
        let backup = is_whole.then(|| self.checked(made, tell));
        Beside { ledger: self.ledger(made, tell).transpose(), backup }
    }

    /// Walks the ledger with the keys that the folder trusts; `None` if there is no ledger, or its owner is unknown.
    fn ledger(
        &self,
        made: &Result<Option<Catalogue>, String>,
        tell: &dyn Fn(&str, u64),
    ) -> Result<Option<LedgerReport>, String> {
        let folder = self.home().join("ledger");
        let keys = match self.kind {
            Kind::Store => return Ok(None),
            _ if !folder.is_dir() => return Ok(None),
            // A manifest that is unreadable or of an unfinished backup is reported as a finding elsewhere.
            Kind::Backup => match made {
                Ok(Some(made)) if made.made_at.is_some() => {
                    let part = made.parts.iter().find(|part| part.name == self.workspace);
                    part.map_or(&made.public_keys, |part| &part.public_keys).clone()
                }
                _ => return Ok(None),
            },
            Kind::Data => LedgerPlace::of(&self.root, &self.workspace)
                .map_or(Ok(Vec::new()), |place| place.keys())?,
        };
        walk_ledger_in(&folder, &keys, &|entries| tell("checking the ledger", entries)).map(Some)
    }

    fn checked(
        &self,
        made: &Result<Option<Catalogue>, String>,
        tell: &dyn Fn(&str, u64),
    ) -> BackupFiles {
        let mut found = BackupFiles { made_at: None, files: 0, findings: Vec::new() };
        match made {
            Err(why) => found.findings.push(why.clone()),
            Ok(None) => found.findings.push("BAK-01: backup.json is gone".to_owned()),
            Ok(Some(made)) => {
                if made.made_at.is_none() {
                    found.findings.push("BAK-02: the backup was never finished".to_owned());
                }
                found.made_at.clone_from(&made.made_at);
                found.files = made.files.len();
                for (at, file) in (1..).zip(&made.files) {
                    found.findings.extend(file.find(&self.root).err());
                    tell("checking the backup", at);
                }
            }
        }
        found
    }
}

/// Runs `read` under a catalogue, and repeats it while the result is not clean and the catalogue has changed.
fn settled<C: PartialEq, F>(
    catalogue: impl Fn() -> C,
    read: impl Fn(&C) -> F,
    is_clean: impl Fn(&F) -> bool,
) -> F {
    let mut made = catalogue();
    for _ in 1..ATTEMPTS_MAX {
        let found = read(&made);
        let now = catalogue();
        if is_clean(&found) || now == made {
            return found;
        }
        made = now;
    }
    read(&made)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_changes_meanwhile_is_read_again_and_damage_is_told() {
        let (changes, reads) = (Cell::new(0), Cell::new(0));
        // A catalogue that changes a given number of times.
        let catalogue = || {
            changes.set(changes.get() - 1);
            changes.get().max(0)
        };
        let read = |made: &i32| {
            reads.set(reads.get() + 1);
            *made
        };
        for (at_first, found, times) in [(0, 0, 1), (1, 0, 1), (2, 0, 2), (3, 0, 3), (9, 6, 3)] {
            changes.set(at_first);
            reads.set(0);
            assert_eq!(settled(catalogue, read, |found| *found == 0), found, "{at_first}");
            assert_eq!(reads.get(), times, "{at_first}");
        }
        reads.set(0);
        assert_eq!(settled(|| 7, read, |_| false), 7, "it is damaged");
        assert_eq!(reads.get(), 1, "and nothing has changed");
    }
}
