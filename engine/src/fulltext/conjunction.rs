//! Conjunction: the rows of one segment that contain all words of some phrases, at any position.
//!
//! Owns the intersection of lists: the shortest list yields the candidates, and the others are queried for these rows
//! only, with each block decoded at most once. Adjacency of the words is checked elsewhere.

use super::column_bytes::ColumnBytes;
use super::phrase::{Phrases, TermAlternatives};
use super::postings_block::DecodedBlock;
use super::postings_cursor::PostingsCursor;
use super::postings_reader::PostingsReader;
use crate::cancel::CancelToken;
use crate::error::CorruptionError;
use crate::error::SearchError;

/// Rows processed between two polls of the cancel token.
const ROWS_PER_CANCEL_CHECK: u32 = 4096;

impl<B: ColumnBytes> PostingsReader<B> {
    /// Returns the rows that contain all words of all phrases, in ascending order.
    ///
    /// # Errors
    /// [`SearchError`] on damage in the lists that were read, or on cancellation.
    pub fn rows_with_phrases(
        &self,
        phrases: &Phrases,
        stop: &CancelToken,
    ) -> Result<Vec<u32>, SearchError> {
        let mut met = Vec::new();
        for need in phrases.required_terms() {
            let met_here = AlternativesMatcher::open(self, &need)?;
            if met_here.rows() == 0 {
                return Ok(Vec::new());
            }
            met.push(met_here);
        }
        met.sort_by_key(AlternativesMatcher::rows);
        let Some(first) = met.first() else { return Ok(Vec::new()) };
        let mut rows = first.candidates(self, stop)?;
        for met in &mut met {
            let mut kept = Vec::with_capacity(rows.len());
            let mut steps = stop.every(ROWS_PER_CANCEL_CHECK);
            for row in rows {
                steps.tick()?;
                if met.has(self, row)? {
                    kept.push(row);
                }
            }
            rows = kept;
        }
        Ok(rows)
    }
}

/// Lists that satisfy one [`TermAlternatives`]: a row must have all parts, or the whole.
struct AlternativesMatcher {
    /// Lists of the parts, the rarest first; empty if any part is missing in the segment.
    parts: Vec<PostingsCursor>,
    whole: Option<PostingsCursor>,
}

impl AlternativesMatcher {
    fn open<B: ColumnBytes>(
        view: &PostingsReader<B>,
        need: &TermAlternatives,
    ) -> Result<Self, CorruptionError> {
        let forward = |term: &String| -> Result<Option<PostingsCursor>, CorruptionError> {
            view.entry(term)?.map(|entry| Ok(PostingsCursor::new(view.list(entry)?))).transpose()
        };
        let parts: Option<Vec<PostingsCursor>> =
            need.parts.iter().map(forward).collect::<Result<_, _>>()?;
        let mut parts = parts.unwrap_or_default();
        parts.sort_by_key(|part| part.list.rows);
        let whole = need.whole.as_ref().map(forward).transpose()?.flatten();
        Ok(Self { parts, whole })
    }

    /// Upper bound of the number of matching rows.
    fn rows(&self) -> u64 {
        let parts = self.parts.first().map_or(0, |part| u64::from(part.list.rows));
        parts + self.whole.as_ref().map_or(0, |whole| u64::from(whole.list.rows))
    }

    /// Returns a superset of the matching rows.
    fn candidates<B: ColumnBytes>(
        &self,
        view: &PostingsReader<B>,
        stop: &CancelToken,
    ) -> Result<Vec<u32>, SearchError> {
        let mut rows = Vec::new();
        let mut decoded = DecodedBlock::default();
        let mut steps = stop.every(ROWS_PER_CANCEL_CHECK / 128);
        for list in self.parts.first().into_iter().chain(&self.whole).map(|it| &it.list) {
            for block in 0..view.block_count(list) {
                steps.tick()?;
                view.decode(list, block, false, &mut decoded)?;
                rows.extend_from_slice(&decoded.rows[..decoded.count]);
            }
        }
        if self.whole.is_some() {
            rows.sort_unstable();
            rows.dedup();
        }
        Ok(rows)
    }

    fn has<B: ColumnBytes>(
        &mut self,
        view: &PostingsReader<B>,
        row: u32,
    ) -> Result<bool, CorruptionError> {
        if let Some(whole) = &mut self.whole
            && whole.has(view, row)?
        {
            return Ok(true);
        }
        for part in &mut self.parts {
            if !part.has(view, row)? {
                return Ok(false);
            }
        }
        Ok(!self.parts.is_empty())
    }
}
