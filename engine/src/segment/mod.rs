//! A segment: a run of committed rows as columns (`format-spec/segment.md`).
//!
//! Three types for three lives: [`SegmentBuilder`] grows and cannot be searched, [`Segment`] is
//! sealed and cannot change, and the views of [`column`] read it where it lies.

mod codes;
mod column;
mod rows;
mod sealed;
mod tables;
mod writer;

pub(crate) use column::View;
pub use rows::{EdgeView, ItemView, SourceView, TombstoneView};
pub(crate) use sealed::Segment;
pub(crate) use writer::SegmentBuilder;
