//! The words of a question: the items that have them, by BM25 over all parts of a snapshot.

use std::cell::RefCell;

use super::Hit;
use crate::error::Damage;
use crate::reading::snapshot::{Filter, PartFilter, Place, Snapshot};
use crate::top::Top;
use crate::words::{Analyzer, Parameters, Query, Ranker, Scratch, Stats};

thread_local! {
    /// Each thread keeps what analysis and search reuse.
    static WORKING: RefCell<(Analyzer, Scratch)> = RefCell::default();
}

impl Snapshot {
    /// The `limit` items that answer the words of `question` best, equal ones in order of id.
    pub fn search_words(
        &self,
        question: &str,
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Hit>, Damage> {
        WORKING.with_borrow_mut(|(analyzer, scratch)| {
            let query = Query::parse(analyzer, question);
            let mut stats = Stats::new(&query);
            let found = self.parts.iter().map(|it| {
                let found = it.segment.words().and_then(|words| stats.add(&words, &query));
                found.map_err(|damage| it.segment.words_damage(damage))
            });
            let found = found.collect::<Result<Vec<_>, _>>()?;
            let ranker = Ranker::new(&query, &stats, Parameters::default());
            let mut top = Top::new(limit);
            for ((part, it), found) in (0u32..).zip(self.parts.iter()).zip(&found) {
                if found.is_empty() {
                    continue;
                }
                let admitted = PartFilter::of(self, filter, it)?;
                // The search asks through plain closures; what goes wrong in them waits here.
                let fault = RefCell::new(None);
                let wanted = |row| {
                    admitted.admits(row).unwrap_or_else(|damage| {
                        fault.replace(Some(damage));
                        false
                    })
                };
                let key = |row| match it.segment.item_id(row) {
                    Ok(id) => (id.0, Place { part, row }),
                    Err(damage) => {
                        fault.replace(Some(damage));
                        (u128::MAX, Place { part, row })
                    }
                };
                ranker
                    .search(found, scratch, wanted, key, &mut top)
                    .map_err(|damage| it.segment.words_damage(damage))?;
                if let Some(damage) = fault.into_inner() {
                    return Err(damage);
                }
            }
            let best = top.into_sorted().into_iter();
            Ok(best.map(|(score, (_, place))| Hit { place, score: score.to_f32() }).collect())
        })
    }
}
