//! Vector search equals brute force to the last bit, for one query and for many, on one thread and on several; and its
//! bound holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use half::f16;
use kernels::{Bars, Kernels, Level, QUESTIONS_MAX, RowFacts, Team};
use proptest::prelude::*;

use super::Hit;
use super::access_path::ListShard;
use super::batch_nearest::{BatchQuery, merge_hits};
use super::score_bound::QueryCodes;
use super::vector_scan::{QueryGroup, SegmentScan, ThreadHits};
use crate::cancel::CancelToken;
use crate::error::SearchError;
use crate::ids::ItemId;
use crate::item::{Batch, ItemDraft};
use crate::query::filter::Filter;
use crate::query::snapshot::{RowAddress, Snapshot};
use crate::row_state::RowState;
use crate::segment::{Segment, SegmentBuilder};
use crate::segment_snapshot::SegmentSnapshot;
use crate::vector_index::tests::index_of;

const WIDTHS: [usize; 8] = [1, 7, 31, 32, 33, 64, 384, 1024];

/// Pseudo-random generator (xorshift64*), so that a failure can be reproduced from its seed.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap() % end
    }

    /// Uniform in -1..1.
    fn unit(&mut self) -> f32 {
        i32::try_from(self.next() >> 40).unwrap() as f32 / (1 << 23) as f32 - 1.0
    }

    fn halves(&mut self, width: usize, size: f32) -> Vec<f16> {
        (0..width).map(|_| f16::from_f32(self.unit() * size)).collect()
    }

    /// Rows that are all equal, nearly equal, around one centre, or of any kind.
    fn hostile(&mut self, count: usize, width: usize) -> Vec<Vec<f16>> {
        let centre = self.halves(width, 1.0);
        let near = |noise: &mut Self, spread: f32| -> Vec<f16> {
            let moved = centre.iter().map(|half| half.to_f32() + noise.unit() * spread);
            moved.map(f16::from_f32).collect()
        };
        match self.below(4) {
            0 => vec![centre; count],
            1 => (0..count).map(|_| near(self, 1e-3)).collect(),
            2 => (0..count).map(|_| near(self, 0.5)).collect(),
            _ => self.rows(count, width),
        }
    }

    /// Rows that are hard to tell apart: copies, copies that differ in a last bit, multiples, zeros, tiny and huge
    /// rows, rows with one component far above the others.
    fn rows(&mut self, count: usize, width: usize) -> Vec<Vec<f16>> {
        let mut rows: Vec<Vec<f16>> = vec![self.halves(width, 1.0)];
        while rows.len() < count {
            let mut row = rows[self.below(rows.len())].clone();
            let at = self.below(width);
            match self.below(9) {
                0 | 1 => {}
                2 | 3 => row[at] = f16::from_bits(row[at].to_bits() ^ 1),
                4 => row.iter_mut().for_each(|half| *half = f16::from_f32(half.to_f32() * 0.5)),
                5 => row = vec![f16::ZERO; width],
                6 => row = self.halves(width, 1e-6),
                7 => row = self.halves(width, 65_504.0),
                _ => row[at] = f16::from_f32(self.unit() * 100.0),
            }
            rows.push(row);
        }
        rows
    }
}

/// A segment of these rows, with the kinds in turn. Ids start at `first_id` and are not in row order.
fn part_of(rows: &[Vec<f16>], kinds: usize, first_id: u128) -> SegmentSnapshot {
    let count = rows.len() as u128;
    let items = rows.iter().zip(0u128..).map(|(row, at)| ItemDraft {
        id: Some(ItemId((at * 7919 + 13) % count.next_power_of_two() + first_id)),
        kind: format!("kind {}", at % kinds as u128),
        modality: "text".to_owned(),
        searchable: true,
        embedding: row.clone(),
        ..ItemDraft::default()
    });
    let mut builder = SegmentBuilder::default();
    builder.push_batch(1, &Batch { items: items.collect(), ..Batch::default() });
    let segment = Segment::from_heap(builder.finish());
    let state = RowState::empty(rows.len(), 0);
    SegmentSnapshot { segment: Arc::new(segment), state: Arc::new(state) }
}

type Found = Vec<(u32, RowAddress)>;

fn bits(hits: &[Hit]) -> Found {
    hits.iter().map(|hit| (hit.score.to_bits(), hit.address)).collect()
}

/// Scores every row, and sorts those of the wanted kinds.
fn brute_force(kernels: Kernels, snapshot: &Snapshot, asked: &BatchQuery<'_>) -> Found {
    let length = asked.query.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !(length > 0.0 && length.is_finite()) {
        return Vec::new();
    }
    let mut all = Vec::new();
    for (part, it) in (0u32..).zip(snapshot.segments.iter()) {
        let embeddings = it.segment.embeddings().unwrap();
        let mut query = asked.query.to_vec();
        query.resize(embeddings.halves_per_row, 0.0);
        for at in 0..embeddings.len() {
            let norm = embeddings.norms[at] * length;
            let dot = kernels.dot(&query, embeddings.halves(at, at + 1).unwrap());
            let score = if norm == 0.0 { 0.0 } else { dot / norm + 0.0 };
            let row = embeddings.items[at];
            let item = it.segment.item(row).unwrap();
            let kinds = &asked.filter.kinds;
            if kinds.is_empty() || kinds.iter().any(|kind| kind == item.kind) {
                all.push((score, item.id, RowAddress { segment_ord: part, row }));
            }
        }
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    all.truncate(asked.limit);
    all.into_iter().map(|(score, _, place)| (score.to_bits(), place)).collect()
}

/// Hits of a search on one thread, and the number of exact scores that it computed.
fn searched(
    kernels: Kernels,
    snapshot: &Snapshot,
    asked: &[BatchQuery<'_>],
) -> (Vec<Found>, usize) {
    let group = QueryGroup::new(
        kernels,
        asked.iter().map(|asked| (asked.query, asked.limit, asked.filter)),
    );
    let width = asked[0].query.len();
    let finds = snapshot.search_group(&group, width, &mut Team::of(1)).unwrap();
    let scored = finds.iter().map(|finds| finds.rows_scored).sum();
    (merge_hits(&group, finds).iter().map(|hits| bits(hits)).collect(), scored)
}

fn levels() -> impl Iterator<Item = Kernels> {
    Level::ALL.iter().filter_map(|&level| Kernels::for_level(level))
}

proptest! {
    #[test]
    fn nearest_equals_brute_force(
        seed in 1..u64::MAX,
        width in prop::sample::select(WIDTHS.to_vec()),
        counts in prop::collection::vec(1_usize..500, 1..4),
        limits in prop::collection::vec(0_usize..40, 1..QUESTIONS_MAX + 3),
        kinds in prop::sample::select(vec![1_usize, 2, 50]),
        size in prop::sample::select(vec![1.0_f32, 1e-18, 1e15]),
        threads in 1_usize..4,
    ) {
        let mut noise = Noise(seed);
        let mut parts = Vec::new();
        let mut near = Vec::new();
        for (count, first_id) in counts.into_iter().zip([1, 1 << 20, 1 << 30]) {
            let rows = noise.hostile(count, width);
            parts.push(part_of(&rows, kinds, first_id));
            near.push(rows[count / 2].clone());
        }
        let snapshot = Snapshot::new(&parts, 1, None);
        let filters =
            [Filter::default(), Filter { kinds: vec!["kind 0".to_owned()], ..Filter::default() }];
        // Random queries, and queries that nearly equal a stored row.
        let mut query = |at: usize| -> Vec<f32> {
            let row = &near[at % near.len()];
            let away = at.is_multiple_of(2);
            let mut number =
                |half: &f16| if away { noise.unit() + 0.001 } else { half.to_f32() + 1e-4 };
            row.iter().map(|half| number(half) * size).collect()
        };
        let queries: Vec<Vec<f32>> = (0..limits.len()).map(&mut query).collect();
        let questions = queries.iter().zip(&limits).zip(filters.iter().cycle());
        let asked: Vec<BatchQuery<'_>> =
            questions.map(|((query, &limit), filter)| BatchQuery { query, limit, filter }).collect();
        let mut team = Team::of(threads);
        for kernels in levels() {
            let together = snapshot.nearest_batch(&kernels, &mut team, &asked).unwrap();
            prop_assert_eq!(together.len(), asked.len());
            for (asked, found) in asked.iter().zip(together) {
                let wanted = brute_force(kernels, &snapshot, asked);
                prop_assert_eq!(&bits(&found), &wanted, "{:?}, together", kernels.level());
                let BatchQuery { query, limit, filter } = *asked;
                let alone = snapshot.nearest(&kernels, query, limit, filter).unwrap();
                prop_assert_eq!(&bits(&alone), &wanted, "{:?}, alone", kernels.level());
            }
        }
    }

    /// Compares with the computed score, for queries of any magnitude.
    #[test]
    fn score_never_exceeds_its_bound(
        seed in 1..u64::MAX,
        width in prop::sample::select(WIDTHS.to_vec()),
        exponent in -74_i32..60,
    ) {
        let mut noise = Noise(seed);
        let part = part_of(&noise.rows(40, width), 1, 1);
        let embeddings = part.segment.embeddings().unwrap();
        let mut number = || (noise.unit() + 0.001) * 2.0_f32.powi(exponent);
        let query: Vec<f32> = (0..width).map(|_| number()).collect();
        let length = query.iter().map(|x| x * x).sum::<f32>().sqrt();
        prop_assume!(length > 0.0);
        let codes = QueryCodes::quantize(&query, length, embeddings.coded.codes_per_row);
        let coded = &embeddings.coded;
        let mut query_halves = query.clone();
        query_halves.resize(embeddings.halves_per_row, 0.0);
        for kernels in levels() {
            let mut products = [0; 40];
            let asked = kernels.code_queries(&[&codes.codes()[..coded.codes_per_row]]);
            kernels.dot_codes(&asked, coded.codes, &mut products);
            for (at, product) in products.into_iter().enumerate() {
                let norm = embeddings.norms[at];
                let bound = codes.bound(product, coded.scales[at], coded.errors[at], norm);
                let halves = embeddings.halves(at, at + 1).unwrap();
                let by = norm * length;
                let score = if by > 0.0 { kernels.dot(&query_halves, halves) / by } else { 0.0 };
                prop_assert!(f64::from(score) <= bound, "row {at}: {score} is above {bound}");
                let facts = RowFacts {
                    scales: &coded.scales[at..=at],
                    errors: &coded.errors[at..=at],
                    norms: &embeddings.norms[at..=at],
                };
                // The first pass drops no row whose bound reaches the floor, even if both are equal.
                for floor in [bound, bound - 1e-9, f64::from(score)] {
                    let bar = codes.threshold(floor);
                    let bars = Bars {
                        per_product: [bar.per_product; QUESTIONS_MAX],
                        per_error: [bar.per_error; QUESTIONS_MAX],
                        least: [bar.least; QUESTIONS_MAX],
                    };
                    let mut reaching = [0];
                    kernels.reaching(&[product], facts, &bars, &mut reaching);
                    prop_assert_eq!(reaching, [1], "row {}: {} for {}", at, bound, floor);
                }
            }
        }
    }
}

/// Rows lie around centres, as embeddings of texts do: a scan over codes must leave most of them unscored, also on
/// several threads.
#[test]
fn code_scan_scores_few_rows_exactly() {
    let (count, width) = (4096, 384);
    let mut noise = Noise(0x5EED_0101);
    let centres: Vec<Vec<f16>> = (0..64).map(|_| noise.halves(width, 1.0)).collect();
    let rows: Vec<Vec<f16>> = (0..count)
        .map(|at| {
            let near = centres[at % centres.len()].iter();
            near.map(|half| f16::from_f32(half.to_f32() + noise.unit())).collect()
        })
        .collect();
    let snapshot = Snapshot::new(&[part_of(&rows, 1, 1)], 1, None);
    let mut query = |at: usize| -> Vec<f32> {
        centres[at].iter().map(|half| half.to_f32() + noise.unit()).collect()
    };
    let queries: Vec<Vec<f32>> = (0..5).map(&mut query).collect();
    let filter = Filter::default();
    let asked: Vec<BatchQuery<'_>> =
        queries.iter().map(|query| BatchQuery { query, limit: 10, filter: &filter }).collect();
    for asked in [&asked[..1], &asked] {
        let (found, scored) = searched(Kernels::detect(), &snapshot, asked);
        for (asked, found) in asked.iter().zip(found) {
            assert_eq!(found, brute_force(Kernels::detect(), &snapshot, asked));
        }
        let most = asked.len() * count / 20;
        assert!(scored < most, "{scored} of {count} rows were scored for {}", asked.len());
    }
}

#[test]
fn non_finite_row_is_corruption_in_both_scans() {
    for bad in [f16::NAN, f16::INFINITY] {
        let mut rows = Noise(0x5EED_0102).rows(600, 64);
        rows[500][9] = bad;
        let snapshot = Snapshot::new(&[part_of(&rows, 1, 1)], 1, None);
        let filter = Filter::default();
        let group =
            QueryGroup::new(Kernels::detect(), std::iter::once((&[0.5; 64][..], 5, &filter)));
        let part = SegmentScan::open(&snapshot, &snapshot.segments[0], 0, &group).unwrap();
        let mut finds = ThreadHits::new(&group);
        assert_eq!(rule(part.scan_halves(&group, 0..600, u16::MAX, &mut finds)), "SEG-16");
        assert!(group.benefits_from_codes(&part.embeddings));
        assert_eq!(rule(part.scan(&group, 0..600, u16::MAX, &mut finds)), "SEG-16");
    }
}

#[test]
fn non_finite_row_outside_the_filter_is_ignored() {
    let mut rows = Noise(0x5EED_0104).rows(600, 64);
    rows[500][9] = f16::NAN;
    let snapshot = Snapshot::new(&[part_of(&rows, 2, 1)], 1, None);
    let filter = Filter { kinds: vec!["kind 1".to_owned()], ..Filter::default() };
    let group = QueryGroup::new(Kernels::detect(), std::iter::once((&[0.5; 64][..], 5, &filter)));
    let part = SegmentScan::open(&snapshot, &snapshot.segments[0], 0, &group).unwrap();
    let mut finds = [ThreadHits::new(&group), ThreadHits::new(&group)];
    part.scan_halves(&group, 0..600, u16::MAX, &mut finds[0]).unwrap();
    part.scan(&group, 0..600, u16::MAX, &mut finds[1]).unwrap();
    let [halves, codes] = finds.map(|finds| bits(&merge_hits(&group, vec![finds])[0]));
    assert_eq!((halves.len(), &halves), (5, &codes));
}

fn rule(scanned: Result<(), SearchError>) -> &'static str {
    match scanned.unwrap_err() {
        SearchError::Damaged(damage) => damage.rule,
        SearchError::Interrupted => panic!("nobody stopped it"),
    }
}

/// A segment of 6,000 rows around 60 centres with an index, and the centres.
fn indexed_part(noise: &mut Noise) -> (SegmentSnapshot, Vec<Vec<f16>>) {
    const ROWS: usize = 6000;
    let centres: Vec<Vec<f16>> = (0..60).map(|_| noise.halves(40, 1.0)).collect();
    let rows: Vec<Vec<f16>> = (0..ROWS)
        .map(|at| {
            let centre = centres[at % centres.len()].iter();
            centre.map(|half| f16::from_f32(half.to_f32() + noise.unit() * 0.5)).collect()
        })
        .collect();
    let part = part_of(&rows, 1, 1);
    part.segment.install_index(index_of(&part.segment));
    assert!(part.segment.index().unwrap().is_useful());
    (part, centres)
}

/// Hits of `of` threads, each of which searches its shard of an index.
fn probed(snapshot: &Snapshot, query: &[f32], of: usize) -> Vec<Hit> {
    let filter = Filter::default();
    let group = QueryGroup::new(Kernels::detect(), std::iter::once((query, 10, &filter)));
    let part = SegmentScan::open(snapshot, &snapshot.segments[0], 0, &group).unwrap();
    let share = |which| {
        let mut finds = ThreadHits::new(&group);
        part.probe(&group, 0, ListShard { index: which, count: of }, &mut finds).unwrap();
        finds
    };
    merge_hits(&group, (0..of).map(share).collect()).pop().unwrap()
}

/// A query unlike any row has its nearest in many lists, none of which is near: a fixed number of lists would miss most
/// of them.
#[test]
fn index_finds_nearest_rows_of_distant_queries() {
    let mut noise = Noise(0x5EED_0105);
    let (part, centres) = indexed_part(&mut noise);
    let snapshot = Snapshot::new(&[part], 1, None);
    let filter = Filter::default();
    for (what, own) in [("near", 1.0), ("farther", 0.4), ("like no row", 0.0)] {
        let (mut found, mut asked) = (0, 0);
        for centre in centres.iter().take(50) {
            let query = centre.iter().map(|half| own * half.to_f32() + noise.unit());
            let query: Vec<f32> = query.collect();
            let exact = snapshot.nearest(&Kernels::detect(), &query, 10, &filter).unwrap();
            let exact = bits(&exact);
            for threads in [1, 3] {
                let hits = bits(&probed(&snapshot, &query, threads));
                found += exact.iter().filter(|hit| hits.contains(hit)).count();
                assert_eq!(hits.len(), 10, "none is there twice or missing");
                asked += 10;
            }
        }
        assert!(found * 100 >= asked * 98, "{what}: {found} of {asked}");
    }
}

/// A thread that starts on an index after another thread has found its top k examines less than the first thread did,
/// however few hits it finds.
#[test]
fn later_probe_shards_score_fewer_rows_than_the_first() {
    let mut noise = Noise(0x5EED_0106);
    let (part, centres) = indexed_part(&mut noise);
    let query: Vec<f32> = centres[7].iter().map(|half| half.to_f32()).collect();
    let mut near = |half: &f16| f16::from_f32(half.to_f32() + noise.unit() * 1e-3);
    let nearest: Vec<Vec<f16>> =
        (0..50).map(|_| centres[7].iter().map(&mut near).collect()).collect();
    let parts = [part, part_of(&nearest, 1, 1 << 20)];
    let looks = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&looks);
    let stop = CancelToken::from_fn(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        false
    });
    let snapshot = Snapshot::new(&parts, 1, None).with_cancel(stop);
    let filter = Filter::default();
    let group = QueryGroup::new(Kernels::detect(), std::iter::once((&query[..], 9, &filter)));
    let searched = |at: usize| {
        let part = &snapshot.segments[at];
        SegmentScan::open(&snapshot, part, u32::try_from(at).unwrap(), &group).unwrap()
    };
    let looks_of = |finds: &mut ThreadHits| {
        looks.store(0, Ordering::Relaxed);
        searched(0).probe(&group, 0, ListShard { index: 0, count: 1 }, finds).unwrap();
        looks.load(Ordering::Relaxed)
    };
    let mut early = ThreadHits::new(&group);
    let first = looks_of(&mut early);
    searched(1).scan(&group, 0..nearest.len(), 1, &mut early).unwrap();
    let mut late = ThreadHits::new(&group);
    let second = looks_of(&mut late);
    assert!(second < first, "{second} looks, {first} of who came first");
    assert!(late.best[0].floor().is_none(), "nothing there is as good");
}

/// If bound, score and floor are all exactly 0, the smallest ids still win.
#[test]
fn zero_rows_rank_by_id() {
    let rows = vec![vec![f16::ZERO; 40]; 600];
    let snapshot = Snapshot::new(&[part_of(&rows, 1, 1)], 1, None);
    let hits = snapshot.nearest(&Kernels::detect(), &[1.0; 40], 7, &Filter::default()).unwrap();
    let mut ids: Vec<ItemId> =
        (0..600).map(|row| snapshot.segments[0].segment.item_id(row).unwrap()).collect();
    ids.sort();
    let found: Vec<ItemId> = hits.iter().map(|hit| snapshot.id(hit.address).unwrap()).collect();
    assert_eq!(found, ids[..7]);
}

#[test]
fn incomparable_queries_in_a_batch_find_nothing() {
    let rows = Noise(0x5EED_0103).rows(300, 64);
    let snapshot = Snapshot::new(&[part_of(&rows, 1, 1)], 1, None);
    let filter = Filter::default();
    let queries: [&[f32]; 5] = [&[0.0; 64], &[1.0; 64], &[1.0; 32], &[f32::NAN; 64], &[]];
    let asked = queries.map(|query| BatchQuery { query, limit: 3, filter: &filter });
    let found = snapshot.nearest_batch(&Kernels::detect(), &mut Team::of(2), &asked).unwrap();
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [0, 3, 0, 0, 0]);
    let none = snapshot.nearest_batch(&Kernels::detect(), &mut Team::of(2), &[]).unwrap();
    assert!(none.is_empty());
}
