//! The one writer of a store: what it keeps, and the order in which things become durable.
//!
//! Owns the tail, the log and the manifest (`format-spec/log.md`). Rows that are not sealed yet,
//! the *tail*, live in the log and in parts on the heap that have the very shape of sealed
//! segments, so readers know one shape.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

use crate::error::{Damage, DiskError, OpenError, WriteError};
use crate::ids::{EdgeId, ItemId, Seq, StoreId};
use crate::item::Batch;
use crate::layout::{self, FileKind};
use crate::limits::*;
use crate::log::{self, Durability, LogReader, LogWriter};
use crate::manifest::{Manifest, SegmentEntry, StateEntry};
use crate::merge::merge;
use crate::os::clock::Micros;
use crate::os::disk::{Disk, put_all_in_place, put_in_place};
use crate::record;
use crate::segment::{Segment, SegmentBuilder, open_any};
use crate::snapshot::{Part, Snapshot};
use crate::state::{self, RowState, StateFile, StateOf};
use crate::store::{Ground, Options, Written};

#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) manifest: Manifest,
    pub(crate) log: Option<LogWriter>,
    /// Bytes of the frames of the older logs that hold the rest of the tail.
    pub(crate) replayed_bytes: u64,
    /// Lengths of their files.
    replayed_file_bytes: u64,
    pub(crate) manifest_bytes: u64,
    pub(crate) next_seq: Seq,
    /// Sealed parts in the manifest's order, then the tail.
    pub(crate) parts: Vec<Part>,
    /// Retired rows of each sealed part that its newest state file holds.
    pub(crate) stored_marks: Vec<[u32; 3]>,
    /// Why the writer stopped.
    pub(crate) stopped: Arc<OnceLock<String>>,
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
    let bytes = disk.map(&name).map_err(|error| missing(error, &name))?;
    if bytes.as_slice().len() as u64 != entry.bytes {
        let detail = format!("{} bytes long, {} were written", bytes.as_slice().len(), entry.bytes);
        return Err(Damage::new("MAN-03", detail).within(&name).into());
    }
    let segment = open_any(&name, bytes)?.segment;
    let header = segment.header();
    let found = [header.items, header.sources, header.edges, header.tombstones, header.vectors];
    let listed = [entry.items, entry.sources, entry.edges, entry.tombstones, entry.vectors];
    let seqs = (header.first_seq, header.last_seq) == (entry.first_seq, entry.last_seq);
    let is_wide = header.vectors == 0 || header.dimensions == entry.dimensions;
    if found != listed || !seqs || !is_wide {
        return Err(Damage::new("MAN-05", "counts differ from the manifest's")
            .within(&name)
            .into());
    }
    let state = match &entry.state {
        None => RowState::fresh(entry.items as usize, entry.edges as usize),
        Some(state) => open_state(disk, entry, state)?,
    };
    Ok(Part { segment: Arc::new(segment), state: Arc::new(state) })
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
    // One byte more than listed, so that a longer file is seen to be one.
    let bytes = disk.read(&name, state.bytes + 1).map_err(|error| missing(error, &name))?;
    state::decode(of, &bytes)
}

/// A file that the manifest names and that is not there is damage (MAN-03).
fn missing(error: DiskError, name: &str) -> OpenError {
    if error.source.kind() == std::io::ErrorKind::NotFound {
        return Damage::new("MAN-03", "the manifest names it, but it is not there")
            .within(name)
            .into();
    }
    error.into()
}

fn marks(state: &RowState) -> [u32; 3] {
    [state.tombstoned.count(), state.superseded.count(), state.edges_tombstoned.count()]
}

impl Writer {
    /// Opens what the directory holds, making a new store where it holds none, and recovers what
    /// was acknowledged.
    pub(crate) fn open(ground: &Ground) -> Result<Self, OpenError> {
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
        let mut parts = Vec::new();
        for entry in &manifest.segments {
            parts.push(open_part(disk, entry)?);
        }
        let stored_marks = parts.iter().map(|part| marks(&part.state)).collect();
        let mut writer = Self {
            next_seq: manifest.last_seq + 1,
            manifest,
            log: None,
            replayed_bytes: 0,
            replayed_file_bytes: 0,
            manifest_bytes,
            parts,
            stored_marks,
            stopped: Arc::default(),
        };
        writer.replay(disk, &names)?;
        // What is about to be removed may be all that is left if the newest names are lost.
        disk.sync_names()?;
        writer.remove_leftovers(disk, &disk.names()?)?;
        Ok(writer)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            parts: self.parts.clone().into(),
            seq: self.next_seq - 1,
            model: self.manifest.model,
        }
    }

    pub(crate) fn tail_bytes(&self) -> usize {
        self.parts[self.manifest.segments.len()..].iter().map(|part| part.segment.raw().len()).sum()
    }

    /// Bytes of the logs that hold the tail.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.replayed_bytes + self.log.as_ref().map_or(0, LogWriter::bytes)
    }

    /// Whether the tail must be sealed before another batch is logged.
    pub(crate) fn logs_are_full(&self) -> bool {
        let one_more = usize::from(self.log.is_none());
        self.log_bytes() >= LOG_BYTES_SEAL || self.manifest.logs.len() + one_more > LOGS_MAX
    }

    /// Brings back what the logs hold.
    fn replay(&mut self, disk: &dyn Disk, names: &[String]) -> Result<(), OpenError> {
        let named: BTreeSet<u64> = self.manifest.logs.iter().copied().collect();
        let found = names.iter().filter_map(|name| layout::number(FileKind::Log, name));
        let logs: BTreeSet<u64> = found.chain(named.iter().copied()).collect();
        for number in logs {
            self.manifest.next_file = self.manifest.next_file.max(number.saturating_add(1));
            if number < self.manifest.log_floor {
                continue;
            }
            let name = layout::name(FileKind::Log, number);
            let log =
                LogReader::open(disk, number, named.contains(&number)).map_err(
                    |error| match error {
                        OpenError::Disk(error) => missing(error, &name),
                        other => other,
                    },
                )?;
            self.replayed_file_bytes += log.file_bytes();
            let mut builder = SegmentBuilder::default();
            let mut batches = Vec::new();
            let mut frames = log.frames(self.manifest.store, self.next_seq)?;
            while let Some(frame) = frames.next_frame()? {
                let dimensions = self.manifest.model.map(|model| model.dimensions);
                let batch = record::decode(frame.payload, frame.records, frame.version)
                    .and_then(|batch| batch.recheck(dimensions).map(|()| batch))
                    .map_err(|damage| damage.within(&name))?;
                builder.push_batch(frame.seq, &batch);
                batches.push(batch);
                self.next_seq = frame.seq + 1;
            }
            self.replayed_bytes += frames.place().at;
            if !batches.is_empty() {
                if !named.contains(&number) {
                    self.manifest.logs.push(number); // the manifest is of version 1
                }
                self.add(builder, &batches)?;
                // A killed writer may have left a whole frame that was never synced. It is shown from
                // now on, and later commits build on it, so it must not be lost either.
                disk.sync(&name)?;
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

    pub(crate) fn commit(
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
        let log = self.log(&*ground.disk, options.durability)?;
        let logged = log.append(seq, &payload, records).and_then(|end| {
            if options.durability == Durability::Sync {
                log.syncer().sync()?;
                log.mark_synced(end);
            }
            Ok(())
        });
        logged.map_err(|error| self.stop(error))?;
        self.next_seq += 1;
        let mut builder = SegmentBuilder::default();
        builder.push_batch(seq, &batch);
        let added = self.add(builder, std::slice::from_ref(&batch));
        added.map_err(|damage| self.stop_for(damage))?;
        Ok(Written {
            seq,
            at,
            sources: batch.sources.iter().filter_map(|source| source.id).collect(),
            items: batch.items.iter().filter_map(|item| item.id).collect(),
            edges: batch.edges.iter().filter_map(|edge| edge.id).collect(),
        })
    }

    /// The log, made and named when the first write needs it.
    fn log(
        &mut self,
        disk: &dyn Disk,
        durability: Durability,
    ) -> Result<&mut LogWriter, WriteError> {
        if self.log.is_none() {
            let (store, number) = (self.manifest.store, self.manifest.next_file);
            let made = LogWriter::create(disk, store, number, self.next_seq, durability);
            let log = made.map_err(|error| self.stop(error))?;
            self.manifest.next_file += 1;
            self.manifest.logs.push(log.number());
            self.put_manifest(disk)?;
            self.log = Some(log);
        }
        Ok(self.log.as_mut().expect("made above"))
    }

    fn stop_for(&mut self, damage: Damage) -> WriteError {
        self.note_stop(damage.to_string());
        damage.into()
    }

    fn stop(&mut self, error: DiskError) -> WriteError {
        self.note_stop(error.to_string());
        WriteError::Disk(error)
    }

    /// The first reason stays: what follows from it explains less.
    fn note_stop(&self, why: String) {
        let _earlier = self.stopped.set(why);
    }

    /// Adds committed rows to the tail, retires what they replace or hide, and keeps the tail's
    /// parts few: each is more than twice the size of the next, so there are about
    /// log2(tail bytes) of them, and a row is copied about as often before it is sealed.
    fn add(&mut self, builder: SegmentBuilder, batches: &[Batch]) -> Result<(), Damage> {
        let segment = Arc::new(Segment::held(builder.finish()));
        let header = *segment.header();
        let state = RowState::fresh(header.items as usize, header.edges as usize);
        self.parts.push(Part { segment, state: Arc::new(state) });
        for batch in batches {
            batch
                .items
                .iter()
                .flat_map(|item| &item.supersedes)
                .try_for_each(|&old| self.retire(old, |state| &mut state.superseded).map(drop))?;
            for stone in &batch.tombstones {
                if !self.retire(ItemId(stone.target), |state| &mut state.tombstoned)? {
                    self.hide_edge(EdgeId(stone.target))?;
                }
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

    /// Sets a bit of an item's row; `false` where there is no such item.
    fn retire(
        &mut self,
        id: ItemId,
        bits: impl Fn(&mut RowState) -> &mut state::Bits,
    ) -> Result<bool, Damage> {
        for part in self.parts.iter_mut().rev() {
            if let Some(row) = part.segment.row_of_item(id)? {
                bits(Arc::make_mut(&mut part.state)).insert(row);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn hide_edge(&mut self, id: EdgeId) -> Result<(), Damage> {
        for part in self.parts.iter_mut().rev() {
            if let Some(row) = part.segment.row_of_edge(id)? {
                Arc::make_mut(&mut part.state).edges_tombstoned.insert(row);
                break;
            }
        }
        Ok(())
    }

    /// Makes one segment file of the tail and drops the logs that held it. Small segments before
    /// the tail go into the same file, so that many short runs do not leave many files.
    pub(crate) fn seal(
        &mut self,
        disk: &dyn Disk,
        merge_bytes_max: usize,
    ) -> Result<(), WriteError> {
        let sealed = self.manifest.segments.len();
        if self.parts.len() == sealed {
            if self.replayed_bytes == 0 {
                return Ok(());
            }
            // Logs without one whole frame: nothing to keep of them.
            self.drop_logs();
            return self.publish(disk);
        }
        let first = self.first_to_seal(merge_bytes_max);
        if first == SEGMENTS_MAX {
            let why = format!("the store has {SEGMENTS_MAX} segments, which is the most");
            return Err(WriteError::refused("segments", why));
        }
        let (first, whole) = match &self.parts[first..] {
            [one] => (first, one.clone()),
            // A sealed segment that cannot be read must not keep the tail from being sealed.
            many => match merge(many) {
                Ok(whole) => (first, whole),
                Err(damage) if first == sealed => return Err(self.stop_for(damage)),
                Err(_) => {
                    let tail = merge(&self.parts[sealed..]);
                    (sealed, tail.map_err(|damage| self.stop_for(damage))?)
                }
            },
        };
        let entry = self.write_segment(disk, &whole).map_err(|error| self.stop(error))?;
        let opened = open_part(disk, &entry);
        let part = opened.map_err(|error| {
            self.note_stop(error.to_string());
            WriteError::Stopped(error.to_string())
        })?;
        self.parts.truncate(first);
        self.parts.push(Part { segment: part.segment, state: whole.state });
        self.stored_marks.truncate(first);
        self.stored_marks.push([0; 3]);
        self.manifest.segments.truncate(first);
        self.manifest.segments.push(entry);
        self.manifest.last_seq = self.next_seq - 1;
        self.drop_logs();
        self.publish(disk)
    }

    fn drop_logs(&mut self) {
        self.log = None;
        self.replayed_bytes = 0;
        self.replayed_file_bytes = 0;
        self.manifest.logs.clear();
        self.manifest.log_floor = self.manifest.next_file;
    }

    /// Bytes of all files that the manifest needs, and the logs.
    pub(crate) fn bytes_on_disk(&self) -> u64 {
        let sealed = self.manifest.segments.iter();
        let sealed: u64 = sealed
            .map(|entry| entry.bytes + entry.state.as_ref().map_or(0, |state| state.bytes))
            .sum();
        let log = self.log.as_ref().map_or(0, LogWriter::file_bytes);
        sealed + self.replayed_file_bytes + log + self.manifest_bytes
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
            dimensions: if header.vectors == 0 { 0 } else { header.dimensions },
            first_seq: header.first_seq,
            last_seq: header.last_seq,
            state: None,
        })
    }

    /// Writes the states that changed, then a new manifest, and removes what it leaves behind.
    pub(crate) fn publish(&mut self, disk: &dyn Disk) -> Result<(), WriteError> {
        // States hold bits that unsealed commits have set; those must not outlive the commits.
        let logged = self.log.as_mut().map_or(Ok(()), LogWriter::sync);
        let written = logged.and_then(|()| self.write_states(disk));
        written.map_err(|error| self.stop(error))?;
        self.put_manifest(disk)
    }

    fn put_manifest(&mut self, disk: &dyn Disk) -> Result<(), WriteError> {
        self.manifest.number += 1;
        let put = self.manifest.put_in_place(disk);
        self.manifest_bytes = put.map_err(|error| self.stop(error))?;
        // All of it stands by now. What cannot be removed is tried again at the next opening.
        let _kept = disk.names().and_then(|names| self.remove_leftovers(disk, &names));
        Ok(())
    }

    fn write_states(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        // Replaying the log sets the same bits once more, which is harmless: none is ever cleared.
        let (parts, stored) = (&self.parts, &mut self.stored_marks);
        let entries = self.manifest.segments.iter_mut().zip(parts).zip(stored);
        let changed: Vec<_> =
            entries.filter(|((_, part), stored)| marks(&part.state) != **stored).collect();
        let files = changed.into_iter().map(|((entry, part), stored)| {
            let generation = entry.state.as_ref().map_or(1, |state| state.generation + 1);
            let segment = entry.number;
            let of = StateOf { segment, generation, items: entry.items, edges: entry.edges };
            let file = StateFile::of(of, &part.state);
            entry.state = Some(file.entry);
            *stored = marks(&part.state);
            (file.name, file.bytes)
        });
        put_all_in_place(disk, files)
    }
}

/// A writer that ends in good order closes its log, so that what happens to the log later is known
/// to be damage.
impl Drop for Writer {
    fn drop(&mut self) {
        if self.stopped.get().is_none()
            && !std::thread::panicking()
            && let Some(log) = self.log.take()
        {
            // Without a mark the log is as a killed writer leaves it: nothing is lost.
            let _unmarked = log.close();
        }
    }
}
