//! A segment: a run of committed rows as columns (`format-spec/segment.md`).
//!
//! Three types for three lives: [`SegmentBuilder`] grows and cannot be searched, [`Segment`] is
//! sealed and cannot change, and the views of [`column`] read it where it lies.

#[cfg_attr(
    not(test),
    expect(dead_code, reason = "the writer calls it once there are columns for codes")
)]
mod codes;
mod column;
mod embeddings;
mod rows;
mod sealed;
mod tables;
mod writer;

#[cfg(test)]
pub(crate) use codes::quantise;
pub(crate) use column::View;
pub(crate) use embeddings::{Coded, Embeddings};
pub use rows::{EdgeView, ItemView, SourceView, TombstoneView};
pub(crate) use sealed::{Header, Segment};
pub(crate) use writer::SegmentBuilder;
