//! Scores of the query's terms in given rows.
//!
//! Owns the lookup of single rows, for rows that another access path has found. The visiting order of a search is in
//! `search.rs`.

use super::bm25::{Formula, Found, RankedTerm, Ranker, Score};
use super::bytes::Bytes;
use super::forward::Forward;
use super::view::PostingsView;
use crate::error::Damage;

/// Match of one term of the query in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Index of the term in `Query::terms`.
    pub term: usize,
    /// Contribution of the term to the score.
    pub score: Score,
    /// Occurrences in the body, at most 255.
    pub body: u8,
    /// Occurrences in the title, at most 255.
    pub title: u8,
}

/// Scores rows of one segment by lookup; fastest if the rows ascend.
pub struct Given<'a, B> {
    view: &'a PostingsView<B>,
    formula: &'a Formula,
    lists: Vec<(&'a RankedTerm, Forward)>,
}

impl Ranker {
    /// Returns a scorer for rows of one segment, from the result of [`Stats::add`](super::Stats::add).
    ///
    /// # Errors
    /// [`Damage`] in the positions of the lists.
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
    /// Returns the query's terms that a row contains, with the contribution of each.
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
