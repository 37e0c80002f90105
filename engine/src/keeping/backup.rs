//! Backup and restore: file-by-file copies of a store, with every hash checked on both sides.
//!
//! A backup is a store directory of its own, which can be opened, verified and erased from like any other. The copy is
//! made from one snapshot while writes continue, and never blocks the writer.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::ErrorKind;

use sha2::{Digest, Sha256};

use crate::error::{Damage, DiskError, OpenError, WriteError};
use crate::ids::Seq;
use crate::keeping::readable;
use crate::layout::{self, FileKind, UNFINISHED};
use crate::limits::MANIFEST_BYTES_MAX;
use crate::log::LogReader;
use crate::manifest::{ListedFile, Manifest, SegmentEntry, StateEntry};
use crate::merge;
use crate::os::disk::{Disk, put_in_place};
use crate::os::mmap::HUGE_PAGE_BYTES;
use crate::part::Part;
use crate::state::{StateFile, StateOf};
use crate::store::Store;
use crate::store::opening::batch_of;
use crate::store::writer::remove_unfinished;

/// Bytes per write call.
const PIECE_BYTES: usize = HUGE_PAGE_BYTES;

/// Result of a backup or a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copied {
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

fn target(error: impl Into<OpenError>) -> CopyError {
    CopyError::Target(error.into())
}

fn source(error: impl Into<OpenError>) -> CopyError {
    CopyError::Source(error.into())
}

impl Store {
    /// Copies the store as of its last acknowledged write to another directory. The target becomes a new backup or, if
    /// an earlier backup of this store is there, its next state, which reuses equal files. Every file is read back and
    /// checked before the backup's manifest lists it.
    pub fn backup(&self, to: &dyn Disk) -> Result<Copied, CopyError> {
        let (manifest, parts) = self.to_copy().map_err(CopyError::Store)?;
        let _lock = to.lock().map_err(target)?.ok_or(CopyError::Locked)?;
        let names = to.names().map_err(target)?;
        let earlier = Manifest::newest(to, &names).map_err(target)?.map(|(earlier, _)| earlier);
        if let Some(earlier) = earlier.as_ref().filter(|it| it.store != manifest.store) {
            let what = format!("holds another store, {}", earlier.store);
            return Err(CopyError::Occupied(what));
        }
        remove_unfinished(to, &names).map_err(target)?;
        let names = to.names().map_err(target)?;
        let mut copy = Copy::begin(&*self.ground.disk, to, &manifest, earlier, &names);
        for (at, part) in parts.iter().enumerate() {
            copy.part(part, manifest.segments.get(at))?;
        }
        copy.end(&manifest, &names)
    }
}

/// Backup in progress.
struct Copy<'a> {
    from: &'a dyn Disk,
    to: &'a dyn Disk,
    /// Segments of the earlier backup, by hash.
    known: HashMap<[u8; 32], SegmentEntry>,
    made: Manifest,
    done: Copied,
}

impl<'a> Copy<'a> {
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
        let used = names.iter().filter_map(|name| layout::largest_number(name)).max();
        made.next_file = used.map_or(1, |used| used + 1);
        let known = earlier.into_iter().flat_map(|earlier| earlier.segments);
        let known = known.map(|entry| (entry.sha256, entry)).collect();
        Self { from, to, known, made, done: Copied::default() }
    }

    fn part(&mut self, part: &Part, listed: Option<&SegmentEntry>) -> Result<(), CopyError> {
        // A segment that exists on the heap only has no file layout yet.
        let fresh = match listed {
            Some(_) => None,
            None => Some(merge::as_file(&part.segment).map_err(source)?),
        };
        if let Some(listed) = listed {
            read_through(self.from, &layout::name(FileKind::Segment, listed.number))
                .map_err(source)?;
        }
        let bytes = match &fresh {
            Some(fresh) => fresh.as_slice(),
            None => part.segment.whole().map_err(source)?,
        };
        part.segment.expect_copying();
        let copied = self.segment(bytes, listed);
        // Searches continue on this segment, even if the copy failed.
        part.segment.expect_questions();
        let (number, sha256) = copied?;
        let mut entry = SegmentEntry::of(number, bytes.len() as u64, sha256, part.segment.header());
        entry.state = self.state(part, &entry)?;
        self.made.segments.push(entry);
        Ok(())
    }

    /// Ensures that the backup has a file with these bytes; returns its number and hash.
    fn segment(
        &mut self,
        bytes: &[u8],
        listed: Option<&SegmentEntry>,
    ) -> Result<(u64, [u8; 32]), CopyError> {
        let sha256: [u8; 32] = Sha256::digest(bytes).into();
        if let Some(listed) = listed.filter(|listed| listed.sha256 != sha256) {
            let name = layout::name(FileKind::Segment, listed.number);
            let damage = Damage::new("MAN-03", "its SHA-256 is not the manifest's");
            return Err(source(damage.within(&name)));
        }
        let known = self.known.remove(&sha256);
        let number = match known.filter(|entry| self.is_right(entry.number, &sha256)) {
            Some(entry) => {
                self.done.reused += 1;
                entry.number
            }
            None => self.write_segment(bytes, &sha256)?,
        };
        Ok((number, sha256))
    }

    /// Returns true if the earlier backup's file still has its original hash.
    fn is_right(&self, number: u64, sha256: &[u8; 32]) -> bool {
        let hash = hash_of(self.to, &layout::name(FileKind::Segment, number));
        hash.is_ok_and(|hash| hash == *sha256)
    }

    fn write_segment(&mut self, bytes: &[u8], sha256: &[u8; 32]) -> Result<u64, CopyError> {
        let number = self.made.next_file;
        self.made.next_file += 1;
        let name = layout::name(FileKind::Segment, number);
        write_file(self.to, &name, bytes).map_err(target)?;
        check_file(self.to, &name, sha256).map_err(target)?;
        self.count(bytes.len());
        Ok(number)
    }

    fn state(
        &mut self,
        part: &Part,
        entry: &SegmentEntry,
    ) -> Result<Option<StateEntry>, CopyError> {
        if part.state.is_fresh() {
            return Ok(None);
        }
        // File numbers only rise, so no earlier state of the segment has this generation.
        let generation = self.made.next_file;
        self.made.next_file += 1;
        let of =
            StateOf { segment: entry.number, generation, items: entry.items, edges: entry.edges };
        let file = StateFile::of(of, &part.state);
        write_file(self.to, &file.name, &file.bytes).map_err(target)?;
        check_file(self.to, &file.name, &file.entry.sha256).map_err(target)?;
        self.count(file.bytes.len());
        Ok(Some(file.entry))
    }

    fn count(&mut self, bytes: usize) {
        self.done.files += 1;
        self.done.bytes += bytes as u64;
    }

    /// Publishes the manifest, then removes files that only the earlier backup needed.
    fn end(mut self, of: &Manifest, names: &[String]) -> Result<Copied, CopyError> {
        self.to.sync_names().map_err(target)?;
        self.made.log_floor = self.made.next_file;
        self.made.last_seq = of.last_seq;
        self.made.synced_seq = of.last_seq;
        let bytes = self.made.put_in_place(self.to).map_err(target)?;
        self.done.files += 1;
        self.done.bytes += bytes.len() as u64;
        self.done.seq = of.last_seq;
        let mut needed: HashSet<String> = self.made.listed().map(|file| file.name).collect();
        needed.insert(layout::name(FileKind::Manifest, self.made.number));
        let ours = |name: &&String| layout::is_ours(name) && !needed.contains(*name);
        for name in names.iter().filter(ours) {
            self.to.remove(name).map_err(target)?;
        }
        self.to.sync_names().map_err(target)?;
        Ok(self.done)
    }
}

/// Copies a backup, or any store that no process has open, to an empty directory. Every file is checked while read and
/// after it is written: listed files by their hash, logs by their frames and then byte by byte. The manifest is written
/// last.
pub fn restore(from: &dyn Disk, to: &dyn Disk) -> Result<Copied, CopyError> {
    let _from = from.lock().map_err(source)?.ok_or_else(|| source(OpenError::Locked))?;
    let _to = to.lock().map_err(target)?.ok_or(CopyError::Locked)?;
    let there = to.names().map_err(target)?;
    if let Some(name) = there.iter().find(|name| layout::is_ours(name)) {
        return Err(CopyError::Occupied(format!("is not empty: {name} is there")));
    }
    let names = from.names().map_err(source)?;
    let manifest = Manifest::newest(from, &names).map_err(source)?;
    let (manifest, _) = manifest.ok_or_else(|| source(OpenError::NoStore))?;
    let mut done = Copied::default();
    for file in manifest.listed() {
        copy_file(from, to, &file)?;
        check_file(to, &file.name, &file.sha256).map_err(target)?;
        done.files += 1;
        done.bytes += file.bytes;
    }
    done.seq = copy_logs(from, to, &manifest, &names, &mut done)?;
    let name = layout::name(FileKind::Manifest, manifest.number);
    let found = from.read(&name, MANIFEST_BYTES_MAX).map_err(source)?;
    to.sync_names().map_err(target)?;
    put_in_place(to, &name, &found).map_err(target)?;
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
    done: &mut Copied,
) -> Result<Seq, CopyError> {
    let mut logs: BTreeSet<u64> = manifest.logs.iter().copied().collect();
    if manifest.read_version == 1 {
        // A version 1 manifest lists no logs.
        let found = names.iter().filter_map(|name| layout::number(FileKind::Log, name));
        logs.extend(found.filter(|&number| number >= manifest.log_floor));
    }
    let mut newest = manifest.last_seq;
    for number in logs {
        let name = layout::name(FileKind::Log, number);
        let is_named = manifest.logs.contains(&number);
        let log = LogReader::open(from, number, is_named).map_err(source)?;
        let mut frames = log.frames(manifest.store, newest + 1).map_err(source)?;
        while let Some(frame) = frames.next_frame().map_err(source)? {
            batch_of(&frame, manifest).map_err(|damage| source(damage.within(&name)))?;
            newest = frame.seq;
        }
        write_file(to, &name, log.bytes()).map_err(target)?;
        let written = to.read(&name, log.file_bytes() + 1).map_err(target)?;
        if written != log.bytes() {
            let damage = Damage::new("LOG-04", "what was written is not what is there");
            return Err(target(damage.within(&name)));
        }
        done.files += 1;
        done.bytes += log.file_bytes();
    }
    if newest < manifest.synced_seq {
        let synced = manifest.synced_seq;
        let detail = format!("the logs end with commit {newest}, but {synced} was on disk");
        return Err(source(Damage::new("LOG-08", detail)));
    }
    Ok(newest)
}

/// Copies a listed file, and renames the copy to its name only if the hash is the manifest's.
fn copy_file(from: &dyn Disk, to: &dyn Disk, listed: &ListedFile) -> Result<(), CopyError> {
    let name = &listed.name;
    let file = from.open(name).map_err(source)?;
    let fresh = format!("{name}{UNFINISHED}");
    let copy = to.create(&fresh).map_err(target)?;
    let (mut hash, mut written) = (Sha256::new(), Ok(()));
    let read = readable::read_all(&*file, |piece| {
        hash.update(piece);
        if written.is_ok() {
            written = copy.append(piece);
        }
        Ok(())
    });
    read.map_err(source)?;
    written.map_err(target)?;
    check(name, &hash.finalize().into(), &listed.sha256).map_err(source)?;
    copy.sync().map_err(target)?;
    to.rename(&fresh, name).map_err(target)
}

/// Reads all of a file before its mapping is touched, as a bad sector under a mapping raises SIGBUS. A file that was
/// removed meanwhile is skipped: the rewrite that replaced the file has just read all of it.
fn read_through(disk: &dyn Disk, name: &str) -> Result<(), DiskError> {
    match disk.open(name) {
        Ok(file) => readable::read_all(&*file, |_| Ok(())),
        Err(error) if error.source.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn hash_of(disk: &dyn Disk, name: &str) -> Result<[u8; 32], DiskError> {
    let mut hash = Sha256::new();
    readable::read_all(&*disk.open(name)?, |piece| {
        hash.update(piece);
        Ok(())
    })?;
    Ok(hash.finalize().into())
}

fn check_file(disk: &dyn Disk, name: &str, sha256: &[u8; 32]) -> Result<(), OpenError> {
    check(name, &hash_of(disk, name)?, sha256)
}

fn check(name: &str, found: &[u8; 32], wanted: &[u8; 32]) -> Result<(), OpenError> {
    if found == wanted {
        return Ok(());
    }
    Err(Damage::new("MAN-03", "its SHA-256 is not the one it was written with").within(name).into())
}

/// Writes a file in chunks. The file's name is durable only after the next `sync_names`.
fn write_file(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
    let fresh = format!("{name}{UNFINISHED}");
    let file = disk.create(&fresh)?;
    bytes.chunks(PIECE_BYTES).try_for_each(|piece| file.append(piece))?;
    file.sync()?;
    disk.rename(&fresh, name)
}
