//! A disk that refuses: it counts the operations that change it, and one of them fails.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::DiskError;
use engine::os::disk::{Disk, DiskFile, DiskLock, FileBytes};

/// How long the disk goes on refusing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refuses {
    /// One operation; the next ones work. A writer that tries again would seem to succeed.
    Once,
    /// That operation and every later one.
    FromThenOn,
}

/// Another disk, with operation number `at` (from 0) failing.
#[derive(Debug, Clone)]
pub struct FailingDisk {
    beneath: Arc<dyn Disk>,
    turn: Arc<Turn>,
}

#[derive(Debug)]
struct Turn {
    at: u64,
    refuses: Refuses,
    done: AtomicU64,
}

impl FailingDisk {
    /// Refuses operation `at` of those that change `beneath`.
    pub fn new(beneath: Arc<dyn Disk>, at: u64, refuses: Refuses) -> Self {
        Self { beneath, turn: Arc::new(Turn { at, refuses, done: AtomicU64::new(0) }) }
    }

    /// Whether the workload came as far as the operation that fails.
    pub fn has_refused(&self) -> bool {
        self.turn.done.load(Ordering::SeqCst) > self.turn.at
    }
}

impl Turn {
    fn take(&self, action: &'static str, name: &str) -> Result<(), DiskError> {
        let now = self.done.fetch_add(1, Ordering::SeqCst);
        if now < self.at || now > self.at && self.refuses == Refuses::Once {
            return Ok(());
        }
        let source = io::ErrorKind::StorageFull.into();
        Err(DiskError { action, name: name.to_owned(), source })
    }
}

#[derive(Debug)]
struct FailingFile {
    name: String,
    file: Box<dyn DiskFile>,
    turn: Arc<Turn>,
}

impl DiskFile for FailingFile {
    /// A write that fails has put half of its bytes there, as a full disk does.
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        if let Err(error) = self.turn.take("write", &self.name) {
            self.file.append(&bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.file.append(bytes)
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.turn.take("sync", &self.name)?;
        self.file.sync()
    }

    fn reserve(&self, bytes: u64) -> Result<(), DiskError> {
        self.turn.take("reserve", &self.name)?;
        self.file.reserve(bytes)
    }
}

impl Disk for FailingDisk {
    fn lock(&self) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        self.beneath.lock()
    }

    fn names(&self) -> Result<Vec<String>, DiskError> {
        self.beneath.names()
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.turn.take("create", name)?;
        let file = self.beneath.create(name)?;
        Ok(Box::new(FailingFile { name: name.to_owned(), file, turn: self.turn.clone() }))
    }

    fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, DiskError> {
        self.beneath.read(name, bytes_max)
    }

    fn map(&self, name: &str) -> Result<FileBytes, DiskError> {
        self.beneath.map(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.turn.take("rename", from)?;
        self.beneath.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.turn.take("remove", name)?;
        self.beneath.remove(name)
    }

    fn sync(&self, name: &str) -> Result<(), DiskError> {
        self.turn.take("sync", name)?;
        self.beneath.sync(name)
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        self.turn.take("sync", "the directory")?;
        self.beneath.sync_names()
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.beneath.free_bytes()
    }
}
