//! Collects the symbols that retained rows use, sorted (SEG-20), and renumbers each input's codes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::row_map::RowMap;
use crate::error::CorruptionError;
use crate::layout::*;
use crate::segment::Segment;

/// Columns of symbol codes.
const CODE_COLUMNS: [(Column, Table); 10] = [
    (ITEM_KIND, Table::Items),
    (ITEM_MODALITY, Table::Items),
    (ITEM_RECORDED_BY, Table::Items),
    (ITEM_VIA, Table::Items),
    (SOURCE_KIND, Table::Sources),
    (SOURCE_RECORDED_BY, Table::Sources),
    (SOURCE_VIA, Table::Sources),
    (EDGE_RELATION, Table::Edges),
    (EDGE_RECORDED_BY, Table::Edges),
    (TOMBSTONE_BY, Table::Tombstones),
];
/// Columns of lists of symbol codes, all of items.
const CODE_LIST_COLUMNS: [(Column, Column); 2] =
    [(TAG_OFFSETS, TAG_CODES), (GATE_OFFSETS, GATE_CODES)];

/// Symbols of a merged segment.
pub(super) struct MergedSymbols {
    pub(super) offsets: Vec<u64>,
    pub(super) bytes: Vec<u8>,
    /// New code of each old code, per input; entries of unused codes are meaningless.
    pub(super) codes: Vec<Vec<u32>>,
}

impl MergedSymbols {
    pub(super) fn merge(
        segments: &[Arc<Segment>],
        rows: &[RowMap],
    ) -> Result<Self, CorruptionError> {
        // Each name with its occurrences: input and old code.
        let mut names: BTreeMap<&[u8], Vec<(usize, usize)>> = BTreeMap::new();
        let mut codes = Vec::with_capacity(segments.len());
        for (input, (segment, map)) in segments.iter().zip(rows).enumerate() {
            let used = used_symbols(segment, map)?;
            let texts = segment.var_len_column::<u64, u8>(SYMBOL_OFFSETS, SYMBOL_BYTES)?;
            for code in (0..used.len()).filter(|&code| used[code]) {
                names.entry(texts.get(code)?).or_default().push((input, code));
            }
            codes.push(vec![0; used.len()]);
        }
        let mut renamed = Self { offsets: vec![0], bytes: Vec::new(), codes };
        for (new, (name, places)) in (0..).zip(names) {
            renamed.bytes.extend_from_slice(name);
            renamed.offsets.push(renamed.bytes.len() as u64);
            for (input, code) in places {
                renamed.codes[input][code] = new;
            }
        }
        Ok(renamed)
    }

    pub(super) fn count(&self) -> usize {
        self.offsets.len() - 1
    }
}

/// Returns a flag per symbol: true if a retained row uses it. On success, every code of these rows is valid.
fn used_symbols(segment: &Segment, map: &RowMap) -> Result<Vec<bool>, CorruptionError> {
    let mut used = vec![false; segment.header().symbols as usize];
    for (column, table) in CODE_COLUMNS {
        let codes = segment.column::<u32>(column)?;
        for run in map.table(table).runs() {
            mark_used(segment, column, codes.range(run.start, run.end)?, &mut used)?;
        }
    }
    for (offsets, column) in CODE_LIST_COLUMNS {
        let (bounds, codes) =
            segment.var_len_column::<u32, u32>(offsets, column)?.checked_parts()?;
        for run in map.items.runs() {
            let (from, to) = (bounds[run.start] as usize, bounds[run.end] as usize);
            mark_used(segment, column, codes.range(from, to)?, &mut used)?;
        }
    }
    Ok(used)
}

fn mark_used(
    segment: &Segment,
    column: Column,
    codes: &[u32],
    used: &mut [bool],
) -> Result<(), CorruptionError> {
    let symbols = used.len();
    for &code in codes {
        let Some(is_used) = used.get_mut(code as usize) else {
            let detail = format!("symbol {code} of {symbols}");
            return Err(segment.damage("SEG-12", column, detail));
        };
        *is_used = true;
    }
    Ok(())
}
