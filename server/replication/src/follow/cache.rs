//! Bounded cache of files of followed workspaces: bytes on disk, and concurrent fetches.
//!
//! Owns the counters and the waiting callers. The prefetcher chooses which files to evict.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::partial::PartialDisk;
use crate::limits::{CACHE_WAIT_MAX, FETCHES_MAX};
use crate::parts::Untransferred;

/// Cache of files that other nodes write.
pub struct Cache {
    bound: u64,
    room: Mutex<Room>,
    changed: Condvar,
    /// Fetches since the start; `filled` is their bytes.
    fetches: AtomicU64,
    filled: AtomicU64,
    /// Open workspaces.
    pub(super) open: Mutex<Vec<Weak<PartialDisk>>>,
}

#[derive(Debug, Default)]
pub(super) struct Room {
    /// Bytes on disk.
    used: u64,
    /// Files of closed workspaces (a part of `used`), with their last use, by the directory of their store.
    closed: BTreeMap<PathBuf, Closed>,
    /// Directories of stores that are open in this process, or still in use by a fetch.
    open: BTreeSet<PathBuf>,
    fetching: usize,
    /// Number of the last request for space. The prefetcher sets `answered` to it once the request is served.
    asked: u64,
    answered: u64,
    /// Largest request for space.
    wanted: u64,
    keeper: Option<ThreadId>,
    is_over: bool,
    /// True if there may be files to fetch.
    is_news: bool,
}

/// Files of a closed workspace; `used_at` is in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) bytes: u64,
    pub(super) used_at: u64,
}

/// Cache statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheUse {
    /// Bytes of segments on this disk.
    pub bytes: u64,
    /// Capacity in bytes.
    pub bound: u64,
    /// Fetches in progress.
    pub fetching: usize,
    /// Fetches of pages since the start.
    pub fetches: u64,
    /// Bytes of these fetches.
    pub filled: u64,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stands().fmt(f)
    }
}

impl Cache {
    /// Creates a cache of `bound` bytes. Eviction needs a [`Keeper`](super::Keeper).
    #[must_use]
    pub fn new(bound: u64) -> Arc<Self> {
        Arc::new(Self {
            bound,
            room: Mutex::default(),
            changed: Condvar::new(),
            fetches: AtomicU64::new(0),
            filled: AtomicU64::new(0),
            open: Mutex::default(),
        })
    }

    /// Current statistics.
    #[must_use]
    pub fn stands(&self) -> CacheUse {
        let (bytes, fetching) = {
            let room = self.room();
            (room.used, room.fetching)
        };
        CacheUse {
            bytes,
            bound: self.bound,
            fetching,
            fetches: self.fetches.load(Ordering::Relaxed),
            filled: self.filled.load(Ordering::Relaxed),
        }
    }

    pub(super) fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes that are on disk already, even beyond the capacity.
    pub(super) fn count(&self, bytes: u64) {
        self.room().used += bytes;
    }

    pub(super) fn filled(&self, bytes: u64) {
        self.filled.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts removed bytes.
    pub(super) fn release(&self, bytes: u64) {
        if bytes > 0 {
            self.room().used -= bytes;
            self.changed.notify_all();
        }
    }

    /// Reserves space for bytes that are about to arrive. With `is_free` the call never waits; otherwise it waits for
    /// space.
    ///
    /// # Errors
    /// There is no space, and none could be freed.
    pub(super) fn admit(&self, bytes: u64, is_free: bool) -> Result<(), String> {
        let mut room = self.room();
        let until = Instant::now() + CACHE_WAIT_MAX;
        let mut mine = 0;
        while !is_free && room.used + bytes > self.bound {
            let left = until.saturating_duration_since(Instant::now());
            let is_refused = mine > 0 && room.answered >= mine;
            let has_keeper = room.keeper.is_some_and(|keeper| keeper != thread::current().id());
            if is_refused || left.is_zero() || !has_keeper || room.is_over {
                let (used, bound) = (room.used, self.bound);
                return Err(format!(
                    "there is no room for {bytes} bytes more: {used} of {bound} are in use, and what is \
                     asked now may need more than fits (remote.cache_bytes)"
                ));
            }
            if mine == 0 {
                room.asked += 1;
                mine = room.asked;
                room.wanted = room.wanted.max(bytes);
                self.changed.notify_all();
            }
            room = self.wait(room, left);
        }
        room.used += bytes;
        Ok(())
    }

    /// Runs a fetch once fewer than [`FETCHES_MAX`] are in progress.
    pub(super) fn fetch<T>(
        &self,
        fetch: impl FnOnce() -> Result<T, Untransferred>,
    ) -> Result<T, Untransferred> {
        let until = Instant::now() + CACHE_WAIT_MAX;
        let mut room = self.room();
        while room.fetching >= FETCHES_MAX {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = format!("{FETCHES_MAX} fetches are under way, which is the most");
                return Err(Untransferred::Later(why));
            }
            room = self.wait(room, left);
        }
        room.fetching += 1;
        drop(room);
        self.fetches.fetch_add(1, Ordering::Relaxed);
        let fetched = fetch();
        self.room().fetching -= 1;
        self.changed.notify_all();
        fetched
    }

    fn wait<'a>(&self, room: MutexGuard<'a, Room>, left: Duration) -> MutexGuard<'a, Room> {
        self.changed.wait_timeout(room, left).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes the prefetcher, as there may be files to fetch.
    pub(super) fn has_news(&self) {
        self.room().is_news = true;
        self.changed.notify_all();
    }

    /// Returns true if these bytes would leave a tenth of the capacity for queries.
    pub(super) fn has_spare(&self, bytes: u64) -> bool {
        self.room().used + bytes <= self.bound - self.bound / 10
    }

    /// Bytes to evict so that all waiting callers get space; `None` if no caller waits.
    pub(super) fn lacks(&self) -> Option<u64> {
        let room = self.room();
        let is_asked = room.asked > room.answered;
        is_asked.then(|| (room.used + room.wanted).saturating_sub(self.bound))
    }

    /// Answers all waiting callers after the eviction: a caller that still has no space fails.
    pub(super) fn answer(&self) {
        let mut room = self.room();
        (room.answered, room.wanted) = (room.asked, 0);
        self.changed.notify_all();
    }

    /// Registers the current thread as the one that evicts.
    pub(super) fn is_kept(&self) {
        self.room().keeper = Some(thread::current().id());
    }

    /// Shuts down: no thread evicts any more.
    pub(super) fn end(&self) {
        let mut room = self.room();
        (room.keeper, room.is_over) = (None, true);
        self.changed.notify_all();
    }

    pub(super) fn is_over(&self) -> bool {
        self.room().is_over
    }

    /// Waits until a caller needs space, there are files to fetch, the cache shuts down, or `longest` has passed.
    pub(super) fn rest(&self, longest: Duration) {
        let until = Instant::now() + longest;
        let mut room = self.room();
        while room.asked == room.answered && !room.is_news && !room.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            room = self.wait(room, left);
        }
        room.is_news = false;
    }

    /// Directories of the open workspaces.
    pub(super) fn kept(&self) -> Vec<Arc<PartialDisk>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|kept| kept.strong_count() > 0);
        open.iter().filter_map(Weak::upgrade).collect()
    }

    /// Counts the files of a closed workspace.
    pub(super) fn closed(&self, root: PathBuf, closed: Closed) {
        let mut room = self.room();
        let before = room.closed.insert(root, closed).map_or(0, |before| before.bytes);
        room.used = room.used + closed.bytes - before;
    }

    /// Waits until this process has released the directory of a store, including running fetches. Returns false after a
    /// timeout.
    pub(crate) fn lets_go(&self, root: &Path) -> bool {
        let until = Instant::now() + CACHE_WAIT_MAX;
        let mut room = self.room();
        while room.open.contains(root) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            room = self.wait(room, left);
        }
        true
    }

    /// Marks the directory of a store as released by this process.
    pub(super) fn is_gone(&self, root: &Path) {
        self.room().open.remove(root);
        self.changed.notify_all();
    }

    /// Marks a workspace as open; from now on its files are counted one by one.
    pub(super) fn opened(&self, root: &Path) {
        self.forget(root);
        self.room().open.insert(root.to_owned());
    }

    /// Stops counting the files of a closed workspace.
    pub(super) fn forget(&self, root: &Path) {
        let mut room = self.room();
        let bytes = room.closed.remove(root).map_or(0, |closed| closed.bytes);
        room.used -= bytes;
    }

    /// Closed workspace with the oldest use.
    pub(super) fn oldest_closed(&self) -> Option<PathBuf> {
        let room = self.room();
        let closed = room.closed.iter().filter(|(_, closed)| closed.bytes > 0);
        closed.min_by_key(|(_, closed)| closed.used_at).map(|(root, _)| root.clone())
    }
}
