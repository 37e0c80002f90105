//! Builds the indexes of a merged segment: rows sorted by a key (SEG-13).
//!
//! The inputs' indexes are concatenated and sorted; the sort detects the runs and merges them. Indexes are untrusted
//! input, so order and bounds are checked.

use super::error::MergeError;
use super::input::Input;
use crate::error::Damage;
use crate::ids::Row;
use crate::layout::*;

/// Keys with their rows, in index order.
type Keyed<K> = Vec<(K, Row)>;

/// Collects the keys of all inputs with their new rows, sorted.
fn sorted<'a, K: Ord + Copy>(
    inputs: &'a [Input<'a>],
    index: Column,
    table: Table,
    keyed: impl Fn(&'a Input<'a>) -> Result<Keyed<K>, Damage>,
) -> Result<Keyed<K>, Damage> {
    let mut all = Vec::new();
    for input in inputs {
        let keyed = keyed(input)?;
        if !keyed.is_sorted_by(|a, b| a < b) {
            return Err(input.segment.wrong("SEG-13", index, "it is not sorted"));
        }
        let map = input.rows.of(table);
        all.extend(keyed.into_iter().filter_map(|(key, old)| Some((key, map.new_row(old)?))));
    }
    all.sort();
    Ok(all)
}

fn rows<K>(keyed: Keyed<K>) -> Vec<Row> {
    keyed.into_iter().map(|(_, row)| row).collect()
}

/// Returns the rows of an index with their keys.
fn listed<K>(
    input: &Input<'_>,
    index: Column,
    key: impl Fn(usize) -> Result<K, Damage>,
) -> Result<Keyed<K>, Damage> {
    let order = input.segment.view::<u32>(index)?.all()?;
    order.iter().map(|&row| Ok((key(row as usize)?, row))).collect()
}

/// Builds the index by id; empty if the retained ids ascend by row.
pub(super) fn by_id(
    inputs: &[Input<'_>],
    ids: Column,
    index: Column,
    table: Table,
) -> Result<Vec<Row>, MergeError> {
    let mut last = 0;
    let mut ascends = true;
    for input in inputs {
        let cells = input.segment.view::<u128>(ids)?;
        for run in input.rows.of(table).runs() {
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
    let keyed = sorted(inputs, index, table, |input| {
        let cells = input.segment.view::<u128>(ids)?.all()?;
        if input.segment.view::<u32>(index)?.len() == 0 {
            return Ok(cells.iter().copied().zip(0..).collect());
        }
        listed(input, index, |row| input.segment.view::<u128>(ids)?.get(row))
    })?;
    Ok(rows(keyed))
}

pub(super) fn by_number(
    inputs: &[Input<'_>],
    index: Column,
    keys: Column,
    table: Table,
) -> Result<Vec<Row>, MergeError> {
    let keyed = sorted(inputs, index, table, |input| {
        let keys = input.segment.view::<u128>(keys)?;
        listed(input, index, |row| keys.get(row))
    })?;
    Ok(rows(keyed))
}

pub(super) fn by_text<'a>(
    inputs: &'a [Input<'a>],
    index: Column,
    (offsets, bytes): (Column, Column),
    table: Table,
) -> Result<Vec<Row>, MergeError> {
    let keyed = sorted(inputs, index, table, |input: &'a Input<'a>| {
        let texts = input.segment.pieces::<u64, u8>(offsets, bytes)?;
        listed(input, index, |row| texts.get(row))
    })?;
    Ok(rows(keyed))
}

/// Returns the superseded ids, sorted, and the successor row of each.
pub(super) fn successors(
    inputs: &[Input<'_>],
    target_column: Column,
    row_column: Column,
    table: Table,
) -> Result<(Vec<u128>, Vec<Row>), MergeError> {
    let keyed = sorted(inputs, target_column, table, |input| {
        let targets = input.segment.view::<u128>(target_column)?.all()?;
        let rows = input.segment.view::<u32>(row_column)?.all()?;
        let count = input.rows.of(table).rows();
        if rows.len() != targets.len() || rows.iter().any(|row| *row >= count) {
            let detail = format!("{} rows for {} targets", rows.len(), targets.len());
            return Err(input.segment.wrong("SEG-12", row_column, detail));
        }
        Ok(targets.iter().copied().zip(rows.iter().copied()).collect())
    })?;
    Ok(keyed.into_iter().unzip())
}
