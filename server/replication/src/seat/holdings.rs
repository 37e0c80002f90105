//! Local inventory: the holdings of all workspace directories, scanned repeatedly.
//!
//! Only directories that changed since the last scan are read. The receiver of the inventory is unknown here.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::held_in;
use crate::holds::Holding;
use crate::limits::TENANTS_MAX;
use crate::names::Tenant;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Age of a change below which a directory is read again by the next scan: it may change once more without a newer
    /// modification time.
    const SETTLED_AFTER: Duration = Duration::from_secs(2);
}

/// Workspace directories below one directory, with their holdings as of the last read.
#[derive(Debug, Default)]
pub struct Holdings {
    known: Mutex<HashMap<Tenant, Known>>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    /// Modification time as of the last read: an entry was added, removed or replaced.
    changed: SystemTime,
    holding: Option<Holding>,
}

impl Holdings {
    /// Scans the directories below `folder`, and returns the holding of each workspace with a remote. Every change of
    /// such a directory adds, replaces or removes a file, so an unchanged directory is not read.
    ///
    /// # Errors
    /// A file or directory cannot be read.
    pub fn look(
        &self,
        folder: &Path,
        now: SystemTime,
    ) -> Result<BTreeMap<Tenant, Holding>, String> {
        let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = HashMap::with_capacity(known.len());
        let mut held = BTreeMap::new();
        for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
            let entry = entry.map_err(|error| failed(folder, error))?;
            let name = entry.file_name();
            let Some(tenant) = name.to_str().and_then(|name| Tenant::new(name).ok()) else {
                continue;
            };
            let home = entry.path();
            let changed = match fs::metadata(&home).and_then(|about| about.modified()) {
                // The directory was removed a moment ago.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                changed => changed.map_err(|error| failed(&home, error))?,
            };
            let holding = match known.get(&tenant) {
                Some(known) if known.changed == changed => known.holding,
                _ => held_in(&home)?,
            };
            if let Some(holding) = holding {
                held.insert(tenant.clone(), holding);
            }
            if changed + SETTLED_AFTER <= now && fresh.len() < TENANTS_MAX {
                fresh.insert(tenant, Known { changed, holding });
            }
        }
        *known = fresh;
        Ok(held)
    }
}

#[cfg(test)]
mod tests {
    use super::super::memo::Memo;
    use super::*;
    use crate::seat::may_have_bytes;

    fn memo(record: u64) -> String {
        format!(
            r#"{{"format": "recalld remote place", "store": "{}", "node": "box-1", "epoch": 1, "writes": true,
                "carried": 3, "record": {record}}}"#,
            crate::hex::Nonce::NONE
        )
    }

    #[test]
    fn a_folder_is_read_when_it_changed_and_not_else() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("acme");
        fs::create_dir(&home).unwrap();
        fs::create_dir(root.path().join("Not a workspace")).unwrap();
        fs::create_dir(root.path().join("alone")).unwrap();
        let file = home.join("remote.json");
        fs::write(&file, memo(5)).unwrap();
        let later = SystemTime::now() + Duration::from_secs(60);
        let holdings = Holdings::default();
        let found = |now| {
            let found = holdings.look(root.path(), now).unwrap();
            let row = |(name, held): (Tenant, Holding)| (name.as_str().to_owned(), held);
            found.into_iter().map(row).collect::<Vec<_>>()
        };
        let holding = |record, left| vec![("acme".to_owned(), Holding { record, left })];
        assert_eq!(found(later), holding(5, 0));
        // The file is overwritten in place, which no code does. The directory is unchanged, so the remembered holding
        // is returned.
        fs::write(&file, memo(6)).unwrap();
        assert_eq!(found(later), holding(5, 0));
        let kept = Memo::read(&home).unwrap().unwrap().with_carried(3, 7);
        kept.write(&home).unwrap();
        assert_eq!(found(later), holding(7, 0), "put in its place");
        fs::create_dir(home.join("store.left-1-0")).unwrap();
        assert_eq!(found(later), holding(7, 1));
        fs::remove_dir(home.join("store.left-1-0")).unwrap();
        assert_eq!(found(later), holding(7, 0));
        fs::remove_dir_all(&home).unwrap();
        assert_eq!(found(later), []);
    }

    #[test]
    fn a_folder_that_changed_a_moment_ago_is_read_again() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("acme");
        fs::create_dir(&home).unwrap();
        fs::write(home.join("remote.json"), memo(5)).unwrap();
        let now = fs::metadata(&home).unwrap().modified().unwrap();
        let holdings = Holdings::default();
        let record =
            |now| holdings.look(root.path(), now).unwrap().into_values().next().unwrap().record;
        assert_eq!(record(now), 5);
        fs::write(home.join("remote.json"), memo(6)).unwrap();
        assert_eq!(record(now + SETTLED_AFTER), 6);
        fs::write(home.join("remote.json"), memo(7)).unwrap();
        assert_eq!(record(now + SETTLED_AFTER), 6, "from then on it is known");
    }

    #[test]
    fn what_was_begun_to_be_fetched_is_bytes() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("acme");
        assert!(!may_have_bytes(&home));
        fs::create_dir_all(home.join("store")).unwrap();
        fs::write(home.join("store/LOCK"), "").unwrap();
        assert!(!may_have_bytes(&home));
        fs::write(home.join("store/segment-1.part"), "x").unwrap();
        assert!(may_have_bytes(&home));
        fs::remove_dir_all(home.join("store")).unwrap();
        fs::create_dir(home.join("store.left-0-0")).unwrap();
        assert!(may_have_bytes(&home));
    }
}
