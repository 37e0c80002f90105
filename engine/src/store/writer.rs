//! Writer of a store, and the order in which its changes become durable (`format-spec/log.md`).
//!
//! Has the log, the manifest and the newest rows, including pending commits. All methods run under the store's writer
//! lock and are short; long work, such as building segments, is a [`Job`]'s.

mod jobs;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::error::{Damage, DiskError, OpenError, WriteError};
use crate::ids::{Seq, SourceId, StoreId};
use crate::index::Lists;
use crate::item::Batch;
use crate::layout::{self, FileKind};
use crate::limits::*;
use crate::log::{Durability, LogMark, LogSyncer, LogWriter};
use crate::manifest::{Listing, Manifest, Model, SegmentEntry};
use crate::os::disk::{Disk, put_all_in_place};
use crate::reading::searching::{SearchMode, Searching};
use crate::reading::snapshot::Snapshot;
use crate::segment::Uncommitted;
use crate::state::{RowState, StateFile, StateOf};
use crate::store::far::{Far, Published};
use crate::store::ground::Ground;
use crate::store::job::{Job, JobError, Made};
use crate::store::opening::{Opened, ReadLog};
use crate::store::options::Options;
use crate::store::rows::Rows;

/// Maximum bytes that a batch adds to the logs, including its frame head and a log header.
const FRAME_ROOM: u64 = FRAME_BYTES_MAX as u64 + LOG_RESERVE_STEP;
// Logs without space for a batch always count as full, so a wait for space makes the tail sealed.
const _: () = assert!(LOG_BYTES_SEAL + FRAME_ROOM <= LOG_BYTES_MAX);

#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) manifest: Manifest,
    pub(crate) rows: Rows,
    log: Option<LogWriter>,
    durability: Durability,
    /// Search mode of vector queries, for snapshots.
    searching: Searching,
    /// True if the logs have frames that may not be on disk.
    pub(crate) must_seal: bool,
    /// Numbers of older-version segments.
    pub(crate) outdated: Vec<u64>,
    /// Earlier logs with the rest of the tail.
    older_logs: Vec<ReadLog>,
    manifest_bytes: u64,
    /// Receiver of log and manifest events.
    far: Option<Arc<dyn Far>>,
    /// Model in the newest manifest.
    published_model: Option<Model>,
    next_seq: Seq,
    /// Counts of retired rows in the newest state file of each segment.
    stored_marks: HashMap<u64, [u32; 3]>,
    /// Sealed segments that a job is reading; no other job may claim them.
    claimed: HashSet<u64>,
    /// Sealed segments whose corruption prevents an index.
    unindexable: HashSet<u64>,
    /// Segments written by a re-embedding, for its final manifest. Each new segment replaces one sealed segment, which
    /// stays claimed until that manifest.
    pub(crate) remade: Vec<(Job, Made)>,
    /// Maximum number of embeddings in the tail while a re-embedding holds writers back.
    pub(crate) waiting_max: Option<u64>,
    /// Obsolete files that still have to be removed.
    doomed: Vec<String>,
    /// Number of snapshots taken, so that an older snapshot is never published after a newer one.
    views: u64,
    /// Reason why the writer stopped.
    stopped: Arc<OnceLock<String>>,
    /// Number of pending erasures.
    erasures_pending: Arc<AtomicUsize>,
}

/// Creates a store in a directory without a manifest. Fails if logs or segments of an earlier store are there.
fn first_manifest(ground: &Ground, names: &[String]) -> Result<(Manifest, u64), OpenError> {
    let piece = names.iter().find(|name| {
        layout::number(FileKind::Log, name).is_some()
            || layout::number(FileKind::Segment, name).is_some()
    });
    if let Some(name) = piece {
        let detail = format!("{name} is there, but no manifest");
        return Err(Damage::new("MAN-03", detail).into());
    }
    let mut id = [0; 16];
    ground.random.fill(&mut id);
    let manifest = Manifest::first(StoreId(u128::from_le_bytes(id)), ground.clock.now());
    remove_unfinished(&*ground.disk, names)?;
    let bytes = manifest.put_in_place(&*ground.disk)?.len() as u64;
    Ok((manifest, bytes))
}

/// Removes unfinished files, whose names would collide with those of later files.
pub(crate) fn remove_unfinished(disk: &dyn Disk, names: &[String]) -> Result<(), DiskError> {
    names.iter().filter(|name| layout::is_unfinished(name)).try_for_each(|name| disk.remove(name))
}

fn marks(state: &RowState) -> [u32; 3] {
    [state.tombstoned.count(), state.superseded.count(), state.edges_tombstoned.count()]
}

impl Writer {
    /// Opens the store of a directory, or creates one, and recovers all acknowledged commits.
    pub(crate) fn open(ground: &Ground, options: &Options) -> Result<Self, OpenError> {
        let disk = &*ground.disk;
        let names = disk.names()?;
        let (manifest, manifest_bytes) = match Manifest::newest(disk, &names)? {
            Some(found) => found,
            None => first_manifest(ground, &names)?,
        };
        if !manifest.may_write() {
            let file = layout::name(FileKind::Manifest, manifest.number);
            return Err(OpenError::TooNew { file, version: manifest.write_version });
        }
        let mut opened = Opened::sealed(disk, manifest, None)?;
        let stored_marks = stored_marks(&opened);
        opened.replay(disk, &names, false)?;
        if options.searching.mode != SearchMode::Exact {
            opened.take_indexes(disk, &names);
        }
        let model = opened.manifest.model;
        // If the newest names were lost in a power cut, the files removed below would be the only ones left.
        disk.sync_names()?;
        let writer = Self {
            manifest_bytes,
            manifest: opened.manifest,
            rows: opened.rows,
            log: None,
            durability: options.durability,
            searching: options.searching,
            must_seal: !opened.is_closed,
            outdated: opened.outdated,
            older_logs: opened.logs,
            far: ground.far.clone(),
            published_model: model,
            next_seq: opened.next_seq,
            stored_marks,
            claimed: HashSet::new(),
            unindexable: HashSet::new(),
            remade: Vec::new(),
            waiting_max: None,
            doomed: Vec::new(),
            views: 0,
            stopped: Arc::default(),
            erasures_pending: Arc::default(),
        };
        writer.count_erasures();
        writer.remove_leftovers(disk, &disk.names()?)?;
        Ok(writer)
    }

    /// Removes files that no manifest needs. Foreign files are left alone.
    fn remove_leftovers(&self, disk: &dyn Disk, names: &[String]) -> Result<(), DiskError> {
        remove_unfinished(disk, names)?;
        self.manifest.leftovers(names).into_iter().try_for_each(|name| disk.remove(name))
    }

    /// Newest commit, including pending ones.
    pub(crate) fn last_seq(&self) -> Seq {
        self.next_seq - 1
    }

    /// Reason why the writer stopped, for readers without the writer's lock.
    pub(crate) fn stopped(&self) -> Arc<OnceLock<String>> {
        Arc::clone(&self.stopped)
    }

    /// Number of pending erasures, for readers without the writer's lock.
    pub(crate) fn erasures_pending(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.erasures_pending)
    }

    fn count_erasures(&self) {
        self.erasures_pending.store(self.manifest.erasures.len(), Ordering::SeqCst);
    }

    /// Snapshot as of the newest commit.
    pub(crate) fn snapshot(&mut self) -> Snapshot {
        self.views += 1;
        let now = Snapshot::of(self.rows.all(), self.last_seq(), self.manifest.model);
        Snapshot { view: self.views, searching: self.searching, ..now }
    }

    /// Returns true if the tail must be sealed before another batch is logged. The flush itself needs a log for later
    /// commits, beside the log that the batch may need.
    pub(crate) fn logs_are_full(&self) -> bool {
        let one_more = usize::from(self.log.is_none());
        self.log_bytes() >= LOG_BYTES_SEAL || self.manifest.logs.len() + one_more >= LOGS_MAX
    }

    /// Returns true if the logs have space for a batch of any size.
    pub(crate) fn has_room(&self) -> bool {
        let has_log = self.log.is_some() || self.manifest.logs.len() < LOGS_MAX;
        has_log && self.log_bytes() + FRAME_ROOM <= LOG_BYTES_MAX
    }

    /// Ids pending erasure.
    pub(crate) fn erasures(&self) -> &BTreeSet<u128> {
        &self.manifest.erasures
    }

    /// Adds orphaned sources to the pending erasures, before the first row is erased: once an item's row is erased,
    /// nothing else records its source. From now on no commit may reference these sources.
    pub(crate) fn erase_too(&mut self, sources: impl IntoIterator<Item = SourceId>) {
        self.manifest.erasures.extend(sources.into_iter().map(|source| source.0));
        self.count_erasures();
    }

    /// Bytes of the logs that cover the tail.
    pub(crate) fn log_bytes(&self) -> u64 {
        let older: u64 = self.older_logs.iter().map(|log| log.mark.end).sum();
        older + self.log.as_ref().map_or(0, LogWriter::bytes)
    }

    /// Bytes of all files that the manifest needs, the logs, and the indexes in use.
    pub(crate) fn bytes_on_disk(&self) -> u64 {
        let sealed = self.manifest.segments.iter();
        let sealed: u64 = sealed
            .map(|entry| entry.bytes + entry.state.as_ref().map_or(0, |state| state.bytes))
            .sum();
        let indexes = self.rows.sealed_parts().iter().filter_map(|part| part.segment.index());
        let sealed = sealed + indexes.map(Lists::file_bytes).sum::<u64>();
        let older: u64 = self.older_logs.iter().map(|log| log.file_bytes).sum();
        let log = self.log.as_ref().map_or(0, LogWriter::file_bytes);
        sealed + older + log + self.manifest_bytes
    }

    /// Returns a handle that syncs the newest commits without the writer's lock.
    pub(crate) fn syncer(&self) -> Option<LogSyncer> {
        self.log.as_ref().map(LogWriter::syncer)
    }

    /// Position in the current log.
    pub(crate) fn mark(&self) -> Option<LogMark> {
        self.log.as_ref().map(LogWriter::mark)
    }

    /// Appends one batch to the log, without a sync, and its `rows` to the tail. The log must have space for the batch.
    pub(crate) fn commit(
        &mut self,
        disk: &dyn Disk,
        batch: &Batch,
        payload: &[u8],
        rows: Uncommitted,
    ) -> Result<Seq, WriteError> {
        assert!(self.has_room(), "the store waits for it before it takes the lock");
        let erasures = batch.tombstones.iter().filter(|stone| stone.removes());
        // Half of the limit, as each id may add its source to the erasures.
        if self.manifest.erasures.len() + erasures.clone().count() > ERASURES_PENDING_MAX / 2 {
            let why = format!("at most {} erasures may be pending", ERASURES_PENDING_MAX / 2);
            return Err(WriteError::refused("erase", why));
        }
        let records = u32::try_from(batch.records()).expect("BATCH_RECORDS_MAX is checked");
        // All reads that can fail come before the append: a logged batch is a commit.
        let seq = self.next_seq;
        let addition = self.rows.prepare(rows.committed(seq), [batch])?;
        self.need_log(disk)?;
        let log = self.log.as_mut().expect("made above");
        log.append(seq, payload, records).map_err(|error| self.stop(error))?;
        self.next_seq += 1;
        self.manifest.erasures.extend(erasures.map(|stone| stone.target));
        self.count_erasures();
        self.rows.take(addition).map_err(|damage| self.stop_for(damage))?;
        Ok(seq)
    }

    /// Creates a log on the first write that needs one. A manifest must list the log before its first frame.
    fn need_log(&mut self, disk: &dyn Disk) -> Result<(), WriteError> {
        if self.log.is_some() {
            return Ok(());
        }
        self.new_log(disk)?;
        self.publish(disk)
    }

    fn new_log(&mut self, disk: &dyn Disk) -> Result<(), WriteError> {
        let number = self.take_number();
        let (store, next_seq) = (self.manifest.store, self.next_seq);
        let made = LogWriter::create(disk, store, number, next_seq, self.durability);
        let log = made.map_err(|error| self.stop(error))?;
        tell_of_log(self.far.as_deref(), disk, log.mark()).map_err(|error| self.stop(error))?;
        self.log = Some(log);
        self.manifest.logs.push(number);
        Ok(())
    }

    fn take_number(&mut self) -> u64 {
        self.manifest.next_file += 1;
        self.manifest.next_file - 1
    }

    fn stop_for(&mut self, damage: Damage) -> WriteError {
        self.note_stop(damage.to_string());
        damage.into()
    }

    /// Stops the writer after a failed flush: a tail that cannot be sealed would grow without limit.
    pub(crate) fn stop_for_flush(&mut self, job: &Job, error: JobError) -> WriteError {
        self.abandon(job);
        match error {
            JobError::Disk(error) | JobError::Names(error) => self.stop(error),
            JobError::Damaged(damage) => self.stop_for(damage),
            // Nothing is lost, as the next flush retries.
            JobError::Away(damage) => damage.into(),
            // Per limits.rs, a full tail and the segments merged with it fit one segment.
            JobError::TooLarge(why) => self.stop_for(Damage::new("SEG-21", why)),
            JobError::Cancelled => WriteError::Stopped("the flush was cancelled".to_owned()),
        }
    }

    pub(crate) fn stop(&mut self, error: DiskError) -> WriteError {
        self.note_stop(error.to_string());
        WriteError::Disk(error)
    }

    /// Stops the writer if a write that must come first does not fit on the disk.
    pub(crate) fn stop_for_space(&mut self, error: WriteError) {
        self.note_stop(match error {
            WriteError::Postponed { why, .. } => why,
            other => other.to_string(),
        });
    }

    /// Records the first reason only, as later ones are its consequences.
    fn note_stop(&self, why: String) {
        let _earlier = self.stopped.set(why);
    }

    /// Number of embeddings in the tail.
    pub(crate) fn tail_vectors(&self) -> u64 {
        self.rows.tail().iter().map(|part| u64::from(part.segment.header().vectors)).sum()
    }

    /// Returns true if a re-embedding permits this many more embeddings now.
    pub(crate) fn admits(&self, vectors: u64) -> bool {
        vectors == 0 || self.waiting_max.is_none_or(|most| self.tail_vectors() + vectors <= most)
    }

    fn drop_older_logs(&mut self) {
        let floor = self.log.as_ref().map_or(self.manifest.next_file, LogWriter::number);
        let old = self.older_logs.drain(..);
        self.doomed.extend(old.map(|log| layout::name(FileKind::Log, log.mark.log)));
        self.manifest.logs.retain(|&number| number >= floor);
        self.manifest.log_floor = floor;
    }

    fn doom(&mut self, entry: &SegmentEntry) {
        self.stored_marks.remove(&entry.number);
        self.unindexable.remove(&entry.number);
        self.doomed.push(layout::name(FileKind::Segment, entry.number));
        self.doomed.push(layout::name(FileKind::Index, entry.number));
        let state = entry.state.as_ref();
        self.doomed.extend(state.map(|state| layout::state_name(entry.number, state.generation)));
    }

    /// Writes the changed states and a new manifest, then removes obsolete files.
    pub(crate) fn publish(&mut self, disk: &dyn Disk) -> Result<(), WriteError> {
        self.publish_after(disk, false)
    }

    /// As [`Self::publish`]; `ends_erasure` is true if the manifest completes an erasure.
    fn publish_after(&mut self, disk: &dyn Disk, ends_erasure: bool) -> Result<(), WriteError> {
        let bytes = self.try_publish(disk).map_err(|error| self.stop(error))?;
        self.tell_of_manifest(disk, &bytes, ends_erasure);
        // The new manifest is durable now, so its obsolete files can go.
        self.remove_doomed(disk);
        Ok(())
    }

    /// Removes obsolete files. A failed removal is retried after the next manifest, before an erasure is reported
    /// complete, and at the next open.
    pub(crate) fn remove_doomed(&mut self, disk: &dyn Disk) {
        self.doomed.retain(|name| !is_removed(disk, name));
    }

    fn try_publish(&mut self, disk: &dyn Disk) -> Result<Vec<u8>, DiskError> {
        // States reflect unsealed commits and must not reach the disk before them.
        self.syncer().map_or(Ok(()), |syncer| syncer.sync())?;
        self.write_states(disk)?;
        if !self.must_seal {
            self.manifest.synced_seq = self.last_seq();
        }
        self.doomed.push(layout::name(FileKind::Manifest, self.manifest.number));
        self.manifest.number += 1;
        let bytes = self.manifest.put_in_place(disk)?;
        self.manifest_bytes = bytes.len() as u64;
        Ok(bytes)
    }

    /// Reports the recovered logs and manifest to the sink. If the logs may not be on disk, nothing is reported: their
    /// commits reach the sink in the segment that replaces the logs first.
    pub(crate) fn tell_of_opening(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        let Some(far) = self.far.as_deref().filter(|_| !self.must_seal) else { return Ok(()) };
        for log in &self.older_logs {
            tell_of_log(Some(far), disk, log.mark)?;
        }
        let name = layout::name(FileKind::Manifest, self.manifest.number);
        let bytes = disk.read(&name, MANIFEST_BYTES_MAX)?;
        self.tell_of_manifest(disk, &bytes, false);
        Ok(())
    }

    /// Reports a published manifest, with its file's bytes, to the sink.
    fn tell_of_manifest(&mut self, disk: &dyn Disk, bytes: &[u8], ends_erasure: bool) {
        let before = std::mem::replace(&mut self.published_model, self.manifest.model);
        let Some(far) = &self.far else { return };
        let older = self.older_logs.iter().map(|log| log.mark);
        let logs: Vec<LogMark> = older.chain(self.mark()).collect();
        far.published(&Published {
            bytes,
            listing: &Listing::of(self.manifest.clone()),
            logs: &logs,
            last_seq: self.last_seq(),
            must_lead: before != self.manifest.model,
            ends_erasure,
            disk,
        });
    }

    fn write_states(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        // A replay sets the bits of unsealed commits again, which is harmless, as no bit is ever cleared.
        let (stored, doomed) = (&mut self.stored_marks, &mut self.doomed);
        let sealed = self.manifest.segments.iter_mut().zip(self.rows.sealed_parts());
        let files = sealed.filter_map(|(entry, part)| {
            let now = marks(&part.state);
            let stored = stored.entry(entry.number).or_default();
            if *stored == now {
                return None;
            }
            *stored = now;
            let generation = entry.state.as_ref().map_or(1, |state| state.generation + 1);
            let of = StateOf {
                segment: entry.number,
                generation,
                items: entry.items,
                edges: entry.edges,
            };
            let file = StateFile::of(of, &part.state);
            let old = entry.state.replace(file.entry);
            doomed.extend(old.map(|old| layout::state_name(entry.number, old.generation)));
            Some((file.name, file.bytes))
        });
        put_all_in_place(disk, files)
    }

    /// Completes the erasure of these ids, whose bytes are in no file any more. Fails if an obsolete file cannot be
    /// removed.
    pub(crate) fn forget_erased(
        &mut self,
        disk: &dyn Disk,
        ids: &BTreeSet<u128>,
    ) -> Result<(), WriteError> {
        self.remove_doomed(disk);
        if let Some(name) = self.doomed.first() {
            let why = std::io::Error::other("it holds erased bytes and could not be removed");
            return Err(WriteError::postponed(&DiskError::new("remove", name, why)));
        }
        self.manifest.erasures.retain(|id| !ids.contains(id));
        self.count_erasures();
        self.publish_after(disk, true)?;
        // Until this sync, a power cut may restore a removed name, which the next open removes again.
        disk.sync_names().map_err(|error| self.stop(error))
    }

    /// Closes the log, so that later damage to its last frame is recognized.
    pub(crate) fn close(&mut self) -> Result<(), DiskError> {
        match self.log.take() {
            Some(log) if self.stopped.get().is_none() => log.close(),
            _ => Ok(()),
        }
    }
}

/// Reports a new or recovered log to the sink.
fn tell_of_log(far: Option<&dyn Far>, disk: &dyn Disk, mark: LogMark) -> Result<(), DiskError> {
    if let Some(far) = far {
        far.began_log(mark, disk.open(&layout::name(FileKind::Log, mark.log))?);
    }
    Ok(())
}

/// Removes a file that may be missing already; returns false if the removal failed.
fn is_removed(disk: &dyn Disk, name: &str) -> bool {
    match disk.remove(name) {
        Ok(()) => true,
        Err(error) => error.source.kind() == std::io::ErrorKind::NotFound,
    }
}

fn stored_marks(opened: &Opened) -> HashMap<u64, [u32; 3]> {
    let parts = opened.rows.sealed_parts().iter();
    let entries = opened.manifest.segments.iter();
    entries.zip(parts).map(|(entry, part)| (entry.number, marks(&part.state))).collect()
}
