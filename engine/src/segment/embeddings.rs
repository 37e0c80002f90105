//! Embedding columns of one segment: halves, codes, lengths and item rows.
//!
//! Owns the choice of columns and the width of a row in each. Queries and ranking are left to other modules.

use half::f16;

use super::column::ColumnView;
use super::reader::Segment;
use crate::error::CorruptionError;
use crate::ids::Row;
use crate::layout::{
    ITEM_EMBEDDING, VECTOR_CODES, VECTOR_ERROR, VECTOR_HALVES, VECTOR_ITEM, VECTOR_NORM,
    VECTOR_SCALE, codes_per_row, halves_per_row,
};

/// Embeddings of one segment. Row `i` of every slice belongs to the same embedding.
#[derive(Clone, Copy)]
pub(crate) struct EmbeddingColumns<'seg> {
    /// Halves per row; those past the segment's dimensions are zero.
    pub(crate) halves_per_row: usize,
    /// A view, so that pages without a used row are not verified (SEG-06).
    pub(crate) halves: ColumnView<'seg, f16>,
    /// Euclidean length of each embedding.
    pub(crate) norms: &'seg [f32],
    /// Item row of each embedding.
    pub(crate) items: &'seg [Row],
    pub(crate) coded: Int8Embeddings<'seg>,
}

/// 8-bit copy of the embeddings (`format-spec/embeddings.md`).
#[derive(Clone, Copy)]
pub(crate) struct Int8Embeddings<'seg> {
    /// Codes per row; those past the segment's dimensions are zero.
    pub(crate) codes_per_row: usize,
    pub(crate) codes: &'seg [i8],
    pub(crate) scales: &'seg [f32],
    pub(crate) errors: &'seg [f32],
}

impl Segment {
    /// Returns the embeddings. Verifies the columns that every scan reads completely, but not the halves.
    pub(crate) fn embeddings(&self) -> Result<EmbeddingColumns<'_>, CorruptionError> {
        let dimensions = self.header().dimensions;
        Ok(EmbeddingColumns {
            halves_per_row: halves_per_row(dimensions),
            halves: self.column(VECTOR_HALVES)?,
            norms: self.column(VECTOR_NORM)?.all()?,
            items: self.column(VECTOR_ITEM)?.all()?,
            coded: Int8Embeddings {
                codes_per_row: codes_per_row(dimensions),
                codes: self.column(VECTOR_CODES)?.all()?,
                scales: self.column(VECTOR_SCALE)?.all()?,
                errors: self.column(VECTOR_ERROR)?.all()?,
            },
        })
    }

    /// Returns the index of an item's embedding in `embeddings`, which must be those of this segment; `None` if the
    /// item has no embedding.
    pub(crate) fn vector_of_item(
        &self,
        row: Row,
        embeddings: &EmbeddingColumns<'_>,
    ) -> Result<Option<usize>, CorruptionError> {
        let Some(vector) = self.embedding_row(row)? else { return Ok(None) };
        if embeddings.items.get(vector as usize) != Some(&row) {
            let detail = format!("row {row}: vector {vector} is not its own");
            return Err(self.damage("SEG-12", ITEM_EMBEDDING, detail));
        }
        Ok(Some(vector as usize))
    }
}

impl<'seg> EmbeddingColumns<'seg> {
    /// Number of embeddings.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the halves of rows `from..to`, with their padding.
    pub(crate) fn halves(&self, from: usize, to: usize) -> Result<&'seg [f16], CorruptionError> {
        self.halves.range(from * self.halves_per_row, to * self.halves_per_row)
    }
}
