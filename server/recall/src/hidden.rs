//! Withheld matches: hidden items that the full-text and vector retrievers would have put into the answer, for the
//! ledger.
//!
//! Policy decides by class (kind, sensitivity, gates), so it is evaluated once for each class, and the engine skips the
//! masked rows. Hidden items therefore change neither ranking nor counts. A separate search over them finds what to
//! record.

use std::collections::HashSet;
use std::sync::Arc;

use engine::{Filter, Hit, PhraseMatches, RowAddress, SearchError};

use super::lane::{Lane, Ran};
use crate::means::Means;
use crate::recalled::{Outcome, Withheld};
use crate::route::Plan;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Hidden items compared with the question one by one: some 0.2 us each, against 1 ms for a scan of 50,000 rows.
    /// More hidden items are searched instead.
    const COMPARED_MAX: usize = 4096;

    /// Hidden items in which terms are looked up one by one: some 0.1 us each, against 20 us for a search.
    const LOOKED_UP_MAX: usize = 256;

    /// Texts of hidden items that are read for quoted phrases, for each retriever.
    const READ_MAX: usize = 64;

    /// Total bytes of these texts.
    const READ_BYTES_MAX: u64 = 1 << 20;
}

/// Items of the answer before abstention. A hidden item is a withheld match if it ranks with these.
pub(super) struct Shown {
    count: usize,
    /// Items that the full-text retriever found.
    words: Vec<RowAddress>,
    /// Lowest cosine of the items that the vector retriever found.
    meaning: Option<f32>,
}

impl Shown {
    pub(super) fn of(outcome: &Outcome) -> Self {
        Self {
            count: outcome.items.len(),
            words: shown_by(outcome, Lane::Words).map(|(place, _)| place).collect(),
            meaning: shown_by(outcome, Lane::Meaning).map(|it| it.1).min_by(f32::total_cmp),
        }
    }
}

/// Finds hidden items that would have been in the answer: at least as good, by full text or by vector, as the worst
/// shown item. If nothing is shown, returns all with a term of the question, and the nearest one. Each retriever
/// contributes at most the item limit of the answer.
///
/// `plan` is the executed plan, `quoted` the items with the question's quoted phrases.
///
/// # Errors
/// Corruption, or cancellation.
pub(super) fn kept_back(
    means: &Means<'_>,
    (plan, quoted): (&Plan, Option<&PhraseMatches>),
    ran: &Ran<'_>,
    outcome: &Outcome,
    shown: &Shown,
) -> Result<Vec<Withheld>, SearchError> {
    if means.hidden.is_none() {
        return Ok(Vec::new());
    }
    let looking = Looking::of(means, plan, quoted)?;
    let mut places: Vec<RowAddress> = Vec::new();
    if plan.words {
        let is_full = shown.count >= plan.bounds.limit;
        let measure: &[RowAddress] = if is_full { &shown.words } else { &[] };
        places.extend(looking.by_words(measure)?);
    }
    if let Some(question) = &ran.question {
        let limit = if shown.meaning.is_some() { plan.bounds.limit } else { 1 };
        places.extend(looking.by_meaning(question, limit, shown.meaning)?);
    }
    places.sort_unstable();
    places.dedup();
    // Other retrievers may have found a redacted item, and the gate has recorded its withheld items already.
    let withheld = outcome.withheld.iter().map(|kept| kept.place);
    let filed: HashSet<RowAddress> =
        outcome.items.iter().map(|item| item.place).chain(withheld).collect();
    places.retain(|place| !filed.contains(place));
    places
        .into_iter()
        .map(|place| means.withheld(place))
        .collect::<Result<_, _>>()
        .map_err(Into::into)
}

/// Search over the hidden items.
struct Looking<'a> {
    means: &'a Means<'a>,
    plan: &'a Plan,
    quoted: Option<&'a PhraseMatches>,
    /// Admits the hidden items that the plan could otherwise find, and no others.
    filter: Filter,
    /// Row addresses of all admitted items, if at most `COMPARED_MAX`.
    few: Option<Vec<RowAddress>>,
}

impl<'a> Looking<'a> {
    fn of(
        means: &'a Means<'a>,
        plan: &'a Plan,
        quoted: Option<&'a PhraseMatches>,
    ) -> Result<Self, SearchError> {
        let filter = filter(means, plan, quoted);
        let few = means.snapshot.masked_items(&filter, COMPARED_MAX)?;
        Ok(Self { means, plan, quoted, filter, few })
    }

    /// Returns the best by BM25 with at least the lowest score of `shown`; if `shown` is empty, with any score.
    fn by_words(&self, shown: &[RowAddress]) -> Result<Vec<RowAddress>, SearchError> {
        let words = self.means.snapshot.lexical_search(&self.plan.text, &self.filter);
        // The retriever computed its scores without hidden rows. Here hidden rows count in all scores, including those
        // of `shown`.
        let scored =
            words.score_items(shown, &Filter::default())?.items.into_iter().map(|it| it.score);
        let least = scored.min_by(f32::total_cmp).unwrap_or(0.0);
        let limit = self.plan.bounds.limit;
        let hits = match self.few.as_ref().filter(|few| few.len() <= LOOKED_UP_MAX) {
            Some(few) => {
                let given = words.score_items(few, &self.filter)?.items;
                let scored = few.iter().zip(&given).filter(|(_, it)| !it.matched_terms.is_empty());
                best(scored.map(|(place, it)| (*place, it.score)), least, self.looked_at(limit))
            }
            None => places(&words.search_at_least(self.looked_at(limit), least, &self.filter)?),
        };
        quoted(self.means, self.quoted, &hits, limit)
    }

    /// Returns at most `limit` nearest items whose cosine is at least `least`.
    fn by_meaning(
        &self,
        question: &[f32],
        limit: usize,
        least: Option<f32>,
    ) -> Result<Vec<RowAddress>, SearchError> {
        let Means { snapshot, kernels, .. } = self.means;
        let (least, most) = (least.unwrap_or(f32::NEG_INFINITY), self.looked_at(limit));
        let hits = match &self.few {
            Some(few) => {
                let cosines = snapshot.cosines(kernels, question, few, &self.filter)?;
                let scored = few.iter().zip(cosines).filter_map(|(at, it)| Some((*at, it?)));
                best(scored, least, most)
            }
            None => {
                places(&snapshot.nearest_at_least(kernels, question, most, least, &self.filter)?)
            }
        };
        quoted(self.means, self.quoted, &hits, limit)
    }

    /// Returns how many hits to fetch for `limit` to remain, as some hits may lack the quoted phrases.
    fn looked_at(&self, limit: usize) -> usize {
        if self.quoted.is_some() { limit.max(READ_MAX) } else { limit }
    }
}

/// Returns the filter for the hidden items that the executed plan could otherwise find. If the question has quoted
/// phrases, admits only items with all words of the phrases.
pub(super) fn filter(means: &Means<'_>, plan: &Plan, quoted: Option<&PhraseMatches>) -> Filter {
    let mut filter = Filter { only_masked: true, ..plan.filter.clone() };
    if let Some(quoted) = quoted {
        filter.allowlist = Some(Arc::new(means.snapshot.item_set(&quoted.masked)));
    }
    filter
}

/// Retains the first `limit` hits with the quoted phrases, if there are any. Hits beyond the text or byte bounds are
/// retained unread: recording one item too many is better than one too few.
pub(super) fn quoted(
    means: &Means<'_>,
    quoted: Option<&PhraseMatches>,
    found: &[RowAddress],
    limit: usize,
) -> Result<Vec<RowAddress>, SearchError> {
    let snapshot = means.snapshot;
    let Some(quoted) = quoted else { return Ok(found[..limit.min(found.len())].to_vec()) };
    let (mut kept, mut left) = (Vec::new(), READ_BYTES_MAX);
    for (read, &place) in found.iter().enumerate() {
        if kept.len() == limit {
            break;
        }
        snapshot.check_cancelled()?;
        let bytes = snapshot.content_bytes(place)?;
        let is_read = read < READ_MAX && bytes <= left;
        left = left.saturating_sub(bytes);
        if !is_read || snapshot.matches_phrases(quoted, place)? {
            kept.push(place);
        }
    }
    Ok(kept)
}

fn places(hits: &[Hit]) -> Vec<RowAddress> {
    hits.iter().map(|hit| hit.address).collect()
}

/// Returns at most `limit` with at least the score `least`, best first.
fn best(
    scored: impl Iterator<Item = (RowAddress, f32)>,
    least: f32,
    limit: usize,
) -> Vec<RowAddress> {
    let mut scored: Vec<(RowAddress, f32)> = scored.filter(|(_, score)| *score >= least).collect();
    scored.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scored.truncate(limit);
    scored.into_iter().map(|(place, _)| place).collect()
}

/// Returns the shown items that the retriever found, with the retriever's scores.
fn shown_by(outcome: &Outcome, lane: Lane) -> impl Iterator<Item = (RowAddress, f32)> {
    outcome.items.iter().filter_map(move |item| {
        let found = item.found_by.iter().find(|(by, _)| *by == lane);
        found.map(|&(_, score)| (item.place, score))
    })
}
