//! Snapshots do not change while the store is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use engine::{ItemDraft, Snapshot};
use support_engine::listing::{Asked, listing};
use support_engine::sample::{self, MODEL, Seals, hide, items, note, tombstones};

use super::scratch_store::ScratchStore;

fn listed(snapshot: &Snapshot) -> serde_json::Value {
    let asked = Asked::of(snapshot, []).expect("no damage");
    listing(snapshot, &asked).expect("no damage")
}

#[test]
fn snapshot_shows_its_commit_and_nothing_later() {
    let scratch = ScratchStore::new();
    let mut seen = Vec::new();
    sample::furnish(scratch.store(), Seals(&[1, 3]), |store, written| {
        let snapshot = store.snapshot();
        assert_eq!(snapshot.seq(), written.seq);
        let now = listed(&snapshot);
        seen.push((snapshot, now));
    })
    .unwrap();
    for (snapshot, then) in &seen {
        assert_eq!(listed(snapshot), *then, "commit {}", snapshot.seq());
    }
}

/// A snapshot outlives the files that it reads and the store that it came from.
#[test]
fn snapshot_outlives_its_store_and_logs() {
    let mut scratch = ScratchStore::new();
    sample::furnish(scratch.store(), Seals(&[2]), |_, _| {}).unwrap();
    let snapshot = scratch.snapshot();
    let then = listed(&snapshot);
    scratch.seal();
    scratch.close();
    for entry in std::fs::read_dir(scratch.folder.path()).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(listed(&snapshot), then);
}

/// Readers on other threads list one snapshot each again and again, then the next snapshot, while a writer adds,
/// replaces, hides and seals.
#[test]
fn concurrent_readers_see_monotonic_consistent_snapshots() {
    const COMMITS: u64 = 60;
    const READERS: usize = 3;
    let scratch = ScratchStore::new();
    scratch.store().bind_model(MODEL).unwrap();
    scratch.write(items([note("word 0")]));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut last = 0;
                    loop {
                        let is_last_round = done.load(Ordering::SeqCst);
                        let snapshot = scratch.snapshot();
                        assert!(snapshot.seq() >= last, "time runs one way");
                        last = snapshot.seq();
                        let first = listed(&snapshot);
                        assert_eq!(listed(&snapshot), first);
                        if is_last_round {
                            return last;
                        }
                    }
                })
            })
            .collect();
        let mut before = None;
        for n in 0..COMMITS {
            let draft = ItemDraft {
                supersedes: before.into_iter().collect(),
                ..note(&format!("word {n}"))
            };
            let made = scratch.write(items([draft, note("passing")])).items;
            before = Some(made[0]);
            scratch.write(tombstones([hide(made[1])]));
            if n % 16 == 5 {
                scratch.seal();
            }
        }
        done.store(true, Ordering::SeqCst);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), 1 + 2 * COMMITS);
        }
    });
}

#[test]
fn commit_listener_is_called_for_every_new_snapshot() {
    let scratch = ScratchStore::new();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let tell = move || {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    assert!(scratch.store().on_commit(tell));
    assert!(!scratch.store().on_commit(|| {}), "the first stays");
    sample::furnish(scratch.store(), Seals(&[]), |_, written| {
        assert!(count.load(Ordering::SeqCst) > 0, "commit {}", written.seq);
        count.store(0, Ordering::SeqCst);
    })
    .unwrap();
}
