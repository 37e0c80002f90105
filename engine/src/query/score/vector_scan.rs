//! Scan of stored embeddings, for a group of queries at once.
//!
//! If a segment has int8 codes, a row is scored from its half-precision values only for queries whose score floor its
//! bound reaches. The results are the same to the last bit.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use half::f16;
use kernels::{Bars, CodeQueries, Kernels, QUESTIONS_MAX, RowFacts};

use super::score_bound::QueryCodes;
use crate::cancel::CancelToken;
use crate::error::{CorruptionError, SearchError};
use crate::ids::{ItemId, Row};
use crate::limits::DIMENSIONS_MAX;
use crate::query::filter::{Filter, SegmentFilter};
use crate::query::snapshot::{RowAddress, Snapshot};
use crate::segment::{EmbeddingColumns, Segment};
use crate::segment_snapshot::SegmentSnapshot;
use crate::top_k::TopK;
use crate::total_order::TotalF32;
use crate::vector_index::BinaryQuery;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Rows scored before the best of them are offered: their scores or sums stay in the first-level caches.
    pub(super) const BLOCK_ROWS: usize = 256;
}

/// Blocks between two cancellation checks: about a millisecond at 384 dimensions, for the largest group of queries.
const BLOCKS_PER_CANCEL_CHECK: u32 = 16;
/// A query is padded with zeros to a multiple of this width, which every row's width is a multiple of.
const QUERY_ALIGN: usize = 64;

/// Top k of a query, by cosine.
pub(super) type TopHits = TopK<TotalF32, (ItemId, RowAddress)>;

/// A query, in the forms that rows are compared with.
pub(super) struct VectorQuery {
    /// The query vector, padded with zeros.
    query: Vec<f32>,
    /// Length of the query, as computed in `f32`.
    length: f32,
    /// `None` if the query is wider than any stored embedding.
    codes: Option<QueryCodes>,
    /// The query prepared for binary codes, made when the first index is met.
    binary: OnceLock<BinaryQuery>,
    pub(super) limit: usize,
    /// Index of the query's filter in its group.
    pub(super) filter: usize,
}

impl VectorQuery {
    /// Returns `None` if the query is zero or not finite, so no row can be compared with it.
    pub(super) fn new(query: &[f32], limit: usize, filter: usize) -> Option<Self> {
        let length = query.iter().map(|x| x * x).sum::<f32>().sqrt();
        if !(length > 0.0 && length.is_finite()) {
            return None;
        }
        let width = query.len().next_multiple_of(QUERY_ALIGN);
        let stored = query.len() <= DIMENSIONS_MAX as usize;
        let codes = stored.then(|| QueryCodes::quantize(query, length, width));
        let mut query = query.to_vec();
        query.resize(width, 0.0);
        Some(Self { query, length, codes, binary: OnceLock::new(), limit, filter })
    }

    /// The normalized query prepared for binary codes, shared by all indexes and threads.
    pub(super) fn binary_query(&self) -> &BinaryQuery {
        self.binary.get_or_init(|| {
            let direction: Vec<f32> = self.query.iter().map(|x| x / self.length).collect();
            BinaryQuery::new(&direction)
        })
    }

    /// Cosine with a row, given its half-precision values and its length.
    pub(super) fn cosine_with(&self, kernels: &Kernels, halves: &[f16], norm: f32) -> f32 {
        self.cosine(kernels.dot(&self.query[..halves.len()], halves), norm)
    }

    /// Score of a row, given its dot product and length; NaN if the length is NaN.
    fn cosine(&self, dot: f32, norm: f32) -> f32 {
        let norm = norm * self.length;
        if norm > 0.0 {
            // Adding 0.0 turns a kernel's -0.0 into 0.0, so that all zeros compare equal.
            dot / norm + 0.0
        } else if norm == 0.0 {
            0.0
        } else {
            f32::NAN
        }
    }
}

/// Score floor of a query, shared by all threads: a row below it is not in the top k.
struct ScoreFloor(AtomicI32);

impl ScoreFloor {
    /// No score is below this rank.
    const NONE: i32 = i32::MIN;

    fn raise(&self, to: TotalF32) {
        self.0.fetch_max(to.to_ordered_bits(), Relaxed);
    }

    fn get(&self) -> f64 {
        match self.0.load(Relaxed) {
            Self::NONE => f64::NEG_INFINITY,
            place => f64::from(TotalF32::from_ordered_bits(place).to_f32()),
        }
    }
}

/// Queries of equal width that share a scan.
pub(super) struct QueryGroup<'a> {
    pub(super) kernels: Kernels,
    pub(super) queries: Vec<VectorQuery>,
    /// Distinct filters of the queries.
    filters: Vec<&'a Filter>,
    /// `None` if any of the queries has no codes.
    codes: Option<CodeQueries>,
    floors: Vec<ScoreFloor>,
}

impl<'a> QueryGroup<'a> {
    /// Groups the queries that rows can be compared with. Each comes with a limit and a filter; at most
    /// [`QUESTIONS_MAX`], all of one width.
    pub(super) fn new(
        kernels: Kernels,
        asked: impl Iterator<Item = (&'a [f32], usize, &'a Filter)>,
    ) -> Self {
        let (mut questions, mut filters): (Vec<VectorQuery>, Vec<&Filter>) = Default::default();
        for (query, limit, filter) in asked {
            let known = filters.iter().position(|known| *known == filter);
            let at = known.unwrap_or(filters.len());
            if known.is_none() {
                filters.push(filter);
            }
            questions.extend(VectorQuery::new(query, limit, at));
        }
        let codes: Option<Vec<&[i16]>> =
            questions.iter().map(|question| Some(question.codes.as_ref()?.codes())).collect();
        let codes = codes.filter(|codes| !codes.is_empty());
        let floors =
            questions.iter().map(|_| ScoreFloor(AtomicI32::new(ScoreFloor::NONE))).collect();
        let codes = codes.map(|codes| kernels.code_queries(&codes));
        Self { kernels, queries: questions, filters, codes, floors }
    }

    /// Returns true if rows can be compared with the query.
    pub(super) fn can_compare(query: &[f32]) -> bool {
        VectorQuery::new(query, 0, 0).is_some()
    }

    pub(super) fn codes(&self, question: usize) -> &QueryCodes {
        self.queries[question].codes.as_ref().expect("`gains_from` looked for them")
    }

    /// Raises a query's score floor to `least`.
    pub(super) fn require_score(&self, question: usize, least: f32) {
        self.floors[question].raise(TotalF32::new(least));
    }

    /// Score floor of a query: the k-th best score of any thread; negative infinity until a thread has found k rows.
    #[expect(clippy::cast_possible_truncation, reason = "it was an `f32`")]
    pub(super) fn floor(&self, question: usize) -> f32 {
        self.floors[question].get() as f32
    }

    /// Thresholds on the sums of a row's codes, for each of these queries.
    pub(super) fn thresholds(&self, questions: Range<usize>) -> Bars {
        let mut bars = Bars {
            per_product: [0.0; QUESTIONS_MAX],
            per_error: [0.0; QUESTIONS_MAX],
            least: [0.0; QUESTIONS_MAX],
        };
        for (at, q) in questions.enumerate() {
            let bar = self.codes(q).threshold(self.floors[q].get());
            (bars.per_product[at], bars.per_error[at]) = (bar.per_product, bar.per_error);
            bars.least[at] = bar.least;
        }
        bars
    }

    /// Returns true if reading the codes first reads less: codes of a narrow row take as much space as its
    /// half-precision values.
    pub(super) fn benefits_from_codes(&self, embeddings: &EmbeddingColumns<'_>) -> bool {
        let row_codes = embeddings.coded.codes_per_row;
        self.codes.is_some() && row_codes < embeddings.halves_per_row * size_of::<f16>()
    }
}

/// Hits of one thread.
pub(super) struct ThreadHits {
    /// Top k, per query.
    pub(super) best: Vec<TopHits>,
    /// Number of exact scores computed.
    pub(super) rows_scored: usize,
}

impl ThreadHits {
    pub(super) fn new(group: &QueryGroup<'_>) -> Self {
        let best = group.queries.iter().map(|question| TopK::new(question.limit)).collect();
        Self { best, rows_scored: 0 }
    }
}

/// A segment of a snapshot, as prepared for a scan.
pub(super) struct SegmentScan<'a> {
    pub(super) segment: &'a Segment,
    segment_ord: u32,
    pub(super) cancel: &'a CancelToken,
    /// Filters of the group, resolved for the segment.
    pub(super) filters: Vec<SegmentFilter<'a>>,
    pub(super) embeddings: EmbeddingColumns<'a>,
}

impl<'a> SegmentScan<'a> {
    pub(super) fn open(
        snapshot: &'a Snapshot,
        part: &'a SegmentSnapshot,
        at: u32,
        group: &QueryGroup<'_>,
    ) -> Result<Self, CorruptionError> {
        let filters = group.filters.iter().map(|filter| SegmentFilter::new(snapshot, filter, part));
        Ok(Self {
            segment: &part.segment,
            segment_ord: at,
            cancel: &snapshot.cancel,
            filters: filters.collect::<Result<_, _>>()?,
            embeddings: part.segment.embeddings()?,
        })
    }

    /// Scans these rows for the queries whose bits are set in `wanted`.
    pub(super) fn scan(
        &self,
        group: &QueryGroup<'_>,
        rows: Range<usize>,
        wanted: u16,
        finds: &mut ThreadHits,
    ) -> Result<(), SearchError> {
        match &group.codes {
            Some(codes) if group.benefits_from_codes(&self.embeddings) => {
                self.scan_codes(group, codes, (rows, wanted), finds)
            }
            _ => self.scan_halves(group, rows, wanted, finds),
        }
    }

    /// Scores every admitted row.
    pub(super) fn scan_halves(
        &self,
        group: &QueryGroup<'_>,
        rows: Range<usize>,
        wanted: u16,
        finds: &mut ThreadHits,
    ) -> Result<(), SearchError> {
        let embeddings = &self.embeddings;
        let mut dots = [0.0; BLOCK_ROWS];
        let mut steps = self.cancel.every(BLOCKS_PER_CANCEL_CHECK);
        for block in blocks(rows) {
            steps.tick()?;
            let halves = embeddings.halves(block.start, block.end)?;
            let dots = &mut dots[..block.len()];
            let questions = group.queries.iter().enumerate();
            for (q, question) in questions.filter(|(q, _)| wanted >> q & 1 == 1) {
                let query = &question.query[..embeddings.halves_per_row];
                group.kernels.dot_rows(query, halves, dots);
                for (vector, &dot) in block.clone().zip(dots.iter()) {
                    let score = question.cosine(dot, embeddings.norms[vector]);
                    // A score that is not finite means corruption, but is reported only to queries that may see the
                    // row.
                    if !score.is_finite() || f64::from(score) >= group.floors[q].get() {
                        let score = || self.check_finite(score, vector);
                        self.offer_admitted(group, q, vector, score, finds)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Selects by their codes the rows that may reach the top k, and scores those.
    fn scan_codes(
        &self,
        group: &QueryGroup<'_>,
        codes: &CodeQueries,
        (rows, wanted): (Range<usize>, u16),
        finds: &mut ThreadHits,
    ) -> Result<(), SearchError> {
        let (embeddings, coded) = (&self.embeddings, &self.embeddings.coded);
        assert_eq!(codes.width(), coded.codes_per_row);
        let questions = group.queries.len();
        let mut products = [0; BLOCK_ROWS * QUESTIONS_MAX];
        let mut reaching = [0; BLOCK_ROWS];
        let mut steps = self.cancel.every(BLOCKS_PER_CANCEL_CHECK);
        for block in blocks(rows) {
            steps.tick()?;
            let products = &mut products[..block.len() * questions];
            // The slice extends past the block, so that the kernel can prefetch the next one.
            let these = &coded.codes[block.start * coded.codes_per_row..];
            group.kernels.dot_codes(codes, these, products);
            let facts = RowFacts {
                scales: &coded.scales[block.clone()],
                errors: &coded.errors[block.clone()],
                norms: &embeddings.norms[block.clone()],
            };
            let reaching = &mut reaching[..block.len()];
            group.kernels.reaching(products, facts, &group.thresholds(0..questions), reaching);
            let sums = products.chunks_exact(questions);
            for ((vector, &reaches), sums) in block.zip(reaching.iter()).zip(sums) {
                if reaches & wanted != 0 {
                    self.score_exactly(group, vector, (reaches & wanted, sums), finds)?;
                }
            }
        }
        Ok(())
    }

    /// Scores a row for the queries in `reaches` whose score floor its exact bound reaches.
    #[inline(never)]
    fn score_exactly(
        &self,
        group: &QueryGroup<'_>,
        vector: usize,
        (reaches, sums): (u16, &[i32]),
        finds: &mut ThreadHits,
    ) -> Result<(), SearchError> {
        for (q, &sum) in sums.iter().enumerate().filter(|(q, _)| reaches >> q & 1 == 1) {
            self.score_if_above_floor(group, q, (vector, sum), finds)?;
        }
        Ok(())
    }

    /// Scores a row for one query, if its exact bound, computed from the sum of its codes, reaches the floor.
    pub(super) fn score_if_above_floor(
        &self,
        group: &QueryGroup<'_>,
        question: usize,
        (vector, sum): (usize, i32),
        finds: &mut ThreadHits,
    ) -> Result<(), SearchError> {
        let (embeddings, coded) = (&self.embeddings, &self.embeddings.coded);
        let norm = embeddings.norms[vector];
        let codes = group.codes(question);
        let bound = codes.bound(sum, coded.scales[vector], coded.errors[vector], norm);
        // A bound that is NaN excludes nothing: it is not below the floor either.
        if bound < group.floors[question].get() {
            return Ok(());
        }
        Ok(self.score_admitted(group, question, vector, finds)?)
    }

    /// Scores an admitted row for one query from its half-precision values.
    pub(super) fn score_admitted(
        &self,
        group: &QueryGroup<'_>,
        question: usize,
        vector: usize,
        finds: &mut ThreadHits,
    ) -> Result<(), CorruptionError> {
        let score = || {
            let halves = self.embeddings.halves(vector, vector + 1)?;
            let norm = self.embeddings.norms[vector];
            let cosine = group.queries[question].cosine_with(&group.kernels, halves, norm);
            self.check_finite(cosine, vector)
        };
        self.offer_admitted(group, question, vector, score, finds)
    }

    fn check_finite(&self, score: f32, vector: usize) -> Result<TotalF32, CorruptionError> {
        if !score.is_finite() {
            let detail = format!("vector {vector} is not finite");
            return Err(CorruptionError::new("SEG-16", detail).in_file(self.segment.name()));
        }
        Ok(TotalF32::new(score))
    }

    /// Offers a row to a query, if the query's filter admits it.
    fn offer_admitted(
        &self,
        group: &QueryGroup<'_>,
        question: usize,
        vector: usize,
        score: impl FnOnce() -> Result<TotalF32, CorruptionError>,
        finds: &mut ThreadHits,
    ) -> Result<(), CorruptionError> {
        let row: Row = self.embeddings.items[vector];
        if !self.filters[group.queries[question].filter].admits(row)? {
            return Ok(());
        }
        finds.rows_scored += 1;
        let best = &mut finds.best[question];
        best.offer(
            score()?,
            (self.segment.item_id(row)?, RowAddress { segment_ord: self.segment_ord, row }),
        );
        if let Some(floor) = best.floor() {
            group.floors[question].raise(floor);
        }
        Ok(())
    }
}

/// Splits rows into blocks.
fn blocks(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = rows.end;
    rows.step_by(BLOCK_ROWS).map(move |first| first..end.min(first + BLOCK_ROWS))
}
