//! Words: text to terms, terms to postings, postings to ranked rows.
//!
//! Owns the meaning of the five word columns of a segment (format-spec/words.md). Knows nothing of
//! files, segments or snapshots: columns come in and go out as plain bytes, rows are plain numbers.

mod analyze;
mod bm25;
mod columns;
mod dictionary;
mod fold;
mod layout;
mod merge;
mod pack;
mod postings;
mod query;
mod search;
mod stem;
mod top;
mod verify;
mod view;

#[cfg(test)]
mod tests;

pub use analyze::{Analyzer, Emit, Kind};
pub use bm25::{Parameters, Ranker, Score, Stats};
pub use layout::{
    ROW_TERMS_MAX, SEGMENT_POSTINGS_MAX, TERM_BYTES_MAX, WordColumns, WordColumnsRef,
};
pub use merge::{MergeError, merge};
pub use postings::{Full, Posting, PostingsBuilder};
pub use query::{QUERY_TERMS_MAX, Query, QueryTerm};
pub use search::{Match, Scratch};
pub use top::Top;
pub use view::{PostingsView, TermPostings};

/// Bytes break a rule of the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The rule's id in format-spec, e.g. `WRD-21`.
    pub rule: &'static str,
    /// What was found.
    pub detail: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: {}", self.rule, self.detail)
    }
}

impl std::error::Error for Damage {}

/// Shorthand for the checks of this room.
pub(super) fn damage(rule: &'static str, detail: impl Into<String>) -> Damage {
    Damage { rule, detail: detail.into() }
}
