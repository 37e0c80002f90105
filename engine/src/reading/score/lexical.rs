//! The words of a question: how often they occur, and the items that have them, by BM25 over all parts of a
//! snapshot.
//!
//! Owns that a question's words are counted once, whatever is asked of them afterwards. Must not know how
//! they are weighed (`words`).

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
    /// Each thread keeps what searches reuse.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The words of a question, asked of one snapshot by one who does not see all of it: what is hidden counts in no
/// score, so that every answer is that of a store which does not have it.
///
/// They are counted when something is first asked of them, and once.
pub struct AskedWords<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) query: Query,
    /// What counts nowhere.
    hidden: Option<Arc<Hidden>>,
    counted: OnceCell<Counted<'a>>,
}

/// What counting gave.
pub(super) struct Counted<'a> {
    pub(super) stats: Stats,
    pub(super) ranker: Ranker,
    /// Where each part has the words.
    pub(super) found: Vec<Found<View<'a, u8>>>,
}

/// What counts nowhere in searches with this filter: who looks at just what is hidden goes by all rows.
fn left_out(filter: &Filter) -> Option<&Arc<Hidden>> {
    filter.hidden.as_ref().filter(|_| !filter.only_hidden)
}

impl Snapshot {
    /// The words of `question`, for what is asked of them with filters that hide what `filter` hides.
    pub fn words(&self, question: &str, filter: &Filter) -> AskedWords<'_> {
        let query = Analyzer::lend(|analyzer| Query::parse(analyzer, question));
        let hidden = left_out(filter).cloned();
        AskedWords { snapshot: self, query, hidden, counted: OnceCell::new() }
    }

    /// [`AskedWords::search`] for those who ask once.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
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
    /// The `limit` items that answer the words best, equal ones in order of id.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    ///
    /// # Panics
    /// If `filter` hides something else than the words were asked with.
    pub fn search(&self, limit: usize, filter: &Filter) -> Result<Vec<Hit>, SearchError> {
        self.search_for(Top::new(limit), filter)
    }

    /// Those of them that score `least` or more, for which fewer lists are read.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    ///
    /// # Panics
    /// If `filter` hides something else than the words were asked with.
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
        // The search asks through plain closures; what goes wrong in them waits here.
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

    /// The words as they are counted for who asks with this filter.
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

/// Adds what a part has of the question's words to the statistics, as if what is hidden were not there.
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

/// The first damage that was met where it could not be returned.
#[derive(Default)]
struct Fault(RefCell<Option<Damage>>);

impl Fault {
    /// What was read, or what stands in for it in an answer that nobody is going to see.
    fn or<T>(&self, read: Result<T, Damage>, otherwise: T) -> T {
        read.unwrap_or_else(|damage| {
            self.0.borrow_mut().get_or_insert(damage);
            otherwise
        })
    }
}
