//! Full-text search: texts to terms, terms to postings, postings to ranked rows.
//!
//! Owns the meaning of the five word columns of a segment (format-spec/words.md). Independent of files, segments and
//! snapshots: columns are plain bytes, and rows are plain numbers.

mod analyzer;
mod bit_packing;
mod bm25;
mod char_folding;
mod column_bytes;
mod columns_writer;
mod conjunction;
mod excluded_row_stats;
#[cfg(test)]
mod fixtures;
mod fst_dictionary;
mod fst_node;
mod fst_writer;
mod heap_dictionary;
mod layout;
mod max_score;
mod phrase;
mod posting;
mod postings_block;
mod postings_builder;
mod postings_cursor;
mod postings_merge;
mod postings_reader;
mod query_terms;
mod row_scorer;
mod stemmer;
mod term_scorer;
mod term_table;
mod verify;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_bytes;

pub use analyzer::{Analyzer, TermKind, Token};
pub use bm25::{Bm25Parameters, Bm25Weight, CollectionStats, Score, SegmentTerms};
pub use column_bytes::ColumnBytes;
pub use excluded_row_stats::{ExcludedRows, FrequencyCache, RowSet};
pub use layout::{
    FulltextColumns, FulltextColumnsRef, ROW_TERMS_MAX, SEGMENT_POSTINGS_MAX, TERM_BYTES_MAX,
};
pub use max_score::SearchScratch;
pub use phrase::{PHRASE_WORDS_MAX, PHRASES_MAX, PhraseScratch, Phrases};
pub use posting::Posting;
pub use postings_builder::{PostingsBuilder, SegmentFullError};
pub use postings_merge::{PostingsMergeError, merge};
pub(crate) use postings_merge::{merge_on_heap, merge_while};
pub use postings_reader::{PostingsReader, TermPostings};
pub(crate) use query_terms::is_stop_word;
pub use query_terms::{QUERY_TERMS_MAX, Query, QueryTerm};
pub use row_scorer::{RowScorer, TermMatch};
pub use verify::rebuild;

limit_table::limits! {
    pub(crate) const LIMITS = [analyzer, layout, phrase, query_terms, excluded_row_stats];
}
