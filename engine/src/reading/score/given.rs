//! What the lanes say of given items, found by them or not: for whoever compares candidates of several
//! lanes, and for whoever explains a score.
//!
//! Owns no order of visiting: it looks up rows one by one, so it is for some hundreds of items.

use std::cell::RefCell;

use kernels::Kernels;

use super::scan::Question;
use crate::error::SearchError;
use crate::reading::filter::Filter;
use crate::reading::snapshot::{Place, Snapshot};
use crate::words::{Analyzer, Bytes, Found, Parameters, Query, Ranker, Score};

thread_local! {
    /// Each thread keeps what analysis reuses.
    static ANALYZER: RefCell<Analyzer> = RefCell::default();
}

/// A term of a question, as the words lane weighs it.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedTerm {
    /// As the dictionary spells it.
    pub term: String,
    /// Whether it carries no subject ("the", "what").
    pub function_word: bool,
    /// Whether it names one thing as it stands: a path, a symbol, an id.
    pub name: bool,
    /// What an item can get for it at most, in units of BM25, and more the rarer it is; a term that no
    /// item has weighs as much as one that a single item has, but for a compound as a whole, which weighs
    /// nothing then.
    pub weight: f32,
    /// How many items have it, superseded and tombstoned ones included.
    pub items: u64,
}

/// What the words lane says of one item.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GivenWords {
    /// Its BM25 score, as [`Snapshot::search_words`] gives it; 0 where it has none of the terms.
    pub score: f32,
    /// The terms it has, as indices into [`WordScores::terms`], in their order.
    pub matched: Vec<usize>,
}

/// What the words lane says of given items.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WordScores {
    /// The question.
    pub terms: Vec<AskedTerm>,
    /// One for each item, in their order.
    pub items: Vec<GivenWords>,
}

impl Snapshot {
    /// What the words of `question` say of the items at `places`: nothing of one whose text `filter` hides,
    /// which counts nowhere either.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    pub fn words_of(
        &self,
        question: &str,
        places: &[Place],
        filter: &Filter,
    ) -> Result<WordScores, SearchError> {
        let query = ANALYZER.with_borrow_mut(|analyzer| Query::parse(analyzer, question));
        let (stats, found) = self.count_words(&query, filter)?;
        let ranker = Ranker::new(&query, &stats, Parameters::default());
        let asked = query.terms().iter().zip(ranker.asked()).zip(stats.frequencies());
        let terms = asked.map(|((term, &weight), &items)| AskedTerm {
            term: term.term.clone(),
            function_word: term.function_word,
            name: term.name,
            weight,
            items,
        });
        let terms = terms.collect();
        let mut items = Vec::with_capacity(places.len());
        for &place in places {
            self.stop.check()?;
            items.push(match filter.reads(self, place) {
                true => self.words_at(&ranker, &found[place.part as usize], place)?,
                false => GivenWords::default(),
            });
        }
        Ok(WordScores { terms, items })
    }

    fn words_at<B: Bytes>(
        &self,
        ranker: &Ranker,
        found: &Found<B>,
        place: Place,
    ) -> Result<GivenWords, SearchError> {
        let matches = ranker.matched_terms(found, place.row);
        let matches = matches.map_err(|damage| self.part(place).segment.words_damage(damage))?;
        let score: Score = matches.iter().map(|matched| matched.score).sum();
        let matched = matches.iter().map(|matched| matched.term).collect();
        Ok(GivenWords { score: score.to_f32(), matched })
    }

    /// The cosine of `query` with the stored embedding of each item, the same to the last bit as
    /// [`Snapshot::nearest`] gives; `None` for an item without one, or
    /// whose text `filter` hides.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
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
        for &place in places {
            self.stop.check()?;
            let segment = &self.part(place).segment;
            let vector = segment.item(place.row)?.embedding.map(|vector| vector as usize);
            let fits =
                segment.header().dimensions as usize == query.len() && filter.reads(self, place);
            cosines.push(match vector.filter(|_| fits) {
                Some(vector) => {
                    let embeddings = segment.embeddings()?;
                    let halves = embeddings.halves(vector, vector + 1)?;
                    Some(question.cosine_with(kernels, halves, embeddings.norms[vector]))
                }
                None => None,
            });
        }
        Ok(cosines)
    }
}
