//! Prefetcher: the thread that completes partial files and evicts files if the cache is full.
//!
//! Owns the order of the work: requests of waiting callers, then the files of the most recently used workspaces one by
//! one, then indexes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::UNIX_EPOCH;

use engine::limits::FILL_BYTES;
use engine::os::disk::{Disk, FsDisk};

use super::cache::{Cache, Closed};
use super::partial::{Filled, PartialDisk, bytes_in};
use crate::limits::{CACHE_BYTES_MIN, CACHE_LET_GO_MIN, CACHE_PAUSE};
use crate::seat::is_followed;

/// Directory of a workspace's store, within the directory of the workspace.
const STORE: &str = "store";
/// Lock file in a store's directory.
const LOCK: &str = "LOCK";
/// Prefix of manifest names.
const MANIFEST: &str = "manifest-";

/// Prefetcher thread of a cache; stops when dropped.
#[derive(Debug)]
pub struct Keeper {
    cache: Arc<Cache>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// The operating system cannot create a thread.
    pub fn start(cache: &Arc<Cache>) -> io::Result<Self> {
        let theirs = Arc::clone(cache);
        let run = move || {
            theirs.is_kept();
            while !theirs.is_over() {
                match theirs.tend() {
                    Tended::Done => {}
                    Tended::Idle | Tended::Failed => theirs.rest(CACHE_PAUSE),
                }
            }
        };
        let thread = thread::Builder::new().name("cache".to_owned()).spawn(run)?;
        Ok(Self { cache: Arc::clone(cache), thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.cache.end();
        // The thread first finishes its current step.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// Outcome of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tended {
    /// Work was done, and there may be more.
    Done,
    /// No work is due.
    Idle,
    /// The due work fails for now.
    Failed,
}

impl Cache {
    /// Creates a cache with the files that an earlier process left in these directories of followed workspaces. Without
    /// a bound, the capacity is half of the disk space that would be free without those files.
    #[must_use]
    pub fn over(homes: &[PathBuf], bound: Option<u64>, free: u64) -> Arc<Self> {
        let roots: Vec<PathBuf> = homes.iter().map(|home| home.join(STORE)).collect();
        let here: Vec<u64> = roots.iter().map(|root| bytes_in(root)).collect();
        let half = (free + here.iter().sum::<u64>()) / 2;
        let cache = Self::new(bound.unwrap_or_else(|| half.max(CACHE_BYTES_MIN)));
        for (root, bytes) in roots.into_iter().zip(here) {
            // Manifest and logs change while a workspace is followed, so the directory's time is that of the last use.
            let changed = fs::metadata(&root).and_then(|about| about.modified()).ok();
            let since = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let used_at = since.map_or(0, |since| since.as_secs());
            cache.closed(root, Closed { bytes, used_at });
        }
        cache
    }

    /// Runs the next due step. Does not wait for space.
    pub fn tend(&self) -> Tended {
        if let Some(lacking) = self.lacks() {
            self.make_room(lacking);
            self.answer();
            return Tended::Done;
        }
        let mut kept = self.kept();
        kept.sort_by_key(|kept| std::cmp::Reverse(kept.used_at()));
        let mut tended = Tended::Idle;
        for kept in &kept {
            match self.fill(kept) {
                Tended::Idle => {}
                Tended::Failed => tended = Tended::Failed,
                Tended::Done => return Tended::Done,
            }
        }
        tended
    }

    /// Continues with the first incomplete segment of a workspace, or with an index.
    fn fill(&self, kept: &PartialDisk) -> Tended {
        if let Some(name) = kept.due() {
            return match kept.open_anew(&name) {
                Ok(()) => Tended::Done,
                Err(_) => Tended::Failed,
            };
        }
        let has_room = kept.is_led() || self.has_spare(FILL_BYTES as u64);
        if !has_room {
            return Tended::Idle;
        }
        if let Some(name) = kept.unfilled() {
            return match kept.fill_on(&name) {
                Ok(Filled::More | Filled::Whole) => Tended::Done,
                Ok(Filled::Wrong) if kept.let_go(&name).is_ok() => Tended::Done,
                Ok(Filled::Wrong) | Err(_) => Tended::Failed,
            };
        }
        match kept.fetch_index(&|| !self.is_over()) {
            Ok(true) => Tended::Done,
            Ok(false) => Tended::Idle,
            Err(_) => Tended::Failed,
        }
    }

    /// Evicts files until `lacking` bytes are freed, if possible.
    fn make_room(&self, lacking: u64) {
        let wanted = self.stands().bytes.saturating_sub(lacking);
        let is_enough = || self.stands().bytes <= wanted;
        while !is_enough() {
            let Some(root) = self.oldest_closed() else { break };
            self.clear_away(&root);
        }
        let mut kept = self.kept();
        kept.retain(|kept| kept.is_followed());
        kept.sort_by_key(|kept| kept.used_at());
        for kept in kept {
            for name in kept.largest(CACHE_LET_GO_MIN) {
                if is_enough() {
                    return;
                }
                // If the store cannot reopen the file now, the next run retries.
                let _next = kept.let_go(&name);
            }
        }
    }

    /// Removes the files of a closed store. The manifest is removed first: the rest alone is no store.
    fn clear_away(&self, root: &Path) {
        let cleared = || -> Result<bool, engine::DiskError> {
            let disk = FsDisk::open(root)?;
            let Some(_lock) = disk.lock()? else { return Ok(false) };
            // Writes of this node may exist nowhere else.
            if !root.parent().is_some_and(|home| is_followed(home).is_ok_and(|is_it| is_it)) {
                return Ok(false);
            }
            let mut names = disk.names()?;
            names.retain(|name| name != LOCK);
            names.sort_by_key(|name| !name.starts_with(MANIFEST));
            names.iter().try_for_each(|name| disk.remove(name))?;
            disk.sync_names().map(|()| true)
        };
        // If the store is open in another process or cannot be removed, stop counting it: eviction gains nothing there.
        let _is_cleared = cleared();
        self.forget(root);
    }
}
