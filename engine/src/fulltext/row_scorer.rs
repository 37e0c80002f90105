//! Scores of the query's terms in given rows.
//!
//! Owns the lookup of single rows, for rows that another access path has found. The visiting order of a search is in
//! `search.rs`.

use super::bm25::{Bm25Formula, Bm25Weight, Score, SegmentTerms, WeightedTerm};
use super::column_bytes::ColumnBytes;
use super::postings_cursor::PostingsCursor;
use super::postings_reader::PostingsReader;
use crate::error::CorruptionError;

/// Match of one term of the query in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermMatch {
    /// Index of the term in `Query::terms`.
    pub term: usize,
    /// Contribution of the term to the score.
    pub score: Score,
    /// Occurrences in the body, at most 255.
    pub body: u8,
    /// Occurrences in the title, at most 255.
    pub title: u8,
}

/// Scores rows of one segment by lookup; fastest if the rows ascend.
pub struct RowScorer<'a, B> {
    view: &'a PostingsReader<B>,
    formula: &'a Bm25Formula,
    lists: Vec<(&'a WeightedTerm, PostingsCursor)>,
}

impl Bm25Weight {
    /// Returns a scorer for rows of one segment, from the result of
    /// [`CollectionStats::add`](super::CollectionStats::add).
    ///
    /// # Errors
    /// [`CorruptionError`] in the positions of the lists.
    pub fn row_scorer<'a, B: ColumnBytes>(
        &'a self,
        found: &'a SegmentTerms<B>,
    ) -> Result<RowScorer<'a, B>, CorruptionError> {
        let mut lists = Vec::new();
        for term in &self.terms {
            if let Some(entry) = found.entries.get(term.index).copied().flatten() {
                lists.push((term, PostingsCursor::new(found.view.list(entry)?)));
            }
        }
        Ok(RowScorer { view: &found.view, formula: &self.formula, lists })
    }
}

impl<B: ColumnBytes> RowScorer<'_, B> {
    /// Returns the query's terms that a row contains, with the contribution of each.
    ///
    /// # Errors
    /// [`CorruptionError`] in the lists that were read.
    pub fn matches(&mut self, row: u32) -> Result<Vec<TermMatch>, CorruptionError> {
        let mut matches = Vec::new();
        let Some(code) = self.view.length_code(row)? else { return Ok(matches) };
        for (term, list) in &mut self.lists {
            if let Some(posting) = list.posting(self.view, row)? {
                let score = Score(self.formula.posting(term.weight, posting, code));
                let (body, title) = (posting.body, posting.title);
                matches.push(TermMatch { term: term.index, score, body, title });
            }
        }
        Ok(matches)
    }
}
