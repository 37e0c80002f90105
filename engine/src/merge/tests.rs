//! A merge equals a segment built at once, byte for byte, and never passes on corruption.

use half::f16;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;
use crate::error::DiskError;
use crate::ids::{EdgeId, ItemId, SourceId};
use crate::item::{Batch, EdgeDraft, ItemDraft, SourceDraft, Span, TombstoneDraft};
use crate::limits::SEGMENT_ROWS_MAX;
use crate::os::clock::Micros;
use crate::os::disk::{Disk, FileBytes, FsDisk};
use crate::segment::{FileSink, SegmentBuilder};
use crate::throttle::NoThrottle;

const DIMENSIONS: usize = 40;
const NAMES: [&str; 6] = ["ada", "note", "chunk", "zeta", "b", ""];
const WORDS: [&str; 7] = ["amber", "birch tree", "cedar", "\u{fc}ber", "fn main()", "x", ""];

/// Small generator (xorshift64*), so that a failure can be reproduced from its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, sides: usize) -> usize {
        usize::try_from(self.roll()).unwrap() % sides
    }

    fn often(&mut self) -> bool {
        self.below(3) > 0
    }

    fn name(&mut self) -> String {
        NAMES[self.below(NAMES.len())].to_owned()
    }

    fn time(&mut self) -> Option<Micros> {
        self.often().then(|| Micros(i64::try_from(self.below(1 << 40)).unwrap()))
    }
}

/// Ids generated so far, so that later rows can reference them.
#[derive(Default)]
struct Made {
    items: Vec<u128>,
    sources: Vec<u128>,
    edges: Vec<u128>,
    ids: u128,
    ascending: bool,
}

impl Made {
    fn id(&mut self) -> u128 {
        self.ids += 1;
        if self.ascending {
            self.ids
        } else {
            self.ids.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 90)
        }
    }

    fn any(dice: &mut Dice, ids: &[u128]) -> Option<u128> {
        (!ids.is_empty() && dice.often()).then(|| ids[dice.below(ids.len())])
    }

    fn item(&mut self, dice: &mut Dice) -> ItemDraft {
        let text: Vec<&str> = (0..dice.below(5)).map(|_| WORDS[dice.below(7)]).collect();
        let embedding = (0..DIMENSIONS).map(|_| f16::from_bits((dice.roll() % 0x7000) as u16));
        let embedding = embedding.collect();
        let mut supersedes: Vec<ItemId> =
            (0..dice.below(3)).filter_map(|_| Self::any(dice, &self.items).map(ItemId)).collect();
        supersedes.sort_unstable();
        supersedes.dedup();
        let item = ItemDraft {
            id: Some(ItemId(self.id())),
            reference: (!dice.often()).then(|| format!("ref {}", dice.below(4))),
            kind: dice.name(),
            modality: dice.name(),
            title: WORDS[dice.below(7)].to_owned(),
            text: text.join(" "),
            attributes: if dice.often() { String::new() } else { "{}".to_owned() },
            tags: (0..dice.below(3)).map(|_| dice.name()).collect(),
            gates: (0..dice.below(2)).map(|_| dice.name()).collect(),
            supersedes,
            source: Self::any(dice, &self.sources).map(SourceId),
            span: dice.often().then(|| Span { byte_end: dice.roll(), ..Span::default() }),
            recorded_at: dice.time(),
            recorded_by: dice.name(),
            via: dice.name(),
            valid_from: dice.time(),
            valid_to: dice.time(),
            sensitivity: crate::item::Sensitivity::ALL[dice.below(4)],
            searchable: dice.often(),
            embedding: if dice.often() { embedding } else { Vec::new() },
        };
        self.items.extend(item.id.map(|id| id.0));
        item
    }

    fn source(&mut self, dice: &mut Dice) -> SourceDraft {
        let id = self.id();
        self.sources.push(id);
        SourceDraft {
            id: Some(SourceId(id)),
            kind: dice.name(),
            uri: format!("file:///{}", dice.below(3)),
            title: WORDS[dice.below(7)].to_owned(),
            content_sha256: [9; 32],
            bytes: dice.roll(),
            recorded_at: dice.time(),
            recorded_by: dice.name(),
            via: dice.name(),
        }
    }

    fn edge(&mut self, dice: &mut Dice) -> Option<EdgeDraft> {
        let (from, to) = (Self::any(dice, &self.items)?, Self::any(dice, &self.items)?);
        let id = self.id();
        self.edges.push(id);
        Some(EdgeDraft {
            id: Some(EdgeId(id)),
            from: ItemId(from),
            to: ItemId(to),
            relation: dice.name(),
            weight: 0.5,
            source: Self::any(dice, &self.sources).map(SourceId),
            recorded_at: dice.time(),
            recorded_by: dice.name(),
            valid_from: dice.time(),
            valid_to: dice.time(),
            note: WORDS[dice.below(7)].to_owned(),
        })
    }

    fn batch(&mut self, dice: &mut Dice) -> Batch {
        let mut batch = Batch::default();
        batch.sources.extend((0..dice.below(3)).map(|_| self.source(dice)));
        batch.items.extend((0..dice.below(6)).map(|_| self.item(dice)));
        batch.edges.extend((0..dice.below(8)).filter_map(|_| self.edge(dice)));
        for _ in 0..dice.below(2) {
            let Some(target) = Self::any(dice, &self.items) else { continue };
            let (erase, gone) = (dice.often(), dice.often());
            let mut supersedes: Vec<ItemId> = (0..if erase { dice.below(4) } else { 0 })
                .filter_map(|_| Self::any(dice, &self.items).map(ItemId))
                .collect();
            supersedes.sort_unstable();
            supersedes.dedup();
            batch.tombstones.push(TombstoneDraft {
                target,
                at: dice.time(),
                by: dice.name(),
                reason: WORDS[dice.below(7)].to_owned(),
                erase,
                target_erased: gone,
                supersedes,
            });
        }
        batch
    }
}

/// Batches in groups, one group per segment.
fn groups(dice: &mut Dice) -> (Vec<Vec<Batch>>, Made) {
    let mut made = Made { ascending: dice.often(), ..Made::default() };
    let groups = (0..1 + dice.below(4))
        .map(|_| (0..dice.below(5)).map(|_| made.batch(dice)).collect())
        .collect();
    (groups, made)
}

fn built<'a>(first_seq: u64, batches: impl IntoIterator<Item = &'a Batch>) -> AlignedBytes {
    let mut builder = SegmentBuilder::default();
    for (seq, batch) in (first_seq..).zip(batches) {
        builder.push_batch(seq, batch);
    }
    builder.finish()
}

fn segments(groups: &[Vec<Batch>]) -> Vec<Arc<Segment>> {
    let mut seq = 1;
    let mut segments = Vec::new();
    for batches in groups {
        segments.push(Arc::new(Segment::from_heap(built(seq, batches))));
        seq += batches.len() as u64;
    }
    segments
}

fn merged(segments: &[Arc<Segment>], erased: &ErasedIds) -> (AlignedBytes, MergeOutput) {
    let mut bytes = AlignedBytes::default();
    let merged = merge_to(segments, erased, &mut bytes).unwrap();
    assert_eq!(merged.bytes, bytes.as_slice().len() as u64);
    (bytes, merged)
}

/// Reports the columns in which two files differ.
fn assert_same(one: &AlignedBytes, other: &AlignedBytes) {
    if one.as_slice() == other.as_slice() {
        return;
    }
    let open = |bytes: &AlignedBytes| {
        Segment::open("a test", FileBytes::copy_from(bytes.as_slice())).unwrap()
    };
    let (one, other) = (open(one), open(other));
    assert_eq!(one.header(), other.header());
    for spec in COLUMNS {
        let cells = |segment: &Segment| {
            segment.column::<u8>(Column(spec.number)).unwrap().all().unwrap().to_vec()
        };
        assert_eq!(cells(&one), cells(&other), "{}", spec.name);
    }
    panic!("the columns are the same, their places are not");
}

fn without(batch: &Batch, erased: &ErasedIds) -> Batch {
    let gone: Vec<u128> = erased.ids().collect();
    let stays = |id: u128| !gone.contains(&id);
    let mut batch = batch.clone();
    batch.sources.retain(|source| stays(source.id.unwrap().0));
    batch.items.retain(|item| stays(item.id.unwrap().0));
    batch.edges.retain(|edge| stays(edge.id.unwrap().0) && stays(edge.from.0) && stays(edge.to.0));
    batch
}

proptest! {
    #[test]
    fn merge_equals_building_from_all_batches(seed in 1u64..) {
        let mut dice = Dice(seed);
        let (groups, _) = groups(&mut dice);
        let segments = segments(&groups);
        let (bytes, merged) = merged(&segments, &ErasedIds::default());
        assert_same(&bytes, &built(1, groups.iter().flatten()));
        let segment = Segment::from_heap(bytes);
        segment.check_padding().unwrap();
        prop_assert_eq!(*segment.header(), merged.header);
        for (old, map) in segments.iter().zip(&merged.rows) {
            for row in 0..old.header().items {
                let new = map.items.new_row(row).unwrap();
                prop_assert_eq!(segment.item_id(new).unwrap(), old.item_id(row).unwrap());
            }
        }
    }

    #[test]
    fn merge_excluding_rows_equals_building_without_them(seed in 1u64..) {
        let mut dice = Dice(seed);
        let (groups, made) = groups(&mut dice);
        let mut erased = vec![0, u128::MAX];
        for id in made.items.iter().chain(&made.sources).chain(&made.edges) {
            if dice.below(4) == 0 {
                erased.push(*id);
            }
        }
        let erased = ErasedIds::new(erased);
        let segments = segments(&groups);
        let (bytes, merged) = merged(&segments, &erased);
        let fewer: Vec<Batch> =
            groups.iter().flatten().map(|batch| without(batch, &erased)).collect();
        assert_same(&bytes, &built(1, &fewer));
        let segment = Segment::from_heap(bytes);
        for (old, map) in segments.iter().zip(&merged.rows) {
            for row in 0..old.header().items {
                let (id, new) = (old.item_id(row).unwrap(), map.items.new_row(row));
                prop_assert_eq!(segment.row_of_item(id).unwrap(), new);
                prop_assert_eq!(new.is_none(), erased.ids().any(|gone| gone == id.0));
            }
            for row in 0..old.header().edges {
                let (id, new) = (old.edge(row).unwrap().id, map.edges.new_row(row));
                prop_assert_eq!(segment.row_of_edge(id).unwrap(), new);
            }
        }
        // A merge in two steps has the same result.
        if let Some((first, rest)) = segments.split_first() {
            let (later, _) = super::tests::merged(rest, &erased);
            let two = [first.clone(), Arc::new(Segment::from_heap(later))];
            let (again, _) = super::tests::merged(&two, &erased);
            assert_same(&Segment::copy(&segment), &again);
        }
    }

    #[test]
    fn lookups_in_a_merged_segment_equal_a_full_scan(seed in 1u64..) {
        let mut dice = Dice(seed);
        let (groups, made) = groups(&mut dice);
        let segment = Segment::from_heap(built(1, groups.iter().flatten()));
        let header = *segment.header();
        for &id in made.items.iter().chain(&[0, 5, u128::MAX]) {
            let id = ItemId(id);
            let items = || (0..header.items).map(|row| (row, segment.item(row).unwrap()));
            let edges = || (0..header.edges).map(|row| (row, segment.edge(row).unwrap()));
            let of = |row| items().find(|(_, item)| item.id == id).map(|(at, _)| at) == row;
            prop_assert!(of(segment.row_of_item(id).unwrap()));
            let from: Vec<u32> =
                edges().filter(|(_, edge)| edge.from == id).map(|(row, _)| row).collect();
            let to: Vec<u32> =
                edges().filter(|(_, edge)| edge.to == id).map(|(row, _)| row).collect();
            let replacing: Vec<u32> = items()
                .filter(|(_, item)| item.supersedes.contains(&id))
                .map(|(row, _)| row)
                .collect();
            prop_assert_eq!(segment.successor_rows(id).unwrap(), &replacing);
            match segment.node_of(id).unwrap() {
                None => prop_assert!(from.is_empty() && to.is_empty()),
                Some(node) => {
                    prop_assert_eq!(segment.node_id(node).unwrap(), id);
                    prop_assert!(of(segment.node_row(node).unwrap()));
                }
            }
            prop_assert_eq!(segment.edge_rows_from(id).unwrap(), from);
            prop_assert_eq!(segment.edge_rows_to(id).unwrap(), to);
        }
        for name in NAMES {
            let code = (0..header.symbols).find(|&code| segment.symbol(code).unwrap() == name);
            prop_assert_eq!(segment.symbol_code(name).unwrap(), code);
        }
    }
}

impl Segment {
    fn copy(&self) -> AlignedBytes {
        let mut bytes = AlignedBytes::default();
        bytes.extend(self.raw());
        bytes
    }
}

/// Enough rows for several pages.
fn large() -> Vec<Arc<Segment>> {
    let mut dice = Dice(77);
    let mut made = Made { ascending: false, ..Made::default() };
    let batches: Vec<Vec<Batch>> =
        (0..2).map(|_| (0..400).map(|_| made.batch(&mut dice)).collect()).collect();
    segments(&batches)
}

#[test]
fn file_merge_and_heap_merge_have_equal_rows() {
    let segments = large();
    let (bytes, _) = merged(&segments, &ErasedIds::default());
    let folder = tempfile::tempdir().unwrap();
    let disk = FsDisk::open(folder.path()).unwrap();
    let file = disk.create("segment-00000000000000000001").unwrap();
    let mut sink = FileSink::new(&*file, &NoThrottle);
    let merged = merge_to(&segments, &ErasedIds::default(), &mut sink).unwrap();
    let sha256 = sink.finish().unwrap();
    let found = disk.read("segment-00000000000000000001", merged.bytes).unwrap();
    assert_eq!(merged.bytes, found.len() as u64);
    assert!(found == bytes.as_slice());
    assert_eq!(sha256[..], Sha256::digest(&found)[..]);
}

#[test]
fn corrupt_input_fails_the_merge_and_names_its_file() {
    let segments = large();
    let good = segments[1].raw();
    assert!(good.len() > 4 * PAGE_BYTES, "{} bytes are few pages", good.len());
    for at in (0..good.len()).step_by(4099) {
        let mut bad = good.to_vec();
        bad[at] ^= 0x20;
        let Ok(second) = Segment::open("segment-2", FileBytes::copy_from(&bad)) else { continue };
        let inputs = [segments[0].clone(), Arc::new(second)];
        let found = merge_to(&inputs, &ErasedIds::default(), &mut AlignedBytes::default());
        let MergeError::Damaged(damage) = found.map(drop).unwrap_err() else {
            panic!("byte {at}: not damage");
        };
        let places = ["segment-2: ", ": the checksum of page "];
        assert_eq!(damage.rule, "SEG-06");
        assert!(places.iter().all(|place| damage.detail.contains(place)), "{damage}");
    }
}

/// Recomputes page checksums and trailer for the changed bytes.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let trailer = bytes.len() - TRAILER_BYTES;
    let number = u64::from_le_bytes(bytes[trailer + 16..trailer + 24].try_into().unwrap());
    let checks = usize::try_from(number).unwrap();
    let sums: Vec<u8> = bytes[..checks]
        .chunks(PAGE_BYTES)
        .flat_map(|page| crc32c::crc32c(page).to_le_bytes())
        .collect();
    bytes[checks..trailer].copy_from_slice(&sums);
    let sum = crc32c::crc32c(&sums).to_le_bytes();
    bytes[trailer + 28..trailer + 32].copy_from_slice(&sum);
    let sum = crc32c::crc32c(&bytes[trailer..trailer + 52]).to_le_bytes();
    bytes[trailer + 52..trailer + 56].copy_from_slice(&sum);
    bytes
}

/// Covers wrong bytes under valid checksums.
#[test]
fn corrupt_input_bytes_never_panic_the_merge() {
    let mut dice = Dice(11);
    let mut made = Made { ascending: false, ..Made::default() };
    let (one, two) = (made.batch(&mut dice), made.batch(&mut dice));
    let good = built(1, [&one]).as_slice().to_vec();
    let other = Arc::new(Segment::from_heap(built(2, [&two])));
    assert!(other.header().edges > 0 && other.header().vectors > 0 && !made.edges.is_empty());
    let erased = ErasedIds::new(made.items.iter().copied().step_by(2));
    let mut refused = 0;
    for at in (0..good.len() - TRAILER_BYTES).filter(|at| good[*at] != 0 || at % 16 == 0) {
        let mut bad = good.clone();
        bad[at] ^= [0x01, 0x02, 0x80, 0xff][at % 4];
        let Ok(first) = Segment::open("segment-1", FileBytes::copy_from(&resealed(bad))) else {
            continue;
        };
        let inputs = [Arc::new(first), other.clone()];
        let parts = inputs.clone().map(|segment| {
            let header = *segment.header();
            let state = RowState::empty(header.items as usize, header.edges as usize);
            SegmentSnapshot { segment, state: Arc::new(state) }
        });
        refused += usize::from(merge_segments(&parts).is_err());
        let mut bytes = AlignedBytes::default();
        if merge_to(&inputs, &erased, &mut bytes).is_ok() {
            Segment::from_heap(bytes);
        }
    }
    assert!(refused > 50, "only {refused} changes were refused");
}

#[test]
fn row_states_are_mapped_to_surviving_rows() {
    let segments = large();
    let parts: Vec<SegmentSnapshot> = segments
        .iter()
        .map(|segment| {
            let header = segment.header();
            let mut state = RowState::empty(header.items as usize, header.edges as usize);
            let every = |step, rows, bits: &mut crate::row_state::RowBitmap| {
                assert!((0..rows).step_by(step).all(|row| bits.insert(row)));
            };
            every(3, header.items, &mut state.tombstoned);
            every(5, header.items, &mut state.superseded);
            every(4, header.edges, &mut state.edges_tombstoned);
            SegmentSnapshot { segment: segment.clone(), state: Arc::new(state) }
        })
        .collect();
    let erased = [0, 7, 12].map(|row| segments[1].item_id(row).unwrap().0);
    let (_, merged) = merged(&segments, &ErasedIds::new(erased));
    let state = merged.merge_states(&parts);
    let mut carried = 0;
    for (map, part) in merged.rows.iter().zip(&parts) {
        for row in 0..part.segment.header().items {
            let Some(new) = map.items.new_row(row) else { continue };
            assert_eq!(state.tombstoned.contains(new), row % 3 == 0);
            assert_eq!(state.superseded.contains(new), row % 5 == 0);
            carried += u32::from(row % 3 == 0);
        }
        for row in 0..part.segment.header().edges {
            let Some(new) = map.edges.new_row(row) else { continue };
            assert_eq!(state.edges_tombstoned.contains(new), row % 4 == 0);
        }
    }
    assert_eq!(state.tombstoned.count(), carried);
    let whole = merge_segments(&parts).unwrap();
    assert!(whole.state.tombstoned.count() > carried, "two of the erased were tombstoned");
}

#[test]
fn embeddings_of_different_dimensions_do_not_merge() {
    let of_width = |seq, width| {
        let item = ItemDraft {
            id: Some(ItemId(u128::from(seq))),
            embedding: vec![f16::ONE; width],
            ..ItemDraft::default()
        };
        let batch = Batch { items: vec![item], ..Batch::default() };
        Arc::new(Segment::from_heap(built(seq, [&batch])))
    };
    let inputs = [of_width(1, 4), of_width(2, 5)];
    let why = merge_to(&inputs, &ErasedIds::default(), &mut AlignedBytes::default()).unwrap_err();
    assert!(why.to_string().contains("MAN-06"), "{why}");
    // An input whose vectors are all erased does not affect the dimensions.
    let (_, merged) = merged(&inputs, &ErasedIds::new([2]));
    assert_eq!((merged.header.dimensions, merged.header.vectors), (4, 1));
    assert_eq!((merged.header.first_seq, merged.header.last_seq), (1, 2));
}

#[test]
fn too_large_table_is_rejected() {
    assert_eq!(
        row_count(Table::Items, SEGMENT_ROWS_MAX as u64).unwrap() as usize,
        SEGMENT_ROWS_MAX
    );
    for rows in [SEGMENT_ROWS_MAX as u64 + 1, u64::from(u32::MAX) + 5] {
        let why = row_count(Table::Edges, rows).unwrap_err().to_string();
        assert!(why.contains("Edges") && why.contains(&SEGMENT_ROWS_MAX.to_string()), "{why}");
    }
}

/// Merging the postings takes most of the time and writes nothing, so the sink must be polled meanwhile.
#[test]
fn merge_polls_the_sink_before_its_first_byte() {
    struct Asked {
        times: std::cell::Cell<usize>,
        at_first_byte: Option<usize>,
        ends_at: usize,
    }
    impl Sink for Asked {
        fn put(&mut self, _bytes: &[u8]) -> Result<(), DiskError> {
            self.at_first_byte.get_or_insert(self.times.get());
            Ok(())
        }

        fn after_work(&self) -> bool {
            self.times.set(self.times.get() + 1);
            self.times.get() != self.ends_at
        }
    }
    let letter = |n: usize| char::from(b"bcdfghjklmnpqrstvwxz"[n % 20]);
    let word = |n: usize| String::from_iter([letter(n), letter(n / 20), letter(n / 400), 'q']);
    let text = (0..3000).map(word).collect::<Vec<_>>().join(" ");
    let (kind, modality) = ("note".to_owned(), "text".to_owned());
    let note = ItemDraft { text, kind, modality, searchable: true, ..ItemDraft::default() };
    let id = |n: u128| ItemDraft { id: Some(ItemId(n)), ..note.clone() };
    let batch = Batch { items: (1..=12).map(id).collect(), ..Batch::default() };
    let segment = Arc::new(Segment::from_heap(built(1, [&batch])));
    let merged = |ends_at: usize| {
        let mut sink = Asked { times: Default::default(), at_first_byte: None, ends_at };
        let merged = merge_to(std::slice::from_ref(&segment), &ErasedIds::default(), &mut sink);
        (merged.map(drop), sink.at_first_byte, sink.times.get())
    };
    let (whole, asked, _) = merged(0);
    assert!(whole.is_ok() && asked.is_some_and(|times| times >= 4), "asked {asked:?} times");
    let (ended, begun, times) = merged(2);
    assert!(matches!(ended, Err(MergeError::Cancelled)), "{ended:?}");
    assert_eq!((begun, times), (None, 2));
}
