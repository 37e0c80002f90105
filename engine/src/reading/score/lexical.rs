//! Full-text search over all segments of a snapshot, ranked by BM25.
//!
//! The statistics of a query's terms are collected once, however many searches use them.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use super::hit::Hit;
use crate::error::{Damage, SearchError};
use crate::ids::Row;
use crate::layout::ITEM_ID;
use crate::part::Part;
use crate::reading::filter::{Filter, PartFilter};
use crate::reading::hidden::Hidden;
use crate::reading::snapshot::{Place, Snapshot};
use crate::segment::View;
use crate::stop::Stop;
use crate::top::Top;
use crate::words::{Analyzer, Found, Parameters, Query, Ranker, Score, Scratch, Stats};

thread_local! {
    /// Scratch space of searches, reused per thread.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// A full-text query of one snapshot under one visibility mask. Statistics cover visible rows only, so scores equal
/// those of a store without the hidden rows.
///
/// The statistics are collected on first use, once.
pub struct AskedWords<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) query: Query,
    /// Visibility mask whose rows are excluded from the statistics.
    hidden: Option<Arc<Hidden>>,
    counted: OnceCell<Counted<'a>>,
}

/// Statistics and term locations of a query.
pub(super) struct Counted<'a> {
    pub(super) stats: Stats,
    pub(super) ranker: Ranker,
    /// Postings of the query's terms in each segment.
    pub(super) found: Vec<Found<View<'a, u8>>>,
}

/// Mask whose rows are excluded from the statistics; `None` with `only_hidden`, which counts all rows.
fn left_out(filter: &Filter) -> Option<&Arc<Hidden>> {
    filter.hidden.as_ref().filter(|_| !filter.only_hidden)
}

impl Snapshot {
    /// Prepares a full-text query. Its searches must use filters with the visibility mask of `filter`.
    pub fn words(&self, question: &str, filter: &Filter) -> AskedWords<'_> {
        let query = Analyzer::lend(|analyzer| Query::parse(analyzer, question));
        let hidden = left_out(filter).cloned();
        AskedWords { snapshot: self, query, hidden, counted: OnceCell::new() }
    }

    /// [`AskedWords::search`] for a single search.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn search_words(
        &self,
        question: &str,
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Hit>, SearchError> {
        self.words(question, filter).search(limit, filter)
    }
}

impl<'a> AskedWords<'a> {
    /// Returns the `limit` best items by BM25, ties by id.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    ///
    /// # Panics
    /// If the visibility mask of `filter` is not that of the query.
    pub fn search(&self, limit: usize, filter: &Filter) -> Result<Vec<Hit>, SearchError> {
        self.search_for(Top::new(limit), filter)
    }

    /// As [`Self::search`], but only items that score at least `least`, which reads fewer postings lists.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    ///
    /// # Panics
    /// If the visibility mask of `filter` is not that of the query.
    pub fn search_from(
        &self,
        limit: usize,
        least: f32,
        filter: &Filter,
    ) -> Result<Vec<Hit>, SearchError> {
        let mut hits = self.search_for(Top::from(limit, Score::shown_as(least)), filter)?;
        hits.retain(|hit| hit.score >= least);
        Ok(hits)
    }

    fn search_for(
        &self,
        mut top: Top<Score, (u128, Place)>,
        filter: &Filter,
    ) -> Result<Vec<Hit>, SearchError> {
        let Counted { ranker, found, .. } = self.counted(filter)?;
        let snapshot = self.snapshot;
        // Closures passed to the ranker cannot return errors; the first error is recorded here.
        let fault = Fault::default();
        for ((part, it), found) in (0u32..).zip(snapshot.parts.iter()).zip(found) {
            if found.is_empty() {
                continue;
            }
            let admitted = PartFilter::of(snapshot, filter, it)?;
            if admitted.admits_nothing() {
                continue;
            }
            let wanted = |row| fault.or(admitted.admits(row), false);
            let ids = it.segment.view::<u128>(ITEM_ID)?;
            let key = |row: Row| (fault.or(ids.get(row as usize), u128::MAX), Place { part, row });
            SCRATCH
                .with_borrow_mut(|scratch| ranker.search(found, scratch, wanted, key, &mut top))
                .map_err(|error| error.within(|damage| it.segment.words_damage(damage)))?;
        }
        let best = top.into_sorted().into_iter();
        let hits = best.map(|(score, (_, place))| Hit { place, score: score.to_f32() });
        let hits = hits.collect();
        fault.0.into_inner().map_or(Ok(hits), |damage| Err(damage.into()))
    }

    /// Returns the query's statistics, collecting them on the first call.
    pub(super) fn counted(&self, filter: &Filter) -> Result<&Counted<'a>, SearchError> {
        let address = |hidden: Option<&Arc<Hidden>>| hidden.map(Arc::as_ptr);
        assert_eq!(
            address(left_out(filter)),
            address(self.hidden.as_ref()),
            "words are counted for who sees the same"
        );
        if let Some(counted) = self.counted.get() {
            return Ok(counted);
        }
        let counted = self.count()?;
        Ok(self.counted.get_or_init(|| counted))
    }

    fn count(&self) -> Result<Counted<'a>, SearchError> {
        let (snapshot, hidden) = (self.snapshot, self.hidden.as_deref());
        let mut stats = Stats::new(&self.query);
        let mut found = Vec::with_capacity(snapshot.parts.len());
        for it in snapshot.parts.iter() {
            snapshot.stop.check()?;
            let here = count_part(it, &self.query, hidden, &mut stats, &snapshot.stop);
            let here = here.map_err(|error| error.within(|damage| it.segment.words_damage(damage)));
            found.push(here?);
        }
        let ranker = Ranker::new(&self.query, &stats, Parameters::default());
        Ok(Counted { ranker: ranker.until(snapshot.stop.clone()), stats, found })
    }
}

/// Adds a segment's postings of the query's terms to the statistics, excluding hidden rows.
fn count_part<'a>(
    part: &'a Part,
    query: &Query,
    hidden: Option<&Hidden>,
    stats: &mut Stats,
    stop: &Stop,
) -> Result<Found<View<'a, u8>>, SearchError> {
    let words = part.segment.words()?;
    let Some(hidden) = hidden.and_then(|hidden| hidden.of(part)) else {
        return Ok(stats.add(words, query)?);
    };
    match hidden.without(&part.segment, stop)? {
        Some(without) => stats.add_without(words, query, without, stop),
        None => Ok(Found::nothing(words, query)),
    }
}

/// The first corruption met where no error can be returned.
#[derive(Default)]
struct Fault(RefCell<Option<Damage>>);

impl Fault {
    /// Returns the value read, or a substitute in a result that is going to be discarded.
    fn or<T>(&self, read: Result<T, Damage>, otherwise: T) -> T {
        read.unwrap_or_else(|damage| {
            self.0.borrow_mut().get_or_insert(damage);
            otherwise
        })
    }
}
