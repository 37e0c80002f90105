//! A disk that counts written bytes, for progress reports and cancellation of a long copy.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use engine::DiskError;
use engine::os::disk::{Disk, DiskFile, DiskLock, DiskRead, FileBytes, FsDisk};

use recalld_common::cancel::CancellationToken;
use recalld_common::cancel::Progress;

/// Interval of progress reports.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// State shared by the files of a disk.
#[derive(Debug)]
struct Counter {
    bytes: AtomicU64,
    cancel: CancellationToken,
}

/// A directory of the real file system that counts writes, and rejects them after cancellation.
#[derive(Debug)]
pub struct ToldDisk {
    disk: FsDisk,
    counter: Arc<Counter>,
}

impl ToldDisk {
    /// Wraps a disk. Writes fail after `cancel` is cancelled.
    pub fn new(disk: FsDisk, cancel: &CancellationToken) -> Self {
        let counter = Counter { bytes: AtomicU64::new(0), cancel: cancel.clone() };
        Self { disk, counter: Arc::new(counter) }
    }

    /// Runs `work`, which writes about `total` bytes to this disk. Reports progress at the beginning and periodically.
    pub fn telling<T>(
        &self,
        what: &str,
        total: u64,
        progress: Progress<'_>,
        work: impl FnOnce() -> T,
    ) -> T {
        progress(0, total, what);
        let (ended, end) = channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while end.recv_timeout(TELL_EVERY) == Err(RecvTimeoutError::Timeout) {
                    let done = self.counter.bytes.load(Ordering::Relaxed);
                    progress(done, total.max(done), what);
                }
            });
            let done = work();
            drop(ended);
            done
        })
    }
}

#[derive(Debug)]
struct ToldFile {
    name: String,
    file: Box<dyn DiskFile>,
    counter: Arc<Counter>,
}

impl DiskFile for ToldFile {
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        if self.counter.cancel.is_cancelled() {
            let source = io::Error::new(io::ErrorKind::Interrupted, "called off");
            return Err(DiskError { action: "write", name: self.name.clone(), source });
        }
        self.file.append(bytes)?;
        self.counter.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.file.sync()
    }

    fn reserve(&self, bytes: u64) -> Result<(), DiskError> {
        self.file.reserve(bytes)
    }
}

impl Disk for ToldDisk {
    fn lock(&self) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        self.disk.lock()
    }

    fn names(&self) -> Result<Vec<String>, DiskError> {
        self.disk.names()
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let (file, counter) = (self.disk.create(name)?, Arc::clone(&self.counter));
        Ok(Box::new(ToldFile { name: name.to_owned(), file, counter }))
    }

    fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, DiskError> {
        self.disk.read(name, bytes_max)
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskRead>, DiskError> {
        self.disk.open(name)
    }

    fn map(&self, name: &str) -> Result<FileBytes, DiskError> {
        self.disk.map(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.disk.remove(name)
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        self.disk.sync_names()
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.disk.free_bytes()
    }
}
