//! Vector search through an IVF index: probes the lists near enough to the query, and examines rows that seem near by
//! their binary codes.
//!
//! Owns the order of the lists, which lists are skipped, and the gathering of scattered rows into blocks. Rows are
//! scored as in a scan (`scan.rs`).

use std::collections::BinaryHeap;

use kernels::{CodeQueries, RowFacts};

use super::access_path::ListShard;
use super::vector_scan::{BLOCK_ROWS, QueryGroup, SegmentScan, ThreadHits};
use crate::error::SearchError;
use crate::total_order::TotalF32;
use crate::vector_index::{BinaryQuery, IvfIndex};

/// Lists between two cancellation checks: some ten thousand binary codes.
const LISTS_PER_CANCEL_CHECK: u32 = 16;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Rows of the nearest lists that are examined first: after this many, the score floor hardly rises any more.
    const NEAREST_ROWS: usize = 4096;
}

/// Binary codes compared with the threshold before a branch on the results.
const CODES_PER_COMPARE: usize = 32;

/// A block of rows copied side by side, with their statistics.
struct RowBlock {
    codes: Vec<i8>,
    scales: [f32; BLOCK_ROWS],
    errors: [f32; BLOCK_ROWS],
    norms: [f32; BLOCK_ROWS],
    products: [i32; BLOCK_ROWS],
    above_threshold: [u16; BLOCK_ROWS],
    /// Rows to be scored, gathered from many lists.
    pending_rows: Vec<u32>,
}

impl RowBlock {
    fn new(row_codes: usize) -> Self {
        Self {
            codes: vec![0; BLOCK_ROWS * row_codes],
            scales: [0.0; BLOCK_ROWS],
            errors: [0.0; BLOCK_ROWS],
            norms: [0.0; BLOCK_ROWS],
            products: [0; BLOCK_ROWS],
            above_threshold: [0; BLOCK_ROWS],
            pending_rows: Vec::with_capacity(BLOCK_ROWS),
        }
    }
}

/// The query of a group that is searched for.
struct ProbeQuery<'a> {
    group: &'a QueryGroup<'a>,
    query: usize,
    codes: CodeQueries,
    binary: &'a BinaryQuery,
}

impl ProbeQuery<'_> {
    /// Score floor of the query, lowered by a margin.
    fn floor_with_margin(&self, margin: f32) -> f32 {
        self.group.floor(self.query) - margin
    }

    /// All lists, as a heap with the nearest centroid on top.
    fn ranked_lists(&self, lists: &IvfIndex) -> BinaryHeap<(TotalF32, usize)> {
        let mut products = vec![0; lists.count()];
        self.group.kernels.dot_codes(&self.codes, lists.codes(), &mut products);
        let codes = self.group.codes(self.query);
        let products = products.iter().zip(lists.scales());
        let scores = products.map(|(&product, &scale)| codes.cosine(product, scale));
        scores.zip(0..).map(|(score, list)| (TotalF32::new(score), list)).collect()
    }

    /// A shard of the lists that are near enough, in memory order: sequential reads are faster than the nearest first.
    fn remaining_lists(
        &self,
        lists: &IvfIndex,
        nearest: BinaryHeap<(TotalF32, usize)>,
        share: ListShard,
    ) -> Vec<(TotalF32, usize)> {
        let least = self.floor_with_margin(lists.list_margin());
        // Threads arrive with different floors, but each list is in exactly one shard.
        let start = |which: usize| lists.count() * which / share.count;
        let own = start(share.index)..start(share.index + 1);
        let mut left = nearest.into_vec();
        left.retain(|(score, list)| own.contains(list) && score.to_f32() >= least);
        left.sort_unstable_by_key(|&(_, list)| list);
        left
    }
}

impl SegmentScan<'_> {
    /// Index of this segment, if it is worth using and the queries can be compared by codes.
    pub(super) fn ivf_index(&self, group: &QueryGroup<'_>) -> Option<&IvfIndex> {
        self.segment
            .index()
            .filter(|lists| lists.is_useful() && group.benefits_from_codes(&self.embeddings))
    }

    /// Searches a shard of the index's lists: the nearest lists first, then all others within the list margin of the
    /// score floor. Does nothing if there is no index.
    pub(super) fn probe(
        &self,
        group: &QueryGroup<'_>,
        question: usize,
        share: ListShard,
        finds: &mut ThreadHits,
    ) -> Result<(), SearchError> {
        let Some(lists) = self.ivf_index(group) else { return Ok(()) };
        let width = self.embeddings.coded.codes_per_row;
        let codes = group.kernels.code_queries(&[&group.codes(question).codes()[..width]]);
        let sketched = group.queries[question].binary_query();
        let alone = ProbeQuery { group, query: question, codes, binary: sketched };
        let mut gathered = RowBlock::new(width);
        let mut nearest = alone.ranked_lists(lists);
        let mut steps = self.cancel.every(LISTS_PER_CANCEL_CHECK);
        let (mut at, mut rows) = (0, 0);
        while rows < NEAREST_ROWS
            && let Some((score, list)) = nearest.pop()
        {
            rows += lists.list_range(list).len();
            if at % share.count == share.index {
                steps.tick()?;
                self.filter_list(&alone, lists, (score, list), &mut gathered, finds)?;
            }
            at += 1;
        }
        self.score_block(&alone, &mut gathered, finds)?;
        for (score, list) in alone.remaining_lists(lists, nearest, share) {
            steps.tick()?;
            self.filter_list(&alone, lists, (score, list), &mut gathered, finds)?;
        }
        self.score_block(&alone, &mut gathered, finds)
    }

    /// Gathers the rows of a list that seem near by their binary codes, and scores full blocks.
    fn filter_list(
        &self,
        alone: &ProbeQuery<'_>,
        lists: &IvfIndex,
        (score, list): (TotalF32, usize),
        gathered: &mut RowBlock,
        finds: &mut ThreadHits,
    ) -> Result<(), SearchError> {
        let score = score.to_f32();
        if score < alone.floor_with_margin(lists.list_margin()) {
            return Ok(());
        }
        let (rows, kernels) = (lists.rows(), alone.group.kernels);
        let mut looked = Ok(());
        let places = lists.list_range(list);
        lists.binary_codes().estimate_products(kernels, alone.binary, places, |first, products| {
            for (at, products) in
                (first..).step_by(CODES_PER_COMPARE).zip(products.chunks(CODES_PER_COMPARE))
            {
                let least = alone.floor_with_margin(lists.sketch_margin()) - score;
                // A single branch for many codes, as hardly any row seems near.
                if products.iter().fold(false, |any, &product| any | (product >= least)) {
                    let near = (at..).zip(products).filter(|&(_, &product)| product >= least);
                    for (place, _) in near {
                        gathered.pending_rows.push(rows[place]);
                    }
                }
                let is_full = gathered.pending_rows.len() + CODES_PER_COMPARE > BLOCK_ROWS;
                if looked.is_ok() && (is_full || least == f32::NEG_INFINITY) {
                    looked = self.score_block(alone, gathered, finds);
                }
            }
        });
        looked
    }

    /// Bounds the gathered rows by their int8 codes, and scores those that may reach the top k.
    fn score_block(
        &self,
        alone: &ProbeQuery<'_>,
        gathered: &mut RowBlock,
        finds: &mut ThreadHits,
    ) -> Result<(), SearchError> {
        self.cancel.check()?;
        let (group, count) = (alone.group, gathered.pending_rows.len());
        let (embeddings, coded) = (&self.embeddings, &self.embeddings.coded);
        let width = coded.codes_per_row;
        let rows = gathered.codes.chunks_exact_mut(width);
        for ((at, &vector), row) in gathered.pending_rows.iter().enumerate().zip(rows) {
            let vector = vector as usize;
            row.copy_from_slice(&coded.codes[vector * width..(vector + 1) * width]);
            gathered.scales[at] = coded.scales[vector];
            gathered.errors[at] = coded.errors[vector];
            gathered.norms[at] = embeddings.norms[vector];
        }
        let products = &mut gathered.products[..count];
        group.kernels.dot_codes(&alone.codes, &gathered.codes[..count * width], products);
        let facts = RowFacts {
            scales: &gathered.scales[..count],
            errors: &gathered.errors[..count],
            norms: &gathered.norms[..count],
        };
        let bars = group.thresholds(alone.query..alone.query + 1);
        let reaching = &mut gathered.above_threshold[..count];
        group.kernels.reaching(products, facts, &bars, reaching);
        for ((&vector, &reaches), &sum) in
            gathered.pending_rows.iter().zip(&*reaching).zip(&*products)
        {
            if reaches != 0 {
                self.score_if_above_floor(group, alone.query, (vector as usize, sum), finds)?;
            }
        }
        gathered.pending_rows.clear();
        Ok(())
    }
}
