//! Background work beside reads and writes: group commit, compaction, maintenance threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::{Compacted, Durability, FullSpeed, Options, Pace, Reader, Store, Upkeep};
use support_engine::failing_disk::{FailingDisk, Refuses};
use support_engine::ground;
use support_engine::listing::{Asked, listing};
use support_engine::memory_disk::MemoryDisk;
use support_engine::patience::wait_until;
use support_engine::sample::{self, Seals, hide, items, note, tombstones};

use super::scratch::{Scratch, by_word};

const WRITERS: usize = 8;
const EACH: usize = 25;

/// Returns a distinct word for each write; digits would be split off.
fn word(writer: usize, n: usize) -> String {
    let letter = |n: usize| char::from(b"abcdefghijklmnopqrstuvwxyz"[n]);
    format!("zq{}{}qz", letter(writer), letter(n))
}

fn shown(store: &Store) -> serde_json::Value {
    let snapshot = store.snapshot();
    let asked = Asked::of(&snapshot, []).expect("no damage");
    listing(&snapshot, &asked).expect("no damage")
}

/// Options with which every seal leaves a segment of its own until compaction merges the segments.
fn many_segments() -> Options {
    Options { merge_bytes_max: 0, ..Options::default() }
}

#[test]
fn writers_at_the_same_time_each_see_their_own_write_and_lose_none() {
    let mut scratch = Scratch::new();
    let store = scratch.store();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                for n in 0..EACH {
                    let word = word(writer, n);
                    let written = store.write(items([note(&word)])).expect("the batch is right");
                    let snapshot = store.snapshot();
                    assert!(snapshot.seq() >= written.seq, "an acknowledged write is shown");
                    assert_eq!(by_word(&snapshot, &word, &Default::default()), written.items);
                }
            });
        }
    });
    assert_eq!(store.snapshot().seq(), (WRITERS * EACH) as u64);
    let before = shown(store);
    scratch.reopen();
    assert_eq!(shown(scratch.store()), before);
}

/// Counts pieces and cancels the job at one of them.
struct EndAt {
    piece: usize,
    seen: AtomicUsize,
}

impl Pace for EndAt {
    fn wrote(&self, bytes: usize) -> bool {
        assert!(bytes > 0, "a piece has bytes");
        self.seen.fetch_add(1, Ordering::SeqCst) != self.piece
    }
}

fn with_segments(scratch: &Scratch, segments: usize) {
    for n in 0..segments {
        scratch.write(items([note(&format!("segment {n} common"))]));
        scratch.seal();
    }
}

#[test]
fn compaction_merges_like_segments_and_changes_nothing_that_is_shown() {
    let mut scratch = Scratch::with(many_segments());
    sample::furnish(scratch.store(), Seals(&[0, 1, 2, 3, 4, 5]), |_, _| {}).unwrap();
    let before = shown(scratch.store());
    let held = scratch.snapshot();
    let counts = held.counts().unwrap();
    let compacted = scratch.store().compact(&FullSpeed).unwrap();
    assert!(matches!(compacted, Compacted::Merged { segments: 6, .. }), "{compacted:?}");
    assert_eq!(shown(scratch.store()), before);
    assert_eq!(scratch.snapshot().counts().unwrap().parts, 1);
    assert_eq!(held.counts().unwrap(), counts, "an older snapshot stays as it is");
    assert_eq!(scratch.store().compact(&FullSpeed).unwrap(), Compacted::Nothing);
    scratch.reopen();
    assert_eq!(shown(scratch.store()), before);
    let files = std::fs::read_dir(scratch.folder.path()).unwrap().count();
    assert_eq!(files, 5, "manifest, segment, state, log and lock");
}

#[test]
fn rows_retired_while_compaction_runs_stay_retired() {
    struct Retire<'a> {
        scratch: &'a Scratch,
        target: engine::ItemId,
    }
    impl Pace for Retire<'_> {
        fn wrote(&self, _bytes: usize) -> bool {
            self.scratch.write(tombstones([hide(self.target)]));
            true
        }
    }
    let mut scratch = Scratch::with(many_segments());
    let target = scratch.write(items([note("amber to hide")])).items[0];
    with_segments(&scratch, 4);
    let pace = Retire { scratch: &scratch, target };
    let compacted = scratch.store().compact(&pace).unwrap();
    assert!(matches!(compacted, Compacted::Merged { .. }), "{compacted:?}");
    assert!(by_word(&scratch.snapshot(), "amber", &Default::default()).is_empty());
    scratch.reopen();
    assert!(by_word(&scratch.snapshot(), "amber", &Default::default()).is_empty());
    assert_eq!(scratch.snapshot().counts().unwrap().tombstoned, 1);
}

#[test]
fn a_compaction_that_is_ended_leaves_everything_as_it_was() {
    let mut scratch = Scratch::with(many_segments());
    with_segments(&scratch, 5);
    let before = shown(scratch.store());
    let pace = EndAt { piece: 0, seen: AtomicUsize::new(0) };
    assert_eq!(scratch.store().compact(&pace).unwrap(), Compacted::Cancelled);
    assert_eq!(scratch.snapshot().counts().unwrap().parts, 5);
    let compacted = scratch.store().compact(&FullSpeed).unwrap();
    assert!(matches!(compacted, Compacted::Merged { segments: 5, .. }), "{compacted:?}");
    assert_eq!(shown(scratch.store()), before);
    scratch.reopen();
    assert_eq!(shown(scratch.store()), before);
}

/// Any operation of a compaction may fail: the writer continues, unless the manifest write failed.
#[test]
fn a_compaction_that_fails_stops_nothing_before_the_manifest() {
    let furnished = || {
        let beneath = MemoryDisk::default();
        let store = Store::open(ground::still(Arc::new(beneath.clone()), 5), many_segments());
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
        let Ok(store) = Store::open(ground, many_segments()) else { continue };
        let compacted = store.compact(&FullSpeed);
        match &compacted {
            Ok(_) => {}
            Err(engine::WriteError::Postponed { .. }) => {
                postponed += 1;
                assert!(store.stopped().is_none());
                store.write(items([note("the writer goes on")])).expect("the disk works again");
                let again = store.compact(&FullSpeed).expect("the disk works again");
                assert!(matches!(again, Compacted::Merged { segments: 4, .. }), "{again:?}");
            }
            Err(_) => {
                stopped += 1;
                assert!(store.stopped().is_some());
            }
        }
        let before = shown(&store);
        drop(store);
        let store = Store::open(ground::still(Arc::new(beneath), 7), many_segments());
        assert_eq!(shown(&store.expect("it opens")), before);
        if compacted.is_ok() && !disk.has_refused() {
            break;
        }
    }
    assert!(postponed >= 3 && stopped >= 1, "{postponed} postponed, {stopped} stopped");
}

#[test]
fn upkeep_seals_a_full_tail_and_compacts_behind_the_writers() {
    let options = Options { tail_bytes_seal: 16 << 10, merge_bytes_max: 0, ..Options::default() };
    let mut scratch = Scratch::with(options);
    let store = scratch.share();
    let upkeep = Upkeep::start(Arc::clone(&store)).unwrap();
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
    let parts = store.snapshot().counts().unwrap().parts;
    let before = shown(&store);
    assert!(parts < 30, "{parts} parts");
    drop(store);
    scratch.reopen();
    assert_eq!(shown(scratch.store()), before);
}

#[test]
fn with_an_interval_a_write_is_shown_at_once_and_synced_later() {
    let durability = Durability::Interval(Duration::from_millis(1));
    let scratch = Scratch::with(Options { durability, ..Options::default() });
    let written = scratch.write(items([note("amber")]));
    assert_eq!(by_word(&scratch.snapshot(), "amber", &Default::default()), written.items);
    scratch.store().sync().unwrap();
    scratch.store().sync().unwrap();
    assert_eq!(scratch.snapshot().seq(), written.seq);
}

/// Another process reads the store while a writer writes, seals and compacts.
#[test]
fn a_reader_beside_the_writer_sees_whole_commits_in_their_order() {
    let scratch = Scratch::with(Options { tail_bytes_seal: 4 << 10, ..many_segments() });
    scratch.write(items([note("commit 1 a"), note("commit 1 b")]));
    let disk = scratch.ground().disk;
    let reader = Reader::open(disk).unwrap();
    assert_eq!(reader.snapshot().counts().unwrap().items, 2);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 2..200 {
                let pair = [note(&format!("commit {n} a")), note(&format!("commit {n} b"))];
                scratch.write(items(pair));
                if n % 20 == 0 {
                    scratch.store().compact(&FullSpeed).unwrap();
                }
            }
        });
        let mut last = 1;
        while !writer.is_finished() {
            let seq = reader.refresh().unwrap();
            assert!(seq >= last, "{seq} after {last}");
            last = seq;
            assert_eq!(
                reader.snapshot().counts().unwrap().items,
                2 * seq,
                "a batch is whole or not there"
            );
        }
    });
    assert_eq!(reader.refresh().unwrap(), 199);
    let snapshot = reader.snapshot();
    let asked = Asked::of(&snapshot, []).unwrap();
    assert_eq!(listing(&snapshot, &asked).unwrap(), shown(scratch.store()));
}

/// With an interval, writers do not sync; the maintenance thread does.
#[test]
fn upkeep_syncs_at_intervals_what_no_write_syncs() {
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
    let upkeep = Upkeep::start(Arc::clone(&store)).expect("threads start");
    told.recv_timeout(Duration::from_secs(60)).expect("upkeep syncs the log");
    drop(upkeep);
}
