//! A list that is asked for one row after the other.
//!
//! Owns which block of it is unpacked: rows that are asked for in their order cost one unpacking for each block
//! that any of them may be in. Must not know what is asked for, nor why.

use super::block::Decoded;
use super::bytes::Bytes;
use super::posting::Posting;
use super::view::{List, PostingsView};
use crate::error::Damage;

/// One list, and the block of it that was looked at last.
pub(super) struct Forward {
    pub(super) list: List,
    block: Option<usize>,
    decoded: Box<Decoded>,
}

impl Forward {
    pub(super) fn of(list: List) -> Self {
        Self { list, block: None, decoded: Box::default() }
    }

    /// Whether the list has `row`.
    pub(super) fn has<B: Bytes>(
        &mut self,
        view: &PostingsView<B>,
        row: u32,
    ) -> Result<bool, Damage> {
        Ok(self.find(view, row)?.is_some())
    }

    /// The posting of `row`.
    pub(super) fn posting<B: Bytes>(
        &mut self,
        view: &PostingsView<B>,
        row: u32,
    ) -> Result<Option<Posting>, Damage> {
        let at = self.find(view, row)?;
        at.map(|at| view.decoded_posting(&self.decoded, at)).transpose()
    }

    /// Where `row` is in the block that is unpacked then.
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
