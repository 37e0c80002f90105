//! Writer of a store, and the order in which its changes become durable (`format-spec/log.md`).
//!
//! Has the log, the manifest and the newest rows, including pending commits. All methods run under the store's writer
//! lock and are short; long work, such as building segments, is a [`RewriteJob`]'s.

mod rewrite_jobs;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{CorruptionError, DiskError, OpenError, WriteError};
use crate::ids::{Seq, SourceId, StoreId};
use crate::item::Batch;
use crate::layout::{self, FileKind};
use crate::limits::*;
use crate::manifest::{Manifest, ManifestView, Model, SegmentEntry};
use crate::os::disk::{Disk, write_all_atomically};
use crate::query::ann_policy::{AnnPolicy, SearchMode};
use crate::query::snapshot::Snapshot;
use crate::row_state::{RowState, StateFile, StateKey};
use crate::segment::UncommittedRows;
use crate::store::env::Env;
use crate::store::options::Options;
use crate::store::recovery::{RecoveredState, ReplayedLog};
use crate::store::replication_sink::{PublishedManifest, ReplicationSink};
use crate::store::segment_list::SegmentList;
use crate::store::segment_rewrite::{JobError, RewriteJob, UnpublishedSegment};
use crate::vector_index::IvfIndex;
use crate::wal::{Durability, WalPosition, WalSyncer, WalWriter};

/// Maximum bytes that a batch adds to the logs, including its frame head and a log header.
const LOG_ROOM_PER_BATCH: u64 = FRAME_BYTES_MAX as u64 + LOG_RESERVE_STEP;
// Logs without space for a batch always count as full, so a wait for space makes the tail sealed.
const _: () = assert!(LOG_BYTES_SEAL + LOG_ROOM_PER_BATCH <= LOG_BYTES_MAX);

#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) manifest: Manifest,
    pub(crate) segments: SegmentList,
    log: Option<WalWriter>,
    durability: Durability,
    /// Search mode of vector queries, for snapshots.
    ann_policy: AnnPolicy,
    /// True if the logs have frames that may not be on disk.
    pub(crate) has_unsynced_frames: bool,
    /// Numbers of older-version segments.
    pub(crate) older_version_segments: Vec<u64>,
    /// Earlier logs with the rest of the tail.
    older_logs: Vec<ReplayedLog>,
    manifest_bytes: u64,
    /// Receiver of log and manifest events.
    replication_sink: Option<Arc<dyn ReplicationSink>>,
    /// Model in the newest manifest.
    published_model: Option<Model>,
    next_seq: Seq,
    /// Counts of retired rows in the newest state file of each segment.
    stored_state_counts: HashMap<u64, [u32; 3]>,
    /// Sealed segments that a job is reading; no other job may claim them.
    claimed: HashSet<u64>,
    /// Sealed segments whose corruption prevents an index.
    unindexable: HashSet<u64>,
    /// Segments written by a re-embedding, for its final manifest. Each new segment replaces one sealed segment, which
    /// stays claimed until that manifest.
    pub(crate) reembedded: Vec<(RewriteJob, UnpublishedSegment)>,
    /// Maximum number of embeddings in the tail while a re-embedding holds writers back.
    pub(crate) reembed_backlog_max: Option<u64>,
    /// Obsolete files that still have to be removed.
    obsolete_files: Vec<String>,
    /// Number of snapshots taken, so that an older snapshot is never published after a newer one.
    next_view: u64,
    /// Reason why the writer stopped.
    stop_reason: Arc<OnceLock<String>>,
    /// Number of pending erasures.
    erasures_pending: Arc<AtomicUsize>,
}

/// Creates a store in a directory without a manifest. Fails if logs or segments of an earlier store are there.
fn first_manifest(ground: &Env, names: &[String]) -> Result<(Manifest, u64), OpenError> {
    let piece = names.iter().find(|name| {
        layout::file_number(FileKind::Log, name).is_some()
            || layout::file_number(FileKind::Segment, name).is_some()
    });
    if let Some(name) = piece {
        let detail = format!("{name} is there, but no manifest");
        return Err(CorruptionError::new("MAN-03", detail).into());
    }
    let mut id = [0; 16];
    ground.random.fill(&mut id);
    let manifest = Manifest::initial(StoreId(u128::from_le_bytes(id)), ground.clock.now());
    remove_unfinished(&*ground.disk, names)?;
    let bytes = manifest.install(&*ground.disk)?.len() as u64;
    Ok((manifest, bytes))
}

/// Removes unfinished files, whose names would collide with those of later files.
pub(crate) fn remove_unfinished(disk: &dyn Disk, names: &[String]) -> Result<(), DiskError> {
    names.iter().filter(|name| layout::is_unfinished(name)).try_for_each(|name| disk.remove(name))
}

fn stored_counts(state: &RowState) -> [u32; 3] {
    [state.tombstoned.count(), state.superseded.count(), state.edges_tombstoned.count()]
}

impl Writer {
    /// Opens the store of a directory, or creates one, and recovers all acknowledged commits.
    pub(crate) fn open(ground: &Env, options: &Options) -> Result<Self, OpenError> {
        let disk = &*ground.disk;
        let names = disk.names()?;
        let (manifest, manifest_bytes) = match Manifest::newest(disk, &names)? {
            Some(found) => found,
            None => first_manifest(ground, &names)?,
        };
        if !manifest.can_write() {
            let file = layout::file_name(FileKind::Manifest, manifest.number);
            return Err(OpenError::TooNew { file, version: manifest.write_version });
        }
        let mut opened = RecoveredState::open_sealed(disk, manifest, None)?;
        let stored_marks = stored_state_counts(&opened);
        opened.replay(disk, &names, false)?;
        if options.ann_policy.mode != SearchMode::Exact {
            opened.load_indexes(disk, &names);
        }
        let model = opened.manifest.model;
        // If the newest names were lost in a power cut, the files removed below would be the only ones left.
        disk.sync_names()?;
        let writer = Self {
            manifest_bytes,
            manifest: opened.manifest,
            segments: opened.segments,
            log: None,
            durability: options.durability,
            ann_policy: options.ann_policy,
            has_unsynced_frames: !opened.is_closed,
            older_version_segments: opened.older_version_segments,
            older_logs: opened.logs,
            replication_sink: ground.replication_sink.clone(),
            published_model: model,
            next_seq: opened.next_seq,
            stored_state_counts: stored_marks,
            claimed: HashSet::new(),
            unindexable: HashSet::new(),
            reembedded: Vec::new(),
            reembed_backlog_max: None,
            obsolete_files: Vec::new(),
            next_view: 0,
            stop_reason: Arc::default(),
            erasures_pending: Arc::default(),
        };
        writer.publish_erasure_count();
        writer.remove_leftovers(disk, &disk.names()?)?;
        Ok(writer)
    }

    /// Removes files that no manifest needs. Foreign files are left alone.
    fn remove_leftovers(&self, disk: &dyn Disk, names: &[String]) -> Result<(), DiskError> {
        remove_unfinished(disk, names)?;
        self.manifest.obsolete_files(names).into_iter().try_for_each(|name| disk.remove(name))
    }

    /// Newest commit, including pending ones.
    pub(crate) fn last_seq(&self) -> Seq {
        self.next_seq - 1
    }

    /// Reason why the writer stopped, for readers without the writer's lock.
    pub(crate) fn stop_reason(&self) -> Arc<OnceLock<String>> {
        Arc::clone(&self.stop_reason)
    }

    /// Number of pending erasures, for readers without the writer's lock.
    pub(crate) fn erasures_pending(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.erasures_pending)
    }

    fn publish_erasure_count(&self) {
        self.erasures_pending.store(self.manifest.erasures.len(), Ordering::SeqCst);
    }

    /// Snapshot as of the newest commit.
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        self.next_view += 1;
        let now = Snapshot::new(self.segments.all(), self.last_seq(), self.manifest.model);
        Snapshot { view: self.next_view, ann_policy: self.ann_policy, ..now }
    }

    /// Returns true if the tail must be sealed before another batch is logged. The flush itself needs a log for later
    /// commits, beside the log that the batch may need.
    pub(crate) fn logs_are_full(&self) -> bool {
        let one_more = usize::from(self.log.is_none());
        self.log_bytes() >= LOG_BYTES_SEAL || self.manifest.logs.len() + one_more >= LOGS_MAX
    }

    /// Returns true if the logs have space for a batch of any size.
    pub(crate) fn has_log_room(&self) -> bool {
        let has_log = self.log.is_some() || self.manifest.logs.len() < LOGS_MAX;
        has_log && self.log_bytes() + LOG_ROOM_PER_BATCH <= LOG_BYTES_MAX
    }

    /// Ids pending erasure.
    pub(crate) fn erasures(&self) -> &BTreeSet<u128> {
        &self.manifest.erasures
    }

    /// Adds orphaned sources to the pending erasures, before the first row is erased: once an item's row is erased,
    /// nothing else records its source. From now on no commit may reference these sources.
    pub(crate) fn add_erasures(&mut self, sources: impl IntoIterator<Item = SourceId>) {
        self.manifest.erasures.extend(sources.into_iter().map(|source| source.0));
        self.publish_erasure_count();
    }

    /// Bytes of the logs that cover the tail.
    pub(crate) fn log_bytes(&self) -> u64 {
        let older: u64 = self.older_logs.iter().map(|log| log.position.end).sum();
        older + self.log.as_ref().map_or(0, WalWriter::bytes)
    }

    /// Bytes of all files that the manifest needs, the logs, and the indexes in use.
    pub(crate) fn bytes_on_disk(&self) -> u64 {
        let sealed = self.manifest.segments.iter();
        let sealed: u64 = sealed
            .map(|entry| entry.bytes + entry.state.as_ref().map_or(0, |state| state.bytes))
            .sum();
        let indexes = self.segments.sealed().iter().filter_map(|part| part.segment.index());
        let sealed = sealed + indexes.map(IvfIndex::file_bytes).sum::<u64>();
        let older: u64 = self.older_logs.iter().map(|log| log.file_bytes).sum();
        let log = self.log.as_ref().map_or(0, WalWriter::file_bytes);
        sealed + older + log + self.manifest_bytes
    }

    /// Returns a handle that syncs the newest commits without the writer's lock.
    pub(crate) fn syncer(&self) -> Option<WalSyncer> {
        self.log.as_ref().map(WalWriter::syncer)
    }

    /// Position in the current log.
    pub(crate) fn log_position(&self) -> Option<WalPosition> {
        self.log.as_ref().map(WalWriter::position)
    }

    /// Appends one batch to the log, without a sync, and its `rows` to the tail. The log must have space for the batch.
    pub(crate) fn commit(
        &mut self,
        disk: &dyn Disk,
        batch: &Batch,
        payload: &[u8],
        rows: UncommittedRows,
    ) -> Result<Seq, WriteError> {
        assert!(self.has_log_room(), "the store waits for it before it takes the lock");
        let erasures = batch.tombstones.iter().filter(|stone| stone.erases_target());
        // Half of the limit, as each id may add its source to the erasures.
        if self.manifest.erasures.len() + erasures.clone().count() > ERASURES_PENDING_MAX / 2 {
            let why = format!("at most {} erasures may be pending", ERASURES_PENDING_MAX / 2);
            return Err(WriteError::refused("erase", why));
        }
        let records = u32::try_from(batch.record_count()).expect("BATCH_RECORDS_MAX is checked");
        // All reads that can fail come before the append: a logged batch is a commit.
        let seq = self.next_seq;
        let addition = self.segments.prepare(rows.commit(seq), [batch])?;
        self.ensure_log(disk)?;
        let log = self.log.as_mut().expect("made above");
        log.append(seq, payload, records).map_err(|error| self.stop(error))?;
        self.next_seq += 1;
        self.manifest.erasures.extend(erasures.map(|stone| stone.target));
        self.publish_erasure_count();
        self.segments.apply(addition).map_err(|damage| self.stop_for(damage))?;
        Ok(seq)
    }

    /// Creates a log on the first write that needs one. A manifest must list the log before its first frame.
    fn ensure_log(&mut self, disk: &dyn Disk) -> Result<(), WriteError> {
        if self.log.is_some() {
            return Ok(());
        }
        self.new_log(disk)?;
        self.publish(disk)
    }

    fn new_log(&mut self, disk: &dyn Disk) -> Result<(), WriteError> {
        let number = self.allocate_file_number();
        let (store, next_seq) = (self.manifest.store, self.next_seq);
        let made = WalWriter::create(disk, store, number, next_seq, self.durability);
        let log = made.map_err(|error| self.stop(error))?;
        report_log(self.replication_sink.as_deref(), disk, log.position())
            .map_err(|error| self.stop(error))?;
        self.log = Some(log);
        self.manifest.logs.push(number);
        Ok(())
    }

    fn allocate_file_number(&mut self) -> u64 {
        self.manifest.next_file += 1;
        self.manifest.next_file - 1
    }

    fn stop_for(&mut self, damage: CorruptionError) -> WriteError {
        self.record_stop(damage.to_string());
        damage.into()
    }

    /// Stops the writer after a failed flush: a tail that cannot be sealed would grow without limit.
    pub(crate) fn stop_for_flush(&mut self, job: &RewriteJob, error: JobError) -> WriteError {
        self.abandon(job);
        match error {
            JobError::Disk(error) | JobError::DirectorySync(error) => self.stop(error),
            JobError::Damaged(damage) => self.stop_for(damage),
            // Nothing is lost, as the next flush retries.
            JobError::Unavailable(damage) => damage.into(),
            // Per limits.rs, a full tail and the segments merged with it fit one segment.
            JobError::TooLarge(why) => self.stop_for(CorruptionError::new("SEG-21", why)),
            JobError::Cancelled => WriteError::Stopped("the flush was cancelled".to_owned()),
        }
    }

    pub(crate) fn stop(&mut self, error: DiskError) -> WriteError {
        self.record_stop(error.to_string());
        WriteError::Disk(error)
    }

    /// Stops the writer if a write that must come first does not fit on the disk.
    pub(crate) fn stop_for_space(&mut self, error: WriteError) {
        self.record_stop(match error {
            WriteError::Postponed { why, .. } => why,
            other => other.to_string(),
        });
    }

    /// Records the first reason only, as later ones are its consequences.
    fn record_stop(&self, why: String) {
        let _earlier = self.stop_reason.set(why);
    }

    /// Number of embeddings in the tail.
    pub(crate) fn tail_vectors(&self) -> u64 {
        self.segments.tail().iter().map(|part| u64::from(part.segment.header().vectors)).sum()
    }

    /// Returns true if a re-embedding permits this many more embeddings now.
    pub(crate) fn admits_embeddings(&self, vectors: u64) -> bool {
        vectors == 0
            || self.reembed_backlog_max.is_none_or(|most| self.tail_vectors() + vectors <= most)
    }

    fn drop_older_logs(&mut self) {
        let floor = self.log.as_ref().map_or(self.manifest.next_file, WalWriter::number);
        let old = self.older_logs.drain(..);
        self.obsolete_files
            .extend(old.map(|log| layout::file_name(FileKind::Log, log.position.log)));
        self.manifest.logs.retain(|&number| number >= floor);
        self.manifest.log_floor = floor;
    }

    fn mark_obsolete(&mut self, entry: &SegmentEntry) {
        self.stored_state_counts.remove(&entry.number);
        self.unindexable.remove(&entry.number);
        self.obsolete_files.push(layout::file_name(FileKind::Segment, entry.number));
        self.obsolete_files.push(layout::file_name(FileKind::Index, entry.number));
        let state = entry.state.as_ref();
        self.obsolete_files
            .extend(state.map(|state| layout::state_name(entry.number, state.generation)));
    }

    /// Writes the changed states and a new manifest, then removes obsolete files.
    pub(crate) fn publish(&mut self, disk: &dyn Disk) -> Result<(), WriteError> {
        self.publish_manifest(disk, false)
    }

    /// As [`Self::publish`]; `ends_erasure` is true if the manifest completes an erasure.
    fn publish_manifest(&mut self, disk: &dyn Disk, ends_erasure: bool) -> Result<(), WriteError> {
        let bytes = self.try_publish(disk).map_err(|error| self.stop(error))?;
        self.report_manifest(disk, &bytes, ends_erasure);
        // The new manifest is durable now, so its obsolete files can go.
        self.remove_obsolete_files(disk);
        Ok(())
    }

    /// Removes obsolete files. A failed removal is retried after the next manifest, before an erasure is reported
    /// complete, and at the next open.
    pub(crate) fn remove_obsolete_files(&mut self, disk: &dyn Disk) {
        self.obsolete_files.retain(|name| !remove_if_exists(disk, name));
    }

    fn try_publish(&mut self, disk: &dyn Disk) -> Result<Vec<u8>, DiskError> {
        // States reflect unsealed commits and must not reach the disk before them.
        self.syncer().map_or(Ok(()), |syncer| syncer.sync())?;
        self.write_states(disk)?;
        if !self.has_unsynced_frames {
            self.manifest.synced_seq = self.last_seq();
        }
        self.obsolete_files.push(layout::file_name(FileKind::Manifest, self.manifest.number));
        self.manifest.number += 1;
        let bytes = self.manifest.install(disk)?;
        self.manifest_bytes = bytes.len() as u64;
        Ok(bytes)
    }

    /// Reports the recovered logs and manifest to the sink. If the logs may not be on disk, nothing is reported: their
    /// commits reach the sink in the segment that replaces the logs first.
    pub(crate) fn report_opening(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        let Some(far) = self.replication_sink.as_deref().filter(|_| !self.has_unsynced_frames)
        else {
            return Ok(());
        };
        for log in &self.older_logs {
            report_log(Some(far), disk, log.position)?;
        }
        let name = layout::file_name(FileKind::Manifest, self.manifest.number);
        let bytes = disk.read(&name, MANIFEST_BYTES_MAX)?;
        self.report_manifest(disk, &bytes, false);
        Ok(())
    }

    /// Reports a published manifest, with its file's bytes, to the sink.
    fn report_manifest(&mut self, disk: &dyn Disk, bytes: &[u8], ends_erasure: bool) {
        let before = std::mem::replace(&mut self.published_model, self.manifest.model);
        let Some(far) = &self.replication_sink else { return };
        let older = self.older_logs.iter().map(|log| log.position);
        let logs: Vec<WalPosition> = older.chain(self.log_position()).collect();
        far.on_manifest_published(&PublishedManifest {
            bytes,
            manifest: &ManifestView::new(self.manifest.clone()),
            logs: &logs,
            last_seq: self.last_seq(),
            is_barrier: before != self.manifest.model,
            completes_erasure: ends_erasure,
            disk,
        });
    }

    fn write_states(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        // A replay sets the bits of unsealed commits again, which is harmless, as no bit is ever cleared.
        let (stored, doomed) = (&mut self.stored_state_counts, &mut self.obsolete_files);
        let sealed = self.manifest.segments.iter_mut().zip(self.segments.sealed());
        let files = sealed.filter_map(|(entry, part)| {
            let now = stored_counts(&part.state);
            let stored = stored.entry(entry.number).or_default();
            if *stored == now {
                return None;
            }
            *stored = now;
            let generation = entry.state.as_ref().map_or(1, |state| state.generation + 1);
            let of = StateKey {
                segment: entry.number,
                generation,
                items: entry.items,
                edges: entry.edges,
            };
            let file = StateFile::encode(of, &part.state);
            let old = entry.state.replace(file.entry);
            doomed.extend(old.map(|old| layout::state_name(entry.number, old.generation)));
            Some((file.name, file.bytes))
        });
        write_all_atomically(disk, files)
    }

    /// Completes the erasure of these ids, whose bytes are in no file any more. Fails if an obsolete file cannot be
    /// removed.
    pub(crate) fn complete_erasures(
        &mut self,
        disk: &dyn Disk,
        ids: &BTreeSet<u128>,
    ) -> Result<(), WriteError> {
        self.remove_obsolete_files(disk);
        if let Some(name) = self.obsolete_files.first() {
            let why = std::io::Error::other("it holds erased bytes and could not be removed");
            return Err(WriteError::postponed(&DiskError::new("remove", name, why)));
        }
        self.manifest.erasures.retain(|id| !ids.contains(id));
        self.publish_erasure_count();
        self.publish_manifest(disk, true)?;
        // Until this sync, a power cut may restore a removed name, which the next open removes again.
        disk.sync_names().map_err(|error| self.stop(error))
    }

    /// Closes the log, so that later damage to its last frame is recognized.
    pub(crate) fn close(&mut self) -> Result<(), DiskError> {
        match self.log.take() {
            Some(log) if self.stop_reason.get().is_none() => log.close(),
            _ => Ok(()),
        }
    }
}

/// Reports a new or recovered log to the sink.
fn report_log(
    far: Option<&dyn ReplicationSink>,
    disk: &dyn Disk,
    mark: WalPosition,
) -> Result<(), DiskError> {
    if let Some(far) = far {
        far.on_log_created(mark, disk.open(&layout::file_name(FileKind::Log, mark.log))?);
    }
    Ok(())
}

/// Removes a file that may be missing already; returns false if the removal failed.
fn remove_if_exists(disk: &dyn Disk, name: &str) -> bool {
    match disk.remove(name) {
        Ok(()) => true,
        Err(error) => error.source.kind() == std::io::ErrorKind::NotFound,
    }
}

fn stored_state_counts(opened: &RecoveredState) -> HashMap<u64, [u32; 3]> {
    let parts = opened.segments.sealed().iter();
    let entries = opened.manifest.segments.iter();
    entries.zip(parts).map(|(entry, part)| (entry.number, stored_counts(&part.state))).collect()
}
