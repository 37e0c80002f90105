//! What a folder is that is to be checked or salvaged: a data directory, a backup, or a store alone.
//!
//! Reads and makes nothing: neither folders, nor keys, nor locks.

use std::path::{Path, PathBuf};

use engine::ledger::Report;

use super::backup::store_of;
use super::catalogue::{self, Catalogue};
use super::trusted::{ledger_of, trusted_keys, walk_ledger};
use crate::app;
use crate::auth::Credentials;

/// How often a backup is read again that was made anew meanwhile.
const ATTEMPTS_MAX: u32 = 3;

/// A folder with a store in it.
#[derive(Debug)]
pub struct Place {
    root: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Data,
    Backup,
    Store,
}

/// What a backup holds beside the store and the ledger's chain.
#[derive(Debug)]
pub struct BackupFiles {
    /// When it was finished last.
    pub made_at: Option<String>,
    /// Files that `backup.json` lists.
    pub files: usize,
    /// Broken rules, each with its id.
    pub findings: Vec<String>,
}

impl Place {
    /// A data directory.
    pub fn data(data: &Path) -> Self {
        Self { root: data.to_owned(), kind: Kind::Data }
    }

    /// Whatever `folder` is.
    pub fn of(folder: &Path) -> Self {
        let kind = if folder.join(catalogue::FILE).exists() {
            Kind::Backup
        } else if app::workspace_dir(folder).is_dir() {
            Kind::Data
        } else {
            Kind::Store
        };
        Self { root: folder.to_owned(), kind }
    }

    /// The store's folder, which may not be there.
    pub fn store(&self) -> PathBuf {
        match self.kind {
            Kind::Data | Kind::Backup => store_of(&self.root),
            Kind::Store => self.root.clone(),
        }
    }

    /// The walk through the ledger, with the keys that the folder trusts; `None` where there is no
    /// ledger, or no telling whose it is.
    pub fn ledger(&self) -> Result<Option<Report>, String> {
        let keys = match self.kind {
            Kind::Store => return Ok(None),
            _ if !ledger_of(&self.root).is_dir() => return Ok(None),
            // A backup.json that cannot be read, or is of no finished backup, is a finding of its own.
            Kind::Backup => match Catalogue::read(&self.root) {
                Ok(Some(made)) if made.made_at.is_some() => made.public_keys,
                _ => return Ok(None),
            },
            Kind::Data => {
                let own =
                    Credentials::signing_key(&self.root).map_err(|error| error.to_string())?;
                let keys = trusted_keys(&self.root, own.map(|signer| signer.public()))?;
                if keys.is_empty() {
                    let key = self.root.join("keys/signing.key");
                    return Err(format!(
                        "{} is not there, so the ledger cannot be checked; restore it from a backup",
                        key.display()
                    ));
                }
                keys
            }
        };
        walk_ledger(&self.root, &keys).map(Some)
    }

    /// Checks the files that a backup lists; `None` where this is none.
    pub fn backup(&self) -> Option<BackupFiles> {
        if !matches!(self.kind, Kind::Backup) {
            return None;
        }
        let mut attempts = 0;
        loop {
            attempts += 1;
            let made = Catalogue::read(&self.root);
            let found = self.checked(&made);
            let is_settled = found.findings.is_empty() || made == Catalogue::read(&self.root);
            if is_settled || attempts == ATTEMPTS_MAX {
                return Some(found);
            }
        }
    }

    fn checked(&self, made: &Result<Option<Catalogue>, String>) -> BackupFiles {
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
                found
                    .findings
                    .extend(made.files.iter().filter_map(|file| file.find(&self.root).err()));
            }
        }
        found
    }
}
