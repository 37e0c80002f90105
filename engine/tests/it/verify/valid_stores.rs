//! Verification of undamaged stores has no findings, whatever their history.

use std::sync::Arc;

use engine::{NoThrottle, Options, Store, VerifyReport, verify};
use support_engine::golden::Golden;
use support_engine::memory_disk::{Files, MemoryDisk};
use support_engine::sample::{items, note};
use support_engine::small_store::SmallStore;
use support_engine::{ground, random_store};

pub(crate) fn verified(files: &Files) -> VerifyReport {
    let disk = MemoryDisk::holding(files.clone());
    let verified = verify(&disk, &mut |_| {}).expect("it can be read");
    assert_eq!(disk.files(), *files, "nothing is changed");
    verified
}

pub(crate) fn assert_clean(files: &Files, what: &str) -> VerifyReport {
    let verified = verified(files);
    assert_eq!(verified.findings, [], "{what}");
    verified
}

#[test]
fn golden_stores_of_every_version_verify_clean() {
    for golden in Golden::kept().unwrap() {
        let verified = assert_clean(&golden.files, &golden.name);
        let items = golden.wanted["shows"]["items"].as_array().unwrap().len();
        assert_eq!(verified.totals.items, items as u64, "{}", golden.name);
        // A single segment is enough if the store demonstrates an index.
        let least = if golden.name.ends_with("index") { (1, 0) } else { (2, 1) };
        let walked = (verified.totals.segments, verified.totals.states);
        assert!(walked.0 >= least.0 && walked.1 >= least.1, "{}: {walked:?}", golden.name);
        let is_torn = golden.name.ends_with("torn");
        assert_eq!(!verified.notes.is_empty(), is_torn, "{:?}", verified.notes);
    }
}

#[test]
fn small_store_verifies_clean_killed_or_closed() {
    let store = SmallStore::new();
    assert_clean(&store.files, "killed");
    assert_clean(&store.closed, "closed");
}

/// Random rows, seals, merges, compaction, erasure, a backup, a second open: clean at each step.
#[test]
fn random_stores_verify_clean_at_every_step() {
    for seed in 0..6 {
        let disk = MemoryDisk::default();
        let still = ground::still(Arc::new(disk.clone()), seed);
        let options = if seed % 2 == 0 { ground::unmerged() } else { Options::default() };
        let store = Store::open(still, options).unwrap();
        random_store::fill(&store, seed, 25, seed % 3 == 0);
        assert_clean(&disk.files(), &format!("seed {seed}, beside its writer"));
        store.erase_pending(&NoThrottle).unwrap();
        assert_clean(&disk.files(), &format!("seed {seed}, erased"));
        while let engine::CompactionOutcome::Merged { .. } = store.compact(&NoThrottle).unwrap() {}
        assert_clean(&disk.files(), &format!("seed {seed}, compacted"));
        store.write(items([note("one more")])).unwrap();
        let backup = MemoryDisk::default();
        store.backup(&backup).unwrap();
        let copied = assert_clean(&backup.files(), &format!("seed {seed}, a backup"));
        assert_eq!(copied.seq, store.snapshot().seq());
        drop(store);
        let closed = assert_clean(&disk.files(), &format!("seed {seed}, closed"));
        assert_eq!(closed.notes, [] as [String; 0]);
    }
}

#[test]
fn leftover_and_foreign_files_are_reported_as_notes() {
    let mut files = SmallStore::new().closed;
    let names = ["segment-00000000000000000099", "manifest-00000000000000000001", "notes.txt"];
    for name in names.iter().chain(&["segment-00000000000000000098.new"]) {
        files.insert((*name).to_owned(), b"anything".to_vec());
    }
    let verified = assert_clean(&files, "with leftovers");
    assert_eq!(verified.notes.len(), 4, "{:?}", verified.notes);
}

#[test]
fn verify_of_an_empty_directory_fails() {
    let error = verify(&MemoryDisk::default(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, engine::OpenError::NoStore), "{error}");
}
