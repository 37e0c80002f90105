//! Concurrent access to the writer: syncs that fail once, flushes during an erasure, full logs, and a store with absent
//! pages.

mod missing_pages;

use std::fmt;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use tempfile::TempDir;

use super::*;
use crate::item::ItemDraft;
use crate::os::clock::{SystemClock, SystemRandom};
use crate::os::disk::{DiskFile, DiskLock, DiskRead, FileBytes, FsDisk};
use crate::store::{Options, Store};
use crate::throttle::Throttle;

/// Action executed before a sync, or in its place.
type Act = Box<dyn FnOnce() -> Result<(), DiskError> + Send>;

/// Disk with a hook that runs once, at the next sync of a log, and optionally with lazy segments.
#[derive(Debug, Clone)]
struct Hooked {
    beneath: FsDisk,
    hook: Arc<Hook>,
    /// Source of the bytes of mapped segments.
    source: Option<Arc<missing_pages::Elsewhere>>,
}

#[derive(Default)]
struct Hook(Mutex<Option<Act>>);

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a hook")
    }
}

#[derive(Debug)]
struct HookedFile {
    beneath: Box<dyn DiskFile>,
    hook: Option<Arc<Hook>>,
}

impl Hooked {
    fn on(folder: &TempDir) -> Self {
        Self { beneath: FsDisk::open(folder.path()).unwrap(), hook: Arc::default(), source: None }
    }

    fn at_next_sync(&self, act: impl FnOnce() -> Result<(), DiskError> + Send + 'static) {
        *self.hook.0.lock().unwrap() = Some(Box::new(act));
    }

    fn open(&self, options: Options) -> Store {
        let disk = Arc::new(self.clone());
        let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
        let ground = Env { disk, clock, random, replication_sink: None };
        Store::open(ground, options).unwrap()
    }
}

impl DiskFile for HookedFile {
    fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
        self.beneath.append(bytes)
    }

    fn sync(&self) -> Result<(), DiskError> {
        let take = |hook: &Arc<Hook>| hook.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.hook.as_ref().and_then(take).map_or(Ok(()), |act| act())?;
        self.beneath.sync()
    }

    fn reserve(&self, bytes: u64) -> Result<(), DiskError> {
        self.beneath.reserve(bytes)
    }
}

impl Disk for Hooked {
    fn lock(&self) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        self.beneath.lock()
    }

    fn names(&self) -> Result<Vec<String>, DiskError> {
        self.beneath.names()
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        let is_log = layout::file_number(FileKind::Log, name).is_some();
        let hook = is_log.then(|| Arc::clone(&self.hook));
        Ok(Box::new(HookedFile { beneath: self.beneath.create(name)?, hook }))
    }

    fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, DiskError> {
        self.beneath.read(name, bytes_max)
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskRead>, DiskError> {
        self.beneath.open(name)
    }

    fn map(&self, name: &str) -> Result<FileBytes, DiskError> {
        match &self.source {
            Some(source) => source.map(name),
            None => self.beneath.map(name),
        }
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

fn note(text: &str) -> Batch {
    let item = ItemDraft {
        kind: "note".to_owned(),
        modality: "text".to_owned(),
        text: text.to_owned(),
        ..ItemDraft::default()
    };
    Batch { items: vec![item], ..Batch::default() }
}

fn unsynced() -> Options {
    Options { durability: Durability::Interval(Duration::ZERO), ..Options::default() }
}

/// The operating system reports a failed sync to one of two threads, and success to the other. Both writes must fail.
#[test]
fn failed_sync_fails_every_waiter() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Hooked::on(&folder);
    let store = disk.open(Options::default());
    store.write(note("kept")).unwrap();
    let (entered, has_entered) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    disk.at_next_sync(move || {
        entered.send(()).unwrap();
        may_go.recv().unwrap();
        Err(DiskError::new("sync", "a log", Errno::IO.into()))
    });
    thread::scope(|scope| {
        let leader = scope.spawn(|| store.write(note("lost")));
        has_entered.recv().unwrap();
        let mut writer = store.writer().unwrap();
        go.send(()).unwrap();
        let published = writer.publish(&disk).unwrap_err();
        assert!(matches!(published, WriteError::Disk(_)), "{published}");
        drop(writer);
        leader.join().unwrap().unwrap_err();
    });
    assert!(store.stop_reason().unwrap().contains("could not sync"));
    assert_eq!(store.snapshot().seq(), 1, "what was not acknowledged is not shown");
    drop(store);
    let (manifest, _) = Manifest::newest(&disk, &disk.names().unwrap()).unwrap().unwrap();
    assert!(manifest.synced_seq <= 1, "{}", manifest.synced_seq);
    disk.open(Options::default()).write(note("it goes on")).unwrap();
}

#[test]
fn backup_contains_only_durable_commits() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Hooked::on(&folder);
    let store = Arc::new(disk.open(unsynced()));
    store.write(note("synced by the copy")).unwrap();
    let beside = Arc::clone(&store);
    disk.at_next_sync(move || {
        beside.write(note("written meanwhile")).unwrap();
        Ok(())
    });
    let (manifest, parts) = store.backup_state().unwrap();
    assert_eq!(store.snapshot().seq(), 2);
    assert_eq!(manifest.last_seq, 1);
    assert_eq!(parts.iter().map(|part| part.segment.header().last_seq).max(), Some(1));
}

/// Throttle that writes and seals while an erasure rewrites its first segment.
struct SealsMeanwhile<'a> {
    store: &'a Store,
    asked: AtomicUsize,
}

impl Throttle for SealsMeanwhile<'_> {
    fn after_write(&self, _bytes: usize) -> bool {
        if self.asked.fetch_add(1, Ordering::SeqCst) == 0 {
            assert!(self.store.flushing.try_lock().is_ok(), "the erasure holds up no flush");
            self.store.write(note(&"as much as both ".repeat(16 << 10))).unwrap();
            self.store.seal().unwrap();
            let sealed = self.store.writer().unwrap().sealed();
            assert_eq!(sealed.len(), 2, "the flush took up what was to be rewritten next");
        }
        true
    }
}

#[test]
fn erasure_covers_segments_merged_by_a_concurrent_flush() {
    const SECRET: &str = "sesame open ";
    let folder = tempfile::tempdir().unwrap();
    let disk = Hooked::on(&folder);
    let mut store = disk.open(Options { merge_bytes_max: 0, ..Options::default() });
    let mut ids = Vec::new();
    for kib in [320, 96] {
        let written = store.write(note(&SECRET.repeat((kib << 10) / SECRET.len()))).unwrap();
        ids.push(written.items[0].0);
        store.seal().unwrap();
    }
    store.options.merge_bytes_max = MERGE_BYTES_MAX;
    let pace = SealsMeanwhile { store: &store, asked: AtomicUsize::new(0) };
    store.erase(&ids, "tester", "asked for", &pace).unwrap();
    assert!(pace.asked.load(Ordering::SeqCst) > 0);
    assert_eq!(store.erasures_pending().unwrap(), 0);
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let holds = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!holds, "{} holds what was erased", path.display());
    }
}

#[test]
fn writer_waits_again_when_log_room_was_taken() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Hooked::on(&folder);
    let store = disk.open(Options::default());
    store.write(note("in the way")).unwrap();
    let mark = WalPosition { log: 0, first_seq: 1, end: LOG_BYTES_MAX, seq: 0 };
    store
        .writer()
        .unwrap()
        .older_logs
        .push(ReplayedLog { position: mark, file_bytes: LOG_BYTES_MAX });
    let writer = store.writer_with_log_room().unwrap();
    assert!(writer.has_log_room() && writer.segments.tail().is_empty());
    drop(writer);
    store.write(note("goes through")).unwrap();
}

#[test]
fn store_at_its_log_limit_accepts_writes_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Hooked::on(&folder);
    let store = disk.open(unsynced());
    store.write(note("in the first log")).unwrap();
    {
        let mut writer = store.writer().unwrap();
        while writer.manifest.logs.len() < LOGS_MAX {
            let log = writer.log.take().unwrap();
            writer
                .older_logs
                .push(ReplayedLog { position: log.position(), file_bytes: log.file_bytes() });
            log.close().unwrap();
            writer.ensure_log(&disk).unwrap();
        }
    }
    drop(store);
    for seq in 2..4 {
        let store = disk.open(unsynced());
        assert_eq!(store.write(note("goes through")).unwrap().seq, seq);
        store.seal().unwrap();
        assert!(store.writer().unwrap().manifest.logs.len() <= 2);
    }
}

#[test]
fn log_room_is_checked_before_the_last_log_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Hooked::on(&folder);
    // Opens the store more often than the log limit allows without a seal, and again for the next round.
    for seq in 1..=LOGS_MAX as u64 + 6 {
        let store = disk.open(unsynced());
        assert_eq!(store.write(note("one each time")).unwrap().seq, seq);
    }
    assert_eq!(disk.open(unsynced()).snapshot().seq(), LOGS_MAX as u64 + 6);
}
