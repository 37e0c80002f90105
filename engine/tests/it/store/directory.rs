//! The store directory: its lock, its files, and foreign files that are left alone.

use std::collections::BTreeMap;
use std::path::Path;

use engine::{Env, ItemDraft, OpenError, Options, Store};
use support_engine::ground;
use support_engine::sample::{self, Seals, items, note};

use super::scratch_store::ScratchStore;

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("it can be read").file_name().into_string().expect("ASCII"))
        .collect();
    names.sort();
    names
}

fn starting(folder: &Path, stem: &str) -> usize {
    names(folder).iter().filter(|name| name.starts_with(stem)).count()
}

#[test]
fn second_writer_is_rejected_until_the_first_closes() {
    let mut scratch = ScratchStore::new();
    scratch.write(items([note("mine")]));
    let second = Store::open(ground::folder(scratch.folder.path(), 9), Options::default());
    assert!(matches!(second, Err(OpenError::Locked)), "{second:?}");
    assert_eq!(second.unwrap_err().remedy(), engine::Remedy::RetryLater);
    scratch.write(items([note("still mine")]));
    scratch.close();
    let ground = ground::folder(scratch.folder.path(), 9);
    let second = Store::open(ground, Options::default()).unwrap();
    assert_eq!(second.snapshot().row_counts().unwrap().items, 2);
}

#[test]
fn reopening_keeps_contents_and_starts_a_new_log() {
    let mut scratch = ScratchStore::new();
    scratch.write(items([note("one")]));
    let before = names(scratch.folder.path());
    for _ in 0..3 {
        scratch.reopen();
        assert_eq!(names(scratch.folder.path()), before);
        assert_eq!(scratch.snapshot().seq(), 1);
    }
    scratch.write(items([note("two")]));
    assert_eq!(starting(scratch.folder.path(), "log-"), 2);
    scratch.reopen();
    assert_eq!(scratch.snapshot().seq(), 2);
}

#[test]
fn sealing_leaves_one_manifest_and_one_state_per_segment() {
    let mut scratch = ScratchStore::unmerged();
    sample::furnish(scratch.store(), Seals(&[1, 3]), |_, _| {}).unwrap();
    scratch.seal();
    let root = scratch.folder.path().to_owned();
    let count = |stem| starting(&root, stem);
    assert_eq!((count("manifest-"), count("log-"), count("segment-")), (1, 1, 3));
    // Rows of all segments but the last were retired after sealing.
    assert_eq!(count("state-"), 2);
    let before = names(&root);
    scratch.seal(); // nothing to seal
    assert_eq!(names(&root), before);
    scratch.reopen();
    assert_eq!(names(&root), before);
    assert_eq!(scratch.snapshot().row_counts().unwrap().segments, 3);
}

#[test]
fn sealing_merges_small_preceding_segments() {
    let mut scratch = ScratchStore::new();
    for n in 0..20 {
        scratch.write(items([note(&format!("text number {n}"))]));
        scratch.seal();
    }
    let segments = starting(scratch.folder.path(), "segment-");
    assert!(segments <= 3, "{segments} segments of 20 small ones");
    scratch.reopen();
    let counts = scratch.snapshot().row_counts().unwrap();
    assert_eq!((counts.items, counts.segments), (20, segments as u64));
}

#[test]
fn the_tail_is_sealed_when_it_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { tail_bytes_seal: 40_000, merge_bytes_max: 0, ..Options::default() };
    let store = Store::open(ground::folder(folder.path(), 1), options).unwrap();
    let mut written = 0;
    while starting(folder.path(), "segment-") < 3 {
        assert!(written < 500, "the tail grows and grows");
        store.write(items([note(&format!("text number {written}"))])).unwrap();
        written += 1;
    }
    assert_eq!(store.snapshot().row_counts().unwrap().items, written);
    drop(store);
    let store = Store::open(ground::folder(folder.path(), 2), options).unwrap();
    assert_eq!(store.snapshot().row_counts().unwrap().items, written);
}

/// Names used again and again are stored once in a segment but every time in a log, so a small tail can have a large
/// log. The tail is sealed before the log exceeds the size that an opening should replay.
#[test]
fn the_tail_is_sealed_when_its_log_is_long() {
    let mut scratch = ScratchStore::new();
    let tags: Vec<String> = (0..engine::limits::LIST_MAX).map(|n| format!("{n:0256}")).collect();
    let item = ItemDraft { tags: tags.clone(), gates: tags, searchable: false, ..note("") };
    let batch = items(vec![item; 400]); // about 52 MB of log, less than 2 MB of segment
    let mut batches = 0;
    while starting(scratch.folder.path(), "segment-") == 0 {
        scratch.write(batch.clone());
        batches += 1;
        assert!(batches < 12, "the log grows and grows");
    }
    scratch.reopen();
    assert_eq!(scratch.snapshot().row_counts().unwrap().items, 400 * batches);
}

#[test]
fn foreign_files_are_left_untouched() {
    let mut scratch = ScratchStore::new();
    sample::furnish(scratch.store(), Seals(&[2]), |_, _| {}).unwrap();
    let root = scratch.folder.path().to_owned();
    let strange = [
        "notes.txt",
        "notes.new",
        "state-of-the-art",
        "state-1-1",
        "segment-7",
        "segment-00000000000000000007.bak",
        "log-0000000000000000000x",
        "manifest-99999999999999999999", // larger than any number
        "manifest",
    ];
    for name in strange {
        std::fs::write(root.join(name), b"not a store's").unwrap();
    }
    std::fs::create_dir(root.join("backups")).unwrap();
    let files = names(&root);
    scratch.reopen();
    assert_eq!(names(&root), files);
    scratch.seal();
    scratch.reopen();
    for name in strange.iter().chain(&["backups"]) {
        assert!(root.join(name).exists(), "{name} is gone");
    }
}

#[test]
fn crash_leftovers_are_removed_on_open() {
    let mut scratch = ScratchStore::new();
    sample::furnish(scratch.store(), Seals(&[2]), |_, _| {}).unwrap();
    scratch.close();
    let root = scratch.folder.path().to_owned();
    let before = names(&root);
    let leftovers = [
        "manifest-00000000000000000001",
        "manifest-00000000000000000009.new",
        "segment-00000000000000000099",
        "segment-00000000000000000098.new",
        "state-00000000000000000002-00000000000000000007",
        "state-00000000000000000002-00000000000000000008.new",
    ];
    for name in leftovers {
        std::fs::write(root.join(name), b"half").unwrap();
    }
    scratch.reopen();
    assert_eq!(names(&root), before);
    assert_eq!(scratch.snapshot().seq(), sample::STEPS as u64);
}

/// The header of a log is synced before its first frame is written. So a log without a frame has lost nothing, whatever
/// its header: a power cut can leave the header's length without its bytes.
#[test]
fn wal_with_a_torn_header_is_empty() {
    let mut scratch = ScratchStore::new();
    scratch.write(items([note("kept")]));
    scratch.close();
    for bytes in [0, 1, 63, 64] {
        let name = format!("log-{:020}", 40 + bytes);
        std::fs::write(scratch.folder.path().join(name), vec![0; bytes]).unwrap();
        scratch.reopen();
        assert_eq!(scratch.snapshot().seq(), 1);
        scratch.close();
    }
    scratch.reopen();
    assert_eq!(scratch.write(items([note("next")])).seq, 2);
    scratch.reopen();
    assert_eq!(scratch.snapshot().row_counts().unwrap().items, 2);
}

#[test]
fn bytes_on_disk_equals_the_sum_of_file_sizes() {
    let mut scratch = ScratchStore::new();
    let real = |root: &Path| -> u64 {
        let sizes = names(root)
            .into_iter()
            .map(|name| std::fs::metadata(root.join(name)).expect("it was listed").len());
        sizes.sum()
    };
    let root = scratch.folder.path().to_owned();
    assert_eq!(scratch.store().bytes_on_disk(), real(&root));
    sample::furnish(scratch.store(), Seals(&[1, 3]), |_, _| {}).unwrap();
    assert_eq!(scratch.store().bytes_on_disk(), real(&root), "segments, states and a log");
    scratch.reopen();
    assert_eq!(scratch.store().bytes_on_disk(), real(&root), "replayed");
    scratch.write(items([note("more")]));
    assert_eq!(scratch.store().bytes_on_disk(), real(&root), "two logs");
    scratch.seal();
    assert_eq!(scratch.store().bytes_on_disk(), real(&root), "sealed");
}

#[test]
fn directory_with_files_but_no_manifest_is_rejected() {
    let mut scratch = ScratchStore::new();
    scratch.write(items([note("one")]));
    scratch.close();
    let root = scratch.folder.path().to_owned();
    for name in names(&root).iter().filter(|name| name.starts_with("manifest-")) {
        std::fs::remove_file(root.join(name)).unwrap();
    }
    let before: BTreeMap<_, _> = names(&root)
        .into_iter()
        .map(|name| (name.clone(), std::fs::read(root.join(name)).unwrap()))
        .collect();
    let error = scratch.try_open().unwrap_err();
    assert!(error.to_string().contains("MAN-03"), "{error}");
    assert_eq!(error.remedy(), engine::Remedy::Restore);
    for (name, bytes) in before {
        assert_eq!(std::fs::read(root.join(&name)).unwrap(), bytes, "{name} was changed");
    }
}

#[test]
fn missing_directory_is_created_and_a_file_in_its_place_fails() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a/b/store");
    let store = Store::open(ground::folder(&deep, 1), Options::default()).unwrap();
    drop(store);
    assert!(deep.join("LOCK").exists());
    let file = folder.path().join("file");
    std::fs::write(&file, b"").unwrap();
    assert!(Env::on_disk(&file).is_err());
}
