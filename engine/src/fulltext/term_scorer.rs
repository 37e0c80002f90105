//! Scorer of one term in a segment: its blocks, their bounds, and the scores of the current block.
//!
//! Owns the decoded and scored block of one list. Windows and other terms are left to the search.

use std::ops::Range;

use super::bm25::Bm25Formula;
use super::column_bytes::ColumnBytes;
use super::layout::BLOCK_ROWS;
use super::posting::Posting;
use super::postings_block::{BlockHead, DecodedBlock};
use super::postings_reader::{PostingsList, PostingsReader};
use crate::error::CorruptionError;

/// Position of one term in the segment. Its arrays are boxed, because a cursor is moved between searches.
pub(super) struct TermScorer {
    pub(super) list: PostingsList,
    pub(super) weight: f32,
    /// Last row and score bound of each block.
    pub(super) blocks: Vec<(u32, u32)>,
    /// First block that does not end before the window.
    pub(super) block: usize,
    /// Block at which the next lookup begins.
    pub(super) lookup_block: usize,
    /// Score bound within the window; 0 if the window has no block of the term.
    pub(super) window_bound: u32,
    /// Block whose rows, and possibly counts, are in `decoded`.
    pub(super) decoded_block: Option<usize>,
    pub(super) decoded: Box<DecodedBlock>,
    /// Block whose scores are in `scores`.
    pub(super) scored_block: Option<usize>,
    pub(super) scores: Box<[u32; BLOCK_ROWS]>,
}

/// Data that is constant during a search.
pub(super) struct SearchContext<'v, B> {
    pub(super) view: &'v PostingsReader<B>,
    pub(super) formula: &'v Bm25Formula,
}

impl TermScorer {
    pub(super) fn new(list: PostingsList) -> Self {
        Self {
            list,
            weight: 0.0,
            blocks: Vec::new(),
            block: 0,
            lookup_block: 0,
            window_bound: 0,
            decoded_block: None,
            decoded: Box::default(),
            scored_block: None,
            scores: Box::new([0; BLOCK_ROWS]),
        }
    }

    pub(super) fn advance(&mut self, start: u32) -> Option<u32> {
        while self.blocks.get(self.block)?.0 < start {
            self.block += 1;
        }
        Some(self.first_row(self.block).max(start))
    }

    /// Returns a lower bound of the rows of block `i`.
    pub(super) fn first_row(&self, i: usize) -> u32 {
        match i.checked_sub(1) {
            Some(before) => self.blocks[before].0 + 1,
            // A list without block heads is decoded when it is opened.
            None if self.decoded_block == Some(0) => self.decoded.rows[0],
            None => 0,
        }
    }

    /// Returns the blocks that may have rows below `end`, from the current block on.
    pub(super) fn blocks_below(&self, end: u64) -> Range<usize> {
        let past =
            self.blocks[self.block..].iter().position(|(last, _)| u64::from(*last) + 1 >= end);
        let past = past.map_or(self.blocks.len(), |past| self.block + past + 1);
        let some = self.block < past && u64::from(self.first_row(self.block)) < end;
        // The block that ends after `end` may also begin after `end`.
        let past = if past > self.block && u64::from(self.first_row(past - 1)) >= end {
            past - 1
        } else {
            past
        };
        if some { self.block..past } else { self.block..self.block }
    }
}

impl<B: ColumnBytes> SearchContext<'_, B> {
    /// Loads the last row and the score bound of each block.
    pub(super) fn load_bounds(&self, cursor: &mut TermScorer) -> Result<(), CorruptionError> {
        let TermScorer { list, weight, blocks, .. } = cursor;
        let long = self.view.heads(list, |i, head| {
            let BlockHead { last_row, impacts, .. } = head;
            let some = impacts.iter().filter(|impact| (impact.body, impact.title) != (0, 0));
            let bounds = some.map(|impact| {
                let most = Posting { row: 0, body: impact.body, title: impact.title };
                self.formula.bound(*weight, most, impact.length)
            });
            let most = bounds.max().ok_or_else(|| {
                CorruptionError::new("WRD-23", format!("block {i} has no impact"))
            })?;
            blocks.push((last_row, most));
            Ok(())
        })?;
        if !long {
            // A short list has no heads; its bound is its maximum score.
            self.score_block(cursor, 0)?;
            let count = cursor.decoded.count;
            let most = cursor.scores[..count].iter().copied().max().unwrap_or(0);
            cursor.blocks.push((cursor.decoded.rows[count - 1], most));
        }
        Ok(())
    }

    /// Decodes a block, or only its rows.
    pub(super) fn decode_block(
        &self,
        cursor: &mut TermScorer,
        block: usize,
        with_counts: bool,
    ) -> Result<(), CorruptionError> {
        if cursor.decoded_block != Some(block) {
            cursor.decoded_block = None;
            self.view.decode(&cursor.list, block, with_counts, &mut cursor.decoded)?;
            cursor.decoded_block = Some(block);
        } else if with_counts {
            self.view.decode_counts(&mut cursor.decoded)?;
        }
        Ok(())
    }

    /// Decodes a block and scores all its postings.
    pub(super) fn score_block(
        &self,
        cursor: &mut TermScorer,
        block: usize,
    ) -> Result<(), CorruptionError> {
        if cursor.scored_block == Some(block) && cursor.decoded_block == Some(block) {
            return Ok(());
        }
        self.decode_block(cursor, block, true)?;
        let DecodedBlock { rows, bodies, titles, count, has_titles: titled, .. } = &*cursor.decoded;
        let mut norms = [1.0; BLOCK_ROWS];
        self.view.length_codes(&rows[..*count], |at, code| {
            norms[at] = self.formula.norms[usize::from(code)];
        })?;
        let scores = &mut *cursor.scores;
        if *titled {
            for i in 0..BLOCK_ROWS {
                let frequency = self.formula.frequency(bodies[i], titles[i]);
                scores[i] = Bm25Formula::score(cursor.weight, frequency, norms[i]);
            }
        } else {
            for i in 0..BLOCK_ROWS {
                let frequency = self.formula.frequency(bodies[i], 0);
                scores[i] = Bm25Formula::score(cursor.weight, frequency, norms[i]);
            }
        }
        cursor.scored_block = Some(block);
        Ok(())
    }
}
