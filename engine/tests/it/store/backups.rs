//! Backups are stores of their own: consistent during writes, verified, never overwritten.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::os::disk::{Disk, DiskFile, DiskLock, DiskRead, FileBytes, FsDisk};
use engine::{CopyError, DiskError, NoThrottle, OpenError, Options, Store, StoreReader, restore};
use support_engine::failing_disk::FailingDisk;
use support_engine::golden::Golden;
use support_engine::ground;
use support_engine::listing::{Asked, listing};
use support_engine::memory_disk::{Files, MemoryDisk};
use support_engine::sample::{self, Seals, hide, items, note, tombstones};
use support_engine::small_store::SmallStore;

use super::scratch_store::{ScratchStore, search_word};

fn listing_of(store: &Store) -> serde_json::Value {
    let snapshot = store.snapshot();
    let asked = Asked::of(&snapshot, []).expect("no damage");
    listing(&snapshot, &asked).expect("no damage")
}

/// Returns an empty folder and the disk on it.
fn place() -> (tempfile::TempDir, FsDisk) {
    let folder = tempfile::tempdir().expect("a scratch folder can be made");
    let disk = FsDisk::open(folder.path()).expect("it can be opened");
    (folder, disk)
}

fn opened(folder: &tempfile::TempDir) -> Store {
    let ground = ground::folder(folder.path(), 77);
    Store::open(ground, Options::default()).expect("a backup is a store")
}

/// Flips a bit of the first segment found, far past the pages that opening checks.
fn flip(root: &Path) {
    let entries = std::fs::read_dir(root).expect("it is a folder");
    let mut paths = entries.map(|entry| entry.expect("it can be read").path());
    let is_segment = |path: &PathBuf| path.to_string_lossy().contains("segment-");
    let path = paths.find(is_segment).expect("there is a segment");
    let mut bytes = std::fs::read(&path).expect("it can be read");
    bytes[100_000] ^= 1;
    // A new file of the same name: a map of the old file stays intact.
    std::fs::remove_file(&path).expect("the folder is ours");
    std::fs::write(path, bytes).expect("the folder is ours");
}

#[test]
fn backup_opens_with_the_source_store_contents() {
    let scratch = ScratchStore::unmerged();
    sample::furnish(scratch.store(), Seals(&[1, 3]), |_, _| {}).unwrap();
    let (folder, disk) = place();
    let copied = scratch.store().backup(&disk).unwrap();
    assert_eq!(copied.seq, scratch.snapshot().seq());
    assert_eq!(copied.reused, 0);
    assert_eq!(listing_of(&opened(&folder)), listing_of(scratch.store()));
}

#[test]
fn incremental_backup_copies_only_new_files() {
    let scratch = ScratchStore::unmerged();
    let first = scratch.write(items([note("amber"), note("birch")]));
    scratch.seal();
    let (folder, disk) = place();
    scratch.store().backup(&disk).unwrap();
    scratch.write(tombstones([hide(first.items[0])]));
    scratch.write(items([note("cedar")]));
    let copied = scratch.store().backup(&disk).unwrap();
    assert_eq!(copied.reused, 1, "the sealed segment");
    let store = opened(&folder);
    assert_eq!(listing_of(&store), listing_of(scratch.store()));
    drop(store);
    scratch.seal();
    scratch.store().compact(&NoThrottle).unwrap();
    scratch.store().backup(&disk).unwrap();
    assert_eq!(listing_of(&opened(&folder)), listing_of(scratch.store()));
}

#[test]
fn backup_during_writes_is_a_consistent_commit() {
    let options = Options { tail_bytes_seal: 4 << 10, ..Options::default() };
    let scratch = ScratchStore::with(options);
    scratch.write(items([note("commit 1 a"), note("commit 1 b")]));
    let (folder, disk) = place();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 2..150 {
                let pair = [note(&format!("commit {n} a")), note(&format!("commit {n} b"))];
                scratch.write(items(pair));
            }
        });
        while !writer.is_finished() {
            let copied = scratch.store().backup(&disk).unwrap();
            let store = opened(&folder);
            assert_eq!(store.snapshot().seq(), copied.seq);
            assert_eq!(store.snapshot().row_counts().unwrap().items, 2 * copied.seq);
        }
    });
}

#[test]
fn corrupt_store_or_backup_is_not_copied() {
    let mut scratch = ScratchStore::unmerged();
    // Long enough for pages that opening does not check.
    scratch.write(items([note(&"amber ".repeat(30_000))]));
    scratch.seal();
    let (folder, disk) = place();
    scratch.store().backup(&disk).unwrap();
    flip(folder.path());
    let (to, target) = place();
    let error = restore(&disk, &target).unwrap_err();
    assert!(error.to_string().contains("MAN-03"), "{error}");
    assert!(matches!(error, CopyError::Source(_)), "{error}");
    drop(to);
    // The next backup detects that its old copy is corrupt, and copies the segment again.
    let copied = scratch.store().backup(&disk).unwrap();
    assert_eq!(copied.reused, 0);
    assert_eq!(listing_of(&opened(&folder)), listing_of(scratch.store()));
    flip(scratch.folder.path());
    scratch.reopen();
    let (_elsewhere, other) = place();
    let error = scratch.store().backup(&other).unwrap_err();
    assert!(error.to_string().contains("MAN-03"), "{error}");
}

/// Returns the access advice of this process for its maps of files below a folder: each range, with the flags that
/// advice sets (proc_pid_smaps(5)).
#[cfg(target_os = "linux")]
fn advised_ranges(root: &Path) -> Vec<(String, Vec<String>)> {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("it is Linux");
    let (mut advised, mut range) = (Vec::new(), None);
    for line in maps.lines() {
        if line.contains(&*root.to_string_lossy()) {
            range = line.split(' ').next();
        } else if let Some(flags) = line.strip_prefix("VmFlags:") {
            let advice = flags.split_whitespace().filter(|flag| ["rr", "sr", "hg"].contains(flag));
            let advice = advice.map(str::to_owned).collect();
            advised.extend(range.take().map(|range| (range.to_owned(), advice)));
        }
    }
    advised
}

/// After a failed backup, the store still serves reads, with the advice for random access.
#[cfg(target_os = "linux")]
#[test]
fn failed_backup_restores_random_access_advice() {
    let mut scratch = ScratchStore::unmerged();
    scratch.write(items([note(&"amber ".repeat(30_000))]));
    scratch.seal();
    scratch.reopen();
    let (_folder, disk) = place();
    let full = FailingDisk::when(Arc::new(disk.clone()), |action, _| action == "create");
    let before = advised_ranges(scratch.folder.path());
    assert!(before.iter().any(|(_, advice)| advice.contains(&"rr".to_owned())), "{before:?}");
    let error = scratch.store().backup(&full).unwrap_err();
    assert!(matches!(error, CopyError::Target(_)), "{error}");
    assert_eq!(advised_ranges(scratch.folder.path()), before);
    flip(scratch.folder.path());
    scratch.reopen();
    let before = advised_ranges(scratch.folder.path());
    let error = scratch.store().backup(&disk).unwrap_err();
    assert!(matches!(error, CopyError::Source(_)), "{error}");
    assert_eq!(advised_ranges(scratch.folder.path()), before);
}

#[test]
fn restore_recreates_the_store_and_overwrites_nothing() {
    let scratch = ScratchStore::unmerged();
    sample::furnish(scratch.store(), Seals(&[2]), |_, _| {}).unwrap();
    let (_backup, disk) = place();
    scratch.store().backup(&disk).unwrap();
    let (folder, target) = place();
    let copied = restore(&disk, &target).unwrap();
    assert_eq!(copied.seq, scratch.snapshot().seq());
    let store = opened(&folder);
    assert_eq!(listing_of(&store), listing_of(scratch.store()));
    store.write(items([note("it takes writes")])).unwrap();
    drop(store);
    let error = restore(&disk, &target).unwrap_err();
    assert!(matches!(error, CopyError::Occupied(_)), "{error}");
    let error = restore(&disk, &*scratch.env().disk).unwrap_err();
    assert!(matches!(error, CopyError::Locked), "{error}");
}

/// A directory that asserts on each read that its lock is taken.
#[derive(Debug)]
struct LockCheckedDisk(FsDisk);

impl LockCheckedDisk {
    fn assert_locked(&self) {
        assert!(self.0.lock().expect("the folder is there").is_none(), "read without the lock");
    }
}

impl Disk for LockCheckedDisk {
    fn lock(&self) -> Result<Option<Box<dyn DiskLock>>, DiskError> {
        self.0.lock()
    }

    fn names(&self) -> Result<Vec<String>, DiskError> {
        self.assert_locked();
        self.0.names()
    }

    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, DiskError> {
        panic!("a backup that is restored is not written to: {name}")
    }

    fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, DiskError> {
        self.assert_locked();
        self.0.read(name, bytes_max)
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskRead>, DiskError> {
        self.assert_locked();
        self.0.open(name)
    }

    fn map(&self, name: &str) -> Result<FileBytes, DiskError> {
        self.assert_locked();
        self.0.map(name)
    }

    fn rename(&self, from: &str, _to: &str) -> Result<(), DiskError> {
        panic!("a backup that is restored is not written to: {from}")
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        panic!("a backup that is restored is not written to: {name}")
    }

    fn sync_names(&self) -> Result<(), DiskError> {
        panic!("a backup that is restored is not written to")
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.0.free_bytes()
    }
}

/// An erasure in a backup opens the backup's store, so a restore and an erasure exclude each other.
#[test]
fn backup_is_locked_while_it_is_restored() {
    let scratch = ScratchStore::unmerged();
    sample::furnish(scratch.store(), Seals(&[1, 3]), |_, _| {}).unwrap();
    let (folder, disk) = place();
    scratch.store().backup(&disk).unwrap();
    let (_restored, target) = place();
    let copied = restore(&LockCheckedDisk(disk.clone()), &target).unwrap();
    assert_eq!(copied.seq, scratch.snapshot().seq());
    let erasing = opened(&folder);
    let (_another, target) = place();
    let error = restore(&disk, &target).unwrap_err();
    assert!(matches!(error, CopyError::Source(OpenError::Locked)), "{error}");
    assert!(target.names().unwrap().iter().all(|name| name == "LOCK"), "nothing is copied");
    drop(erasing);
    restore(&disk, &target).unwrap();
}

/// A crash may leave a partly written file of any kind.
#[test]
fn interrupted_backup_does_not_block_the_next() {
    let scratch = ScratchStore::new();
    scratch.write(items([note("amber")]));
    let (folder, disk) = place();
    for name in ["manifest-00000000000000000001.new", "segment-00000000000000000001.new"] {
        std::fs::write(folder.path().join(name), b"the first bytes of").unwrap();
    }
    scratch.store().backup(&disk).unwrap();
    assert!(disk.names().unwrap().iter().all(|name| !name.ends_with(".new")));
    assert_eq!(listing_of(&opened(&folder)), listing_of(scratch.store()));
}

#[test]
fn backup_of_another_store_is_not_overwritten() {
    let (one, mut other) = (ScratchStore::new(), ScratchStore::new());
    one.write(items([note("one")]));
    other.reopen(); // other randomness, so another id
    other.write(items([note("other")]));
    let (_folder, disk) = place();
    one.store().backup(&disk).unwrap();
    let before = disk.names().unwrap();
    let fresh = ScratchStore::with_seed(99);
    let error = fresh.store().backup(&disk).unwrap_err();
    assert!(matches!(error, CopyError::Occupied(_)), "{error}");
    assert_eq!(disk.names().unwrap(), before);
}

/// An erasure in a backup works as in a store.
#[test]
fn erasure_in_a_backup_removes_the_bytes() {
    let scratch = ScratchStore::new();
    let gone = scratch.write(items([note("zanzibarsecret"), note("amber")])).items[0];
    let (folder, disk) = place();
    scratch.store().backup(&disk).unwrap();
    let store = opened(&folder);
    store.erase(&[gone.0], "officer", "asked for", &NoThrottle).unwrap();
    assert!(search_word(&store.snapshot(), "zanzibarsecret", &Default::default()).is_empty());
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(14).any(|window| window == b"zanzibarsecret"));
    }
}

/// Any store that no process has open can be copied, whatever its logs contain, in any version.
#[test]
fn restore_includes_unsealed_commits() {
    for golden in Golden::kept().unwrap() {
        let name = &golden.name;
        let wanted = MemoryDisk::holding(golden.files.clone());
        let wanted = StoreReader::open(Arc::new(wanted)).unwrap().snapshot();
        let (from, to) = (MemoryDisk::holding(golden.files), MemoryDisk::default());
        let copied = restore(&from, &to).unwrap();
        assert_eq!(copied.seq, wanted.seq(), "{name}");
        let found = StoreReader::open(Arc::new(to)).unwrap().snapshot();
        let asked = Asked::of(&wanted, []).unwrap();
        assert_eq!(listing(&found, &asked).unwrap(), listing(&wanted, &asked).unwrap(), "{name}");
    }
}

#[test]
fn corrupt_wal_is_not_restored() {
    let store = SmallStore::new();
    let name = store.log_name();
    for frame in store.frames() {
        for at in [frame.start, frame.start + 20, frame.end - 1] {
            let mut files = store.closed.clone();
            files.get_mut(name).unwrap()[at] ^= 0x04;
            let to = MemoryDisk::default();
            let error = restore(&MemoryDisk::holding(files), &to).unwrap_err();
            assert!(matches!(error, CopyError::Source(OpenError::Damaged(_))), "{at}: {error}");
            assert!(to.names().unwrap().iter().all(|name| !name.starts_with("manifest")), "{at}");
        }
    }
}

/// Unreadable bytes, of the source or of an old backup, return an error and do not end the process.
#[test]
fn bad_sector_fails_backup_and_restore_with_an_error() {
    let files = SmallStore::new().closed;
    let segment = files.keys().find(|name| name.starts_with("segment-")).unwrap().clone();
    let fine = |files: Files| FailingDisk::when(Arc::new(MemoryDisk::holding(files)), |_, _| false);
    let disk = fine(files.clone());
    let still = ground::still(Arc::new(disk.clone()), 5);
    let store = Store::open(still, ground::unmerged()).unwrap();
    let backup = fine(Files::new());
    store.backup(&backup).unwrap();
    let copies = backup.names().unwrap();
    let copies: Vec<_> = copies.iter().filter(|name| name.starts_with("segment-")).collect();
    backup.spoil(copies[0], 9..10);
    let copied = store.backup(&backup).unwrap();
    let others = copies.len() as u64 - 1;
    assert_eq!(copied.reused, others, "the one that cannot be read is written again");
    disk.spoil(&segment, 9..10);
    let error = store.backup(&fine(Files::new())).unwrap_err();
    assert!(matches!(error, CopyError::Source(OpenError::Disk(_))), "{error}");
    drop(store);
    let error = restore(&disk, &MemoryDisk::default()).unwrap_err();
    assert!(matches!(error, CopyError::Source(OpenError::Disk(_))), "{error}");
}
