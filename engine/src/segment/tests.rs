//! Opening of segments: rejected files with the broken rule, and flipped bits, which are never more than damage.

use std::fs::File;

use half::f16;

use super::*;
use crate::error::OpenError;
use crate::ids::{EdgeId, ItemId, SourceId};
use crate::item::{Batch, EdgeDraft, ItemDraft, SourceDraft, TombstoneDraft};
use crate::layout::*;
use crate::limits::{DIMENSIONS_MAX, SEGMENT_ROWS_MAX};
use crate::os::mmap::FileBytes;

const WIDTH: usize = 40;

fn item(id: u128, text: &str) -> ItemDraft {
    ItemDraft {
        id: Some(ItemId(id)),
        kind: "note".to_owned(),
        title: "t".to_owned(),
        text: text.to_owned(),
        searchable: true,
        embedding: (0i8..40).map(|n| f16::from_f32(f32::from(n) / 8.0)).collect(),
        ..ItemDraft::default()
    }
}

fn edge(id: u128, from: u128, to: u128) -> EdgeDraft {
    EdgeDraft {
        id: Some(EdgeId(id)),
        from: ItemId(from),
        to: ItemId(to),
        relation: "links_to".to_owned(),
        weight: 1.0,
        source: None,
        recorded_at: None,
        recorded_by: String::new(),
        valid_from: None,
        valid_to: None,
        note: String::new(),
    }
}

fn batch() -> Batch {
    let replacing = ItemDraft { supersedes: vec![ItemId(9)], ..item(7, "second") };
    Batch {
        sources: vec![SourceDraft { id: Some(SourceId(3)), ..SourceDraft::default() }],
        items: vec![item(9, "first"), replacing, item(8, "third")],
        edges: vec![edge(1, 9, 100), edge(2, 7, 9), edge(4, 9, 8), edge(5, 9, 9)],
        tombstones: vec![TombstoneDraft {
            target: 8,
            by: "ada".to_owned(),
            reason: "secret".to_owned(),
            erase: true,
            supersedes: vec![ItemId(6), ItemId(2)],
            ..TombstoneDraft::default()
        }],
        ..Batch::default()
    }
}

fn bytes() -> Vec<u8> {
    let mut builder = SegmentBuilder::default();
    builder.push_batch(4, &batch());
    builder.finish().as_slice().to_vec()
}

fn open(bytes: &[u8]) -> Result<Segment, OpenError> {
    Segment::open("segment-1", FileBytes::copy_from(bytes))
}

fn number(bytes: &[u8], at: usize) -> usize {
    usize::try_from(u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())).unwrap()
}

fn seal(bytes: &mut [u8], at: usize, covered: std::ops::Range<usize>) {
    let crc = crc32c::crc32c(&bytes[covered]);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Returns a file with one change and valid checksums.
fn crafted(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = bytes();
    change(&mut bytes);
    let trailer = bytes.len() - TRAILER_BYTES;
    let checks = number(&bytes, trailer + 16);
    for (page, start) in (0..checks).step_by(PAGE_BYTES).enumerate() {
        seal(&mut bytes, checks + page * 4, start..(start + PAGE_BYTES).min(checks));
    }
    seal(&mut bytes, trailer + 28, checks..trailer);
    seal(&mut bytes, trailer + 52, trailer..trailer + 52);
    bytes
}

/// Returns the offset of a column's directory entry.
fn entry(bytes: &[u8], column: Column) -> usize {
    let trailer = bytes.len() - TRAILER_BYTES;
    let from = number(bytes, trailer);
    let mut entries = (from..number(bytes, trailer + 16)).step_by(ENTRY_BYTES);
    entries.find(|&at| bytes[at..at + 2] == column.0.to_le_bytes()).unwrap()
}

/// Returns the offset of a column's cells.
fn cells(bytes: &[u8], column: Column) -> usize {
    number(bytes, entry(bytes, column) + 8)
}

#[track_caller]
fn refused(rule: &str, change: impl FnOnce(&mut [u8])) {
    let why = open(&crafted(change)).unwrap_err().to_string();
    assert!(why.contains(rule) && why.contains("segment-1"), "{rule} was due: {why}");
}

#[test]
fn valid_segment_opens_and_returns_its_rows() {
    let segment = open(&crafted(|_| {})).unwrap();
    let batch = batch();
    for (row, wanted) in (0..).zip(&batch.items) {
        let item = segment.item(row).unwrap();
        assert_eq!((item.id, item.text), (wanted.id.unwrap(), &*wanted.text));
        let vector = item.embedding.unwrap();
        assert_eq!(segment.vector(vector).unwrap(), wanted.embedding);
    }
    let ends = |row| segment.edge(row).map(|edge| (edge.from.0, edge.to.0)).unwrap();
    assert_eq!([0, 1, 2, 3].map(ends), [(9, 100), (7, 9), (9, 8), (9, 9)]);
    assert_eq!(segment.edge_rows_from(ItemId(9)).unwrap(), [0, 2, 3]);
    assert_eq!(segment.edge_rows_to(ItemId(9)).unwrap(), [1, 3]);
    assert_eq!(segment.edge_rows_to(ItemId(100)).unwrap(), [0]);
    let node = segment.node_of(ItemId(100)).unwrap().unwrap();
    assert_eq!(segment.node_row(node).unwrap(), None);
    let stone = segment.tombstone(0).unwrap();
    assert_eq!((stone.erase, stone.target_erased), (true, false));
    assert_eq!(stone.supersedes, [ItemId(6), ItemId(2)]);
    for old in stone.supersedes {
        assert_eq!(segment.erased_successor_rows(old).unwrap(), [0]);
    }
    assert_eq!(segment.erased_successor_rows(ItemId(8)).unwrap(), [] as [u32; 0]);
    assert_eq!(segment.tombstone_rows(8).unwrap(), [0]);
    assert_eq!(segment.successor_rows(ItemId(9)).unwrap(), [1]);
    assert_eq!(segment.successor_rows(ItemId(8)).unwrap(), [0; 0]);
    segment.check_padding().unwrap();
}

#[test]
fn ascending_ids_have_no_permutation_column() {
    let segment = open(&bytes()).unwrap();
    let indexes = [(ITEM_BY_ID, 3), (SOURCE_BY_ID, 0), (EDGE_BY_ID, 0)];
    for (index, cells) in indexes {
        assert_eq!(segment.column::<u32>(index).unwrap().len(), cells, "{}", index.spec().name);
    }
    for (id, row) in [(9, Some(0)), (7, Some(1)), (8, Some(2)), (6, None), (10, None)] {
        assert_eq!(segment.row_of_item(ItemId(id)).unwrap(), row);
    }
    assert_eq!(segment.item_ids.get(), Some(&(7, 9)), "kept for the next look-up");
    for (id, row) in [(1, Some(0)), (3, None), (5, Some(3)), (6, None)] {
        assert_eq!(segment.row_of_edge(EdgeId(id)).unwrap(), row);
    }
    assert_eq!(segment.row_of_source(SourceId(3)).unwrap(), Some(0));
}

#[test]
fn embeddings_are_64_byte_aligned_and_have_codes() {
    let segment = open(&bytes()).unwrap();
    let halves = segment.column::<f16>(VECTOR_HALVES).unwrap().all().unwrap();
    let codes = segment.column::<i8>(VECTOR_CODES).unwrap().all().unwrap();
    assert_eq!((halves.len(), codes.len()), (3 * 64, 3 * 64));
    assert!(halves[WIDTH..64].iter().all(|half| half.to_bits() == 0));
    assert!(codes[WIDTH..64].iter().all(|code| *code == 0) && codes[WIDTH - 1] == 127);
    for row in 0..3 {
        assert!(segment.vector(row).unwrap().as_ptr().addr().is_multiple_of(64));
    }
}

/// If the system ignores the advice for huge pages, as for bytes that are not mapped, only prefetching loads the codes
/// before they are read.
#[test]
fn codes_are_prefetched_unless_backed_by_huge_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segment-1");
    std::fs::write(&path, bytes()).unwrap();
    let mapped = || FileBytes::map(&File::open(&path).unwrap()).unwrap();
    let is_taken = mapped().advise_huge_pages(0..bytes().len());
    for (bytes, is_taken) in [(FileBytes::copy_from(&bytes()), false), (mapped(), is_taken)] {
        let segment = Segment::open("segment-1", bytes).unwrap();
        let (at, length) = segment.column_range(VECTOR_CODES);
        let codes = at / PAGE_BYTES..(at + length).div_ceil(PAGE_BYTES);
        assert!(segment.should_prefetch(&codes), "nothing was wished for yet");
        segment.advise_queries();
        assert_eq!(segment.should_prefetch(&codes), !is_taken, "{is_taken}");
        assert!(segment.should_prefetch(&(0..codes.end + 1)), "not all of it is codes");
    }
}

#[test]
fn segment_byte_flip_is_corruption_not_a_newer_version() {
    let good = bytes();
    for at in 0..good.len() {
        for mask in [1 << (at % 8), 0xff] {
            let mut bad = good.clone();
            bad[at] ^= mask;
            let found = open_any("segment-1", FileBytes::copy_from(&bad)).map(drop);
            assert!(matches!(found, Err(OpenError::Damaged(_))), "byte {at} ^ {mask}: {found:?}");
        }
    }
}

#[test]
fn segment_version_is_read_only_under_a_valid_checksum() {
    let newer = open(&crafted(|bytes| bytes[8] = 3)).unwrap_err();
    assert!(matches!(newer, OpenError::TooNew { version: 3, .. }), "{newer}");
    refused("SEG-02", |bytes| bytes[8] = 0);
    refused("SEG-02", |bytes| bytes[8] = 1);
    // The file has the number of version 1, but not its columns.
    let file = FileBytes::copy_from(&crafted(|bytes| bytes[8] = 1));
    let why = open_any("segment-1", file).unwrap_err().to_string();
    assert!(why.contains("SEG-09"), "{why}");
}

#[test]
fn non_zero_reserved_bytes_are_corruption() {
    refused("SEG-17", |bytes| bytes[63] = 1);
    refused("SEG-17", |bytes| bytes[56] = 0x80);
    for at in [40, 51] {
        refused("SEG-17", |bytes| bytes[bytes.len() - TRAILER_BYTES + at] = 1);
    }
    for at in [4, 7, 24, 31] {
        refused("SEG-17", |bytes| bytes[entry(bytes, EDGE_NOTE_BYTES) + at] = 1);
    }
}

#[test]
fn non_zero_padding_is_corruption() {
    let good = bytes();
    let padding = cells(&good, TOMBSTONE_FLAGS) + 1;
    let segment = open(&crafted(|bytes| bytes[padding] = 1)).unwrap();
    let why = segment.check_padding().unwrap_err();
    assert_eq!(why.rule, "SEG-24");
    assert!(why.detail.contains("segment-1: bytes") && why.detail.contains("column 107"), "{why}");
}

#[test]
fn inconsistent_counts_and_dimensions_are_corruption() {
    let put = |at: usize, number: usize| {
        let number = u32::try_from(number).unwrap().to_le_bytes();
        move |bytes: &mut [u8]| bytes[at..at + 4].copy_from_slice(&number)
    };
    refused("SEG-21", put(12, DIMENSIONS_MAX as usize + 1));
    refused("SEG-21", put(16, SEGMENT_ROWS_MAX + 1));
    refused("SEG-09", put(16, 4));
    refused("SEG-09", put(12, WIDTH + 64));
    refused("SEG-18", put(24, 1));
    refused("SEG-09", |bytes| bytes[entry(bytes, ITEM_BY_ID) + 16] = 8);
    refused("SEG-09", |bytes| bytes[entry(bytes, ITEM_SEQ) + 2] = 4);
    refused("SEG-08", |bytes| bytes[entry(bytes, ITEM_SEQ) + 8] ^= 4);
    refused("SEG-07", |bytes| bytes[entry(bytes, ITEM_BY_ID)] -= 1);
}

/// Damage found in a row names its file, column and row.
#[test]
fn corruption_error_names_file_column_and_row() {
    let found = |change: &dyn Fn(&mut [u8]),
                 read: &dyn Fn(&Segment) -> Result<(), crate::CorruptionError>| {
        read(&open(&crafted(|bytes| change(bytes))).unwrap()).unwrap_err().to_string()
    };
    let item = |segment: &Segment| segment.item(1).map(drop);
    let edge = |segment: &Segment| segment.edge(1).map(drop);
    let from = |segment: &Segment| segment.edge_rows_from(ItemId(9)).map(drop);
    let set = |column: Column, at: usize, byte: u8| {
        move |bytes: &mut [u8]| bytes[cells(bytes, column) + at] = byte
    };
    let why = found(&set(ITEM_KIND, 4, 99), &item);
    assert_eq!(why, "SEG-12: segment-1: item_kind: row 1: symbol 99 of 4");
    let why = found(&set(ITEM_FLAGS, 1, 2), &item);
    assert_eq!(why, "SEG-15: segment-1: item_flags: row 1: unknown flags 0x2");
    let why = found(&set(TEXT_OFFSETS, 8, 99), &item);
    assert_eq!(why, "SEG-10: segment-1: text_offsets: row 1 spans 99..11 of 16");
    let why = found(&set(TEXT_BYTES, 6, 0xff), &item);
    assert!(why.starts_with("SEG-11: segment-1: text_bytes: row 1: "), "{why}");
    let why = found(&set(EDGE_TO_NODE, 4, 9), &edge);
    assert_eq!(why, "SEG-12: segment-1: node_id: row 9 of 4 cells");
    let why = found(&set(OUT_BYTES, 1, 0x80), &from);
    assert!(why.starts_with("SEG-19: segment-1: out_bytes: "), "{why}");
    let why = found(&set(OUT_BYTES, 1, 100), &from);
    assert!(why.starts_with("SEG-1"), "{why}");
    let why = found(&set(TOMBSTONE_FLAGS, 0, 4), &|segment| segment.tombstone(0).map(drop));
    assert_eq!(why, "SEG-15: segment-1: tombstone_flags: row 0: unknown flags 0x4");
    let why = found(&set(NODE_ROW, 0, 3), &|segment| segment.node_row(0).map(drop));
    assert_eq!(why, "SEG-12: segment-1: node_row: node 0: row 3 of 3 items");
}

#[test]
fn empty_segment_opens() {
    let segment = Segment::from_heap(SegmentBuilder::default().finish());
    assert_eq!(*segment.header(), SegmentHeader::default());
    assert_eq!(segment.row_of_item(ItemId(1)).unwrap(), None);
    assert_eq!(segment.symbol_code("").unwrap(), None);
    assert_eq!(segment.edge_rows_from(ItemId(1)).unwrap(), [0; 0]);
    segment.check_padding().unwrap();
}

/// Lookups skip pages that they do not need, even damaged pages.
#[test]
fn lookups_read_few_pages() {
    const ITEMS: u128 = 20_000;
    let items = (1..=ITEMS).map(|n| ItemDraft {
        id: Some(ItemId(n * 2)),
        supersedes: vec![ItemId(n * 2 - 2)],
        ..ItemDraft::default()
    });
    let mut builder = SegmentBuilder::default();
    builder.push_batch(1, &Batch { items: items.collect(), ..Batch::default() });
    let mut bad = builder.finish().as_slice().to_vec();
    for column in [ITEM_ID, SUCCESSOR_TARGET] {
        let second_page = cells(&bad, column).next_multiple_of(PAGE_BYTES) + 64;
        bad[second_page] ^= 1;
    }
    let segment = open(&bad).unwrap();
    for id in [0, 1, ITEMS * 2 + 1, u128::MAX] {
        assert_eq!(segment.row_of_item(ItemId(id)).unwrap(), None);
    }
    let last = u32::try_from(ITEMS).unwrap() - 1;
    assert_eq!(segment.row_of_item(ItemId(ITEMS * 2)).unwrap(), Some(last));
    assert_eq!(segment.successor_rows(ItemId(ITEMS * 2 - 2)).unwrap(), [last]);
    let mut noticed = 0;
    for id in (2..ITEMS).step_by(100) {
        let found = [
            segment.row_of_item(ItemId(id)).map(|row| row.is_some()),
            segment.successor_rows(ItemId(id)).map(|rows| rows.len() == 1),
        ];
        for found in found {
            match found {
                Ok(found) => assert!(found, "{id}"),
                Err(damage) => {
                    assert!(damage.rule == "SEG-06" && damage.detail.contains("segment-1: "));
                    noticed += 1;
                }
            }
        }
    }
    assert!(noticed > 50, "only {noticed} look-ups came to a damaged page");
}
