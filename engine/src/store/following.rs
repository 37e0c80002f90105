//! Replica: a read-only store over a directory that another process updates.
//!
//! A refresh costs only the changes since the last refresh: open segments stay open, and logs are not read again.
//! Nothing on disk is changed.
//!
//! The updater of the directory only adds bytes that a writer had on disk, in the writer's order. Log bytes are
//! appended after those that exist, and a manifest comes only after its segments, its states and its logs up to its
//! `synced_seq`. Obsolete files are removed only after a refresh has published the newer state.

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

/// State of a replica.
#[derive(Debug)]
pub(super) struct Following {
    /// Reason for rejecting writes, returned to the caller.
    pub(super) why: String,
    /// State of the last refresh.
    opened: Mutex<Opened>,
    /// Number of snapshots taken.
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
    /// Opens a directory that another process updates, as a replica of the directory's present state. The replica
    /// serves reads, rejects each write with `why`, changes nothing in the directory, and needs no background workers.
    /// The replica holds the directory's lock, so that no other process writes there by mistake.
    ///
    /// To become the leader, drop this store and [open](Store::open) the directory; to become a replica again, do the
    /// reverse. Existing snapshots stay valid.
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

    /// Returns the leader's pending erasures and the visible snapshot; `None` if this store is the leader.
    pub(crate) fn followed_erasures(&self) -> Option<(BTreeSet<u128>, Snapshot)> {
        let Role::Follows(following) = &self.role else { return None };
        let opened = following.opened();
        Some((opened.manifest.erasures.clone(), self.snapshot()))
    }

    /// Returns true if this store is a replica, which another process writes.
    pub fn follows(&self) -> bool {
        matches!(self.role, Role::Follows(_))
    }

    /// Reopens segments of a [replica](Store::follow), given by their file names. The new segments have the same
    /// contents; the old mappings end with the last snapshot that uses them.
    ///
    /// Returns false if nothing was reopened: during a [refresh](Store::refresh), which may be waiting for the space
    /// that this call frees, and on the leader.
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

    /// Publishes the present contents of a [replica's](Store::follow) directory; returns the newest visible commit.
    /// After an error the previous state stays visible. On the leader, all commits are visible already, and nothing
    /// changes.
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
    /// Reads a directory, and reuses everything that an earlier view has read. Fails if the directory now has less than
    /// the earlier view.
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

    /// Returns this view under a newer manifest, and reuses unchanged segments. If the leader has sealed the tail, the
    /// rest of the tail is read again, which costs the commits made during the seal.
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
                // A state file reflects the commits up to `synced_seq`. The earlier view has applied all of these, and
                // possibly later ones, so its state is reused.
                Some(known) if newest >= opened.manifest.synced_seq => part.clone_from(known),
                Some(_) => {}
                None => are_all_known = false,
            }
        }
        let is_same_tail = opened.manifest.log_floor == self.manifest.log_floor
            && opened.manifest.last_seq == self.manifest.last_seq;
        // For a new segment, no state file reflects the commits after `synced_seq` yet.
        if is_same_tail && (are_all_known || newest <= opened.manifest.synced_seq) {
            opened.rows = self.rows.behind(parts);
            opened.next_seq = self.next_seq;
            opened.logs.clone_from(&self.logs);
        } else {
            opened.rows = Rows::sealed(parts);
        }
        Ok(opened)
    }

    /// Position of this view, which differs from that of a view with more commits or another manifest.
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
