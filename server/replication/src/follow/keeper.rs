//! The thread that fills what is here in part, and makes room where there is none.
//!
//! Owns the order: what somebody waits for, then the files of workspaces that were used last, one after the other,
//! then indexes. Must not know what files are for.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::UNIX_EPOCH;

use engine::limits::FILL_BYTES;
use engine::os::disk::{Disk, RealDisk};

use super::cache::{Cache, Closed};
use super::partial::{Filled, PartialDisk, bytes_in};
use crate::limits::{CACHE_BYTES_MIN, CACHE_LET_GO_MIN, CACHE_PAUSE};
use crate::seat::is_followed;

/// The folder of a workspace's store, within that of the workspace.
const STORE: &str = "store";
/// What a store's folder has beside its files.
const LOCK: &str = "LOCK";
/// What names of manifests begin with.
const MANIFEST: &str = "manifest-";

/// Keeps a cache until it is dropped.
#[derive(Debug)]
pub struct Keeper {
    cache: Arc<Cache>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts it.
    ///
    /// # Errors
    /// The system gives no thread.
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
        // It ends with what it is at.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// What one step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tended {
    /// There may be more.
    Done,
    /// There is nothing to do.
    Idle,
    /// What there is to do does not work now.
    Failed,
}

impl Cache {
    /// With what an earlier process left in the folders of these workspaces, each of which another node writes. Where
    /// no bound is given, it is half of what is free without that.
    #[must_use]
    pub fn over(homes: &[PathBuf], bound: Option<u64>, free: u64) -> Arc<Self> {
        let roots: Vec<PathBuf> = homes.iter().map(|home| home.join(STORE)).collect();
        let here: Vec<u64> = roots.iter().map(|root| bytes_in(root)).collect();
        let half = (free + here.iter().sum::<u64>()) / 2;
        let cache = Self::new(bound.unwrap_or_else(|| half.max(CACHE_BYTES_MIN)));
        for (root, bytes) in roots.into_iter().zip(here) {
            // Its manifest and logs are as of when it was followed last.
            let changed = fs::metadata(&root).and_then(|about| about.modified()).ok();
            let since = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let used_at = since.map_or(0, |since| since.as_secs());
            cache.closed(root, Closed { bytes, used_at });
        }
        cache
    }

    /// Does the next thing that there is to do. Waits for no room.
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

    /// Goes on with the first segment of a workspace that is not whole, or with an index.
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

    /// Lets go of files until so many bytes more fit, if it can.
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
                // What cannot be opened anew now stays open.
                let _next = kept.let_go(&name);
            }
        }
    }

    /// Removes the files of a store that nobody has open. The manifest goes first: what is left is no store.
    fn clear_away(&self, root: &Path) {
        let cleared = || -> Result<bool, engine::DiskError> {
            let disk = RealDisk::open(root)?;
            let Some(_lock) = disk.lock()? else { return Ok(false) };
            // What this node wrote may be nowhere else.
            if !root.parent().is_some_and(|home| is_followed(home).is_ok_and(|is_it| is_it)) {
                return Ok(false);
            }
            let mut names = disk.names()?;
            names.retain(|name| name != LOCK);
            names.sort_by_key(|name| !name.starts_with(MANIFEST));
            names.iter().try_for_each(|name| disk.remove(name))?;
            disk.sync_names().map(|()| true)
        };
        // Where it is open somewhere, or cannot be cleared, it counts no more: nothing is gained there.
        let _is_cleared = cleared();
        self.forget(root);
    }
}
