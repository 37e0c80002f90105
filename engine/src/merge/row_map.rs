//! Row mapping of a merge: the retained rows of each input and their new numbers.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::error::MergeError;
use crate::error::CorruptionError;
use crate::ids::{ItemId, Row};
use crate::layout::{ITEM_EMBEDDING, NO_ROW, Table, VECTOR_ITEM};
use crate::limits::SEGMENT_ROWS_MAX;
use crate::row_state::RowBitmap;
use crate::segment::Segment;

/// Ids whose rows a merge leaves out: items with their edges, edges, and sources. The caller must ensure that no other
/// row references an erased source. Tombstones stay, and so do ids in the `supersedes` lists of other items.
#[derive(Debug, Clone, Default)]
pub(crate) struct ErasedIds(BTreeSet<u128>);

impl ErasedIds {
    pub(crate) fn new(ids: impl IntoIterator<Item = u128>) -> Self {
        Self(ids.into_iter().collect())
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = u128> {
        self.0.iter().copied()
    }
}

/// Returns the rows of edges erased with an id: the edge of this id, and the edges of the item.
pub(crate) fn edges_erased_with(segment: &Segment, id: u128) -> Result<Vec<Row>, CorruptionError> {
    let mut rows = segment.edge_rows(id)?;
    if let Some(node) = segment.node_of(ItemId(id))? {
        for row in segment.out_rows(node)?.chain(segment.in_rows(node)?) {
            rows.push(row?);
        }
    }
    Ok(rows)
}

/// Checks a row count against the limit of a table.
pub(super) fn row_count(table: Table, rows: u64) -> Result<u32, MergeError> {
    let fits = u32::try_from(rows).ok().filter(|&rows| rows as usize <= SEGMENT_ROWS_MAX);
    fits.ok_or_else(|| {
        let why = format!("{rows} rows of {table:?}; at most {SEGMENT_ROWS_MAX} are allowed");
        MergeError::TooLarge(why)
    })
}

/// New rows of one input's rows.
#[derive(Debug)]
pub(crate) struct RowMap {
    pub(crate) items: TableMap,
    pub(crate) sources: TableMap,
    pub(crate) edges: TableMap,
    pub(crate) tombstones: TableMap,
    pub(crate) vectors: TableMap,
}

/// New rows of one table of one input. Retained rows keep their order, so without dropped rows an offset is enough.
#[derive(Debug, Default)]
pub(crate) struct TableMap {
    /// New row of the first retained row.
    first: Row,
    /// Rows of the input.
    rows: Row,
    /// Dropped rows, ascending.
    dropped: Vec<Row>,
}

impl TableMap {
    fn new(rows: Row, mut dropped: Vec<Row>) -> Self {
        dropped.sort_unstable();
        dropped.dedup();
        Self { first: 0, rows, dropped }
    }

    /// Number of rows of the input.
    pub(super) fn rows(&self) -> Row {
        self.rows
    }

    /// Number of retained rows.
    pub(crate) fn live_rows(&self) -> Row {
        // `dropped` has only rows below `rows`, without duplicates.
        self.rows - Row::try_from(self.dropped.len()).expect("rows are 32 bit")
    }

    /// New number of a row; `None` if the row is dropped.
    pub(crate) fn new_row(&self, old: Row) -> Option<Row> {
        if self.dropped.is_empty() {
            return Some(self.first + old);
        }
        let before = self.dropped.binary_search(&old).err()?;
        Some(self.first + old - Row::try_from(before).expect("rows are 32 bit"))
    }

    /// Runs of retained rows, in order.
    pub(super) fn runs(&self) -> impl Iterator<Item = Range<usize>> + use<'_> {
        let mut from = 0;
        let ends = self.dropped.iter().map(|&row| row as usize).chain([self.rows as usize]);
        let runs = ends.map(move |end| {
            let run = from..end;
            from = end + 1;
            run
        });
        runs.filter(|run| !run.is_empty())
    }

    /// Copies the bits of retained rows from `from` to `to`.
    pub(super) fn map_bits(&self, from: &RowBitmap, to: &mut RowBitmap) {
        if from.count() == 0 {
            return;
        }
        for old in (0..self.rows).filter(|&row| from.contains(row)) {
            if let Some(new) = self.new_row(old) {
                to.insert(new);
            }
        }
    }
}

impl RowMap {
    /// Mapping of a table. Symbols and nodes are rebuilt and have none.
    pub(super) fn table(&self, table: Table) -> &TableMap {
        match table {
            Table::Items => &self.items,
            Table::Sources => &self.sources,
            Table::Edges => &self.edges,
            Table::Tombstones => &self.tombstones,
            Table::Vectors => &self.vectors,
            Table::Symbols | Table::Nodes => unreachable!("no rows of these are copied"),
        }
    }

    fn table_mut(&mut self, table: Table) -> &mut TableMap {
        match table {
            Table::Items => &mut self.items,
            Table::Sources => &mut self.sources,
            Table::Edges => &mut self.edges,
            Table::Tombstones => &mut self.tombstones,
            Table::Vectors => &mut self.vectors,
            Table::Symbols | Table::Nodes => unreachable!("no rows of these are copied"),
        }
    }

    fn excluding(segment: &Segment, erased: &ErasedIds) -> Result<Self, CorruptionError> {
        let header = segment.header();
        let (mut items, mut sources, mut edges) = (Vec::new(), Vec::new(), Vec::new());
        for &id in &erased.0 {
            items.extend(segment.item_rows(id)?);
            sources.extend(segment.source_rows(id)?);
            edges.extend(edges_erased_with(segment, id)?);
        }
        let items = TableMap::new(header.items, items);
        Ok(Self {
            vectors: TableMap::new(header.vectors, dropped_vectors(segment, &items)?),
            items,
            sources: TableMap::new(header.sources, sources),
            edges: TableMap::new(header.edges, edges),
            tombstones: TableMap::new(header.tombstones, Vec::new()),
        })
    }
}

/// Returns the vectors of dropped items, and checks that items and vectors refer to each other (SEG-22).
fn dropped_vectors(segment: &Segment, items: &TableMap) -> Result<Vec<Row>, CorruptionError> {
    let of_items = segment.column::<u32>(ITEM_EMBEDDING)?.all()?;
    let of_vectors = segment.column::<u32>(VECTOR_ITEM)?.all()?;
    let mut next = 0;
    for (item, &vector) in (0..).zip(of_items).filter(|&(_, &vector)| vector != NO_ROW) {
        if vector != next || of_vectors.get(vector as usize) != Some(&item) {
            let detail = format!("row {item}: vector {vector} where {next} is due, or not its own");
            return Err(segment.damage("SEG-22", ITEM_EMBEDDING, detail));
        }
        next += 1;
    }
    if next != segment.header().vectors {
        let detail = format!("{} vectors, {next} of them named", segment.header().vectors);
        return Err(segment.damage("SEG-22", VECTOR_ITEM, detail));
    }
    let dropped = items.dropped.iter().filter_map(|&item| of_items.get(item as usize));
    Ok(dropped.copied().filter(|&vector| vector != NO_ROW).collect())
}

/// Returns the row mapping of each input.
pub(super) fn row_maps(
    segments: &[Arc<Segment>],
    erased: &ErasedIds,
) -> Result<Vec<RowMap>, MergeError> {
    let maps = segments.iter().map(|segment| RowMap::excluding(segment, erased));
    let mut maps = maps.collect::<Result<Vec<_>, _>>()?;
    let tables = [Table::Items, Table::Sources, Table::Edges, Table::Tombstones, Table::Vectors];
    for table in tables {
        let mut next = 0;
        for map in maps.iter_mut().map(|map| map.table_mut(table)) {
            map.first = row_count(table, next)?;
            next += u64::from(map.live_rows());
            row_count(table, next)?;
        }
    }
    Ok(maps)
}
