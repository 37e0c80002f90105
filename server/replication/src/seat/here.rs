//! Local directory of a workspace: identifies its store, and sets a store aside before another node's data replaces it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::lazy_file::PARTIAL_SUFFIX;
use engine::os::disk::{Disk, FsDisk};
use engine::replication_sink::ManifestView;
use engine::{OpenError, StoreReader};

use super::error::NotSeated;
use super::held::HeldDisk;
use super::memo::Memo;
use crate::follow::{Cache, PartialDisk};
use crate::hex::{Hex, Nonce};
use crate::limits::{LEFT_MAX, MANIFEST_BYTES_MAX};
use crate::names::Tenant;
use crate::objects::Objects;

/// Name of the store's directory, within that of the workspace.
const STORE: &str = "store";
/// Name prefix of the directory of a set-aside store, whose commits are in no record log; an epoch follows.
const LEFT: &str = "store.left-";
const MANIFEST: &str = "manifest-";
const LOCK: &str = "LOCK";

/// Local directory of a workspace.
#[derive(Debug, Clone)]
pub(super) struct Here {
    home: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    /// Lazy view of the same directory, whose segments may be local in part.
    pub(super) kept: Arc<PartialDisk>,
}

impl Here {
    /// Locks the directory, for as long as this value or a store in the directory is open.
    pub(super) fn take(
        home: &Path,
        far: (Arc<dyn Objects>, Tenant),
        cache: &Arc<Cache>,
    ) -> Result<Self, NotSeated> {
        let root = home.join(STORE);
        let disk: Arc<dyn Disk> = Arc::new(FsDisk::open(&root)?);
        let held = match HeldDisk::take(Arc::clone(&disk)) {
            // The prefetcher of the previous owner may still be working in the directory.
            Err(OpenError::Locked) if cache.lets_go(&root) => HeldDisk::take(disk)?,
            other => other?,
        };
        let disk = Arc::new(held);
        let kept = PartialDisk::over(disk, &root, far, cache);
        Ok(Self { home: home.to_owned(), disk: Arc::clone(&kept) as _, kept })
    }

    /// Returns true if a store was ever created here.
    pub(super) fn has_store(&self) -> Result<bool, NotSeated> {
        Ok(self.newest_manifest()?.is_some())
    }

    /// Id of the local store; `None` if there is none.
    pub(super) fn store_id(&self) -> Result<Option<Nonce>, NotSeated> {
        let Some(name) = self.newest_manifest()? else { return Ok(None) };
        let bytes = self.disk.read(&name, MANIFEST_BYTES_MAX as u64)?;
        let listing = ManifestView::parse(&bytes)?;
        Ok(Some(Hex(listing.store().0.to_le_bytes())))
    }

    fn newest_manifest(&self) -> Result<Option<String>, NotSeated> {
        let names = self.disk.names()?;
        let is_manifest = |name: &String| {
            let number = name.strip_prefix(MANIFEST);
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        Ok(names.into_iter().filter(is_manifest).max())
    }

    /// Returns true if the local store has the id `wanted`. Refuses another store, unless it has no commit: then its
    /// files are removed.
    pub(super) fn check_store(&self, wanted: Nonce) -> Result<bool, NotSeated> {
        let Some(found) = self.store_id()? else { return Ok(false) };
        if found == wanted {
            return Ok(true);
        }
        if self.last_commit()? > 0 {
            let home = self.home.display();
            return Err(NotSeated::Here(format!(
                "{home} holds another store ({found}) than the remote ({wanted}); use an empty folder, or \
                 another prefix for this store"
            )));
        }
        for name in self.disk.names()?.iter().filter(|name| *name != LOCK) {
            self.disk.remove(name)?;
        }
        self.disk.sync_names()?;
        Ok(false)
    }

    /// Returns true if the store has partial files.
    fn has_parts(&self) -> io::Result<bool> {
        let mut entries = fs::read_dir(self.home.join(STORE))?;
        let is_part =
            |entry: fs::DirEntry| entry.file_name().to_string_lossy().ends_with(PARTIAL_SUFFIX);
        Ok(entries.any(|entry| entry.is_ok_and(is_part)))
    }

    /// Newest local commit.
    fn last_commit(&self) -> Result<u64, NotSeated> {
        Ok(StoreReader::open(Arc::clone(&self.disk))?.snapshot().seq())
    }

    /// Returns true if a store that was written here has commits that may not be in the record log.
    pub(super) fn is_ahead(&self, memo: Option<&Memo>) -> Result<bool, NotSeated> {
        if memo.is_some_and(Memo::follows) || !self.has_store()? {
            return Ok(false);
        }
        Ok(self.last_commit()? > memo.map_or(0, |memo| memo.carried))
    }

    /// Sets aside a copy of a store that was written here, if its newest commits may not be in the record log. A
    /// followed store has no commits of its own.
    pub(super) fn set_aside(&self, memo: Option<&Memo>) -> Result<(), NotSeated> {
        match self.is_ahead(memo) {
            Ok(false) => return Ok(()),
            // The missing bytes of partial files are nowhere any more; the local bytes are set aside all the same.
            Err(_) if self.has_parts()? => {}
            Err(error) => return Err(error),
            Ok(true) => {}
        }
        let epoch = memo.map_or(0, |memo| memo.epoch);
        let left = left(&self.home)?;
        if left.len() >= LEFT_MAX {
            return Err(NotSeated::Here(format!(
                "{}: {LEFT_MAX} stores were set aside already; look at them (recalld export), and remove \
                 what is not needed",
                left[0].display()
            )));
        }
        self.keep(&self.home.join(format!("{LEFT}{epoch}-{}", left.len())))?;
        Ok(())
    }

    /// Hard-links every file of the store into another directory. Later changes of the store leave these links alone: a
    /// file of a store is removed and created anew, never changed.
    fn keep(&self, folder: &Path) -> io::Result<()> {
        let fresh = folder.with_extension("new");
        if fresh.exists() {
            fs::remove_dir_all(&fresh)?;
        }
        fs::create_dir(&fresh)?;
        let store = self.home.join(STORE);
        for entry in fs::read_dir(&store)? {
            let name = entry?.file_name();
            if name != LOCK {
                fs::hard_link(store.join(&name), fresh.join(&name))?;
            }
        }
        fs::File::open(&fresh)?.sync_all()?;
        fs::rename(&fresh, folder)?;
        fs::File::open(&self.home)?.sync_all()
    }
}

/// Returns true if a workspace's directory has files of a store, or a set-aside store.
pub(super) fn has_bytes(home: &Path) -> io::Result<bool> {
    let there = |found: io::Result<bool>| match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        found => found,
    };
    let has_file = fs::read_dir(home.join(STORE)).map(|mut entries| {
        entries.any(|entry| entry.map_or(true, |entry| entry.file_name() != LOCK))
    });
    Ok(there(has_file)? || there(left(home).map(|left| !left.is_empty()))?)
}

/// Directories of set-aside stores.
pub(super) fn left(home: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(home)?;
    let paths: io::Result<Vec<PathBuf>> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let is_left = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(LEFT))
    };
    Ok(paths?.into_iter().filter(is_left).collect())
}
