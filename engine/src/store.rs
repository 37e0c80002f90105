//! Store: many writers, one at a time, and readers on frozen snapshots.
//!
//! Entry point of the engine: orders the writers and publishes snapshots. The [`Writer`] changes the files; other
//! modules define and search the rows.
//!
//! Locks, in the order in which a thread may acquire them: `moving`, `compacting`, `flushing`, `merging`, `writer`, a
//! log's lock during its sync, `shown`. Only short work is done under `writer`: an append to the log, rows for the
//! tail, a manifest. The [replication sink](far) receives its events there, and is never waited for.

mod carrying;
pub mod far;
pub(crate) mod figures;
mod following;
mod ground;
pub(crate) mod job;
mod links;
pub(crate) mod opening;
mod options;
mod reader;
mod releasing;
mod rows;
mod settle;
mod showing;
mod turns;
pub(crate) mod wanted;
pub(crate) mod writer;

pub use figures::Figures;
pub use ground::Ground;
pub use options::Options;
pub use reader::{OPEN_ATTEMPTS_MAX, Reader};

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use crate::error::{OpenError, Remedy, WriteError};
use crate::ids::{EdgeId, IdMaker, ItemId, Seq, SourceId};
use crate::item::{Batch, Checked, Complete, TombstoneDraft, Unwritten};
use crate::limits::*;
use crate::log::Durability;
use crate::manifest::Model;
use crate::merge::{Erased, HeapMerged};
use crate::os::clock::Micros;
use crate::os::disk::DiskLock;
use crate::pace::FullSpeed;
use crate::reading::snapshot::Snapshot;
use crate::record;
use crate::segment::Uncommitted;
use carrying::Carrying;
use figures::Tally;
use following::Following;
use job::{Content, JobError};
use rows::Rows;
use settle::Settling;
use turns::Turns;
use wanted::Wanted;
use writer::Writer;

/// Attempts of a writer to get log space before it gives up: on each, other writers took the freed space.
const ROOM_TRIES_MAX: usize = 64;

/// Result of a write, with ids in the order of the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Commit number.
    pub seq: Seq,
    /// Transaction time of the rows.
    pub at: Micros,
    /// Ids of the written sources.
    pub sources: Vec<SourceId>,
    /// Ids of the written items.
    pub items: Vec<ItemId>,
    /// Ids of the written edges.
    pub edges: Vec<EdgeId>,
}

/// Open store.
#[derive(Debug)]
pub struct Store {
    pub(crate) ground: Ground,
    pub(crate) options: Options,
    carrying: Option<Carrying>,
    /// Serializes re-embeddings.
    pub(crate) moving: Mutex<()>,
    /// Serializes compaction, erasure, and a re-embedding's work on one segment.
    pub(crate) compacting: Turns,
    /// Serializes flushes.
    pub(crate) flushing: Mutex<()>,
    /// Serializes merges of large runs of the tail; acquired by `try_lock` only.
    merging: Mutex<()>,
    role: Role,
    /// Wakes writers that a re-embedding holds back.
    pub(crate) admitting: Condvar,
    settling: Settling,
    /// Reason why the writer stopped; read without the writer's lock.
    stopped: Arc<OnceLock<String>>,
    /// Number of pending erasures; read without the writer's lock.
    pub(crate) erasures_pending: Arc<AtomicUsize>,
    ids: Mutex<IdMaker>,
    shown: RwLock<Snapshot>,
    bytes_on_disk: AtomicU64,
    pub(crate) tally: Tally,
    /// Called after each publication of a snapshot.
    on_news: OnceLock<Tell>,
    /// Work queue of the background workers.
    pub(crate) wanted: Wanted,
    /// Lock that excludes other processes from the directory; `None` once released.
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

struct Tell(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Tell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

/// Role of this store in its directory.
#[derive(Debug)]
enum Role {
    /// Leader: this store writes the directory.
    Writes(Box<Mutex<Writer>>),
    /// Replica: another process writes the directory.
    Follows(Box<Following>),
}

/// Initial state after an open, and the writer's values that are read without its lock.
struct Found {
    snapshot: Snapshot,
    bytes_on_disk: u64,
    erasures_pending: Arc<AtomicUsize>,
    stopped: Arc<OnceLock<String>>,
}

impl Store {
    /// Opens the store, or creates it in a directory without one, and recovers all acknowledged commits.
    ///
    /// If files of an earlier process must be rewritten but the disk is full, the store serves reads and its writer has
    /// [stopped](Store::stopped) until the store is reopened. If a [replication sink](Ground::far) is synchronous,
    /// recovered commits are replicated before this returns, and each write is also synced, whatever
    /// [`Options::durability`] says.
    pub fn open(ground: Ground, mut options: Options) -> Result<Self, OpenError> {
        let disk = &*ground.disk;
        let lock = disk.lock()?.ok_or(OpenError::Locked)?;
        let carrying = ground.far.as_ref().map(Carrying::by);
        if carrying.as_ref().is_some_and(Carrying::acknowledges) {
            options.durability = Durability::Sync;
        }
        let mut writer = Writer::open(&ground, &options)?;
        writer.tell_of_opening(disk)?;
        let found = Found {
            snapshot: writer.snapshot(),
            bytes_on_disk: writer.bytes_on_disk(),
            erasures_pending: writer.erasures_pending(),
            stopped: writer.stopped(),
        };
        let newest = found.snapshot.seq();
        let role = Role::Writes(Box::new(Mutex::new(writer)));
        let store = Self::of(ground, options, role, carrying, found, lock);
        match store.renew() {
            Err(error) if error.remedy() == Remedy::FreeSpace && store.may_show(newest) => {
                store.lock_writer()?.stop_for_space(error);
                Ok(store)
            }
            renewed => renewed.map(|()| store).map_err(OpenError::from),
        }
    }

    fn of(
        ground: Ground,
        options: Options,
        role: Role,
        carrying: Option<Carrying>,
        found: Found,
        lock: Box<dyn DiskLock>,
    ) -> Self {
        let newest = found.snapshot.seq();
        let settled = carrying.as_ref().map_or(newest, |carrying| carrying.shown_to(newest));
        Self {
            ground,
            options,
            role,
            carrying,
            flushing: Mutex::default(),
            moving: Mutex::default(),
            compacting: Turns::default(),
            merging: Mutex::default(),
            admitting: Condvar::new(),
            settling: Settling::new(settled),
            stopped: found.stopped,
            erasures_pending: found.erasures_pending,
            ids: Mutex::default(),
            shown: RwLock::new(found.snapshot),
            bytes_on_disk: AtomicU64::new(found.bytes_on_disk),
            on_news: OnceLock::new(),
            tally: Tally::default(),
            wanted: Wanted::default(),
            lock: Mutex::new(Some(lock)),
        }
    }

    /// Rewrites recovered files that must not stay as they are. A writer that was not closed may have left frames that
    /// never reached the disk and that another sync would not write: after a failed sync, the operating system treats
    /// the pages as written (Rebello et al., "Can applications recover from fsync failures?", ATC 2020). Segments of an
    /// older version are upgraded.
    fn renew(&self) -> Result<(), WriteError> {
        let must_seal = self.writer()?.must_seal;
        if must_seal {
            self.seal()?;
        }
        let outdated = std::mem::take(&mut self.writer()?.outdated);
        for number in outdated {
            let job = self.writer()?.job_over(number);
            if let Some(job) = job {
                self.rewrite(&job, &Erased::default(), &FullSpeed)?;
            }
        }
        // Blocks only on commits that must be replicated before they are visible.
        self.sync()
    }

    /// Current time of this store's clock.
    pub fn now(&self) -> Micros {
        self.ground.clock.now()
    }

    /// Creates an id for an item of a later batch, so that other records of the batch can reference the item.
    pub fn new_item_id(&self) -> ItemId {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ItemId(ids.next(self.ground.clock.now(), &*self.ground.random))
    }

    /// Creates an id for a source of a later batch.
    pub fn new_source_id(&self) -> SourceId {
        SourceId(self.new_item_id().0)
    }

    /// Creates an id for an edge of a later batch.
    pub fn new_edge_id(&self) -> EdgeId {
        EdgeId(self.new_item_id().0)
    }

    /// Writes a batch atomically. On return, the batch is as durable as [`Options::durability`] says, and visible in
    /// new snapshots. Threads that write at the same time share syncs (group commit).
    pub fn write(&self, batch: Batch) -> Result<Written, WriteError> {
        self.try_write(batch).map_err(|unwritten| unwritten.error)
    }

    /// As [`Store::write`], but the error returns the batch, so that the caller needs no copy for a retry.
    pub fn try_write(&self, batch: Batch) -> Result<Written, Unwritten> {
        let model = self.snapshot().model;
        let batch = Checked::new(batch, model.map(|model| model.dimensions))?;
        let at = self.ground.clock.now();
        let mut batch = {
            let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
            batch.complete(at, || ids.next(at, &*self.ground.random))
        };
        let seq = self.write_complete(&mut batch, model);
        let batch = batch.into_batch();
        match seq {
            Ok(seq) => Ok(Written {
                seq,
                at,
                sources: batch.sources.iter().filter_map(|source| source.id).collect(),
                items: batch.items.iter().filter_map(|item| item.id).collect(),
                edges: batch.edges.iter().filter_map(|edge| edge.id).collect(),
            }),
            Err(error) => Err(Unwritten { error, batch: Box::new(batch) }),
        }
    }

    /// Executes the blocking part of a write, after the batch was checked against `model`.
    fn write_complete(
        &self,
        batch: &mut Complete,
        model: Option<Model>,
    ) -> Result<Seq, WriteError> {
        let _waiting = self.admit()?;
        let payload = payload_of(batch)?;
        self.wait_for_room()?;
        let rows = Uncommitted::of(batch.batch());
        let (seq, has_large_run) = self.append(batch, payload, rows, model)?;
        if self.options.durability == Durability::Sync {
            self.settling.settle(seq, || self.sync_log(), || self.stop_error())?;
        }
        if has_large_run {
            self.merge_large_run();
        }
        self.flush_when_full();
        if batch.batch().tombstones.iter().any(TombstoneDraft::removes) {
            self.wanted.note_change();
        }
        Ok(seq)
    }

    /// Executes the serial part of a write: checks against the existing rows, and the append to the log. Returns the
    /// commit, and true if the tail now has a run for [`Store::merge_large_run`].
    fn append(
        &self,
        batch: &mut Complete,
        mut payload: Vec<u8>,
        mut rows: Uncommitted,
        model: Option<Model>,
    ) -> Result<(Seq, bool), WriteError> {
        let mut writer = self.admitted(batch.batch())?;
        let bound = writer.manifest.model;
        if bound != model {
            // A re-embedding has changed the model since the batch was checked.
            batch.batch().check(bound.map(|model| model.dimensions))?;
        }
        refuse_other_model(batch.batch(), bound)?;
        let snapshot = writer.snapshot();
        links::check(&snapshot, batch)?;
        links::check_stays(writer.erasures(), batch)?;
        if links::keep_lists(&snapshot, batch)? {
            // Encoded again only for batches that erase, which are rare and short.
            payload = payload_of(batch)?;
            rows = Uncommitted::of(batch.batch());
        }
        let seq = writer.commit(&*self.ground.disk, batch.batch(), &payload, rows)?;
        if self.options.durability != Durability::Sync {
            self.show(&mut writer);
        }
        Ok((seq, writer.rows.large_run().is_some()))
    }

    /// Acquires the writer once it admits the embeddings of a batch: a re-embedding may hold writers back.
    fn admitted(&self, batch: &Batch) -> Result<MutexGuard<'_, Writer>, WriteError> {
        let vectors = batch.items.iter().filter(|item| !item.embedding.is_empty()).count() as u64;
        loop {
            let writer = self.writer_with_room()?;
            if writer.admits(vectors) {
                return Ok(writer);
            }
            // Other writers may take the log space meanwhile, so the loop checks it again.
            drop(self.admitting.wait(writer).map_err(|_| self.poisoned())?);
        }
    }

    /// Seals the tail into a segment file, so that the next open has no log to replay.
    pub fn seal(&self) -> Result<(), WriteError> {
        let _alone = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_alone(&Erased::default())
    }

    /// Acquires the writer with log space for one more batch. If several threads waited for space, the first may have
    /// taken all of the space, so the check is repeated.
    pub(crate) fn writer_with_room(&self) -> Result<MutexGuard<'_, Writer>, WriteError> {
        for _ in 0..ROOM_TRIES_MAX {
            let writer = self.writer()?;
            if writer.has_room() {
                return Ok(writer);
            }
            drop(writer);
            self.wait_for_room()?;
        }
        let why = "other writers fill the logs faster than they are sealed".to_owned();
        Err(WriteError::Postponed { why, remedy: Remedy::RetryLater })
    }

    /// Waits, as backpressure, while writes outrun the sealing of the tail.
    fn wait_for_room(&self) -> Result<(), WriteError> {
        let is_full = |writer: &Writer| {
            Rows::bytes(writer.rows.tail()) >= 2 * self.options.tail_bytes_seal.max(1)
                || writer.logs_are_full()
        };
        if !is_full(&*self.writer()?) {
            return Ok(());
        }
        let _alone = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        if is_full(&*self.writer()?) { self.flush_alone(&Erased::default()) } else { Ok(()) }
    }

    /// Seals a full tail, or requests that from the background workers. The preceding write is valid in any case, as
    /// its batch is in the log. A failure stops the writer, and the next write reports the reason.
    fn flush_when_full(&self) {
        if !self.is_full() || self.wanted.ask_for_flush() {
            return;
        }
        if let Ok(_alone) = self.flushing.try_lock() {
            let _told_by_the_next_write = self.flush_alone(&Erased::default());
        }
    }

    /// Merges tail segments that are too large for a merge under the writer's lock, while others write.
    fn merge_large_run(&self) {
        let Ok(_alone) = self.merging.try_lock() else { return };
        let run = self.writer().ok().and_then(|writer| writer.rows.large_run());
        let Some(run) = run else { return };
        // The next flush reads the same segments and reports their corruption.
        if let Ok(merged) = HeapMerged::of(&run)
            && let Ok(mut writer) = self.writer()
        {
            writer.rows.take_merged(&run, merged);
        }
    }

    fn is_full(&self) -> bool {
        self.writer().is_ok_and(|writer| {
            Rows::bytes(writer.rows.loose()) >= self.options.tail_bytes_seal
                || writer.log_bytes() >= LOG_BYTES_SEAL
        })
    }

    /// Seals a full tail. Waits for another flush only if the tail is full.
    pub(crate) fn seal_if_full(&self) -> Result<(), WriteError> {
        if !self.is_full() {
            return Ok(());
        }
        let _alone = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_full() { self.flush_alone(&Erased::default()) } else { Ok(()) }
    }

    /// Flushes the tail, without the erased rows, into one segment, while others read and write. The caller holds
    /// `flushing`.
    pub(crate) fn flush_alone(&self, erased: &Erased) -> Result<(), WriteError> {
        let disk = &*self.ground.disk;
        let begun = {
            let mut writer = self.writer()?;
            let begun = writer.begin_flush(disk, self.options.merge_bytes_max)?;
            self.show_settled(&mut writer);
            begun
        };
        let Some(job) = begun else { return Ok(()) };
        let made = job.run(disk, Content::Without(erased), &FullSpeed);
        let mut writer = self.writer()?;
        let made = match made {
            Ok(made) => made,
            Err(error) => return Err(writer.stop_for_flush(&job, error)),
        };
        writer.install(disk, &job, made)?;
        Tally::count(&self.tally.seals);
        self.show_settled(&mut writer);
        drop(writer);
        self.wanted.note_change();
        Ok(())
    }

    /// Binds the store to the encoder of its embeddings; any other encoder is rejected from then on.
    pub fn bind_model(&self, model: Model) -> Result<(), WriteError> {
        let mut writer = self.writer()?;
        match writer.manifest.model {
            Some(bound) if bound == model => return Ok(()),
            Some(bound) => return Err(other_model(bound, model)),
            None => model.check()?,
        }
        writer.manifest.model = Some(model);
        writer.publish(&*self.ground.disk)?;
        self.show_settled(&mut writer);
        Ok(())
    }

    /// Reason why the writer stopped; `None` while the writer accepts writes. Does not wait for writers.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Converts the error of a job that ran without the writer's lock; `None` if the job was cancelled. If file names
    /// could not be synced, the writer stops. Acquires no lock, as the caller may hold them.
    pub(crate) fn told_of_job(&self, error: JobError) -> Option<WriteError> {
        if let JobError::Names(error) = &error {
            let _the_first_reason_stays = self.stopped.set(error.to_string());
        }
        error.told()
    }

    pub(crate) fn stop_error(&self) -> Option<WriteError> {
        self.stopped().map(|why| WriteError::Stopped(why.to_owned()))
    }

    /// Bytes of all files of the store.
    pub fn bytes_on_disk(&self) -> u64 {
        self.bytes_on_disk.load(Ordering::Relaxed)
    }

    /// Metrics of the store. Never waits for a writer.
    pub fn figures(&self) -> Figures {
        if let Some(writer) = self.try_writer() {
            self.tally.note(&writer.rows, writer.log_bytes());
        }
        self.tally.figures(self.bytes_on_disk())
    }

    /// Refreshes the total file size after files changed without a new snapshot.
    pub(crate) fn count_bytes(&self) {
        if let Ok(writer) = self.lock_writer() {
            self.bytes_on_disk.store(writer.bytes_on_disk(), Ordering::Relaxed);
        }
    }

    /// Acquires the writer, or fails if it has stopped.
    pub(crate) fn writer(&self) -> Result<MutexGuard<'_, Writer>, WriteError> {
        let writer = self.lock_writer()?;
        self.stop_error().map_or(Ok(writer), Err)
    }

    /// Acquires the writer, even if it has stopped.
    pub(crate) fn lock_writer(&self) -> Result<MutexGuard<'_, Writer>, WriteError> {
        match &self.role {
            Role::Writes(writer) => writer.lock().map_err(|_| self.poisoned()),
            Role::Follows(following) => Err(WriteError::NotHere(following.why.clone())),
        }
    }

    /// Acquires the writer without waiting; `None` for a replica or a busy writer.
    pub(crate) fn try_writer(&self) -> Option<MutexGuard<'_, Writer>> {
        match &self.role {
            Role::Writes(writer) => writer.try_lock().ok(),
            Role::Follows(_) => None,
        }
    }

    fn poisoned(&self) -> WriteError {
        let why = || "a thread panicked while it was writing".to_owned();
        WriteError::Stopped(self.stopped.get_or_init(why).clone())
    }
}

impl Drop for Store {
    /// Closes the log. A failure here is found by the next open.
    fn drop(&mut self) {
        if let Role::Writes(writer) = &mut self.role
            && let Ok(writer) = writer.get_mut()
        {
            let _told_at_opening = writer.close();
        }
    }
}

/// Encodes a batch as a log payload.
fn payload_of(batch: &Complete) -> Result<Vec<u8>, WriteError> {
    let payload = record::encode(batch.batch());
    if payload.len() > FRAME_BYTES_MAX {
        let why = format!("{} bytes; at most {FRAME_BYTES_MAX} are allowed", payload.len());
        return Err(WriteError::refused("batch", why));
    }
    Ok(payload)
}

/// Rejects embeddings of another model than the store's, if the batch declares a model.
fn refuse_other_model(batch: &Batch, bound: Option<Model>) -> Result<(), WriteError> {
    match (batch.embedded_by, bound) {
        (Some(by), Some(bound)) if by != bound => Err(other_model(bound, by)),
        _ => Ok(()),
    }
}

fn other_model(bound: Model, other: Model) -> WriteError {
    let short = |model: Model| crate::manifest::hex(&model.fingerprint[..6]);
    let why = format!(
        "the store's embeddings were made by model {} ({} wide); this one is {} ({} wide)",
        short(bound),
        bound.dimensions,
        short(other),
        other.dimensions
    );
    WriteError::refused("model", why)
}
