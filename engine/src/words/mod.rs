//! Full-text search: texts to terms, terms to postings, postings to ranked rows.
//!
//! Owns the meaning of the five word columns of a segment (format-spec/words.md). Independent of files, segments and
//! snapshots: columns are plain bytes, and rows are plain numbers.

mod analyze;
mod block;
mod bm25;
mod bytes;
mod columns;
mod conjunction;
mod dictionary;
mod dictionary_writer;
#[cfg(test)]
mod fixtures;
mod fold;
mod forward;
mod given;
mod layout;
mod list_cursor;
mod listed;
mod merge;
mod node;
mod pack;
mod phrase;
mod posting;
mod postings;
mod query;
mod search;
mod stem;
mod terms;
mod verify;
mod view;
mod without;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_bytes;

pub use analyze::{Analyzer, Emit, Kind};
pub use bm25::{Found, Parameters, Ranker, Score, Stats};
pub use bytes::Bytes;
pub use given::{Given, Match};
pub use layout::{
    ROW_TERMS_MAX, SEGMENT_POSTINGS_MAX, TERM_BYTES_MAX, WordColumns, WordColumnsRef,
};
pub use merge::{MergeError, merge};
pub(crate) use merge::{merge_on_heap, merge_while};
pub use phrase::{PHRASE_WORDS_MAX, PHRASES_MAX, Phrases, Reading};
pub use posting::Posting;
pub use postings::{Full, PostingsBuilder};
pub(crate) use query::is_function_word;
pub use query::{QUERY_TERMS_MAX, Query, QueryTerm};
pub use search::Scratch;
pub use verify::rebuild;
pub use view::{PostingsView, TermPostings};
pub use without::{Kept, RowSet, Without};

limit_table::limits! {
    pub(crate) const LIMITS = [analyze, layout, phrase, query, without];
}
