//! The meaning of a question through an index: the lists that are nearest, down to their depth.
//!
//! Owns the order in which lists are looked at and how their rows, which lie scattered, are brought
//! together. A row is passed over or scored as in a scan (`scan.rs`). Must not know how an index came to be.

use std::collections::BinaryHeap;

use kernels::{CodeQueries, RowFacts};

use super::scan::{BLOCK_ROWS, Finds, Group, Searched};
use crate::error::SearchError;
use crate::index::Lists;
use crate::ordered::Ordered;

/// Rows of a list as far as one block goes, side by side.
struct Gathered {
    codes: Vec<i8>,
    scales: [f32; BLOCK_ROWS],
    errors: [f32; BLOCK_ROWS],
    norms: [f32; BLOCK_ROWS],
    products: [i32; BLOCK_ROWS],
    reaching: [u16; BLOCK_ROWS],
}

/// The one question of a group that is asked.
struct Alone<'a> {
    group: &'a Group<'a>,
    question: usize,
    codes: CodeQueries,
}

impl Searched<'_> {
    /// The lists of this part's index, if it has one that gains and the questions can be compared by codes.
    pub(super) fn lists(&self, group: &Group<'_>) -> Option<&Lists> {
        self.segment.index().filter(|lists| lists.gains() && group.gains_from(&self.embeddings))
    }

    /// Looks through the lists that are nearest to one question, `depth` rows of them, and through more while
    /// no thread has found as many as the question may have; through none where there are no lists. A thread
    /// that comes late finds little that is as good as what the others have, which is no reason to go on.
    pub(super) fn probe(
        &self,
        group: &Group<'_>,
        question: usize,
        depth: usize,
        finds: &mut Finds,
    ) -> Result<(), SearchError> {
        let Some(lists) = self.lists(group) else { return Ok(()) };
        let width = self.embeddings.coded.row_codes;
        let codes = group.kernels.code_queries(&[&group.codes(question).codes()[..width]]);
        let alone = Alone { group, question, codes };
        let mut nearest = nearest(lists, &alone);
        let mut gathered = Gathered {
            codes: vec![0; BLOCK_ROWS * width],
            scales: [0.0; BLOCK_ROWS],
            errors: [0.0; BLOCK_ROWS],
            norms: [0.0; BLOCK_ROWS],
            products: [0; BLOCK_ROWS],
            reaching: [0; BLOCK_ROWS],
        };
        // Rows of many short lists make one block.
        let mut waiting: Vec<u32> = Vec::with_capacity(BLOCK_ROWS);
        let mut left = depth;
        while (left > 0 || !group.has_floor(question))
            && let Some((_, list)) = nearest.pop()
        {
            let rows = lists.rows(list);
            left = left.saturating_sub(rows.len());
            let mut rows = rows.iter();
            loop {
                let room = BLOCK_ROWS - waiting.len();
                waiting.extend(rows.by_ref().take(room));
                if waiting.len() < BLOCK_ROWS {
                    break;
                }
                self.look_at(&waiting, &alone, &mut gathered, finds)?;
                waiting.clear();
            }
        }
        self.look_at(&waiting, &alone, &mut gathered, finds)
    }

    /// Bounds a block of rows by their codes, and scores those that may be among the best.
    fn look_at(
        &self,
        vectors: &[u32],
        alone: &Alone<'_>,
        gathered: &mut Gathered,
        finds: &mut Finds,
    ) -> Result<(), SearchError> {
        self.stop.check()?;
        let (group, count) = (alone.group, vectors.len());
        let (embeddings, coded) = (&self.embeddings, &self.embeddings.coded);
        let width = coded.row_codes;
        let rows = gathered.codes.chunks_exact_mut(width);
        for ((at, &vector), row) in vectors.iter().enumerate().zip(rows) {
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
        for ((&vector, &reaches), &sum) in vectors.iter().zip(&*reaching).zip(&*products) {
            if reaches != 0 {
                self.consider(group, alone.question, (vector as usize, sum), finds)?;
            }
        }
        Ok(())
    }
}

/// All lists, the one whose centroid is nearest on top.
fn nearest(lists: &Lists, alone: &Alone<'_>) -> BinaryHeap<(Ordered, usize)> {
    let mut products = vec![0; lists.count()];
    alone.group.kernels.dot_codes(&alone.codes, lists.codes(), &mut products);
    let scores =
        products.iter().zip(lists.scales()).map(|(&product, scale)| product as f32 * scale);
    scores.zip(0..).map(|(score, list)| (Ordered::of(score), list)).collect()
}
