//! Opening: from the files of a directory to the rows of its newest commit.
//!
//! Owns the order in which a manifest, its segments and its logs are read; changes nothing on disk.
//! A writer and a reader of another process's store come through here.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::error::{Damage, DiskError, OpenError};
use crate::ids::Seq;
use crate::index::{IndexOf, Lists};
use crate::item::Batch;
use crate::layout::{self, FileKind};
use crate::log::{Frame, Frames, LogEnd, LogMark, LogReader};
use crate::manifest::{Manifest, SegmentEntry, StateEntry};
use crate::os::disk::Disk;
use crate::part::Part;
use crate::reading::snapshot::Snapshot;
use crate::record;
use crate::segment::{Header, OpenedSegment, Segment, SegmentBuilder, open_any};
use crate::state::{self, RowState, StateOf};
use crate::store::rows::Rows;

/// What a directory holds.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) manifest: Manifest,
    pub(crate) rows: Rows,
    pub(crate) next_seq: Seq,
    /// Logs that were read, oldest first. Version 1 does not name them in the manifest.
    pub(crate) logs: Vec<ReadLog>,
    /// Whether every log with frames was closed by its writer, so that all of it is on disk.
    pub(crate) is_closed: bool,
    /// Numbers of segments of an older version, which were converted on the heap.
    pub(crate) outdated: Vec<u64>,
}

/// A log that holds commits of the tail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadLog {
    pub(crate) mark: LogMark,
    /// Length of its file.
    pub(crate) file_bytes: u64,
}

impl Opened {
    /// The sealed rows of a manifest. Segments that an earlier view has open are not opened again.
    pub(crate) fn sealed(
        disk: &dyn Disk,
        manifest: Manifest,
        earlier: Option<&Self>,
    ) -> Result<Self, OpenError> {
        let known: HashMap<_, _> = earlier.into_iter().flat_map(Self::known_parts).collect();
        let (mut parts, mut outdated) = (Vec::new(), Vec::new());
        for entry in &manifest.segments {
            let segment = match known.get(&entry.sha256) {
                Some(part) => Arc::clone(&part.segment),
                None => {
                    let opened = open_segment(disk, entry)?;
                    outdated.extend(opened.upgraded.then_some(entry.number));
                    Arc::new(opened.segment)
                }
            };
            parts.push(with_state(disk, entry, segment)?);
        }
        let rows = Rows::sealed(parts);
        let next_seq = manifest.last_seq + 1;
        Ok(Self { manifest, rows, next_seq, logs: Vec::new(), is_closed: true, outdated })
    }

    /// The sealed parts by the hashes of their segments.
    pub(super) fn known_parts(&self) -> impl Iterator<Item = ([u8; 32], &Part)> {
        let entries = self.manifest.segments.iter().zip(self.rows.sealed_parts());
        entries.map(|(entry, part)| (entry.sha256, part))
    }

    /// Has each sealed segment searched through its index, where one of these names is that and all of it
    /// is right. What is wrong with one is told by `verify`; upkeep makes it anew.
    pub(crate) fn take_indexes(&self, disk: &dyn Disk, names: &[String]) {
        let found: HashSet<u64> =
            names.iter().filter_map(|name| layout::number(FileKind::Index, name)).collect();
        for (entry, part) in self.manifest.segments.iter().zip(self.rows.sealed_parts()) {
            let is_wanted = part.segment.index().is_none() && found.contains(&entry.number);
            if is_wanted {
                take_index(disk, &IndexOf::segment(entry), &part.segment);
            }
        }
    }

    /// Brings back what the logs hold, behind what was read of them before. While another process writes
    /// them (`is_growing`), what is not whole at an end may be on its way.
    pub(crate) fn replay(
        &mut self,
        disk: &dyn Disk,
        names: &[String],
        is_growing: bool,
    ) -> Result<(), OpenError> {
        let named: BTreeSet<u64> = self.manifest.logs.iter().copied().collect();
        let found = names.iter().filter_map(|name| layout::number(FileKind::Log, name));
        let logs: BTreeSet<u64> = found.chain(named.iter().copied()).collect();
        self.go_on_with_log(disk)?;
        let known = self.logs.last().map(|log| log.mark.log);
        for number in logs {
            self.manifest.next_file = self.manifest.next_file.max(number.saturating_add(1));
            if number >= self.manifest.log_floor && known.is_none_or(|known| number > known) {
                let name = layout::name(FileKind::Log, number);
                let log = LogReader::open(disk, number, named.contains(&number));
                let log = log.map_err(|error| match error {
                    OpenError::Disk(error) => missing(error, &name),
                    other => other,
                })?;
                let read = self.replay_log(&log, &name, is_growing)?;
                self.logs.push(read);
            }
        }
        if self.next_seq <= self.manifest.synced_seq {
            let detail = format!(
                "the logs end with commit {}, but {} was on disk when the manifest was written",
                self.next_seq - 1,
                self.manifest.synced_seq
            );
            return Err(Damage::new("LOG-08", detail).into());
        }
        Ok(())
    }

    fn replay_log(
        &mut self,
        log: &LogReader,
        name: &str,
        is_growing: bool,
    ) -> Result<ReadLog, OpenError> {
        let (store, first_seq) = (self.manifest.store, self.next_seq);
        let frames = if is_growing {
            log.frames_so_far(store, first_seq)?
        } else {
            log.frames(store, first_seq)?
        };
        let mark = LogMark { log: log.number(), first_seq, end: frames.at(), seq: first_seq - 1 };
        self.take_frames(frames, mark, name, log.file_bytes())
    }

    /// The same with the newest log that was read before. One that had no frame is read again as a whole.
    fn go_on_with_log(&mut self, disk: &dyn Disk) -> Result<(), OpenError> {
        let Some(ReadLog { mark, .. }) = self.logs.pop() else { return Ok(()) };
        if mark.seq < mark.first_seq {
            return Ok(());
        }
        let name = layout::name(FileKind::Log, mark.log);
        let log = LogReader::open_behind(disk, &mark).map_err(|error| match error {
            OpenError::Disk(error) => missing(error, &name),
            other => other,
        })?;
        let frames = log.frames_behind(self.manifest.store, &mark)?;
        let read = self.take_frames(frames, mark, &name, log.file_bytes())?;
        self.logs.push(read);
        Ok(())
    }

    /// Adds the rows of a log's frames, which begin at the mark; gives the log as far as they go.
    fn take_frames(
        &mut self,
        mut frames: Frames<'_>,
        mark: LogMark,
        name: &str,
        file_bytes: u64,
    ) -> Result<ReadLog, OpenError> {
        let mut builder = SegmentBuilder::default();
        let mut batches = Vec::new();
        while let Some(frame) = frames.next_frame()? {
            let batch = batch_of(&frame, &self.manifest).map_err(|damage| damage.within(name))?;
            builder.push_batch(frame.seq, &batch);
            batches.push(batch);
            self.next_seq = frame.seq + 1;
        }
        if !batches.is_empty() {
            self.note_erasures(&batches);
            self.rows.add(builder.finish_on_heap(), &batches)?;
            self.is_closed &= frames.end() == Some(LogEnd::Marked);
        }
        let mark = LogMark { end: frames.at(), seq: self.next_seq - 1, ..mark };
        Ok(ReadLog { mark, file_bytes })
    }

    /// What the newest manifest may not know yet.
    fn note_erasures(&mut self, batches: &[Batch]) {
        let stones = batches.iter().flat_map(|batch| &batch.tombstones);
        let erasures = stones.filter(|stone| stone.removes()).map(|stone| stone.target);
        self.manifest.erasures.extend(erasures);
    }

    /// Everything, for a reader.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.rows.all(), self.next_seq - 1, self.manifest.model)
    }
}

/// Has a segment searched through its index. A wrong one, all of which was read, is not read again
/// until another file has its name.
fn take_index(disk: &dyn Disk, of: &IndexOf, segment: &Segment) {
    let Ok(file) = disk.open(&of.name()) else { return };
    let stamp = file.stamp();
    if segment.refuses_index(stamp) {
        return;
    }
    match Lists::open(disk, of) {
        Ok(Some(lists)) => segment.take_index(lists),
        // One that could not be read may be read yet.
        Ok(None) | Err(OpenError::Disk(_)) => {}
        Err(_) => segment.refuse_index(stamp),
    }
}

/// What a log's frame holds, checked (LOG-05).
pub(crate) fn batch_of(frame: &Frame<'_>, manifest: &Manifest) -> Result<Batch, Damage> {
    let batch = record::decode(frame.payload, frame.records, frame.version)?;
    batch.recheck(manifest.model.map(|model| model.dimensions))?;
    Ok(batch)
}

/// Opens a segment that a manifest lists.
pub(crate) fn open_segment(
    disk: &dyn Disk,
    entry: &SegmentEntry,
) -> Result<OpenedSegment, OpenError> {
    let name = layout::name(FileKind::Segment, entry.number);
    let bytes = disk.map(&name).map_err(|error| missing(error, &name))?;
    if bytes.length() as u64 != entry.bytes {
        let detail = format!("{} bytes long, {} were written", bytes.length(), entry.bytes);
        return Err(Damage::new("MAN-03", detail).within(&name).into());
    }
    let opened = open_any(&name, bytes)?;
    check_counts(opened.segment.header(), entry).map_err(|damage| damage.within(&name))?;
    Ok(opened)
}

/// Checks that a manifest says of a segment what its header says (MAN-05).
pub(crate) fn check_counts(header: &Header, entry: &SegmentEntry) -> Result<(), Damage> {
    let found = [header.items, header.sources, header.edges, header.tombstones, header.vectors];
    let listed = [entry.items, entry.sources, entry.edges, entry.tombstones, entry.vectors];
    let seqs = (header.first_seq, header.last_seq) == (entry.first_seq, entry.last_seq);
    let is_wide = header.vectors == 0 || header.dimensions == entry.dimensions;
    if found != listed || !seqs || !is_wide {
        return Err(Damage::new("MAN-05", "counts differ from the manifest's"));
    }
    Ok(())
}

fn with_state(
    disk: &dyn Disk,
    entry: &SegmentEntry,
    segment: Arc<Segment>,
) -> Result<Part, OpenError> {
    let state = match &entry.state {
        None => RowState::fresh(entry.items as usize, entry.edges as usize),
        Some(state) => open_state(disk, entry, state)?,
    };
    Ok(Part { segment, state: Arc::new(state) })
}

fn open_state(
    disk: &dyn Disk,
    entry: &SegmentEntry,
    state: &StateEntry,
) -> Result<RowState, OpenError> {
    let of = state_of(entry, state);
    let name = layout::state_name(of.segment, of.generation);
    // One byte more than listed, so that a longer file is seen to be one.
    let bytes = disk.read(&name, state.bytes + 1).map_err(|error| missing(error, &name))?;
    state::decode(of, &bytes)
}

/// What the state file of a segment must say of itself.
pub(crate) fn state_of(entry: &SegmentEntry, state: &StateEntry) -> StateOf {
    StateOf {
        segment: entry.number,
        generation: state.generation,
        items: entry.items,
        edges: entry.edges,
    }
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
