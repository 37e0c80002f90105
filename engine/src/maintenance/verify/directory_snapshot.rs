//! Consistent view of a store's directory for verification: its manifest, mapped segments, and logs in memory.
//!
//! Handles reads beside a running writer, and decides which files belong to the store. Rules of rows are checked
//! elsewhere.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::ErrorKind;

use sha2::{Digest, Sha256};

use super::findings::Findings;
use crate::error::{CorruptionError, DiskError, OpenError};
use crate::ids::Seq;
use crate::layout::{self, FileKind};
use crate::maintenance::bad_sectors;
use crate::manifest::{Manifest, SegmentEntry};
use crate::os::disk::{Disk, FileBytes};
use crate::row_state::{self, RowState};
use crate::segment::{Segment, SegmentBuilder, open_any};
use crate::store::OPEN_ATTEMPTS_MAX;
use crate::store::recovery::{check_counts, decode_batch, state_key};
use crate::vector_index::{IndexKey, IvfIndex};
use crate::wal::{WalEnd, WalReader};

/// Maximum attempts to read a log that looks corrupt: a read beside its writer may return a new frame without the
/// earlier bytes that the frame declares synced.
const LOG_ATTEMPTS_MAX: u32 = 3;

/// Counts of checked files and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerifyTotals {
    /// Segment files.
    pub segments: u64,
    /// State files.
    pub states: u64,
    /// Valid index files.
    pub indexes: u64,
    /// Log files.
    pub logs: u64,
    /// Bytes of all files that the manifest needs, and of indexes.
    pub bytes: u64,
    /// Items, including hidden ones.
    pub items: u64,
    /// Sources.
    pub sources: u64,
    /// Edges, including hidden ones.
    pub edges: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Embeddings.
    pub vectors: u64,
}

/// A segment file.
pub(super) struct SegmentFile {
    pub(super) name: String,
    pub(super) file: FileBytes,
    /// Manifest entry; `None` if no manifest can be read.
    pub(super) entry: Option<SegmentEntry>,
    /// Opened segment, `None` if corrupt. A file of version 1 is opened as version 2.
    pub(super) segment: Option<Segment>,
    /// Row state, `None` if unreadable.
    pub(super) state: Option<RowState>,
    /// Vector index, `None` if missing or invalid.
    pub(super) index: Option<IvfIndex>,
}

/// A log and its rows.
pub(super) struct LogFile {
    pub(super) name: String,
    pub(super) reader: WalReader,
    /// Rows of the log's frames; `None` if there are no frames.
    pub(super) rows: Option<Segment>,
    /// End offset of the last frame.
    pub(super) end: u64,
    /// True if a closing mark follows the last frame, with only zeros after the mark.
    pub(super) is_closed: bool,
}

/// Contents of a directory at one time.
#[derive(Default)]
pub(super) struct DirectorySnapshot {
    /// Names of all files.
    pub(super) names: Vec<String>,
    pub(super) manifest: Option<Manifest>,
    pub(super) manifest_bytes: u64,
    pub(super) sealed: Vec<SegmentFile>,
    pub(super) logs: Vec<LogFile>,
    pub(super) last_seq: Seq,
    /// True if a log could not be read to its end.
    pub(super) has_truncated_log: bool,
    /// Ids pending erasure, including requests that only logs contain.
    pub(super) erasures: BTreeSet<u128>,
    pub(super) findings: Findings,
}

impl DirectorySnapshot {
    /// Reads the directory, and retries if a writer has replaced files meanwhile.
    pub(super) fn open(disk: &dyn Disk) -> Result<Self, OpenError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let names = disk.names()?;
            let read = Self::read(disk, names.clone());
            let is_right = read.as_ref().is_ok_and(|gathered| gathered.findings.list.is_empty());
            let moved =
                || disk.names().is_ok_and(|now| newest_manifest(&now) != newest_manifest(&names));
            let of_logs = read.as_ref().is_ok_and(|gathered| {
                gathered.findings.list.iter().any(|damage| damage.rule.starts_with("LOG"))
            });
            let again =
                attempts < OPEN_ATTEMPTS_MAX && moved() || attempts < LOG_ATTEMPTS_MAX && of_logs;
            if is_right || !again {
                return read;
            }
            std::thread::yield_now();
        }
    }

    fn read(disk: &dyn Disk, names: Vec<String>) -> Result<Self, OpenError> {
        let mut gathered = Self { names, ..Self::default() };
        match Manifest::newest(disk, &gathered.names) {
            Ok(Some((manifest, bytes))) => {
                gathered.manifest_bytes = bytes;
                gathered.last_seq = manifest.last_seq;
                gathered.erasures.clone_from(&manifest.erasures);
                gathered.read_listed(disk, &manifest)?;
                gathered.read_logs(disk, &manifest)?;
                gathered.note_files(&manifest);
                gathered.manifest = Some(manifest);
            }
            Ok(None) if !gathered.names.iter().any(|name| layout::is_store_file(name)) => {
                return Err(OpenError::NoStore);
            }
            Ok(None) => {
                let damage =
                    CorruptionError::new("MAN-03", "there are files of a store, but no manifest");
                gathered.findings.add(damage);
                gathered.read_unlisted(disk)?;
            }
            Err(OpenError::Damaged(damage)) => {
                gathered.findings.add(damage);
                gathered.read_unlisted(disk)?;
            }
            Err(OpenError::Disk(error)) if error.source.kind() == ErrorKind::FileTooLarge => {
                gathered.findings.add(CorruptionError::new("MAN-02", error.source.to_string()));
                gathered.read_unlisted(disk)?;
            }
            Err(other) => return Err(other),
        }
        Ok(gathered)
    }

    fn read_listed(&mut self, disk: &dyn Disk, manifest: &Manifest) -> Result<(), OpenError> {
        for entry in &manifest.segments {
            let name = layout::file_name(FileKind::Segment, entry.number);
            let Some(mut listed) = self.map_segment(disk, &name)? else { continue };
            let found = listed.file.as_slice().len() as u64;
            if found != entry.bytes {
                let detail = format!("{found} bytes long, {} were written", entry.bytes);
                self.findings.add(CorruptionError::new("MAN-03", detail).in_file(&name));
            }
            if let Some(segment) = &listed.segment
                && let Err(damage) = check_counts(segment.header(), entry)
            {
                self.findings.add(damage.in_file(&name));
                listed.segment = None;
            }
            listed.state = self.read_state(disk, entry)?;
            listed.index = self.read_index(disk, entry)?;
            listed.entry = Some(entry.clone());
            self.sealed.push(listed);
        }
        Ok(())
    }

    /// Maps a segment file, and opens the segment if possible.
    fn map_segment(
        &mut self,
        disk: &dyn Disk,
        name: &str,
    ) -> Result<Option<SegmentFile>, OpenError> {
        let Some((file, unreadable)) =
            self.require_file(bad_sectors::map_readable(disk, name), name)?
        else {
            return Ok(None);
        };
        let to_open = if unreadable.is_empty() {
            disk.map(name)
        } else {
            Ok(FileBytes::copy_from(file.as_slice()))
        };
        let Some(to_open) = self.require_file(to_open, name)? else { return Ok(None) };
        for why in unreadable.reasons() {
            self.findings.add(CorruptionError::new("SEG-06", why).in_file(name));
        }
        let segment = match open_any(name, to_open) {
            Ok(opened) => Some(opened.segment),
            Err(OpenError::Damaged(damage)) => {
                self.findings.add(damage);
                None
            }
            Err(other) => return Err(other),
        };
        Ok(Some(SegmentFile {
            name: name.to_owned(),
            file,
            entry: None,
            segment,
            state: None,
            index: None,
        }))
    }

    /// Reads the optional vector index of a segment.
    fn read_index(
        &mut self,
        disk: &dyn Disk,
        entry: &SegmentEntry,
    ) -> Result<Option<IvfIndex>, OpenError> {
        match IvfIndex::open(disk, &IndexKey::from_entry(entry)) {
            Ok(index) => Ok(index),
            Err(OpenError::Damaged(damage)) => {
                self.findings.add(damage);
                Ok(None)
            }
            // Reads of an index may fail without loss, as no data depends on the index.
            Err(OpenError::Disk(error)) => {
                self.findings.add(CorruptionError::new("IDX-07", error.to_string()));
                Ok(None)
            }
            Err(OpenError::TooNew { file, version }) => {
                self.findings.note(format!(
                    "{file}: made by a newer build for version {version}; it is not used"
                ));
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    fn read_state(
        &mut self,
        disk: &dyn Disk,
        entry: &SegmentEntry,
    ) -> Result<Option<RowState>, OpenError> {
        let Some(listed) = &entry.state else {
            return Ok(Some(RowState::empty(entry.items as usize, entry.edges as usize)));
        };
        let name = layout::state_name(entry.number, listed.generation);
        let read = disk.read(
            &name,
            listed.bytes.max(row_state::state_file_bytes(entry.items, entry.edges)) + 1,
        );
        let Some(bytes) = self.require_file(read, &name)? else { return Ok(None) };
        if bytes.len() as u64 != listed.bytes || Sha256::digest(&bytes)[..] != listed.sha256 {
            let detail = "its length or SHA-256 is not the manifest's";
            self.findings.add(CorruptionError::new("MAN-03", detail).in_file(&name));
        }
        match row_state::decode(state_key(entry, listed), &bytes) {
            Ok(state) => Ok(Some(state)),
            Err(OpenError::Damaged(damage)) => {
                self.findings.add(damage);
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    /// Unwraps the read of a listed file. If the file is missing, adds a finding and returns `None`.
    fn require_file<T>(
        &mut self,
        read: Result<T, DiskError>,
        name: &str,
    ) -> Result<Option<T>, OpenError> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.source.kind() == ErrorKind::NotFound => {
                let damage =
                    CorruptionError::new("MAN-03", "the manifest names it, but it is not there");
                self.findings.add(damage.in_file(name));
                Ok(None)
            }
            Err(error) if error.source.kind() == ErrorKind::FileTooLarge => {
                self.findings
                    .add(CorruptionError::new("MAN-03", error.source.to_string()).in_file(name));
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads every live log, up to the first corruption.
    fn read_logs(&mut self, disk: &dyn Disk, manifest: &Manifest) -> Result<(), OpenError> {
        let named: BTreeSet<u64> = manifest.logs.iter().copied().collect();
        let found = self.names.iter().filter_map(|name| layout::file_number(FileKind::Log, name));
        let numbers: BTreeSet<u64> = found.chain(named.iter().copied()).collect();
        for number in numbers.range(manifest.log_floor..) {
            let name = layout::file_name(FileKind::Log, *number);
            let reader = match WalReader::open(disk, *number, named.contains(number)) {
                Ok(reader) => reader,
                Err(OpenError::Disk(error)) => {
                    self.require_file::<()>(Err(error), &name)?;
                    self.report_truncated(&name);
                    return Ok(());
                }
                Err(other) => return Err(other),
            };
            match self.read_log(reader, &name, manifest) {
                Ok(()) => {}
                Err(OpenError::Damaged(damage)) => {
                    self.findings.add(damage);
                    self.report_truncated(&name);
                    return Ok(());
                }
                Err(other) => return Err(other),
            }
        }
        if self.last_seq < manifest.synced_seq {
            let detail = format!(
                "the logs end with commit {}, but {} was on disk when the manifest was written",
                self.last_seq, manifest.synced_seq
            );
            self.findings.add(CorruptionError::new("LOG-08", detail));
        }
        Ok(())
    }

    fn report_truncated(&mut self, name: &str) {
        self.has_truncated_log = true;
        self.findings.note(format!("{name}: commits from where it is damaged on were not read"));
    }

    fn read_log(
        &mut self,
        reader: WalReader,
        name: &str,
        manifest: &Manifest,
    ) -> Result<(), OpenError> {
        let mut builder = SegmentBuilder::default();
        let mut is_empty = true;
        let mut frames = reader.frames(manifest.store, self.last_seq + 1)?;
        while let Some(frame) = frames.next_frame()? {
            let batch = decode_batch(&frame, manifest).map_err(|damage| damage.in_file(name))?;
            builder.push_batch(frame.seq, &batch);
            let stones = batch.tombstones.iter().filter(|stone| stone.erases_target());
            self.erasures.extend(stones.map(|stone| stone.target));
            self.last_seq = frame.seq;
            is_empty = false;
        }
        let end = frames.at();
        if matches!(frames.end(), Some(WalEnd::Torn | WalEnd::Growing)) {
            let left = reader.file_bytes() - end;
            self.findings.note(format!(
                "{name}: {left} bytes from {end} on are no commit: one that is being written, or \
                 what a crash left of one"
            ));
        }
        let is_marked = frames.end() == Some(WalEnd::Closed);
        let rows = (!is_empty).then(|| Segment::from_heap_named(name, builder.finish()));
        self.logs.push(LogFile { name: name.to_owned(), reader, rows, end, is_closed: is_marked });
        Ok(())
    }

    /// Reads all segments for a check of each on its own, if there is no manifest.
    fn read_unlisted(&mut self, disk: &dyn Disk) -> Result<(), OpenError> {
        let is_segment = |name: &&String| layout::file_number(FileKind::Segment, name).is_some();
        for name in self.names.iter().filter(is_segment).cloned().collect::<Vec<_>>() {
            let listed = self.map_segment(disk, &name)?;
            self.sealed.extend(listed);
        }
        self.findings.note(
            "without a manifest, logs, states and what segments say of one another \
                            were not checked",
        );
        Ok(())
    }

    /// Notes leftover and foreign files.
    fn note_files(&mut self, manifest: &Manifest) {
        for (name, kind) in classify_files(&self.names, manifest) {
            match kind {
                FileStatus::Needed => {}
                FileStatus::Leftover => self.findings.note(format!(
                    "{name}: a leftover that no manifest needs; the next opening removes it"
                )),
                FileStatus::Foreign => {
                    self.findings.note(format!("{name}: not a file of the store; left alone"));
                }
            }
        }
    }

    /// Counts the files and rows.
    pub(super) fn totals(&self) -> VerifyTotals {
        let mut walked = VerifyTotals {
            segments: self.sealed.len() as u64,
            logs: self.logs.len() as u64,
            bytes: self.manifest_bytes,
            ..VerifyTotals::default()
        };
        for listed in &self.sealed {
            walked.bytes += listed.file.as_slice().len() as u64;
            if let Some(state) = listed.entry.as_ref().and_then(|entry| entry.state.as_ref()) {
                walked.states += u64::from(listed.state.is_some());
                walked.bytes += state.bytes;
            }
            if let Some(index) = &listed.index {
                walked.indexes += 1;
                walked.bytes += index.file_bytes();
            }
        }
        walked.bytes += self.logs.iter().map(|log| log.reader.file_bytes()).sum::<u64>();
        for segment in self.segments() {
            let header = segment.header();
            walked.items += u64::from(header.items);
            walked.sources += u64::from(header.sources);
            walked.edges += u64::from(header.edges);
            walked.tombstones += u64::from(header.tombstones);
            walked.vectors += u64::from(header.vectors);
        }
        walked
    }

    /// Returns all segments that could be opened, and the rows of all logs, in commit order.
    pub(super) fn segments(&self) -> impl Iterator<Item = &Segment> {
        let sealed = self.sealed.iter().filter_map(|listed| listed.segment.as_ref());
        sealed.chain(self.logs.iter().filter_map(|log| log.rows.as_ref()))
    }
}

/// Number of the newest manifest.
pub(super) fn newest_manifest(names: &[String]) -> Option<u64> {
    names.iter().filter_map(|name| layout::file_number(FileKind::Manifest, name)).max()
}

/// Status of a file in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileStatus {
    Needed,
    Leftover,
    Foreign,
}

/// Classifies all files, in order of name.
pub(super) fn classify_files(
    names: &[String],
    manifest: &Manifest,
) -> BTreeMap<String, FileStatus> {
    let mut needed: HashSet<String> = manifest.listed_files().map(|file| file.name).collect();
    needed.insert(layout::file_name(FileKind::Manifest, manifest.number));
    needed.insert("LOCK".to_owned());
    let indexes = manifest.segments.iter().map(|entry| IndexKey::from_entry(entry).file_name());
    needed.extend(indexes);
    let kind = |name: &String| {
        let is_log = |number: u64| number >= manifest.log_floor;
        if needed.contains(name) || layout::file_number(FileKind::Log, name).is_some_and(is_log) {
            FileStatus::Needed
        } else if layout::is_store_file(name) {
            FileStatus::Leftover
        } else {
            FileStatus::Foreign
        }
    };
    names.iter().map(|name| (name.clone(), kind(name))).collect()
}
