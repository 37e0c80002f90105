//! Checks of one segment's indexes: sorted permutations, successors, nodes and adjacency lists.
//!
//! Each index is compared with the column that it is derived from.

use super::findings::Findings;
use crate::error::CorruptionError;
use crate::ids::Row;
use crate::layout::*;
use crate::segment::{PackedAdjacency, Segment};

pub(super) fn check(segment: &Segment, findings: &mut Findings) {
    for (ids, order) in [(ITEM_ID, ITEM_BY_ID), (SOURCE_ID, SOURCE_BY_ID), (EDGE_ID, EDGE_BY_ID)] {
        findings.record(check_by_id(segment, ids, order));
    }
    findings.record(check_by_number(segment, ITEM_BY_SOURCE, ITEM_SOURCE, |id| id != 0));
    findings.record(check_by_number(segment, TOMBSTONE_BY_TARGET, TOMBSTONE_TARGET, |_| true));
    findings.record(check_by_text(segment, ITEM_BY_REF, REF_OFFSETS, REF_BYTES, |text| {
        !text.is_empty()
    }));
    let uris = (SOURCE_URI_OFFSETS, SOURCE_URI_BYTES);
    findings.record(check_by_text(segment, SOURCE_BY_URI, uris.0, uris.1, |_| true));
    let [items, tombstones] = SUCCESSOR_COLUMNS;
    findings.record(check_successors(segment, segment.header().items, items));
    findings.record(check_successors(segment, segment.header().tombstones, tombstones));
    findings.record(check_nodes(segment));
    findings.record(check_adjacency(segment));
}

/// Checks that `order` lists every row with a key once, sorted by (key, row) (SEG-13). `key` returns `None` for a row
/// without a key.
fn check_sorted<K: Ord>(
    segment: &Segment,
    order: Column,
    rows: usize,
    key: impl Fn(usize) -> Result<Option<K>, CorruptionError>,
) -> Result<(), CorruptionError> {
    let listed = segment.column::<u32>(order)?.all()?;
    let mut before: Option<(K, u32)> = None;
    for (at, &row) in listed.iter().enumerate() {
        if row as usize >= rows {
            let detail = format!("row {row} of {rows} at {at}");
            return Err(segment.damage("SEG-12", order, detail));
        }
        let Some(key) = key(row as usize)? else {
            let detail = format!("row {row} at {at} has no key");
            return Err(segment.damage("SEG-13", order, detail));
        };
        let this = (key, row);
        if before.is_some_and(|before| before >= this) {
            let detail = format!("row {row} at {at} is out of order");
            return Err(segment.damage("SEG-13", order, detail));
        }
        before = Some(this);
    }
    // A strict order excludes duplicates, so equal counts mean that no row is missing.
    let mut keyed = 0;
    for row in 0..rows {
        keyed += usize::from(key(row)?.is_some());
    }
    if listed.len() != keyed {
        let detail = format!("{} rows of {keyed} that have the key", listed.len());
        return Err(segment.damage("SEG-13", order, detail));
    }
    Ok(())
}

fn check_by_id(segment: &Segment, ids: Column, order: Column) -> Result<(), CorruptionError> {
    let ids = segment.column::<u128>(ids)?.all()?;
    let listed = segment.column::<u32>(order)?.len();
    if !ids.is_sorted() {
        return check_sorted(segment, order, ids.len(), |row| Ok(ids.get(row)));
    }
    if listed == 0 {
        return Ok(());
    }
    let detail = format!("{listed} cells, though the ids never fall");
    Err(segment.damage("SEG-13", order, detail))
}

fn check_by_number(
    segment: &Segment,
    order: Column,
    keys: Column,
    has_key: impl Fn(u128) -> bool,
) -> Result<(), CorruptionError> {
    let keys = segment.column::<u128>(keys)?.all()?;
    let key = |row: usize| Ok(keys.get(row).filter(|&&key| has_key(key)));
    check_sorted(segment, order, keys.len(), key)
}

fn check_by_text(
    segment: &Segment,
    order: Column,
    offsets: Column,
    bytes: Column,
    has_key: impl Fn(&[u8]) -> bool,
) -> Result<(), CorruptionError> {
    let texts = segment.var_len_column::<u64, u8>(offsets, bytes)?;
    let rows = segment.column::<u64>(offsets)?.len().saturating_sub(1);
    check_sorted(segment, order, rows, |row| Ok(Some(texts.get(row)?).filter(|text| has_key(text))))
}

/// Columns of the supersedes lists, of items and of erased items: list offsets, listed ids, then the sorted pairs as
/// superseded id and successor row.
const SUCCESSOR_COLUMNS: [[Column; 4]; 2] = [
    [SUPERSEDES_OFFSETS, SUPERSEDES_IDS, SUCCESSOR_TARGET, SUCCESSOR_ROW],
    [
        TOMBSTONE_SUPERSEDES_OFFSETS,
        TOMBSTONE_SUPERSEDES_IDS,
        TOMBSTONE_SUCCESSOR_TARGET,
        TOMBSTONE_SUCCESSOR_ROW,
    ],
];

/// Checks that the successor columns are the sorted pairs of the `supersedes` lists (SEG-13).
fn check_successors(
    segment: &Segment,
    count: Row,
    columns: [Column; 4],
) -> Result<(), CorruptionError> {
    let [offsets, ids, target, by] = columns;
    let wrong = |detail: String| segment.damage("SEG-13", target, detail);
    let targets = segment.column::<u128>(target)?.all()?;
    let rows = segment.column::<u32>(by)?.all()?;
    let lists = segment.var_len_column::<u32, u128>(offsets, ids)?;
    let total = segment.column::<u128>(ids)?.len();
    if targets.len() != total || rows.len() != total {
        let detail = format!("{} targets and {} rows of {total}", targets.len(), rows.len());
        return Err(wrong(detail));
    }
    let pair = |at: usize| (targets[at], rows[at]);
    if let Some(at) = (1..total).find(|&at| pair(at - 1) >= pair(at)) {
        return Err(wrong(format!("place {at} is out of order")));
    }
    // Both sides have equally many pairs, and no list has an id twice (SEG-25), so one inclusion is enough.
    for row in 0..count {
        for &target in lists.get(row as usize)? {
            let from = targets.partition_point(|&found| found < target);
            let to = targets.partition_point(|&found| found <= target);
            if rows[from..to].binary_search(&row).is_err() {
                return Err(wrong(format!("row {row} replaces an item and is not named for it")));
            }
        }
    }
    Ok(())
}

/// Checks that the nodes ascend, refer to the right item rows, and all have an edge (SEG-18).
fn check_nodes(segment: &Segment) -> Result<(), CorruptionError> {
    let wrong = |column, detail| Err(segment.damage("SEG-18", column, detail));
    let nodes = segment.column::<u128>(NODE_ID)?.all()?;
    if let Some(at) = nodes.windows(2).position(|pair| pair[0] >= pair[1]) {
        return wrong(NODE_ID, format!("node {} is not above the one before", at + 1));
    }
    let rows = segment.column::<u32>(NODE_ROW)?.all()?;
    for (at, (&id, &row)) in nodes.iter().zip(rows).enumerate() {
        let due = segment.row_of_item(crate::ids::ItemId(id))?.unwrap_or(NO_ROW);
        if row != due {
            return wrong(NODE_ROW, format!("node {at}: row {row}, {due} is due"));
        }
    }
    let mut is_joined = vec![false; nodes.len()];
    for column in [EDGE_FROM_NODE, EDGE_TO_NODE] {
        for &node in segment.column::<u32>(column)?.all()? {
            let Some(joined) = is_joined.get_mut(node as usize) else {
                let detail = format!("node {node} of {}", nodes.len());
                return Err(segment.damage("SEG-19", column, detail));
            };
            *joined = true;
        }
    }
    match is_joined.iter().position(|joined| !joined) {
        Some(node) => wrong(NODE_ID, format!("no edge joins node {node}")),
        None => Ok(()),
    }
}

/// Compares the adjacency lists byte by byte with lists rebuilt from the edges' ends (SEG-19).
fn check_adjacency(segment: &Segment) -> Result<(), CorruptionError> {
    let nodes = segment.column::<u128>(NODE_ID)?.len();
    let columns = [(EDGE_FROM_NODE, OUT_OFFSETS, OUT_BYTES), (EDGE_TO_NODE, IN_OFFSETS, IN_BYTES)];
    for (ends, offsets, bytes) in columns {
        let ends = segment.column::<u32>(ends)?.all()?;
        if ends.iter().any(|&node| node as usize >= nodes) {
            continue; // told by `nodes`
        }
        let Some(due) = PackedAdjacency::pack(nodes, ends) else {
            let detail = "the lists are longer than a u32 can say";
            return Err(segment.damage("SEG-21", bytes, detail));
        };
        let found = segment.column::<u8>(bytes)?.all()?;
        if segment.column::<u32>(offsets)?.all()? != due.offsets || found != due.bytes {
            let detail = "the lists are not those of the edges' ends";
            return Err(segment.damage("SEG-19", bytes, detail));
        }
    }
    Ok(())
}
