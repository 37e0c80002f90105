//! What the lanes say of given items, found by them or not: for whoever compares candidates of several
//! lanes, and for whoever explains a score.
//!
//! Owns no order of visiting: it looks up rows one by one, so it is for some hundreds of items.

use kernels::Kernels;

use super::lexical::{AskedWords, Counted};
use super::scan::Question;
use crate::error::SearchError;
use crate::reading::filter::Filter;
use crate::reading::snapshot::{Place, Snapshot};
use crate::words::{Match, Score};

/// Items that are looked up between two looks at whether that is still wanted.
const PLACES_TOGETHER: u32 = 256;

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
    /// Its BM25 score, as [`AskedWords::search`] gives it; 0 where it has none of the terms.
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

impl AskedWords<'_> {
    /// What the words say of the items at `places`, quickest in their order: nothing of one whose text `filter`
    /// hides, which counts nowhere either.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    ///
    /// # Panics
    /// If `filter` hides something else than the words were asked with.
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
