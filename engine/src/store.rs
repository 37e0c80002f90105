//! The store: any number of writers, one at a time, and readers on frozen snapshots.
//!
//! The door of the engine: who may write when, and which snapshot is shown. What happens on disk is
//! the writer's; what a row is, and how it is found, belongs to others.
//!
//! Locks, in the order in which a thread may take them: `moving`, `compacting`, `flushing`, `merging`,
//! `writer`, a log's while it is synced, `shown`.
//! Only short work is done under `writer`: an append to the log, rows for the tail, a manifest. A [far] is
//! told of things there, and never waited for.

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

/// How often a writer waits for room that others take before it: each time it was there, so this
/// many others have written meanwhile.
const ROOM_TRIES_MAX: usize = 64;

/// What a write made: ids in the order of the batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The commit.
    pub seq: Seq,
    /// When.
    pub at: Micros,
    /// Ids of its sources.
    pub sources: Vec<SourceId>,
    /// Ids of its items.
    pub items: Vec<ItemId>,
    /// Ids of its edges.
    pub edges: Vec<EdgeId>,
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    pub(crate) ground: Ground,
    pub(crate) options: Options,
    carrying: Option<Carrying>,
    /// One move to another model at a time.
    pub(crate) moving: Mutex<()>,
    /// One of compaction, erasure and a move's work on one segment at a time.
    pub(crate) compacting: Turns,
    /// One flush at a time.
    pub(crate) flushing: Mutex<()>,
    /// One merge of the tail's large parts at a time; only ever tried.
    merging: Mutex<()>,
    role: Role,
    /// Writers that a move to another model holds back wait here.
    pub(crate) admitting: Condvar,
    settling: Settling,
    /// Why the writer stopped; read without waiting for it.
    stopped: Arc<OnceLock<String>>,
    /// How many erasures are pending; read in the same way.
    pub(crate) erasures_pending: Arc<AtomicUsize>,
    ids: Mutex<IdMaker>,
    shown: RwLock<Snapshot>,
    bytes_on_disk: AtomicU64,
    pub(crate) tally: Tally,
    /// Called whenever a new snapshot is shown.
    on_news: OnceLock<Tell>,
    /// What upkeep waits for.
    pub(crate) wanted: Wanted,
    /// Keeps others out of the directory; `None` once it was let go of.
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

/// What is called when there is news.
struct Tell(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Tell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

/// Who changes what is in the directory.
#[derive(Debug)]
enum Role {
    /// This store.
    Writes(Box<Mutex<Writer>>),
    /// Somebody else.
    Follows(Box<Following>),
}

/// What an opening found, and what of the writer is read without waiting for it.
struct Found {
    snapshot: Snapshot,
    bytes_on_disk: u64,
    erasures_pending: Arc<AtomicUsize>,
    stopped: Arc<OnceLock<String>>,
}

impl Store {
    /// Opens the store, making it if the directory holds none, and recovers what was
    /// acknowledged. Where what an earlier process left must be written anew and the disk has no room for
    /// it, the store answers questions and its writer has [stopped](Store::stopped) until it is
    /// opened again. Where a [far](Ground::far) acknowledges, what was found is carried before this
    /// returns, and each write is synced as well, whatever [`Options::durability`] says.
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

    /// Writes anew what must not stay as it was found. A writer that did not end in good order may
    /// have left frames that were never on disk, and that a sync would not bring there: after one has
    /// failed, the operating system takes them for written (Rebello et al., "Can applications
    /// recover from fsync failures?", ATC 2020). Segments of an older version become ours.
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
        // Waits only for what is to be carried before it is shown.
        self.sync()
    }

    /// The time, as this store sees it.
    pub fn now(&self) -> Micros {
        self.ground.clock.now()
    }

    /// An id for an item that a later batch will hold, so that its other records can name it.
    pub fn new_item_id(&self) -> ItemId {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ItemId(ids.next(self.ground.clock.now(), &*self.ground.random))
    }

    /// The same for a source.
    pub fn new_source_id(&self) -> SourceId {
        SourceId(self.new_item_id().0)
    }

    /// The same for an edge.
    pub fn new_edge_id(&self) -> EdgeId {
        EdgeId(self.new_item_id().0)
    }

    /// Writes all of a batch or none of it. When this returns, the batch is as durable as
    /// [`Options::durability`] says, and new snapshots show it. Threads that write at the same time
    /// share the waits for the disk.
    pub fn write(&self, batch: Batch) -> Result<Written, WriteError> {
        self.try_write(batch).map_err(|unwritten| unwritten.error)
    }

    /// The same; a batch that is refused comes back, so that nobody has to keep a copy of it.
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

    /// What of a write takes its time, once the batch is checked against `model`.
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

    /// The part of a write that is done one at a time: checks against what there is, and the log.
    /// Gives the commit, and whether it made the tail one that [`Store::merge_large_run`] is for.
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
            // The store has moved to another model since the batch was checked.
            batch.batch().check(bound.map(|model| model.dimensions))?;
        }
        refuse_other_model(batch.batch(), bound)?;
        let snapshot = writer.snapshot();
        links::check(&snapshot, batch)?;
        links::check_stays(writer.erasures(), batch)?;
        if links::keep_lists(&snapshot, batch)? {
            // Only of what is erased, which is seldom and short.
            payload = payload_of(batch)?;
            rows = Uncommitted::of(batch.batch());
        }
        let seq = writer.commit(&*self.ground.disk, batch.batch(), &payload, rows)?;
        if self.options.durability != Durability::Sync {
            self.show(&mut writer);
        }
        Ok((seq, writer.rows.large_run().is_some()))
    }

    /// The writer, once it takes the embeddings of a batch: a move to another model may hold them back.
    fn admitted(&self, batch: &Batch) -> Result<MutexGuard<'_, Writer>, WriteError> {
        let vectors = batch.items.iter().filter(|item| !item.embedding.is_empty()).count() as u64;
        loop {
            let writer = self.writer_with_room()?;
            if writer.admits(vectors) {
                return Ok(writer);
            }
            // Others may take the room meanwhile, so it is looked for again.
            drop(self.admitting.wait(writer).map_err(|_| self.poisoned())?);
        }
    }

    /// Seals the tail into a segment file, so that the next opening has no log to replay.
    pub fn seal(&self) -> Result<(), WriteError> {
        let _alone = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush_alone(&Erased::default())
    }

    /// The writer, where the logs have room for one batch more. Those who waited for it together may
    /// find that the first of them took it.
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

    /// A writer that outruns the sealing of what it wrote waits for it here.
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

    /// Seals the tail when it has grown enough, or asks upkeep to. The write that made it grow
    /// stands whatever happens here: it is in the log. A failure stops the writer, and the next
    /// write says why.
    fn flush_when_full(&self) {
        if !self.is_full() || self.wanted.ask_for_flush() {
            return;
        }
        if let Ok(_alone) = self.flushing.try_lock() {
            let _told_by_the_next_write = self.flush_alone(&Erased::default());
        }
    }

    /// Merges parts of the tail that are too large for the writer's lock, while others write.
    fn merge_large_run(&self) {
        let Ok(_alone) = self.merging.try_lock() else { return };
        let run = self.writer().ok().and_then(|writer| writer.rows.large_run());
        let Some(run) = run else { return };
        // What is wrong with them is told by the flush, which reads them too.
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

    /// Seals the tail if it has grown enough. Waits for another flush only where it has.
    pub(crate) fn seal_if_full(&self) -> Result<(), WriteError> {
        if !self.is_full() {
            return Ok(());
        }
        let _alone = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_full() { self.flush_alone(&Erased::default()) } else { Ok(()) }
    }

    /// Makes one segment of the tail, without the rows that are erased, while others read and write.
    /// The caller holds `flushing`.
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

    /// Binds the store to the encoder of its embeddings; another one is refused from then on.
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

    /// Why the writer stopped; `None` while it takes writes. Does not wait for a write.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// What is to be said of a job that failed beside the writer; `None` if it was called off. Where
    /// names could not be synced the writer stops with it. Takes no lock: the caller may have them.
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

    /// Its figures. Never waits for a writer.
    pub fn figures(&self) -> Figures {
        if let Some(writer) = self.try_writer() {
            self.tally.note(&writer.rows, writer.log_bytes());
        }
        self.tally.figures(self.bytes_on_disk())
    }

    /// Looks anew at the bytes of all files, where some came or went without a snapshot.
    pub(crate) fn count_bytes(&self) {
        if let Ok(writer) = self.lock_writer() {
            self.bytes_on_disk.store(writer.bytes_on_disk(), Ordering::Relaxed);
        }
    }

    /// The writer, while it takes writes.
    pub(crate) fn writer(&self) -> Result<MutexGuard<'_, Writer>, WriteError> {
        let writer = self.lock_writer()?;
        self.stop_error().map_or(Ok(writer), Err)
    }

    /// The same once it has stopped, too.
    pub(crate) fn lock_writer(&self) -> Result<MutexGuard<'_, Writer>, WriteError> {
        match &self.role {
            Role::Writes(writer) => writer.lock().map_err(|_| self.poisoned()),
            Role::Follows(following) => Err(WriteError::NotHere(following.why.clone())),
        }
    }

    /// The same where there is one and nobody has it.
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
    /// Ends the log in good order. What fails here is found by the next opening.
    fn drop(&mut self) {
        if let Role::Writes(writer) = &mut self.role
            && let Ok(writer) = writer.get_mut()
        {
            let _told_at_opening = writer.close();
        }
    }
}

/// A batch as the log holds it.
fn payload_of(batch: &Complete) -> Result<Vec<u8>, WriteError> {
    let payload = record::encode(batch.batch());
    if payload.len() > FRAME_BYTES_MAX {
        let why = format!("{} bytes; at most {FRAME_BYTES_MAX} are allowed", payload.len());
        return Err(WriteError::refused("batch", why));
    }
    Ok(payload)
}

/// Refuses embeddings that the store's model did not make, where the batch says what made them.
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
