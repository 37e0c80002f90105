//! Store: many writers, one at a time, and readers on frozen snapshots.
//!
//! Entry point of the engine: orders the writers and publishes snapshots. The [`Writer`] changes the files; other
//! modules define and search the rows.
//!
//! Locks, in the order in which a thread may acquire them: `reembedding`, `rewriting`, `flushing`, `merging`, the
//! writer's lock, a log's lock during its sync, `visible`. Only short work is done under the writer's lock: an append
//! to the log, rows for the tail, a manifest. The [replication sink](replication_sink) receives its events there, and
//! is never waited for.

mod close;
mod env;
mod group_commit;
mod integrity_check;
pub(crate) mod maintenance_queue;
pub(crate) mod metrics;
mod options;
mod publish;
mod reader;
pub(crate) mod recovery;
mod replica;
mod replication_gate;
pub mod replication_sink;
mod segment_list;
pub(crate) mod segment_rewrite;
mod ticket_lock;
pub(crate) mod writer;

pub use env::Env;
pub use metrics::StoreMetrics;
pub use options::Options;
pub use reader::{OPEN_ATTEMPTS_MAX, StoreReader};

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use crate::error::{OpenError, Remedy, WriteError};
use crate::ids::{EdgeId, IdGenerator, ItemId, Seq, SourceId};
use crate::item::{Batch, BatchError, CheckedBatch, CompleteBatch, TombstoneDraft};
use crate::limits::*;
use crate::manifest::Model;
use crate::merge::{ErasedIds, HeapMergeOutput};
use crate::os::clock::Micros;
use crate::os::disk::DiskLock;
use crate::query::snapshot::Snapshot;
use crate::record_codec;
use crate::segment::UncommittedRows;
use crate::throttle::NoThrottle;
use crate::wal::Durability;
use group_commit::GroupCommit;
use maintenance_queue::MaintenanceQueue;
use metrics::Counters;
use replica::ReplicaState;
use replication_gate::ReplicationGate;
use segment_list::SegmentList;
use segment_rewrite::{JobError, RewriteContent};
use ticket_lock::TicketLock;
use writer::Writer;

/// Attempts of a writer to get log space before it gives up: on each, other writers took the freed space.
const LOG_ROOM_ATTEMPTS_MAX: usize = 64;

/// Result of a write, with ids in the order of the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitInfo {
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
    pub(crate) env: Env,
    pub(crate) options: Options,
    replication_gate: Option<ReplicationGate>,
    /// Serializes re-embeddings.
    pub(crate) reembedding: Mutex<()>,
    /// Serializes compaction, erasure, and a re-embedding's work on one segment.
    pub(crate) rewriting: TicketLock,
    /// Serializes flushes.
    pub(crate) flushing: Mutex<()>,
    /// Serializes merges of large runs of the tail; acquired by `try_lock` only.
    merging: Mutex<()>,
    role: StoreRole,
    /// Wakes writers that a re-embedding holds back.
    pub(crate) admission: Condvar,
    group_commit: GroupCommit,
    /// Reason why the writer stopped; read without the writer's lock.
    stop_reason: Arc<OnceLock<String>>,
    /// Number of pending erasures; read without the writer's lock.
    pub(crate) erasures_pending: Arc<AtomicUsize>,
    ids: Mutex<IdGenerator>,
    visible: RwLock<Snapshot>,
    bytes_on_disk: AtomicU64,
    pub(crate) counters: Counters,
    /// Called after each publication of a snapshot.
    commit_listener: OnceLock<CommitListener>,
    /// Work queue of the background workers.
    pub(crate) maintenance: MaintenanceQueue,
    /// Lock that excludes other processes from the directory; `None` once released.
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

struct CommitListener(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for CommitListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

/// Role of this store in its directory.
#[derive(Debug)]
enum StoreRole {
    /// Leader: this store writes the directory.
    Leader(Box<Mutex<Writer>>),
    /// Replica: another process writes the directory.
    Replica(Box<ReplicaState>),
}

/// Initial state after an open, and the writer's values that are read without its lock.
struct InitialState {
    snapshot: Snapshot,
    bytes_on_disk: u64,
    erasures_pending: Arc<AtomicUsize>,
    stop_reason: Arc<OnceLock<String>>,
}

impl Store {
    /// Opens the store, or creates it in a directory without one, and recovers all acknowledged commits.
    ///
    /// If files of an earlier process must be rewritten but the disk is full, the store serves reads and its writer has
    /// [stop_reason](Store::stop_reason) until the store is reopened. If a [replication sink](Env::replication_sink) is
    /// synchronous, recovered commits are replicated before this returns, and each write is also synced, whatever
    /// [`Options::durability`] says.
    pub fn open(ground: Env, mut options: Options) -> Result<Self, OpenError> {
        let disk = &*ground.disk;
        let lock = disk.lock()?.ok_or(OpenError::Locked)?;
        let carrying = ground.replication_sink.as_ref().map(ReplicationGate::new);
        if carrying.as_ref().is_some_and(ReplicationGate::is_synchronous) {
            options.durability = Durability::Sync;
        }
        let mut writer = Writer::open(&ground, &options)?;
        writer.report_opening(disk)?;
        let found = InitialState {
            snapshot: writer.snapshot(),
            bytes_on_disk: writer.bytes_on_disk(),
            erasures_pending: writer.erasures_pending(),
            stop_reason: writer.stop_reason(),
        };
        let newest = found.snapshot.seq();
        let role = StoreRole::Leader(Box::new(Mutex::new(writer)));
        let store = Self::from_parts(ground, options, role, carrying, found, lock);
        match store.rewrite_unsynced() {
            Err(error) if error.remedy() == Remedy::FreeSpace && store.can_publish(newest) => {
                store.lock_writer()?.stop_for_space(error);
                Ok(store)
            }
            renewed => renewed.map(|()| store).map_err(OpenError::from),
        }
    }

    fn from_parts(
        ground: Env,
        options: Options,
        role: StoreRole,
        carrying: Option<ReplicationGate>,
        found: InitialState,
        lock: Box<dyn DiskLock>,
    ) -> Self {
        let newest = found.snapshot.seq();
        let settled = carrying.as_ref().map_or(newest, |carrying| carrying.visible_seq(newest));
        Self {
            env: ground,
            options,
            role,
            replication_gate: carrying,
            flushing: Mutex::default(),
            reembedding: Mutex::default(),
            rewriting: TicketLock::default(),
            merging: Mutex::default(),
            admission: Condvar::new(),
            group_commit: GroupCommit::new(settled),
            stop_reason: found.stop_reason,
            erasures_pending: found.erasures_pending,
            ids: Mutex::default(),
            visible: RwLock::new(found.snapshot),
            bytes_on_disk: AtomicU64::new(found.bytes_on_disk),
            commit_listener: OnceLock::new(),
            counters: Counters::default(),
            maintenance: MaintenanceQueue::default(),
            lock: Mutex::new(Some(lock)),
        }
    }

    /// Rewrites recovered files that must not stay as they are. A writer that was not closed may have left frames that
    /// never reached the disk and that another sync would not write: after a failed sync, the operating system treats
    /// the pages as written (Rebello et al., "Can applications recover from fsync failures?", ATC 2020). Segments of an
    /// older version are upgraded.
    fn rewrite_unsynced(&self) -> Result<(), WriteError> {
        let must_seal = self.writer()?.has_unsynced_frames;
        if must_seal {
            self.seal()?;
        }
        let outdated = std::mem::take(&mut self.writer()?.older_version_segments);
        for number in outdated {
            let job = self.writer()?.begin_job_over(number);
            if let Some(job) = job {
                self.rewrite(&job, &ErasedIds::default(), &NoThrottle)?;
            }
        }
        // Blocks only on commits that must be replicated before they are visible.
        self.sync()
    }

    /// Current time of this store's clock.
    pub fn now(&self) -> Micros {
        self.env.clock.now()
    }

    /// Creates an id for an item of a later batch, so that other records of the batch can reference the item.
    pub fn new_item_id(&self) -> ItemId {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ItemId(ids.next_id(self.env.clock.now(), &*self.env.random))
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
    pub fn write(&self, batch: Batch) -> Result<CommitInfo, WriteError> {
        self.try_write(batch).map_err(|unwritten| unwritten.error)
    }

    /// As [`Store::write`], but the error returns the batch, so that the caller needs no copy for a retry.
    pub fn try_write(&self, batch: Batch) -> Result<CommitInfo, BatchError> {
        let model = self.snapshot().model;
        let batch = CheckedBatch::new(batch, model.map(|model| model.dimensions))?;
        let at = self.env.clock.now();
        let mut batch = {
            let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
            batch.complete(at, || ids.next_id(at, &*self.env.random))
        };
        let seq = self.write_complete(&mut batch, model);
        let batch = batch.into_batch();
        match seq {
            Ok(seq) => Ok(CommitInfo {
                seq,
                at,
                sources: batch.sources.iter().filter_map(|source| source.id).collect(),
                items: batch.items.iter().filter_map(|item| item.id).collect(),
                edges: batch.edges.iter().filter_map(|edge| edge.id).collect(),
            }),
            Err(error) => Err(BatchError { error, batch: Box::new(batch) }),
        }
    }

    /// Executes the blocking part of a write, after the batch was checked against `model`.
    fn write_complete(
        &self,
        batch: &mut CompleteBatch,
        model: Option<Model>,
    ) -> Result<Seq, WriteError> {
        let _waiting = self.admit()?;
        let payload = encode_payload(batch)?;
        self.wait_for_log_room()?;
        let rows = UncommittedRows::build(batch.batch());
        let (seq, has_large_run) = self.append(batch, payload, rows, model)?;
        if self.options.durability == Durability::Sync {
            self.group_commit.wait_durable(seq, || self.sync_log(), || self.stop_error())?;
        }
        if has_large_run {
            self.merge_large_run();
        }
        self.flush_when_full();
        if batch.batch().tombstones.iter().any(TombstoneDraft::erases_target) {
            self.maintenance.request_rewrite();
        }
        Ok(seq)
    }

    /// Executes the serial part of a write: checks against the existing rows, and the append to the log. Returns the
    /// commit, and true if the tail now has a run for [`Store::merge_large_run`].
    fn append(
        &self,
        batch: &mut CompleteBatch,
        mut payload: Vec<u8>,
        mut rows: UncommittedRows,
        model: Option<Model>,
    ) -> Result<(Seq, bool), WriteError> {
        let mut writer = self.writer_admitting(batch.batch())?;
        let bound = writer.manifest.model;
        if bound != model {
            // A re-embedding has changed the model since the batch was checked.
            batch.batch().check(bound.map(|model| model.dimensions))?;
        }
        check_model(batch.batch(), bound)?;
        let snapshot = writer.snapshot();
        integrity_check::check(&snapshot, batch)?;
        integrity_check::check_not_erasing(writer.erasures(), batch)?;
        if integrity_check::record_supersedes(&snapshot, batch)? {
            // Encoded again only for batches that erase, which are rare and short.
            payload = encode_payload(batch)?;
            rows = UncommittedRows::build(batch.batch());
        }
        let seq = writer.commit(&*self.env.disk, batch.batch(), &payload, rows)?;
        if self.options.durability != Durability::Sync {
            self.publish(&mut writer);
        }
        Ok((seq, writer.segments.large_run().is_some()))
    }

    /// Acquires the writer once it admits the embeddings of a batch: a re-embedding may hold writers back.
    fn writer_admitting(&self, batch: &Batch) -> Result<MutexGuard<'_, Writer>, WriteError> {
        let vectors = batch.items.iter().filter(|item| !item.embedding.is_empty()).count() as u64;
        loop {
            let writer = self.writer_with_log_room()?;
            if writer.admits_embeddings(vectors) {
                return Ok(writer);
            }
            // Other writers may take the log space meanwhile, so the loop checks it again.
            drop(self.admission.wait(writer).map_err(|_| self.poisoned())?);
        }
    }

    /// Seals the tail into a segment file, so that the next open has no log to replay.
    pub fn seal(&self) -> Result<(), WriteError> {
        let _alone = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_tail(&ErasedIds::default())
    }

    /// Acquires the writer with log space for one more batch. If several threads waited for space, the first may have
    /// taken all of the space, so the check is repeated.
    pub(crate) fn writer_with_log_room(&self) -> Result<MutexGuard<'_, Writer>, WriteError> {
        for _ in 0..LOG_ROOM_ATTEMPTS_MAX {
            let writer = self.writer()?;
            if writer.has_log_room() {
                return Ok(writer);
            }
            drop(writer);
            self.wait_for_log_room()?;
        }
        let why = "other writers fill the logs faster than they are sealed".to_owned();
        Err(WriteError::Postponed { why, remedy: Remedy::RetryLater })
    }

    /// Waits, as backpressure, while writes outrun the sealing of the tail.
    fn wait_for_log_room(&self) -> Result<(), WriteError> {
        let is_full = |writer: &Writer| {
            SegmentList::heap_bytes(writer.segments.tail())
                >= 2 * self.options.tail_bytes_seal.max(1)
                || writer.logs_are_full()
        };
        if !is_full(&*self.writer()?) {
            return Ok(());
        }
        let _alone = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        if is_full(&*self.writer()?) { self.flush_tail(&ErasedIds::default()) } else { Ok(()) }
    }

    /// Seals a full tail, or requests that from the background workers. The preceding write is valid in any case, as
    /// its batch is in the log. A failure stops the writer, and the next write reports the reason.
    fn flush_when_full(&self) {
        if !self.is_full() || self.maintenance.request_flush() {
            return;
        }
        if let Ok(_alone) = self.flushing.try_lock() {
            let _told_by_the_next_write = self.flush_tail(&ErasedIds::default());
        }
    }

    /// Merges tail segments that are too large for a merge under the writer's lock, while others write.
    fn merge_large_run(&self) {
        let Ok(_alone) = self.merging.try_lock() else { return };
        let run = self.writer().ok().and_then(|writer| writer.segments.large_run());
        let Some(run) = run else { return };
        // The next flush reads the same segments and reports their corruption.
        if let Ok(merged) = HeapMergeOutput::merge(&run)
            && let Ok(mut writer) = self.writer()
        {
            writer.segments.replace_run(&run, merged);
        }
    }

    fn is_full(&self) -> bool {
        self.writer().is_ok_and(|writer| {
            SegmentList::heap_bytes(writer.segments.unfrozen_tail()) >= self.options.tail_bytes_seal
                || writer.log_bytes() >= LOG_BYTES_SEAL
        })
    }

    /// Seals a full tail. Waits for another flush only if the tail is full.
    pub(crate) fn seal_if_full(&self) -> Result<(), WriteError> {
        if !self.is_full() {
            return Ok(());
        }
        let _alone = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_full() { self.flush_tail(&ErasedIds::default()) } else { Ok(()) }
    }

    /// Flushes the tail, without the erased rows, into one segment, while others read and write. The caller holds
    /// `flushing`.
    pub(crate) fn flush_tail(&self, erased: &ErasedIds) -> Result<(), WriteError> {
        let disk = &*self.env.disk;
        let begun = {
            let mut writer = self.writer()?;
            let begun = writer.begin_flush(disk, self.options.merge_bytes_max)?;
            self.publish_durable(&mut writer);
            begun
        };
        let Some(job) = begun else { return Ok(()) };
        let made = job.run(disk, RewriteContent::Excluding(erased), &NoThrottle);
        let mut writer = self.writer()?;
        let made = match made {
            Ok(made) => made,
            Err(error) => return Err(writer.stop_for_flush(&job, error)),
        };
        writer.install(disk, &job, made)?;
        Counters::increment(&self.counters.seals);
        self.publish_durable(&mut writer);
        drop(writer);
        self.maintenance.request_rewrite();
        Ok(())
    }

    /// Binds the store to the encoder of its embeddings; any other encoder is rejected from then on.
    pub fn bind_model(&self, model: Model) -> Result<(), WriteError> {
        let mut writer = self.writer()?;
        match writer.manifest.model {
            Some(bound) if bound == model => return Ok(()),
            Some(bound) => return Err(model_mismatch(bound, model)),
            None => model.check()?,
        }
        writer.manifest.model = Some(model);
        writer.publish(&*self.env.disk)?;
        self.publish_durable(&mut writer);
        Ok(())
    }

    /// Reason why the writer stopped; `None` while the writer accepts writes. Does not wait for writers.
    pub fn stop_reason(&self) -> Option<&str> {
        self.stop_reason.get().map(String::as_str)
    }

    /// Converts the error of a job that ran without the writer's lock; `None` if the job was cancelled. If file names
    /// could not be synced, the writer stops. Acquires no lock, as the caller may hold them.
    pub(crate) fn report_job_error(&self, error: JobError) -> Option<WriteError> {
        if let JobError::DirectorySync(error) = &error {
            let _the_first_reason_stays = self.stop_reason.set(error.to_string());
        }
        error.into_write_error()
    }

    pub(crate) fn stop_error(&self) -> Option<WriteError> {
        self.stop_reason().map(|why| WriteError::Stopped(why.to_owned()))
    }

    /// Bytes of all files of the store.
    pub fn bytes_on_disk(&self) -> u64 {
        self.bytes_on_disk.load(Ordering::Relaxed)
    }

    /// Metrics of the store. Never waits for a writer.
    pub fn metrics(&self) -> StoreMetrics {
        if let Some(writer) = self.try_writer() {
            self.counters.record_sizes(&writer.segments, writer.log_bytes());
        }
        self.counters.snapshot(self.bytes_on_disk())
    }

    /// Refreshes the total file size after files changed without a new snapshot.
    pub(crate) fn refresh_bytes_on_disk(&self) {
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
            StoreRole::Leader(writer) => writer.lock().map_err(|_| self.poisoned()),
            StoreRole::Replica(following) => {
                Err(WriteError::NotLeader(following.read_only_reason.clone()))
            }
        }
    }

    /// Acquires the writer without waiting; `None` for a replica or a busy writer.
    pub(crate) fn try_writer(&self) -> Option<MutexGuard<'_, Writer>> {
        match &self.role {
            StoreRole::Leader(writer) => writer.try_lock().ok(),
            StoreRole::Replica(_) => None,
        }
    }

    fn poisoned(&self) -> WriteError {
        let why = || "a thread panicked while it was writing".to_owned();
        WriteError::Stopped(self.stop_reason.get_or_init(why).clone())
    }
}

impl Drop for Store {
    /// Closes the log. A failure here is found by the next open.
    fn drop(&mut self) {
        if let StoreRole::Leader(writer) = &mut self.role
            && let Ok(writer) = writer.get_mut()
        {
            let _told_at_opening = writer.close();
        }
    }
}

/// Encodes a batch as a log payload.
fn encode_payload(batch: &CompleteBatch) -> Result<Vec<u8>, WriteError> {
    let payload = record_codec::encode(batch.batch());
    if payload.len() > FRAME_BYTES_MAX {
        let why = format!("{} bytes; at most {FRAME_BYTES_MAX} are allowed", payload.len());
        return Err(WriteError::refused("batch", why));
    }
    Ok(payload)
}

/// Rejects embeddings of another model than the store's, if the batch declares a model.
fn check_model(batch: &Batch, bound: Option<Model>) -> Result<(), WriteError> {
    match (batch.embedded_by, bound) {
        (Some(by), Some(bound)) if by != bound => Err(model_mismatch(bound, by)),
        _ => Ok(()),
    }
}

fn model_mismatch(bound: Model, other: Model) -> WriteError {
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
