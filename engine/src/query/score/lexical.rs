//! Full-text search over all segments of a snapshot, ranked by BM25.
//!
//! The statistics of a query's terms are collected once, however many searches use them.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use super::hit::Hit;
use crate::cancel::CancelToken;
use crate::error::{CorruptionError, SearchError};
use crate::fulltext::{
    Analyzer, Bm25Parameters, Bm25Weight, CollectionStats, Query, Score, SearchScratch,
    SegmentTerms,
};
use crate::ids::Row;
use crate::layout::ITEM_ID;
use crate::query::filter::{Filter, SegmentFilter};
use crate::query::snapshot::{RowAddress, Snapshot};
use crate::query::visibility::VisibilityMask;
use crate::segment::ColumnView;
use crate::segment_snapshot::SegmentSnapshot;
use crate::top_k::TopK;

thread_local! {
    /// Scratch space of searches, reused per thread.
    static SCRATCH: RefCell<SearchScratch> = RefCell::default();
}

/// A full-text query of one snapshot under one visibility mask. Statistics cover visible rows only, so scores equal
/// those of a store without the hidden rows.
///
/// The statistics are collected on first use, once.
pub struct LexicalSearch<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) query: Query,
    /// Visibility mask whose rows are excluded from the statistics.
    mask: Option<Arc<VisibilityMask>>,
    stats: OnceCell<QueryStats<'a>>,
}

/// Statistics and term locations of a query.
pub(super) struct QueryStats<'a> {
    pub(super) collection: CollectionStats,
    pub(super) ranker: Bm25Weight,
    /// Postings of the query's terms in each segment.
    pub(super) segment_terms: Vec<SegmentTerms<ColumnView<'a, u8>>>,
}

/// Mask whose rows are excluded from the statistics; `None` with `only_masked`, which counts all rows.
fn excluded_mask(filter: &Filter) -> Option<&Arc<VisibilityMask>> {
    filter.mask.as_ref().filter(|_| !filter.only_masked)
}

impl Snapshot {
    /// Prepares a full-text query. Its searches must use filters with the visibility mask of `filter`.
    pub fn lexical_search(&self, question: &str, filter: &Filter) -> LexicalSearch<'_> {
        let query = Analyzer::with_thread_local(|analyzer| Query::parse(analyzer, question));
        let hidden = excluded_mask(filter).cloned();
        LexicalSearch { snapshot: self, query, mask: hidden, stats: OnceCell::new() }
    }

    /// [`LexicalSearch::search`] for a single search.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn search_words(
        &self,
        question: &str,
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Hit>, SearchError> {
        self.lexical_search(question, filter).search(limit, filter)
    }
}

impl<'a> LexicalSearch<'a> {
    /// Returns the `limit` best items by BM25, ties by id.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    ///
    /// # Panics
    /// If the visibility mask of `filter` is not that of the query.
    pub fn search(&self, limit: usize, filter: &Filter) -> Result<Vec<Hit>, SearchError> {
        self.search_into(TopK::new(limit), filter)
    }

    /// As [`Self::search`], but only items that score at least `least`, which reads fewer postings lists.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    ///
    /// # Panics
    /// If the visibility mask of `filter` is not that of the query.
    pub fn search_at_least(
        &self,
        limit: usize,
        least: f32,
        filter: &Filter,
    ) -> Result<Vec<Hit>, SearchError> {
        let mut hits =
            self.search_into(TopK::with_floor_min(limit, Score::from_f32_floor(least)), filter)?;
        hits.retain(|hit| hit.score >= least);
        Ok(hits)
    }

    fn search_into(
        &self,
        mut top: TopK<Score, (u128, RowAddress)>,
        filter: &Filter,
    ) -> Result<Vec<Hit>, SearchError> {
        let QueryStats { ranker, segment_terms: found, .. } = self.stats_for(filter)?;
        let snapshot = self.snapshot;
        // Closures passed to the ranker cannot return errors; the first error is recorded here.
        let fault = FirstError::default();
        for ((part, it), found) in (0u32..).zip(snapshot.segments.iter()).zip(found) {
            if found.is_empty() {
                continue;
            }
            let admitted = SegmentFilter::new(snapshot, filter, it)?;
            if admitted.admits_nothing() {
                continue;
            }
            let wanted = |row| fault.unwrap_or_record(admitted.admits(row), false);
            let ids = it.segment.column::<u128>(ITEM_ID)?;
            let key = |row: Row| {
                (
                    fault.unwrap_or_record(ids.get(row as usize), u128::MAX),
                    RowAddress { segment_ord: part, row },
                )
            };
            SCRATCH
                .with_borrow_mut(|scratch| ranker.search(found, scratch, wanted, key, &mut top))
                .map_err(|error| error.map_damage(|damage| it.segment.words_damage(damage)))?;
        }
        let best = top.into_sorted().into_iter();
        let hits = best.map(|(score, (_, place))| Hit { address: place, score: score.to_f32() });
        let hits = hits.collect();
        fault.0.into_inner().map_or(Ok(hits), |damage| Err(damage.into()))
    }

    /// Returns the query's statistics, collecting them on the first call.
    pub(super) fn stats_for(&self, filter: &Filter) -> Result<&QueryStats<'a>, SearchError> {
        let address = |hidden: Option<&Arc<VisibilityMask>>| hidden.map(Arc::as_ptr);
        assert_eq!(
            address(excluded_mask(filter)),
            address(self.mask.as_ref()),
            "words are counted for who sees the same"
        );
        if let Some(counted) = self.stats.get() {
            return Ok(counted);
        }
        let counted = self.collect_stats()?;
        Ok(self.stats.get_or_init(|| counted))
    }

    fn collect_stats(&self) -> Result<QueryStats<'a>, SearchError> {
        let (snapshot, hidden) = (self.snapshot, self.mask.as_deref());
        let mut stats = CollectionStats::new(&self.query);
        let mut found = Vec::with_capacity(snapshot.segments.len());
        for it in snapshot.segments.iter() {
            snapshot.cancel.check()?;
            let here = count_segment(it, &self.query, hidden, &mut stats, &snapshot.cancel);
            let here =
                here.map_err(|error| error.map_damage(|damage| it.segment.words_damage(damage)));
            found.push(here?);
        }
        let ranker = Bm25Weight::new(&self.query, &stats, Bm25Parameters::default());
        Ok(QueryStats {
            ranker: ranker.with_cancel(snapshot.cancel.clone()),
            collection: stats,
            segment_terms: found,
        })
    }
}

/// Adds a segment's postings of the query's terms to the statistics, excluding hidden rows.
fn count_segment<'a>(
    part: &'a SegmentSnapshot,
    query: &Query,
    hidden: Option<&VisibilityMask>,
    stats: &mut CollectionStats,
    stop: &CancelToken,
) -> Result<SegmentTerms<ColumnView<'a, u8>>, SearchError> {
    let words = part.segment.postings()?;
    let Some(hidden) = hidden.and_then(|hidden| hidden.for_segment(part)) else {
        return Ok(stats.add(words, query)?);
    };
    match hidden.excluded_rows(&part.segment, stop)? {
        Some(without) => stats.add_excluding(words, query, without, stop),
        None => Ok(SegmentTerms::empty(words, query)),
    }
}

/// The first corruption met where no error can be returned.
#[derive(Default)]
struct FirstError(RefCell<Option<CorruptionError>>);

impl FirstError {
    /// Returns the value read, or a substitute in a result that is going to be discarded.
    fn unwrap_or_record<T>(&self, read: Result<T, CorruptionError>, otherwise: T) -> T {
        read.unwrap_or_else(|damage| {
            self.0.borrow_mut().get_or_insert(damage);
            otherwise
        })
    }
}
