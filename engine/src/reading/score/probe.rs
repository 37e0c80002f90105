//! Vector search through an IVF index: probes the lists near enough to the query, and examines rows that seem near by
//! their binary codes.
//!
//! Owns the order of the lists, which lists are skipped, and the gathering of scattered rows into blocks. Rows are
//! scored as in a scan (`scan.rs`).

use std::collections::BinaryHeap;

use kernels::{CodeQueries, RowFacts};

use super::scan::{BLOCK_ROWS, Finds, Group, Searched};
use super::ways::Share;
use crate::error::SearchError;
use crate::index::{Lists, SketchQuestion};
use crate::ordered::Ordered;

/// Lists between two cancellation checks: some ten thousand binary codes.
const LISTS_TOGETHER: u32 = 16;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Rows of the nearest lists that are examined first: after this many, the score floor hardly rises any more.
    const NEAREST_ROWS: usize = 4096;
}

/// Binary codes compared with the threshold before a branch on the results.
const SKETCHES_TOGETHER: usize = 32;

/// A block of rows copied side by side, with their statistics.
struct Gathered {
    codes: Vec<i8>,
    scales: [f32; BLOCK_ROWS],
    errors: [f32; BLOCK_ROWS],
    norms: [f32; BLOCK_ROWS],
    products: [i32; BLOCK_ROWS],
    reaching: [u16; BLOCK_ROWS],
    /// Rows to be scored, gathered from many lists.
    waiting: Vec<u32>,
}

impl Gathered {
    fn new(row_codes: usize) -> Self {
        Self {
            codes: vec![0; BLOCK_ROWS * row_codes],
            scales: [0.0; BLOCK_ROWS],
            errors: [0.0; BLOCK_ROWS],
            norms: [0.0; BLOCK_ROWS],
            products: [0; BLOCK_ROWS],
            reaching: [0; BLOCK_ROWS],
            waiting: Vec::with_capacity(BLOCK_ROWS),
        }
    }
}

/// The query of a group that is searched for.
struct Alone<'a> {
    group: &'a Group<'a>,
    question: usize,
    codes: CodeQueries,
    sketched: &'a SketchQuestion,
}

impl Alone<'_> {
    /// Score floor of the query, lowered by a margin.
    fn floor_less(&self, margin: f32) -> f32 {
        self.group.floor(self.question) - margin
    }

    /// All lists, as a heap with the nearest centroid on top.
    fn nearest(&self, lists: &Lists) -> BinaryHeap<(Ordered, usize)> {
        let mut products = vec![0; lists.count()];
        self.group.kernels.dot_codes(&self.codes, lists.codes(), &mut products);
        let codes = self.group.codes(self.question);
        let products = products.iter().zip(lists.scales());
        let scores = products.map(|(&product, &scale)| codes.cosine(product, scale));
        scores.zip(0..).map(|(score, list)| (Ordered::of(score), list)).collect()
    }

    /// A shard of the lists that are near enough, in memory order: sequential reads are faster than the nearest first.
    fn left(
        &self,
        lists: &Lists,
        nearest: BinaryHeap<(Ordered, usize)>,
        share: Share,
    ) -> Vec<(Ordered, usize)> {
        let least = self.floor_less(lists.list_margin());
        // Threads arrive with different floors, but each list is in exactly one shard.
        let start = |which: usize| lists.count() * which / share.of;
        let own = start(share.which)..start(share.which + 1);
        let mut left = nearest.into_vec();
        left.retain(|(score, list)| own.contains(list) && score.number() >= least);
        left.sort_unstable_by_key(|&(_, list)| list);
        left
    }
}

impl Searched<'_> {
    /// Index of this segment, if it is worth using and the queries can be compared by codes.
    pub(super) fn lists(&self, group: &Group<'_>) -> Option<&Lists> {
        self.segment.index().filter(|lists| lists.serves() && group.gains_from(&self.embeddings))
    }

    /// Searches a shard of the index's lists: the nearest lists first, then all others within the list margin of the
    /// score floor. Does nothing if there is no index.
    pub(super) fn probe(
        &self,
        group: &Group<'_>,
        question: usize,
        share: Share,
        finds: &mut Finds,
    ) -> Result<(), SearchError> {
        let Some(lists) = self.lists(group) else { return Ok(()) };
        let width = self.embeddings.coded.row_codes;
        let codes = group.kernels.code_queries(&[&group.codes(question).codes()[..width]]);
        let sketched = group.questions[question].sketched();
        let alone = Alone { group, question, codes, sketched };
        let mut gathered = Gathered::new(width);
        let mut nearest = alone.nearest(lists);
        let mut steps = self.stop.each(LISTS_TOGETHER);
        let (mut at, mut rows) = (0, 0);
        while rows < NEAREST_ROWS
            && let Some((score, list)) = nearest.pop()
        {
            rows += lists.places(list).len();
            if at % share.of == share.which {
                steps.step()?;
                self.sift(&alone, lists, (score, list), &mut gathered, finds)?;
            }
            at += 1;
        }
        self.look_at(&alone, &mut gathered, finds)?;
        for (score, list) in alone.left(lists, nearest, share) {
            steps.step()?;
            self.sift(&alone, lists, (score, list), &mut gathered, finds)?;
        }
        self.look_at(&alone, &mut gathered, finds)
    }

    /// Gathers the rows of a list that seem near by their binary codes, and scores full blocks.
    fn sift(
        &self,
        alone: &Alone<'_>,
        lists: &Lists,
        (score, list): (Ordered, usize),
        gathered: &mut Gathered,
        finds: &mut Finds,
    ) -> Result<(), SearchError> {
        let score = score.number();
        if score < alone.floor_less(lists.list_margin()) {
            return Ok(());
        }
        let (rows, kernels) = (lists.rows(), alone.group.kernels);
        let mut looked = Ok(());
        let places = lists.places(list);
        lists.sketches().products(kernels, alone.sketched, places, |first, products| {
            for (at, products) in
                (first..).step_by(SKETCHES_TOGETHER).zip(products.chunks(SKETCHES_TOGETHER))
            {
                let least = alone.floor_less(lists.sketch_margin()) - score;
                // A single branch for many codes, as hardly any row seems near.
                if products.iter().fold(false, |any, &product| any | (product >= least)) {
                    let near = (at..).zip(products).filter(|&(_, &product)| product >= least);
                    for (place, _) in near {
                        gathered.waiting.push(rows[place]);
                    }
                }
                let is_full = gathered.waiting.len() + SKETCHES_TOGETHER > BLOCK_ROWS;
                if looked.is_ok() && (is_full || least == f32::NEG_INFINITY) {
                    looked = self.look_at(alone, gathered, finds);
                }
            }
        });
        looked
    }

    /// Bounds the gathered rows by their int8 codes, and scores those that may reach the top k.
    fn look_at(
        &self,
        alone: &Alone<'_>,
        gathered: &mut Gathered,
        finds: &mut Finds,
    ) -> Result<(), SearchError> {
        self.stop.check()?;
        let (group, count) = (alone.group, gathered.waiting.len());
        let (embeddings, coded) = (&self.embeddings, &self.embeddings.coded);
        let width = coded.row_codes;
        let rows = gathered.codes.chunks_exact_mut(width);
        for ((at, &vector), row) in gathered.waiting.iter().enumerate().zip(rows) {
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
        let bars = group.bars(alone.question..alone.question + 1);
        let reaching = &mut gathered.reaching[..count];
        group.kernels.reaching(products, facts, &bars, reaching);
        for ((&vector, &reaches), &sum) in gathered.waiting.iter().zip(&*reaching).zip(&*products) {
            if reaches != 0 {
                self.consider(group, alone.question, (vector as usize, sum), finds)?;
            }
        }
        gathered.waiting.clear();
        Ok(())
    }
}
