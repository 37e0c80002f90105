//! The store: one writer, any number of readers on frozen snapshots.
//!
//! Owns the order in which things become durable (`format-spec/log.md`); what a row is, and how
//! it is found, belongs to others. Rows that are not sealed yet, the *tail*, live in the log and
//! in parts on the heap that have the very shape of sealed segments, so readers know one shape.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use sha2::{Digest, Sha256};

use crate::error::{Damage, DiskError, OpenError, WriteError};
use crate::ids::{EdgeId, IdMaker, ItemId, Seq, SourceId, StoreId};
use crate::item::Batch;
use crate::layout::{self, FileKind};
use crate::limits::*;
use crate::log::{self, Durability, LogReader, LogWriter};
use crate::manifest::{Manifest, Model, SegmentEntry, StateEntry};
use crate::merge::merge;
use crate::os::clock::{Clock, Micros, Random, SystemClock, SystemRandom};
use crate::os::disk::{Disk, DiskLock, RealDisk, put_in_place};
use crate::record;
use crate::segment::{Segment, SegmentBuilder};
use crate::snapshot::{Part, Snapshot, Status};
use crate::state::{self, RowState, StateOf};

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
    shown: RwLock<Snapshot>,
    _lock: Box<dyn DiskLock>,
}

#[derive(Debug)]
struct Writer {
    manifest: Manifest,
    log: Option<LogWriter>,
    /// Bytes of the older logs that hold the rest of the tail.
    replayed_bytes: u64,
    manifest_bytes: u64,
    ids: IdMaker,
    next_seq: Seq,
    /// Sealed parts in the manifest's order, then the tail.
    parts: Vec<Part>,
    /// Retired rows of each sealed part that its newest state file holds.
    stored_marks: Vec<[u32; 3]>,
    /// Why the writer stopped.
    stopped: Option<String>,
}

impl Store {
    /// Opens the store, making it if the directory holds none, and recovers what was
    /// acknowledged.
    pub fn open(ground: Ground, options: Options) -> Result<Self, OpenError> {
        let disk = &*ground.disk;
        let lock = disk.lock()?.ok_or(OpenError::Locked)?;
        let names = disk.names()?;
        let (manifest, manifest_bytes) = match Manifest::newest(disk, &names)? {
            Some(found) => found,
            None => first_manifest(&ground, &names)?,
        };
        let mut parts = Vec::new();
        for entry in &manifest.segments {
            parts.push(open_part(disk, entry)?);
        }
        let stored_marks = parts.iter().map(|part| marks(&part.state)).collect();
        let mut writer = Writer {
            next_seq: manifest.last_seq + 1,
            manifest,
            log: None,
            replayed_bytes: 0,
            manifest_bytes,
            ids: IdMaker::default(),
            parts,
            stored_marks,
            stopped: None,
        };
        writer.replay(disk, &names)?;
        writer.remove_leftovers(disk, &disk.names()?)?;
        let shown = RwLock::new(writer.snapshot());
        Ok(Self { ground, options, writer: Mutex::new(writer), shown, _lock: lock })
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
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        ItemId(writer.ids.next(self.ground.clock.now(), &*self.ground.random))
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
        let batch = writer.complete(batch, at, &*self.ground.random);
        writer.check_links(&batch)?;
        let written = writer.commit(&self.ground, self.options, batch, at)?;
        self.show(&writer);
        let is_full = writer.tail_bytes() >= self.options.tail_bytes_seal
            || writer.log_bytes() >= LOG_BYTES_SEAL;
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

    /// Why the writer stopped; `None` while it takes writes.
    pub fn stopped(&self) -> Option<String> {
        match self.writer.lock() {
            Ok(writer) => writer.stopped.clone(),
            Err(_) => Some("a thread panicked while it was writing".to_owned()),
        }
    }

    /// Bytes of all files of the store.
    pub fn bytes_on_disk(&self) -> u64 {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let sealed = writer.manifest.segments.iter();
        let sealed: u64 = sealed
            .map(|entry| entry.bytes + entry.state.as_ref().map_or(0, |state| state.bytes))
            .sum();
        sealed + writer.log_bytes() + writer.manifest_bytes
    }

    fn writer(&self) -> Result<MutexGuard<'_, Writer>, WriteError> {
        let writer = self.writer.lock().map_err(|_| {
            WriteError::Stopped("a thread panicked while it was writing".to_owned())
        })?;
        match &writer.stopped {
            Some(why) => Err(WriteError::Stopped(why.clone())),
            None => Ok(writer),
        }
    }

    fn show(&self, writer: &Writer) {
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = writer.snapshot();
    }
}

fn short(fingerprint: &[u8; 32]) -> String {
    crate::manifest::hex(&fingerprint[..6])
}

/// A directory without a manifest is a new store, unless it holds pieces of an old one.
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
    let bytes = manifest.put_in_place(&*ground.disk)?;
    Ok((manifest, bytes))
}

fn remove_unfinished(disk: &dyn Disk, names: &[String]) -> Result<(), DiskError> {
    names.iter().filter(|name| layout::is_unfinished(name)).try_for_each(|name| disk.remove(name))
}

fn open_part(disk: &dyn Disk, entry: &SegmentEntry) -> Result<Part, OpenError> {
    let name = layout::name(FileKind::Segment, entry.number);
    let bytes = disk.map(&name)?;
    if bytes.as_slice().len() as u64 != entry.bytes {
        let detail = format!("{} bytes long, {} were written", bytes.as_slice().len(), entry.bytes);
        return Err(Damage::new("MAN-03", detail).within(&name).into());
    }
    let segment = Segment::open(&name, bytes)?;
    let header = segment.header();
    let found = [header.items, header.sources, header.edges, header.tombstones, header.vectors];
    let listed = [entry.items, entry.sources, entry.edges, entry.tombstones, entry.vectors];
    let seqs = (header.first_seq, header.last_seq) == (entry.first_seq, entry.last_seq);
    if found != listed || !seqs {
        return Err(Damage::new("MAN-05", "counts differ from the manifest's")
            .within(&name)
            .into());
    }
    let state = match &entry.state {
        None => RowState::fresh(entry.items as usize, entry.edges as usize),
        Some(state) => open_state(disk, entry, state)?,
    };
    Ok(Part { segment: Arc::new(segment), state })
}

fn open_state(
    disk: &dyn Disk,
    entry: &SegmentEntry,
    state: &StateEntry,
) -> Result<RowState, OpenError> {
    let of = StateOf {
        segment: entry.number,
        generation: state.generation,
        items: entry.items,
        edges: entry.edges,
    };
    let name = layout::state_name(of.segment, of.generation);
    state::decode(of, &disk.read(&name, state.bytes)?)
}

fn marks(state: &RowState) -> [u32; 3] {
    [state.tombstoned.count(), state.superseded.count(), state.edges_tombstoned.count()]
}

impl Writer {
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            parts: self.parts.clone().into(),
            seq: self.next_seq - 1,
            model: self.manifest.model,
        }
    }

    fn tail_bytes(&self) -> usize {
        self.parts[self.manifest.segments.len()..].iter().map(|part| part.segment.raw().len()).sum()
    }

    /// Bytes of the logs that hold the tail.
    fn log_bytes(&self) -> u64 {
        self.replayed_bytes + self.log.as_ref().map_or(0, LogWriter::bytes)
    }

    /// Brings back what the logs hold.
    fn replay(&mut self, disk: &dyn Disk, names: &[String]) -> Result<(), OpenError> {
        let mut logs: Vec<u64> =
            names.iter().filter_map(|name| layout::number(FileKind::Log, name)).collect();
        logs.sort_unstable();
        for number in logs {
            self.manifest.next_file = self.manifest.next_file.max(number + 1);
            if number < self.manifest.log_floor {
                continue;
            }
            let log = LogReader::open(disk, number)?;
            self.replayed_bytes += log.bytes();
            let mut builder = SegmentBuilder::default();
            let mut batches = Vec::new();
            for frame in log.frames(self.manifest.store, number, self.next_seq)? {
                let dimensions = self.manifest.model.map(|model| model.dimensions);
                let batch = record::decode(frame.payload, frame.records)
                    .and_then(|batch| batch.recheck(dimensions).map(|()| batch))
                    .map_err(|damage| damage.within(&layout::name(FileKind::Log, number)))?;
                builder.push_batch(frame.seq, &batch);
                batches.push(batch);
                self.next_seq = frame.seq + 1;
            }
            if !batches.is_empty() {
                self.add(builder, &batches)?;
            }
        }
        Ok(())
    }

    /// Removes what no manifest needs. Only names of our own making are touched.
    fn remove_leftovers(&self, disk: &dyn Disk, names: &[String]) -> Result<(), DiskError> {
        remove_unfinished(disk, names)?;
        let mut needed: HashSet<String> = HashSet::new();
        for entry in &self.manifest.segments {
            needed.insert(layout::name(FileKind::Segment, entry.number));
            let state = entry.state.as_ref();
            needed.extend(state.map(|state| layout::state_name(entry.number, state.generation)));
        }
        for name in names {
            let old_log = layout::number(FileKind::Log, name)
                .is_some_and(|number| number < self.manifest.log_floor);
            let old_manifest = layout::number(FileKind::Manifest, name)
                .is_some_and(|number| number < self.manifest.number);
            let lost = layout::is_listed_kind(name) && !needed.contains(name);
            if old_log || old_manifest || lost {
                disk.remove(name)?;
            }
        }
        Ok(())
    }

    /// Fills in ids and times.
    fn complete(&mut self, mut batch: Batch, at: Micros, random: &dyn Random) -> Batch {
        for source in &mut batch.sources {
            source.id.get_or_insert_with(|| SourceId(self.ids.next(at, random)));
            source.recorded_at.get_or_insert(at);
        }
        for item in &mut batch.items {
            item.id.get_or_insert_with(|| ItemId(self.ids.next(at, random)));
            item.recorded_at.get_or_insert(at);
        }
        for edge in &mut batch.edges {
            edge.id.get_or_insert_with(|| EdgeId(self.ids.next(at, random)));
            edge.recorded_at.get_or_insert(at);
        }
        for stone in &mut batch.tombstones {
            stone.at.get_or_insert(at);
        }
        batch
    }

    /// Checks what a batch says about other rows. An item can only replace what is there before
    /// it, in the store or earlier in the batch, so no chain can run in a circle.
    fn check_links(&self, batch: &Batch) -> Result<(), WriteError> {
        let snapshot = self.snapshot();
        let mut sources = HashSet::new();
        for source in batch.sources.iter().filter_map(|source| source.id) {
            if !sources.insert(source) || snapshot.source(source)?.is_some() {
                return Err(WriteError::refused("source.id", format!("{source} is taken")));
            }
        }
        let known_source = |id: Option<SourceId>| match id {
            Some(id) if !sources.contains(&id) && snapshot.source(id)?.is_none() => {
                Err(WriteError::refused("source", format!("there is no source {id}")))
            }
            _ => Ok(()),
        };
        let mut items = HashSet::new();
        let mut refs = HashSet::new();
        for item in &batch.items {
            known_source(item.source)?;
            for &old in &item.supersedes {
                if !items.contains(&old) {
                    standing(&snapshot, "supersedes", old)?;
                }
            }
            let id = item.id.expect("complete gives every item its id");
            if !items.insert(id) || snapshot.find(id)?.is_some() {
                return Err(WriteError::refused("id", format!("{id} is taken")));
            }
            if let Some(reference) = &item.reference {
                check_ref(&snapshot, reference, &item.supersedes, &mut refs)?;
            }
        }
        let mut edges = HashSet::new();
        for edge in &batch.edges {
            known_source(edge.source)?;
            for (field, end) in [("from", edge.from), ("to", edge.to)] {
                if !items.contains(&end) {
                    standing(&snapshot, field, end)?;
                }
            }
            let id = edge.id.expect("complete gives every edge its id");
            if !edges.insert(id) || snapshot.has_edge(id)? {
                return Err(WriteError::refused("edge.id", format!("{id} is taken")));
            }
        }
        batch.tombstones.iter().try_for_each(|stone| {
            let id = ItemId(stone.target);
            if snapshot.find(id)?.is_some() || snapshot.has_edge(EdgeId(stone.target))? {
                return Ok(());
            }
            Err(WriteError::refused("target", format!("there is no item or edge {id}")))
        })
    }

    fn commit(
        &mut self,
        ground: &Ground,
        options: Options,
        batch: Batch,
        at: Micros,
    ) -> Result<Written, WriteError> {
        let seq = self.next_seq;
        let payload = record::encode(&batch);
        if payload.len() > FRAME_BYTES_MAX {
            let why = format!("{} bytes; at most {FRAME_BYTES_MAX} are allowed", payload.len());
            return Err(WriteError::refused("batch", why));
        }
        if self.log_bytes() + log::frame_bytes(&payload) > LOG_BYTES_MAX {
            // Only when the tail could not be sealed before.
            let why = format!("the logs are full: at most {LOG_BYTES_MAX} bytes are allowed");
            return Err(WriteError::refused("batch", why));
        }
        let records = u32::try_from(batch.records()).expect("BATCH_RECORDS_MAX is checked");
        let logged = self
            .log(&*ground.disk)
            .and_then(|log| log.append(seq, &payload, records, options.durability));
        logged.map_err(|error| self.stop(error))?;
        self.next_seq += 1;
        let mut builder = SegmentBuilder::default();
        builder.push_batch(seq, &batch);
        if let Err(damage) = self.add(builder, std::slice::from_ref(&batch)) {
            self.stopped = Some(damage.to_string());
            return Err(damage.into());
        }
        Ok(Written {
            seq,
            at,
            sources: batch.sources.iter().filter_map(|source| source.id).collect(),
            items: batch.items.iter().filter_map(|item| item.id).collect(),
            edges: batch.edges.iter().filter_map(|edge| edge.id).collect(),
        })
    }

    /// The log, made when the first write needs it.
    fn log(&mut self, disk: &dyn Disk) -> Result<&mut LogWriter, DiskError> {
        if self.log.is_none() {
            let number = self.manifest.next_file;
            self.log = Some(LogWriter::create(disk, self.manifest.store, number, self.next_seq)?);
            self.manifest.next_file += 1;
        }
        Ok(self.log.as_mut().expect("made above"))
    }

    fn stop(&mut self, error: DiskError) -> WriteError {
        self.stopped = Some(error.to_string());
        WriteError::Disk(error)
    }

    /// Adds committed rows to the tail, retires what they replace or hide, and keeps the tail's
    /// parts few: each is more than twice the size of the next, so there are about
    /// log2(tail bytes) of them, and a row is copied about as often before it is sealed.
    fn add(&mut self, builder: SegmentBuilder, batches: &[Batch]) -> Result<(), Damage> {
        let segment = Arc::new(Segment::held(builder.finish()));
        let header = *segment.header();
        let state = RowState::fresh(header.items as usize, header.edges as usize);
        self.parts.push(Part { segment, state });
        for batch in batches {
            batch
                .items
                .iter()
                .flat_map(|item| &item.supersedes)
                .try_for_each(|&old| self.retire(old, |state| &mut state.superseded))?;
            for stone in &batch.tombstones {
                self.retire(ItemId(stone.target), |state| &mut state.tombstoned)?;
                self.hide_edge(EdgeId(stone.target))?;
            }
        }
        let sealed = self.manifest.segments.len();
        while let [.., second, last] = &self.parts[sealed..] {
            let tail_parts = self.parts.len() - sealed;
            let (second, last) = (second.segment.raw().len(), last.segment.raw().len());
            if second > last * 2 && tail_parts <= TAIL_PARTS_MAX {
                break;
            }
            let merged = merge(&self.parts[self.parts.len() - 2..])?;
            self.parts.truncate(self.parts.len() - 2);
            self.parts.push(merged);
        }
        Ok(())
    }

    fn retire(
        &mut self,
        id: ItemId,
        bits: impl Fn(&mut RowState) -> &mut state::Bits,
    ) -> Result<(), Damage> {
        for part in self.parts.iter_mut().rev() {
            if let Some(row) = part.segment.row_of_item(id)? {
                bits(&mut part.state).insert(row);
                break;
            }
        }
        Ok(())
    }

    fn hide_edge(&mut self, id: EdgeId) -> Result<(), Damage> {
        for part in self.parts.iter_mut().rev() {
            if let Some(row) = part.segment.row_of_edge(id)? {
                part.state.edges_tombstoned.insert(row);
                break;
            }
        }
        Ok(())
    }

    /// Makes one segment file of the tail and drops the logs that held it. Small segments before
    /// the tail go into the same file, so that many short runs do not leave many files.
    fn seal(&mut self, disk: &dyn Disk, merge_bytes_max: usize) -> Result<(), WriteError> {
        let sealed = self.manifest.segments.len();
        if self.parts.len() == sealed {
            return Ok(());
        }
        let first = self.first_to_seal(merge_bytes_max);
        if first == SEGMENTS_MAX {
            let why = format!("the store has {SEGMENTS_MAX} segments; compact it");
            return Err(WriteError::refused("segments", why));
        }
        let whole = match &self.parts[first..] {
            [one] => one.clone(),
            many => merge(many)?,
        };
        let entry = self.write_segment(disk, &whole).map_err(|error| self.stop(error))?;
        let opened = open_part(disk, &entry);
        let part = opened.map_err(|error| {
            self.stopped = Some(error.to_string());
            WriteError::Stopped(error.to_string())
        })?;
        self.parts.truncate(first);
        self.parts.push(Part { segment: part.segment, state: whole.state });
        self.stored_marks.truncate(first);
        self.stored_marks.push([0; 3]);
        self.manifest.segments.truncate(first);
        self.manifest.segments.push(entry);
        self.manifest.last_seq = self.next_seq - 1;
        self.log = None;
        self.replayed_bytes = 0;
        self.manifest.log_floor = self.manifest.next_file;
        self.publish(disk)
    }

    /// Where the run of parts begins that one file is made of: the tail, and each segment before
    /// it that is at most twice as large as what follows it. A row is then copied about as often
    /// as the store has doubled, up to `merge_bytes_max`.
    fn first_to_seal(&self, merge_bytes_max: usize) -> usize {
        let mut first = self.manifest.segments.len();
        let mut bytes = self.tail_bytes();
        while let Some(before) = first.checked_sub(1) {
            let size = self.parts[before].segment.raw().len();
            if size > bytes * 2 || bytes + size > merge_bytes_max {
                break;
            }
            bytes += size;
            first = before;
        }
        first
    }

    fn write_segment(&mut self, disk: &dyn Disk, part: &Part) -> Result<SegmentEntry, DiskError> {
        let number = self.manifest.next_file;
        self.manifest.next_file += 1;
        let bytes = part.segment.raw();
        put_in_place(disk, &layout::name(FileKind::Segment, number), bytes)?;
        let header = *part.segment.header();
        Ok(SegmentEntry {
            number,
            bytes: bytes.len() as u64,
            sha256: Sha256::digest(bytes).into(),
            items: header.items,
            sources: header.sources,
            edges: header.edges,
            tombstones: header.tombstones,
            vectors: header.vectors,
            first_seq: header.first_seq,
            last_seq: header.last_seq,
            state: None,
        })
    }

    /// Writes the states that changed, then a new manifest, and removes what it leaves behind.
    fn publish(&mut self, disk: &dyn Disk) -> Result<(), WriteError> {
        // States hold bits that unsealed commits have set; those must not outlive the commits.
        let logged = self.log.as_mut().map_or(Ok(()), LogWriter::sync);
        let published = logged.and_then(|()| self.write_states(disk)).and_then(|()| {
            self.manifest.number += 1;
            self.manifest_bytes = self.manifest.put_in_place(disk)?;
            self.remove_leftovers(disk, &disk.names()?)
        });
        published.map_err(|error| self.stop(error))
    }

    fn write_states(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        // Replaying the log sets the same bits once more, which is harmless: none is ever cleared.
        for (at, entry) in self.manifest.segments.iter_mut().enumerate() {
            let state = &self.parts[at].state;
            let now = marks(state);
            if now == self.stored_marks[at] {
                continue;
            }
            let generation = entry.state.as_ref().map_or(1, |state| state.generation + 1);
            let of = StateOf {
                segment: entry.number,
                generation,
                items: entry.items,
                edges: entry.edges,
            };
            let bytes = state::encode(of, state);
            put_in_place(disk, &layout::state_name(entry.number, generation), &bytes)?;
            let sha256 = Sha256::digest(&bytes).into();
            entry.state = Some(StateEntry { generation, bytes: bytes.len() as u64, sha256 });
            self.stored_marks[at] = now;
        }
        Ok(())
    }
}

/// Refuses an id that is not there or is tombstoned.
fn standing(snapshot: &Snapshot, field: &'static str, id: ItemId) -> Result<(), WriteError> {
    match snapshot.find(id)? {
        None => Err(WriteError::refused(field, format!("there is no item {id}"))),
        Some(place) if snapshot.status(place) == Status::Tombstoned => {
            Err(WriteError::refused(field, format!("item {id} is tombstoned")))
        }
        Some(_) => Ok(()),
    }
}

/// A ref belongs to one current item; the next one with it must replace that item.
fn check_ref(
    snapshot: &Snapshot,
    reference: &str,
    supersedes: &[ItemId],
    seen: &mut HashSet<String>,
) -> Result<(), WriteError> {
    if !seen.insert(reference.to_owned()) {
        return Err(WriteError::refused("ref", format!("{reference} is given twice in the batch")));
    }
    let Some(place) = snapshot.find_ref(reference)? else { return Ok(()) };
    let holder = snapshot.id(place)?;
    if supersedes.contains(&holder) {
        return Ok(());
    }
    Err(WriteError::refused("ref", format!("{reference} belongs to item {holder}; supersede it")))
}
