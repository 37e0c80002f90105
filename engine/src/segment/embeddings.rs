//! The embeddings of one segment, side by side: halves, codes, lengths, owners.
//!
//! Owns which columns these are and how wide a row lies in each. Must not know queries or ranking.

use half::f16;

use super::column::View;
use super::sealed::Segment;
use crate::error::Damage;
use crate::ids::Row;
use crate::layout::{
    ITEM_EMBEDDING, VECTOR_CODES, VECTOR_ERROR, VECTOR_HALVES, VECTOR_ITEM, VECTOR_NORM,
    VECTOR_SCALE, row_codes, row_halves,
};

/// One segment's embeddings. Row `i` of each slice speaks of the same embedding.
#[derive(Clone, Copy)]
pub(crate) struct Embeddings<'seg> {
    /// Halves that a row takes; those past the segment's dimensions are zero.
    pub(crate) row_halves: usize,
    /// A view, so that a page that no row is read from is not checked either (SEG-06).
    pub(crate) halves: View<'seg, f16>,
    /// Euclidean lengths.
    pub(crate) norms: &'seg [f32],
    /// The item rows they belong to.
    pub(crate) items: &'seg [Row],
    /// The 8-bit copy.
    pub(crate) coded: Coded<'seg>,
}

/// The 8-bit copy of embeddings (`format-spec/embeddings.md`).
#[derive(Clone, Copy)]
pub(crate) struct Coded<'seg> {
    /// Codes that a row takes; those past the segment's dimensions are zero.
    pub(crate) row_codes: usize,
    pub(crate) codes: &'seg [i8],
    pub(crate) scales: &'seg [f32],
    pub(crate) errors: &'seg [f32],
}

impl Segment {
    /// The embeddings. Checks the columns that every scan reads whole, not the halves.
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

    /// Where the embedding of an item lies among these, which are the segment's; `None` where it has none.
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
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// The halves of rows `from..to`, as they lie.
    pub(crate) fn halves(&self, from: usize, to: usize) -> Result<&'seg [f16], Damage> {
        self.halves.range(from * self.row_halves, to * self.row_halves)
    }
}
