//! A scan of stored embeddings, for some questions at once.
//!
//! Owns the order of a scan: which rows are scored, and from what. Where a part has 8-bit codes, a
//! row is scored from its halves only for those questions whose floor its bound reaches, the worst
//! of their best so far; what is found is the same to the last bit. Must not know how a bound is
//! made (`bound.rs`), nor how rows are shared out between threads (`together.rs`).

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use half::f16;
use kernels::{Bars, CodeQueries, Kernels, QUESTIONS_MAX, RowFacts};

use super::bound::QueryCodes;
use crate::error::{Damage, SearchError};
use crate::ids::{ItemId, Row};
use crate::index::SketchQuestion;
use crate::limits::DIMENSIONS_MAX;
use crate::ordered::Ordered;
use crate::part::Part;
use crate::reading::filter::{Filter, PartFilter};
use crate::reading::snapshot::{Place, Snapshot};
use crate::segment::{Embeddings, Segment};
use crate::stop::Stop;
use crate::top::Top;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Rows whose scores or sums are made before the best of them are looked at: those numbers stay in
    /// the first caches.
    pub(super) const BLOCK_ROWS: usize = 256;
}

/// Blocks between two looks at whether the scan is still wanted: at 384 dimensions about a
/// millisecond for as many questions as there may be.
const BLOCKS_TOGETHER: u32 = 16;
/// A query is padded with zeros to a multiple of this, which is one of every row's width.
const QUERY_ALIGN: usize = 64;

/// By their cosines.
pub(super) type Best = Top<Ordered, (ItemId, Place)>;

/// One question, in the forms that rows are compared with.
pub(super) struct Question {
    /// Padded with zeros.
    query: Vec<f32>,
    /// Of the query, as `f32` arithmetic gives it.
    length: f32,
    /// None where the query is wider than a stored one can be.
    codes: Option<QueryCodes>,
    /// As sketches are compared with it, made when the first index is met.
    sketched: OnceLock<SketchQuestion>,
    pub(super) limit: usize,
    /// Which of the filters of its group is its own.
    pub(super) filter: usize,
}

impl Question {
    /// None if nothing can be compared with it: it is zero, or not finite.
    pub(super) fn of(query: &[f32], limit: usize, filter: usize) -> Option<Self> {
        let length = query.iter().map(|x| x * x).sum::<f32>().sqrt();
        if !(length > 0.0 && length.is_finite()) {
            return None;
        }
        let width = query.len().next_multiple_of(QUERY_ALIGN);
        let stored = query.len() <= DIMENSIONS_MAX as usize;
        let codes = stored.then(|| QueryCodes::of(query, length, width));
        let mut query = query.to_vec();
        query.resize(width, 0.0);
        Some(Self { query, length, codes, sketched: OnceLock::new(), limit, filter })
    }

    /// The query made 1 long, as sketches are compared with it: the same for every index, and for all
    /// threads that share its lists.
    pub(super) fn sketched(&self) -> &SketchQuestion {
        self.sketched.get_or_init(|| {
            let direction: Vec<f32> = self.query.iter().map(|x| x / self.length).collect();
            SketchQuestion::of(&direction)
        })
    }

    /// The cosine with one row of these halves, as they lie, and this length.
    pub(super) fn cosine_with(&self, kernels: &Kernels, halves: &[f16], norm: f32) -> f32 {
        self.cosine(kernels.dot(&self.query[..halves.len()], halves), norm)
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

/// The worst of the best of a question that any thread has found: what is below it is not among the
/// best of all.
struct Floor(AtomicI32);

impl Floor {
    /// What no number is below.
    const NONE: i32 = i32::MIN;

    fn raise(&self, to: Ordered) {
        self.0.fetch_max(to.place(), Relaxed);
    }

    fn get(&self) -> f64 {
        match self.0.load(Relaxed) {
            Self::NONE => f64::NEG_INFINITY,
            place => f64::from(Ordered::at(place).number()),
        }
    }
}

/// Some questions of one width, and what is common to them.
pub(super) struct Group<'a> {
    pub(super) kernels: Kernels,
    pub(super) questions: Vec<Question>,
    /// Each of the questions' filters once.
    filters: Vec<&'a Filter>,
    /// None where one of the questions has none.
    codes: Option<CodeQueries>,
    floors: Vec<Floor>,
}

impl<'a> Group<'a> {
    /// Those questions that rows can be compared with, each a query, a limit and a filter; at most
    /// [`QUESTIONS_MAX`], all of one width.
    pub(super) fn of(
        kernels: Kernels,
        asked: impl Iterator<Item = (&'a [f32], usize, &'a Filter)>,
    ) -> Self {
        let (mut questions, mut filters): (Vec<Question>, Vec<&Filter>) = Default::default();
        for (query, limit, filter) in asked {
            let known = filters.iter().position(|known| *known == filter);
            let at = known.unwrap_or(filters.len());
            if known.is_none() {
                filters.push(filter);
            }
            questions.extend(Question::of(query, limit, at));
        }
        let codes: Option<Vec<&[i16]>> =
            questions.iter().map(|question| Some(question.codes.as_ref()?.codes())).collect();
        let codes = codes.filter(|codes| !codes.is_empty());
        let floors = questions.iter().map(|_| Floor(AtomicI32::new(Floor::NONE))).collect();
        let codes = codes.map(|codes| kernels.code_queries(&codes));
        Self { kernels, questions, filters, codes, floors }
    }

    /// Whether a query can be compared with anything.
    pub(super) fn can_compare(query: &[f32]) -> bool {
        Question::of(query, 0, 0).is_some()
    }

    pub(super) fn codes(&self, question: usize) -> &QueryCodes {
        self.questions[question].codes.as_ref().expect("`gains_from` looked for them")
    }

    /// Has rows that score less passed over for this question.
    pub(super) fn ask_for(&self, question: usize, least: f32) {
        self.floors[question].raise(Ordered::of(least));
    }

    /// What a row of this question must come to: the worst of the best that a thread has found; less than
    /// everything until one has found as many as there may be.
    #[expect(clippy::cast_possible_truncation, reason = "it was an `f32`")]
    pub(super) fn floor(&self, question: usize) -> f32 {
        self.floors[question].get() as f32
    }

    /// What the sums of a row's codes must come to, for each of these questions.
    pub(super) fn bars(&self, questions: Range<usize>) -> Bars {
        let mut bars = Bars {
            per_product: [0.0; QUESTIONS_MAX],
            per_error: [0.0; QUESTIONS_MAX],
            least: [0.0; QUESTIONS_MAX],
        };
        for (at, q) in questions.enumerate() {
            let bar = self.codes(q).bar(self.floors[q].get());
            (bars.per_product[at], bars.per_error[at]) = (bar.per_product, bar.per_error);
            bars.least[at] = bar.least;
        }
        bars
    }

    /// Whether looking at codes first reads less: a narrow row's codes take as much as its halves.
    pub(super) fn gains_from(&self, embeddings: &Embeddings<'_>) -> bool {
        let row_codes = embeddings.coded.row_codes;
        self.codes.is_some() && row_codes < embeddings.row_halves * size_of::<f16>()
    }
}

/// What one thread has found.
pub(super) struct Finds {
    /// One for each question.
    pub(super) best: Vec<Best>,
    /// How many times a row was scored.
    pub(super) scored: usize,
}

impl Finds {
    pub(super) fn for_all(group: &Group<'_>) -> Self {
        let best = group.questions.iter().map(|question| Top::new(question.limit)).collect();
        Self { best, scored: 0 }
    }
}

/// One part of a snapshot, as a scan sees it.
pub(super) struct Searched<'a> {
    pub(super) segment: &'a Segment,
    at: u32,
    pub(super) stop: &'a Stop,
    /// One for each filter of the group.
    pub(super) admitted: Vec<PartFilter<'a>>,
    pub(super) embeddings: Embeddings<'a>,
}

impl<'a> Searched<'a> {
    pub(super) fn of(
        snapshot: &'a Snapshot,
        part: &'a Part,
        at: u32,
        group: &Group<'_>,
    ) -> Result<Self, Damage> {
        let filters = group.filters.iter().map(|filter| PartFilter::of(snapshot, filter, part));
        Ok(Self {
            segment: &part.segment,
            at,
            stop: &snapshot.stop,
            admitted: filters.collect::<Result<_, _>>()?,
            embeddings: part.segment.embeddings()?,
        })
    }

    /// Looks at these rows for the questions whose bits `wanted` has.
    pub(super) fn scan(
        &self,
        group: &Group<'_>,
        rows: Range<usize>,
        wanted: u16,
        finds: &mut Finds,
    ) -> Result<(), SearchError> {
        match &group.codes {
            Some(codes) if group.gains_from(&self.embeddings) => {
                self.scan_codes(group, codes, (rows, wanted), finds)
            }
            _ => self.scan_halves(group, rows, wanted, finds),
        }
    }

    /// Scores every row that is admitted.
    pub(super) fn scan_halves(
        &self,
        group: &Group<'_>,
        rows: Range<usize>,
        wanted: u16,
        finds: &mut Finds,
    ) -> Result<(), SearchError> {
        let embeddings = &self.embeddings;
        let mut dots = [0.0; BLOCK_ROWS];
        let mut steps = self.stop.each(BLOCKS_TOGETHER);
        for block in blocks(rows) {
            steps.step()?;
            let halves = embeddings.halves(block.start, block.end)?;
            let dots = &mut dots[..block.len()];
            let questions = group.questions.iter().enumerate();
            for (q, question) in questions.filter(|(q, _)| wanted >> q & 1 == 1) {
                let query = &question.query[..embeddings.row_halves];
                group.kernels.dot_rows(query, halves, dots);
                for (vector, &dot) in block.clone().zip(dots.iter()) {
                    let score = question.cosine(dot, embeddings.norms[vector]);
                    // What is not finite is damage, though not of those who may not have the row.
                    if !score.is_finite() || f64::from(score) >= group.floors[q].get() {
                        let score = || self.finite(score, vector);
                        self.offer_admitted(group, q, vector, score, finds)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Finds out by their codes which rows may be among the best, and scores those.
    fn scan_codes(
        &self,
        group: &Group<'_>,
        codes: &CodeQueries,
        (rows, wanted): (Range<usize>, u16),
        finds: &mut Finds,
    ) -> Result<(), SearchError> {
        let (embeddings, coded) = (&self.embeddings, &self.embeddings.coded);
        assert_eq!(codes.width(), coded.row_codes);
        let questions = group.questions.len();
        let mut products = [0; BLOCK_ROWS * QUESTIONS_MAX];
        let mut reaching = [0; BLOCK_ROWS];
        let mut steps = self.stop.each(BLOCKS_TOGETHER);
        for block in blocks(rows) {
            steps.step()?;
            let products = &mut products[..block.len() * questions];
            // What follows the block is there too, so that memory is asked for it in time.
            let these = &coded.codes[block.start * coded.row_codes..];
            group.kernels.dot_codes(codes, these, products);
            let facts = RowFacts {
                scales: &coded.scales[block.clone()],
                errors: &coded.errors[block.clone()],
                norms: &embeddings.norms[block.clone()],
            };
            let reaching = &mut reaching[..block.len()];
            group.kernels.reaching(products, facts, &group.bars(0..questions), reaching);
            let sums = products.chunks_exact(questions);
            for ((vector, &reaches), sums) in block.zip(reaching.iter()).zip(sums) {
                if reaches & wanted != 0 {
                    self.look_closer(group, vector, (reaches & wanted, sums), finds)?;
                }
            }
        }
        Ok(())
    }

    /// Scores a row for those questions of `reaches` whose floor its exact bound reaches.
    #[inline(never)]
    fn look_closer(
        &self,
        group: &Group<'_>,
        vector: usize,
        (reaches, sums): (u16, &[i32]),
        finds: &mut Finds,
    ) -> Result<(), SearchError> {
        for (q, &sum) in sums.iter().enumerate().filter(|(q, _)| reaches >> q & 1 == 1) {
            self.consider(group, q, (vector, sum), finds)?;
        }
        Ok(())
    }

    /// Scores a row for one question, if its exact bound, by the sum of its codes, reaches the floor.
    pub(super) fn consider(
        &self,
        group: &Group<'_>,
        question: usize,
        (vector, sum): (usize, i32),
        finds: &mut Finds,
    ) -> Result<(), SearchError> {
        let (embeddings, coded) = (&self.embeddings, &self.embeddings.coded);
        let norm = embeddings.norms[vector];
        let codes = group.codes(question);
        let bound = codes.bound(sum, coded.scales[vector], coded.errors[vector], norm);
        // What is not a number bounds nothing, and is not below the floor either.
        if bound < group.floors[question].get() {
            return Ok(());
        }
        Ok(self.score_admitted(group, question, vector, finds)?)
    }

    /// Scores a row for one question from its halves, if it is admitted.
    pub(super) fn score_admitted(
        &self,
        group: &Group<'_>,
        question: usize,
        vector: usize,
        finds: &mut Finds,
    ) -> Result<(), Damage> {
        let score = || {
            let halves = self.embeddings.halves(vector, vector + 1)?;
            let norm = self.embeddings.norms[vector];
            let cosine = group.questions[question].cosine_with(&group.kernels, halves, norm);
            self.finite(cosine, vector)
        };
        self.offer_admitted(group, question, vector, score, finds)
    }

    fn finite(&self, score: f32, vector: usize) -> Result<Ordered, Damage> {
        if !score.is_finite() {
            let detail = format!("vector {vector} is not finite");
            return Err(Damage::new("SEG-16", detail).within(self.segment.name()));
        }
        Ok(Ordered::of(score))
    }

    /// Offers a row to a question, if its filter admits it.
    fn offer_admitted(
        &self,
        group: &Group<'_>,
        question: usize,
        vector: usize,
        score: impl FnOnce() -> Result<Ordered, Damage>,
        finds: &mut Finds,
    ) -> Result<(), Damage> {
        let row: Row = self.embeddings.items[vector];
        if !self.admitted[group.questions[question].filter].admits(row)? {
            return Ok(());
        }
        finds.scored += 1;
        let best = &mut finds.best[question];
        best.offer(score()?, (self.segment.item_id(row)?, Place { part: self.at, row }));
        if let Some(floor) = best.floor() {
            group.floors[question].raise(floor);
        }
        Ok(())
    }
}

/// These rows, some at a time.
fn blocks(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = rows.end;
    rows.step_by(BLOCK_ROWS).map(move |first| first..end.min(first + BLOCK_ROWS))
}
