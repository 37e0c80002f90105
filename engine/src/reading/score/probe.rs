//! The meaning of a question through an index: the rows that seem near by their sketches, of the lists that
//! are near enough.
//!
//! Owns the order in which lists are looked at, which are passed over, and how rows that lie scattered are
//! brought together. A row is passed over or scored as in a scan (`scan.rs`). Must not know how an index came to be.

use std::collections::BinaryHeap;

use kernels::{CodeQueries, RowFacts};

use super::scan::{BLOCK_ROWS, Finds, Group, Searched};
use super::ways::Share;
use crate::error::SearchError;
use crate::index::{Lists, SketchQuestion};
use crate::ordered::Ordered;

/// Lists between two looks at whether the answer is still wanted: some ten thousand sketches.
const LISTS_TOGETHER: u32 = 16;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Rows of the nearest lists that are looked at first: after so many there is a floor that hardly rises any
    /// more.
    const NEAREST_ROWS: usize = 4096;
}

/// Sketches that are compared with what a row must come to before it is asked whether any comes to it.
const SKETCHES_TOGETHER: usize = 32;

/// Rows as far as one block goes, side by side.
struct Gathered {
    codes: Vec<i8>,
    scales: [f32; BLOCK_ROWS],
    errors: [f32; BLOCK_ROWS],
    norms: [f32; BLOCK_ROWS],
    products: [i32; BLOCK_ROWS],
    reaching: [u16; BLOCK_ROWS],
    /// Rows that are still to be looked at: those of many lists make one block.
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

/// The one question of a group that is asked.
struct Alone<'a> {
    group: &'a Group<'a>,
    question: usize,
    codes: CodeQueries,
    sketched: &'a SketchQuestion,
}

impl Alone<'_> {
    /// What a row must come to, by as much less as this margin allows.
    fn floor_less(&self, margin: f32) -> f32 {
        self.group.floor(self.question) - margin
    }

    /// All lists, the one whose centroid is nearest on top.
    fn nearest(&self, lists: &Lists) -> BinaryHeap<(Ordered, usize)> {
        let mut products = vec![0; lists.count()];
        self.group.kernels.dot_codes(&self.codes, lists.codes(), &mut products);
        let codes = self.group.codes(self.question);
        let products = products.iter().zip(lists.scales());
        let scores = products.map(|(&product, &scale)| codes.cosine(product, scale));
        scores.zip(0..).map(|(score, list)| (Ordered::of(score), list)).collect()
    }

    /// A share of those lists that are near enough, as they lie in memory, one after the other: what is read
    /// in order comes faster than what is nearest first.
    fn left(
        &self,
        lists: &Lists,
        nearest: BinaryHeap<(Ordered, usize)>,
        share: Share,
    ) -> Vec<(Ordered, usize)> {
        let least = self.floor_less(lists.list_margin());
        // Whatever the floor is when a thread comes here, each list is in one share.
        let start = |which: usize| lists.count() * which / share.of;
        let own = start(share.which)..start(share.which + 1);
        let mut left = nearest.into_vec();
        left.retain(|(score, list)| own.contains(list) && score.number() >= least);
        left.sort_unstable_by_key(|&(_, list)| list);
        left
    }
}

impl Searched<'_> {
    /// The lists of this part's index, if it has one that serves and the questions can be compared by codes.
    pub(super) fn lists(&self, group: &Group<'_>) -> Option<&Lists> {
        self.segment.index().filter(|lists| lists.serves() && group.gains_from(&self.embeddings))
    }

    /// Looks through a share of the lists of the part's index, the nearest first, then all others that are not
    /// too far from one question to have any of its best; at nothing where there are no lists.
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

    /// Looks at those rows of a list that seem near by their sketches.
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
                // One comparison for many: hardly any row seems near.
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

    /// Bounds the rows that wait by their codes, and scores those that may be among the best.
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
