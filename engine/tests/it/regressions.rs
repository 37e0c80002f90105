//! Findings of the fuzzer and the campaigns, each as a small test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use engine::{EdgeFilter, ItemId, NEIGHBOURS_MAX, SearchError, Store};
use support_engine::golden::Golden;
use support_engine::ground;
use support_engine::memory_disk::{Files, MemoryDisk};
use support_engine::reseal;
use support_engine::sample::{items, link, note};

/// Returns a sealed segment of two items and an edge between them, its name and its items.
fn two_joined() -> (Files, String, [ItemId; 2]) {
    let disk = MemoryDisk::default();
    let store = Store::open(ground::still(Arc::new(disk.clone()), 1), ground::unmerged()).unwrap();
    let written = store.write(items([note("from"), note("to")])).unwrap();
    let ids = [written.items[0], written.items[1]];
    let edges = vec![link(ids[0], ids[1], 0.5)];
    store.write(engine::Batch { edges, ..engine::Batch::default() }).unwrap();
    store.seal().unwrap();
    drop(store);
    let files = disk.files();
    let name = files.keys().find(|name| name.starts_with("segment-")).unwrap().clone();
    (files, name, ids)
}

/// Fuzz target `segment`: a node had a row, but no row had the node's item id. The neighbour, stored by its row, was
/// then not found by its id, which panicked.
#[test]
fn graph_node_pointing_at_another_item_is_corruption() {
    const NODE_ID: u16 = 110;
    let (mut files, name, ids) = two_joined();
    let segment = files.get_mut(&name).unwrap();
    let nodes = reseal::column(segment, NODE_ID).unwrap();
    // The larger id, which stays the larger one.
    segment[nodes.end - 1] ^= 0x40;
    reseal::segment(segment).unwrap();
    let ground = ground::still(Arc::new(MemoryDisk::holding(files)), 2);
    let store = Store::open(ground, ground::unmerged()).unwrap();
    let snapshot = store.snapshot();
    let error = snapshot.neighbours(ids[0], NEIGHBOURS_MAX, &EdgeFilter::default()).unwrap_err();
    let SearchError::Damaged(damage) = error else { panic!("{error}") };
    assert_eq!(damage.rule, "SEG-18", "{damage}");
}

/// Engine review: the words of a version 1 segment were treated as an in-memory dictionary, which may be a list of
/// terms; merging terms in descending order panicked.
#[test]
fn version_1_segment_with_a_heap_dictionary_is_corruption() {
    const WORD_DICTIONARY: u16 = 140;
    const WORD_ENTRIES: u16 = 141;
    let golden = Golden::kept().unwrap().into_iter().find(|it| it.name == "v1-small").unwrap();
    let mut files = golden.files;
    let name = files.keys().find(|name| name.starts_with("segment-")).unwrap().clone();
    let segment = files.get_mut(&name).unwrap();
    let entries = reseal::column(segment, WORD_ENTRIES).unwrap();
    let terms = segment[entries.start + 12];
    let mut list = vec![0xff; 8];
    list.extend_from_slice(&u32::from(terms).to_le_bytes());
    (1..=u32::from(terms)).for_each(|end| list.extend_from_slice(&end.to_le_bytes()));
    list.extend((0..terms).rev().map(|at| b'a' + at));
    let words = reseal::column(segment, WORD_DICTIONARY).unwrap();
    segment[words][..list.len()].copy_from_slice(&list);
    reseal::segment(segment).unwrap();
    let ground = ground::still(Arc::new(MemoryDisk::holding(files)), 3);
    let error = Store::open(ground, ground::unmerged()).map(drop).unwrap_err();
    assert!(error.to_string().contains("WRD-01"), "{error}");
}

/// Engine review: the iterator over all rows returned its damage forever if the damage came before the first row, and
/// tombstones after the damage if it came later.
#[test]
fn record_scan_ends_after_the_first_corruption() {
    const ITEM_KIND: u16 = 13;
    const TOMBSTONE_SUPERSEDES_OFFSETS: u16 = 108;
    let disk = MemoryDisk::default();
    let store = Store::open(ground::still(Arc::new(disk.clone()), 5), ground::unmerged()).unwrap();
    let old = store.write(items([note("amber"), note("birch replaced")])).unwrap().items[1];
    let newer = engine::ItemDraft { supersedes: vec![old], ..note("cedar, erased") };
    let gone = store.write(items([newer])).unwrap().items[0];
    store.erase(&[gone.0], "officer", "asked for", &engine::NoThrottle).unwrap();
    drop(store);
    for column in [ITEM_KIND, TOMBSTONE_SUPERSEDES_OFFSETS] {
        let mut files = disk.files();
        let segment = files.iter_mut().find(|(name, _)| name.starts_with("segment-")).unwrap().1;
        let cells = reseal::column(segment, column).unwrap();
        segment[cells][..4].fill(0xff);
        reseal::segment(segment).unwrap();
        let ground = ground::still(Arc::new(MemoryDisk::holding(files)), 6);
        let store = Store::open(ground, ground::unmerged()).unwrap();
        let snapshot = store.snapshot();
        let found: Vec<bool> = snapshot.records().take(10).map(|row| row.is_ok()).collect();
        assert_eq!(found, [false], "column {column}");
    }
}
