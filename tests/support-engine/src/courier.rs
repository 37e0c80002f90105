//! A replication sink that mirrors a store's files to another directory, in the store's order.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::Seq;
use engine::os::disk::{Disk, DiskRead};
use engine::replication_sink::{
    self, PublishedManifest, ReplicationError, ReplicationSink, SinkRejectedError, WalPosition,
};

use crate::memory_disk::MemoryDisk;

/// A change of the mirrored directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Bytes of a growing file, from an offset on.
    Bytes(String, usize, Vec<u8>),
    /// A whole file, which gets its name once it is complete.
    File(String, Vec<u8>),
    /// A file that is no longer needed.
    Gone(String),
}

/// A directory that deliveries are applied to.
pub trait Place {
    /// Writes bytes into a file from an offset on.
    fn put_at(&self, name: &str, at: usize, bytes: &[u8]);
    /// Writes a whole file.
    fn put(&self, name: &str, bytes: &[u8]);
    /// Removes a file.
    fn take(&self, name: &str);
}

impl Place for MemoryDisk {
    fn put_at(&self, name: &str, at: usize, bytes: &[u8]) {
        Self::put_at(self, name, at, bytes);
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        Self::put(self, name, bytes);
    }

    fn take(&self, name: &str) {
        self.remove(name).expect("it is there");
    }
}

impl Place for Path {
    fn put_at(&self, name: &str, at: usize, bytes: &[u8]) {
        let mut open = OpenOptions::new();
        let file = open.write(true).create(true).truncate(false).open(self.join(name));
        file.and_then(|file| file.write_all_at(bytes, at as u64)).expect("the folder takes it");
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let fresh = self.join(format!("{name}.new"));
        let put = fs::write(&fresh, bytes).and_then(|()| fs::rename(&fresh, self.join(name)));
        put.expect("the folder takes it");
    }

    fn take(&self, name: &str) {
        fs::remove_file(self.join(name)).expect("it is there");
    }
}

impl Delivery {
    /// Applies the delivery to a directory.
    pub fn bring(&self, to: &(impl Place + ?Sized)) {
        match self {
            Self::Bytes(name, at, bytes) => to.put_at(name, *at, bytes),
            Self::File(name, bytes) => to.put(name, bytes),
            Self::Gone(name) => to.take(name),
        }
    }

    /// Splits the delivery in two if it consists of bytes of a growing file.
    pub fn split(self, at: usize) -> Vec<Self> {
        match self {
            Self::Bytes(name, from, bytes) if at > 0 && at < bytes.len() => {
                let (one, two) = bytes.split_at(at);
                let rest = Self::Bytes(name.clone(), from + at, two.to_vec());
                vec![Self::Bytes(name, from, one.to_vec()), rest]
            }
            whole => vec![whole],
        }
    }
}

/// Collects all deliveries; acknowledges nothing.
#[derive(Debug, Default)]
pub struct Courier(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    deliveries: Vec<Delivery>,
    /// Logs, each with the number of bytes delivered.
    logs: BTreeMap<u64, (usize, Box<dyn DiskRead>)>,
    /// Files in the directory once everything is delivered.
    names: Vec<String>,
}

impl Courier {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all deliveries since the last call.
    pub fn deliveries(&self) -> Vec<Delivery> {
        std::mem::take(&mut self.notes().deliveries)
    }
}

impl Notes {
    fn log(&mut self, mark: WalPosition) {
        let (done, file) = self.logs.get_mut(&mark.log).expect("it was told of when it began");
        let end = usize::try_from(mark.end).expect("a test's log is small");
        if end > *done {
            let mut bytes = vec![0; end - *done];
            file.read_at(*done as u64, &mut bytes).expect("it is readable");
            let name = replication_sink::log_name(mark.log);
            self.deliveries.push(Delivery::Bytes(name.clone(), *done, bytes));
            *done = end;
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
    }

    fn file(&mut self, name: String, bytes: Vec<u8>) {
        if !self.names.contains(&name) {
            self.deliveries.push(Delivery::File(name.clone(), bytes));
            self.names.push(name);
        }
    }
}

impl ReplicationSink for Courier {
    fn is_synchronous(&self) -> bool {
        false
    }

    fn admit(&self, _waiting: usize) -> Result<(), SinkRejectedError> {
        Ok(())
    }

    fn on_log_created(&self, mark: WalPosition, file: Box<dyn DiskRead>) {
        let mut notes = self.notes();
        let done = notes.logs.get(&mark.log).map_or(0, |(done, _)| *done);
        notes.logs.insert(mark.log, (done, file));
        notes.log(mark);
    }

    fn on_log_synced(&self, mark: WalPosition) {
        self.notes().log(mark);
    }

    fn on_manifest_published(&self, published: &PublishedManifest<'_>) {
        let mut notes = self.notes();
        published.logs.iter().for_each(|&mark| notes.log(mark));
        for file in published.manifest.files() {
            let bytes = published.disk.read(&file.name, file.bytes).expect("it is there");
            notes.file(file.name, bytes);
        }
        let name = replication_sink::manifest_name(published.manifest.number());
        notes.file(name, published.bytes.to_vec());
        let gone = published.manifest.obsolete_files(&notes.names);
        let gone: Vec<String> = gone.into_iter().map(str::to_owned).collect();
        notes.names.retain(|name| !gone.contains(name));
        notes.deliveries.extend(gone.into_iter().map(Delivery::Gone));
    }

    fn on_index_created(&self, name: &str, disk: &dyn Disk) {
        let bytes = disk.read(name, u64::MAX).expect("it is there");
        self.notes().file(name.to_owned(), bytes);
    }

    fn wait_replicated(&self, _seq: Seq) -> Result<(), ReplicationError> {
        unreachable!("it acknowledges nothing")
    }

    fn replicated_seq(&self) -> Seq {
        0
    }
}
