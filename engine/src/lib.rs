//! A columnar, memory-mapped store of memory items: words, vectors, edges, supersession, tombstones.

/// The hash-chained audit log.
pub mod ledger;
/// Text to terms to ranked rows.
pub mod words;
