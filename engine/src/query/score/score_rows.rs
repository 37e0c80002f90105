//! Scores of given items, whether or not a retriever found them: for comparing candidates of several retrievers, and
//! for explaining a score.
//!
//! Rows are looked up one by one, so this suits some hundreds of items.

use kernels::Kernels;

use super::lexical::{LexicalSearch, QueryStats};
use super::vector_scan::VectorQuery;
use crate::error::SearchError;
use crate::fulltext::{Score, TermMatch};
use crate::query::filter::Filter;
use crate::query::snapshot::{RowAddress, Snapshot};

/// Items looked up between two cancellation checks.
const ROWS_PER_CANCEL_CHECK: u32 = 256;

/// A term of a query, as weighted by the full-text search.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryTermWeight {
    /// The term as spelled in the dictionary.
    pub term: String,
    /// True for a stop word, which carries no subject ("the", "what").
    pub is_stop_word: bool,
    /// True for an identifier, which names a thing verbatim: a path, a symbol, an id.
    pub is_identifier: bool,
    /// Largest BM25 score that an item can get for the term; higher for rarer terms. A term that no item has weighs as
    /// much as a term of a single item, except that a whole compound then weighs nothing.
    pub weight: f32,
    /// Document frequency, including superseded and tombstoned items.
    pub document_frequency: u64,
}

/// Full-text score of an item.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ItemLexicalScore {
    /// BM25 score, as returned by [`LexicalSearch::search`]; 0 if the item has none of the terms.
    pub score: f32,
    /// Matched terms, as ascending indices into [`LexicalScores::terms`].
    pub matched_terms: Vec<usize>,
}

/// Full-text scores of given items.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LexicalScores {
    /// Terms of the query.
    pub terms: Vec<QueryTermWeight>,
    /// Scores of the items, in the order given.
    pub items: Vec<ItemLexicalScore>,
}

impl LexicalSearch<'_> {
    /// Scores the items at `places`; fastest in row address order. An item whose content `filter` masks scores nothing
    /// and counts in no statistics.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    ///
    /// # Panics
    /// If the visibility mask of `filter` is not that of the search.
    pub fn score_items(
        &self,
        places: &[RowAddress],
        filter: &Filter,
    ) -> Result<LexicalScores, SearchError> {
        let QueryStats { collection: stats, ranker, segment_terms: found } =
            self.stats_for(filter)?;
        let asked =
            self.query.terms().iter().zip(ranker.max_term_scores()).zip(stats.frequencies());
        let terms = asked.map(|((term, &weight), &items)| QueryTermWeight {
            term: term.term.clone(),
            is_stop_word: term.is_stop_word,
            is_identifier: term.is_identifier,
            weight,
            document_frequency: items,
        });
        let terms = terms.collect();
        let mut items = Vec::with_capacity(places.len());
        let mut steps = self.snapshot.cancel.every(ROWS_PER_CANCEL_CHECK);
        for places in places.chunk_by(|one, next| one.segment_ord == next.segment_ord) {
            let part = self.snapshot.segment(places[0]);
            let within = |damage| part.segment.words_damage(damage);
            let mut given =
                ranker.row_scorer(&found[places[0].segment_ord as usize]).map_err(within)?;
            for &place in places {
                steps.tick()?;
                items.push(match filter.can_read_content(self.snapshot, place) {
                    true => lexical_score(given.matches(place.row).map_err(within)?),
                    false => ItemLexicalScore::default(),
                });
            }
        }
        Ok(LexicalScores { terms, items })
    }
}

fn lexical_score(matches: Vec<TermMatch>) -> ItemLexicalScore {
    let score: Score = matches.iter().map(|matched| matched.score).sum();
    let matched = matches.iter().map(|matched| matched.term).collect();
    ItemLexicalScore { score: score.to_f32(), matched_terms: matched }
}

impl Snapshot {
    /// Returns the cosine of `query` with the stored embedding of each item, equal to the last bit to that of
    /// [`Snapshot::nearest`]. The cosine is `None` if the item has no embedding, or `filter` masks its content.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn cosines(
        &self,
        kernels: &Kernels,
        query: &[f32],
        places: &[RowAddress],
        filter: &Filter,
    ) -> Result<Vec<Option<f32>>, SearchError> {
        let Some(question) = VectorQuery::new(query, 0, 0) else {
            return Ok(vec![None; places.len()]);
        };
        let mut cosines = Vec::with_capacity(places.len());
        let mut steps = self.cancel.every(ROWS_PER_CANCEL_CHECK);
        for places in places.chunk_by(|one, next| one.segment_ord == next.segment_ord) {
            let segment = &self.segment(places[0]).segment;
            if segment.header().dimensions as usize != query.len() {
                cosines.extend(places.iter().map(|_| None));
                continue;
            }
            let embeddings = segment.embeddings()?;
            for &place in places {
                steps.tick()?;
                let is_read = filter.can_read_content(self, place);
                let vector =
                    if is_read { segment.vector_of_item(place.row, &embeddings)? } else { None };
                cosines.push(match vector {
                    Some(vector) => {
                        let halves = embeddings.halves(vector, vector + 1)?;
                        let norm = embeddings.norms[vector];
                        Some(question.cosine_with(kernels, halves, norm))
                    }
                    None => None,
                });
            }
        }
        Ok(cosines)
    }
}
