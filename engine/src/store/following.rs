//! A store that follows: somebody else keeps its directory up to date, and it shows what is there.
//!
//! Owns what is kept from one look at the directory to the next: segments that are open stay open, and what was
//! read of a log is not read again, so that each look costs what has come since. Changes nothing on disk.
//!
//! Whoever keeps the directory up to date only ever adds what a writer had on disk, in the writer's order: bytes of
//! logs behind those that are there, and a manifest only after its segments, its states and its logs up to its
//! `synced_seq`. What it leaves behind goes after a look that showed it.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use crate::error::{Damage, OpenError};
use crate::ids::Seq;
use crate::index::Lists;
use crate::layout::{self, FileKind};
use crate::manifest::{ListedFile, Manifest};
use crate::os::disk::Disk;
use crate::part::Part;
use crate::reading::searching::{SearchMode, Searching};
use crate::reading::snapshot::Snapshot;
use crate::store::opening::{Opened, open_segment};
use crate::store::rows::Rows;
use crate::store::{Found, Ground, Options, Role, Store};

/// What a store that follows keeps.
#[derive(Debug)]
pub(super) struct Following {
    /// Why it takes no writes.
    pub(super) why: String,
    /// What was found last.
    opened: Mutex<Opened>,
    /// Counts the snapshots made.
    views: AtomicU64,
}

impl Following {
    pub(super) fn opened(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self, searching: Searching) -> Found {
        let opened = self.opened();
        Found {
            snapshot: self.snapshot(&opened, searching),
            bytes_on_disk: opened.bytes_on_disk(),
            erasures_pending: Arc::new(AtomicUsize::new(opened.manifest.erasures.len())),
            stopped: Arc::default(),
        }
    }

    fn snapshot(&self, opened: &Opened, searching: Searching) -> Snapshot {
        let view = 1 + self.views.fetch_add(1, Ordering::Relaxed);
        Snapshot { view, searching, ..opened.snapshot() }
    }
}

impl Store {
    /// Opens the store of a directory that somebody else keeps up to date, as it is now. It answers
    /// questions; each write is refused with `why`, nothing in the directory is changed, and there is nothing
    /// for upkeep to do. Its lock is held, so that nobody writes there by mistake.
    ///
    /// To write there, drop this store, and [open](Store::open) the directory; to follow again, the other way
    /// round. Snapshots that were taken stay good.
    pub fn follow(
        ground: Ground,
        options: Options,
        why: impl Into<String>,
    ) -> Result<Self, OpenError> {
        let lock = ground.disk.lock()?.ok_or(OpenError::Locked)?;
        let opened = Opened::followed(&*ground.disk, None, options.searching)?;
        let opened = Mutex::new(opened);
        let following = Following { why: why.into(), opened, views: AtomicU64::new(0) };
        let found = following.found(options.searching);
        let role = Role::Follows(Box::new(following));
        let store = Self::of(ground, options, role, None, found, lock);
        if let Role::Follows(following) = &store.role {
            let opened = following.opened();
            store.tally.note(&opened.rows, opened.log_bytes());
        }
        Ok(store)
    }

    /// Ids that somebody else is about to erase, and what is shown; `None` where it is this store that would.
    pub(crate) fn followed_erasures(&self) -> Option<(BTreeSet<u128>, Snapshot)> {
        let Role::Follows(following) = &self.role else { return None };
        let opened = following.opened();
        Some((opened.manifest.erasures.clone(), self.snapshot()))
    }

    /// Whether somebody else writes it.
    pub fn follows(&self) -> bool {
        matches!(self.role, Role::Follows(_))
    }

    /// Opens segments anew, by the names of their files, in a store that [follows](Store::follow). They hold the same,
    /// and what was open of them ends with the last snapshot that has it. Gives whether it was done: not while the
    /// store is [refreshed](Store::refresh), which may wait for what this is to make room for, nor where it is written.
    pub fn reopen(&self, names: &[String]) -> Result<bool, OpenError> {
        let Role::Follows(following) = &self.role else { return Ok(false) };
        let mut opened = match following.opened.try_lock() {
            Ok(opened) => opened,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(false),
        };
        let disk = &*self.ground.disk;
        let mut parts = opened.rows.sealed_parts().to_vec();
        for (entry, part) in opened.manifest.segments.iter().zip(&mut parts) {
            if names.contains(&layout::name(FileKind::Segment, entry.number)) {
                part.segment = Arc::new(open_segment(disk, entry)?.segment);
            }
        }
        opened.rows = opened.rows.behind(parts);
        let searching = self.options.searching;
        if searching.mode != SearchMode::Exact {
            opened.take_indexes(disk, &disk.names()?);
        }
        let snapshot = following.snapshot(&opened, searching);
        self.show_snapshot(snapshot, opened.bytes_on_disk());
        Ok(true)
    }

    /// Shows what the directory of a store that [follows](Store::follow) holds by now. Gives the newest
    /// commit that is shown. After an error what was shown before stays. A store that is written here shows
    /// all there is anyway.
    pub fn refresh(&self) -> Result<Seq, OpenError> {
        let Role::Follows(following) = &self.role else { return Ok(self.snapshot().seq()) };
        let mut opened = following.opened();
        let searching = self.options.searching;
        let newer = Opened::followed(&*self.ground.disk, Some(&opened), searching)?;
        let is_news = newer.edition() != opened.edition();
        *opened = newer;
        if is_news {
            self.erasures_pending.store(opened.manifest.erasures.len(), Ordering::SeqCst);
            self.tally.note(&opened.rows, opened.log_bytes());
            let snapshot = following.snapshot(&opened, searching);
            self.show_snapshot(snapshot, opened.bytes_on_disk());
        }
        Ok(opened.next_seq - 1)
    }
}

impl Opened {
    /// All that a directory holds by now. What an earlier view of it has read is not read again; shows no less
    /// than that.
    fn followed(
        disk: &dyn Disk,
        earlier: Option<&Self>,
        searching: Searching,
    ) -> Result<Self, OpenError> {
        let names = disk.names()?;
        let newest = Manifest::newest_number(&names);
        let mut opened = match (earlier, newest) {
            (None, None) => return Err(OpenError::NoStore),
            (None, Some(number)) => Self::sealed(disk, Manifest::read(disk, number)?.0, None)?,
            (Some(earlier), Some(number)) if number == earlier.manifest.number => earlier.clone(),
            (Some(earlier), Some(number)) if number > earlier.manifest.number => {
                earlier.under(disk, Manifest::read(disk, number)?.0)?
            }
            (Some(earlier), _) => {
                let detail = "it was there before, and no newer one is";
                return Err(Damage::new("MAN-03", detail).within(&earlier.manifest_name()).into());
            }
        };
        opened.replay(disk, &names, true)?;
        opened.rows.merge_large()?;
        if let Some(earlier) = earlier.filter(|earlier| opened.next_seq < earlier.next_seq) {
            let (found, shown) = (opened.next_seq - 1, earlier.next_seq - 1);
            let detail = format!("the logs end with commit {found}, but {shown} was there before");
            return Err(Damage::new("LOG-08", detail).into());
        }
        if searching.mode != SearchMode::Exact {
            opened.take_indexes(disk, &names);
        }
        Ok(opened)
    }

    /// The same rows under a newer manifest, as far as they are the same. Where the tail was sealed, what is
    /// left of it is read anew, which costs what came while it was.
    fn under(&self, disk: &dyn Disk, manifest: Manifest) -> Result<Self, OpenError> {
        let newest = self.next_seq - 1;
        let mut opened = Self::sealed(disk, manifest, Some(self))?;
        if opened.manifest.store != self.manifest.store {
            let (found, wanted) = (opened.manifest.store, self.manifest.store);
            let detail = format!("it is of store {found}, {wanted} is followed");
            return Err(Damage::new("MAN-02", detail).within(&opened.manifest_name()).into());
        }
        let known: HashMap<[u8; 32], &Part> = self.known_parts().collect();
        let mut are_all_known = true;
        let mut parts = opened.rows.sealed_parts().to_vec();
        for ((hash, _), part) in opened.known_parts().zip(&mut parts) {
            match known.get(&hash) {
                // State files say what the commits up to `synced_seq` did; all of these were seen here, and
                // perhaps later ones.
                Some(known) if newest >= opened.manifest.synced_seq => part.clone_from(known),
                Some(_) => {}
                None => are_all_known = false,
            }
        }
        let is_same_tail = opened.manifest.log_floor == self.manifest.log_floor
            && opened.manifest.last_seq == self.manifest.last_seq;
        // What later commits than `synced_seq` did to the rows of a new segment is in no state yet.
        if is_same_tail && (are_all_known || newest <= opened.manifest.synced_seq) {
            opened.rows = self.rows.behind(parts);
            opened.next_seq = self.next_seq;
            opened.logs.clone_from(&self.logs);
        } else {
            opened.rows = Rows::sealed(parts);
        }
        Ok(opened)
    }

    /// What tells it from another look at the same directory that found more.
    fn edition(&self) -> (u64, Seq) {
        (self.manifest.number, self.next_seq)
    }

    fn manifest_name(&self) -> String {
        layout::name(FileKind::Manifest, self.manifest.number)
    }

    /// Bytes of the logs' frames.
    fn log_bytes(&self) -> u64 {
        self.logs.iter().map(|log| log.mark.end).sum()
    }

    /// Bytes of the segments, their states and indexes, and of the logs.
    fn bytes_on_disk(&self) -> u64 {
        let listed = self.manifest.listed().map(|ListedFile { bytes, .. }| bytes);
        let indexes = self.rows.sealed_parts().iter().filter_map(|part| part.segment.index());
        let logs = self.logs.iter().map(|log| log.file_bytes);
        listed.chain(indexes.map(Lists::file_bytes)).chain(logs).sum()
    }
}
