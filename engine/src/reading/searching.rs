//! Whether a search by meaning goes through indexes, and what is told of that (`format-spec/index.md`, Modes).
//!
//! Owns the decision. Must not know how an index is searched (`score/probe.rs`) or made.

use crate::limits::{APPROXIMATE_ROWS_MIN, INDEX_ROWS_MIN, UNINDEXED_SHARE_MAX};
use crate::reading::snapshot::Snapshot;

/// How a store is searched by meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchMode {
    /// Exactly while that is quick, and through indexes once a store is large and they have caught up.
    #[default]
    Auto,
    /// Exactly. No index is made.
    Exact,
    /// Through each index that there is.
    Approximate,
}

impl SearchMode {
    /// Its name on the command line and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Exact => "exact",
            Self::Approximate => "approximate",
        }
    }
}

/// How a store is searched by meaning, and from which sizes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Searching {
    /// Whether through indexes.
    pub mode: SearchMode,
    /// Embeddings of a store from which on [`SearchMode::Auto`] uses and makes indexes.
    pub approximate_rows_min: u64,
    /// Embeddings of a segment from which on it gets an index.
    pub index_rows_min: u32,
}

impl Default for Searching {
    fn default() -> Self {
        Self {
            mode: SearchMode::default(),
            approximate_rows_min: APPROXIMATE_ROWS_MIN,
            index_rows_min: INDEX_ROWS_MIN,
        }
    }
}

impl Searching {
    /// Whether a store of so many embeddings is to have indexes.
    pub(crate) fn wants_indexes(&self, vectors: u64) -> bool {
        match self.mode {
            SearchMode::Exact => false,
            SearchMode::Approximate => true,
            SearchMode::Auto => vectors >= self.approximate_rows_min,
        }
    }
}

/// How a snapshot is searched by meaning.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchState {
    /// What was chosen.
    pub mode: SearchMode,
    /// Whether an index is used. One that was measured to gain nothing is not.
    pub is_approximate: bool,
    /// Embeddings.
    pub rows: u64,
    /// Of these, embeddings in an index.
    pub indexed_rows: u64,
    /// The share of the ten nearest that is found; 1 where the search is exact.
    pub recall_at_10: f64,
    /// Neighbours that this was measured with; 0 where the search is exact.
    pub measured_over: u64,
}

impl Snapshot {
    /// The same, searched by meaning in this way.
    #[must_use]
    pub fn searched(self, mode: SearchMode) -> Self {
        Self { searching: Searching { mode, ..self.searching }, ..self }
    }

    /// How it is searched by meaning.
    pub fn search_state(&self) -> SearchState {
        let (mut rows, mut indexed_rows, mut measured_over) = (0, 0, 0);
        let (mut lost, mut gains) = (0.0, false);
        for part in self.parts.iter() {
            let vectors = u64::from(part.segment.header().vectors);
            rows += vectors;
            if let Some(lists) = part.segment.index() {
                indexed_rows += vectors;
                if lists.serves() {
                    gains = true;
                    let (recall, over) = lists.recall();
                    measured_over += u64::from(over);
                    lost += (1.0 - recall) * vectors as f64;
                }
            }
        }
        let mode = self.searching.mode;
        let has_caught_up = rows - indexed_rows <= rows / UNINDEXED_SHARE_MAX;
        let is_approximate = match mode {
            SearchMode::Exact => false,
            SearchMode::Approximate => gains,
            SearchMode::Auto => gains && self.searching.wants_indexes(rows) && has_caught_up,
        };
        if !is_approximate {
            (lost, measured_over) = (0.0, 0);
        }
        let recall_at_10 = 1.0 - lost / rows.max(1) as f64;
        SearchState { mode, is_approximate, rows, indexed_rows, recall_at_10, measured_over }
    }
}
