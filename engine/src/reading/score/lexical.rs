//! The words of a question: the items that have them, by BM25 over all parts of a snapshot.

use std::cell::RefCell;

use super::Hit;
use crate::error::{Damage, SearchError};
use crate::ids::Row;
use crate::layout::ITEM_ID;
use crate::part::Part;
use crate::reading::filter::{Filter, PartFilter};
use crate::reading::snapshot::{Place, Snapshot};
use crate::segment::View;
use crate::top::Top;
use crate::words::{Analyzer, Found, Parameters, Query, Ranker, Scratch, Stats};

thread_local! {
    /// Each thread keeps what analysis and search reuse.
    static WORKING: RefCell<(Analyzer, Scratch)> = RefCell::default();
}

impl Snapshot {
    /// The `limit` items that answer the words of `question` best, equal ones in order of id. What `filter`
    /// hides counts in no score: the answer is that of a store which does not have it.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    pub fn search_words(
        &self,
        question: &str,
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Hit>, SearchError> {
        WORKING.with_borrow_mut(|(analyzer, scratch)| {
            let query = Query::parse(analyzer, question);
            let (stats, found) = self.count_words(&query, filter)?;
            let ranker = Ranker::new(&query, &stats, Parameters::default());
            let ranker = ranker.until(self.stop.clone());
            // The search asks through plain closures; what goes wrong in them waits here.
            let fault = Fault::default();
            let mut top = Top::new(limit);
            for ((part, it), found) in (0u32..).zip(self.parts.iter()).zip(&found) {
                if found.is_empty() {
                    continue;
                }
                let admitted = PartFilter::of(self, filter, it)?;
                if admitted.admits_nothing() {
                    continue;
                }
                let wanted = |row| fault.or(admitted.admits(row), false);
                let ids = it.segment.view::<u128>(ITEM_ID)?;
                let key =
                    |row: Row| (fault.or(ids.get(row as usize), u128::MAX), Place { part, row });
                ranker
                    .search(found, scratch, wanted, key, &mut top)
                    .map_err(|error| error.within(|damage| it.segment.words_damage(damage)))?;
            }
            let best = top.into_sorted().into_iter();
            let hits = best.map(|(score, (_, place))| Hit { place, score: score.to_f32() });
            let hits = hits.collect();
            fault.0.into_inner().map_or(Ok(hits), |damage| Err(damage.into()))
        })
    }
}

/// The statistics of a question's words over all parts, and where each part has them.
pub(super) type Counted<'a> = (Stats, Vec<Found<View<'a, u8>>>);

impl Snapshot {
    /// The statistics of a question's words, and where each part has them.
    pub(super) fn count_words(
        &self,
        query: &Query,
        filter: &Filter,
    ) -> Result<Counted<'_>, Damage> {
        let mut stats = Stats::new(query);
        let mut found = Vec::with_capacity(self.parts.len());
        for it in self.parts.iter() {
            let here = counted(it, query, filter, &mut stats);
            found.push(here.map_err(|damage| it.segment.words_damage(damage))?);
        }
        Ok((stats, found))
    }
}

/// Adds what a part has of the question's words to the statistics, as if what is hidden were not there. Who
/// looks at just that goes by all rows.
fn counted<'a>(
    part: &'a Part,
    query: &Query,
    filter: &Filter,
    stats: &mut Stats,
) -> Result<Found<View<'a, u8>>, Damage> {
    let words = part.segment.words()?;
    let hidden = filter.hidden.as_ref().filter(|_| !filter.only_hidden);
    let Some(hidden) = hidden.and_then(|hidden| hidden.of(part)) else {
        return stats.add(words, query);
    };
    match hidden.without(&part.segment)? {
        Some(without) => stats.add_without(words, query, Some(without)),
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
