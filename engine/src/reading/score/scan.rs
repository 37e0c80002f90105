//! The meaning of a question: the stored embeddings nearest to it, by an exact scan.
//!
//! Owns the order of a scan: which rows are scored, and from what. Where a part has 8-bit codes, a
//! row is scored from its halves only if its bound reaches the worst of the best so far; what is
//! found is the same to the last bit. Must not know how a bound is made (`bound.rs`).

use std::cmp::Ordering;

use half::f16;
use kernels::Kernels;

use super::Hit;
use super::bound::QueryCodes;
use crate::error::{Damage, SearchError};
use crate::ids::{ItemId, Row};
use crate::limits::DIMENSIONS_MAX;
use crate::part::Part;
use crate::reading::snapshot::{Filter, PartFilter, Place, Snapshot};
use crate::segment::{Embeddings, Segment};
use crate::stop::Stop;
use crate::top::Top;

/// Rows whose scores or bounds are made before the best of them are looked at: those numbers stay
/// in the first-level cache.
const BLOCK_ROWS: usize = 256;
/// Blocks between two looks at whether the scan is still wanted: at 384 dimensions less than a millisecond.
const BLOCKS_TOGETHER: u32 = 32;
/// A query is padded with zeros to a multiple of this, which is one of every row's width.
const QUERY_ALIGN: usize = 64;

/// A cosine, in its total order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cosine(pub(super) f32);

impl Eq for Cosine {}

impl Ord for Cosine {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Cosine {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

pub(super) type Best = Top<Cosine, (ItemId, Place)>;

impl Snapshot {
    /// The `limit` items whose stored f16 vectors have the largest cosine with `query`, best
    /// first, equal ones in order of id. Exact: every row that `filter` admits is scored, or known
    /// not to be among them.
    ///
    /// `query` is as wide as the store's model; otherwise nothing is found.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    pub fn nearest(
        &self,
        kernels: &Kernels,
        query: &[f32],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Hit>, SearchError> {
        let mut top = Top::new(limit);
        if let (Some(question), true) = (Question::of(*kernels, query), limit > 0) {
            for (at, part) in (0u32..).zip(self.parts.iter()) {
                if part.segment.header().dimensions as usize == query.len() {
                    let searched = Searched::of(self, part, at, filter)?;
                    if question.gains_from(&searched.embeddings) {
                        searched.scan_codes(&question, &mut top)?;
                    } else {
                        searched.scan_halves(&question, &mut top)?;
                    }
                }
            }
        }
        let best = top.into_sorted().into_iter();
        Ok(best.map(|(score, (_, place))| Hit { place, score: score.0 }).collect())
    }
}

/// What is asked, in the forms that rows are compared with.
pub(super) struct Question {
    kernels: Kernels,
    /// Padded with zeros.
    query: Vec<f32>,
    /// Of the query, as `f32` arithmetic gives it.
    length: f32,
    /// None where the query is wider than a stored one can be.
    codes: Option<QueryCodes>,
}

impl Question {
    /// None if nothing can be compared with it: it is zero, or not finite.
    pub(super) fn of(kernels: Kernels, query: &[f32]) -> Option<Self> {
        let length = query.iter().map(|x| x * x).sum::<f32>().sqrt();
        if !(length > 0.0 && length.is_finite()) {
            return None;
        }
        let width = query.len().next_multiple_of(QUERY_ALIGN);
        let stored = query.len() <= DIMENSIONS_MAX as usize;
        let codes = stored.then(|| QueryCodes::of(query, length, width));
        let mut query = query.to_vec();
        query.resize(width, 0.0);
        Some(Self { kernels, query, length, codes })
    }

    /// Whether looking at codes first reads less: a narrow row's codes take as much as its halves.
    fn gains_from(&self, embeddings: &Embeddings<'_>) -> bool {
        let row_codes = embeddings.coded.row_codes;
        self.codes.is_some() && row_codes < embeddings.row_halves * size_of::<f16>()
    }

    /// The cosine with one row of these halves, as they lie, and this length.
    pub(super) fn cosine_with(&self, halves: &[f16], norm: f32) -> f32 {
        self.cosine(self.kernels.dot(&self.query[..halves.len()], halves), norm)
    }

    /// The score of a row of this dot product and length; not a number where the length is none.
    fn cosine(&self, dot: f32, norm: f32) -> f32 {
        let norm = norm * self.length;
        if norm > 0.0 {
            // The sum makes -0 of a kernel's choosing a plain 0, equal to every other.
            dot / norm + 0.0
        } else if norm == 0.0 {
            0.0
        } else {
            f32::NAN
        }
    }
}

/// One part of a snapshot, as a scan sees it.
pub(super) struct Searched<'a> {
    segment: &'a Segment,
    at: u32,
    stop: &'a Stop,
    admitted: PartFilter<'a>,
    pub(super) embeddings: Embeddings<'a>,
}

impl<'a> Searched<'a> {
    pub(super) fn of(
        snapshot: &'a Snapshot,
        part: &'a Part,
        at: u32,
        filter: &Filter,
    ) -> Result<Self, Damage> {
        Ok(Self {
            segment: &part.segment,
            at,
            stop: &snapshot.stop,
            admitted: PartFilter::of(snapshot, filter, part)?,
            embeddings: part.segment.embeddings()?,
        })
    }

    /// Scores every row.
    pub(super) fn scan_halves(
        &self,
        question: &Question,
        top: &mut Best,
    ) -> Result<(), SearchError> {
        let embeddings = &self.embeddings;
        let query = &question.query[..embeddings.row_halves];
        let mut scores = [0.0; BLOCK_ROWS];
        let mut steps = self.stop.each(BLOCKS_TOGETHER);
        for first in (0..embeddings.len()).step_by(BLOCK_ROWS) {
            steps.step()?;
            let end = (first + BLOCK_ROWS).min(embeddings.len());
            let scores = &mut scores[..end - first];
            question.kernels.dot_rows(query, embeddings.halves(first, end)?, scores);
            for (vector, &dot) in (first..).zip(scores.iter()) {
                let score = self.score(question, vector, dot)?;
                let row = embeddings.items[vector];
                let reaches = top.floor().is_none_or(|floor| score >= floor);
                if reaches && self.admitted.admits(row)? {
                    self.offer(score, row, top)?;
                }
            }
        }
        Ok(())
    }

    /// Makes a bound for every row of its codes, and scores those that may be among the best. Gives
    /// how many that were.
    pub(super) fn scan_codes(
        &self,
        question: &Question,
        top: &mut Best,
    ) -> Result<usize, SearchError> {
        let (embeddings, coded) = (&self.embeddings, &self.embeddings.coded);
        let codes = question.codes.as_ref().expect("`gains_from` looked for them");
        let query = &question.query[..embeddings.row_halves];
        let mut products = [0; BLOCK_ROWS];
        let mut bounds = [0.0; BLOCK_ROWS];
        let mut floor = floor_of(top);
        let mut scored = 0;
        let mut steps = self.stop.each(BLOCKS_TOGETHER);
        for first in (0..embeddings.len()).step_by(BLOCK_ROWS) {
            steps.step()?;
            let end = (first + BLOCK_ROWS).min(embeddings.len());
            let (products, bounds) = (&mut products[..end - first], &mut bounds[..end - first]);
            let rows = &coded.codes[first * coded.row_codes..end * coded.row_codes];
            question.kernels.dot_codes_rows(&codes.codes()[..coded.row_codes], rows, products);
            codes.bounds(
                products,
                &coded.scales[first..end],
                &coded.errors[first..end],
                &embeddings.norms[first..end],
                bounds,
            );
            for (vector, &bound) in (first..).zip(bounds.iter()) {
                // What is not a number bounds nothing, and is not below the floor either.
                if bound < floor {
                    continue;
                }
                let row = embeddings.items[vector];
                if self.admitted.admits(row)? {
                    let halves = embeddings.halves(vector, vector + 1)?;
                    let dot = question.kernels.dot(query, halves);
                    let score = self.score(question, vector, dot)?;
                    self.offer(score, row, top)?;
                    floor = floor_of(top);
                    scored += 1;
                }
            }
        }
        Ok(scored)
    }

    fn score(&self, question: &Question, vector: usize, dot: f32) -> Result<Cosine, Damage> {
        let score = question.cosine(dot, self.embeddings.norms[vector]);
        if !score.is_finite() {
            let detail = format!("vector {vector} is not finite");
            return Err(Damage::new("SEG-16", detail).within(self.segment.name()));
        }
        Ok(Cosine(score))
    }

    fn offer(&self, score: Cosine, row: Row, top: &mut Best) -> Result<(), Damage> {
        top.offer(score, (self.segment.item_id(row)?, Place { part: self.at, row }));
        Ok(())
    }
}

/// What a score must reach; anything does while there is room.
fn floor_of(top: &Best) -> f64 {
    top.floor().map_or(f64::NEG_INFINITY, |floor| f64::from(floor.0))
}
