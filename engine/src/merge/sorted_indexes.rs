//! Builds the indexes of a merged segment: rows sorted by a key (SEG-13).
//!
//! The inputs' indexes are concatenated and sorted; the sort detects the runs and merges them. Indexes are untrusted
//! input, so order and bounds are checked.

use super::error::MergeError;
use super::input::MergeInput;
use crate::error::CorruptionError;
use crate::ids::Row;
use crate::layout::*;

/// Keys with their rows, in index order.
type KeyedRows<K> = Vec<(K, Row)>;

/// Collects the keys of all inputs with their new rows, sorted.
fn merge_sorted<'a, K: Ord + Copy>(
    inputs: &'a [MergeInput<'a>],
    index: Column,
    table: Table,
    keyed: impl Fn(&'a MergeInput<'a>) -> Result<KeyedRows<K>, CorruptionError>,
) -> Result<KeyedRows<K>, CorruptionError> {
    let mut all = Vec::new();
    for input in inputs {
        let keyed = keyed(input)?;
        if !keyed.is_sorted_by(|a, b| a < b) {
            return Err(input.segment.damage("SEG-13", index, "it is not sorted"));
        }
        let map = input.rows.table(table);
        all.extend(keyed.into_iter().filter_map(|(key, old)| Some((key, map.new_row(old)?))));
    }
    all.sort();
    Ok(all)
}

fn rows_only<K>(keyed: KeyedRows<K>) -> Vec<Row> {
    keyed.into_iter().map(|(_, row)| row).collect()
}

/// Returns the rows of an index with their keys.
fn keyed_rows<K>(
    input: &MergeInput<'_>,
    index: Column,
    key: impl Fn(usize) -> Result<K, CorruptionError>,
) -> Result<KeyedRows<K>, CorruptionError> {
    let order = input.segment.column::<u32>(index)?.all()?;
    order.iter().map(|&row| Ok((key(row as usize)?, row))).collect()
}

/// Builds the index by id; empty if the retained ids ascend by row.
pub(super) fn by_id(
    inputs: &[MergeInput<'_>],
    ids: Column,
    index: Column,
    table: Table,
) -> Result<Vec<Row>, MergeError> {
    let mut last = 0;
    let mut ascends = true;
    for input in inputs {
        let cells = input.segment.column::<u128>(ids)?;
        for run in input.rows.table(table).runs() {
            let run = cells.range(run.start, run.end)?;
            ascends &= run.first().is_none_or(|first| *first >= last) && run.is_sorted();
            last = run.last().copied().unwrap_or(last);
        }
        if !ascends {
            break;
        }
    }
    if ascends {
        return Ok(Vec::new());
    }
    let keyed = merge_sorted(inputs, index, table, |input| {
        let cells = input.segment.column::<u128>(ids)?.all()?;
        if input.segment.column::<u32>(index)?.len() == 0 {
            return Ok(cells.iter().copied().zip(0..).collect());
        }
        keyed_rows(input, index, |row| input.segment.column::<u128>(ids)?.get(row))
    })?;
    Ok(rows_only(keyed))
}

pub(super) fn by_number(
    inputs: &[MergeInput<'_>],
    index: Column,
    keys: Column,
    table: Table,
) -> Result<Vec<Row>, MergeError> {
    let keyed = merge_sorted(inputs, index, table, |input| {
        let keys = input.segment.column::<u128>(keys)?;
        keyed_rows(input, index, |row| keys.get(row))
    })?;
    Ok(rows_only(keyed))
}

pub(super) fn by_text<'a>(
    inputs: &'a [MergeInput<'a>],
    index: Column,
    (offsets, bytes): (Column, Column),
    table: Table,
) -> Result<Vec<Row>, MergeError> {
    let keyed = merge_sorted(inputs, index, table, |input: &'a MergeInput<'a>| {
        let texts = input.segment.var_len_column::<u64, u8>(offsets, bytes)?;
        keyed_rows(input, index, |row| texts.get(row))
    })?;
    Ok(rows_only(keyed))
}

/// Returns the superseded ids, sorted, and the successor row of each.
pub(super) fn successors(
    inputs: &[MergeInput<'_>],
    target_column: Column,
    row_column: Column,
    table: Table,
) -> Result<(Vec<u128>, Vec<Row>), MergeError> {
    let keyed = merge_sorted(inputs, target_column, table, |input| {
        let targets = input.segment.column::<u128>(target_column)?.all()?;
        let rows = input.segment.column::<u32>(row_column)?.all()?;
        let count = input.rows.table(table).rows();
        if rows.len() != targets.len() || rows.iter().any(|row| *row >= count) {
            let detail = format!("{} rows for {} targets", rows.len(), targets.len());
            return Err(input.segment.damage("SEG-12", row_column, detail));
        }
        Ok(targets.iter().copied().zip(rows.iter().copied()).collect())
    })?;
    Ok(keyed.into_iter().unzip())
}
