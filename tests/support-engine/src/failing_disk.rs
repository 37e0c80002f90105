//! A disk with fault injection: some changing operations fail, and some bytes are unreadable.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::DiskError;
use engine::os::disk::{Disk, DiskFile, DiskLock, DiskRead, FileBytes};

/// Duration of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refuses {
    /// A single operation fails, and the next ones work. A writer that retried would appear to succeed.
    Once,
    /// The chosen operation and all later ones fail.
    FromThenOn,
}

/// Wraps another disk, some of whose operations fail.
#[derive(Debug, Clone)]
pub struct FailingDisk {
    beneath: Arc<dyn Disk>,
    turn: Arc<Turn>,
    bad: Arc<Mutex<Bad>>,
}

/// Unreadable ranges of files.
type Bad = Vec<(String, Range<u64>)>;

/// Returns true if the operation of this number, action and file name fails.
type Rule = dyn Fn(u64, &str, &str) -> bool + Send + Sync;

struct Turn {
    fails: Box<Rule>,
    done: AtomicU64,
    has_refused: AtomicBool,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {} operations", self.done.load(Ordering::SeqCst))
    }
}

impl FailingDisk {
    /// Fails operation `at` among those that change `beneath`, counted from 0.
    pub fn new(beneath: Arc<dyn Disk>, at: u64, refuses: Refuses) -> Self {
        Self::of(beneath, move |now, action, _| {
            action != "map" && (now == at || now > at && refuses == Refuses::FromThenOn)
        })
    }

    /// Fails the operations that change `beneath`, and maps, for which `fails` returns true by action and file name.
    pub fn when(
        beneath: Arc<dyn Disk>,
        fails: impl Fn(&str, &str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::of(beneath, move |_, action, name| fails(action, name))
    }

    fn of(
        beneath: Arc<dyn Disk>,
        fails: impl Fn(u64, &str, &str) -> bool + Send + Sync + 'static,
    ) -> Self {
        let (done, has_refused) = (AtomicU64::new(0), AtomicBool::new(false));
        let turn = Arc::new(Turn { fails: Box::new(fails), done, has_refused });
        Self { beneath, turn, bad: Arc::default() }
    }

    /// Returns true if an operation has failed.
    pub fn has_refused(&self) -> bool {
        self.turn.has_refused.load(Ordering::SeqCst)
    }

    /// Makes these bytes of a file unreadable from now on. A map of them would end the process at the first access, so
    /// mapping the file panics.
    pub fn spoil(&self, name: &str, bytes: Range<u64>) {
        self.bad().push((name.to_owned(), bytes));
    }

    fn bad(&self) -> MutexGuard<'_, Bad> {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_readable(&self, name: &str, bytes: &Range<u64>) -> Result<(), DiskError> {
        let touches = |bad: &Range<u64>| bad.start < bytes.end && bytes.start < bad.end;
        if self.bad().iter().any(|(of, bad)| of == name && touches(bad)) {
            let source = io::Error::other("a bad sector");
            return Err(DiskError { action: "read", name: name.to_owned(), source });
        }
        Ok(())
    }
}

impl Turn {
    fn take(&self, action: &'static str, name: &str) -> Result<(), DiskError> {
        self.check(action, name, self.done.fetch_add(1, Ordering::SeqCst))
    }

    fn check(&self, action: &'static str, name: &str, now: u64) -> Result<(), DiskError> {
        if !(self.fails)(now, action, name) {
            return Ok(());
        }
        self.has_refused.store(true, Ordering::SeqCst);
        let source = io::ErrorKind::StorageFull.into();
        Err(DiskError { action, name: name.to_owned(), source })
    }
}

#[derive(Debug)]
struct FailingRead {
    disk: FailingDisk,
    name: String,
    file: Box<dyn DiskRead>,
}

impl DiskRead for FailingRead {
    fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<(), DiskError> {
        self.disk.check_readable(&self.name, &(at..at + into.len() as u64))?;
        self.file.read_at(at, into)
    }
}

#[derive(Debug)]
struct FailingFile {
    name: String,
    file: Box<dyn DiskFile>,
    turn: Arc<Turn>,
}

impl DiskFile for FailingFile {
    /// A failing write has written half of its bytes, as on a full disk.
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
        self.check_readable(name, &(0..u64::MAX))?;
        self.beneath.read(name, bytes_max)
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskRead>, DiskError> {
        let (disk, file) = (self.clone(), self.beneath.open(name)?);
        Ok(Box::new(FailingRead { disk, name: name.to_owned(), file }))
    }

    fn map(&self, name: &str) -> Result<FileBytes, DiskError> {
        assert!(self.check_readable(name, &(0..u64::MAX)).is_ok(), "{name} ends whoever maps it");
        self.turn.check("map", name, u64::MAX)?;
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

    fn sync_names(&self) -> Result<(), DiskError> {
        self.turn.take("sync", "the directory")?;
        self.beneath.sync_names()
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.beneath.free_bytes()
    }
}
