//! Access paths of a query in a segment: a scan of all rows, the lists of the index, or selected rows alone.
//!
//! Owns the decision to use an index (`format-spec/index.md`, Searching), and the size of a thread's tasks.

use std::ops::Range;

use super::vector_scan::{QueryGroup, SegmentScan, ThreadHits};
use crate::error::SearchError;
use crate::limits::INDEX_LIMIT_MAX;
use crate::query::filter::SegmentFilter;
use crate::vector_index::EvenSample;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Rows per task of a thread: some three megabytes of codes at 384 dimensions. A task takes a fraction of a
    /// millisecond, so no thread waits long for the last task.
    const PIECE_ROWS: usize = 8192;

    /// Rows by which the selectivity of a filter is estimated before an index is used.
    const FILTER_SAMPLE: usize = 256;

    /// If a filter admits less than one row in this many, the index is not used: the best admitted rows score so low
    /// that most rows seem as good.
    const ADMITTED_ONE_IN: usize = 8;
}

/// Selected rows scored between two cancellation checks.
const ROWS_PER_CANCEL_CHECK: u32 = 1024;

/// A shard of an index's lists: shard `index` of `count`. Each list is in exactly one shard.
#[derive(Clone, Copy)]
pub(super) struct ListShard {
    pub(super) index: usize,
    pub(super) count: usize,
}

/// A thread's task in one segment.
pub(super) enum ScanTask {
    /// Scans these rows, for the queries whose bits are set.
    Rows(Range<usize>, u16),
    /// Scores this range of the rows selected by the query's filter.
    Selected(usize, Range<usize>),
    /// Probes a shard of the index's lists for one query.
    Lists(usize, ListShard),
}

impl SegmentScan<'_> {
    /// Splits the search of this segment into tasks. The index is used only if `may_use_index`.
    pub(super) fn scan_tasks(
        &self,
        group: &QueryGroup<'_>,
        may_use_index: bool,
        threads: usize,
    ) -> Result<Vec<ScanTask>, SearchError> {
        self.cancel.check()?;
        let may_use_index = may_use_index && self.ivf_index(group).is_some();
        // Computed once per filter, as many queries share a filter.
        let admits = self
            .filters
            .iter()
            .map(|filter| Ok(may_use_index && self.admits_enough_for_index(filter)?));
        let admits = admits.collect::<Result<Vec<bool>, SearchError>>()?;
        let shares = threads.div_ceil(group.queries.len().max(1));
        let (mut pieces, mut scans) = (Vec::new(), 0u16);
        for (q, question) in group.queries.iter().enumerate() {
            let filter = &self.filters[question.filter];
            if filter.admits_nothing() {
                continue;
            }
            if let Some(rows) = filter.allowlist() {
                pieces.extend(ranges(rows.len()).map(|rows| ScanTask::Selected(q, rows)));
            } else if admits[question.filter] && question.limit <= INDEX_LIMIT_MAX {
                let share = |which| ScanTask::Lists(q, ListShard { index: which, count: shares });
                pieces.extend((0..shares).map(share));
            } else {
                scans |= 1 << q;
            }
        }
        if scans != 0 {
            let rows = ranges(self.embeddings.len());
            pieces.extend(rows.map(|rows| ScanTask::Rows(rows, scans)));
        }
        Ok(pieces)
    }

    /// Returns true if a filter admits enough rows for a query to use the index.
    fn admits_enough_for_index(&self, filter: &SegmentFilter<'_>) -> Result<bool, SearchError> {
        if filter.admits_nothing() || filter.allowlist().is_some() {
            return Ok(false);
        }
        let items = self.embeddings.items;
        let sample = EvenSample::new(self.embeddings.len(), FILTER_SAMPLE);
        let mut admitted = 0;
        for vector in sample.iter() {
            admitted += usize::from(filter.admits(items[vector])?);
        }
        Ok(admitted > 0 && admitted * ADMITTED_ONE_IN >= sample.count())
    }

    /// Runs one task.
    pub(super) fn run_task(
        &self,
        group: &QueryGroup<'_>,
        piece: &ScanTask,
        finds: &mut ThreadHits,
    ) -> Result<(), SearchError> {
        match piece {
            ScanTask::Rows(rows, questions) => self.scan(group, rows.clone(), *questions, finds),
            ScanTask::Selected(question, which) => {
                self.score_selected(group, *question, which.clone(), finds)
            }
            ScanTask::Lists(question, share) => self.probe(group, *question, *share, finds),
        }
    }

    fn score_selected(
        &self,
        group: &QueryGroup<'_>,
        question: usize,
        which: Range<usize>,
        finds: &mut ThreadHits,
    ) -> Result<(), SearchError> {
        let filter = &self.filters[group.queries[question].filter];
        let rows = filter.allowlist().map_or(&[][..], |rows| &rows[which]);
        let mut steps = self.cancel.every(ROWS_PER_CANCEL_CHECK);
        for &row in rows {
            steps.tick()?;
            if let Some(vector) = self.segment.vector_of_item(row, &self.embeddings)? {
                self.score_admitted(group, question, vector, finds)?;
            }
        }
        Ok(())
    }
}

/// Splits rows into tasks.
fn ranges(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(PIECE_ROWS).map(move |at| at..rows.min(at + PIECE_ROWS))
}
