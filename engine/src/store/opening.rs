//! Recovery: reads a directory's manifest, segments and logs into the rows of its newest commit.
//!
//! Changes nothing on disk. Used by the writer, and by readers of another process's store.

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

/// Recovered contents of a directory.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) manifest: Manifest,
    pub(crate) rows: Rows,
    pub(crate) next_seq: Seq,
    /// Replayed logs, oldest first. A version 1 manifest does not list them.
    pub(crate) logs: Vec<ReadLog>,
    /// True if the writer closed every log that has frames, so that all frames are on disk.
    pub(crate) is_closed: bool,
    /// Numbers of older-version segments, which were converted on the heap.
    pub(crate) outdated: Vec<u64>,
}

/// Log with commits of the tail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadLog {
    pub(crate) mark: LogMark,
    /// Length of the log's file.
    pub(crate) file_bytes: u64,
}

impl Opened {
    /// Opens the sealed segments of a manifest, and reuses segments that an earlier view has open.
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

    /// Sealed segments by the hashes of their files.
    pub(super) fn known_parts(&self) -> impl Iterator<Item = ([u8; 32], &Part)> {
        let entries = self.manifest.segments.iter().zip(self.rows.sealed_parts());
        entries.map(|(entry, part)| (entry.sha256, part))
    }

    /// Installs the index of each sealed segment that has a valid index file among `names`. For an invalid index,
    /// `verify` reports the damage and the background workers rebuild the index.
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

    /// Replays the logs, from the position of the last replay on. If another process writes them (`is_growing`), an
    /// incomplete end may be a write in progress.
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

    /// Continues the newest replayed log. A log that had no frame is read again as a whole.
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

    /// Applies a log's frames from the position `mark` on; returns the log with its new position.
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

    /// Adds erasures that the newest manifest may not list yet.
    fn note_erasures(&mut self, batches: &[Batch]) {
        let stones = batches.iter().flat_map(|batch| &batch.tombstones);
        let erasures = stones.filter(|stone| stone.removes()).map(|stone| stone.target);
        self.manifest.erasures.extend(erasures);
    }

    /// Returns a snapshot of all rows.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.rows.all(), self.next_seq - 1, self.manifest.model)
    }
}

/// Installs the index of a segment. An invalid index that was read completely is not read again until another file
/// replaces it.
fn take_index(disk: &dyn Disk, of: &IndexOf, segment: &Segment) {
    let Ok(file) = disk.open(&of.name()) else { return };
    let stamp = file.stamp();
    if segment.refuses_index(stamp) {
        return;
    }
    match Lists::open(disk, of) {
        Ok(Some(lists)) => segment.take_index(lists),
        // An unreadable index may become readable later.
        Ok(None) | Err(OpenError::Disk(_)) => {}
        Err(_) => segment.refuse_index(stamp),
    }
}

/// Decodes and checks the batch of a log frame (LOG-05).
pub(crate) fn batch_of(frame: &Frame<'_>, manifest: &Manifest) -> Result<Batch, Damage> {
    let batch = record::decode(frame.payload, frame.records, frame.version)?;
    batch.recheck(manifest.model.map(|model| model.dimensions))?;
    Ok(batch)
}

/// Opens a listed segment.
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

/// Checks that a segment's header agrees with its manifest entry (MAN-05).
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
    // Reads 1 byte more than listed, to detect a longer file.
    let bytes = disk.read(&name, state.bytes + 1).map_err(|error| missing(error, &name))?;
    state::decode(of, &bytes)
}

/// Expected identity of a segment's state file.
pub(crate) fn state_of(entry: &SegmentEntry, state: &StateEntry) -> StateOf {
    StateOf {
        segment: entry.number,
        generation: state.generation,
        items: entry.items,
        edges: entry.edges,
    }
}

/// Maps a missing listed file to corruption (MAN-03).
fn missing(error: DiskError, name: &str) -> OpenError {
    if error.source.kind() == std::io::ErrorKind::NotFound {
        return Damage::new("MAN-03", "the manifest names it, but it is not there")
            .within(name)
            .into();
    }
    error.into()
}
