//! A directory whose lock is retained from one opening of its store to the next, so that no other process can acquire
//! it in between.

use std::sync::Arc;

use engine::os::disk::{Disk, DiskFile, DiskLock, DiskRead, FileBytes};
use engine::{DiskError, OpenError};

/// A directory locked by this process for all its users.
#[derive(Debug)]
pub(super) struct HeldDisk {
    beneath: Arc<dyn Disk>,
    lock: Arc<dyn DiskLock>,
}

/// A share of the lock; the last share releases the lock.
#[derive(Debug)]
struct Share {
    _lock: Arc<dyn DiskLock>,
}

impl DiskLock for Share {}

impl HeldDisk {
    /// Locks the directory.
    ///
    /// # Errors
    /// [`OpenError::Locked`] if another process has the lock.
    pub(super) fn take(beneath: Arc<dyn Disk>) -> Result<Self, OpenError> {
        let lock = beneath.lock()?.ok_or(OpenError::Locked)?.into();
        Ok(Self { beneath, lock })
    }
}

impl Disk for HeldDisk {
    fn lock(&self) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        Ok(Some(Box::new(Share { _lock: Arc::clone(&self.lock) })))
    }

    fn names(&self) -> Result<Vec<String>, DiskError> {
        self.beneath.names()
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.beneath.create(name)
    }

    fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, DiskError> {
        self.beneath.read(name, bytes_max)
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskRead>, DiskError> {
        self.beneath.open(name)
    }

    fn map(&self, name: &str) -> Result<FileBytes, DiskError> {
        self.beneath.map(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.beneath.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.beneath.remove(name)
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        self.beneath.sync_names()
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.beneath.free_bytes()
    }
}
