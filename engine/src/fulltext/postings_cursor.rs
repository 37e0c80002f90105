//! Cursor over a postings list, for row lookups.
//!
//! Owns the decoded block of the list: lookups in ascending order of row decode each candidate block once.

use super::column_bytes::ColumnBytes;
use super::posting::Posting;
use super::postings_block::DecodedBlock;
use super::postings_reader::{PostingsList, PostingsReader};
use crate::error::CorruptionError;

/// Postings list with the most recently decoded block.
pub(super) struct PostingsCursor {
    pub(super) list: PostingsList,
    block: Option<usize>,
    decoded: Box<DecodedBlock>,
}

impl PostingsCursor {
    pub(super) fn new(list: PostingsList) -> Self {
        Self { list, block: None, decoded: Box::default() }
    }

    /// Returns true if the list contains `row`.
    pub(super) fn has<B: ColumnBytes>(
        &mut self,
        view: &PostingsReader<B>,
        row: u32,
    ) -> Result<bool, CorruptionError> {
        Ok(self.find(view, row)?.is_some())
    }

    /// Returns the posting of `row`; `None` if the list does not contain the row.
    pub(super) fn posting<B: ColumnBytes>(
        &mut self,
        view: &PostingsReader<B>,
        row: u32,
    ) -> Result<Option<Posting>, CorruptionError> {
        let at = self.find(view, row)?;
        at.map(|at| view.decoded_posting(&self.decoded, at)).transpose()
    }

    /// Decodes the block that may contain `row` and returns the index of the row in the block.
    fn find<B: ColumnBytes>(
        &mut self,
        view: &PostingsReader<B>,
        row: u32,
    ) -> Result<Option<usize>, CorruptionError> {
        let Some(block) = view.block_containing(&self.list, row)? else { return Ok(None) };
        if self.block != Some(block) {
            self.block = None;
            view.decode(&self.list, block, false, &mut self.decoded)?;
            self.block = Some(block);
        }
        Ok(self.decoded.find(row))
    }
}
