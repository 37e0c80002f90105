//! Golden stores: every stored version is readable, and the newest is reproducible.

use std::sync::Arc;

use engine::{Options, Store};
use support_engine::golden::{Golden, folder, indexed_options, made};
use support_engine::ground;
use support_engine::memory_disk::MemoryDisk;
use support_engine::sample::{items, note};

#[test]
fn golden_stores_match_their_recorded_listing() {
    let kept = Golden::kept().unwrap();
    assert!(!kept.is_empty());
    for golden in kept {
        let shown = golden.shown();
        let items = golden.wanted["shows"]["items"].as_array().unwrap();
        assert!(!items.is_empty(), "{} shows no items", golden.name);
        for (found, wanted) in shown["items"].as_array().unwrap().iter().zip(items) {
            assert_eq!(found, wanted, "{}", golden.name);
        }
        assert_eq!(shown, golden.wanted["shows"], "{}", golden.name);
    }
}

#[test]
fn golden_index_is_opened_and_used() {
    let kept = Golden::kept().unwrap();
    let golden = kept.iter().find(|golden| golden.name == "v2-index").expect("it is kept");
    let open = |disk: MemoryDisk| Store::open(ground::still(Arc::new(disk), 4), indexed_options());
    let store = open(MemoryDisk::holding(golden.files.clone())).unwrap();
    let state = store.snapshot().ann_status();
    assert_eq!(state.indexed_rows, 240, "{state:?}");
    assert!(state.is_approximate && state.neighbours_measured > 0, "{state:?}");
}

/// A writer continues where an older version stopped, and from then on a missing log is detected.
#[test]
fn golden_stores_accept_writes() {
    for golden in Golden::kept().unwrap() {
        let name = &golden.name;
        let disk = MemoryDisk::holding(golden.files.clone());
        let open =
            |disk: MemoryDisk| Store::open(ground::still(Arc::new(disk), 4), Options::default());
        let store = open(disk.clone()).unwrap();
        let before = store.snapshot();
        let written = store.write(items([note("written by a newer build")])).unwrap();
        assert_eq!(written.seq, before.seq() + 1, "{name}");
        drop(store);
        let reopened = open(disk.clone()).unwrap().snapshot();
        assert_eq!(reopened.seq(), written.seq, "{name}");
        assert_eq!(
            reopened.row_counts().unwrap().items,
            before.row_counts().unwrap().items + 1,
            "{name}"
        );
        for log in golden.files.keys().filter(|file| file.starts_with("log-")) {
            let mut files = disk.files();
            if files.remove(log).is_some() {
                let why = open(MemoryDisk::holding(files)).unwrap_err().to_string();
                assert!(why.contains("MAN-03"), "{name} without {log}: {why}");
            }
        }
    }
}

#[test]
fn golden_stores_have_a_description() {
    for golden in Golden::kept().unwrap() {
        let text = std::fs::read_to_string(folder().join(format!("{}.txt", golden.name))).unwrap();
        assert!(text.contains("cargo run -p support-engine --example golden"), "{}", golden.name);
    }
}

/// Equal drafts, clock and randomness give equal bytes. A difference is a change of the format, or of a freedom that
/// the format leaves, and MUST be intended.
#[test]
fn newest_golden_stores_are_reproduced_byte_for_byte() {
    let kept = Golden::kept().unwrap();
    for made in made() {
        let name = &made.name;
        let same = kept.iter().find(|one| one.name == *name).expect("it is kept");
        assert!(same.files.keys().eq(made.files.keys()), "{name}: {:?}", made.files.keys());
        for (file, bytes) in &made.files {
            let first = bytes.iter().zip(&same.files[file]).position(|(a, b)| a != b);
            assert_eq!(first, None, "{name}/{file} differs from this byte on");
            assert_eq!(bytes.len(), same.files[file].len(), "{name}/{file}");
        }
        assert_eq!(made.wanted, same.wanted, "{name}");
    }
}
