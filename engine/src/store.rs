//! The store: one writer, any number of readers on frozen snapshots.
//!
//! The door of the engine: who may write when, and which snapshot is shown. What happens on disk is
//! the writer's; what a row is, and how it is found, belongs to others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use crate::error::{DiskError, OpenError, WriteError};
use crate::ids::{EdgeId, IdMaker, ItemId, Seq, SourceId};
use crate::item::Batch;
use crate::limits::*;
use crate::links;
use crate::log::Durability;
use crate::manifest::Model;
use crate::os::clock::{Clock, Micros, Random, SystemClock, SystemRandom};
use crate::os::disk::{Disk, DiskLock, RealDisk};
use crate::snapshot::Snapshot;
use crate::writer::Writer;

/// What the store stands on: all of it can be replaced in a test.
#[derive(Debug, Clone)]
pub struct Ground {
    /// Its directory.
    pub disk: Arc<dyn Disk>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
}

impl Ground {
    /// A directory of the real file system, the machine's clock and the kernel's randomness.
    pub fn real(root: &std::path::Path) -> Result<Self, DiskError> {
        Ok(Self {
            disk: Arc::new(RealDisk::open(root)?),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
        })
    }
}

/// How a store behaves.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// When a write is acknowledged.
    pub durability: Durability,
    /// Heap bytes of the tail at which it is sealed.
    pub tail_bytes_seal: usize,
    /// Bytes of small segments and tail that sealing makes one segment of; 0 leaves all segments
    /// as they are.
    pub merge_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Sync,
            tail_bytes_seal: TAIL_BYTES_SEAL,
            merge_bytes_max: MERGE_BYTES_MAX,
        }
    }
}

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
    ground: Ground,
    options: Options,
    writer: Mutex<Writer>,
    /// Why the writer stopped; read without waiting for it.
    stopped: Arc<OnceLock<String>>,
    ids: Mutex<IdMaker>,
    shown: RwLock<Snapshot>,
    bytes_on_disk: AtomicU64,
    _lock: Box<dyn DiskLock>,
}

impl Store {
    /// Opens the store, making it if the directory holds none, and recovers what was
    /// acknowledged.
    pub fn open(ground: Ground, options: Options) -> Result<Self, OpenError> {
        let disk = &*ground.disk;
        let lock = disk.lock()?.ok_or(OpenError::Locked)?;
        let writer = Writer::open(&ground)?;
        Ok(Self {
            ground,
            options,
            stopped: Arc::clone(&writer.stopped),
            ids: Mutex::default(),
            shown: RwLock::new(writer.snapshot()),
            bytes_on_disk: AtomicU64::new(writer.bytes_on_disk()),
            writer: Mutex::new(writer),
            _lock: lock,
        })
    }

    /// The store as of the last acknowledged write.
    pub fn snapshot(&self) -> Snapshot {
        self.shown.read().unwrap_or_else(PoisonError::into_inner).clone()
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

    /// Writes all of a batch or none of it. When this returns, the batch is as durable as
    /// [`Options::durability`] says, and new snapshots show it.
    pub fn write(&self, batch: Batch) -> Result<Written, WriteError> {
        let mut writer = self.writer()?;
        let dimensions = writer.manifest.model.map(|model| model.dimensions);
        batch.check(dimensions)?;
        let at = self.ground.clock.now();
        let batch = self.complete(batch, at);
        // While the writer is held, what is shown is what there is.
        links::check(&self.snapshot(), &batch)?;
        if writer.logs_are_full() {
            writer.seal(&*self.ground.disk, self.options.merge_bytes_max)?;
        }
        let written = writer.commit(&self.ground, self.options, batch, at)?;
        self.show(&writer);
        let is_full = writer.tail_bytes() >= self.options.tail_bytes_seal || writer.logs_are_full();
        if is_full {
            // The write stands whatever happens here: it is in the log. A failure stops the
            // writer, and the next write says why.
            if writer.seal(&*self.ground.disk, self.options.merge_bytes_max).is_ok() {
                self.show(&writer);
            }
        }
        Ok(written)
    }

    /// Seals the tail into a segment file, so that the next opening has no log to replay.
    pub fn seal(&self) -> Result<(), WriteError> {
        let mut writer = self.writer()?;
        writer.seal(&*self.ground.disk, self.options.merge_bytes_max)?;
        self.show(&writer);
        Ok(())
    }

    /// Binds the store to the encoder of its embeddings; another one is refused from then on.
    pub fn bind_model(&self, model: Model) -> Result<(), WriteError> {
        let mut writer = self.writer()?;
        match writer.manifest.model {
            Some(bound) if bound == model => return Ok(()),
            Some(bound) => {
                let why = format!(
                    "the store's embeddings were made by model {} ({} wide); this one is {} ({} wide)",
                    short(&bound.fingerprint),
                    bound.dimensions,
                    short(&model.fingerprint),
                    model.dimensions
                );
                return Err(WriteError::Refused { field: "model", why });
            }
            None if !(1..=DIMENSIONS_MAX).contains(&model.dimensions) => {
                let why = format!("{} wide; 1 to {DIMENSIONS_MAX} is allowed", model.dimensions);
                return Err(WriteError::Refused { field: "model", why });
            }
            None => writer.manifest.model = Some(model),
        }
        writer.publish(&*self.ground.disk)?;
        self.show(&writer);
        Ok(())
    }

    /// Why the writer stopped; `None` while it takes writes. Does not wait for a write.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Bytes of all files of the store.
    pub fn bytes_on_disk(&self) -> u64 {
        self.bytes_on_disk.load(Ordering::Relaxed)
    }

    fn writer(&self) -> Result<MutexGuard<'_, Writer>, WriteError> {
        let writer = self.writer.lock().map_err(|_| {
            let why = || "a thread panicked while it was writing".to_owned();
            WriteError::Stopped(self.stopped.get_or_init(why).clone())
        })?;
        match self.stopped() {
            Some(why) => Err(WriteError::Stopped(why.to_owned())),
            None => Ok(writer),
        }
    }

    fn show(&self, writer: &Writer) {
        self.bytes_on_disk.store(writer.bytes_on_disk(), Ordering::Relaxed);
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = writer.snapshot();
    }

    /// Fills in ids and times.
    fn complete(&self, mut batch: Batch, at: Micros) -> Batch {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = || ids.next(at, &*self.ground.random);
        for source in &mut batch.sources {
            source.id.get_or_insert_with(|| SourceId(next()));
            source.recorded_at.get_or_insert(at);
        }
        for item in &mut batch.items {
            item.id.get_or_insert_with(|| ItemId(next()));
            item.recorded_at.get_or_insert(at);
        }
        for edge in &mut batch.edges {
            edge.id.get_or_insert_with(|| EdgeId(next()));
            edge.recorded_at.get_or_insert(at);
        }
        for stone in &mut batch.tombstones {
            stone.at.get_or_insert(at);
        }
        batch
    }
}

fn short(fingerprint: &[u8; 32]) -> String {
    crate::manifest::hex(&fingerprint[..6])
}
