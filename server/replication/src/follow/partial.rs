//! Lazy directory: a store's directory whose segments may be local in part.
//!
//! Owns the set of these segments, and the object of each. A segment has its final name only once all its bytes are
//! here and match the hash in its record. Until then it has another name, so that no other code reads a hole as data.
//! Must not know when missing bytes are fetched, nor which file is evicted.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use engine::lazy_file::{self, LazyFile, PARTIAL_SUFFIX, RangeFetcher};
use engine::os::disk::{Disk, DiskFile, DiskLock, DiskRead, FileBytes};
use engine::{DiskError, OpenError, Store};

use super::cache::{Cache, Closed};
use super::error::NotApplied;
use super::source::{Source, Supply};
use crate::hex::Hash;
use crate::names::Tenant;
use crate::objects::Objects;
use crate::parts::{Shelf, Untransferred, hash_of};
use crate::record::FarFile;

/// Name prefixes of segments and indexes.
const SEGMENT: &str = "segment-";
const INDEX: &str = "index-";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Complete fetches with a wrong hash before a file is reported as damaged.
    const WRONG_MAX: u32 = 2;
}

/// Directory of a store whose segments may be local in part.
pub struct PartialDisk {
    beneath: Arc<dyn Disk>,
    supply: Supply,
    files: Mutex<BTreeMap<String, File>>,
    /// Indexes to fetch in the background.
    indexes: Mutex<BTreeMap<String, FarFile>>,
    /// Open store of a follower, which can reopen evicted files.
    store: Mutex<Weak<Store>>,
    part: Mutex<Part>,
    /// Last use, in seconds since 1970.
    used_at: AtomicU64,
    /// Error of a file with a wrong hash after two complete fetches.
    trouble: Mutex<Option<String>>,
    /// Dropped last: reports that the directory and its lock are released.
    _open: Open,
}

/// Open directory.
struct Open {
    cache: Arc<Cache>,
    root: PathBuf,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.cache.is_gone(&self.root);
    }
}

/// Role of this node for the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Not open yet.
    Nothing,
    Follows,
    Leads,
}

/// A segment of the directory that comes from object storage.
#[derive(Debug)]
struct File {
    far: FarFile,
    /// Open file; `None` if the file is opened on first use.
    open: Option<(Arc<LazyFile>, Arc<Source>)>,
    /// True if the file is complete, under its final name.
    is_named: bool,
    /// True if the store must reopen the file.
    is_due: bool,
    /// Complete fetches with a wrong hash.
    wrong: u32,
}

impl File {
    fn new(far: &FarFile) -> Self {
        Self { far: far.clone(), open: None, is_named: false, is_due: false, wrong: 0 }
    }

    /// Returns true if `filling` is the currently open file.
    fn is(&self, filling: &Arc<LazyFile>) -> bool {
        self.open.as_ref().is_some_and(|(it, _)| Arc::ptr_eq(it, filling))
    }

    fn bytes_here(&self) -> u64 {
        self.open.as_ref().map_or(0, |(filling, _)| filling.bytes_present())
    }
}

/// Outcome of a fetch for a lazy file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// More bytes are here.
    More,
    /// The file is complete and has its final name.
    Whole,
    /// The file is complete and has a wrong hash: it is fetched once more.
    Wrong,
}

impl fmt::Debug for PartialDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartialDisk").field("root", &self.supply.root).finish_non_exhaustive()
    }
}

impl PartialDisk {
    /// Creates a lazy directory over the directory `root` of a workspace. The caller has the lock of the workspace.
    #[must_use]
    pub fn over(
        beneath: Arc<dyn Disk>,
        root: &Path,
        (objects, tenant): (Arc<dyn Objects>, Tenant),
        cache: &Arc<Cache>,
    ) -> Arc<Self> {
        let root = root.to_owned();
        cache.opened(&root);
        let kept = Arc::new(Self {
            beneath,
            _open: Open { cache: Arc::clone(cache), root: root.clone() },
            supply: Supply { objects, tenant, cache: Arc::clone(cache), root },
            files: Mutex::default(),
            indexes: Mutex::default(),
            store: Mutex::default(),
            part: Mutex::new(Part::Nothing),
            used_at: AtomicU64::new(now()),
            trouble: Mutex::default(),
        });
        let mut open = cache.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push(Arc::downgrade(&kept));
        kept
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, File>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the file may be local in part.
    pub(super) fn fills(name: &str) -> bool {
        name.starts_with(SEGMENT)
    }

    /// Returns true if the store can be opened before the file is here.
    pub(super) fn may_wait(name: &str) -> bool {
        name.starts_with(INDEX)
    }

    /// Adds a missing segment. On return the bytes that its opening needs are here.
    pub(super) fn begin(&self, far: &FarFile) -> Result<(), NotApplied> {
        let mut files = self.files();
        // A segment of this name with another hash is replaced.
        files.remove(&far.name);
        self.unlink(&far.name, &[part_name(far)])?;
        let mut file = File::new(far);
        self.open_file(&mut file)?;
        files.insert(far.name.clone(), file);
        drop(files);
        self.supply.cache.has_news();
        Ok(())
    }

    /// Adds a segment that is complete and verified, or already known.
    pub(super) fn has_whole(&self, far: &FarFile) {
        self.files().entry(far.name.clone()).or_insert_with(|| File::new(far));
    }

    /// Returns true if a segment with this name and hash is known.
    pub(super) fn knows(&self, far: &FarFile) -> bool {
        self.files().get(&far.name).is_some_and(|known| known.far.sha256 == far.sha256)
    }

    /// Adds those of these files that an earlier process left in part.
    pub(crate) fn adopt(&self, files: &[FarFile]) -> Result<(), NotApplied> {
        let there = self.beneath.names()?;
        let is_part = |far: &&FarFile| {
            Self::fills(&far.name) && !there.contains(&far.name) && there.contains(&part_name(far))
        };
        files.iter().filter(is_part).try_for_each(|far| self.begin(far))
    }

    /// Adds a missing index, to be fetched when nothing else is due.
    pub(super) fn defer(&self, far: &FarFile) {
        self.indexes().insert(far.name.clone(), far.clone());
        self.supply.cache.has_news();
    }

    /// Makes this node a follower; this store has the files open from now on.
    pub(crate) fn follows(&self, store: &Arc<Store>) {
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(store);
        self.is_from_now_on(Part::Follows);
    }

    /// Makes this node the leader: its files are not evicted.
    pub(crate) fn leads(&self) {
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Weak::new();
        // A leader builds its own indexes.
        self.indexes().clear();
        self.is_from_now_on(Part::Leads);
    }

    fn is_from_now_on(&self, part: Part) {
        *self.part.lock().unwrap_or_else(PoisonError::into_inner) = part;
        let files = self.files();
        let open = files.values().filter_map(|file| file.open.as_ref());
        open.for_each(|(_, source)| source.set_free(part == Part::Leads));
    }

    fn part(&self) -> Part {
        *self.part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true on the leader, which is exempt from the cache bound.
    pub(super) fn is_led(&self) -> bool {
        self.part() == Part::Leads
    }

    /// Returns true if the store is open and another node is the leader.
    pub(super) fn is_followed(&self) -> bool {
        self.part() == Part::Follows
    }

    /// Records a use of the store.
    pub(crate) fn touch(&self) {
        self.used_at.store(now(), Ordering::Relaxed);
    }

    pub(super) fn used_at(&self) -> u64 {
        self.used_at.load(Ordering::Relaxed)
    }

    /// Error of a file with a wrong hash after two complete fetches.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// First incomplete segment.
    pub(super) fn unfilled(&self) -> Option<String> {
        let files = self.files();
        let is_part = |file: &File| file.open.is_some() && !file.is_named && file.wrong < WRONG_MAX;
        let mut parts = files.iter().filter(|(_, file)| is_part(file));
        parts.next().map(|(name, _)| name.clone())
    }

    /// Names of segments with at least `least` local bytes; complete ones first.
    pub(super) fn largest(&self, least: u64) -> Vec<String> {
        let files = self.files();
        let mut found: Vec<_> =
            files.iter().filter(|(_, file)| file.bytes_here() >= least).collect();
        found.sort_by_key(|(_, file)| file.bytes_here() < file.far.bytes);
        found.into_iter().map(|(name, _)| name.clone()).collect()
    }

    /// Fetches more of a segment. A segment that was removed meanwhile counts as complete.
    ///
    /// # Errors
    /// A fetch failed, or the directory did.
    pub(super) fn fill_on(&self, name: &str) -> Result<Filled, NotApplied> {
        let (filling, far) = {
            let files = self.files();
            let Some(file) = files.get(name) else { return Ok(Filled::Whole) };
            let Some((filling, _)) = &file.open else { return Ok(Filled::Whole) };
            (Arc::clone(filling), file.far.clone())
        };
        let away = |why: lazy_file::PageFetchError| Untransferred::Later(why.to_string());
        if filling.fetch_next().map_err(away)? {
            return Ok(Filled::More);
        }
        let is_right = hash_of(&filling, 0, far.bytes)? == far.sha256;
        filling.sync()?;
        let mut files = self.files();
        let Some(file) = files.get_mut(name).filter(|file| file.is(&filling)) else {
            return Ok(Filled::Whole);
        };
        if is_right {
            self.beneath.rename(&part_name(&far), name)?;
            self.beneath.sync_names()?;
            file.is_named = true;
            return Ok(Filled::Whole);
        }
        file.wrong += 1;
        if file.wrong >= WRONG_MAX {
            let why = format!("REM-05: {}: what came twice is not {}", far.key, far.sha256);
            *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        }
        Ok(Filled::Wrong)
    }

    /// Evicts a segment and has the store reopen it. Snapshots retain their mapping until they are dropped.
    ///
    /// # Errors
    /// The directory failed, or the bytes that the opening needs were not fetched; the store retains the old mapping
    /// then.
    pub(super) fn let_go(&self, name: &str) -> Result<(), NotApplied> {
        {
            let mut files = self.files();
            let Some(file) = files.get_mut(name) else { return Ok(()) };
            // The store uses the old mapping until it opens the new file.
            (file.open, file.is_due, file.is_named) = (None, true, false);
            self.unlink(name, &[])?;
            self.open_file(file)?;
        }
        self.open_anew(name)
    }

    /// First segment that the store must reopen.
    pub(super) fn due(&self) -> Option<String> {
        let files = self.files();
        files.iter().find(|(_, file)| file.is_due).map(|(name, _)| name.clone())
    }

    /// Has the store reopen a segment after [`Self::let_go`].
    ///
    /// # Errors
    /// The store cannot reopen the segment now.
    pub(super) fn open_anew(&self, name: &str) -> Result<(), NotApplied> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let Some(store) = store else { return Ok(()) };
        let later = |why: String| NotApplied::from(Untransferred::Later(why));
        match store.reopen_segments(&[name.to_owned()]) {
            Err(error) => return Err(later(error.to_string())),
            Ok(false) => return Err(later("the store is refreshed just now".into())),
            Ok(true) => {}
        }
        if let Some(file) = self.files().get_mut(name) {
            file.is_due = false;
        }
        Ok(())
    }

    fn indexes(&self) -> MutexGuard<'_, BTreeMap<String, FarFile>> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches one deferred index and has the store use it. Returns true if there was one.
    ///
    /// # Errors
    /// The fetch failed, or the directory did.
    pub(super) fn fetch_index(
        &self,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, NotApplied> {
        let Some(far) = self.indexes().values().next().cloned() else { return Ok(false) };
        let fetched = self.fetched(&far, &part_name(&far), goes_on);
        let may_come = matches!(fetched, Err(NotApplied::Untransferred(Untransferred::Away(_))));
        if !may_come {
            // Drop the index: searches work without it, and a newer record has a newer index.
            self.indexes().remove(&far.name);
        }
        fetched?;
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        match store.map(|store| store.refresh()) {
            Some(Err(error)) => Err(Untransferred::Later(error.to_string()).into()),
            _ => Ok(true),
        }
    }

    fn fetched(
        &self,
        far: &FarFile,
        fresh: &str,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), NotApplied> {
        if self.beneath.names()?.iter().any(|name| name == fresh) {
            self.beneath.remove(fresh)?;
        }
        let file = self.beneath.create(fresh)?;
        let shelf = Shelf { objects: &*self.supply.objects, tenant: &self.supply.tenant };
        shelf.fetch(far.key, (far.bytes, far.sha256), &*file, goes_on)?;
        file.sync()?;
        self.beneath.rename(fresh, &far.name)?;
        Ok(self.beneath.sync_names()?)
    }

    /// Removes partial files of earlier processes that belong to no known file. `names` are the files of the directory.
    pub(super) fn clear(&self, names: &[String]) -> Result<(), DiskError> {
        let there = self.beneath.names()?;
        let files = self.files();
        let mut indexes = self.indexes();
        let has_segment = |name: &str| {
            let number = name.strip_prefix(INDEX).unwrap_or_default();
            names.contains(&format!("{SEGMENT}{number}"))
        };
        indexes.retain(|name, _| has_segment(name));
        let parts = files.values().map(|file| &file.far).chain(indexes.values());
        let known: Vec<String> = parts.map(part_name).collect();
        let lost =
            there.iter().filter(|name| name.ends_with(PARTIAL_SUFFIX) && !known.contains(name));
        lost.into_iter().try_for_each(|name| self.beneath.remove(name))
    }

    /// Opens a file with its local bytes.
    fn open_file(&self, file: &mut File) -> Result<(), NotApplied> {
        let far = &file.far;
        let (plain, part) =
            (self.supply.root.join(&far.name), self.supply.root.join(part_name(far)));
        file.is_named = plain.exists();
        let here = match file.is_named {
            true => far.bytes,
            false => fs::metadata(&part).map_or(0, |about| on_disk(&about)),
        };
        let source = Arc::new(Source::new(&self.supply, far, here.min(far.bytes)));
        let from = Arc::clone(&source) as Arc<dyn RangeFetcher>;
        let filling = match file.is_named {
            true => lazy_file::open_complete(&plain, from)?,
            false => lazy_file::open(&part, far.bytes, from).map_err(|error| match error {
                OpenError::Damaged(damage) => {
                    let other = || Untransferred::Other(damage.to_string());
                    source.failed().unwrap_or_else(other).into()
                }
                OpenError::Disk(error) => NotApplied::Disk(error),
                other => NotApplied::Wrong(other.to_string()),
            })?,
        };
        source.set_free(self.is_led());
        file.open = Some((filling, source));
        Ok(())
    }

    /// Removes all files of a segment, partial or complete, except `but`.
    fn unlink(&self, name: &str, but: &[String]) -> Result<(), DiskError> {
        let is_its = |there: &String| {
            there == name || there.strip_suffix(PARTIAL_SUFFIX).and_then(before_hash) == Some(name)
        };
        let there = self.beneath.names()?;
        let mut goes = there.iter().filter(|there| is_its(there) && !but.contains(there));
        goes.try_for_each(|name| self.beneath.remove(name))
    }
}

/// Name of a file until it is complete.
fn part_name(far: &FarFile) -> String {
    format!("{}.{}{PARTIAL_SUFFIX}", far.name, far.sha256)
}

/// Name of a file from the name of its partial file, without the suffix.
fn before_hash(name: &str) -> Option<&str> {
    let (name, hash) = name.rsplit_once('.')?;
    Hash::parse(hash).map(|_| name)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Bytes of all segments in a store's directory.
pub(super) fn bytes_in(root: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(root) else { return 0 };
    let segments = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(SEGMENT)));
    segments.filter_map(|entry| entry.metadata().ok()).map(|about| on_disk(&about)).sum()
}

/// Bytes allocated for a file, without its holes.
fn on_disk(about: &fs::Metadata) -> u64 {
    // `st_blocks` counts units of 512 bytes, whatever the block size of the file system.
    about.blocks() * 512
}

/// The directory of a follower stays on disk and may be evicted later.
impl Drop for PartialDisk {
    fn drop(&mut self) {
        if !self.is_followed() {
            return;
        }
        self.files().clear();
        let root: PathBuf = self.supply.root.clone();
        let closed = Closed { bytes: bytes_in(&root), used_at: self.used_at() };
        self.supply.cache.closed(root, closed);
    }
}

impl Disk for PartialDisk {
    fn lock(&self) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        self.beneath.lock()
    }

    fn names(&self) -> Result<Vec<String>, DiskError> {
        let mut names = self.beneath.names()?;
        names.retain(|name| !name.ends_with(PARTIAL_SUFFIX));
        let files = self.files();
        let parts: Vec<String> =
            files.keys().filter(|name| !names.contains(name)).cloned().collect();
        names.extend(parts);
        Ok(names)
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.beneath.create(name)
    }

    fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, DiskError> {
        self.beneath.read(name, bytes_max)
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskRead>, DiskError> {
        let files = self.files();
        match files.get(name).and_then(|file| file.open.as_ref()) {
            Some((filling, _)) => Ok(Box::new(Arc::clone(filling))),
            None => self.beneath.open(name),
        }
    }

    fn map(&self, name: &str) -> Result<FileBytes, DiskError> {
        let mut files = self.files();
        let Some(file) = files.get_mut(name) else { return self.beneath.map(name) };
        if file.open.is_none() {
            self.open_file(file).map_err(|why| disk_error(name, why))?;
        }
        let (filling, _) = file.open.as_ref().expect("it was just put there");
        Ok(FileBytes::Lazy(Arc::clone(filling)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.beneath.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        match self.files().remove(name) {
            Some(_) => self.unlink(name, &[]),
            None => self.beneath.remove(name),
        }
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        self.beneath.sync_names()
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.beneath.free_bytes()
    }
}

fn disk_error(name: &str, why: NotApplied) -> DiskError {
    match why {
        NotApplied::Disk(error) => error,
        other => DiskError {
            action: "map",
            name: name.to_owned(),
            source: std::io::Error::other(other.to_string()),
        },
    }
}
