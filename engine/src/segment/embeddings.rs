//! Embedding columns of one segment: halves, codes, lengths and item rows.
//!
//! Owns the choice of columns and the width of a row in each. Queries and ranking are left to other modules.

use half::f16;

use super::column::View;
use super::sealed::Segment;
use crate::error::Damage;
use crate::ids::Row;
use crate::layout::{
    ITEM_EMBEDDING, VECTOR_CODES, VECTOR_ERROR, VECTOR_HALVES, VECTOR_ITEM, VECTOR_NORM,
    VECTOR_SCALE, row_codes, row_halves,
};

/// Embeddings of one segment. Row `i` of every slice belongs to the same embedding.
#[derive(Clone, Copy)]
pub(crate) struct Embeddings<'seg> {
    /// Halves per row; those past the segment's dimensions are zero.
    pub(crate) row_halves: usize,
    /// A view, so that pages without a used row are not verified (SEG-06).
    pub(crate) halves: View<'seg, f16>,
    /// Euclidean length of each embedding.
    pub(crate) norms: &'seg [f32],
    /// Item row of each embedding.
    pub(crate) items: &'seg [Row],
    pub(crate) coded: Coded<'seg>,
}

/// 8-bit copy of the embeddings (`format-spec/embeddings.md`).
#[derive(Clone, Copy)]
pub(crate) struct Coded<'seg> {
    /// Codes per row; those past the segment's dimensions are zero.
    pub(crate) row_codes: usize,
    pub(crate) codes: &'seg [i8],
    pub(crate) scales: &'seg [f32],
    pub(crate) errors: &'seg [f32],
}

impl Segment {
    /// Returns the embeddings. Verifies the columns that every scan reads completely, but not the halves.
    pub(crate) fn embeddings(&self) -> Result<Embeddings<'_>, Damage> {
        let dimensions = self.header().dimensions;
        Ok(Embeddings {
            row_halves: row_halves(dimensions),
            halves: self.view(VECTOR_HALVES)?,
            norms: self.view(VECTOR_NORM)?.all()?,
            items: self.view(VECTOR_ITEM)?.all()?,
            coded: Coded {
                row_codes: row_codes(dimensions),
                codes: self.view(VECTOR_CODES)?.all()?,
                scales: self.view(VECTOR_SCALE)?.all()?,
                errors: self.view(VECTOR_ERROR)?.all()?,
            },
        })
    }

    /// Returns the index of an item's embedding in `embeddings`, which must be those of this segment; `None` if the
    /// item has no embedding.
    pub(crate) fn own_vector(
        &self,
        row: Row,
        embeddings: &Embeddings<'_>,
    ) -> Result<Option<usize>, Damage> {
        let Some(vector) = self.embedding_of(row)? else { return Ok(None) };
        if embeddings.items.get(vector as usize) != Some(&row) {
            let detail = format!("row {row}: vector {vector} is not its own");
            return Err(self.wrong("SEG-12", ITEM_EMBEDDING, detail));
        }
        Ok(Some(vector as usize))
    }
}

impl<'seg> Embeddings<'seg> {
    /// Number of embeddings.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the halves of rows `from..to`, with their padding.
    pub(crate) fn halves(&self, from: usize, to: usize) -> Result<&'seg [f16], Damage> {
        self.halves.range(from * self.row_halves, to * self.row_halves)
    }
}
