use half::f16;
use kernels::{Kernels, Level};
use tempfile::TempDir;

use super::{IndexKey, IvfIndex, build};
use crate::error::OpenError;
use crate::ids::ItemId;
use crate::item::{Batch, ItemDraft};
use crate::layout::PAGE_BYTES;
use crate::os::disk::FsDisk;
use crate::segment::{Segment, SegmentBuilder};
use crate::throttle::{NoThrottle, Throttle};

const ROWS: u32 = 600;
const WIDTH: u32 = 40;
/// Offsets of the arrays in the index of [`ROWS`] rows: header, then 192 lists of 64 codes, then their scales.
const LISTS: usize = 192;
const CODES_AT: usize = 128;
const SCALES_AT: usize = CODES_AT + LISTS * 64;
const OFFSETS_AT: usize = SCALES_AT + LISTS * 4;
const ROWS_AT: usize = (OFFSETS_AT + (LISTS + 1) * 4).next_multiple_of(64);
const BITS_AT: usize = (ROWS_AT + ROWS as usize * 4).next_multiple_of(64);
/// 600 rows are 18 blocks of 32 and a block of 24; each row has 8 bytes of bits.
const BLOCK_BYTES: usize = 32 * 8;
const SKETCH_SCALES_AT: usize = (BITS_AT + 19 * BLOCK_BYTES).next_multiple_of(64);
const CHECKS_AT: usize = (SKETCH_SCALES_AT + ROWS as usize * 4).next_multiple_of(64);

/// Deterministic pseudo-random numbers in -1..1.
fn units() -> impl FnMut() -> f32 {
    let mut noise = 0x5EED_0107_u64;
    move || {
        noise = noise.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        i32::try_from(noise >> 40).unwrap() as f32 / (1 << 23) as f32 - 1.0
    }
}

/// Rows around 20 centres.
fn segment(rows: u32) -> Segment {
    let mut unit = units();
    let centres: Vec<Vec<f32>> = (0..20).map(|_| (0..WIDTH).map(|_| unit()).collect()).collect();
    let near = |row: u32| centres[row as usize % 20].iter().map(|x| x + unit() / 4.0).collect();
    segment_of((0..rows).map(near).collect())
}

/// 60 of 100 rows are copies of one row, in the middle of the others, which lie around 8 centres.
fn copied_segment() -> Segment {
    let mut unit = units();
    let middle: Vec<f32> = (0..WIDTH).map(|_| unit()).collect();
    let centres: Vec<Vec<f32>> =
        (0..8).map(|_| middle.iter().map(|x| x + unit()).collect()).collect();
    let row = |row: u32| {
        let centre = &centres[row as usize % 8];
        if row * 7 % 10 < 6 {
            middle.clone()
        } else {
            centre.iter().map(|x| x + unit() / 32.0).collect()
        }
    };
    segment_of((0..ROWS).map(row).collect())
}

fn segment_of(rows: Vec<Vec<f32>>) -> Segment {
    let items = (1..).zip(rows).map(|(id, row)| ItemDraft {
        id: Some(ItemId(id)),
        kind: "note".to_owned(),
        modality: "text".to_owned(),
        searchable: true,
        embedding: row.into_iter().map(f16::from_f32).collect(),
        ..ItemDraft::default()
    });
    let mut builder = SegmentBuilder::default();
    builder.push_batch(1, &Batch { items: items.collect(), ..Batch::default() });
    Segment::from_heap(builder.finish())
}

/// Builds the index of a segment, writes it and opens it.
pub(crate) fn index_of(segment: &Segment) -> IvfIndex {
    let header = segment.header();
    let (dimensions, rows) = (header.dimensions, header.vectors);
    let of = IndexKey { number: 7, dimensions, rows, segment_sha256: [9; 32] };
    let bytes = build(Kernels::detect(), segment, &of, &NoThrottle).unwrap();
    opened(&bytes.expect("nothing ends it"), &of).unwrap().expect("it was written")
}

fn of(rows: u32) -> IndexKey {
    IndexKey { number: 7, dimensions: WIDTH, rows, segment_sha256: [9; 32] }
}

fn made(rows: u32) -> Vec<u8> {
    made_by(Kernels::detect(), rows)
}

fn made_by(kernels: Kernels, rows: u32) -> Vec<u8> {
    build(kernels, &segment(rows), &of(rows), &NoThrottle).unwrap().expect("nothing ends it")
}

fn opened(bytes: &[u8], of: &IndexKey) -> Result<Option<IvfIndex>, OpenError> {
    let folder = TempDir::new().unwrap();
    let disk = FsDisk::open(folder.path()).unwrap();
    std::fs::write(folder.path().join(of.file_name()), bytes).unwrap();
    IvfIndex::open(&disk, of)
}

/// Recomputes the checksums of a modified file.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = |bytes: &[u8]| crc32c::crc32c(bytes).to_le_bytes();
    let header = crc(&bytes[..124]);
    bytes[124..128].copy_from_slice(&header);
    let checks: Vec<u8> = bytes[..CHECKS_AT].chunks(PAGE_BYTES).flat_map(crc).collect();
    bytes.truncate(CHECKS_AT);
    bytes.extend(&checks);
    bytes.extend(crc(&checks));
    bytes
}

#[track_caller]
fn refused(rule: &str, spoil: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = made(ROWS);
    spoil(&mut bytes);
    let why = opened(&resealed(bytes), &of(ROWS)).unwrap_err().to_string();
    assert!(why.contains(rule) && why.contains("index-"), "{rule} was due: {why}");
}

fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

#[test]
fn index_file_roundtrips() {
    let lists = opened(&made(ROWS), &of(ROWS)).unwrap().expect("it is there");
    assert_eq!(lists.count(), LISTS);
    let mut rows = lists.rows().to_vec();
    rows.sort_unstable();
    assert_eq!(rows, (0..ROWS).collect::<Vec<_>>());
    // Rows of one centre share lists: hardly any list mixes centres.
    let pure = (0..LISTS).filter(|&list| {
        let rows = &lists.rows()[lists.list_range(list)];
        rows.iter().all(|row| row % 20 == rows[0] % 20)
    });
    assert!(pure.count() > LISTS * 9 / 10);
    let (recall, over) = lists.recall();
    assert!((0.9..=1.0).contains(&recall) && over > 1000, "{recall} over {over}");
    assert!(lists.is_useful() && lists.sketch_margin() > 0.0, "{lists:?}");
    assert!(opened(&[], &IndexKey { number: 8, ..of(ROWS) }).is_err());
    let folder = TempDir::new().unwrap();
    let disk = FsDisk::open(folder.path()).unwrap();
    assert!(IvfIndex::open(&disk, &of(ROWS)).unwrap().is_none(), "there is none");
}

#[test]
fn every_kernel_level_builds_the_same_index_bytes() {
    let wanted = made(ROWS);
    for kernels in Level::ALL.iter().filter_map(|&level| Kernels::for_level(level)) {
        let found = made_by(kernels, ROWS);
        assert_eq!(found[CODES_AT..CHECKS_AT], wanted[CODES_AT..CHECKS_AT], "{kernels:?}");
    }
}

#[test]
fn few_rows_can_be_indexed() {
    for rows in [1, 2, 3, 50] {
        let lists = opened(&made(rows), &of(rows)).unwrap().expect("it is there");
        assert!(lists.count() <= rows as usize, "{rows}");
    }
}

#[test]
fn index_of_equal_or_zero_rows_is_not_useful() {
    for row in [vec![0.5; WIDTH as usize], vec![0.0; WIDTH as usize]] {
        let segment = segment_of(vec![row.clone(); ROWS as usize]);
        let made = build(Kernels::detect(), &segment, &of(ROWS), &NoThrottle).unwrap();
        let lists = opened(&made.expect("nothing ends it"), &of(ROWS)).unwrap();
        assert!(!lists.expect("it is there").is_useful(), "{row:?}");
    }
}

/// Most queries are near all copies, so a search has to score most rows.
#[test]
fn index_of_mostly_duplicate_rows_is_not_useful() {
    let made = build(Kernels::detect(), &copied_segment(), &of(ROWS), &NoThrottle).unwrap();
    let lists = opened(&made.expect("nothing ends it"), &of(ROWS)).unwrap().expect("it is there");
    let longest = (0..lists.count()).map(|list| lists.list_range(list).len()).max();
    assert!(longest >= Some(ROWS as usize * 6 / 10), "{longest:?}");
    assert!(!lists.is_useful(), "{lists:?}");
}

#[test]
fn throttle_cancels_the_index_build() {
    struct Ends(std::sync::atomic::AtomicU32);
    impl Throttle for Ends {
        fn after_write(&self, _bytes: usize) -> bool {
            self.after_work()
        }
        fn after_work(&self) -> bool {
            self.0.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) > 1
        }
    }
    let segment = segment(ROWS);
    for steps in [1, 5, 40, 45] {
        let pace = Ends(steps.into());
        assert!(build(Kernels::detect(), &segment, &of(ROWS), &pace).unwrap().is_none(), "{steps}");
    }
}

#[test]
fn index_file_flips_are_detected() {
    let good = made(ROWS);
    for at in (0..good.len()).step_by(11).chain(good.len() - 12..good.len()) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        assert!(opened(&bytes, &of(ROWS)).is_err(), "byte {at}");
    }
    for length in [0, 1, 127, 128, 4096, good.len() - 1] {
        assert!(opened(&good[..length], &of(ROWS)).is_err(), "{length} bytes");
    }
}

#[test]
fn every_index_format_rule_is_enforced_on_open() {
    refused("IDX-02", |bytes| bytes[3] = 0);
    refused("IDX-03", |bytes| bytes[8..10].fill(0));
    refused("IDX-04", |bytes| put(bytes, 12, WIDTH + 1));
    refused("IDX-04", |bytes| put(bytes, 16, ROWS - 1));
    refused("IDX-04", |bytes| bytes[64] = 8);
    refused("IDX-05", |bytes| put(bytes, 20, 0));
    refused("IDX-05", |bytes| put(bytes, 20, 16_385));
    refused("IDX-05", |bytes| put(bytes, 24, 0));
    refused("IDX-05", |bytes| put(bytes, 32, ROWS + 1));
    for (at, margin) in [(36, f32::NAN), (36, -0.5), (40, f32::INFINITY), (40, -0.5)] {
        refused("IDX-05", |bytes| put(bytes, at, margin.to_bits()));
    }
    refused("IDX-06", |bytes| put(bytes, 20, 191));
    refused("IDX-08", |bytes| put(bytes, OFFSETS_AT, 1));
    refused("IDX-08", |bytes| put(bytes, OFFSETS_AT + 4, ROWS));
    refused("IDX-08", |bytes| put(bytes, OFFSETS_AT + LISTS * 4, ROWS - 1));
    refused("IDX-09", |bytes| put(bytes, ROWS_AT, ROWS));
    refused("IDX-09", |bytes| bytes.copy_within(ROWS_AT..ROWS_AT + 4, ROWS_AT + 4));
    refused("IDX-09", |bytes| {
        // Repeats the last row of the first list at the start of a later list.
        let row = *bytes.as_chunks::<4>().0[ROWS_AT / 4..]
            .iter()
            .min_by_key(|it| u32::from_le_bytes(**it))
            .unwrap();
        put(bytes, OFFSETS_AT + 4, 1);
        put(bytes, ROWS_AT, u32::from_le_bytes(row));
        put(bytes, ROWS_AT + 4, u32::from_le_bytes(row));
    });
    refused("IDX-10", |bytes| bytes[CODES_AT + 5] = 0x80);
    refused("IDX-10", |bytes| bytes[CODES_AT + WIDTH as usize] = 1);
    refused("IDX-10", |bytes| put(bytes, SCALES_AT, f32::NAN.to_bits()));
    refused("IDX-10", |bytes| put(bytes, SCALES_AT, (-1.0_f32).to_bits()));
    refused("IDX-11", |bytes| bytes[44] = 1);
    refused("IDX-11", |bytes| bytes[120] = 1);
    refused("IDX-11", |bytes| bytes[ROWS_AT - 1] = 1);
    refused("IDX-11", |bytes| bytes[BITS_AT - 1] = 1);
    refused("IDX-13", |bytes| bytes[BITS_AT + 18 * BLOCK_BYTES + 24] = 1);
    refused("IDX-13", |bytes| put(bytes, SKETCH_SCALES_AT, f32::NAN.to_bits()));
    refused("IDX-13", |bytes| put(bytes, SKETCH_SCALES_AT + 4, (-1.0_f32).to_bits()));
    let mut newer = made(ROWS);
    newer[8] = 3;
    assert!(matches!(
        opened(&resealed(newer), &of(ROWS)),
        Err(OpenError::TooNew { version: 3, .. })
    ));
    let mut spoilt = made(ROWS);
    spoilt[CODES_AT] ^= 1;
    assert!(opened(&spoilt, &of(ROWS)).unwrap_err().to_string().contains("IDX-07"));
}
