//! Merge of many segments into one, column by column, with the rows in commit order.
//!
//! Fixed columns are copied range by range, symbols renumbered, offsets rebased and indexes merged; texts are neither
//! read nor hashed again. Pages are checked before they are copied (SEG-06), so corruption never gets a valid checksum.
//! The caller selects the erased ids.

mod adjacency;
mod columns;
mod error;
mod input;
mod row_map;
mod sorted_indexes;
mod symbols;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::error::CorruptionError;
use crate::fulltext::{self, FulltextColumns, FulltextColumnsRef, PostingsReader};
use crate::layout::*;
use crate::os::mmap::AlignedBytes;
use crate::row_state::RowState;
use crate::segment::{
    ColumnView, EmbeddingsBuilder, Segment, SegmentFileWriter, SegmentHeader, Sink,
};
use crate::segment_snapshot::SegmentSnapshot;
use columns::ColumnMerger;
pub(crate) use error::MergeError;
use input::MergeInput;
use row_map::row_count;
pub(crate) use row_map::{ErasedIds, RowMap, edges_erased_with};

/// Result of a merge.
#[derive(Debug)]
pub(crate) struct MergeOutput {
    /// Header of the new segment.
    pub(crate) header: SegmentHeader,
    /// Length of the new file.
    pub(crate) bytes: u64,
    /// Row mapping of each input.
    pub(crate) rows: Vec<RowMap>,
}

impl MergeOutput {
    /// Merges the current row states of the inputs. `parts` are the merged segments, in the order of the merge.
    pub(crate) fn merge_states(&self, parts: &[SegmentSnapshot]) -> RowState {
        let header = &self.header;
        let mut state = RowState::empty(header.items as usize, header.edges as usize);
        for (map, part) in self.rows.iter().zip(parts) {
            let old = &*part.state;
            let items = [
                (&old.tombstoned, &mut state.tombstoned),
                (&old.superseded, &mut state.superseded),
            ];
            for (from, to) in items {
                map.items.map_bits(from, to);
            }
            map.edges.map_bits(&old.edges_tombstoned, &mut state.edges_tombstoned);
        }
        state
    }
}

impl Segment {
    /// Opens the postings columns; their pages are checked on first use by a query.
    pub(crate) fn postings(&self) -> Result<PostingsReader<ColumnView<'_, u8>>, CorruptionError> {
        let columns = FulltextColumnsRef {
            dictionary: self.column(WORD_DICTIONARY)?,
            entries: self.column(WORD_ENTRIES)?,
            blocks: self.column(WORD_BLOCKS)?,
            postings: self.column(WORD_POSTINGS)?,
            lengths: self.column(WORD_LENGTHS)?,
        };
        let open =
            if self.has_heap_words { PostingsReader::open_on_heap } else { PostingsReader::open };
        open(columns, self.header().items).map_err(|damage| self.words_damage(damage))
    }

    /// Adds the file's name to a corruption of the postings; a corrupt page's error has the name already.
    pub(crate) fn words_damage(&self, damage: CorruptionError) -> CorruptionError {
        if damage.rule.starts_with("WRD") { damage.in_file(self.name()) } else { damage }
    }
}

/// Merged segment on the heap that is not installed yet.
#[derive(Debug)]
pub(crate) struct HeapMergeOutput {
    segment: Arc<Segment>,
    output: MergeOutput,
}

impl HeapMergeOutput {
    /// Merges all rows of `parts`, whose states may still change until the merged segment replaces the parts.
    pub(crate) fn merge(parts: &[SegmentSnapshot]) -> Result<Self, CorruptionError> {
        let segments: Vec<_> = parts.iter().map(|part| part.segment.clone()).collect();
        // Slightly more than needed: headers and common names are written once.
        let room = segments.iter().map(|segment| segment.file_bytes()).sum();
        let mut bytes = AlignedBytes::with_room(room);
        let merged = row_map::row_maps(&segments, &ErasedIds::default())
            .and_then(|rows| write(&segments, rows, MergeTarget::Heap, &mut bytes))
            .map_err(heap_error)?;
        Ok(Self { segment: Arc::new(Segment::from_heap(bytes)), output: merged })
    }

    /// Attaches the states that the inputs have now.
    pub(crate) fn into_snapshot(self, now: &[SegmentSnapshot]) -> SegmentSnapshot {
        SegmentSnapshot { segment: self.segment, state: Arc::new(self.output.merge_states(now)) }
    }
}

/// Merges all rows of `parts` and their states into one segment on the heap.
pub(crate) fn merge_segments(
    parts: &[SegmentSnapshot],
) -> Result<SegmentSnapshot, CorruptionError> {
    Ok(HeapMergeOutput::merge(parts)?.into_snapshot(parts))
}

/// Maps an error of a merge on the heap to corruption: the tail is sealed at a small part of a segment's capacity, and
/// writes to the heap cannot fail.
fn heap_error(error: MergeError) -> CorruptionError {
    match error {
        MergeError::Damaged(damage) => damage,
        other => CorruptionError::new("SEG-21", other.to_string()),
    }
}

/// Encodes a heap segment in the layout of a segment file.
pub(crate) fn encode_as_file(segment: &Arc<Segment>) -> Result<AlignedBytes, CorruptionError> {
    let mut bytes = AlignedBytes::with_room(segment.file_bytes());
    let segments = std::slice::from_ref(segment);
    merge_to(segments, &ErasedIds::default(), &mut bytes).map_err(heap_error)?;
    Ok(bytes)
}

/// Merges `segments`, which are in commit order, into one segment without the `erased` rows. The heap holds only the
/// postings, the symbols and one index at a time.
pub(crate) fn merge_to(
    segments: &[Arc<Segment>],
    erased: &ErasedIds,
    sink: &mut dyn Sink,
) -> Result<MergeOutput, MergeError> {
    let rows = row_map::row_maps(segments, erased)?;
    write(segments, rows, MergeTarget::File(None), sink)
}

/// Rewrites a segment with new embeddings: one for each existing embedding, in their order.
pub(crate) fn merge_with_embeddings(
    segment: &Arc<Segment>,
    embeddings: &NewEmbeddings,
    sink: &mut dyn Sink,
) -> Result<MergeOutput, MergeError> {
    let had = segment.header().vectors;
    assert_eq!(embeddings.vectors.count(), had, "an embedding for each that there was");
    let segments = std::slice::from_ref(segment);
    let rows = row_map::row_maps(segments, &ErasedIds::default())?;
    write(segments, rows, MergeTarget::File(Some(embeddings)), sink)
}

/// Embeddings of a new model.
#[derive(Debug)]
pub(crate) struct NewEmbeddings {
    /// Dimensions of each embedding.
    pub(crate) dimensions: u32,
    /// Embeddings, in row order.
    pub(crate) vectors: EmbeddingsBuilder,
}

/// Destination of the merged segment.
#[derive(Clone, Copy)]
enum MergeTarget<'a> {
    /// The heap, until the next merge.
    Heap,
    /// A file, optionally with new embeddings.
    File(Option<&'a NewEmbeddings>),
}

fn write(
    segments: &[Arc<Segment>],
    rows: Vec<RowMap>,
    stay: MergeTarget<'_>,
    sink: &mut dyn Sink,
) -> Result<MergeOutput, MergeError> {
    let symbols = symbols::MergedSymbols::merge(segments, &rows)?;
    let mut header = header(segments, &rows, symbols.count())?;
    let embeddings = match stay {
        MergeTarget::Heap => None,
        MergeTarget::File(embeddings) => embeddings,
    };
    if let Some(others) = embeddings.filter(|_| header.vectors > 0) {
        header.dimensions = others.dimensions;
    }
    let words = merge_words(segments, &rows, header.items, stay, &mut || sink.after_work())?;
    let inputs = segments.iter().zip(&rows).zip(&symbols.codes);
    let inputs: Vec<MergeInput<'_>> =
        inputs.map(|((segment, rows), codes)| MergeInput { segment, rows, codes }).collect();
    let mut copier =
        ColumnMerger { inputs: &inputs, file: SegmentFileWriter::begin(sink, &header)? };
    copier.file.column(SYMBOL_OFFSETS, &symbols.offsets)?;
    copier.file.column(SYMBOL_BYTES, &symbols.bytes)?;
    copier.items()?;
    copier.sources()?;
    copier.edges()?;
    copier.tombstones()?;
    copier.endpoints()?;
    copier.erased_successors()?;
    match embeddings {
        None => copier.vectors(header.dimensions)?,
        Some(others) => others.vectors.write(&mut copier.file)?,
    }
    copier.file.words(&words)?;
    let bytes = copier.file.finish()?;
    Ok(MergeOutput { header, bytes, rows })
}

fn header(
    segments: &[Arc<Segment>],
    rows: &[RowMap],
    symbols: usize,
) -> Result<SegmentHeader, MergeError> {
    let count = |table: Table| {
        let total: u64 = rows.iter().map(|map| u64::from(map.table(table).live_rows())).sum();
        row_count(table, total)
    };
    let mut dimensions = None;
    for (segment, map) in segments.iter().zip(rows) {
        let width = segment.header().dimensions;
        if map.vectors.live_rows() > 0 && *dimensions.get_or_insert(width) != width {
            let detail = format!("embeddings {width} wide beside {dimensions:?}");
            return Err(CorruptionError::new("MAN-06", detail).in_file(segment.name()).into());
        }
    }
    // A segment without commits, from an empty tail, has 0 for both commits.
    let covered = segments.iter().map(|segment| segment.header()).filter(|it| it.last_seq > 0);
    Ok(SegmentHeader {
        dimensions: dimensions.unwrap_or_default(),
        items: count(Table::Items)?,
        sources: count(Table::Sources)?,
        edges: count(Table::Edges)?,
        tombstones: count(Table::Tombstones)?,
        vectors: count(Table::Vectors)?,
        symbols: row_count(Table::Symbols, symbols as u64)?,
        first_seq: covered.clone().map(|header| header.first_seq).min().unwrap_or_default(),
        last_seq: covered.map(|header| header.last_seq).max().unwrap_or_default(),
    })
}

fn merge_words(
    segments: &[Arc<Segment>],
    rows: &[RowMap],
    items: u32,
    stay: MergeTarget<'_>,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<FulltextColumns, MergeError> {
    let mut views = Vec::with_capacity(segments.len());
    for (segment, map) in segments.iter().zip(rows) {
        views.push((segment.postings()?, |row| map.items.new_row(row)));
    }
    let merged = match stay {
        MergeTarget::Heap => fulltext::merge_on_heap(&views, items),
        MergeTarget::File(_) => fulltext::merge_while(&views, items, goes_on),
    };
    merged.map_err(|error| match error {
        fulltext::PostingsMergeError::Damaged(damage) => {
            let names: Vec<_> = segments.iter().map(|segment| segment.name()).collect();
            damage.in_file(&names.join(" or ")).into()
        }
        fulltext::PostingsMergeError::Cancelled => MergeError::Cancelled,
        other => MergeError::TooLarge(other.to_string()),
    })
}
