//! Access to the store's directory: a flat set of named files, with every operation that can fail.
//!
//! [`Disk`] is a trait so that tests can inject a disk that loses, tears and rejects writes. Names never contain a
//! separator.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

pub use super::disk_read::{DiskRead, FileStamp};
use super::file_lock::FileLock;
pub use super::mmap::FileBytes;
use crate::error::DiskError;
use crate::layout::{self, UNFINISHED_SUFFIX};

/// Lock that excludes other processes from the directory until it is dropped.
pub trait DiskLock: Send + Sync + Debug {}

/// File that is being written from its start. A thread may append while another thread syncs.
pub trait DiskFile: Send + Sync + Debug {
    /// Writes all of `bytes` at the end of the appended bytes.
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError>;
    /// Blocks until all bytes appended before the call survive a power cut.
    fn sync(&self) -> Result<(), DiskError>;
    /// Extends the file to at least `bytes` bytes; bytes not appended yet read as zeros. After the next sync, later
    /// syncs store neither a new length nor new blocks, which makes them cheaper.
    fn reserve(&self, bytes: u64) -> Result<(), DiskError>;
}

/// Flat directory of files.
pub trait Disk: Send + Sync + Debug {
    /// Acquires the directory's lock; `None` if another process holds it.
    fn lock(&self) -> Result<Option<Box<dyn DiskLock>>, DiskError>;
    /// Names of all files.
    fn names(&self) -> Result<Vec<String>, DiskError>;
    /// Creates a new, empty file; fails if the name exists.
    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError>;
    /// Reads a whole file of at most `bytes_max` bytes.
    fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, DiskError>;
    /// Opens a file for reads of ranges.
    fn open(&self, name: &str) -> Result<Box<dyn DiskRead>, DiskError>;
    /// Maps a whole file that no longer changes.
    fn map(&self, name: &str) -> Result<FileBytes, DiskError>;
    /// Renames a file, and replaces any file named `to`.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;
    /// Removes a file.
    fn remove(&self, name: &str) -> Result<(), DiskError>;
    /// Blocks until all creations, renames and removals so far survive a power cut.
    fn sync_names(&self) -> Result<(), DiskError>;
    /// Free bytes on the disk.
    fn free_bytes(&self) -> Result<u64, DiskError>;
}

/// Directory of the real file system.
#[derive(Debug, Clone)]
pub struct FsDisk {
    root: PathBuf,
}

impl FsDisk {
    /// Opens the directory at `root`, or creates it with mode 0700.
    pub fn open(root: &Path) -> Result<Self, DiskError> {
        let fail = |error| DiskError::new("create", root.display().to_string(), error);
        let missing: Vec<&Path> = root.ancestors().take_while(|folder| !folder.exists()).collect();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(fail)?;
        // A new directory survives a power cut only once its parent is synced.
        for parent in missing.into_iter().filter_map(Path::parent) {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            File::open(parent).and_then(|folder| folder.sync_all()).map_err(fail)?;
        }
        Ok(Self { root: root.to_owned() })
    }

    fn disk_error(action: &'static str, name: &str) -> impl FnOnce(io::Error) -> DiskError {
        move |error| DiskError::new(action, name, error)
    }

    /// Opens a file for reading. A file that is only partially present is reported as such, not as missing, which would
    /// count as corruption.
    fn open_existing(&self, name: &str) -> Result<File, DiskError> {
        File::open(self.root.join(name)).map_err(|error| {
            let is_part = |there: &String| layout::is_partial_of(there, name);
            let is_missing = error.kind() == io::ErrorKind::NotFound && layout::is_mapped(name);
            let has_part = is_missing && self.names().is_ok_and(|names| names.iter().any(is_part));
            let part = "only a part of it is here; a server that has its remote fetches the rest";
            DiskError::new("open", name, if has_part { io::Error::other(part) } else { error })
        })
    }
}

impl DiskLock for FileLock {}

#[derive(Debug)]
struct FsFile {
    name: String,
    file: File,
    length: Mutex<FileLength>,
}

#[derive(Debug, Default)]
struct FileLength {
    /// Bytes appended so far.
    end: u64,
    /// End of the zeros after them.
    reserved: u64,
}

#[derive(Debug)]
struct FsRead {
    name: String,
    file: File,
    stamp: FileStamp,
}

impl DiskRead for FsRead {
    fn bytes(&self) -> u64 {
        self.stamp.bytes
    }

    fn stamp(&self) -> FileStamp {
        self.stamp
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
        self.file.read_exact_at(into, at).map_err(FsDisk::disk_error("read", &self.name))
    }
}

/// Zeros for one write call.
static ZEROS: [u8; 64 << 10] = [0; _];

impl FsFile {
    fn length(&self) -> MutexGuard<'_, FileLength> {
        self.length.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_zeros(&self, from: u64, to: u64) -> io::Result<()> {
        let mut at = from;
        while at < to {
            let piece =
                usize::try_from(to - at).map_or(&ZEROS[..], |left| &ZEROS[..left.min(ZEROS.len())]);
            self.file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}

impl DiskFile for FsFile {
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        let mut length = self.length();
        self.file
            .write_all_at(bytes, length.end)
            .map_err(FsDisk::disk_error("write", &self.name))?;
        length.end += bytes.len() as u64;
        Ok(())
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(FsDisk::disk_error("sync", &self.name))
    }

    /// Allocates first, in one call, so that a full disk is detected before anything is written. Then writes the zeros:
    /// the first write to a block that is only allocated costs a commit of the file system's journal (ext4, XFS:
    /// unwritten extents).
    fn reserve(&self, bytes: u64) -> Result<(), DiskError> {
        let fail = || FsDisk::disk_error("reserve", &self.name);
        let mut length = self.length();
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => (),
            Err(error) => return Err(fail()(error.into())),
        }
        self.write_zeros(length.end.max(length.reserved), bytes).map_err(fail())?;
        length.reserved = length.reserved.max(bytes);
        Ok(())
    }
}

impl Disk for FsDisk {
    fn lock(&self) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        let taken = FileLock::try_acquire(&self.root.join("LOCK"))
            .map_err(Self::disk_error("lock", "LOCK"))?;
        Ok(taken.map(|lock| Box::new(lock) as Box<dyn DiskLock>))
    }

    fn names(&self) -> Result<Vec<String>, DiskError> {
        let fail = |error| DiskError::new("list", self.root.display().to_string(), error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(fail)? {
            // A name that is not UTF-8 is not a file of the store.
            if let Ok(name) = entry.map_err(fail)?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(self.root.join(name))
            .map_err(Self::disk_error("create", name))?;
        Ok(Box::new(FsFile { name: name.to_owned(), file, length: Mutex::default() }))
    }

    fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, DiskError> {
        let path = self.root.join(name);
        let bytes = fs::metadata(&path).map_err(Self::disk_error("read", name))?.len();
        if bytes > bytes_max {
            let why = format!("{bytes} bytes, at most {bytes_max} are allowed");
            let error = io::Error::new(io::ErrorKind::FileTooLarge, why);
            return Err(DiskError::new("read", name, error));
        }
        fs::read(&path).map_err(Self::disk_error("read", name))
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskRead>, DiskError> {
        let file = self.open_existing(name)?;
        let known = file.metadata().map_err(Self::disk_error("read", name))?;
        let changed = (known.ctime(), known.ctime_nsec());
        let stamp = FileStamp { bytes: known.len(), node: known.ino(), changed };
        Ok(Box::new(FsRead { name: name.to_owned(), file, stamp }))
    }

    fn map(&self, name: &str) -> Result<FileBytes, DiskError> {
        if !layout::is_mapped(name) {
            let why = "only segments and indexes are mapped: other files may still change";
            let why = io::Error::other(why);
            return Err(DiskError::new("map", name, why));
        }
        let file = self.open_existing(name)?;
        FileBytes::map(&file).map_err(Self::disk_error("map", name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        fs::rename(self.root.join(from), self.root.join(to))
            .map_err(Self::disk_error("rename", from))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        fs::remove_file(self.root.join(name)).map_err(Self::disk_error("remove", name))
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        let name = || self.root.display().to_string();
        File::open(&self.root)
            .and_then(|folder| folder.sync_all())
            .map_err(|error| DiskError::new("sync", name(), error))
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        let found = rustix::fs::statvfs(&self.root).map_err(|error| {
            Self::disk_error("ask for free space of", "the directory")(error.into())
        })?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// Writes `bytes` as `name`, atomically: a crash leaves the whole file or none of it.
pub(crate) fn write_atomically(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
    rename_synced(disk, name, bytes)?;
    disk.sync_names()
}

/// As [`write_atomically`], for many files with one sync of the names; after a crash, any of the files may exist. Each
/// file is requested from `files` only when its predecessor is written, so that only one is in memory.
pub(crate) fn write_all_atomically(
    disk: &dyn Disk,
    files: impl IntoIterator<Item = (String, Vec<u8>)>,
) -> Result<(), DiskError> {
    let mut put = 0;
    for (name, bytes) in files {
        rename_synced(disk, &name, &bytes)?;
        put += 1;
    }
    if put == 0 { Ok(()) } else { disk.sync_names() }
}

/// Writes and syncs a file under its unfinished name, then renames it. The name itself is not synced.
fn rename_synced(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
    let fresh = format!("{name}{UNFINISHED_SUFFIX}");
    let file = disk.create(&fresh)?;
    file.append(bytes)?;
    file.sync()?;
    disk.rename(&fresh, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Remedy;

    #[test]
    fn partial_file_is_not_reported_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let disk = FsDisk::open(folder.path()).unwrap();
        let name = layout::file_name(crate::layout::FileKind::Segment, 7);
        assert_eq!(disk.map(&name).unwrap_err().source.kind(), io::ErrorKind::NotFound);
        disk.create(&format!("{name}.abc.part")).unwrap();
        for error in [disk.map(&name).unwrap_err(), disk.open(&name).map(drop).unwrap_err()] {
            assert!(error.to_string().contains("only a part of it is here"), "{error}");
            assert_eq!(error.remedy(), Remedy::RetryLater);
        }
        let other = layout::file_name(crate::layout::FileKind::Segment, 70);
        assert_eq!(disk.map(&other).unwrap_err().source.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn reserved_room_reads_as_zeros() {
        let folder = tempfile::tempdir().unwrap();
        let disk = FsDisk::open(folder.path()).unwrap();
        let file = disk.create("a").unwrap();
        let mut wanted = Vec::new();
        // Reserved space is partly used, overrun, and requested below its current end.
        let steps = [(10, 100), (50, 400_000), (400_000, 500_000), (7, 20), (0, 500_001)];
        for (appended, reserved) in steps {
            file.append(&vec![7; appended]).unwrap();
            wanted.resize(wanted.len() + appended, 7);
            file.reserve(reserved).unwrap();
            let found = disk.read("a", u64::MAX).unwrap();
            let (before, room) = found.split_at(wanted.len());
            assert_eq!(before, wanted);
            assert!(found.len() as u64 >= reserved && room.iter().all(|&byte| byte == 0));
            // Space that is only allocated reads as zeros, too, but counts as a hole until it is written.
            let written = File::open(folder.path().join("a")).unwrap();
            let hole = rustix::fs::seek(&written, rustix::fs::SeekFrom::Hole(0)).unwrap();
            assert_eq!(hole, found.len() as u64, "the room was written");
        }
    }
}
