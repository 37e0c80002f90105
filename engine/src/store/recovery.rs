//! Recovery: reads a directory's manifest, segments and logs into the rows of its newest commit.
//!
//! Changes nothing on disk. Used by the writer, and by readers of another process's store.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::error::{CorruptionError, DiskError, OpenError};
use crate::ids::Seq;
use crate::item::Batch;
use crate::layout::{self, FileKind};
use crate::manifest::{Manifest, SegmentEntry, StateEntry};
use crate::os::disk::Disk;
use crate::query::snapshot::Snapshot;
use crate::record_codec;
use crate::row_state::{self, RowState, StateKey};
use crate::segment::{OpenedSegment, Segment, SegmentBuilder, SegmentHeader, open_any};
use crate::segment_snapshot::SegmentSnapshot;
use crate::store::segment_list::SegmentList;
use crate::vector_index::{IndexKey, IvfIndex};
use crate::wal::{Frame, Frames, WalEnd, WalPosition, WalReader};

/// Recovered contents of a directory.
#[derive(Debug, Clone)]
pub(crate) struct RecoveredState {
    pub(crate) manifest: Manifest,
    pub(crate) segments: SegmentList,
    pub(crate) next_seq: Seq,
    /// Replayed logs, oldest first. A version 1 manifest does not list them.
    pub(crate) logs: Vec<ReplayedLog>,
    /// True if the writer closed every log that has frames, so that all frames are on disk.
    pub(crate) is_closed: bool,
    /// Numbers of older-version segments, which were converted on the heap.
    pub(crate) older_version_segments: Vec<u64>,
}

/// Log with commits of the tail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplayedLog {
    pub(crate) position: WalPosition,
    /// Length of the log's file.
    pub(crate) file_bytes: u64,
}

impl RecoveredState {
    /// Opens the sealed segments of a manifest, and reuses segments that an earlier view has open.
    pub(crate) fn open_sealed(
        disk: &dyn Disk,
        manifest: Manifest,
        earlier: Option<&Self>,
    ) -> Result<Self, OpenError> {
        let known: HashMap<_, _> = earlier.into_iter().flat_map(Self::open_segments).collect();
        let (mut parts, mut outdated) = (Vec::new(), Vec::new());
        for entry in &manifest.segments {
            let segment = match known.get(&entry.sha256) {
                Some(part) => Arc::clone(&part.segment),
                None => {
                    let opened = open_segment(disk, entry)?;
                    outdated.extend(opened.is_upgraded.then_some(entry.number));
                    Arc::new(opened.segment)
                }
            };
            parts.push(open_with_state(disk, entry, segment)?);
        }
        let rows = SegmentList::from_sealed(parts);
        let next_seq = manifest.last_seq + 1;
        Ok(Self {
            manifest,
            segments: rows,
            next_seq,
            logs: Vec::new(),
            is_closed: true,
            older_version_segments: outdated,
        })
    }

    /// Sealed segments by the hashes of their files.
    pub(super) fn open_segments(&self) -> impl Iterator<Item = ([u8; 32], &SegmentSnapshot)> {
        let entries = self.manifest.segments.iter().zip(self.segments.sealed());
        entries.map(|(entry, part)| (entry.sha256, part))
    }

    /// Installs the index of each sealed segment that has a valid index file among `names`. For an invalid index,
    /// `verify` reports the damage and the background workers rebuild the index.
    pub(crate) fn load_indexes(&self, disk: &dyn Disk, names: &[String]) {
        let found: HashSet<u64> =
            names.iter().filter_map(|name| layout::file_number(FileKind::Index, name)).collect();
        for (entry, part) in self.manifest.segments.iter().zip(self.segments.sealed()) {
            let is_wanted = part.segment.index().is_none() && found.contains(&entry.number);
            if is_wanted {
                load_index(disk, &IndexKey::from_entry(entry), &part.segment);
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
        let found = names.iter().filter_map(|name| layout::file_number(FileKind::Log, name));
        let logs: BTreeSet<u64> = found.chain(named.iter().copied()).collect();
        self.continue_log(disk)?;
        let known = self.logs.last().map(|log| log.position.log);
        for number in logs {
            self.manifest.next_file = self.manifest.next_file.max(number.saturating_add(1));
            if number >= self.manifest.log_floor && known.is_none_or(|known| number > known) {
                let name = layout::file_name(FileKind::Log, number);
                let log = WalReader::open(disk, number, named.contains(&number));
                let log = log.map_err(|error| match error {
                    OpenError::Disk(error) => missing_file_error(error, &name),
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
            return Err(CorruptionError::new("LOG-08", detail).into());
        }
        Ok(())
    }

    fn replay_log(
        &mut self,
        log: &WalReader,
        name: &str,
        is_growing: bool,
    ) -> Result<ReplayedLog, OpenError> {
        let (store, first_seq) = (self.manifest.store, self.next_seq);
        let frames = if is_growing {
            log.frames_while_growing(store, first_seq)?
        } else {
            log.frames(store, first_seq)?
        };
        let mark =
            WalPosition { log: log.number(), first_seq, end: frames.at(), seq: first_seq - 1 };
        self.apply_frames(frames, mark, name, log.file_bytes())
    }

    /// Continues the newest replayed log. A log that had no frame is read again as a whole.
    fn continue_log(&mut self, disk: &dyn Disk) -> Result<(), OpenError> {
        let Some(ReplayedLog { position: mark, .. }) = self.logs.pop() else { return Ok(()) };
        if mark.seq < mark.first_seq {
            return Ok(());
        }
        let name = layout::file_name(FileKind::Log, mark.log);
        let log = WalReader::open_after(disk, &mark).map_err(|error| match error {
            OpenError::Disk(error) => missing_file_error(error, &name),
            other => other,
        })?;
        let frames = log.frames_after(self.manifest.store, &mark)?;
        let read = self.apply_frames(frames, mark, &name, log.file_bytes())?;
        self.logs.push(read);
        Ok(())
    }

    /// Applies a log's frames from the position `mark` on; returns the log with its new position.
    fn apply_frames(
        &mut self,
        mut frames: Frames<'_>,
        mark: WalPosition,
        name: &str,
        file_bytes: u64,
    ) -> Result<ReplayedLog, OpenError> {
        let mut builder = SegmentBuilder::default();
        let mut batches = Vec::new();
        while let Some(frame) = frames.next_frame()? {
            let batch =
                decode_batch(&frame, &self.manifest).map_err(|damage| damage.in_file(name))?;
            builder.push_batch(frame.seq, &batch);
            batches.push(batch);
            self.next_seq = frame.seq + 1;
        }
        if !batches.is_empty() {
            self.collect_erasures(&batches);
            self.segments.add(builder.finish_on_heap(), &batches)?;
            self.is_closed &= frames.end() == Some(WalEnd::Closed);
        }
        let mark = WalPosition { end: frames.at(), seq: self.next_seq - 1, ..mark };
        Ok(ReplayedLog { position: mark, file_bytes })
    }

    /// Adds erasures that the newest manifest may not list yet.
    fn collect_erasures(&mut self, batches: &[Batch]) {
        let stones = batches.iter().flat_map(|batch| &batch.tombstones);
        let erasures = stones.filter(|stone| stone.erases_target()).map(|stone| stone.target);
        self.manifest.erasures.extend(erasures);
    }

    /// Returns a snapshot of all rows.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.segments.all(), self.next_seq - 1, self.manifest.model)
    }
}

/// Installs the index of a segment. An invalid index that was read completely is not read again until another file
/// replaces it.
fn load_index(disk: &dyn Disk, of: &IndexKey, segment: &Segment) {
    let Ok(file) = disk.open(&of.file_name()) else { return };
    let stamp = file.stamp();
    if segment.is_index_rejected(stamp) {
        return;
    }
    match IvfIndex::open(disk, of) {
        Ok(Some(lists)) => segment.install_index(lists),
        // An unreadable index may become readable later.
        Ok(None) | Err(OpenError::Disk(_)) => {}
        Err(_) => segment.reject_index(stamp),
    }
}

/// Decodes and checks the batch of a log frame (LOG-05).
pub(crate) fn decode_batch(
    frame: &Frame<'_>,
    manifest: &Manifest,
) -> Result<Batch, CorruptionError> {
    let batch = record_codec::decode(frame.payload, frame.records, frame.version)?;
    batch.recheck(manifest.model.map(|model| model.dimensions))?;
    Ok(batch)
}

/// Opens a listed segment.
pub(crate) fn open_segment(
    disk: &dyn Disk,
    entry: &SegmentEntry,
) -> Result<OpenedSegment, OpenError> {
    let name = layout::file_name(FileKind::Segment, entry.number);
    let bytes = disk.map(&name).map_err(|error| missing_file_error(error, &name))?;
    if bytes.length() as u64 != entry.bytes {
        let detail = format!("{} bytes long, {} were written", bytes.length(), entry.bytes);
        return Err(CorruptionError::new("MAN-03", detail).in_file(&name).into());
    }
    let opened = open_any(&name, bytes)?;
    check_counts(opened.segment.header(), entry).map_err(|damage| damage.in_file(&name))?;
    Ok(opened)
}

/// Checks that a segment's header agrees with its manifest entry (MAN-05).
pub(crate) fn check_counts(
    header: &SegmentHeader,
    entry: &SegmentEntry,
) -> Result<(), CorruptionError> {
    let found = [header.items, header.sources, header.edges, header.tombstones, header.vectors];
    let listed = [entry.items, entry.sources, entry.edges, entry.tombstones, entry.vectors];
    let seqs = (header.first_seq, header.last_seq) == (entry.first_seq, entry.last_seq);
    let is_wide = header.vectors == 0 || header.dimensions == entry.dimensions;
    if found != listed || !seqs || !is_wide {
        return Err(CorruptionError::new("MAN-05", "counts differ from the manifest's"));
    }
    Ok(())
}

fn open_with_state(
    disk: &dyn Disk,
    entry: &SegmentEntry,
    segment: Arc<Segment>,
) -> Result<SegmentSnapshot, OpenError> {
    let state = match &entry.state {
        None => RowState::empty(entry.items as usize, entry.edges as usize),
        Some(state) => open_state(disk, entry, state)?,
    };
    Ok(SegmentSnapshot { segment, state: Arc::new(state) })
}

fn open_state(
    disk: &dyn Disk,
    entry: &SegmentEntry,
    state: &StateEntry,
) -> Result<RowState, OpenError> {
    let of = state_key(entry, state);
    let name = layout::state_name(of.segment, of.generation);
    // Reads 1 byte more than listed, to detect a longer file.
    let bytes =
        disk.read(&name, state.bytes + 1).map_err(|error| missing_file_error(error, &name))?;
    row_state::decode(of, &bytes)
}

/// Expected identity of a segment's state file.
pub(crate) fn state_key(entry: &SegmentEntry, state: &StateEntry) -> StateKey {
    StateKey {
        segment: entry.number,
        generation: state.generation,
        items: entry.items,
        edges: entry.edges,
    }
}

/// Maps a missing listed file to corruption (MAN-03).
fn missing_file_error(error: DiskError, name: &str) -> OpenError {
    if error.source.kind() == std::io::ErrorKind::NotFound {
        return CorruptionError::new("MAN-03", "the manifest names it, but it is not there")
            .in_file(name)
            .into();
    }
    error.into()
}
