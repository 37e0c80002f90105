//! Faults under correct checksums, which only a check of the format's rules detects.

use std::sync::Arc;

use engine::{Batch, Store};
use serde_json::json;
use support_engine::memory_disk::{Files, MemoryDisk};
use support_engine::remake::{remake_manifest, reseal_manifest};
use support_engine::reseal;
use support_engine::sample::{STEPS, items, note};
use support_engine::small_store::SmallStore;
use support_engine::{ground, sample};

use super::valid_stores::verified;

/// Change of a column by a case.
type Change = Box<dyn FnOnce(&mut [u8])>;

/// Reads the `u64` at an offset.
fn number_at(bytes: &[u8], at: usize) -> usize {
    reseal::number(bytes, at).expect("it was written here")
}

const TRAILER_BYTES: usize = 64;
const ENTRY_BYTES: usize = 32;

/// Makes a small store whose commits are all in two segments.
fn sealed() -> Files {
    let disk = MemoryDisk::default();
    let store = Store::open(ground::still(Arc::new(disk.clone()), 5), ground::unmerged())
        .expect("the sample is as it was made");
    sample::furnish(&store, sample::Seals(&[2, STEPS - 1]), |_, _| {})
        .expect("the sample is as it was made");
    drop(store);
    disk.files()
}

/// Returns the range of a column in a segment file.
fn column(file: &[u8], name: &str) -> std::ops::Range<usize> {
    let wanted = engine::COLUMNS
        .iter()
        .find(|spec| spec.name.eq_ignore_ascii_case(name))
        .expect("the sample is as it was made");
    let directory = number_at(file, file.len() - TRAILER_BYTES);
    let entries = file[directory..].chunks(ENTRY_BYTES);
    let entry = entries.into_iter().find(|entry| entry[..2] == wanted.number.to_le_bytes());
    let entry = entry.expect("the sample is as it was made");
    let (start, bytes) = (number_at(entry, 8), number_at(entry, 16));
    start..start + bytes
}

fn segment(files: &Files, at: usize) -> String {
    files
        .keys()
        .filter(|name| name.starts_with("segment-"))
        .nth(at)
        .expect("the sample is as it was made")
        .clone()
}

/// Changes the cells of a column, recomputes all checksums, and returns the broken rules.
fn broken(
    files: &Files,
    at: usize,
    name: &str,
    change: impl FnOnce(&mut [u8]),
) -> Vec<&'static str> {
    let mut files = files.clone();
    let file = files.get_mut(&segment(&files, at)).expect("the sample is as it was made");
    let place = column(file, name);
    assert!(!place.is_empty(), "{name} has cells");
    change(&mut file[place]);
    reseal::segment(file).expect("it is a segment");
    reseal_manifest(&mut files);
    verified(&files).findings.iter().map(|damage| damage.rule).collect()
}

#[test]
fn recomputing_checksums_of_a_valid_store_changes_nothing() {
    let files = sealed();
    for at in 0..2 {
        assert_eq!(broken(&files, at, "item_id", |_| {}), [] as [&str; 0]);
    }
}

#[test]
fn every_rule_beyond_checksums_is_verified() {
    let files = sealed();
    let set = |at: usize, to: u8| move |cells: &mut [u8]| cells[at] = to;
    let flip = |at: usize| move |cells: &mut [u8]| cells[at] ^= 1;
    let cases: Vec<(&str, &str, Change)> = vec![
        ("SEG-10", "title_offsets", Box::new(set(8, 0xff))),
        ("SEG-10", "tag_offsets", Box::new(set(0, 1))),
        ("SEG-11", "text_bytes", Box::new(set(0, 0xff))),
        ("SEG-12", "item_kind", Box::new(set(1, 1))),
        ("SEG-12", "tag_codes", Box::new(set(1, 1))),
        ("SEG-13", "item_by_ref", Box::new(flip(0))),
        ("SEG-13", "item_by_source", Box::new(|cells| cells.rotate_left(4))),
        ("SEG-13", "source_by_uri", Box::new(|cells| cells.rotate_left(4))),
        ("SEG-13", "successor_row", Box::new(set(0, 0))),
        ("SEG-13", "successor_target", Box::new(flip(0))),
        ("SEG-14", "item_seq", Box::new(set(0, 9))),
        ("SEG-14", "edge_seq", Box::new(set(0, 200))),
        ("SEG-15", "item_flags", Box::new(set(0, 2))),
        ("SEG-15", "item_sensitivity", Box::new(set(0, 4))),
        ("SEG-16", "vector_norm", Box::new(set(2, 0))),
        ("SEG-16", "vector_halves", Box::new(|cells| cells[..2].copy_from_slice(&[0, 0x7e]))),
        ("SEG-18", "node_row", Box::new(set(0, 1))),
        ("SEG-18", "node_id", Box::new(|cells| cells.rotate_left(16))),
        ("SEG-19", "edge_from_node", Box::new(set(0, 1))),
        ("SEG-19", "edge_to_node", Box::new(set(0, 1))),
        ("SEG-19", "out_bytes", Box::new(|cells| cells.reverse())),
        ("SEG-19", "in_bytes", Box::new(|cells| cells.reverse())),
        ("SEG-20", "symbol_bytes", Box::new(set(0, 0x7a))),
        ("SEG-22", "vector_item", Box::new(set(0, 1))),
        ("SEG-22", "item_embedding", Box::new(|cells| cells.rotate_left(4))),
        ("SEG-23", "vector_codes", Box::new(set(0, 0x80))),
        ("SEG-23", "vector_codes", Box::new(set(63, 1))),
        ("SEG-23", "vector_codes", Box::new(set(0, 0))),
        ("SEG-23", "vector_halves", Box::new(set(63, 1))),
        ("SEG-23", "vector_scale", Box::new(set(2, 0))),
        ("EMB-02", "vector_error", Box::new(set(3, 0xff))),
        ("SEG-25", "item_sha256", Box::new(flip(5))),
        ("SEG-25", "text_bytes", Box::new(set(0, b'z'))),
        ("SEG-25", "attribute_bytes", Box::new(set(0, b'['))),
        ("SEG-25", "edge_weight", Box::new(set(3, 0x40))),
        ("WRD-50", "word_lengths", Box::new(set(0, 3))),
        (
            "WRD-04",
            "word_dictionary",
            Box::new(|cells| {
                let last = cells.len() - 1;
                cells[last] ^= 1;
            }),
        ),
        ("WRD-50", "title_bytes", Box::new(set(0, b'z'))),
        (
            "STO-03",
            "item_source",
            Box::new(|cells| {
                let at = cells.chunks(16).position(|id| id != [0; 16]).unwrap() * 16;
                cells[at + 1] ^= 1;
            }),
        ),
    ];
    for (rule, column, change) in cases {
        let found = broken(&files, 0, column, change);
        assert!(found.contains(&rule), "{rule} by {column}: {found:?}");
    }
}

#[test]
fn column_padding_and_order_are_verified() {
    let files = sealed();
    let mut padded = files.clone();
    let file = padded.get_mut(&segment(&files, 0)).unwrap();
    let end = column(file, "item_flags").end;
    assert!(!end.is_multiple_of(64));
    file[end] = 1;
    reseal::segment(file).expect("it is a segment");
    reseal_manifest(&mut padded);
    let found = verified(&padded);
    assert_eq!(found.findings[0].rule, "SEG-24", "{:?}", found.findings);
}

/// Each bit of each state is flipped.
#[test]
fn wrong_state_bits_are_reported() {
    let files = sealed();
    let name = files.keys().find(|name| name.starts_with("state-")).unwrap().clone();
    let counts = |at: usize| u32::from_le_bytes(files[&name][at..at + 4].try_into().unwrap());
    let (rows, edges) = (counts(12), counts(32));
    for (bitmap, rows) in [(0, rows), (1, rows), (2, edges)] {
        for row in 0..rows as usize {
            let mut files = files.clone();
            let file = files.get_mut(&name).unwrap();
            file[64 + bitmap * 8 + row / 8] ^= 1 << (row % 8);
            reseal::state(file).expect("it is a state");
            reseal_manifest(&mut files);
            let found = verified(&files);
            assert!(
                found.findings.iter().any(|it| it.rule == "STA-02"),
                "{bitmap} {row}: {found:?}"
            );
        }
    }
}

/// A state file includes only commits that were on disk when the manifest was written.
#[test]
fn state_ahead_of_synced_commits_is_reported() {
    let store = SmallStore::new();
    let mut files = store.closed.clone();
    assert!(verified(&files).is_clean());
    // Commit 4 hides an item of a segment; its bit is not in a state yet.
    let segment = segment(&files, 0);
    let at: u64 = segment["segment-".len()..].parse().unwrap();
    let name = format!("state-{at:020}-00000000000000000001");
    let Some(file) = files.get_mut(&name) else { panic!("{:?}", files.keys()) };
    file[64] = 0b1000;
    reseal::state(file).expect("it is a state");
    reseal_manifest(&mut files);
    let found = verified(&files);
    assert_eq!(found.findings.len(), 1, "{:?}", found.findings);
    assert_eq!(found.findings[0].rule, "STA-02");
    // With commit 4 synced, the state is valid.
    remake_manifest(&mut files, |manifest| manifest["synced_seq"] = json!(4));
    assert_eq!(verified(&files).findings, []);
}

/// Rows are missing if a segment is not listed, and repeated if an id is copied from one segment to another.
#[test]
fn cross_file_duplicates_and_dangling_references_are_reported() {
    let files = sealed();
    // The first segment is not listed: edges, sources and successors lose their rows.
    let mut cut = files.clone();
    remake_manifest(&mut cut, |manifest| {
        manifest["segments"].as_array_mut().unwrap().remove(0);
    });
    let rules: Vec<_> = verified(&cut).findings.iter().map(|damage| damage.rule).collect();
    assert!(rules.contains(&"STO-02"), "{rules:?}");

    // An id of the second segment repeats an id of the first.
    let mut twice = files.clone();
    let first = files[&segment(&files, 0)].clone();
    let id = column(&first, "item_id").start;
    let id = first[id..id + 16].to_vec();
    let file = twice.get_mut(&segment(&files, 1)).unwrap();
    let place = column(file, "item_id").start;
    file[place..place + 16].copy_from_slice(&id);
    reseal::segment(file).expect("it is a segment");
    reseal_manifest(&mut twice);
    let found = verified(&twice);
    assert!(found.findings.iter().any(|it| it.rule == "STO-01"), "{:?}", found.findings);
}

#[test]
fn duplicate_current_refs_are_reported() {
    let disk = MemoryDisk::default();
    let store = Store::open(ground::still(Arc::new(disk.clone()), 6), ground::unmerged()).unwrap();
    for reference in ["ref/a", "ref/b"] {
        let reference = Some(reference.to_owned());
        store.write(items([engine::ItemDraft { reference, ..note("same") }])).unwrap();
        store.seal().unwrap();
    }
    store.write(Batch { ..items([note("last")]) }).unwrap();
    drop(store);
    let files = disk.files();
    let found = broken(&files, 1, "ref_bytes", |cells| cells[4] = b'a');
    assert_eq!(found, ["STO-04"]);
}
