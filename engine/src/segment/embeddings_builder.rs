//! Builder of the embedding columns: halves, their 8-bit copy, lengths and item rows.
//!
//! Owns the layout of a row in each column (`format-spec/embeddings.md`).

use half::f16;

use super::column_builders::row_number;
use super::file_writer::SegmentFileWriter;
use super::scalar_quantization::quantize;
use crate::error::DiskError;
use crate::ids::Row;
use crate::layout::*;

/// Embeddings of one width. Row `i` of every column belongs to the same embedding.
#[derive(Debug, Default)]
pub(crate) struct EmbeddingsBuilder {
    halves: Vec<f16>,
    norm: Vec<f32>,
    item: Vec<Row>,
    codes: Vec<i8>,
    scale: Vec<f32>,
    error: Vec<f32>,
}

impl EmbeddingsBuilder {
    /// Adds the embedding of an item row and returns the row of the embedding. All embeddings must have the same width.
    pub(crate) fn push(&mut self, item: Row, embedding: &[f16]) -> Row {
        let dimensions = row_number(embedding.len());
        let (halves, codes) = (self.halves.len(), self.codes.len());
        self.halves.extend_from_slice(embedding);
        self.halves.resize(halves + halves_per_row(dimensions), f16::ZERO);
        self.codes.resize(codes + codes_per_row(dimensions), 0);
        let (scale, error) = quantize(embedding, &mut self.codes[codes..]);
        self.scale.push(scale);
        self.error.push(error);
        self.norm.push(norm(embedding));
        self.item.push(item);
        self.count() - 1
    }

    /// Number of embeddings.
    pub(crate) fn count(&self) -> Row {
        row_number(self.item.len())
    }

    /// Size of the columns that grow with the width, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.halves.len() * size_of::<f16>() + self.codes.len()
    }

    /// Writes the columns in ascending order of their numbers.
    pub(crate) fn write(&self, file: &mut SegmentFileWriter<'_>) -> Result<(), DiskError> {
        file.column(VECTOR_HALVES, &self.halves)?;
        file.column(VECTOR_NORM, &self.norm)?;
        file.column(VECTOR_ITEM, &self.item)?;
        file.column(VECTOR_CODES, &self.codes)?;
        file.column(VECTOR_SCALE, &self.scale)?;
        file.column(VECTOR_ERROR, &self.error)
    }
}

/// Euclidean length, summed in `f64` so that the stored `f32` is the nearest value.
fn norm(halves: &[f16]) -> f32 {
    let squares: f64 = halves.iter().map(|half| f64::from(half.to_f32()).powi(2)).sum();
    #[expect(clippy::cast_possible_truncation, reason = "the nearest f32 is what is stored")]
    {
        squares.sqrt() as f32
    }
}
