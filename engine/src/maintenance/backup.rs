//! Backup and restore: file-by-file copies of a store, with every hash checked on both sides.
//!
//! A backup is a store directory of its own, which can be opened, verified and erased from like any other. The copy is
//! made from one snapshot while writes continue, and never blocks the writer.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::ErrorKind;

use sha2::{Digest, Sha256};

use crate::error::{CorruptionError, DiskError, OpenError, WriteError};
use crate::ids::Seq;
use crate::layout::{self, FileKind, UNFINISHED_SUFFIX};
use crate::limits::MANIFEST_BYTES_MAX;
use crate::maintenance::bad_sectors;
use crate::manifest::{ListedFile, Manifest, SegmentEntry, StateEntry};
use crate::merge;
use crate::os::disk::{Disk, write_atomically};
use crate::os::mmap::HUGE_PAGE_BYTES;
use crate::row_state::{StateFile, StateKey};
use crate::segment_snapshot::SegmentSnapshot;
use crate::store::Store;
use crate::store::recovery::decode_batch;
use crate::store::writer::remove_unfinished;
use crate::wal::WalReader;

/// Bytes per write call.
const COPY_CHUNK_BYTES: usize = HUGE_PAGE_BYTES;

/// Result of a backup or a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyReport {
    /// Newest commit in the copy.
    pub seq: Seq,
    /// Files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Files reused from an earlier backup, after a check of their hash.
    pub reused: u64,
}

/// Error of a backup or a restore. The earlier contents of the target are unchanged.
#[derive(Debug)]
#[non_exhaustive]
pub enum CopyError {
    /// The writer of the source store has stopped.
    Store(WriteError),
    /// The source cannot be read as a store.
    Source(OpenError),
    /// The target holds another store, or any store if an empty target is required.
    Occupied(String),
    /// Another process has the target open.
    Locked,
    /// The target failed, or holds a damaged backup.
    Target(OpenError),
}

impl std::fmt::Display for CopyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Source(error) => write!(f, "what is to be copied: {error}"),
            Self::Occupied(what) => write!(f, "the place to copy to {what}"),
            Self::Locked => write!(f, "the place to copy to is open in another process"),
            Self::Target(error) => write!(f, "the place to copy to: {error}"),
        }
    }
}

impl std::error::Error for CopyError {}

fn target_error(error: impl Into<OpenError>) -> CopyError {
    CopyError::Target(error.into())
}

fn source_error(error: impl Into<OpenError>) -> CopyError {
    CopyError::Source(error.into())
}

impl Store {
    /// Copies the store as of its last acknowledged write to another directory. The target becomes a new backup or, if
    /// an earlier backup of this store is there, its next state, which reuses equal files. Every file is read back and
    /// checked before the backup's manifest lists it.
    pub fn backup(&self, to: &dyn Disk) -> Result<CopyReport, CopyError> {
        let (manifest, parts) = self.backup_state().map_err(CopyError::Store)?;
        let _lock = to.lock().map_err(target_error)?.ok_or(CopyError::Locked)?;
        let names = to.names().map_err(target_error)?;
        let earlier =
            Manifest::newest(to, &names).map_err(target_error)?.map(|(earlier, _)| earlier);
        if let Some(earlier) = earlier.as_ref().filter(|it| it.store != manifest.store) {
            let what = format!("holds another store, {}", earlier.store);
            return Err(CopyError::Occupied(what));
        }
        remove_unfinished(to, &names).map_err(target_error)?;
        let names = to.names().map_err(target_error)?;
        let mut copy = BackupCopy::begin(&*self.env.disk, to, &manifest, earlier, &names);
        for (at, part) in parts.iter().enumerate() {
            copy.copy_segment_snapshot(part, manifest.segments.get(at))?;
        }
        copy.finish(&manifest, &names)
    }
}

/// Backup in progress.
struct BackupCopy<'a> {
    from: &'a dyn Disk,
    to: &'a dyn Disk,
    /// Segments of the earlier backup, by hash.
    earlier_segments: HashMap<[u8; 32], SegmentEntry>,
    manifest: Manifest,
    report: CopyReport,
}

impl<'a> BackupCopy<'a> {
    fn begin(
        from: &'a dyn Disk,
        to: &'a dyn Disk,
        of: &Manifest,
        earlier: Option<Manifest>,
        names: &[String],
    ) -> Self {
        let mut made = of.clone();
        made.segments.clear();
        made.logs.clear();
        made.number = earlier.as_ref().map_or(1, |earlier| earlier.number + 1);
        // Above every number in use, so that leftovers of an interrupted backup never collide.
        let used = names.iter().filter_map(|name| layout::largest_file_number(name)).max();
        made.next_file = used.map_or(1, |used| used + 1);
        let known = earlier.into_iter().flat_map(|earlier| earlier.segments);
        let known = known.map(|entry| (entry.sha256, entry)).collect();
        Self { from, to, earlier_segments: known, manifest: made, report: CopyReport::default() }
    }

    fn copy_segment_snapshot(
        &mut self,
        part: &SegmentSnapshot,
        listed: Option<&SegmentEntry>,
    ) -> Result<(), CopyError> {
        // A segment that exists on the heap only has no file layout yet.
        let fresh = match listed {
            Some(_) => None,
            None => Some(merge::encode_as_file(&part.segment).map_err(source_error)?),
        };
        if let Some(listed) = listed {
            probe_readable(self.from, &layout::file_name(FileKind::Segment, listed.number))
                .map_err(source_error)?;
        }
        let bytes = match &fresh {
            Some(fresh) => fresh.as_slice(),
            None => part.segment.ensure_complete().map_err(source_error)?,
        };
        part.segment.advise_copy();
        let copied = self.copy_segment(bytes, listed);
        // Searches continue on this segment, even if the copy failed.
        part.segment.advise_queries();
        let (number, sha256) = copied?;
        let mut entry =
            SegmentEntry::new(number, bytes.len() as u64, sha256, part.segment.header());
        entry.state = self.copy_state(part, &entry)?;
        self.manifest.segments.push(entry);
        Ok(())
    }

    /// Ensures that the backup has a file with these bytes; returns its number and hash.
    fn copy_segment(
        &mut self,
        bytes: &[u8],
        listed: Option<&SegmentEntry>,
    ) -> Result<(u64, [u8; 32]), CopyError> {
        let sha256: [u8; 32] = Sha256::digest(bytes).into();
        if let Some(listed) = listed.filter(|listed| listed.sha256 != sha256) {
            let name = layout::file_name(FileKind::Segment, listed.number);
            let damage = CorruptionError::new("MAN-03", "its SHA-256 is not the manifest's");
            return Err(source_error(damage.in_file(&name)));
        }
        let known = self.earlier_segments.remove(&sha256);
        let number = match known.filter(|entry| self.is_unchanged(entry.number, &sha256)) {
            Some(entry) => {
                self.report.reused += 1;
                entry.number
            }
            None => self.write_segment(bytes, &sha256)?,
        };
        Ok((number, sha256))
    }

    /// Returns true if the earlier backup's file still has its original hash.
    fn is_unchanged(&self, number: u64, sha256: &[u8; 32]) -> bool {
        let hash = hash_file(self.to, &layout::file_name(FileKind::Segment, number));
        hash.is_ok_and(|hash| hash == *sha256)
    }

    fn write_segment(&mut self, bytes: &[u8], sha256: &[u8; 32]) -> Result<u64, CopyError> {
        let number = self.manifest.next_file;
        self.manifest.next_file += 1;
        let name = layout::file_name(FileKind::Segment, number);
        write_file(self.to, &name, bytes).map_err(target_error)?;
        check_file(self.to, &name, sha256).map_err(target_error)?;
        self.count(bytes.len());
        Ok(number)
    }

    fn copy_state(
        &mut self,
        part: &SegmentSnapshot,
        entry: &SegmentEntry,
    ) -> Result<Option<StateEntry>, CopyError> {
        if part.state.is_empty() {
            return Ok(None);
        }
        // File numbers only rise, so no earlier state of the segment has this generation.
        let generation = self.manifest.next_file;
        self.manifest.next_file += 1;
        let of =
            StateKey { segment: entry.number, generation, items: entry.items, edges: entry.edges };
        let file = StateFile::encode(of, &part.state);
        write_file(self.to, &file.name, &file.bytes).map_err(target_error)?;
        check_file(self.to, &file.name, &file.entry.sha256).map_err(target_error)?;
        self.count(file.bytes.len());
        Ok(Some(file.entry))
    }

    fn count(&mut self, bytes: usize) {
        self.report.files += 1;
        self.report.bytes += bytes as u64;
    }

    /// Publishes the manifest, then removes files that only the earlier backup needed.
    fn finish(mut self, of: &Manifest, names: &[String]) -> Result<CopyReport, CopyError> {
        self.to.sync_names().map_err(target_error)?;
        self.manifest.log_floor = self.manifest.next_file;
        self.manifest.last_seq = of.last_seq;
        self.manifest.synced_seq = of.last_seq;
        let bytes = self.manifest.install(self.to).map_err(target_error)?;
        self.report.files += 1;
        self.report.bytes += bytes.len() as u64;
        self.report.seq = of.last_seq;
        let mut needed: HashSet<String> =
            self.manifest.listed_files().map(|file| file.name).collect();
        needed.insert(layout::file_name(FileKind::Manifest, self.manifest.number));
        let ours = |name: &&String| layout::is_store_file(name) && !needed.contains(*name);
        for name in names.iter().filter(ours) {
            self.to.remove(name).map_err(target_error)?;
        }
        self.to.sync_names().map_err(target_error)?;
        Ok(self.report)
    }
}

/// Copies a backup, or any store that no process has open, to an empty directory. Every file is checked while read and
/// after it is written: listed files by their hash, logs by their frames and then byte by byte. The manifest is written
/// last.
pub fn restore(from: &dyn Disk, to: &dyn Disk) -> Result<CopyReport, CopyError> {
    let _from =
        from.lock().map_err(source_error)?.ok_or_else(|| source_error(OpenError::Locked))?;
    let _to = to.lock().map_err(target_error)?.ok_or(CopyError::Locked)?;
    let there = to.names().map_err(target_error)?;
    if let Some(name) = there.iter().find(|name| layout::is_store_file(name)) {
        return Err(CopyError::Occupied(format!("is not empty: {name} is there")));
    }
    let names = from.names().map_err(source_error)?;
    let manifest = Manifest::newest(from, &names).map_err(source_error)?;
    let (manifest, _) = manifest.ok_or_else(|| source_error(OpenError::NoStore))?;
    let mut done = CopyReport::default();
    for file in manifest.listed_files() {
        copy_file(from, to, &file)?;
        check_file(to, &file.name, &file.sha256).map_err(target_error)?;
        done.files += 1;
        done.bytes += file.bytes;
    }
    done.seq = copy_logs(from, to, &manifest, &names, &mut done)?;
    let name = layout::file_name(FileKind::Manifest, manifest.number);
    let found = from.read(&name, MANIFEST_BYTES_MAX).map_err(source_error)?;
    to.sync_names().map_err(target_error)?;
    write_atomically(to, &name, &found).map_err(target_error)?;
    done.files += 1;
    done.bytes += found.len() as u64;
    Ok(done)
}

/// Copies the logs with the commits after the segments; returns the newest commit. No hash of a log is stored, so its
/// frames are checked instead, and the written bytes are compared with the source.
fn copy_logs(
    from: &dyn Disk,
    to: &dyn Disk,
    manifest: &Manifest,
    names: &[String],
    done: &mut CopyReport,
) -> Result<Seq, CopyError> {
    let mut logs: BTreeSet<u64> = manifest.logs.iter().copied().collect();
    if manifest.read_version == 1 {
        // A version 1 manifest lists no logs.
        let found = names.iter().filter_map(|name| layout::file_number(FileKind::Log, name));
        logs.extend(found.filter(|&number| number >= manifest.log_floor));
    }
    let mut newest = manifest.last_seq;
    for number in logs {
        let name = layout::file_name(FileKind::Log, number);
        let is_named = manifest.logs.contains(&number);
        let log = WalReader::open(from, number, is_named).map_err(source_error)?;
        let mut frames = log.frames(manifest.store, newest + 1).map_err(source_error)?;
        while let Some(frame) = frames.next_frame().map_err(source_error)? {
            decode_batch(&frame, manifest).map_err(|damage| source_error(damage.in_file(&name)))?;
            newest = frame.seq;
        }
        write_file(to, &name, log.bytes()).map_err(target_error)?;
        let written = to.read(&name, log.file_bytes() + 1).map_err(target_error)?;
        if written != log.bytes() {
            let damage = CorruptionError::new("LOG-04", "what was written is not what is there");
            return Err(target_error(damage.in_file(&name)));
        }
        done.files += 1;
        done.bytes += log.file_bytes();
    }
    if newest < manifest.synced_seq {
        let synced = manifest.synced_seq;
        let detail = format!("the logs end with commit {newest}, but {synced} was on disk");
        return Err(source_error(CorruptionError::new("LOG-08", detail)));
    }
    Ok(newest)
}

/// Copies a listed file, and renames the copy to its name only if the hash is the manifest's.
fn copy_file(from: &dyn Disk, to: &dyn Disk, listed: &ListedFile) -> Result<(), CopyError> {
    let name = &listed.name;
    let file = from.open(name).map_err(source_error)?;
    let fresh = format!("{name}{UNFINISHED_SUFFIX}");
    let copy = to.create(&fresh).map_err(target_error)?;
    let (mut hash, mut written) = (Sha256::new(), Ok(()));
    let read = bad_sectors::read_all(&*file, |piece| {
        hash.update(piece);
        if written.is_ok() {
            written = copy.append(piece);
        }
        Ok(())
    });
    read.map_err(source_error)?;
    written.map_err(target_error)?;
    check_hash(name, &hash.finalize().into(), &listed.sha256).map_err(source_error)?;
    copy.sync().map_err(target_error)?;
    to.rename(&fresh, name).map_err(target_error)
}

/// Reads all of a file before its mapping is touched, as a bad sector under a mapping raises SIGBUS. A file that was
/// removed meanwhile is skipped: the rewrite that replaced the file has just read all of it.
fn probe_readable(disk: &dyn Disk, name: &str) -> Result<(), DiskError> {
    match disk.open(name) {
        Ok(file) => bad_sectors::read_all(&*file, |_| Ok(())),
        Err(error) if error.source.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn hash_file(disk: &dyn Disk, name: &str) -> Result<[u8; 32], DiskError> {
    let mut hash = Sha256::new();
    bad_sectors::read_all(&*disk.open(name)?, |piece| {
        hash.update(piece);
        Ok(())
    })?;
    Ok(hash.finalize().into())
}

fn check_file(disk: &dyn Disk, name: &str, sha256: &[u8; 32]) -> Result<(), OpenError> {
    check_hash(name, &hash_file(disk, name)?, sha256)
}

fn check_hash(name: &str, found: &[u8; 32], wanted: &[u8; 32]) -> Result<(), OpenError> {
    if found == wanted {
        return Ok(());
    }
    Err(CorruptionError::new("MAN-03", "its SHA-256 is not the one it was written with")
        .in_file(name)
        .into())
}

/// Writes a file in chunks. The file's name is durable only after the next `sync_names`.
fn write_file(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
    let fresh = format!("{name}{UNFINISHED_SUFFIX}");
    let file = disk.create(&fresh)?;
    bytes.chunks(COPY_CHUNK_BYTES).try_for_each(|piece| file.append(piece))?;
    file.sync()?;
    disk.rename(&fresh, name)
}
