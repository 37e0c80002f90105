//! The meaning of questions: the stored embeddings nearest to each, by one exact scan for all of
//! them, on one thread or several.
//!
//! Owns which questions share a scan, how its rows are shared out between threads, and how what they
//! find becomes one answer to each. Must not know how rows are compared (`scan.rs`), nor
//! which of them are (`ways.rs`).

use std::sync::{Mutex, PoisonError};

use kernels::{Kernels, QUESTIONS_MAX, Team};

use super::hit::Hit;
use super::scan::{Best, Finds, Group, Searched};
use super::ways::Piece;
use crate::error::{Damage, SearchError};
use crate::reading::filter::Filter;
use crate::reading::snapshot::Snapshot;
use crate::top::Top;

/// What is asked of a search by meaning.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The question's vector, as wide as the store's model; otherwise nothing is found.
    pub query: &'a [f32],
    /// The most that may be found.
    pub limit: usize,
    /// What may be found.
    pub filter: &'a Filter,
}

impl Snapshot {
    /// The `limit` items whose stored f16 vectors have the largest cosine with `query`, best
    /// first, equal ones in order of id. Exact: every row that `filter` admits is scored, or known
    /// not to be among them; but for rows of an index, where one is used
    /// ([`search_state`](Snapshot::search_state)) and serves this limit and filter: of these, those of the
    /// nearest lists that seem near by their sketches.
    ///
    /// `query` is as wide as the store's model; otherwise nothing is found.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    pub fn nearest(
        &self,
        kernels: &Kernels,
        query: &[f32],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Hit>, SearchError> {
        self.nearest_from(kernels, query, limit, f32::NEG_INFINITY, filter)
    }

    /// Those of them whose cosine is `least` or more, for which fewer rows are looked at.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    pub fn nearest_from(
        &self,
        kernels: &Kernels,
        query: &[f32],
        limit: usize,
        least: f32,
        filter: &Filter,
    ) -> Result<Vec<Hit>, SearchError> {
        if limit == 0 || !Group::can_compare(query) {
            return Ok(Vec::new());
        }
        let group = Group::of(*kernels, std::iter::once((query, limit, filter)));
        if least > f32::NEG_INFINITY {
            group.ask_for(0, least);
        }
        let finds = self.search(&group, query.len(), &mut Team::of(1))?;
        let mut hits = merged(&group, finds).pop().unwrap_or_default();
        hits.retain(|hit| hit.score >= least);
        Ok(hits)
    }

    /// The same for each of some questions, in their order, and to the bit where no index is used. All
    /// of them share one look at the rows, up to [`QUESTIONS_MAX`] at a time, and the threads of `team`
    /// share out the rows.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop; either ends the search for all of them.
    pub fn nearest_together(
        &self,
        kernels: &Kernels,
        team: &mut Team,
        asked: &[Asked<'_>],
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        let mut found = vec![Vec::new(); asked.len()];
        let is_askable = |asked: &Asked<'_>| asked.limit > 0 && Group::can_compare(asked.query);
        let mut order: Vec<usize> = (0..asked.len()).filter(|&at| is_askable(&asked[at])).collect();
        let width = |at: usize| asked[at].query.len();
        order.sort_by_key(|&at| width(at));
        for same in order.chunk_by(|&a, &b| width(a) == width(b)) {
            for some in same.chunks(QUESTIONS_MAX) {
                let questions =
                    some.iter().map(|&at| (asked[at].query, asked[at].limit, asked[at].filter));
                let group = Group::of(*kernels, questions);
                let finds = self.search(&group, width(some[0]), team)?;
                for (&at, hits) in some.iter().zip(merged(&group, finds)) {
                    found[at] = hits;
                }
            }
        }
        Ok(found)
    }

    /// What each thread finds, for questions of this width.
    pub(super) fn search(
        &self,
        group: &Group<'_>,
        width: usize,
        team: &mut Team,
    ) -> Result<Vec<Finds>, SearchError> {
        let parts = (0u32..).zip(self.parts.iter());
        let parts = parts.filter(|(_, part)| part.segment.header().dimensions as usize == width);
        let searched = parts.map(|(at, part)| Searched::of(self, part, at, group));
        let searched = searched.collect::<Result<Vec<Searched<'_>>, Damage>>()?;
        let is_approximate = self.search_state().is_approximate;
        let mut pieces: Vec<(usize, Piece)> = Vec::new();
        for (at, part) in searched.iter().enumerate() {
            let some = part.pieces(group, is_approximate, team.threads())?;
            pieces.extend(some.into_iter().map(|piece| (at, piece)));
        }
        type Found = Result<Finds, SearchError>;
        let threads: Vec<Mutex<Found>> =
            (0..team.threads()).map(|_| Mutex::new(Ok(Finds::for_all(group)))).collect();
        team.run(pieces.len(), &|piece, thread| {
            let (part, piece) = &pieces[piece];
            let mut found = threads[thread].lock().unwrap_or_else(PoisonError::into_inner);
            // Who has failed looks at no more.
            if let Ok(finds) = &mut *found
                && let Err(error) = searched[*part].work(group, piece, finds)
            {
                *found = Err(error);
            }
        });
        let found = threads.into_iter();
        found.map(|found| found.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}

/// The best of what all threads found, for each question.
pub(super) fn merged(group: &Group<'_>, finds: Vec<Finds>) -> Vec<Vec<Hit>> {
    let tops = group.questions.iter().map(|question| Top::new(question.limit));
    let mut best: Vec<Best> = tops.collect();
    for finds in finds {
        for (best, found) in best.iter_mut().zip(finds.best) {
            for (score, key) in found.into_sorted() {
                best.offer(score, key);
            }
        }
    }
    let hits = |top: Best| {
        let sorted = top.into_sorted().into_iter();
        sorted.map(|(score, (_, place))| Hit { place, score: score.number() }).collect()
    };
    best.into_iter().map(hits).collect()
}
