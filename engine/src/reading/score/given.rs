//! Scores of given items, whether or not a retriever found them: for comparing candidates of several retrievers, and
//! for explaining a score.
//!
//! Rows are looked up one by one, so this suits some hundreds of items.

use kernels::Kernels;

use super::lexical::{AskedWords, Counted};
use super::scan::Question;
use crate::error::SearchError;
use crate::reading::filter::Filter;
use crate::reading::snapshot::{Place, Snapshot};
use crate::words::{Match, Score};

/// Items looked up between two cancellation checks.
const PLACES_TOGETHER: u32 = 256;

/// A term of a query, as weighted by the full-text search.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedTerm {
    /// The term as spelled in the dictionary.
    pub term: String,
    /// True for a stop word, which carries no subject ("the", "what").
    pub function_word: bool,
    /// True for an identifier, which names a thing verbatim: a path, a symbol, an id.
    pub name: bool,
    /// Largest BM25 score that an item can get for the term; higher for rarer terms. A term that no item has weighs as
    /// much as a term of a single item, except that a whole compound then weighs nothing.
    pub weight: f32,
    /// Document frequency, including superseded and tombstoned items.
    pub items: u64,
}

/// Full-text score of an item.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GivenWords {
    /// BM25 score, as returned by [`AskedWords::search`]; 0 if the item has none of the terms.
    pub score: f32,
    /// Matched terms, as ascending indices into [`WordScores::terms`].
    pub matched: Vec<usize>,
}

/// Full-text scores of given items.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WordScores {
    /// Terms of the query.
    pub terms: Vec<AskedTerm>,
    /// Scores of the items, in the order given.
    pub items: Vec<GivenWords>,
}

impl AskedWords<'_> {
    /// Scores the items at `places`; fastest in row address order. An item whose content `filter` masks scores nothing
    /// and counts in no statistics.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    ///
    /// # Panics
    /// If the visibility mask of `filter` is not that of the search.
    pub fn of(&self, places: &[Place], filter: &Filter) -> Result<WordScores, SearchError> {
        let Counted { stats, ranker, found } = self.counted(filter)?;
        let asked = self.query.terms().iter().zip(ranker.asked()).zip(stats.frequencies());
        let terms = asked.map(|((term, &weight), &items)| AskedTerm {
            term: term.term.clone(),
            function_word: term.function_word,
            name: term.name,
            weight,
            items,
        });
        let terms = terms.collect();
        let mut items = Vec::with_capacity(places.len());
        let mut steps = self.snapshot.stop.each(PLACES_TOGETHER);
        for places in places.chunk_by(|one, next| one.part == next.part) {
            let part = self.snapshot.part(places[0]);
            let within = |damage| part.segment.words_damage(damage);
            let mut given = ranker.given(&found[places[0].part as usize]).map_err(within)?;
            for &place in places {
                steps.step()?;
                items.push(match filter.reads(self.snapshot, place) {
                    true => given_words(given.matched(place.row).map_err(within)?),
                    false => GivenWords::default(),
                });
            }
        }
        Ok(WordScores { terms, items })
    }
}

fn given_words(matches: Vec<Match>) -> GivenWords {
    let score: Score = matches.iter().map(|matched| matched.score).sum();
    let matched = matches.iter().map(|matched| matched.term).collect();
    GivenWords { score: score.to_f32(), matched }
}

impl Snapshot {
    /// Returns the cosine of `query` with the stored embedding of each item, equal to the last bit to that of
    /// [`Snapshot::nearest`]. The cosine is `None` if the item has no embedding, or `filter` masks its content.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn cosines_of(
        &self,
        kernels: &Kernels,
        query: &[f32],
        places: &[Place],
        filter: &Filter,
    ) -> Result<Vec<Option<f32>>, SearchError> {
        let Some(question) = Question::of(query, 0, 0) else {
            return Ok(vec![None; places.len()]);
        };
        let mut cosines = Vec::with_capacity(places.len());
        let mut steps = self.stop.each(PLACES_TOGETHER);
        for places in places.chunk_by(|one, next| one.part == next.part) {
            let segment = &self.part(places[0]).segment;
            if segment.header().dimensions as usize != query.len() {
                cosines.extend(places.iter().map(|_| None));
                continue;
            }
            let embeddings = segment.embeddings()?;
            for &place in places {
                steps.step()?;
                let is_read = filter.reads(self, place);
                let vector =
                    if is_read { segment.own_vector(place.row, &embeddings)? } else { None };
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
