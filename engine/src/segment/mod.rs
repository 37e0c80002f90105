//! A segment: a run of committed rows as columns (`format-spec/segment.md`).
//!
//! Three types for three lives: [`SegmentBuilder`] grows and cannot be searched, [`Segment`] is
//! sealed and cannot change, and the views of [`column`] read it where it lies.

mod adjacency;
mod codes;
mod column;
mod file;
mod header;
mod lookup;
mod rows;
mod sealed;
mod sink;
mod tables;
#[cfg(test)]
mod tests;
mod v1;
mod writer;

pub(crate) use adjacency::nodes_of;
pub(crate) use column::View;
pub(crate) use file::{Ends, FileWriter};
pub(crate) use header::Header;
pub use rows::{EdgeView, ItemView, SourceView, TombstoneView};
pub(crate) use sealed::Segment;
#[cfg_attr(not(test), expect(unused_imports, reason = "for a writer that merges to disk"))]
pub(crate) use sink::FileSink;
pub(crate) use sink::Sink;
pub(crate) use v1::open_any;
pub(crate) use writer::SegmentBuilder;
