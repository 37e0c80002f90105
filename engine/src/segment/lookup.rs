//! Look-ups by key in a sealed segment: ids, refs, sources, uris, symbols.
//!
//! Owns the search through sorted columns (SEG-13). An id that no row of the segment can have is
//! known from the smallest and largest one, without a look at a page.

use std::sync::OnceLock;

use super::column::{View, partition_point};
use super::sealed::Segment;
use crate::error::Damage;
use crate::ids::{EdgeId, ItemId, Row, SourceId};
use crate::layout::*;

/// A column of ids with its index, which has no cells where the ids ascend by row.
struct ById<'seg> {
    ids: View<'seg, u128>,
    order: View<'seg, u32>,
}

impl ById<'_> {
    /// The row whose id is the `at`th.
    fn row(&self, at: usize) -> Result<usize, Damage> {
        if self.order.len() == 0 { Ok(at) } else { self.order.get(at).map(|row| row as usize) }
    }

    fn id(&self, at: usize) -> Result<u128, Damage> {
        self.ids.get(self.row(at)?)
    }

    /// Smallest and largest, if there is any.
    fn range(&self, known: &OnceLock<(u128, u128)>) -> Result<Option<(u128, u128)>, Damage> {
        if let Some(range) = known.get() {
            return Ok(Some(*range));
        }
        let Some(last) = self.ids.len().checked_sub(1) else { return Ok(None) };
        let range = (self.id(0)?, self.id(last)?);
        Ok(Some(*known.get_or_init(|| range)))
    }

    /// The place of the first row with this id, or where it would be.
    fn place(&self, id: u128) -> Result<usize, Damage> {
        partition_point(self.ids.len(), |at| Ok(self.id(at)? < id))
    }

    /// The row of the `at`th id, if that is `id`.
    fn row_at(&self, at: usize, id: u128) -> Result<Option<Row>, Damage> {
        if at == self.ids.len() || self.id(at)? != id {
            return Ok(None);
        }
        self.row(at).map(|row| Some(Row::try_from(row).expect("rows are 32 bit")))
    }
}

/// The rows in `order`, which lists rows by ascending key, that have exactly `key`.
fn rows_with_key<'seg, K: Ord>(
    order: View<'seg, u32>,
    key: &K,
    key_of: impl Fn(usize) -> Result<K, Damage>,
) -> Result<&'seg [Row], Damage> {
    let at = |at: usize| key_of(order.get(at)? as usize);
    let from = partition_point(order.len(), |place| Ok(at(place)? < *key))?;
    let to = partition_point(order.len(), |place| Ok(at(place)? <= *key))?;
    if to < from || from < to && (at(from)? != *key || at(to - 1)? != *key) {
        return Err(order.wrong("SEG-13", "it is not sorted"));
    }
    order.range(from, to)
}

impl Segment {
    /// A column of ids, unless none of them can be `id`.
    fn by_id(
        &self,
        ids: Column,
        order: Column,
        known: &OnceLock<(u128, u128)>,
        id: u128,
    ) -> Result<Option<ById<'_>>, Damage> {
        let is_outside = |(least, most): (u128, u128)| !(least..=most).contains(&id);
        if known.get().is_some_and(|range| is_outside(*range)) {
            return Ok(None);
        }
        let by_id = ById { ids: self.view(ids)?, order: self.view(order)? };
        let is_there = by_id.range(known)?.is_some_and(|range| !is_outside(range));
        Ok(is_there.then_some(by_id))
    }

    fn row_of_id(
        &self,
        ids: Column,
        order: Column,
        known: &OnceLock<(u128, u128)>,
        id: u128,
    ) -> Result<Option<Row>, Damage> {
        match self.by_id(ids, order, known, id)? {
            Some(by_id) => by_id.row_at(by_id.place(id)?, id),
            None => Ok(None),
        }
    }

    /// All rows with an id: more than one only in a damaged file.
    fn rows_of_id(
        &self,
        ids: Column,
        order: Column,
        known: &OnceLock<(u128, u128)>,
        id: u128,
    ) -> Result<Vec<Row>, Damage> {
        let mut rows = Vec::new();
        if let Some(by_id) = self.by_id(ids, order, known, id)? {
            let from = by_id.place(id)?;
            while let Some(row) = by_id.row_at(from + rows.len(), id)? {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// The row of an item.
    pub(crate) fn row_of_item(&self, id: ItemId) -> Result<Option<Row>, Damage> {
        self.row_of_id(ITEM_ID, ITEM_BY_ID, &self.item_ids, id.0)
    }

    /// The row of a source.
    pub(crate) fn row_of_source(&self, id: SourceId) -> Result<Option<Row>, Damage> {
        self.row_of_id(SOURCE_ID, SOURCE_BY_ID, &self.source_ids, id.0)
    }

    /// The row of an edge.
    pub(crate) fn row_of_edge(&self, id: EdgeId) -> Result<Option<Row>, Damage> {
        self.row_of_id(EDGE_ID, EDGE_BY_ID, &self.edge_ids, id.0)
    }

    /// All rows of items with an id.
    pub(crate) fn item_rows(&self, id: u128) -> Result<Vec<Row>, Damage> {
        self.rows_of_id(ITEM_ID, ITEM_BY_ID, &self.item_ids, id)
    }

    /// All rows of sources with an id.
    pub(crate) fn source_rows(&self, id: u128) -> Result<Vec<Row>, Damage> {
        self.rows_of_id(SOURCE_ID, SOURCE_BY_ID, &self.source_ids, id)
    }

    /// All rows of edges with an id.
    pub(crate) fn edge_rows(&self, id: u128) -> Result<Vec<Row>, Damage> {
        self.rows_of_id(EDGE_ID, EDGE_BY_ID, &self.edge_ids, id)
    }

    fn rows_by_number(&self, order: Column, keys: Column, key: u128) -> Result<&[Row], Damage> {
        let keys = self.view::<u128>(keys)?;
        rows_with_key(self.view(order)?, &key, |row| keys.get(row))
    }

    fn rows_by_text(
        &self,
        order: Column,
        offsets: Column,
        bytes: Column,
        key: &str,
    ) -> Result<&[Row], Damage> {
        let texts = self.pieces::<u64, u8>(offsets, bytes)?;
        rows_with_key(self.view(order)?, &key.as_bytes(), |row| texts.get(row))
    }

    /// Rows of items with this ref, oldest first.
    pub(crate) fn rows_of_ref(&self, reference: &str) -> Result<&[Row], Damage> {
        self.rows_by_text(ITEM_BY_REF, REF_OFFSETS, REF_BYTES, reference)
    }

    /// Rows of items of a source, in order.
    pub(crate) fn rows_of_source(&self, id: SourceId) -> Result<&[Row], Damage> {
        self.rows_by_number(ITEM_BY_SOURCE, ITEM_SOURCE, id.0)
    }

    /// Rows of sources with this uri, oldest first.
    pub(crate) fn source_rows_of_uri(&self, uri: &str) -> Result<&[Row], Damage> {
        self.rows_by_text(SOURCE_BY_URI, SOURCE_URI_OFFSETS, SOURCE_URI_BYTES, uri)
    }

    /// Rows of tombstones for an id.
    pub(crate) fn tombstone_rows(&self, target: u128) -> Result<&[Row], Damage> {
        self.rows_by_number(TOMBSTONE_BY_TARGET, TOMBSTONE_TARGET, target)
    }

    /// Rows of items that replace `id`.
    pub(crate) fn successor_rows(&self, id: ItemId) -> Result<&[Row], Damage> {
        self.rows_replacing(SUCCESSOR_TARGET, SUCCESSOR_ROW, id)
    }

    /// Rows of tombstones whose target, which is erased, replaced `id`.
    pub(crate) fn erased_successor_rows(&self, id: ItemId) -> Result<&[Row], Damage> {
        self.rows_replacing(TOMBSTONE_SUCCESSOR_TARGET, TOMBSTONE_SUCCESSOR_ROW, id)
    }

    fn rows_replacing(&self, targets: Column, rows: Column, id: ItemId) -> Result<&[Row], Damage> {
        let targets = self.view::<u128>(targets)?;
        let from = targets.lower_bound(|target| *target < id.0)?;
        let to = targets.lower_bound(|target| *target <= id.0)?;
        let is_of_id = |at: usize| Ok::<_, Damage>(targets.get(at)? == id.0);
        if to < from || from < to && !(is_of_id(from)? && is_of_id(to - 1)?) {
            return Err(targets.wrong("SEG-13", "it is not sorted"));
        }
        self.view(rows)?.range(from, to)
    }

    /// The code of a symbol; `None` when nothing in the segment uses the name.
    pub(crate) fn symbol_code(&self, name: &str) -> Result<Option<u32>, Damage> {
        let symbols = self.header().symbols;
        let texts = self.pieces::<u64, u8>(SYMBOL_OFFSETS, SYMBOL_BYTES)?;
        let at = partition_point(symbols as usize, |at| Ok(texts.get(at)? < name.as_bytes()))?;
        let code = u32::try_from(at).expect("at most `symbols`");
        let found = code < symbols && texts.get(at)? == name.as_bytes();
        Ok(found.then_some(code))
    }
}
