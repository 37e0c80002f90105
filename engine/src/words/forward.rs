//! Cursor over a postings list, for row lookups.
//!
//! Owns the decoded block of the list: lookups in ascending order of row decode each candidate block once.

use super::block::Decoded;
use super::bytes::Bytes;
use super::posting::Posting;
use super::view::{List, PostingsView};
use crate::error::Damage;

/// Postings list with the most recently decoded block.
pub(super) struct Forward {
    pub(super) list: List,
    block: Option<usize>,
    decoded: Box<Decoded>,
}

impl Forward {
    pub(super) fn of(list: List) -> Self {
        Self { list, block: None, decoded: Box::default() }
    }

    /// Returns true if the list contains `row`.
    pub(super) fn has<B: Bytes>(
        &mut self,
        view: &PostingsView<B>,
        row: u32,
    ) -> Result<bool, Damage> {
        Ok(self.find(view, row)?.is_some())
    }

    /// Returns the posting of `row`; `None` if the list does not contain the row.
    pub(super) fn posting<B: Bytes>(
        &mut self,
        view: &PostingsView<B>,
        row: u32,
    ) -> Result<Option<Posting>, Damage> {
        let at = self.find(view, row)?;
        at.map(|at| view.decoded_posting(&self.decoded, at)).transpose()
    }

    /// Decodes the block that may contain `row` and returns the index of the row in the block.
    fn find<B: Bytes>(
        &mut self,
        view: &PostingsView<B>,
        row: u32,
    ) -> Result<Option<usize>, Damage> {
        let Some(block) = view.block_of(&self.list, row)? else { return Ok(None) };
        if self.block != Some(block) {
            self.block = None;
            view.decode(&self.list, block, false, &mut self.decoded)?;
            self.block = Some(block);
        }
        Ok(self.decoded.find(row))
    }
}
