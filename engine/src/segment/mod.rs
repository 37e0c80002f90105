//! A segment: a run of committed rows as columns (`format-spec/segment.md`).
//!
//! Three types for three lives: [`SegmentBuilder`] grows and cannot be searched, [`Segment`] is
//! sealed and cannot change, and the views of [`column`] read it where it lies.

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
