//! The meaning of a question through an index: the lists that are nearest, down to their depth.
//!
//! Owns the order in which lists are looked at and how their rows, which lie scattered, are brought
//! together. A row is passed over or scored as in a scan (`scan.rs`). Must not know how an index came to be.

use std::collections::BinaryHeap;

use super::bound::QueryCodes;
use super::scan::{BLOCK_ROWS, Best, Cosine, Question, Searched, floor_of};
use crate::error::SearchError;
use crate::index::Lists;

/// Rows of a list as far as one block goes, side by side.
struct Gathered {
    codes: Vec<i8>,
    scales: [f32; BLOCK_ROWS],
    errors: [f32; BLOCK_ROWS],
    norms: [f32; BLOCK_ROWS],
    products: [i32; BLOCK_ROWS],
    bounds: [f64; BLOCK_ROWS],
}

impl Searched<'_> {
    /// Looks through the lists of this part's index, if it has one that gains; `false` where all of it is
    /// to be scanned.
    pub(super) fn probe(&self, question: &Question, top: &mut Best) -> Result<bool, SearchError> {
        let lists = self.segment.index().filter(|lists| lists.gains());
        let (Some(lists), Some(codes)) = (lists, question.codes.as_ref()) else {
            return Ok(false);
        };
        let mut nearest = nearest(lists, codes, question, self.embeddings.coded.row_codes);
        let mut gathered = Gathered {
            codes: vec![0; BLOCK_ROWS * self.embeddings.coded.row_codes],
            scales: [0.0; BLOCK_ROWS],
            errors: [0.0; BLOCK_ROWS],
            norms: [0.0; BLOCK_ROWS],
            products: [0; BLOCK_ROWS],
            bounds: [0.0; BLOCK_ROWS],
        };
        // Rows of many short lists make one block.
        let mut waiting: Vec<u32> = Vec::with_capacity(BLOCK_ROWS);
        let mut left = lists.depth() as usize;
        while left > 0
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
                self.look_at(&waiting, question, codes, &mut gathered, top)?;
                waiting.clear();
            }
        }
        self.look_at(&waiting, question, codes, &mut gathered, top)?;
        Ok(true)
    }

    /// Bounds a block of rows by their codes, and scores those that may be among the best.
    fn look_at(
        &self,
        vectors: &[u32],
        question: &Question,
        codes: &QueryCodes,
        gathered: &mut Gathered,
        top: &mut Best,
    ) -> Result<(), SearchError> {
        self.stop.check()?;
        let (embeddings, count) = (&self.embeddings, vectors.len());
        let width = embeddings.coded.row_codes;
        let rows = gathered.codes.chunks_exact_mut(width);
        for ((at, &vector), row) in vectors.iter().enumerate().zip(rows) {
            let vector = vector as usize;
            row.copy_from_slice(&embeddings.coded.codes[vector * width..(vector + 1) * width]);
            gathered.scales[at] = embeddings.coded.scales[vector];
            gathered.errors[at] = embeddings.coded.errors[vector];
            gathered.norms[at] = embeddings.norms[vector];
        }
        let (products, bounds) = (&mut gathered.products[..count], &mut gathered.bounds[..count]);
        let query = &codes.codes()[..width];
        question.kernels.dot_codes_rows(query, &gathered.codes[..count * width], products);
        codes.bounds(products, &gathered.scales, &gathered.errors, &gathered.norms, bounds);
        let mut floor = floor_of(top);
        for (&vector, &bound) in vectors.iter().zip(&*bounds) {
            // As in a scan: what is not a number is not below the floor.
            if bound < floor {
                continue;
            }
            self.consider(question, vector as usize, top)?;
            floor = floor_of(top);
        }
        Ok(())
    }
}

/// All lists, the one whose centroid is nearest on top.
fn nearest(
    lists: &Lists,
    codes: &QueryCodes,
    question: &Question,
    width: usize,
) -> BinaryHeap<(Cosine, usize)> {
    let mut products = vec![0; lists.count()];
    question.kernels.dot_codes_rows(&codes.codes()[..width], lists.codes(), &mut products);
    let scores =
        products.iter().zip(lists.scales()).map(|(&product, scale)| product as f32 * scale);
    scores.zip(0..).map(|(score, list)| (Cosine(score), list)).collect()
}
