//! Batched vector search: the nearest stored embeddings for several queries, by one shared scan on one thread or
//! several.
//!
//! Owns the grouping of queries, the division of rows between threads, and the merge of their hits.

use std::sync::{Mutex, PoisonError};

use kernels::{Kernels, QUESTIONS_MAX, Team};

use super::access_path::ScanTask;
use super::hit::Hit;
use super::vector_scan::{QueryGroup, SegmentScan, ThreadHits, TopHits};
use crate::error::{CorruptionError, SearchError};
use crate::query::filter::Filter;
use crate::query::snapshot::Snapshot;
use crate::top_k::TopK;

/// A query of a batched vector search.
#[derive(Debug, Clone, Copy)]
pub struct BatchQuery<'a> {
    /// Query vector; if its width differs from the store's model, nothing is found.
    pub query: &'a [f32],
    /// Most hits to return.
    pub limit: usize,
    /// Conditions on the hits.
    pub filter: &'a Filter,
}

impl Snapshot {
    /// Returns the `limit` items whose stored f16 vectors have the largest cosine with `query`, best first, ties by id.
    /// The search is exact: every row that `filter` admits is scored, or bounded below the top k.
    ///
    /// Rows of an index are an exception, if the index is used ([`ann_status`](Snapshot::ann_status)) and suits
    /// this limit and filter. From an index, only rows of the nearest lists that seem near by their binary codes are
    /// scored.
    ///
    /// If the width of `query` differs from the store's model, nothing is found.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn nearest(
        &self,
        kernels: &Kernels,
        query: &[f32],
        limit: usize,
        filter: &Filter,
    ) -> Result<Vec<Hit>, SearchError> {
        self.nearest_at_least(kernels, query, limit, f32::NEG_INFINITY, filter)
    }

    /// As [`Self::nearest`], but only items whose cosine is at least `least`, which examines fewer rows.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn nearest_at_least(
        &self,
        kernels: &Kernels,
        query: &[f32],
        limit: usize,
        least: f32,
        filter: &Filter,
    ) -> Result<Vec<Hit>, SearchError> {
        if limit == 0 || !QueryGroup::can_compare(query) {
            return Ok(Vec::new());
        }
        let group = QueryGroup::new(*kernels, std::iter::once((query, limit, filter)));
        if least > f32::NEG_INFINITY {
            group.require_score(0, least);
        }
        let finds = self.search_group(&group, query.len(), &mut Team::of(1))?;
        let mut hits = merge_hits(&group, finds).pop().unwrap_or_default();
        hits.retain(|hit| hit.score >= least);
        Ok(hits)
    }

    /// As [`Self::nearest`], for several queries, with the hits in the order of the queries; equal to the bit if no
    /// index is used. Up to [`QUESTIONS_MAX`] queries share one scan, whose rows are divided between the threads of
    /// `team`.
    ///
    /// # Errors
    /// Corruption, or cancellation; either ends the search for all queries.
    pub fn nearest_batch(
        &self,
        kernels: &Kernels,
        team: &mut Team,
        asked: &[BatchQuery<'_>],
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        let mut found = vec![Vec::new(); asked.len()];
        let is_askable =
            |asked: &BatchQuery<'_>| asked.limit > 0 && QueryGroup::can_compare(asked.query);
        let mut order: Vec<usize> = (0..asked.len()).filter(|&at| is_askable(&asked[at])).collect();
        let width = |at: usize| asked[at].query.len();
        order.sort_by_key(|&at| width(at));
        for same in order.chunk_by(|&a, &b| width(a) == width(b)) {
            for some in same.chunks(QUESTIONS_MAX) {
                let questions =
                    some.iter().map(|&at| (asked[at].query, asked[at].limit, asked[at].filter));
                let group = QueryGroup::new(*kernels, questions);
                let finds = self.search_group(&group, width(some[0]), team)?;
                for (&at, hits) in some.iter().zip(merge_hits(&group, finds)) {
                    found[at] = hits;
                }
            }
        }
        Ok(found)
    }

    /// Searches all segments of this width; returns the hits of each thread.
    pub(super) fn search_group(
        &self,
        group: &QueryGroup<'_>,
        width: usize,
        team: &mut Team,
    ) -> Result<Vec<ThreadHits>, SearchError> {
        let parts = (0u32..).zip(self.segments.iter());
        let parts = parts.filter(|(_, part)| part.segment.header().dimensions as usize == width);
        let searched = parts.map(|(at, part)| SegmentScan::open(self, part, at, group));
        let searched = searched.collect::<Result<Vec<SegmentScan<'_>>, CorruptionError>>()?;
        let is_approximate = self.ann_status().is_approximate;
        let mut pieces: Vec<(usize, ScanTask)> = Vec::new();
        for (at, part) in searched.iter().enumerate() {
            let some = part.scan_tasks(group, is_approximate, team.threads())?;
            pieces.extend(some.into_iter().map(|piece| (at, piece)));
        }
        type Found = Result<ThreadHits, SearchError>;
        let threads: Vec<Mutex<Found>> =
            (0..team.threads()).map(|_| Mutex::new(Ok(ThreadHits::new(group)))).collect();
        team.run(pieces.len(), &|piece, thread| {
            let (part, piece) = &pieces[piece];
            let mut found = threads[thread].lock().unwrap_or_else(PoisonError::into_inner);
            // A thread that has failed skips its remaining tasks.
            if let Ok(finds) = &mut *found
                && let Err(error) = searched[*part].run_task(group, piece, finds)
            {
                *found = Err(error);
            }
        });
        let found = threads.into_iter();
        found.map(|found| found.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}

/// Merges the hits of all threads, per query.
pub(super) fn merge_hits(group: &QueryGroup<'_>, finds: Vec<ThreadHits>) -> Vec<Vec<Hit>> {
    let tops = group.queries.iter().map(|question| TopK::new(question.limit));
    let mut best: Vec<TopHits> = tops.collect();
    for finds in finds {
        for (best, found) in best.iter_mut().zip(finds.best) {
            for (score, key) in found.into_sorted() {
                best.offer(score, key);
            }
        }
    }
    let hits = |top: TopHits| {
        let sorted = top.into_sorted().into_iter();
        sorted.map(|(score, (_, place))| Hit { address: place, score: score.to_f32() }).collect()
    };
    best.into_iter().map(hits).collect()
}
