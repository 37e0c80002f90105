//! The meaning of questions: the stored embeddings nearest to each, by one exact scan for all of
//! them, on one thread or several.
//!
//! Owns which questions share a scan, how its rows are shared out between threads, and how what they
//! find becomes one answer to each. Must not know how rows are compared (`scan.rs`).

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use kernels::{Kernels, QUESTIONS_MAX, Team};

use super::Hit;
use super::scan::{Best, Finds, Group, Searched};
use crate::error::{Damage, SearchError};
use crate::reading::filter::Filter;
use crate::reading::snapshot::Snapshot;
use crate::top::Top;

/// Rows that a thread takes at a time: some three megabytes of codes at 384 dimensions, a fraction
/// of a millisecond's work, so that nobody waits long for the last one.
const PIECE_ROWS: usize = 8192;

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
    /// ([`search_state`](Snapshot::search_state)): of these, those of the nearest lists.
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
        let asked = [Asked { query, limit, filter }];
        let mut found = self.nearest_together(kernels, &mut Team::of(1), &asked)?;
        Ok(found.pop().expect("as many answers as questions"))
    }

    /// The same for each of some questions, to the bit, in their order. All of them share one look at
    /// the rows, up to [`QUESTIONS_MAX`] at a time, and the threads of `team` share out the rows.
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
        let some = searched.iter().enumerate().filter(|(_, part)| !part.admits_nothing());
        let pieces: Vec<(usize, Piece)> = some
            .flat_map(|(at, part)| {
                let lists = part.lists(group).filter(|_| is_approximate);
                pieces(part, group, lists.is_some()).map(move |piece| (at, piece))
            })
            .collect();
        type Found = Result<Finds, SearchError>;
        let threads: Vec<Mutex<Found>> =
            (0..team.threads()).map(|_| Mutex::new(Ok(Finds::for_all(group)))).collect();
        team.run(pieces.len(), &|piece, thread| {
            let (part, piece) = &pieces[piece];
            let part = &searched[*part];
            let mut found = threads[thread].lock().unwrap_or_else(PoisonError::into_inner);
            // Who has failed looks at no more.
            if let Ok(finds) = &mut *found
                && let Err(error) = match piece {
                    Piece::Rows(rows) => part.scan(group, rows.clone(), finds),
                    Piece::Lists(question) => part.probe(group, *question, finds),
                }
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
        sorted.map(|(score, (_, place))| Hit { place, score: score.0 }).collect()
    };
    best.into_iter().map(hits).collect()
}

/// What a thread does at a time, in one part of a snapshot.
enum Piece {
    /// Looks at these rows, for all questions.
    Rows(Range<usize>),
    /// Looks through the nearest lists of the part's index, for one question.
    Lists(usize),
}

/// All that is to be done in a part: its lists for each question, or all of its rows.
fn pieces(part: &Searched<'_>, group: &Group<'_>, in_lists: bool) -> impl Iterator<Item = Piece> {
    let (questions, rows) = (group.questions.len(), part.embeddings.len());
    let (questions, rows) = if in_lists { (questions, 0) } else { (0, rows) };
    let rows = (0..rows).step_by(PIECE_ROWS).map(move |at| at..rows.min(at + PIECE_ROWS));
    (0..questions).map(Piece::Lists).chain(rows.map(Piece::Rows))
}
