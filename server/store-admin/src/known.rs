//! Backup registry: the backups that a data directory knows, and the ids that each must still erase.
//!
//! Implements `backups.json` (`format-spec/backup.md`). The file is written before a backup or an erasure begins, so
//! after a crash the backup is known and the erasure is pending.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use recalld_fs_util::copies;

/// File name in the data directory.
pub(super) const FILE: &str = "backups.json";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Backups per data directory.
    pub(super) const BACKUPS_MAX: usize = 64;
    /// Pending erasures per backup.
    pub(super) const PENDING_MAX: usize = 65_536;
}

/// Bytes of the file: per backup, 40 bytes for each pending id, a path, and reserve.
const FILE_BYTES_MAX: u64 = (BACKUPS_MAX * (PENDING_MAX * 40 + (64 << 10))) as u64;

/// Returns a path for a report; `None` if the path is not UTF-8.
pub(super) fn path_text(path: &Path) -> Option<String> {
    path.to_str().map(str::to_owned)
}

/// A registered backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownBackup {
    /// Id in the backup's `backup.json`.
    pub(super) id: String,
    /// Last known path.
    pub(super) path: PathBuf,
    /// Ids that the backup may still have and must erase.
    pub(super) pending: BTreeSet<u128>,
    /// True if the server created the backup on schedule, and may remove it.
    pub(super) is_scheduled: bool,
}

/// The registry, in order of registration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) backups: Vec<KnownBackup>,
}

impl Known {
    /// Reads the registry of a data directory; empty if there is no file.
    pub(super) fn read(data: &Path) -> Result<Self, String> {
        let file = data.join(FILE);
        let failed = copies::at(&file);
        match fs::metadata(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(failed(error)),
            Ok(about) if about.len() > FILE_BYTES_MAX => {
                return Err(format!("{}: more than {FILE_BYTES_MAX} bytes", file.display()));
            }
            Ok(_) => {}
        }
        let text = fs::read(&file).map_err(failed)?;
        let said: Value = serde_json::from_slice(&text).unwrap_or_default();
        Self::of_json(&said).ok_or_else(|| {
            format!("BAK-06: {} is not a list of backups; mend it, or restore it", file.display())
        })
    }

    fn of_json(said: &Value) -> Option<Self> {
        let rows = said["backups"].as_array().filter(|rows| rows.len() <= BACKUPS_MAX)?;
        let backup = |row: &Value| {
            let pending = row["pending"].as_array().filter(|ids| ids.len() <= PENDING_MAX)?;
            let id = |id: &Value| u128::from_str_radix(id.as_str()?, 16).ok();
            Some(KnownBackup {
                id: row["id"].as_str()?.to_owned(),
                path: PathBuf::from(row["path"].as_str()?),
                pending: pending.iter().map(id).collect::<Option<_>>()?,
                is_scheduled: row["scheduled"] == true,
            })
        };
        Some(Self { backups: rows.iter().map(backup).collect::<Option<_>>()? })
    }

    /// Writes the registry atomically.
    pub(super) fn write(&self, data: &Path) -> Result<(), String> {
        let row = |backup: &KnownBackup| {
            let pending: Vec<String> =
                backup.pending.iter().map(|id| format!("{id:032x}")).collect();
            let mut row =
                json!({"id": backup.id, "path": backup.path.to_str(), "pending": pending});
            if backup.is_scheduled {
                row["scheduled"] = true.into();
            }
            row
        };
        let said = json!({"backups": self.backups.iter().map(row).collect::<Vec<_>>()});
        let file = data.join(FILE);
        copies::put(&file, format!("{said:#}\n").as_bytes()).map_err(copies::at(&file))
    }

    /// Registers a backup or updates its path; returns true if the backup is new.
    pub(super) fn note(&mut self, id: &str, path: &Path) -> Result<bool, String> {
        if let Some(known) = self.backups.iter_mut().find(|known| known.id == id) {
            path.clone_into(&mut known.path);
            return Ok(false);
        }
        if self.backups.len() == BACKUPS_MAX {
            return Err(format!(
                "{BACKUPS_MAX} backups are known, which is the most: `recalld backup --list` shows \
                 them; delete one and say so with `recalld backup --forget DIR`, or forget all that \
                 are gone with `recalld backup --forget-missing`; {}",
                self.names()
            ));
        }
        let (id, path) = (id.to_owned(), path.to_owned());
        self.backups.push(KnownBackup { id, path, pending: BTreeSet::new(), is_scheduled: false });
        Ok(true)
    }

    /// Marks a backup as created on schedule.
    pub(super) fn note_scheduled(&mut self, id: &str) {
        for known in self.backups.iter_mut().filter(|known| known.id == id) {
            known.is_scheduled = true;
        }
    }

    /// Removes all other backups at the path of `id`, where no finished backup was found: they were deleted. Returns
    /// the number of removed entries.
    pub(super) fn keep_only(&mut self, id: &str, path: &Path) -> usize {
        let before = self.backups.len();
        self.backups.retain(|known| known.id == id || known.path != path);
        before - self.backups.len()
    }

    /// Paths of all backups, for messages.
    pub(super) fn names(&self) -> String {
        let paths: Vec<String> =
            self.backups.iter().map(|it| it.path.display().to_string()).collect();
        let paths = if paths.is_empty() { "none".to_owned() } else { paths.join(", ") };
        format!("known: {paths}")
    }

    /// Adds these ids to the pending erasures of every backup.
    pub(super) fn must_lose(&mut self, ids: &BTreeSet<u128>) -> Result<(), String> {
        for backup in &mut self.backups {
            backup.pending.extend(ids);
            if backup.pending.len() > PENDING_MAX {
                return Err(format!(
                    "{} has {PENDING_MAX} erasures waiting, which is the most; make it reachable \
                     and run `recalld erase --pending`, or, if it was deleted, \
                     `recalld backup --forget DIR`",
                    backup.path.display()
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_as_it_was_written() {
        let folder = std::env::temp_dir().join(format!("recalld-known-{}", std::process::id()));
        copies::make_folder(&folder).unwrap();
        assert_eq!(Known::read(&folder).unwrap(), Known::default());
        let mut known = Known::default();
        assert!(known.note("a", Path::new("/one")).unwrap());
        assert!(!known.note("a", Path::new("/moved")).unwrap(), "the same backup elsewhere");
        known.must_lose(&BTreeSet::from([1, u128::MAX])).unwrap();
        assert!(known.note("b", Path::new("/two")).unwrap());
        known.note_scheduled("b");
        known.write(&folder).unwrap();
        assert_eq!(Known::read(&folder).unwrap(), known);
        assert_eq!(known.backups.iter().filter(|it| it.is_scheduled).count(), 1);
        assert_eq!(known.backups[0].path, Path::new("/moved"));
        assert!(known.backups[1].pending.is_empty());
        for broken in ["", "[]", "{\"backups\": [{\"id\": 1}]}"] {
            fs::write(folder.join(FILE), broken).unwrap();
            assert!(Known::read(&folder).unwrap_err().contains("BAK-06"), "{broken}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn there_are_bounds() {
        let mut known = Known::default();
        for at in 0..BACKUPS_MAX {
            known.note(&at.to_string(), Path::new("/x")).unwrap();
        }
        let why = known.note("one more", Path::new("/y")).unwrap_err();
        assert!(why.contains("--forget-missing") && why.contains("known: /x, "), "{why}");
        assert_eq!(known.keep_only("7", Path::new("/elsewhere")), 0);
        assert_eq!(known.keep_only("7", Path::new("/x")), BACKUPS_MAX - 1);
        assert!(known.note("one more", Path::new("/y")).unwrap());
        let many = (0..=PENDING_MAX as u128).collect();
        assert!(known.must_lose(&many).unwrap_err().contains("--pending"));
    }
}
