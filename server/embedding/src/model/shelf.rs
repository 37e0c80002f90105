//! Packed cache: files of packed weights, and the recorded hashes of published weights (`format-spec/weights.md`, File
//! location).
//!
//! Owns names, the order of syncs and renames, and the bounds of both. The encoder checks the content at each opening.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use encoder::{PACKING, Precision};
use engine::os::disk::FileBytes;
use serde_json::{Value, json};

use super::error::hex;
use super::files::WEIGHTS;
use super::request::{Sha256, hex_digest};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of packed files: four models at every precision.
    const PACKED_FILES_MAX: usize = 12;
    /// Maximum total size of the packed files; the newest file is exempt.
    const PACKED_BYTES_MAX: u64 = 4 << 30;
    /// Free disk space required besides a new packed file. The disk may be that of a data directory, whose WAL must not
    /// fail for a faster start.
    const FREE_BYTES_MIN: u64 = 512 << 20;
    /// Maximum number of recorded hashes of published weights.
    const SOURCES_MAX: usize = 16;
}

/// Maximum size of the hash list in bytes: for each file the longest path of the system, escaped, with room to spare.
const SOURCES_BYTES_MAX: u64 = 512 << 10;
/// Maximum wait for another writing process. The other process writes one file; if the wait is longer, it was stopped.
const TURN_WAIT_MAX: Duration = Duration::from_secs(3);
const SOURCES: &str = "sources.json";
const SOURCES_VERSION: u64 = 1;
/// Suffix of packed weights.
pub(super) const ENDING: &str = ".weights";
/// Name of the directory in the cache.
pub(super) const FOLDER: &str = "packed";
/// Hex digits of the source's hash in a file name; the file contains the whole hash.
pub(super) const NAME_DIGITS: usize = 24;
/// Read-only mode: a mapped file must not be written (WGT-16).
const SEALED_MODE: u32 = 0o400;
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// The directory of the packed cache, which may not exist yet.
pub(super) struct Shelf {
    folder: PathBuf,
}

impl Shelf {
    /// The packed cache in a model cache; accesses no file.
    pub(super) fn of(cache: &Path) -> Self {
        Self { folder: cache.join(FOLDER) }
    }

    /// Path of the packed weights of a source.
    pub(super) fn place(&self, source: &Sha256, precision: Precision) -> PathBuf {
        self.folder.join(format!("{}{PACKING}{ENDING}", beginning(source, precision)))
    }

    /// Maps packed weights and has the system load them into memory; `None` if the file does not exist.
    pub(super) fn map(place: &Path) -> io::Result<Option<FileBytes>> {
        match FileBytes::map_sealed(place) {
            Ok(bytes) => bytes.populate().map(|()| Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Evicts old files, writes packed weights durably unless the same bytes exist, and maps them.
    pub(super) fn put(
        &self,
        source: &Sha256,
        precision: Precision,
        bytes: &[u8],
    ) -> io::Result<FileBytes> {
        let _turn = self.take_turn()?;
        let place = self.place(source, precision);
        // Another process may have written and mapped the same file a moment ago.
        if let Ok(Some(there)) = Self::map(&place)
            && there.as_slice() == bytes
        {
            return Ok(there);
        }
        self.make_room(&place, &beginning(source, precision), bytes.len() as u64);
        self.check_free(bytes.len() as u64)?;
        self.replace(&place, bytes, SEALED_MODE)?;
        match Self::map(&place) {
            Ok(Some(mapped)) => Ok(mapped),
            Ok(None) => Err(io::Error::other("it was removed as soon as it was there")),
            Err(error) => {
                // On a file system without modes, every start would write the file again.
                drop(remove(&place));
                Err(error)
            }
        }
    }

    /// Recorded hash of the weights in `source`, if the file is unchanged since.
    pub(super) fn known_hash(&self, source: &Source) -> Option<Sha256> {
        self.sources().into_iter().find(|(known, _)| known == source).map(|(_, sha256)| sha256)
    }

    /// Path of the hash list.
    pub(super) fn list(&self) -> PathBuf {
        self.folder.join(SOURCES)
    }

    /// Records the hash of a weights file, and drops the hashes of files that no longer exist.
    pub(super) fn remember(&self, source: &Source, sha256: &Sha256) -> io::Result<()> {
        let _turn = self.take_turn()?;
        let mut sources = self.sources();
        sources.retain(|(known, _)| known.path != source.path && Path::new(&known.path).exists());
        sources.insert(0, (source.clone(), *sha256));
        sources.truncate(SOURCES_MAX);
        let listed: Vec<Value> =
            sources.iter().map(|(source, sha256)| source.listed(sha256)).collect();
        let text = format!("{:#}\n", json!({"version": SOURCES_VERSION, "sources": listed}));
        self.replace(&self.list(), text.as_bytes(), FILE_MODE)
    }

    /// Reads the hash list; empty if the list is missing or invalid.
    fn sources(&self) -> Vec<(Source, Sha256)> {
        let path = self.list();
        if !fs::metadata(&path).is_ok_and(|about| about.len() <= SOURCES_BYTES_MAX) {
            return Vec::new();
        }
        let said: Value = fs::read(&path)
            .map(|text| serde_json::from_slice(&text).unwrap_or_default())
            .unwrap_or_default();
        let listed = said["sources"].as_array().filter(|_| said["version"] == SOURCES_VERSION);
        let sources = listed.into_iter().flatten().map(Source::of_listed);
        sources.take(SOURCES_MAX).collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    /// Acquires the writer lock, which one process has at a time. The wait is short: the owner may have been stopped,
    /// and the cache only saves time.
    fn take_turn(&self) -> io::Result<File> {
        fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&self.folder)?;
        let path = self.folder.join("lock");
        let lock = OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path)?;
        // A thread waits, as the system's wait has no timeout. A lock acquired too late is released.
        let (tell, told) = mpsc::channel();
        thread::Builder::new().name("packed-turn".to_owned()).spawn(move || {
            let taken = lock.lock().map(|()| lock);
            drop(tell.send(taken));
        })?;
        told.recv_timeout(TURN_WAIT_MAX).unwrap_or_else(|_| {
            let seconds = TURN_WAIT_MAX.as_secs();
            let why = format!("another process has been writing there for {seconds} s");
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        })
    }

    /// Checks that the disk has room for `bytes` bytes and [`FREE_BYTES_MIN`] more.
    fn check_free(&self, bytes: u64) -> io::Result<()> {
        let about = rustix::fs::statvfs(&self.folder)?;
        let free = about.f_bavail.saturating_mul(about.f_frsize);
        let wanted = bytes.saturating_add(FREE_BYTES_MIN);
        if free >= wanted {
            return Ok(());
        }
        let why =
            format!("{free} bytes are free; {wanted} are wanted, to leave room for other things");
        Err(io::Error::new(io::ErrorKind::StorageFull, why))
    }

    /// Writes a temporary file, syncs it and renames it to `place`. The caller must have the lock.
    fn replace(&self, place: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let fresh = place.with_extension("new");
        remove(&fresh)?; // of a process that was cut short
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if let Err(error) = written {
            drop(remove(&fresh)); // it may be what a full disk needs
            return Err(error);
        }
        fs::rename(&fresh, place)?;
        File::open(&self.folder)?.sync_all()
    }

    /// Removes other packings of the same weights, unfinished files, and the oldest files beyond the bounds, counting a
    /// new file of `bytes` bytes. Failures are ignored: leftovers only use space.
    fn make_room(&self, kept: &Path, beginning: &str, bytes: u64) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut others: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|_| path != kept) else { continue };
            let is_packed = name.ends_with(ENDING);
            if (is_packed && name.starts_with(beginning)) || name.ends_with(".new") {
                drop(remove(&path));
            } else if is_packed {
                let about = entry.metadata();
                let written = about.as_ref().ok().and_then(|about| about.modified().ok());
                let length = about.as_ref().map_or(0, fs::Metadata::len);
                others.push((written.unwrap_or(SystemTime::UNIX_EPOCH), path, length));
            }
        }
        // Newest first: files within the bounds stay.
        others.sort_by(|left, right| right.cmp(left));
        let (mut files, mut together) = (1, bytes);
        for (_, path, length) in &others {
            files += 1;
            together = together.saturating_add(*length);
            if files > PACKED_FILES_MAX || together > PACKED_BYTES_MAX {
                drop(remove(path));
            }
        }
    }
}

/// Common prefix of the names of all packings of these weights.
fn beginning(source: &Sha256, precision: Precision) -> String {
    format!("{}-{}-", &hex(source)[..NAME_DIGITS], precision.name())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// File metadata of published weights. As long as the metadata is unchanged, so is the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    path: String,
    bytes: u64,
    device: u64,
    inode: u64,
    modified_nanos: i64,
    changed_nanos: i64,
}

impl Source {
    /// Metadata of the weights in a model's directory; `None` if the metadata cannot be recorded.
    pub(super) fn of(dir: &Path) -> Option<Self> {
        let path = fs::canonicalize(dir.join(WEIGHTS.name)).ok()?;
        let about = fs::metadata(&path).ok()?;
        let nanos = |seconds: i64, more: i64| seconds.checked_mul(1_000_000_000)?.checked_add(more);
        Some(Self {
            path: path.to_str()?.to_owned(),
            bytes: about.len(),
            device: about.dev(),
            inode: about.ino(),
            modified_nanos: nanos(about.mtime(), about.mtime_nsec())?,
            changed_nanos: nanos(about.ctime(), about.ctime_nsec())?,
        })
    }

    fn listed(&self, sha256: &Sha256) -> Value {
        json!({
            "path": self.path, "bytes": self.bytes, "device": self.device, "inode": self.inode,
            "modified_nanos": self.modified_nanos, "changed_nanos": self.changed_nanos,
            "sha256": hex(sha256),
        })
    }

    fn of_listed(said: &Value) -> Option<(Self, Sha256)> {
        let source = Self {
            path: said["path"].as_str()?.to_owned(),
            bytes: said["bytes"].as_u64()?,
            device: said["device"].as_u64()?,
            inode: said["inode"].as_u64()?,
            modified_nanos: said["modified_nanos"].as_i64()?,
            changed_nanos: said["changed_nanos"].as_i64()?,
        };
        Some((source, hex_digest(said["sha256"].as_str()?)?))
    }
}
