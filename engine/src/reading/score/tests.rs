//! The scan over codes finds what the scan over halves finds, to the last bit; and its bound holds.

use std::sync::Arc;

use half::f16;
use kernels::{Kernels, Level};
use proptest::prelude::*;

use super::bound::QueryCodes;
use super::scan::{Question, Searched};
use crate::error::SearchError;
use crate::ids::ItemId;
use crate::item::{Batch, ItemDraft};
use crate::part::Part;
use crate::reading::filter::Filter;
use crate::reading::snapshot::{Place, Snapshot};
use crate::segment::{Segment, SegmentBuilder};
use crate::state::RowState;
use crate::top::Top;

const WIDTHS: [usize; 8] = [1, 7, 31, 32, 33, 64, 384, 1024];

/// A small generator (xorshift64*), so that a failure repeats from its seed.
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

    /// Evenly spread in -1..1.
    fn unit(&mut self) -> f32 {
        i32::try_from(self.next() >> 40).unwrap() as f32 / (1 << 23) as f32 - 1.0
    }

    fn halves(&mut self, width: usize, size: f32) -> Vec<f16> {
        (0..width).map(|_| f16::from_f32(self.unit() * size)).collect()
    }

    /// Rows that are hard to tell apart: copies, copies that differ in one last bit, multiples, rows
    /// of zeros, tiny and huge ones, rows with one number far above the others.
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

/// One part of these rows; kinds in turn, ids not in order of rows.
fn part_of(rows: &[Vec<f16>], kinds: usize) -> Part {
    let count = rows.len() as u128;
    let items = rows.iter().zip(0u128..).map(|(row, at)| ItemDraft {
        id: Some(ItemId((at * 7919 + 13) % count.next_power_of_two() + 1)),
        kind: format!("kind {}", at % kinds as u128),
        modality: "text".to_owned(),
        searchable: true,
        embedding: row.clone(),
        ..ItemDraft::default()
    });
    let mut builder = SegmentBuilder::default();
    builder.push_batch(1, &Batch { items: items.collect(), ..Batch::default() });
    let segment = Segment::held(builder.finish());
    let state = RowState::fresh(rows.len(), 0);
    Part { segment: Arc::new(segment), state: Arc::new(state) }
}

type Found = Vec<(u32, (ItemId, Place))>;

/// What both scans find, and how many rows the one over codes scored.
fn both(
    part: &Part,
    kernels: Kernels,
    query: &[f32],
    limit: usize,
    filter: &Filter,
) -> (Found, Found, usize) {
    let bits = |top: super::scan::Best| -> Found {
        top.into_sorted().into_iter().map(|(score, key)| (score.0.to_bits(), key)).collect()
    };
    let question = Question::of(kernels, query).expect("a query that can be compared");
    let snapshot = Snapshot::of(std::slice::from_ref(part), 1, None);
    let searched = Searched::of(&snapshot, part, 3, filter).unwrap();
    let mut by_halves = Top::new(limit);
    searched.scan_halves(&question, &mut by_halves).unwrap();
    let mut by_codes = Top::new(limit);
    let scored = searched.scan_codes(&question, &mut by_codes).unwrap();
    (bits(by_halves), bits(by_codes), scored)
}

fn levels() -> impl Iterator<Item = Kernels> {
    Level::ALL.iter().filter_map(|&level| Kernels::for_level(level))
}

proptest! {
    #[test]
    fn codes_find_what_halves_find(
        seed in 1..u64::MAX,
        width in prop::sample::select(WIDTHS.to_vec()),
        count in 1_usize..700,
        limit in 1_usize..40,
        kinds in prop::sample::select(vec![1_usize, 2, 50]),
        size in prop::sample::select(vec![1.0_f32, 1e-18, 1e15]),
    ) {
        let mut noise = Noise(seed);
        let rows = noise.rows(count, width);
        let part = part_of(&rows, kinds);
        let filter = Filter { kinds: vec!["kind 0".to_owned()], ..Filter::default() };
        // One query from nowhere, one that is nearly a stored row.
        let away: Vec<f32> = (0..width).map(|_| (noise.unit() + 0.001) * size).collect();
        let close: Vec<f32> = rows[0].iter().map(|half| (half.to_f32() + 1e-4) * size).collect();
        for query in [away, close] {
            for kernels in levels() {
                let (wanted, found, _) = both(&part, kernels, &query, limit, &filter);
                prop_assert_eq!(found, wanted);
            }
        }
    }

    /// Against the score that was computed, whatever the query's size.
    #[test]
    fn no_score_is_above_its_bound(
        seed in 1..u64::MAX,
        width in prop::sample::select(WIDTHS.to_vec()),
        exponent in -74_i32..60,
    ) {
        let mut noise = Noise(seed);
        let part = part_of(&noise.rows(40, width), 1);
        let embeddings = part.segment.embeddings().unwrap();
            let query: Vec<f32> = (0..width).map(|_| (noise.unit() + 0.001) * 2.0_f32.powi(exponent)).collect();
        let length = query.iter().map(|x| x * x).sum::<f32>().sqrt();
        prop_assume!(length > 0.0);
        let codes = QueryCodes::of(&query, length, embeddings.coded.row_codes);
        for kernels in levels() {
            let (mut products, mut bounds) = ([0; 40], [0.0; 40]);
            kernels.dot_codes_rows(codes.codes(), embeddings.coded.codes, &mut products);
            codes.bounds(&products, embeddings.coded.scales, embeddings.coded.errors, embeddings.norms, &mut bounds);
            for (at, bound) in bounds.into_iter().enumerate() {
                let halves = &embeddings.halves(at, at + 1).unwrap()[..width];
                let norm = embeddings.norms[at] * length;
                let score = if norm > 0.0 { kernels.dot(&query, halves) / norm } else { 0.0 };
                prop_assert!(f64::from(score) <= bound, "row {at}: {score} is above {bound}");
            }
        }
    }
}

/// Rows around centres, as those of texts are: a scan over codes must leave most of them unscored.
#[test]
fn few_rows_of_many_are_scored() {
    let (count, width) = (4096, 384);
    let mut noise = Noise(0x5EED_0101);
    let centres: Vec<Vec<f16>> = (0..64).map(|_| noise.halves(width, 1.0)).collect();
    let rows: Vec<Vec<f16>> = (0..count)
        .map(|at| {
            let near = centres[at % centres.len()].iter();
            near.map(|half| f16::from_f32(half.to_f32() + noise.unit())).collect()
        })
        .collect();
    let part = part_of(&rows, 1);
    let query: Vec<f32> = centres[5].iter().map(|half| half.to_f32() + noise.unit()).collect();
    let (wanted, found, scored) = both(&part, Kernels::detect(), &query, 10, &Filter::default());
    assert_eq!(found, wanted);
    assert!(scored < count / 20, "{scored} of {count} rows were scored");
}

#[test]
fn a_row_that_is_not_finite_is_damage_by_either_scan() {
    for bad in [f16::NAN, f16::INFINITY] {
        let mut rows = Noise(0x5EED_0102).rows(600, 64);
        rows[500][9] = bad;
        let part = part_of(&rows, 1);
        let filter = Filter::default();
        let snapshot = Snapshot::of(std::slice::from_ref(&part), 1, None);
        let searched = Searched::of(&snapshot, &part, 0, &filter).unwrap();
        let question = Question::of(Kernels::detect(), &[0.5; 64]).unwrap();
        let by_halves = searched.scan_halves(&question, &mut Top::new(5));
        assert_eq!(rule(by_halves.map(|()| 0)), "SEG-16");
        let by_codes = searched.scan_codes(&question, &mut Top::new(5));
        assert_eq!(rule(by_codes), "SEG-16");
    }
}

fn rule(scanned: Result<usize, SearchError>) -> &'static str {
    match scanned.unwrap_err() {
        SearchError::Damaged(damage) => damage.rule,
        SearchError::Interrupted => panic!("nobody stopped it"),
    }
}

/// Where bound, score and floor are all exactly 0, the smallest ids still win.
#[test]
fn rows_of_zeros_are_in_order_of_id() {
    let rows = vec![vec![f16::ZERO; 40]; 600];
    let part = part_of(&rows, 1);
    let (wanted, found, _) = both(&part, Kernels::detect(), &[1.0; 40], 7, &Filter::default());
    assert_eq!(found, wanted);
    let mut ids: Vec<ItemId> = (0..600).map(|row| part.segment.item_id(row).unwrap()).collect();
    ids.sort();
    assert_eq!(found.iter().map(|(_, (id, _))| *id).collect::<Vec<_>>(), ids[..7]);
}
