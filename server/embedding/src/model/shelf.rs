//! The folder of packed weights in the cache, and what is known of files that they were packed from
//! (`format-spec/weights.md`, Where they lie).
//!
//! Owns names, the order of syncs and renames, and the bounds on both. What is in a file, it is told;
//! whether that is right, the encoder checks at each opening.

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

    /// Files of packed weights that are kept: four models at every precision.
    const PACKED_FILES_MAX: usize = 12;
    /// Their bytes together, as far as they are not those of the newest one.
    const PACKED_BYTES_MAX: u64 = 4 << 30;
    /// Bytes that a file of packed weights leaves free. They may be on the disk of a data directory, whose
    /// log must not fail for the sake of a quicker start.
    const FREE_BYTES_MIN: u64 = 512 << 20;
    /// Files of a model's weights whose hashes are remembered.
    const SOURCES_MAX: usize = 16;
}

/// Bytes of the list of sources: for each the longest path of the system, escaped, and room to spare.
const SOURCES_BYTES_MAX: u64 = 512 << 10;
/// Longest wait for another process that writes here: it writes one file, unless it was stopped.
const TURN_WAIT_MAX: Duration = Duration::from_secs(3);
const SOURCES: &str = "sources.json";
const SOURCES_VERSION: u64 = 1;
/// The end of the names of packed weights.
pub(super) const ENDING: &str = ".weights";
/// The name of the folder in the cache.
pub(super) const FOLDER: &str = "packed";
/// Digits of the source's hash in a name; all of it is in the file.
pub(super) const NAME_DIGITS: usize = 24;
/// Nobody writes a file that is mapped (WGT-16).
const SEALED_MODE: u32 = 0o400;
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// The folder; it may not be there yet.
pub(super) struct Shelf {
    folder: PathBuf,
}

impl Shelf {
    /// The one in a cache; touches nothing.
    pub(super) fn of(cache: &Path) -> Self {
        Self { folder: cache.join(FOLDER) }
    }

    /// Where the packed weights of a source are.
    pub(super) fn place(&self, source: &Sha256, precision: Precision) -> PathBuf {
        self.folder.join(format!("{}{PACKING}{ENDING}", beginning(source, precision)))
    }

    /// Maps packed weights, and has the system bring them to memory; `None` where there are none.
    pub(super) fn map(place: &Path) -> io::Result<Option<FileBytes>> {
        match FileBytes::map_sealed(place) {
            Ok(bytes) => bytes.populate().map(|()| Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes room, and puts packed weights in their place, whole and on disk, unless the same bytes are
    /// there; and maps them.
    pub(super) fn put(
        &self,
        source: &Sha256,
        precision: Precision,
        bytes: &[u8],
    ) -> io::Result<FileBytes> {
        let _turn = self.take_turn()?;
        let place = self.place(source, precision);
        // Another start may have put them there a moment ago, and has them mapped.
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
                // On a file system without modes it would be written again by every start.
                drop(remove(&place));
                Err(error)
            }
        }
    }

    /// What the weights in a folder hashed to, if the file is as it was then.
    pub(super) fn known_hash(&self, source: &Source) -> Option<Sha256> {
        self.sources().into_iter().find(|(known, _)| known == source).map(|(_, sha256)| sha256)
    }

    /// Where it is written what files of weights hashed to.
    pub(super) fn list(&self) -> PathBuf {
        self.folder.join(SOURCES)
    }

    /// Remembers what a file of weights hashed to, and forgets those that are gone.
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

    /// The list; one that is not there, or not as it should be, is empty.
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

    /// One process writes at a time. Nobody waits for it for long: it may have been stopped, and what
    /// is kept here only saves time.
    fn take_turn(&self) -> io::Result<File> {
        fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&self.folder)?;
        let path = self.folder.join("lock");
        let lock = OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path)?;
        // A thread waits, for the system's own wait has no end; it lets go of what comes too late.
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

    /// That the disk has room for so many bytes, and [`FREE_BYTES_MIN`] more.
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

    /// Writes a file beside its place, brings it to disk and moves it there. Called under the lock.
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

    /// Removes other packings of the same weights, what was left unfinished, and the oldest files
    /// beyond the bounds, with a file of so many bytes to come. What cannot be removed is only space.
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
        // The newest first: those that the bounds leave stay.
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

/// How the names of all packings of these weights begin.
fn beginning(source: &Sha256, precision: Precision) -> String {
    format!("{}-{}-", &hex(source)[..NAME_DIGITS], precision.name())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A file of weights as the file system describes it: while this stays as it is, so do the bytes.
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
    /// That in a model's folder; `None` where there is none that could be remembered.
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
