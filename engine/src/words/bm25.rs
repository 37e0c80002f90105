//! BM25: how much a term in a row says.
//!
//! Owns the formula and its arithmetic. Must not know blocks or the order in which rows are
//! visited.
//!
//! Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009),
//! sections 3.4 and 3.6 (fields by weighted counts). A term adds `weight * idf * (k1 + 1) * tf /
//! (tf + norm)`, with `tf = body + title_weight * title` and `norm = k1 * (1 - b + b * length /
//! mean length)`.
//!
//! What a term adds is rounded to a whole number of 1/2^17 before it is added up. Sums of whole
//! numbers do not depend on the order of adding, so every way of visiting rows, and every way of
//! cutting a store into segments, gives the same score to the last bit, and equal rows tie exactly.

use super::bytes::Bytes;
use super::layout::{LENGTH_CODES, decode_length};
use super::posting::Posting;
use super::query::{QUERY_TERMS_MAX, Query};
use super::view::{Entry, PostingsView};
use super::without::{RowSet, Without};
use crate::error::Damage;
use crate::error::SearchError;
use crate::stop::Stop;

/// Parts of one unit of score.
const SCALE: f32 = (1 << 17) as f32;

/// Most that one term adds: 64 units, the mantissa of a float. The sum of all terms stays within 31
/// bits.
pub(super) const TERM_SCORE_MAX: u32 = (1 << 23) - 1;
const TERM_SCORE_LIMIT: f32 = TERM_SCORE_MAX as f32;
const MANTISSA: f32 = (1 << 23) as f32;

const _: () = assert!(TERM_SCORE_MAX as u64 * QUERY_TERMS_MAX as u64 <= i32::MAX as u64);

/// Greatest `k1` and title weight that are told apart.
const PARAMETER_MAX: f32 = 1000.0;

/// A BM25 score as a whole number of 1/2^17.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score(pub(super) u32);

impl Score {
    /// The score in its usual unit.
    #[expect(
        clippy::cast_precision_loss,
        reason = "shown to people; ranking uses the whole number"
    )]
    pub fn to_f32(self) -> f32 {
        self.0 as f32 / SCALE
    }

    /// No more than any score of a match that is shown as `shown`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
    pub fn shown_as(shown: f32) -> Self {
        // Of a score's bits, `f32` keeps 24; and what matches scores at least 1.
        let exact = f64::from(shown) * f64::from(SCALE);
        Self((exact * (1.0 - f64::from(f32::EPSILON))).floor().max(1.0) as u32)
    }
}

/// Scores of one row's terms: at most [`QUERY_TERMS_MAX`] of them.
impl std::iter::Sum for Score {
    fn sum<I: Iterator<Item = Self>>(scores: I) -> Self {
        Self(scores.map(|score| score.0).sum())
    }
}

/// The free parameters of BM25.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// How late repetition saturates; 0 or more.
    pub k1: f32,
    /// How much a row's length counts; 0 to 1.
    pub b: f32,
    /// How many occurrences in the body one in the title is worth; 0 or more.
    pub title_weight: f32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { k1: 1.2, b: 0.75, title_weight: 2.0 }
    }
}

/// One segment and where it has the terms of a question.
pub struct Found<B> {
    pub(super) view: PostingsView<B>,
    /// For each term of the question.
    pub(super) entries: Vec<Option<Entry>>,
}

impl<B> Found<B> {
    /// As if the segment had none of the terms, whatever it has: for one that counts nowhere.
    pub fn nothing(view: PostingsView<B>, query: &Query) -> Self {
        Self { view, entries: vec![None; query.terms().len()] }
    }

    /// Whether the segment has none of the terms.
    pub fn is_empty(&self) -> bool {
        self.entries.iter().all(Option::is_none)
    }
}

/// What is known about the whole collection: sums over all its segments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    documents: u64,
    length_total: u64,
    frequencies: Vec<u64>,
}

impl Stats {
    /// Nothing counted yet.
    pub fn new(query: &Query) -> Self {
        Self { documents: 0, length_total: 0, frequencies: vec![0; query.terms().len()] }
    }

    /// Adds one segment; the answer spares a search of it to look the terms up again.
    ///
    /// # Errors
    /// [`Damage`] in the segment's dictionary or entries.
    pub fn add<B: Bytes>(
        &mut self,
        view: PostingsView<B>,
        query: &Query,
    ) -> Result<Found<B>, Damage> {
        let found = self.look_up(view, query, (view.documents(), view.length_total()))?;
        for (frequency, entry) in self.frequencies.iter_mut().zip(&found.entries) {
            *frequency += entry.map_or(0, |entry| u64::from(entry.rows));
        }
        Ok(found)
    }

    /// The same, as if the segment did not have some of its rows.
    ///
    /// # Errors
    /// [`SearchError`]: damage in the segment's dictionary or entries, or in the lists of the terms, or the
    /// stop; what is counted by then are no statistics.
    pub fn add_without<B: Bytes, R: RowSet>(
        &mut self,
        view: PostingsView<B>,
        query: &Query,
        without: Without<'_, R>,
        stop: &Stop,
    ) -> Result<Found<B>, SearchError> {
        // Where more are left out than there are, the lengths are damaged, which (verify) tells.
        let documents = view.documents().saturating_sub(without.documents);
        let length_total = view.length_total().saturating_sub(without.length_total);
        let found = self.look_up(view, query, (documents, length_total))?;
        for (frequency, entry) in self.frequencies.iter_mut().zip(&found.entries) {
            if let Some(entry) = *entry {
                let left_out = view.left_out(entry, &without, stop)?;
                *frequency += u64::from(entry.rows.saturating_sub(left_out));
            }
        }
        Ok(found)
    }

    /// Adds so many rows of such a length together, and finds where the segment has the terms.
    fn look_up<B: Bytes>(
        &mut self,
        view: PostingsView<B>,
        query: &Query,
        (documents, length_total): (u32, u64),
    ) -> Result<Found<B>, Damage> {
        self.documents += u64::from(documents);
        self.length_total = self
            .length_total
            .checked_add(length_total)
            .ok_or_else(|| Damage::new("WRD-13", "the lengths of all segments exceed 64 bits"))?;
        let entries = query.terms().iter().map(|term| view.entry(&term.term));
        Ok(Found { view, entries: entries.collect::<Result<_, _>>()? })
    }

    /// Rows with words.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// Rows that have each term of the question.
    pub fn frequencies(&self) -> &[u64] {
        &self.frequencies
    }
}

/// A question ready to score rows of any segment of the collection.
#[derive(Debug, Clone)]
pub struct Ranker {
    /// Terms that occur somewhere, with the greatest score each can approach, in whole parts.
    pub(super) terms: Vec<RankedTerm>,
    asked: Vec<f32>,
    pub(super) formula: Formula,
    pub(super) stop: Stop,
}

/// One term of a [`Ranker`].
#[derive(Debug, Clone)]
pub(super) struct RankedTerm {
    /// Its place in the question.
    pub(super) index: usize,
    pub(super) weight: f32,
}

/// The length of each code, made once: every question needs all of them.
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

/// The part of the formula that all terms share.
#[derive(Debug, Clone)]
pub(super) struct Formula {
    title_weight: f32,
    /// The length norm by length code; rises with the code.
    pub(super) norms: Box<[f32; LENGTH_CODES]>,
}

impl Ranker {
    /// Weighs the terms of `query` by how rare they are in the collection.
    ///
    /// Parameters outside their range count as the nearest value inside.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "weights are estimates"
    )]
    pub fn new(query: &Query, stats: &Stats, parameters: Parameters) -> Self {
        let k1 = within(parameters.k1, PARAMETER_MAX);
        let b = within(parameters.b, 1.0);
        let title_weight = within(parameters.title_weight, PARAMETER_MAX);
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
        let terms = terms.map(|(index, (weight, _))| RankedTerm { index, weight: weight * SCALE });
        let terms = terms.collect();
        let formula = Formula { title_weight, norms: Box::new(norms) };
        Self { terms, asked, formula, stop: Stop::default() }
    }

    /// What a row can get for each term of the question at most, and more the rarer it is: a term that
    /// no row has counts as one that a single row has, but for a compound as a whole, which counts for
    /// nothing.
    pub fn asked(&self) -> &[f32] {
        &self.asked
    }

    /// The same; its searches end once `stop` says so.
    #[must_use]
    pub fn until(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }
}

/// `value` brought between 0 and `most`; what is not a number counts as 0.
fn within(value: f32, most: f32) -> f32 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, most) }
}

impl Formula {
    /// A count in both fields as one.
    #[expect(clippy::cast_precision_loss, reason = "counts are at most 255")]
    pub(super) fn frequency(&self, body: u32, title: u32) -> f32 {
        // Through i32, which converts with one instruction where u32 takes several.
        body.cast_signed() as f32 + self.title_weight * title.cast_signed() as f32
    }

    /// What a term of `weight` adds; at least 1, so that a match always shows.
    ///
    /// Adding 2^23 leaves the rounded number in the low bits of the float. Unlike a cast, which has
    /// to look for what does not fit, this is plain arithmetic and runs on several postings at
    /// once. 0 / 0 counts as 1.
    pub(super) fn score(weight: f32, frequency: f32, norm: f32) -> u32 {
        let score = weight * frequency / (frequency + norm);
        let score = if score > 1.0 { score } else { 1.0 };
        let score = if score < TERM_SCORE_LIMIT { score } else { TERM_SCORE_LIMIT };
        (score + MANTISSA).to_bits() & TERM_SCORE_MAX
    }

    /// What a posting adds.
    pub(super) fn posting(&self, weight: f32, posting: Posting, length_code: u8) -> u32 {
        let frequency = self.frequency(u32::from(posting.body), u32::from(posting.title));
        Self::score(weight, frequency, self.norms[usize::from(length_code)])
    }

    /// No less than [`Formula::posting`] of any posting with counts up to and a length from these.
    ///
    /// The real function rises with the counts and falls with the length; its three roundings err
    /// by less than `6 * 2^-24` of the value between two arguments, which the added `2^-20` and the
    /// 1 cover; the last rounding, to a whole number, keeps order.
    pub(super) fn bound(&self, weight: f32, most: Posting, length_code: u8) -> u32 {
        let score = self.posting(weight, most, length_code);
        (score + (score >> 20) + 1).min(TERM_SCORE_MAX)
    }
}
