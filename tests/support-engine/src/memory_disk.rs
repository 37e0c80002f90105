//! A disk in memory: a flat map of names to bytes that a test can inspect and corrupt.
//!
//! The map retains everything that was appended, synced or not. A disk that loses unsynced bytes can be built on the
//! same map.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::DiskError;
use engine::os::disk::{Disk, DiskFile, DiskLock, DiskRead, FileBytes};

/// Names and contents of a directory.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The contents of a file, with a name or without.
#[derive(Debug, Clone, Default)]
struct Held(Arc<Mutex<Vec<u8>>>);

impl Held {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        let mut file = self.bytes();
        let length = file.len().max(at + bytes.len());
        file.resize(length, 0);
        file[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// A directory in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryDisk {
    files: Arc<Mutex<BTreeMap<String, Held>>>,
    locked: Arc<AtomicBool>,
    /// Bytes that are not free, of `u64::MAX`; writes do not change it.
    taken: Arc<AtomicU64>,
    /// Bytes that were read or mapped so far.
    read: Arc<AtomicU64>,
}

impl MemoryDisk {
    /// Makes a directory with `files`.
    pub fn holding(files: Files) -> Self {
        let held = |(name, bytes)| (name, Held(Arc::new(Mutex::new(bytes))));
        let files = files.into_iter().map(held).collect();
        Self { files: Arc::new(Mutex::new(files)), ..Self::default() }
    }

    /// Sets the free space to `bytes`.
    pub fn leave_free(&self, bytes: u64) {
        self.taken.store(u64::MAX - bytes, Ordering::SeqCst);
    }

    /// Bytes that were read or mapped so far.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::SeqCst)
    }

    fn count(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Ordering::SeqCst);
    }

    /// Copies all files.
    pub fn files(&self) -> Files {
        self.held().iter().map(|(name, file)| (name.clone(), file.bytes().clone())).collect()
    }

    /// Replaces the contents of a file.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let file = Held(Arc::new(Mutex::new(bytes.to_vec())));
        self.held().insert(name.to_owned(), file);
    }

    /// Writes bytes into a file at an offset, and creates the file if it is missing.
    pub fn put_at(&self, name: &str, at: usize, bytes: &[u8]) {
        let file = self.held().entry(name.to_owned()).or_default().clone();
        file.put(at, bytes);
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, Held>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self, action: &'static str, name: &str) -> Result<Held, DiskError> {
        let file = self.held().get(name).cloned();
        file.ok_or_else(|| error(action, name, io::ErrorKind::NotFound))
    }
}

fn error(action: &'static str, name: &str, kind: io::ErrorKind) -> DiskError {
    DiskError { action, name: name.to_owned(), source: kind.into() }
}

#[derive(Debug)]
struct MemoryLock(Arc<AtomicBool>);

impl DiskLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct MemoryFile {
    file: Held,
    /// Bytes appended so far; the file may be longer.
    end: Mutex<usize>,
}

impl DiskFile for MemoryFile {
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        self.file.put(*end, bytes);
        *end += bytes.len();
        Ok(())
    }

    fn sync(&self) -> Result<(), DiskError> {
        Ok(())
    }

    /// Does nothing, as on a file system without preallocation: a test that copies all files for each corrupted byte
    /// would otherwise copy mostly zeros.
    fn reserve(&self, _bytes: u64) -> Result<(), DiskError> {
        Ok(())
    }
}

/// A reader that sees later appends, too.
#[derive(Debug)]
struct MemoryRead {
    disk: MemoryDisk,
    name: String,
    file: Held,
}

impl DiskRead for MemoryRead {
    fn bytes(&self) -> u64 {
        self.file.bytes().len() as u64
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let file = self.file.bytes();
        let from = usize::try_from(at).ok();
        let found = from.and_then(|from| file.get(from..)?.get(..into.len()));
        let short = || error("read", &self.name, io::ErrorKind::UnexpectedEof);
        into.copy_from_slice(found.ok_or_else(short)?);
        self.disk.count(into.len());
        Ok(())
    }
}

impl Disk for MemoryDisk {
    fn lock(&self) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        let taken = self.locked.swap(true, Ordering::SeqCst);
        Ok((!taken).then(|| Box::new(MemoryLock(self.locked.clone())) as Box<dyn DiskLock>))
    }

    fn names(&self) -> Result<Vec<String>, DiskError> {
        Ok(self.held().keys().cloned().collect())
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        if self.held().contains_key(name) {
            return Err(error("create", name, io::ErrorKind::AlreadyExists));
        }
        let file = Held::default();
        self.held().insert(name.to_owned(), file.clone());
        Ok(Box::new(MemoryFile { file, end: Mutex::default() }))
    }

    fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, DiskError> {
        let file = self.found("read", name)?;
        let bytes = file.bytes();
        if bytes.len() as u64 > bytes_max {
            return Err(error("read", name, io::ErrorKind::FileTooLarge));
        }
        self.count(bytes.len());
        Ok(bytes.clone())
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskRead>, DiskError> {
        let (disk, file) = (self.clone(), self.found("open", name)?);
        Ok(Box::new(MemoryRead { disk, name: name.to_owned(), file }))
    }

    fn map(&self, name: &str) -> Result<FileBytes, DiskError> {
        let file = self.found("open", name)?;
        let bytes = file.bytes();
        self.count(bytes.len());
        Ok(FileBytes::copy_from(&bytes))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let mut held = self.held();
        let file = held.remove(from);
        let file = file.ok_or_else(|| error("rename", from, io::ErrorKind::NotFound))?;
        held.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let gone = self.held().remove(name);
        gone.map(drop).ok_or_else(|| error("remove", name, io::ErrorKind::NotFound))
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        Ok(u64::MAX - self.taken.load(Ordering::SeqCst))
    }
}
