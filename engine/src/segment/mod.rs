//! Segments: immutable files of committed rows in columns (`format-spec/segment.md`).
//!
//! Each stage has its type: a [`SegmentBuilder`] grows and cannot be searched, a [`Segment`] is immutable, and the
//! views of [`column`] read it in place.

mod adjacency;
mod codes;
mod column;
mod embeddings;
mod file;
pub(crate) mod filling;
mod header;
mod lookup;
mod raw;
mod rescue;
mod rows;
mod sealed;
mod sink;
mod tables;
#[cfg(test)]
mod tests;
mod v1;
mod vectors;
mod writer;

pub(crate) use adjacency::{EdgeRows, Packed, nodes_of};
pub(crate) use codes::quantise;
pub(crate) use column::View;
pub(crate) use embeddings::{Coded, Embeddings};
pub(crate) use file::{Ends, FileWriter};
pub(crate) use header::Header;
pub(crate) use raw::{Extent, RawFile};
pub(crate) use rescue::{Rescued, rescue};
pub use rows::{EdgeView, ItemView, SourceView, TombstoneView};
pub(crate) use sealed::Segment;
pub(crate) use sink::{FileSink, Sink};
pub(crate) use v1::{Opened as OpenedSegment, open_any};
pub(crate) use vectors::Vectors;
pub(crate) use writer::{SegmentBuilder, Uncommitted};
