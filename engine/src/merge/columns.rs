//! Writes the columns of a merged segment.

use bytemuck::{AnyBitPattern, NoUninit};
use half::f16;

use super::error::MergeError;
use super::input::MergeInput;
use super::sorted_indexes;
use crate::layout::Table::{Edges, Items, Sources, Tombstones, Vectors};
use crate::layout::*;
use crate::segment::SegmentFileWriter;

/// Cells renumbered or rebased per chunk.
const CHUNK_CELLS: usize = 4096;

/// Copies columns of the inputs to the file, in ascending column order (SEG-07).
pub(super) struct ColumnMerger<'a, 's> {
    pub(super) inputs: &'a [MergeInput<'a>],
    pub(super) file: SegmentFileWriter<'s>,
}

impl ColumnMerger<'_, '_> {
    pub(super) fn items(&mut self) -> Result<(), MergeError> {
        self.copy_cells::<u128>(ITEM_ID, Items)?;
        self.file
            .column(ITEM_BY_ID, &sorted_indexes::by_id(self.inputs, ITEM_ID, ITEM_BY_ID, Items)?)?;
        self.copy_cells::<u64>(ITEM_SEQ, Items)?;
        self.copy_symbols(ITEM_KIND, Items)?;
        self.copy_symbols(ITEM_MODALITY, Items)?;
        self.copy_symbols(ITEM_RECORDED_BY, Items)?;
        self.copy_symbols(ITEM_VIA, Items)?;
        self.copy_cells::<u8>(ITEM_FLAGS, Items)?;
        self.copy_cells::<u8>(ITEM_SENSITIVITY, Items)?;
        self.copy_texts(TITLE_OFFSETS, TITLE_BYTES, Items)?;
        self.copy_texts(TEXT_OFFSETS, TEXT_BYTES, Items)?;
        self.copy_texts(ATTRIBUTE_OFFSETS, ATTRIBUTE_BYTES, Items)?;
        self.copy_texts(REF_OFFSETS, REF_BYTES, Items)?;
        let by_ref =
            sorted_indexes::by_text(self.inputs, ITEM_BY_REF, (REF_OFFSETS, REF_BYTES), Items)?;
        self.file.column(ITEM_BY_REF, &by_ref)?;
        self.copy_lists::<u32>(TAG_OFFSETS, TAG_CODES, Items, remap_codes)?;
        self.copy_lists::<u32>(GATE_OFFSETS, GATE_CODES, Items, remap_codes)?;
        self.copy_lists::<u128>(SUPERSEDES_OFFSETS, SUPERSEDES_IDS, Items, |_, _| {})?;
        let (targets, rows) =
            sorted_indexes::successors(self.inputs, SUCCESSOR_TARGET, SUCCESSOR_ROW, Items)?;
        self.file.column(SUCCESSOR_TARGET, &targets)?;
        self.file.column(SUCCESSOR_ROW, &rows)?;
        self.copy_cells::<u128>(ITEM_SOURCE, Items)?;
        let by_source = sorted_indexes::by_number(self.inputs, ITEM_BY_SOURCE, ITEM_SOURCE, Items)?;
        self.file.column(ITEM_BY_SOURCE, &by_source)?;
        self.copy_cells::<[u64; 2]>(SPAN_BYTES, Items)?;
        self.copy_cells::<[u32; 2]>(SPAN_LINES, Items)?;
        self.copy_cells::<i64>(ITEM_RECORDED_AT, Items)?;
        self.copy_cells::<i64>(ITEM_VALID_FROM, Items)?;
        self.copy_cells::<i64>(ITEM_VALID_TO, Items)?;
        self.copy_cells::<[u8; 32]>(ITEM_SHA256, Items)?;
        // The row mapping has checked that items and vectors refer to each other.
        self.copy_mapped::<u32>(ITEM_EMBEDDING, Items, |input, vectors| {
            for vector in vectors.iter_mut().filter(|vector| **vector != NO_ROW) {
                *vector = input.rows.vectors.new_row(*vector).unwrap_or(NO_ROW);
            }
        })
    }

    pub(super) fn sources(&mut self) -> Result<(), MergeError> {
        self.copy_cells::<u128>(SOURCE_ID, Sources)?;
        let by_id = sorted_indexes::by_id(self.inputs, SOURCE_ID, SOURCE_BY_ID, Sources)?;
        self.file.column(SOURCE_BY_ID, &by_id)?;
        self.copy_symbols(SOURCE_KIND, Sources)?;
        self.copy_texts(SOURCE_URI_OFFSETS, SOURCE_URI_BYTES, Sources)?;
        let uris = (SOURCE_URI_OFFSETS, SOURCE_URI_BYTES);
        let by_uri = sorted_indexes::by_text(self.inputs, SOURCE_BY_URI, uris, Sources)?;
        self.file.column(SOURCE_BY_URI, &by_uri)?;
        self.copy_texts(SOURCE_TITLE_OFFSETS, SOURCE_TITLE_BYTES, Sources)?;
        self.copy_cells::<[u8; 32]>(SOURCE_SHA256, Sources)?;
        self.copy_cells::<u64>(SOURCE_BYTES, Sources)?;
        self.copy_cells::<i64>(SOURCE_RECORDED_AT, Sources)?;
        self.copy_symbols(SOURCE_RECORDED_BY, Sources)?;
        self.copy_symbols(SOURCE_VIA, Sources)?;
        self.copy_cells::<u64>(SOURCE_SEQ, Sources)
    }

    pub(super) fn edges(&mut self) -> Result<(), MergeError> {
        self.copy_cells::<u128>(EDGE_ID, Edges)?;
        self.file
            .column(EDGE_BY_ID, &sorted_indexes::by_id(self.inputs, EDGE_ID, EDGE_BY_ID, Edges)?)?;
        self.copy_symbols(EDGE_RELATION, Edges)?;
        self.copy_cells::<f32>(EDGE_WEIGHT, Edges)?;
        self.copy_cells::<u128>(EDGE_SOURCE, Edges)?;
        self.copy_cells::<i64>(EDGE_RECORDED_AT, Edges)?;
        self.copy_symbols(EDGE_RECORDED_BY, Edges)?;
        self.copy_cells::<i64>(EDGE_VALID_FROM, Edges)?;
        self.copy_cells::<i64>(EDGE_VALID_TO, Edges)?;
        self.copy_texts(EDGE_NOTE_OFFSETS, EDGE_NOTE_BYTES, Edges)?;
        self.copy_cells::<u64>(EDGE_SEQ, Edges)
    }

    pub(super) fn tombstones(&mut self) -> Result<(), MergeError> {
        self.copy_cells::<u128>(TOMBSTONE_TARGET, Tombstones)?;
        let by_target = sorted_indexes::by_number(
            self.inputs,
            TOMBSTONE_BY_TARGET,
            TOMBSTONE_TARGET,
            Tombstones,
        )?;
        self.file.column(TOMBSTONE_BY_TARGET, &by_target)?;
        self.copy_cells::<i64>(TOMBSTONE_AT, Tombstones)?;
        self.copy_symbols(TOMBSTONE_BY, Tombstones)?;
        self.copy_texts(TOMBSTONE_REASON_OFFSETS, TOMBSTONE_REASON_BYTES, Tombstones)?;
        self.copy_cells::<u64>(TOMBSTONE_SEQ, Tombstones)?;
        self.copy_cells::<u8>(TOMBSTONE_FLAGS, Tombstones)?;
        let (offsets, ids) = (TOMBSTONE_SUPERSEDES_OFFSETS, TOMBSTONE_SUPERSEDES_IDS);
        self.copy_lists::<u128>(offsets, ids, Tombstones, |_, _| {})
    }

    pub(super) fn erased_successors(&mut self) -> Result<(), MergeError> {
        let (targets, rows) = (TOMBSTONE_SUCCESSOR_TARGET, TOMBSTONE_SUCCESSOR_ROW);
        let sorted = sorted_indexes::successors(self.inputs, targets, rows, Tombstones)?;
        self.file.column(targets, &sorted.0)?;
        self.file.column(rows, &sorted.1)?;
        Ok(())
    }

    pub(super) fn vectors(&mut self, dimensions: u32) -> Result<(), MergeError> {
        self.copy_row_groups::<f16>(VECTOR_HALVES, Vectors, halves_per_row(dimensions))?;
        self.copy_cells::<f32>(VECTOR_NORM, Vectors)?;
        self.copy_mapped::<u32>(VECTOR_ITEM, Vectors, |input, items| {
            for item in items {
                *item = input.rows.items.new_row(*item).expect("its vector would not be here");
            }
        })?;
        self.copy_row_groups::<i8>(VECTOR_CODES, Vectors, codes_per_row(dimensions))?;
        self.copy_cells::<f32>(VECTOR_SCALE, Vectors)?;
        self.copy_cells::<f32>(VECTOR_ERROR, Vectors)
    }

    /// Copies unchanged cells, one per row.
    fn copy_cells<T: AnyBitPattern + NoUninit>(
        &mut self,
        column: Column,
        table: Table,
    ) -> Result<(), MergeError> {
        self.copy_row_groups::<T>(column, table, 1)
    }

    /// Copies unchanged cells, `width` per row.
    fn copy_row_groups<T: AnyBitPattern + NoUninit>(
        &mut self,
        column: Column,
        table: Table,
        width: usize,
    ) -> Result<(), MergeError> {
        self.file.start(column)?;
        for input in self.inputs {
            let cells = input.segment.column::<T>(column)?;
            for run in input.rows.table(table).runs() {
                self.file.cells(cells.range(run.start * width, run.end * width)?)?;
            }
        }
        Ok(())
    }

    /// Copies cells through `change`, chunk by chunk.
    fn copy_mapped<T: AnyBitPattern + NoUninit>(
        &mut self,
        column: Column,
        table: Table,
        change: impl Fn(&MergeInput<'_>, &mut [T]),
    ) -> Result<(), MergeError> {
        self.file.start(column)?;
        for input in self.inputs {
            let cells = input.segment.column::<T>(column)?;
            for run in input.rows.table(table).runs() {
                let run = cells.range(run.start, run.end)?;
                write_mapped(&mut self.file, run, |cells| change(input, cells))?;
            }
        }
        Ok(())
    }

    fn copy_symbols(&mut self, column: Column, table: Table) -> Result<(), MergeError> {
        self.copy_mapped(column, table, remap_codes)
    }

    fn copy_texts(
        &mut self,
        offsets: Column,
        column: Column,
        table: Table,
    ) -> Result<(), MergeError> {
        self.file.start(offsets)?;
        self.file.cells(&[0u64])?;
        let mut end = 0;
        for input in self.inputs {
            let (bounds, _) =
                input.segment.var_len_column::<u64, u8>(offsets, column)?.checked_parts()?;
            for run in input.rows.table(table).runs() {
                let (before, after) = (bounds[run.start], end);
                write_mapped(&mut self.file, &bounds[run.start + 1..=run.end], |cells| {
                    cells.iter_mut().for_each(|cell| *cell = *cell - before + after);
                })?;
                end += bounds[run.end] - before;
            }
        }
        self.file.start(column)?;
        for input in self.inputs {
            let (bounds, bytes) =
                input.segment.var_len_column::<u64, u8>(offsets, column)?.checked_parts()?;
            for run in input.rows.table(table).runs() {
                let at = |row: usize| usize::try_from(bounds[row]).expect("SEG-10 was checked");
                self.file.cells(bytes.range(at(run.start), at(run.end))?)?;
            }
        }
        Ok(())
    }

    /// Copies lists, one per row.
    fn copy_lists<T: AnyBitPattern + NoUninit>(
        &mut self,
        offsets: Column,
        column: Column,
        table: Table,
        change: impl Fn(&MergeInput<'_>, &mut [T]),
    ) -> Result<(), MergeError> {
        self.file.start(offsets)?;
        self.file.cells(&[0u32])?;
        let mut end = 0u32;
        for input in self.inputs {
            let (bounds, _) =
                input.segment.var_len_column::<u32, T>(offsets, column)?.checked_parts()?;
            for run in input.rows.table(table).runs() {
                let (before, after) = (bounds[run.start], end);
                end = end.checked_add(bounds[run.end] - before).ok_or_else(|| {
                    let name = column.spec().name.to_lowercase();
                    MergeError::TooLarge(format!("{name} has more cells than a u32 can count"))
                })?;
                write_mapped(&mut self.file, &bounds[run.start + 1..=run.end], |cells| {
                    cells.iter_mut().for_each(|cell| *cell = *cell - before + after);
                })?;
            }
        }
        self.file.start(column)?;
        for input in self.inputs {
            let (bounds, cells) =
                input.segment.var_len_column::<u32, T>(offsets, column)?.checked_parts()?;
            for run in input.rows.table(table).runs() {
                let run = cells.range(bounds[run.start] as usize, bounds[run.end] as usize)?;
                write_mapped(&mut self.file, run, |cells| change(input, cells))?;
            }
        }
        Ok(())
    }
}

/// Renumbers symbol codes. Every code is valid: the collection of the symbols has checked that.
fn remap_codes(input: &MergeInput<'_>, codes: &mut [u32]) {
    codes.iter_mut().for_each(|code| *code = input.codes[*code as usize]);
}

/// Writes cells through `change`, chunk by chunk.
fn write_mapped<T: AnyBitPattern + NoUninit>(
    file: &mut SegmentFileWriter<'_>,
    cells: &[T],
    change: impl Fn(&mut [T]),
) -> Result<(), MergeError> {
    let mut chunk = Vec::with_capacity(cells.len().min(CHUNK_CELLS));
    for cells in cells.chunks(CHUNK_CELLS) {
        chunk.clear();
        chunk.extend_from_slice(cells);
        change(&mut chunk);
        file.cells(&chunk)?;
    }
    Ok(())
}
