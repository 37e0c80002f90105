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

use crate::error::{CorruptionError, OpenError};
use crate::ids::Seq;
use crate::layout::{self, FileKind};
use crate::manifest::{ListedFile, Manifest};
use crate::os::disk::Disk;
use crate::query::ann_policy::{AnnPolicy, SearchMode};
use crate::query::snapshot::Snapshot;
use crate::segment_snapshot::SegmentSnapshot;
use crate::store::recovery::{RecoveredState, open_segment};
use crate::store::segment_list::SegmentList;
use crate::store::{Env, InitialState, Options, Store, StoreRole};
use crate::vector_index::IvfIndex;

/// State of a replica.
#[derive(Debug)]
pub(super) struct ReplicaState {
    /// Reason for rejecting writes, returned to the caller.
    pub(super) read_only_reason: String,
    /// State of the last refresh.
    view: Mutex<RecoveredState>,
    /// Number of snapshots taken.
    views: AtomicU64,
}

impl ReplicaState {
    pub(super) fn view(&self) -> MutexGuard<'_, RecoveredState> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn initial_state(&self, searching: AnnPolicy) -> InitialState {
        let opened = self.view();
        InitialState {
            snapshot: self.snapshot(&opened, searching),
            bytes_on_disk: opened.bytes_on_disk(),
            erasures_pending: Arc::new(AtomicUsize::new(opened.manifest.erasures.len())),
            stop_reason: Arc::default(),
        }
    }

    fn snapshot(&self, opened: &RecoveredState, searching: AnnPolicy) -> Snapshot {
        let view = 1 + self.views.fetch_add(1, Ordering::Relaxed);
        Snapshot { view, ann_policy: searching, ..opened.snapshot() }
    }
}

impl Store {
    /// Opens a directory that another process updates, as a replica of the directory's present state. The replica
    /// serves reads, rejects each write with `why`, changes nothing in the directory, and needs no background workers.
    /// The replica holds the directory's lock, so that no other process writes there by mistake.
    ///
    /// To become the leader, drop this store and [open](Store::open) the directory; to become a replica again, do the
    /// reverse. Existing snapshots stay valid.
    pub fn open_replica(
        ground: Env,
        options: Options,
        why: impl Into<String>,
    ) -> Result<Self, OpenError> {
        let lock = ground.disk.lock()?.ok_or(OpenError::Locked)?;
        let opened = RecoveredState::read_newer(&*ground.disk, None, options.ann_policy)?;
        let opened = Mutex::new(opened);
        let following =
            ReplicaState { read_only_reason: why.into(), view: opened, views: AtomicU64::new(0) };
        let found = following.initial_state(options.ann_policy);
        let role = StoreRole::Replica(Box::new(following));
        let store = Self::from_parts(ground, options, role, None, found, lock);
        if let StoreRole::Replica(following) = &store.role {
            let opened = following.view();
            store.counters.record_sizes(&opened.segments, opened.log_bytes());
        }
        Ok(store)
    }

    /// Returns the leader's pending erasures and the visible snapshot; `None` if this store is the leader.
    pub(crate) fn replica_erasures(&self) -> Option<(BTreeSet<u128>, Snapshot)> {
        let StoreRole::Replica(following) = &self.role else { return None };
        let opened = following.view();
        Some((opened.manifest.erasures.clone(), self.snapshot()))
    }

    /// Returns true if this store is a replica, which another process writes.
    pub fn is_replica(&self) -> bool {
        matches!(self.role, StoreRole::Replica(_))
    }

    /// Reopens segments of a [replica](Store::open_replica), given by their file names. The new segments have the same
    /// contents; the old mappings end with the last snapshot that uses them.
    ///
    /// Returns false if nothing was reopened: during a [refresh](Store::refresh), which may be waiting for the space
    /// that this call frees, and on the leader.
    pub fn reopen_segments(&self, names: &[String]) -> Result<bool, OpenError> {
        let StoreRole::Replica(following) = &self.role else { return Ok(false) };
        let mut opened = match following.view.try_lock() {
            Ok(opened) => opened,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(false),
        };
        let disk = &*self.env.disk;
        let mut parts = opened.segments.sealed().to_vec();
        for (entry, part) in opened.manifest.segments.iter().zip(&mut parts) {
            if names.contains(&layout::file_name(FileKind::Segment, entry.number)) {
                part.segment = Arc::new(open_segment(disk, entry)?.segment);
            }
        }
        opened.segments = opened.segments.with_sealed(parts);
        let searching = self.options.ann_policy;
        if searching.mode != SearchMode::Exact {
            opened.load_indexes(disk, &disk.names()?);
        }
        let snapshot = following.snapshot(&opened, searching);
        self.publish_snapshot(snapshot, opened.bytes_on_disk());
        Ok(true)
    }

    /// Publishes the present contents of a [replica's](Store::open_replica) directory; returns the newest visible
    /// commit. After an error the previous state stays visible. On the leader, all commits are visible already, and
    /// nothing changes.
    pub fn refresh(&self) -> Result<Seq, OpenError> {
        let StoreRole::Replica(following) = &self.role else { return Ok(self.snapshot().seq()) };
        let mut opened = following.view();
        let searching = self.options.ann_policy;
        let newer = RecoveredState::read_newer(&*self.env.disk, Some(&opened), searching)?;
        let is_news = newer.position() != opened.position();
        *opened = newer;
        if is_news {
            self.erasures_pending.store(opened.manifest.erasures.len(), Ordering::SeqCst);
            self.counters.record_sizes(&opened.segments, opened.log_bytes());
            let snapshot = following.snapshot(&opened, searching);
            self.publish_snapshot(snapshot, opened.bytes_on_disk());
        }
        Ok(opened.next_seq - 1)
    }
}

impl RecoveredState {
    /// Reads a directory, and reuses everything that an earlier view has read. Fails if the directory now has less than
    /// the earlier view.
    fn read_newer(
        disk: &dyn Disk,
        earlier: Option<&Self>,
        searching: AnnPolicy,
    ) -> Result<Self, OpenError> {
        let names = disk.names()?;
        let newest = Manifest::newest_number(&names);
        let mut opened = match (earlier, newest) {
            (None, None) => return Err(OpenError::NoStore),
            (None, Some(number)) => Self::open_sealed(disk, Manifest::read(disk, number)?.0, None)?,
            (Some(earlier), Some(number)) if number == earlier.manifest.number => earlier.clone(),
            (Some(earlier), Some(number)) if number > earlier.manifest.number => {
                earlier.with_manifest(disk, Manifest::read(disk, number)?.0)?
            }
            (Some(earlier), _) => {
                let detail = "it was there before, and no newer one is";
                return Err(CorruptionError::new("MAN-03", detail)
                    .in_file(&earlier.manifest_name())
                    .into());
            }
        };
        opened.replay(disk, &names, true)?;
        opened.segments.merge_large()?;
        if let Some(earlier) = earlier.filter(|earlier| opened.next_seq < earlier.next_seq) {
            let (found, shown) = (opened.next_seq - 1, earlier.next_seq - 1);
            let detail = format!("the logs end with commit {found}, but {shown} was there before");
            return Err(CorruptionError::new("LOG-08", detail).into());
        }
        if searching.mode != SearchMode::Exact {
            opened.load_indexes(disk, &names);
        }
        Ok(opened)
    }

    /// Returns this view under a newer manifest, and reuses unchanged segments. If the leader has sealed the tail, the
    /// rest of the tail is read again, which costs the commits made during the seal.
    fn with_manifest(&self, disk: &dyn Disk, manifest: Manifest) -> Result<Self, OpenError> {
        let newest = self.next_seq - 1;
        let mut opened = Self::open_sealed(disk, manifest, Some(self))?;
        if opened.manifest.store != self.manifest.store {
            let (found, wanted) = (opened.manifest.store, self.manifest.store);
            let detail = format!("it is of store {found}, {wanted} is followed");
            return Err(CorruptionError::new("MAN-02", detail)
                .in_file(&opened.manifest_name())
                .into());
        }
        let known: HashMap<[u8; 32], &SegmentSnapshot> = self.open_segments().collect();
        let mut are_all_known = true;
        let mut parts = opened.segments.sealed().to_vec();
        for ((hash, _), part) in opened.open_segments().zip(&mut parts) {
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
            opened.segments = self.segments.with_sealed(parts);
            opened.next_seq = self.next_seq;
            opened.logs.clone_from(&self.logs);
        } else {
            opened.segments = SegmentList::from_sealed(parts);
        }
        Ok(opened)
    }

    /// Position of this view, which differs from that of a view with more commits or another manifest.
    fn position(&self) -> (u64, Seq) {
        (self.manifest.number, self.next_seq)
    }

    fn manifest_name(&self) -> String {
        layout::file_name(FileKind::Manifest, self.manifest.number)
    }

    /// Bytes of the logs' frames.
    fn log_bytes(&self) -> u64 {
        self.logs.iter().map(|log| log.position.end).sum()
    }

    /// Bytes of the segments, their states and indexes, and of the logs.
    fn bytes_on_disk(&self) -> u64 {
        let listed = self.manifest.listed_files().map(|ListedFile { bytes, .. }| bytes);
        let indexes = self.segments.sealed().iter().filter_map(|part| part.segment.index());
        let logs = self.logs.iter().map(|log| log.file_bytes);
        listed.chain(indexes.map(IvfIndex::file_bytes)).chain(logs).sum()
    }
}
