//! One state of a store's directory: its manifest, its mapped segments, its logs in memory.
//!
//! Owns how that is got beside a running writer, and which files belong to the store. Must not know
//! the rules of rows.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::ErrorKind;

use sha2::{Digest, Sha256};

use super::findings::Findings;
use crate::error::{Damage, DiskError, OpenError};
use crate::ids::Seq;
use crate::index::{IndexOf, Lists};
use crate::keeping::readable;
use crate::layout::{self, FileKind};
use crate::log::{LogEnd, LogReader};
use crate::manifest::{Manifest, SegmentEntry};
use crate::os::disk::{Disk, FileBytes};
use crate::segment::{Segment, SegmentBuilder, open_any};
use crate::state::{self, RowState};
use crate::store::OPEN_ATTEMPTS_MAX;
use crate::store::opening::{batch_of, check_counts, state_of};

/// How often a log that looks damaged is read again: its writer may have appended what was read
/// before what it vouches for.
const LOG_ATTEMPTS_MAX: u32 = 3;

/// How much was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Walked {
    /// Segment files.
    pub segments: u64,
    /// State files.
    pub states: u64,
    /// Indexes that are right.
    pub indexes: u64,
    /// Logs.
    pub logs: u64,
    /// Bytes of all files that the manifest needs, and of indexes.
    pub bytes: u64,
    /// Items, hidden ones too.
    pub items: u64,
    /// Sources.
    pub sources: u64,
    /// Edges, hidden ones too.
    pub edges: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Embeddings.
    pub vectors: u64,
}

/// A segment file.
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) file: FileBytes,
    /// What the manifest says of it; `None` where no manifest can be read.
    pub(super) entry: Option<SegmentEntry>,
    /// Opened, where it could be; of version 2, whatever the file is.
    pub(super) segment: Option<Segment>,
    /// Its state, where that could be read.
    pub(super) state: Option<RowState>,
    /// Its index, where there is one that is right.
    pub(super) index: Option<Lists>,
}

/// A log and its rows.
pub(super) struct Log {
    pub(super) name: String,
    pub(super) reader: LogReader,
    /// The rows of its frames; `None` where it has none.
    pub(super) rows: Option<Segment>,
    /// Behind the last frame.
    pub(super) end: u64,
    /// Whether a mark follows it, and then only zeros.
    pub(super) is_marked: bool,
}

/// One state of a directory.
#[derive(Default)]
pub(super) struct Gathered {
    /// Names of all files.
    pub(super) names: Vec<String>,
    pub(super) manifest: Option<Manifest>,
    pub(super) manifest_bytes: u64,
    pub(super) sealed: Vec<Listed>,
    pub(super) logs: Vec<Log>,
    pub(super) last_seq: Seq,
    /// Whether a log could not be read to its end.
    pub(super) is_cut: bool,
    /// Ids whose bytes are still to be removed, those that only logs name too.
    pub(super) erasures: BTreeSet<u128>,
    pub(super) findings: Findings,
}

impl Gathered {
    /// Reads the directory, again where a writer has moved files meanwhile.
    pub(super) fn of(disk: &dyn Disk) -> Result<Self, OpenError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let names = disk.names()?;
            let read = Self::read(disk, names.clone());
            let is_right = read.as_ref().is_ok_and(|gathered| gathered.findings.list.is_empty());
            let moved = || disk.names().is_ok_and(|now| newest(&now) != newest(&names));
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
            Ok(None) if !gathered.names.iter().any(|name| layout::is_ours(name)) => {
                return Err(OpenError::NoStore);
            }
            Ok(None) => {
                let damage = Damage::new("MAN-03", "there are files of a store, but no manifest");
                gathered.findings.add(damage);
                gathered.read_unlisted(disk)?;
            }
            Err(OpenError::Damaged(damage)) => {
                gathered.findings.add(damage);
                gathered.read_unlisted(disk)?;
            }
            Err(OpenError::Disk(error)) if error.source.kind() == ErrorKind::FileTooLarge => {
                gathered.findings.add(Damage::new("MAN-02", error.source.to_string()));
                gathered.read_unlisted(disk)?;
            }
            Err(other) => return Err(other),
        }
        Ok(gathered)
    }

    fn read_listed(&mut self, disk: &dyn Disk, manifest: &Manifest) -> Result<(), OpenError> {
        for entry in &manifest.segments {
            let name = layout::name(FileKind::Segment, entry.number);
            let Some(mut listed) = self.map(disk, &name)? else { continue };
            let found = listed.file.as_slice().len() as u64;
            if found != entry.bytes {
                let detail = format!("{found} bytes long, {} were written", entry.bytes);
                self.findings.add(Damage::new("MAN-03", detail).within(&name));
            }
            if let Some(segment) = &listed.segment
                && let Err(damage) = check_counts(segment.header(), entry)
            {
                self.findings.add(damage.within(&name));
                listed.segment = None;
            }
            listed.state = self.read_state(disk, entry)?;
            listed.index = self.read_index(disk, entry)?;
            listed.entry = Some(entry.clone());
            self.sealed.push(listed);
        }
        Ok(())
    }

    /// A segment file, opened where it can be.
    fn map(&mut self, disk: &dyn Disk, name: &str) -> Result<Option<Listed>, OpenError> {
        let Some((file, unreadable)) = self.there(readable::map(disk, name), name)? else {
            return Ok(None);
        };
        let to_open = if unreadable.is_empty() {
            disk.map(name)
        } else {
            Ok(FileBytes::copied(file.as_slice()))
        };
        let Some(to_open) = self.there(to_open, name)? else { return Ok(None) };
        for why in unreadable.reasons() {
            self.findings.add(Damage::new("SEG-06", why).within(name));
        }
        let segment = match open_any(name, to_open) {
            Ok(opened) => Some(opened.segment),
            Err(OpenError::Damaged(damage)) => {
                self.findings.add(damage);
                None
            }
            Err(other) => return Err(other),
        };
        Ok(Some(Listed {
            name: name.to_owned(),
            file,
            entry: None,
            segment,
            state: None,
            index: None,
        }))
    }

    /// The index of a segment; it need not be there.
    fn read_index(
        &mut self,
        disk: &dyn Disk,
        entry: &SegmentEntry,
    ) -> Result<Option<Lists>, OpenError> {
        match Lists::open(disk, &IndexOf::segment(entry)) {
            Ok(index) => Ok(index),
            Err(OpenError::Damaged(damage)) => {
                self.findings.add(damage);
                Ok(None)
            }
            // What cannot be read of it, nothing needs.
            Err(OpenError::Disk(error)) => {
                self.findings.add(Damage::new("IDX-07", error.to_string()));
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
            return Ok(Some(RowState::fresh(entry.items as usize, entry.edges as usize)));
        };
        let name = layout::state_name(entry.number, listed.generation);
        let read =
            disk.read(&name, listed.bytes.max(state::bytes_of(entry.items, entry.edges)) + 1);
        let Some(bytes) = self.there(read, &name)? else { return Ok(None) };
        if bytes.len() as u64 != listed.bytes || Sha256::digest(&bytes)[..] != listed.sha256 {
            let detail = "its length or SHA-256 is not the manifest's";
            self.findings.add(Damage::new("MAN-03", detail).within(&name));
        }
        match state::decode(state_of(entry, listed), &bytes) {
            Ok(state) => Ok(Some(state)),
            Err(OpenError::Damaged(damage)) => {
                self.findings.add(damage);
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    /// What was read of a file that the manifest names; `None`, and a finding, where it is not there.
    fn there<T>(&mut self, read: Result<T, DiskError>, name: &str) -> Result<Option<T>, OpenError> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.source.kind() == ErrorKind::NotFound => {
                let damage = Damage::new("MAN-03", "the manifest names it, but it is not there");
                self.findings.add(damage.within(name));
                Ok(None)
            }
            Err(error) if error.source.kind() == ErrorKind::FileTooLarge => {
                self.findings.add(Damage::new("MAN-03", error.source.to_string()).within(name));
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Every log that counts, up to the first damage.
    fn read_logs(&mut self, disk: &dyn Disk, manifest: &Manifest) -> Result<(), OpenError> {
        let named: BTreeSet<u64> = manifest.logs.iter().copied().collect();
        let found = self.names.iter().filter_map(|name| layout::number(FileKind::Log, name));
        let numbers: BTreeSet<u64> = found.chain(named.iter().copied()).collect();
        for number in numbers.range(manifest.log_floor..) {
            let name = layout::name(FileKind::Log, *number);
            let reader = match LogReader::open(disk, *number, named.contains(number)) {
                Ok(reader) => reader,
                Err(OpenError::Disk(error)) => {
                    self.there::<()>(Err(error), &name)?;
                    self.cut_at(&name);
                    return Ok(());
                }
                Err(other) => return Err(other),
            };
            match self.read_log(reader, &name, manifest) {
                Ok(()) => {}
                Err(OpenError::Damaged(damage)) => {
                    self.findings.add(damage);
                    self.cut_at(&name);
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
            self.findings.add(Damage::new("LOG-08", detail));
        }
        Ok(())
    }

    fn cut_at(&mut self, name: &str) {
        self.is_cut = true;
        self.findings.note(format!("{name}: commits from where it is damaged on were not read"));
    }

    fn read_log(
        &mut self,
        reader: LogReader,
        name: &str,
        manifest: &Manifest,
    ) -> Result<(), OpenError> {
        let mut builder = SegmentBuilder::default();
        let mut is_empty = true;
        let mut frames = reader.frames(manifest.store, self.last_seq + 1)?;
        while let Some(frame) = frames.next_frame()? {
            let batch = batch_of(&frame, manifest).map_err(|damage| damage.within(name))?;
            builder.push_batch(frame.seq, &batch);
            let stones = batch.tombstones.iter().filter(|stone| stone.removes());
            self.erasures.extend(stones.map(|stone| stone.target));
            self.last_seq = frame.seq;
            is_empty = false;
        }
        let end = frames.at();
        if matches!(frames.end(), Some(LogEnd::Torn | LogEnd::Open)) {
            let left = reader.file_bytes() - end;
            self.findings.note(format!(
                "{name}: {left} bytes from {end} on are no commit: one that is being written, or \
                 what a crash left of one"
            ));
        }
        let is_marked = frames.end() == Some(LogEnd::Marked);
        let rows = (!is_empty).then(|| Segment::held_as(name, builder.finish()));
        self.logs.push(Log { name: name.to_owned(), reader, rows, end, is_marked });
        Ok(())
    }

    /// Without a manifest each segment can still be checked by itself.
    fn read_unlisted(&mut self, disk: &dyn Disk) -> Result<(), OpenError> {
        let is_segment = |name: &&String| layout::number(FileKind::Segment, name).is_some();
        for name in self.names.iter().filter(is_segment).cloned().collect::<Vec<_>>() {
            let listed = self.map(disk, &name)?;
            self.sealed.extend(listed);
        }
        self.findings.note(
            "without a manifest, logs, states and what segments say of one another \
                            were not checked",
        );
        Ok(())
    }

    /// Names the files that the store does not need, and those that are not its own.
    fn note_files(&mut self, manifest: &Manifest) {
        for (name, kind) in files(&self.names, manifest) {
            match kind {
                Kind::Needed => {}
                Kind::Leftover => self.findings.note(format!(
                    "{name}: a leftover that no manifest needs; the next opening removes it"
                )),
                Kind::Foreign => {
                    self.findings.note(format!("{name}: not a file of the store; left alone"));
                }
            }
        }
    }

    /// How much it is.
    pub(super) fn walked(&self) -> Walked {
        let mut walked = Walked {
            segments: self.sealed.len() as u64,
            logs: self.logs.len() as u64,
            bytes: self.manifest_bytes,
            ..Walked::default()
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
        for segment in self.parts() {
            let header = segment.header();
            walked.items += u64::from(header.items);
            walked.sources += u64::from(header.sources);
            walked.edges += u64::from(header.edges);
            walked.tombstones += u64::from(header.tombstones);
            walked.vectors += u64::from(header.vectors);
        }
        walked
    }

    /// All rows that could be opened, in commit order.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Segment> {
        let sealed = self.sealed.iter().filter_map(|listed| listed.segment.as_ref());
        sealed.chain(self.logs.iter().filter_map(|log| log.rows.as_ref()))
    }
}

/// Number of the newest manifest.
pub(super) fn newest(names: &[String]) -> Option<u64> {
    names.iter().filter_map(|name| layout::number(FileKind::Manifest, name)).max()
}

/// What a file of the directory is to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Needed,
    Leftover,
    Foreign,
}

/// What each file is, in order of name.
pub(super) fn files(names: &[String], manifest: &Manifest) -> BTreeMap<String, Kind> {
    let mut needed: HashSet<String> = manifest.listed().map(|file| file.name).collect();
    needed.insert(layout::name(FileKind::Manifest, manifest.number));
    needed.insert("LOCK".to_owned());
    let indexes = manifest.segments.iter().map(|entry| IndexOf::segment(entry).name());
    needed.extend(indexes);
    let kind = |name: &String| {
        let is_log = |number: u64| number >= manifest.log_floor;
        if needed.contains(name) || layout::number(FileKind::Log, name).is_some_and(is_log) {
            Kind::Needed
        } else if layout::is_ours(name) {
            Kind::Leftover
        } else {
            Kind::Foreign
        }
    };
    names.iter().map(|name| (name.clone(), kind(name))).collect()
}
