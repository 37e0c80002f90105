//! What the terms of a question add to the scores of given rows.
//!
//! Owns the looking up of single rows, for whoever found them otherwise. Must not know the order in which a
//! search visits rows (`search.rs`).

use super::bm25::{Formula, Found, RankedTerm, Ranker, Score};
use super::bytes::Bytes;
use super::forward::Forward;
use super::view::PostingsView;
use crate::error::Damage;

/// Why a row matched: one term of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Which term, as an index into `Query::terms`.
    pub term: usize,
    /// What it added to the score.
    pub score: Score,
    /// Times in the body, at most 255.
    pub body: u8,
    /// Times in the title, at most 255.
    pub title: u8,
}

/// Looks up rows of one segment, quickest in their order.
pub struct Given<'a, B> {
    view: &'a PostingsView<B>,
    formula: &'a Formula,
    lists: Vec<(&'a RankedTerm, Forward)>,
}

impl Ranker {
    /// For rows of one segment, as [`Stats::add`](super::Stats::add) found it.
    ///
    /// # Errors
    /// [`Damage`] in where the lists lie.
    pub fn given<'a, B: Bytes>(&'a self, found: &'a Found<B>) -> Result<Given<'a, B>, Damage> {
        let mut lists = Vec::new();
        for term in &self.terms {
            if let Some(entry) = found.entries.get(term.index).copied().flatten() {
                lists.push((term, Forward::of(found.view.list(entry)?)));
            }
        }
        Ok(Given { view: &found.view, formula: &self.formula, lists })
    }
}

impl<B: Bytes> Given<'_, B> {
    /// Which terms of the question a row has, and what each added.
    ///
    /// # Errors
    /// [`Damage`] in the lists that were read.
    pub fn matched(&mut self, row: u32) -> Result<Vec<Match>, Damage> {
        let mut matches = Vec::new();
        let Some(code) = self.view.length_code(row)? else { return Ok(matches) };
        for (term, list) in &mut self.lists {
            if let Some(posting) = list.posting(self.view, row)? {
                let score = Score(self.formula.posting(term.weight, posting, code));
                let (body, title) = (posting.body, posting.title);
                matches.push(Match { term: term.index, score, body, title });
            }
        }
        Ok(matches)
    }
}
