//! Decision between exact and approximate vector search (`format-spec/index.md`, Modes).

use crate::limits::{APPROXIMATE_ROWS_MIN, INDEX_ROWS_MIN, UNINDEXED_SHARE_MAX};
use crate::query::snapshot::Snapshot;

/// Mode of vector searches in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchMode {
    /// Exact while that is fast; through indexes once the store is large and indexing has caught up.
    #[default]
    Auto,
    /// Exact; no index is built.
    Exact,
    /// Through every index that exists.
    Approximate,
}

impl SearchMode {
    /// Name on the command line and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Exact => "exact",
            Self::Approximate => "approximate",
        }
    }
}

/// Policy of vector searches: mode, and sizes from which indexes are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnnPolicy {
    /// Selected mode.
    pub mode: SearchMode,
    /// Embeddings of a store at which [`SearchMode::Auto`] starts to build and use indexes.
    pub approximate_rows_min: u64,
    /// Embeddings of a segment at which an index over it is built.
    pub index_rows_min: u32,
}

impl Default for AnnPolicy {
    fn default() -> Self {
        Self {
            mode: SearchMode::default(),
            approximate_rows_min: APPROXIMATE_ROWS_MIN,
            index_rows_min: INDEX_ROWS_MIN,
        }
    }
}

impl AnnPolicy {
    /// Returns true if a store with this many embeddings should have indexes.
    pub(crate) fn wants_indexes(&self, vectors: u64) -> bool {
        match self.mode {
            SearchMode::Exact => false,
            SearchMode::Approximate => true,
            SearchMode::Auto => vectors >= self.approximate_rows_min,
        }
    }
}

/// State of vector search in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AnnStatus {
    /// Selected mode.
    pub mode: SearchMode,
    /// True if an index is used. An index that was measured to gain nothing is not used.
    pub is_approximate: bool,
    /// Number of embeddings.
    pub rows: u64,
    /// Number of embeddings covered by an index.
    pub indexed_rows: u64,
    /// Expected share of the ten nearest that is found; 1 if the search is exact.
    pub recall_at_10: f64,
    /// Exact neighbours with which the recall was measured; 0 if the search is exact.
    pub neighbours_measured: u64,
}

impl Snapshot {
    /// Returns the snapshot with this search mode.
    #[must_use]
    pub fn with_search_mode(self, mode: SearchMode) -> Self {
        Self { ann_policy: AnnPolicy { mode, ..self.ann_policy }, ..self }
    }

    /// Returns the state of vector search in this snapshot.
    pub fn ann_status(&self) -> AnnStatus {
        let (mut rows, mut indexed_rows, mut measured_over) = (0, 0, 0);
        let (mut lost, mut gains) = (0.0, false);
        for part in self.segments.iter() {
            let vectors = u64::from(part.segment.header().vectors);
            rows += vectors;
            if let Some(lists) = part.segment.index() {
                indexed_rows += vectors;
                if lists.is_useful() {
                    gains = true;
                    let (recall, over) = lists.recall();
                    measured_over += u64::from(over);
                    lost += (1.0 - recall) * vectors as f64;
                }
            }
        }
        let mode = self.ann_policy.mode;
        let has_caught_up = rows - indexed_rows <= rows / UNINDEXED_SHARE_MAX;
        let is_approximate = match mode {
            SearchMode::Exact => false,
            SearchMode::Approximate => gains,
            SearchMode::Auto => gains && self.ann_policy.wants_indexes(rows) && has_caught_up,
        };
        if !is_approximate {
            (lost, measured_over) = (0.0, 0);
        }
        let recall_at_10 = 1.0 - lost / rows.max(1) as f64;
        AnnStatus {
            mode,
            is_approximate,
            rows,
            indexed_rows,
            recall_at_10,
            neighbours_measured: measured_over,
        }
    }
}
