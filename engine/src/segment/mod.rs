//! Segments: immutable files of committed rows in columns (`format-spec/segment.md`).
//!
//! Each stage has its type: a [`SegmentBuilder`] grows and cannot be searched, a [`Segment`] is immutable, and the
//! views of [`mod@column`] read it in place.

mod adjacency;
mod column;
mod column_builders;
mod embeddings;
mod embeddings_builder;
mod file_writer;
mod header;
pub(crate) mod lazy_open;
mod lookup;
mod raw;
mod reader;
mod row_views;
mod salvage;
mod scalar_quantization;
mod sink;
#[cfg(test)]
mod tests;
mod v1;
mod writer;

pub(crate) use adjacency::{EdgeRows, PackedAdjacency, sorted_nodes};
pub(crate) use column::ColumnView;
pub(crate) use embeddings::{EmbeddingColumns, Int8Embeddings};
pub(crate) use embeddings_builder::EmbeddingsBuilder;
pub(crate) use file_writer::{EdgeEndpoints, SegmentFileWriter};
pub(crate) use header::SegmentHeader;
pub(crate) use raw::{ColumnExtent, RawFile};
pub(crate) use reader::Segment;
pub use row_views::{EdgeView, ItemView, SourceView, TombstoneView};
pub(crate) use salvage::{SalvagedSegment, open_damaged};
pub(crate) use scalar_quantization::quantize;
pub(crate) use sink::{FileSink, Sink};
pub(crate) use v1::{OpenedSegment, open_any};
pub(crate) use writer::{SegmentBuilder, UncommittedRows};
