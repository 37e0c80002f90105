//! BM25: score of a term in a row.
//!
//! Owns the formula and its arithmetic. Blocks and the order of visiting rows are left to other modules.
//!
//! Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), sections 3.4 and 3.6
//! (fields by weighted counts). A term adds `weight * idf * (k1 + 1) * tf / (tf + norm)`, with `tf = body +
//! title_weight * title` and `norm = k1 * (1 - b + b * length / mean length)`.
//!
//! The score of a term is rounded to a whole number of 1/2^17 before the scores are added. Sums of whole numbers do not
//! depend on the order of addition. So every order of visiting rows, and every division of a store into segments, gives
//! the same score to the last bit, and equal rows tie exactly.

use super::column_bytes::ColumnBytes;
use super::excluded_row_stats::{ExcludedRows, RowSet};
use super::layout::{LENGTH_CODES, decode_length};
use super::posting::Posting;
use super::postings_reader::{PostingsReader, TermEntry};
use super::query_terms::{QUERY_TERMS_MAX, Query};
use crate::cancel::CancelToken;
use crate::error::CorruptionError;
use crate::error::SearchError;

/// Score units per 1.0.
const SCALE: f32 = (1 << 17) as f32;

/// Maximum score of one term: 64.0, the mantissa of a float. The sum of all terms fits 31 bits.
pub(super) const TERM_SCORE_MAX: u32 = (1 << 23) - 1;
const TERM_SCORE_LIMIT: f32 = TERM_SCORE_MAX as f32;
const MANTISSA: f32 = (1 << 23) as f32;

const _: () = assert!(TERM_SCORE_MAX as u64 * QUERY_TERMS_MAX as u64 <= i32::MAX as u64);

/// Maximum of `k1` and of the title weight; larger values count as this one.
const PARAMETER_MAX: f32 = 1000.0;

/// BM25 score as a whole number of 1/2^17.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score(pub(super) u32);

impl Score {
    /// Returns the score in its usual unit.
    #[expect(
        clippy::cast_precision_loss,
        reason = "shown to people; ranking uses the whole number"
    )]
    pub fn to_f32(self) -> f32 {
        self.0 as f32 / SCALE
    }

    /// Returns a lower bound of the scores of all matches that are displayed as `shown`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
    pub fn from_f32_floor(shown: f32) -> Self {
        // An `f32` has 24 of a score's bits, and a match scores at least 1.
        let exact = f64::from(shown) * f64::from(SCALE);
        Self((exact * (1.0 - f64::from(f32::EPSILON))).floor().max(1.0) as u32)
    }
}

/// Sums the scores of one row's terms, at most [`QUERY_TERMS_MAX`] terms.
impl std::iter::Sum for Score {
    fn sum<I: Iterator<Item = Self>>(scores: I) -> Self {
        Self(scores.map(|score| score.0).sum())
    }
}

/// Free parameters of BM25.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bm25Parameters {
    /// Saturation of repeated occurrences, 0 or more; a larger value saturates later.
    pub k1: f32,
    /// Weight of a row's length, 0 to 1.
    pub b: f32,
    /// Weight of an occurrence in the title relative to the body, 0 or more.
    pub title_weight: f32,
}

impl Default for Bm25Parameters {
    fn default() -> Self {
        Self { k1: 1.2, b: 0.75, title_weight: 2.0 }
    }
}

/// Segment with the dictionary entries of the query's terms.
pub struct SegmentTerms<B> {
    pub(super) view: PostingsReader<B>,
    /// Entry of each term of the query; `None` if the segment does not have the term.
    pub(super) entries: Vec<Option<TermEntry>>,
}

impl<B> SegmentTerms<B> {
    /// Returns a result without entries, for a segment that is excluded from the search.
    pub fn empty(view: PostingsReader<B>, query: &Query) -> Self {
        Self { view, entries: vec![None; query.terms().len()] }
    }

    /// Returns true if the segment has none of the terms.
    pub fn is_empty(&self) -> bool {
        self.entries.iter().all(Option::is_none)
    }
}

/// Statistics of the collection: sums over all its segments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectionStats {
    documents: u64,
    length_total: u64,
    frequencies: Vec<u64>,
}

impl CollectionStats {
    /// Creates empty statistics.
    pub fn new(query: &Query) -> Self {
        Self { documents: 0, length_total: 0, frequencies: vec![0; query.terms().len()] }
    }

    /// Adds a segment. The result can be reused by a search, which then need not look up the terms again.
    ///
    /// # Errors
    /// [`CorruptionError`] in the segment's dictionary or entries.
    pub fn add<B: ColumnBytes>(
        &mut self,
        view: PostingsReader<B>,
        query: &Query,
    ) -> Result<SegmentTerms<B>, CorruptionError> {
        let found = self.add_segment(view, query, (view.documents(), view.length_total()))?;
        for (frequency, entry) in self.frequencies.iter_mut().zip(&found.entries) {
            *frequency += entry.map_or(0, |entry| u64::from(entry.rows));
        }
        Ok(found)
    }

    /// Adds a segment without some of its rows.
    ///
    /// # Errors
    /// Returns [`SearchError`] on damage in the segment's dictionary, in its entries or in the lists of the terms, and
    /// on cancellation. After an error, the statistics are invalid.
    pub fn add_excluding<B: ColumnBytes, R: RowSet>(
        &mut self,
        view: PostingsReader<B>,
        query: &Query,
        without: ExcludedRows<'_, R>,
        stop: &CancelToken,
    ) -> Result<SegmentTerms<B>, SearchError> {
        // If more rows are excluded than exist, the lengths are damaged, which `verify` reports.
        let documents = view.documents().saturating_sub(without.documents);
        let length_total = view.length_total().saturating_sub(without.length_total);
        let found = self.add_segment(view, query, (documents, length_total))?;
        for (frequency, entry) in self.frequencies.iter_mut().zip(&found.entries) {
            if let Some(entry) = *entry {
                let left_out = view.excluded_frequency(entry, &without, stop)?;
                *frequency += u64::from(entry.rows.saturating_sub(left_out));
            }
        }
        Ok(found)
    }

    /// Adds `documents` rows of total length `length_total`, and looks up the query's terms in the segment.
    fn add_segment<B: ColumnBytes>(
        &mut self,
        view: PostingsReader<B>,
        query: &Query,
        (documents, length_total): (u32, u64),
    ) -> Result<SegmentTerms<B>, CorruptionError> {
        self.documents += u64::from(documents);
        self.length_total = self.length_total.checked_add(length_total).ok_or_else(|| {
            CorruptionError::new("WRD-13", "the lengths of all segments exceed 64 bits")
        })?;
        let entries = query.terms().iter().map(|term| view.entry(&term.term));
        Ok(SegmentTerms { view, entries: entries.collect::<Result<_, _>>()? })
    }

    /// Number of rows with words.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// Document frequency of each term of the query, in rows.
    pub fn frequencies(&self) -> &[u64] {
        &self.frequencies
    }
}

/// Weighted query that can score the rows of any segment of the collection.
#[derive(Debug, Clone)]
pub struct Bm25Weight {
    /// Terms that occur somewhere, each with the limit of its score in units of 1/2^17.
    pub(super) terms: Vec<WeightedTerm>,
    max_term_scores: Vec<f32>,
    pub(super) formula: Bm25Formula,
    pub(super) cancel: CancelToken,
}

#[derive(Debug, Clone)]
pub(super) struct WeightedTerm {
    /// Index of the term in the query.
    pub(super) index: usize,
    pub(super) weight: f32,
}

/// Length of each length code, computed at compile time because every query needs all of them.
#[expect(clippy::cast_precision_loss, reason = "length codes are rounded far more coarsely")]
const LENGTHS: [f32; LENGTH_CODES] = {
    let mut lengths = [0.0; LENGTH_CODES];
    let mut code = u8::MAX;
    loop {
        lengths[code as usize] = decode_length(code) as f32;
        if code == 0 {
            break lengths;
        }
        code -= 1;
    }
};

/// Part of the formula that does not depend on the term.
#[derive(Debug, Clone)]
pub(super) struct Bm25Formula {
    title_weight: f32,
    /// Length norm by length code; increases with the code.
    pub(super) norms: Box<[f32; LENGTH_CODES]>,
}

impl Bm25Weight {
    /// Weights the terms of `query` by their rarity in the collection.
    ///
    /// A parameter outside its range counts as the nearest value of the range.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "weights are estimates"
    )]
    pub fn new(query: &Query, stats: &CollectionStats, parameters: Bm25Parameters) -> Self {
        let k1 = clamp_or_zero(parameters.k1, PARAMETER_MAX);
        let b = clamp_or_zero(parameters.b, 1.0);
        let title_weight = clamp_or_zero(parameters.title_weight, PARAMETER_MAX);
        let mean = (stats.length_total as f64 / stats.documents.max(1) as f64).max(1.0) as f32;
        let norms = LENGTHS.map(|length| k1 * (1.0 - b + b * (length / mean)));
        let weights =
            query.weights(|term| stats.frequencies.get(term).is_some_and(|rows| *rows > 0));
        let idf = |rows: u64| {
            let rows = rows.clamp(1, stats.documents.max(1)) as f64;
            (1.0 + (stats.documents as f64 - rows + 0.5) / (rows + 0.5)).ln() as f32
        };
        let asked: Vec<f32> = weights
            .iter()
            .zip(&stats.frequencies)
            .map(|(weight, rows)| weight * idf(*rows) * (k1 + 1.0))
            .collect();
        let terms = asked.iter().zip(&stats.frequencies).enumerate();
        let terms = terms.filter(|(_, (_, rows))| **rows > 0);
        let terms =
            terms.map(|(index, (weight, _))| WeightedTerm { index, weight: weight * SCALE });
        let terms = terms.collect();
        let formula = Bm25Formula { title_weight, norms: Box::new(norms) };
        Self { terms, max_term_scores: asked, formula, cancel: CancelToken::default() }
    }

    /// Maximum score of a row for each term of the query; rarer terms have higher values. A term without rows counts as
    /// a term of one row, but a whole compound without rows counts for nothing.
    pub fn max_term_scores(&self) -> &[f32] {
        &self.max_term_scores
    }

    /// Returns this ranker with a cancel token, which its searches poll.
    #[must_use]
    pub fn with_cancel(self, stop: CancelToken) -> Self {
        Self { cancel: stop, ..self }
    }
}

/// Clamps `value` to the range from 0 to `most`; NaN counts as 0.
fn clamp_or_zero(value: f32, most: f32) -> f32 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, most) }
}

impl Bm25Formula {
    /// Returns the weighted count of both fields.
    #[expect(clippy::cast_precision_loss, reason = "counts are at most 255")]
    pub(super) fn frequency(&self, body: u32, title: u32) -> f32 {
        // Converted via i32, which takes one instruction; u32 takes several.
        body.cast_signed() as f32 + self.title_weight * title.cast_signed() as f32
    }

    /// Returns the score of a term of `weight`. The score is at least 1, so that a match is always visible.
    ///
    /// Adding 2^23 leaves the rounded number in the low bits of the float. Unlike a cast, which must check the range,
    /// this addition is plain arithmetic and runs on several postings at once. 0 / 0 counts as 1.
    pub(super) fn score(weight: f32, frequency: f32, norm: f32) -> u32 {
        let score = weight * frequency / (frequency + norm);
        let score = if score > 1.0 { score } else { 1.0 };
        let score = if score < TERM_SCORE_LIMIT { score } else { TERM_SCORE_LIMIT };
        (score + MANTISSA).to_bits() & TERM_SCORE_MAX
    }

    /// Returns the score of a posting.
    pub(super) fn posting(&self, weight: f32, posting: Posting, length_code: u8) -> u32 {
        let frequency = self.frequency(u32::from(posting.body), u32::from(posting.title));
        Self::score(weight, frequency, self.norms[usize::from(length_code)])
    }

    /// Returns an upper bound of [`Bm25Formula::posting`] over all postings with counts up to `most` and a length code
    /// of at least `length_code`.
    ///
    /// The real function increases with the counts and decreases with the length. Its three roundings err by less than
    /// `6 * 2^-24` of the value between two arguments, which the added `2^-20` and the 1 cover. The last rounding, to a
    /// whole number, is monotonic.
    pub(super) fn bound(&self, weight: f32, most: Posting, length_code: u8) -> u32 {
        let score = self.posting(weight, most, length_code);
        (score + (score >> 20) + 1).min(TERM_SCORE_MAX)
    }
}
