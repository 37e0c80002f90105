//! Writes the columns of a merged segment.

use bytemuck::{AnyBitPattern, NoUninit};
use half::f16;

use super::error::MergeError;
use super::input::Input;
use super::order;
use crate::layout::Table::{Edges, Items, Sources, Tombstones, Vectors};
use crate::layout::*;
use crate::segment::FileWriter;

/// Cells renumbered or rebased per chunk.
const CHUNK_CELLS: usize = 4096;

/// Copies columns of the inputs to the file, in ascending column order (SEG-07).
pub(super) struct Copier<'a, 's> {
    pub(super) inputs: &'a [Input<'a>],
    pub(super) file: FileWriter<'s>,
}

impl Copier<'_, '_> {
    pub(super) fn items(&mut self) -> Result<(), MergeError> {
        self.copied::<u128>(ITEM_ID, Items)?;
        self.file.column(ITEM_BY_ID, &order::by_id(self.inputs, ITEM_ID, ITEM_BY_ID, Items)?)?;
        self.copied::<u64>(ITEM_SEQ, Items)?;
        self.renamed(ITEM_KIND, Items)?;
        self.renamed(ITEM_MODALITY, Items)?;
        self.renamed(ITEM_RECORDED_BY, Items)?;
        self.renamed(ITEM_VIA, Items)?;
        self.copied::<u8>(ITEM_FLAGS, Items)?;
        self.copied::<u8>(ITEM_SENSITIVITY, Items)?;
        self.texts(TITLE_OFFSETS, TITLE_BYTES, Items)?;
        self.texts(TEXT_OFFSETS, TEXT_BYTES, Items)?;
        self.texts(ATTRIBUTE_OFFSETS, ATTRIBUTE_BYTES, Items)?;
        self.texts(REF_OFFSETS, REF_BYTES, Items)?;
        let by_ref = order::by_text(self.inputs, ITEM_BY_REF, (REF_OFFSETS, REF_BYTES), Items)?;
        self.file.column(ITEM_BY_REF, &by_ref)?;
        self.lists::<u32>(TAG_OFFSETS, TAG_CODES, Items, renamed_list)?;
        self.lists::<u32>(GATE_OFFSETS, GATE_CODES, Items, renamed_list)?;
        self.lists::<u128>(SUPERSEDES_OFFSETS, SUPERSEDES_IDS, Items, |_, _| {})?;
        let (targets, rows) =
            order::successors(self.inputs, SUCCESSOR_TARGET, SUCCESSOR_ROW, Items)?;
        self.file.column(SUCCESSOR_TARGET, &targets)?;
        self.file.column(SUCCESSOR_ROW, &rows)?;
        self.copied::<u128>(ITEM_SOURCE, Items)?;
        let by_source = order::by_number(self.inputs, ITEM_BY_SOURCE, ITEM_SOURCE, Items)?;
        self.file.column(ITEM_BY_SOURCE, &by_source)?;
        self.copied::<[u64; 2]>(SPAN_BYTES, Items)?;
        self.copied::<[u32; 2]>(SPAN_LINES, Items)?;
        self.copied::<i64>(ITEM_RECORDED_AT, Items)?;
        self.copied::<i64>(ITEM_VALID_FROM, Items)?;
        self.copied::<i64>(ITEM_VALID_TO, Items)?;
        self.copied::<[u8; 32]>(ITEM_SHA256, Items)?;
        // The row mapping has checked that items and vectors refer to each other.
        self.changed::<u32>(ITEM_EMBEDDING, Items, |input, vectors| {
            for vector in vectors.iter_mut().filter(|vector| **vector != NO_ROW) {
                *vector = input.rows.vectors.new_row(*vector).unwrap_or(NO_ROW);
            }
        })
    }

    pub(super) fn sources(&mut self) -> Result<(), MergeError> {
        self.copied::<u128>(SOURCE_ID, Sources)?;
        let by_id = order::by_id(self.inputs, SOURCE_ID, SOURCE_BY_ID, Sources)?;
        self.file.column(SOURCE_BY_ID, &by_id)?;
        self.renamed(SOURCE_KIND, Sources)?;
        self.texts(SOURCE_URI_OFFSETS, SOURCE_URI_BYTES, Sources)?;
        let uris = (SOURCE_URI_OFFSETS, SOURCE_URI_BYTES);
        let by_uri = order::by_text(self.inputs, SOURCE_BY_URI, uris, Sources)?;
        self.file.column(SOURCE_BY_URI, &by_uri)?;
        self.texts(SOURCE_TITLE_OFFSETS, SOURCE_TITLE_BYTES, Sources)?;
        self.copied::<[u8; 32]>(SOURCE_SHA256, Sources)?;
        self.copied::<u64>(SOURCE_BYTES, Sources)?;
        self.copied::<i64>(SOURCE_RECORDED_AT, Sources)?;
        self.renamed(SOURCE_RECORDED_BY, Sources)?;
        self.renamed(SOURCE_VIA, Sources)?;
        self.copied::<u64>(SOURCE_SEQ, Sources)
    }

    pub(super) fn edges(&mut self) -> Result<(), MergeError> {
        self.copied::<u128>(EDGE_ID, Edges)?;
        self.file.column(EDGE_BY_ID, &order::by_id(self.inputs, EDGE_ID, EDGE_BY_ID, Edges)?)?;
        self.renamed(EDGE_RELATION, Edges)?;
        self.copied::<f32>(EDGE_WEIGHT, Edges)?;
        self.copied::<u128>(EDGE_SOURCE, Edges)?;
        self.copied::<i64>(EDGE_RECORDED_AT, Edges)?;
        self.renamed(EDGE_RECORDED_BY, Edges)?;
        self.copied::<i64>(EDGE_VALID_FROM, Edges)?;
        self.copied::<i64>(EDGE_VALID_TO, Edges)?;
        self.texts(EDGE_NOTE_OFFSETS, EDGE_NOTE_BYTES, Edges)?;
        self.copied::<u64>(EDGE_SEQ, Edges)
    }

    pub(super) fn tombstones(&mut self) -> Result<(), MergeError> {
        self.copied::<u128>(TOMBSTONE_TARGET, Tombstones)?;
        let by_target =
            order::by_number(self.inputs, TOMBSTONE_BY_TARGET, TOMBSTONE_TARGET, Tombstones)?;
        self.file.column(TOMBSTONE_BY_TARGET, &by_target)?;
        self.copied::<i64>(TOMBSTONE_AT, Tombstones)?;
        self.renamed(TOMBSTONE_BY, Tombstones)?;
        self.texts(TOMBSTONE_REASON_OFFSETS, TOMBSTONE_REASON_BYTES, Tombstones)?;
        self.copied::<u64>(TOMBSTONE_SEQ, Tombstones)?;
        self.copied::<u8>(TOMBSTONE_FLAGS, Tombstones)?;
        let (offsets, ids) = (TOMBSTONE_SUPERSEDES_OFFSETS, TOMBSTONE_SUPERSEDES_IDS);
        self.lists::<u128>(offsets, ids, Tombstones, |_, _| {})
    }

    pub(super) fn erased_successors(&mut self) -> Result<(), MergeError> {
        let (targets, rows) = (TOMBSTONE_SUCCESSOR_TARGET, TOMBSTONE_SUCCESSOR_ROW);
        let sorted = order::successors(self.inputs, targets, rows, Tombstones)?;
        self.file.column(targets, &sorted.0)?;
        self.file.column(rows, &sorted.1)?;
        Ok(())
    }

    pub(super) fn vectors(&mut self, dimensions: u32) -> Result<(), MergeError> {
        self.rows_of::<f16>(VECTOR_HALVES, Vectors, row_halves(dimensions))?;
        self.copied::<f32>(VECTOR_NORM, Vectors)?;
        self.changed::<u32>(VECTOR_ITEM, Vectors, |input, items| {
            for item in items {
                *item = input.rows.items.new_row(*item).expect("its vector would not be here");
            }
        })?;
        self.rows_of::<i8>(VECTOR_CODES, Vectors, row_codes(dimensions))?;
        self.copied::<f32>(VECTOR_SCALE, Vectors)?;
        self.copied::<f32>(VECTOR_ERROR, Vectors)
    }

    /// Copies unchanged cells, one per row.
    fn copied<T: AnyBitPattern + NoUninit>(
        &mut self,
        column: Column,
        table: Table,
    ) -> Result<(), MergeError> {
        self.rows_of::<T>(column, table, 1)
    }

    /// Copies unchanged cells, `width` per row.
    fn rows_of<T: AnyBitPattern + NoUninit>(
        &mut self,
        column: Column,
        table: Table,
        width: usize,
    ) -> Result<(), MergeError> {
        self.file.start(column)?;
        for input in self.inputs {
            let cells = input.segment.view::<T>(column)?;
            for run in input.rows.of(table).runs() {
                self.file.cells(cells.range(run.start * width, run.end * width)?)?;
            }
        }
        Ok(())
    }

    /// Copies cells through `change`, chunk by chunk.
    fn changed<T: AnyBitPattern + NoUninit>(
        &mut self,
        column: Column,
        table: Table,
        change: impl Fn(&Input<'_>, &mut [T]),
    ) -> Result<(), MergeError> {
        self.file.start(column)?;
        for input in self.inputs {
            let cells = input.segment.view::<T>(column)?;
            for run in input.rows.of(table).runs() {
                let run = cells.range(run.start, run.end)?;
                put_changed(&mut self.file, run, |cells| change(input, cells))?;
            }
        }
        Ok(())
    }

    fn renamed(&mut self, column: Column, table: Table) -> Result<(), MergeError> {
        self.changed(column, table, renamed_list)
    }

    fn texts(&mut self, offsets: Column, column: Column, table: Table) -> Result<(), MergeError> {
        self.file.start(offsets)?;
        self.file.cells(&[0u64])?;
        let mut end = 0;
        for input in self.inputs {
            let (bounds, _) = input.segment.pieces::<u64, u8>(offsets, column)?.whole()?;
            for run in input.rows.of(table).runs() {
                let (before, after) = (bounds[run.start], end);
                put_changed(&mut self.file, &bounds[run.start + 1..=run.end], |cells| {
                    cells.iter_mut().for_each(|cell| *cell = *cell - before + after);
                })?;
                end += bounds[run.end] - before;
            }
        }
        self.file.start(column)?;
        for input in self.inputs {
            let (bounds, bytes) = input.segment.pieces::<u64, u8>(offsets, column)?.whole()?;
            for run in input.rows.of(table).runs() {
                let at = |row: usize| usize::try_from(bounds[row]).expect("SEG-10 was checked");
                self.file.cells(bytes.range(at(run.start), at(run.end))?)?;
            }
        }
        Ok(())
    }

    /// Copies lists, one per row.
    fn lists<T: AnyBitPattern + NoUninit>(
        &mut self,
        offsets: Column,
        column: Column,
        table: Table,
        change: impl Fn(&Input<'_>, &mut [T]),
    ) -> Result<(), MergeError> {
        self.file.start(offsets)?;
        self.file.cells(&[0u32])?;
        let mut end = 0u32;
        for input in self.inputs {
            let (bounds, _) = input.segment.pieces::<u32, T>(offsets, column)?.whole()?;
            for run in input.rows.of(table).runs() {
                let (before, after) = (bounds[run.start], end);
                end = end.checked_add(bounds[run.end] - before).ok_or_else(|| {
                    let name = column.spec().name.to_lowercase();
                    MergeError::TooLarge(format!("{name} has more cells than a u32 can count"))
                })?;
                put_changed(&mut self.file, &bounds[run.start + 1..=run.end], |cells| {
                    cells.iter_mut().for_each(|cell| *cell = *cell - before + after);
                })?;
            }
        }
        self.file.start(column)?;
        for input in self.inputs {
            let (bounds, cells) = input.segment.pieces::<u32, T>(offsets, column)?.whole()?;
            for run in input.rows.of(table).runs() {
                let run = cells.range(bounds[run.start] as usize, bounds[run.end] as usize)?;
                put_changed(&mut self.file, run, |cells| change(input, cells))?;
            }
        }
        Ok(())
    }
}

/// Renumbers symbol codes. Every code is valid: the collection of the symbols has checked that.
fn renamed_list(input: &Input<'_>, codes: &mut [u32]) {
    codes.iter_mut().for_each(|code| *code = input.codes[*code as usize]);
}

/// Writes cells through `change`, chunk by chunk.
fn put_changed<T: AnyBitPattern + NoUninit>(
    file: &mut FileWriter<'_>,
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
