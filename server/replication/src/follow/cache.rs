//! What this process has of others' files, within a bound: bytes on disk, and fetches at a time.
//!
//! Owns the numbers and who waits for them. What goes where there is no room is chosen by the keeper.

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

/// What this process has of files that others write.
pub struct Cache {
    bound: u64,
    room: Mutex<Room>,
    changed: Condvar,
    /// Since the start.
    fetches: AtomicU64,
    filled: AtomicU64,
    /// Workspaces that are open here.
    pub(super) open: Mutex<Vec<Weak<PartialDisk>>>,
}

#[derive(Debug, Default)]
pub(super) struct Room {
    /// Bytes on disk.
    used: u64,
    /// Of these, files of workspaces that nobody has open, by the folder of their store; when each was used last, in
    /// seconds since 1970.
    closed: BTreeMap<PathBuf, Closed>,
    /// Folders of stores that are open in this process, or still held by what fills them.
    open: BTreeSet<PathBuf>,
    fetching: usize,
    /// Who wants room waits for the keeper, which answers with the number that was asked last.
    asked: u64,
    answered: u64,
    /// The most that one of them wants.
    wanted: u64,
    keeper: Option<ThreadId>,
    is_over: bool,
    /// Whether there may be something to fill.
    is_news: bool,
}

/// Files that nobody has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) bytes: u64,
    pub(super) used_at: u64,
}

/// How the cache stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheUse {
    /// Bytes of segments that are here.
    pub bytes: u64,
    /// At most so many.
    pub bound: u64,
    /// Fetches that are under way.
    pub fetching: usize,
    /// Fetches of pages since the start.
    pub fetches: u64,
    /// Bytes that these brought.
    pub filled: u64,
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stands().fmt(f)
    }
}

impl Cache {
    /// With room for so many bytes, and nothing that makes room yet: that is a [`Keeper`](super::Keeper).
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

    /// How it stands.
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

    /// So many bytes more are here, wanted or not.
    pub(super) fn count(&self, bytes: u64) {
        self.room().used += bytes;
    }

    pub(super) fn filled(&self, bytes: u64) {
        self.filled.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many are not here any more.
    pub(super) fn release(&self, bytes: u64) {
        if bytes > 0 {
            self.room().used -= bytes;
            self.changed.notify_all();
        }
    }

    /// Counts so many bytes that are about to come, once there is room for them, or at once.
    ///
    /// # Errors
    /// There is none, and none could be made.
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

    /// Fetches, once fewer than [`FETCHES_MAX`] do.
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

    /// Something may be there to fill.
    pub(super) fn has_news(&self) {
        self.room().is_news = true;
        self.changed.notify_all();
    }

    /// Whether so many bytes more leave questions the room that they may need.
    pub(super) fn has_spare(&self, bytes: u64) -> bool {
        self.room().used + bytes <= self.bound - self.bound / 10
    }

    /// How many bytes are to go so that whoever waits gets room: none where nobody does.
    pub(super) fn lacks(&self) -> Option<u64> {
        let room = self.room();
        let is_asked = room.asked > room.answered;
        is_asked.then(|| (room.used + room.wanted).saturating_sub(self.bound))
    }

    /// All that could go has gone: whoever waits and has no room gets none.
    pub(super) fn answer(&self) {
        let mut room = self.room();
        (room.answered, room.wanted) = (room.asked, 0);
        self.changed.notify_all();
    }

    /// From here on this thread makes room.
    pub(super) fn is_kept(&self) {
        self.room().keeper = Some(thread::current().id());
    }

    /// Nobody makes room any more.
    pub(super) fn end(&self) {
        let mut room = self.room();
        (room.keeper, room.is_over) = (None, true);
        self.changed.notify_all();
    }

    pub(super) fn is_over(&self) -> bool {
        self.room().is_over
    }

    /// Returns once somebody wants room, something is there to fill, all is over, or after so long.
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

    /// Workspaces that are open here.
    pub(super) fn kept(&self) -> Vec<Arc<PartialDisk>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|kept| kept.strong_count() > 0);
        open.iter().filter_map(Weak::upgrade).collect()
    }

    /// Files of a workspace that nobody has open lie in this folder.
    pub(super) fn closed(&self, root: PathBuf, closed: Closed) {
        let mut room = self.room();
        let before = room.closed.insert(root, closed).map_or(0, |before| before.bytes);
        room.used = room.used + closed.bytes - before;
    }

    /// Returns once nothing in this process has the folder of a store any more, whatever filled it; gives whether
    /// there was such a thing, and it went.
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

    /// Nothing in this process has the folder of a store any more.
    pub(super) fn is_gone(&self, root: &Path) {
        self.room().open.remove(root);
        self.changed.notify_all();
    }

    /// A workspace is opened again; what of it is here is counted by file.
    pub(super) fn opened(&self, root: &Path) {
        self.forget(root);
        self.room().open.insert(root.to_owned());
    }

    /// Files of a workspace that nobody has open are not there any more.
    pub(super) fn forget(&self, root: &Path) {
        let mut room = self.room();
        let bytes = room.closed.remove(root).map_or(0, |closed| closed.bytes);
        room.used -= bytes;
    }

    /// The workspace that nobody used for longest.
    pub(super) fn oldest_closed(&self) -> Option<PathBuf> {
        let room = self.room();
        let closed = room.closed.iter().filter(|(_, closed)| closed.bytes > 0);
        closed.min_by_key(|(_, closed)| closed.used_at).map(|(root, _)| root.clone())
    }
}
