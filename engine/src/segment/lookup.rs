//! Lookups by key in a segment: ids, refs, sources, uris, symbols.
//!
//! Owns the search in sorted columns (SEG-13). An id outside the segment's range of ids is rejected without a read of a
//! page.

use std::sync::OnceLock;

use super::column::{ColumnView, partition_point};
use super::reader::Segment;
use crate::error::CorruptionError;
use crate::ids::{EdgeId, ItemId, Row, SourceId};
use crate::layout::*;

/// Column of ids with its permutation. If the ids ascend by row, the permutation is empty.
struct IdIndex<'seg> {
    ids: ColumnView<'seg, u128>,
    order: ColumnView<'seg, u32>,
}

impl IdIndex<'_> {
    /// Returns the row of the `at`-th smallest id.
    fn row_by_rank(&self, at: usize) -> Result<usize, CorruptionError> {
        if self.order.len() == 0 { Ok(at) } else { self.order.get(at).map(|row| row as usize) }
    }

    fn id_by_rank(&self, at: usize) -> Result<u128, CorruptionError> {
        self.ids.get(self.row_by_rank(at)?)
    }

    /// Returns the smallest and the largest id; `None` if there are no ids.
    fn id_range(
        &self,
        known: &OnceLock<(u128, u128)>,
    ) -> Result<Option<(u128, u128)>, CorruptionError> {
        if let Some(range) = known.get() {
            return Ok(Some(*range));
        }
        let Some(last) = self.ids.len().checked_sub(1) else { return Ok(None) };
        let range = (self.id_by_rank(0)?, self.id_by_rank(last)?);
        Ok(Some(*known.get_or_init(|| range)))
    }

    /// Returns the rank of the first row with this id, or the rank at which the id would be inserted.
    fn lower_bound(&self, id: u128) -> Result<usize, CorruptionError> {
        partition_point(self.ids.len(), |at| Ok(self.id_by_rank(at)? < id))
    }

    /// Returns the row of the `at`-th smallest id, if this id equals `id`.
    fn row_at(&self, at: usize, id: u128) -> Result<Option<Row>, CorruptionError> {
        if at == self.ids.len() || self.id_by_rank(at)? != id {
            return Ok(None);
        }
        self.row_by_rank(at).map(|row| Some(Row::try_from(row).expect("rows are 32 bit")))
    }
}

/// Returns the rows whose key equals `key`; `order` lists the rows by ascending key.
fn rows_with_key<'seg, K: Ord>(
    order: ColumnView<'seg, u32>,
    key: &K,
    key_of: impl Fn(usize) -> Result<K, CorruptionError>,
) -> Result<&'seg [Row], CorruptionError> {
    let at = |at: usize| key_of(order.get(at)? as usize);
    let from = partition_point(order.len(), |place| Ok(at(place)? < *key))?;
    let to = partition_point(order.len(), |place| Ok(at(place)? <= *key))?;
    if to < from || from < to && (at(from)? != *key || at(to - 1)? != *key) {
        return Err(order.damage("SEG-13", "it is not sorted"));
    }
    order.range(from, to)
}

impl Segment {
    /// Returns a column of ids; `None` if `id` is outside the range of its ids.
    fn by_id(
        &self,
        ids: Column,
        order: Column,
        known: &OnceLock<(u128, u128)>,
        id: u128,
    ) -> Result<Option<IdIndex<'_>>, CorruptionError> {
        let is_outside = |(least, most): (u128, u128)| !(least..=most).contains(&id);
        if known.get().is_some_and(|range| is_outside(*range)) {
            return Ok(None);
        }
        let by_id = IdIndex { ids: self.column(ids)?, order: self.column(order)? };
        let is_there = by_id.id_range(known)?.is_some_and(|range| !is_outside(range));
        Ok(is_there.then_some(by_id))
    }

    fn row_of_id(
        &self,
        ids: Column,
        order: Column,
        known: &OnceLock<(u128, u128)>,
        id: u128,
    ) -> Result<Option<Row>, CorruptionError> {
        match self.by_id(ids, order, known, id)? {
            Some(by_id) => by_id.row_at(by_id.lower_bound(id)?, id),
            None => Ok(None),
        }
    }

    /// Returns all rows with an id; only a damaged file has more than one.
    fn rows_of_id(
        &self,
        ids: Column,
        order: Column,
        known: &OnceLock<(u128, u128)>,
        id: u128,
    ) -> Result<Vec<Row>, CorruptionError> {
        let mut rows = Vec::new();
        if let Some(by_id) = self.by_id(ids, order, known, id)? {
            let from = by_id.lower_bound(id)?;
            while let Some(row) = by_id.row_at(from + rows.len(), id)? {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    pub(crate) fn row_of_item(&self, id: ItemId) -> Result<Option<Row>, CorruptionError> {
        self.row_of_id(ITEM_ID, ITEM_BY_ID, &self.item_ids, id.0)
    }

    pub(crate) fn row_of_source(&self, id: SourceId) -> Result<Option<Row>, CorruptionError> {
        self.row_of_id(SOURCE_ID, SOURCE_BY_ID, &self.source_ids, id.0)
    }

    pub(crate) fn row_of_edge(&self, id: EdgeId) -> Result<Option<Row>, CorruptionError> {
        self.row_of_id(EDGE_ID, EDGE_BY_ID, &self.edge_ids, id.0)
    }

    /// Returns all item rows with an id; only a damaged file has more than one.
    pub(crate) fn item_rows(&self, id: u128) -> Result<Vec<Row>, CorruptionError> {
        self.rows_of_id(ITEM_ID, ITEM_BY_ID, &self.item_ids, id)
    }

    /// Returns all source rows with an id; only a damaged file has more than one.
    pub(crate) fn source_rows(&self, id: u128) -> Result<Vec<Row>, CorruptionError> {
        self.rows_of_id(SOURCE_ID, SOURCE_BY_ID, &self.source_ids, id)
    }

    /// Returns all edge rows with an id; only a damaged file has more than one.
    pub(crate) fn edge_rows(&self, id: u128) -> Result<Vec<Row>, CorruptionError> {
        self.rows_of_id(EDGE_ID, EDGE_BY_ID, &self.edge_ids, id)
    }

    fn rows_by_number(
        &self,
        order: Column,
        keys: Column,
        key: u128,
    ) -> Result<&[Row], CorruptionError> {
        let keys = self.column::<u128>(keys)?;
        rows_with_key(self.column(order)?, &key, |row| keys.get(row))
    }

    fn rows_by_text(
        &self,
        order: Column,
        offsets: Column,
        bytes: Column,
        key: &str,
    ) -> Result<&[Row], CorruptionError> {
        let texts = self.var_len_column::<u64, u8>(offsets, bytes)?;
        rows_with_key(self.column(order)?, &key.as_bytes(), |row| texts.get(row))
    }

    /// Returns the rows of items with this ref, oldest first.
    pub(crate) fn rows_of_ref(&self, reference: &str) -> Result<&[Row], CorruptionError> {
        self.rows_by_text(ITEM_BY_REF, REF_OFFSETS, REF_BYTES, reference)
    }

    /// Returns the rows of items of a source, in order of row.
    pub(crate) fn rows_of_source(&self, id: SourceId) -> Result<&[Row], CorruptionError> {
        self.rows_by_number(ITEM_BY_SOURCE, ITEM_SOURCE, id.0)
    }

    /// Returns the rows of sources with this uri, oldest first.
    pub(crate) fn source_rows_of_uri(&self, uri: &str) -> Result<&[Row], CorruptionError> {
        self.rows_by_text(SOURCE_BY_URI, SOURCE_URI_OFFSETS, SOURCE_URI_BYTES, uri)
    }

    /// Returns the rows of tombstones whose target is this id.
    pub(crate) fn tombstone_rows(&self, target: u128) -> Result<&[Row], CorruptionError> {
        self.rows_by_number(TOMBSTONE_BY_TARGET, TOMBSTONE_TARGET, target)
    }

    /// Returns the rows of items that supersede `id`.
    pub(crate) fn successor_rows(&self, id: ItemId) -> Result<&[Row], CorruptionError> {
        self.rows_replacing(SUCCESSOR_TARGET, SUCCESSOR_ROW, id)
    }

    /// Returns the rows of tombstones whose erased target superseded `id`.
    pub(crate) fn erased_successor_rows(&self, id: ItemId) -> Result<&[Row], CorruptionError> {
        self.rows_replacing(TOMBSTONE_SUCCESSOR_TARGET, TOMBSTONE_SUCCESSOR_ROW, id)
    }

    fn rows_replacing(
        &self,
        targets: Column,
        rows: Column,
        id: ItemId,
    ) -> Result<&[Row], CorruptionError> {
        let targets = self.column::<u128>(targets)?;
        let from = targets.lower_bound(|target| *target < id.0)?;
        let to = targets.lower_bound(|target| *target <= id.0)?;
        let is_of_id = |at: usize| Ok::<_, CorruptionError>(targets.get(at)? == id.0);
        if to < from || from < to && !(is_of_id(from)? && is_of_id(to - 1)?) {
            return Err(targets.damage("SEG-13", "it is not sorted"));
        }
        self.column(rows)?.range(from, to)
    }

    /// Returns the code of a symbol; `None` if nothing in the segment uses the name.
    pub(crate) fn symbol_code(&self, name: &str) -> Result<Option<u32>, CorruptionError> {
        let symbols = self.header().symbols;
        let texts = self.var_len_column::<u64, u8>(SYMBOL_OFFSETS, SYMBOL_BYTES)?;
        let at = partition_point(symbols as usize, |at| Ok(texts.get(at)? < name.as_bytes()))?;
        let code = u32::try_from(at).expect("at most `symbols`");
        let found = code < symbols && texts.get(at)? == name.as_bytes();
        Ok(found.then_some(code))
    }
}
