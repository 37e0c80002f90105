//! A store's directory in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use engine::DiskError;
use engine::os::disk::{Disk, DiskFile, DiskLock, FileBytes};

/// Files by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A directory that lives as long as it is used.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    files: Arc<Mutex<Files>>,
}

impl Memory {
    /// A directory with these files.
    pub fn of(files: Files) -> Self {
        Self { files: Arc::new(Mutex::new(files)) }
    }

    /// Its files now.
    pub fn files(&self) -> Files {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, Files> {
        self.files.lock().expect("no thread panics with the files in its hands")
    }

    fn copy(&self, action: &'static str, name: &str) -> Result<Vec<u8>, DiskError> {
        let found = self.locked().get(name).cloned();
        found.ok_or_else(|| fault(action, name, io::ErrorKind::NotFound.into()))
    }
}

fn fault(action: &'static str, name: &str, source: io::Error) -> DiskError {
    DiskError { action, name: name.to_owned(), source }
}

#[derive(Debug)]
struct NoLock;

impl DiskLock for NoLock {}

#[derive(Debug)]
struct Open {
    memory: Memory,
    name: String,
}

impl DiskFile for Open {
    fn append(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        self.memory.locked().entry(self.name.clone()).or_default().extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        Ok(())
    }
}

impl Disk for Memory {
    fn lock(&self) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        Ok(Some(Box::new(NoLock)))
    }

    fn names(&self) -> Result<Vec<String>, DiskError> {
        Ok(self.locked().keys().cloned().collect())
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        self.locked().insert(name.to_owned(), Vec::new());
        Ok(Box::new(Open { memory: self.clone(), name: name.to_owned() }))
    }

    fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, DiskError> {
        let bytes = self.copy("read", name)?;
        if bytes.len() as u64 > bytes_max {
            return Err(fault("read", name, io::Error::other("too long")));
        }
        Ok(bytes)
    }

    fn map(&self, name: &str) -> Result<FileBytes, DiskError> {
        Ok(FileBytes::copied(&self.copy("map", name)?))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let bytes = self.copy("rename", from)?;
        let mut files = self.locked();
        files.remove(from);
        files.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.locked().remove(name);
        Ok(())
    }

    fn sync(&self, name: &str) -> Result<(), DiskError> {
        self.copy("sync", name).map(drop)
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        Ok(())
    }
}
