//! What the fuzzer and the campaigns have found, each as a small test of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use engine::{EdgeFilter, ItemId, NEIGHBOURS_MAX, Store};
use tests::ground;
use tests::memory_disk::{Files, MemoryDisk};
use tests::reseal;
use tests::sample::{items, link, note};

/// A sealed segment of two items and an edge between them; its name and its items.
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

/// Fuzz target `segment`: a node had a row, but the item of its id was nowhere; the
/// neighbour that was kept by its row was then not found by its id, which panicked.
#[test]
fn a_node_whose_row_is_another_item_is_damage() {
    const NODE_ID: u16 = 110;
    let (mut files, name, ids) = two_joined();
    let segment = files.get_mut(&name).unwrap();
    let nodes = reseal::column(segment, NODE_ID).unwrap();
    // The larger id, and still the larger one.
    segment[nodes.end - 1] ^= 0x40;
    reseal::segment(segment).unwrap();
    let ground = ground::still(Arc::new(MemoryDisk::holding(files)), 2);
    let store = Store::open(ground, ground::unmerged()).unwrap();
    let snapshot = store.snapshot();
    let damage = snapshot.neighbours(ids[0], NEIGHBOURS_MAX, &EdgeFilter::default()).unwrap_err();
    assert_eq!(damage.rule, "SEG-18", "{damage}");
}
