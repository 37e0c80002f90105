//! Background work beside reads and writes: group commit, compaction, maintenance threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::{
    BackgroundWorkers, CompactionOutcome, Durability, NoThrottle, Options, Store, StoreReader,
    Throttle,
};
use support_engine::failing_disk::{FailingDisk, Refuses};
use support_engine::ground;
use support_engine::listing::{Asked, listing};
use support_engine::memory_disk::MemoryDisk;
use support_engine::patience::wait_until;
use support_engine::sample::{self, Seals, hide, items, note, tombstones};

use super::scratch_store::{ScratchStore, search_word};

const WRITERS: usize = 8;
const WRITES_PER_WRITER: usize = 25;

/// Returns a distinct word for each write; digits would be split off.
fn word(writer: usize, n: usize) -> String {
    let letter = |n: usize| char::from(b"abcdefghijklmnopqrstuvwxyz"[n]);
    format!("zq{}{}qz", letter(writer), letter(n))
}

fn listing_of(store: &Store) -> serde_json::Value {
    let snapshot = store.snapshot();
    let asked = Asked::of(&snapshot, []).expect("no damage");
    listing(&snapshot, &asked).expect("no damage")
}

/// Options with which every seal leaves a segment of its own until compaction merges the segments.
fn unmerged_options() -> Options {
    Options { merge_bytes_max: 0, ..Options::default() }
}

#[test]
fn concurrent_writers_see_their_own_writes_and_lose_none() {
    let mut scratch = ScratchStore::new();
    let store = scratch.store();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                for n in 0..WRITES_PER_WRITER {
                    let word = word(writer, n);
                    let written = store.write(items([note(&word)])).expect("the batch is right");
                    let snapshot = store.snapshot();
                    assert!(snapshot.seq() >= written.seq, "an acknowledged write is shown");
                    assert_eq!(search_word(&snapshot, &word, &Default::default()), written.items);
                }
            });
        }
    });
    assert_eq!(store.snapshot().seq(), (WRITERS * WRITES_PER_WRITER) as u64);
    let before = listing_of(store);
    scratch.reopen();
    assert_eq!(listing_of(scratch.store()), before);
}

/// Counts pieces and cancels the job at one of them.
struct CancelAtBytes {
    piece: usize,
    seen: AtomicUsize,
}

impl Throttle for CancelAtBytes {
    fn after_write(&self, bytes: usize) -> bool {
        assert!(bytes > 0, "a piece has bytes");
        self.seen.fetch_add(1, Ordering::SeqCst) != self.piece
    }
}

fn with_segments(scratch: &ScratchStore, segments: usize) {
    for n in 0..segments {
        scratch.write(items([note(&format!("segment {n} common"))]));
        scratch.seal();
    }
}

#[test]
fn compaction_merges_similar_segments_without_visible_change() {
    let mut scratch = ScratchStore::with(unmerged_options());
    sample::furnish(scratch.store(), Seals(&[0, 1, 2, 3, 4, 5]), |_, _| {}).unwrap();
    let before = listing_of(scratch.store());
    let held = scratch.snapshot();
    let counts = held.row_counts().unwrap();
    let compacted = scratch.store().compact(&NoThrottle).unwrap();
    assert!(matches!(compacted, CompactionOutcome::Merged { segments: 6, .. }), "{compacted:?}");
    assert_eq!(listing_of(scratch.store()), before);
    assert_eq!(scratch.snapshot().row_counts().unwrap().segments, 1);
    assert_eq!(held.row_counts().unwrap(), counts, "an older snapshot stays as it is");
    assert_eq!(scratch.store().compact(&NoThrottle).unwrap(), CompactionOutcome::NothingToDo);
    scratch.reopen();
    assert_eq!(listing_of(scratch.store()), before);
    let files = std::fs::read_dir(scratch.folder.path()).unwrap().count();
    assert_eq!(files, 5, "manifest, segment, state, log and lock");
}

#[test]
fn rows_retired_during_compaction_stay_retired() {
    struct RetireDuringRewrite<'a> {
        scratch: &'a ScratchStore,
        target: engine::ItemId,
    }
    impl Throttle for RetireDuringRewrite<'_> {
        fn after_write(&self, _bytes: usize) -> bool {
            self.scratch.write(tombstones([hide(self.target)]));
            true
        }
    }
    let mut scratch = ScratchStore::with(unmerged_options());
    let target = scratch.write(items([note("amber to hide")])).items[0];
    with_segments(&scratch, 4);
    let pace = RetireDuringRewrite { scratch: &scratch, target };
    let compacted = scratch.store().compact(&pace).unwrap();
    assert!(matches!(compacted, CompactionOutcome::Merged { .. }), "{compacted:?}");
    assert!(search_word(&scratch.snapshot(), "amber", &Default::default()).is_empty());
    scratch.reopen();
    assert!(search_word(&scratch.snapshot(), "amber", &Default::default()).is_empty());
    assert_eq!(scratch.snapshot().row_counts().unwrap().tombstoned, 1);
}

#[test]
fn cancelled_compaction_leaves_the_store_unchanged() {
    let mut scratch = ScratchStore::with(unmerged_options());
    with_segments(&scratch, 5);
    let before = listing_of(scratch.store());
    let pace = CancelAtBytes { piece: 0, seen: AtomicUsize::new(0) };
    assert_eq!(scratch.store().compact(&pace).unwrap(), CompactionOutcome::Cancelled);
    assert_eq!(scratch.snapshot().row_counts().unwrap().segments, 5);
    let compacted = scratch.store().compact(&NoThrottle).unwrap();
    assert!(matches!(compacted, CompactionOutcome::Merged { segments: 5, .. }), "{compacted:?}");
    assert_eq!(listing_of(scratch.store()), before);
    scratch.reopen();
    assert_eq!(listing_of(scratch.store()), before);
}

/// Any operation of a compaction may fail: the writer continues, unless the manifest write failed.
#[test]
fn compaction_failure_before_the_manifest_keeps_the_writer_open() {
    let furnished = || {
        let beneath = MemoryDisk::default();
        let store = Store::open(ground::still(Arc::new(beneath.clone()), 5), unmerged_options());
        let store = store.expect("a new store opens");
        for n in 0..4 {
            store.write(items([note(&format!("item {n}"))])).expect("the disk works");
            store.seal().expect("the disk works");
        }
        drop(store);
        beneath
    };
    let (mut postponed, mut stopped) = (0, 0);
    for at in 0.. {
        let beneath = furnished();
        let disk = FailingDisk::new(Arc::new(beneath.clone()), at, Refuses::Once);
        let ground = ground::still(Arc::new(disk.clone()), 6);
        let Ok(store) = Store::open(ground, unmerged_options()) else { continue };
        let compacted = store.compact(&NoThrottle);
        match &compacted {
            Ok(_) => {}
            Err(engine::WriteError::Postponed { .. }) => {
                postponed += 1;
                assert!(store.stop_reason().is_none());
                store.write(items([note("the writer goes on")])).expect("the disk works again");
                let again = store.compact(&NoThrottle).expect("the disk works again");
                assert!(
                    matches!(again, CompactionOutcome::Merged { segments: 4, .. }),
                    "{again:?}"
                );
            }
            Err(_) => {
                stopped += 1;
                assert!(store.stop_reason().is_some());
            }
        }
        let before = listing_of(&store);
        drop(store);
        let store = Store::open(ground::still(Arc::new(beneath), 7), unmerged_options());
        assert_eq!(listing_of(&store.expect("it opens")), before);
        if compacted.is_ok() && !disk.has_refused() {
            break;
        }
    }
    assert!(postponed >= 3 && stopped >= 1, "{postponed} postponed, {stopped} stopped");
}

#[test]
fn background_workers_seal_full_tails_and_compact() {
    let options = Options { tail_bytes_seal: 16 << 10, merge_bytes_max: 0, ..Options::default() };
    let mut scratch = ScratchStore::with(options);
    let store = scratch.share();
    let upkeep = BackgroundWorkers::start(Arc::clone(&store)).unwrap();
    for n in 0..300 {
        store.write(items([note(&format!("kept {n} {}", "word ".repeat(40)))])).unwrap();
    }
    let is_segment = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.unwrap().file_name().to_string_lossy().starts_with("segment-")
    };
    let folder = scratch.folder.path();
    // The maintenance thread may be scheduled only after all writes.
    wait_until("the tail is sealed", || std::fs::read_dir(folder).unwrap().any(is_segment));
    drop(upkeep);
    let parts = store.snapshot().row_counts().unwrap().segments;
    let before = listing_of(&store);
    assert!(parts < 30, "{parts} parts");
    drop(store);
    scratch.reopen();
    assert_eq!(listing_of(scratch.store()), before);
}

#[test]
fn interval_durability_shows_writes_before_syncing() {
    let durability = Durability::Interval(Duration::from_millis(1));
    let scratch = ScratchStore::with(Options { durability, ..Options::default() });
    let written = scratch.write(items([note("amber")]));
    assert_eq!(search_word(&scratch.snapshot(), "amber", &Default::default()), written.items);
    scratch.store().sync().unwrap();
    scratch.store().sync().unwrap();
    assert_eq!(scratch.snapshot().seq(), written.seq);
}

/// Another process reads the store while a writer writes, seals and compacts.
#[test]
fn concurrent_reader_sees_whole_commits_in_order() {
    let scratch = ScratchStore::with(Options { tail_bytes_seal: 4 << 10, ..unmerged_options() });
    scratch.write(items([note("commit 1 a"), note("commit 1 b")]));
    let disk = scratch.env().disk;
    let reader = StoreReader::open(disk).unwrap();
    assert_eq!(reader.snapshot().row_counts().unwrap().items, 2);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 2..200 {
                let pair = [note(&format!("commit {n} a")), note(&format!("commit {n} b"))];
                scratch.write(items(pair));
                if n % 20 == 0 {
                    scratch.store().compact(&NoThrottle).unwrap();
                }
            }
        });
        let mut last = 1;
        while !writer.is_finished() {
            let seq = reader.refresh().unwrap();
            assert!(seq >= last, "{seq} after {last}");
            last = seq;
            assert_eq!(
                reader.snapshot().row_counts().unwrap().items,
                2 * seq,
                "a batch is whole or not there"
            );
        }
    });
    assert_eq!(reader.refresh().unwrap(), 199);
    let snapshot = reader.snapshot();
    let asked = Asked::of(&snapshot, []).unwrap();
    assert_eq!(listing(&snapshot, &asked).unwrap(), listing_of(scratch.store()));
}

/// With an interval, writers do not sync; the maintenance thread does.
#[test]
fn background_workers_sync_at_the_interval() {
    let (tell, told) = std::sync::mpsc::channel();
    let disk = FailingDisk::when(Arc::new(MemoryDisk::default()), move |action, name| {
        if action == "sync" && name.starts_with("log-") {
            // The receiver is gone once the test has seen the sync.
            let _ended = tell.send(());
        }
        false
    });
    let durability = Durability::Interval(Duration::from_millis(1));
    let options = Options { durability, ..Options::default() };
    let store = Store::open(ground::still(Arc::new(disk), 1), options).expect("it is new");
    store.write(items([note("the first makes the log")])).expect("it is written");
    while told.try_recv().is_ok() {}
    let store = Arc::new(store);
    store.write(items([note("unsynced")])).expect("it is written");
    assert!(told.try_recv().is_err(), "a write waits for no sync");
    let upkeep = BackgroundWorkers::start(Arc::clone(&store)).expect("threads start");
    told.recv_timeout(Duration::from_secs(60)).expect("upkeep syncs the log");
    drop(upkeep);
}
