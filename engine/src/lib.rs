//! A columnar, memory-mapped store of memory items: words, vectors, edges, supersession, tombstones.

pub mod ledger;
/// Text to terms to ranked rows.
pub mod words;
