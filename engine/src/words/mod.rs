//! Words: text to terms, postings, BM25.
