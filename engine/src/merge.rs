//! Merge of many segments into one, column by column, with the rows in commit order.
//!
//! Fixed columns are copied range by range, symbols renumbered, offsets rebased and indexes merged; texts are neither
//! read nor hashed again. Pages are checked before they are copied (SEG-06), so corruption never gets a valid checksum.
//! The caller selects the erased ids.

mod columns;
mod ends;
mod error;
mod input;
mod order;
mod rows;
mod symbols;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::error::Damage;
use crate::layout::*;
use crate::os::mmap::AlignedBytes;
use crate::part::Part;
use crate::segment::{FileWriter, Header, Segment, Sink, Vectors, View};
use crate::state::RowState;
use crate::words::{self, PostingsView, WordColumns, WordColumnsRef};
use columns::Copier;
pub(crate) use error::MergeError;
use input::Input;
use rows::row_count;
pub(crate) use rows::{Erased, RowMap, edges_with};

/// Result of a merge.
#[derive(Debug)]
pub(crate) struct Merged {
    /// Header of the new segment.
    pub(crate) header: Header,
    /// Length of the new file.
    pub(crate) bytes: u64,
    /// Row mapping of each input.
    pub(crate) rows: Vec<RowMap>,
}

impl Merged {
    /// Merges the current row states of the inputs. `parts` are the merged segments, in the order of the merge.
    pub(crate) fn carry_states(&self, parts: &[Part]) -> RowState {
        let header = &self.header;
        let mut state = RowState::fresh(header.items as usize, header.edges as usize);
        for (map, part) in self.rows.iter().zip(parts) {
            let old = &*part.state;
            let items = [
                (&old.tombstoned, &mut state.tombstoned),
                (&old.superseded, &mut state.superseded),
            ];
            for (from, to) in items {
                map.items.carry(from, to);
            }
            map.edges.carry(&old.edges_tombstoned, &mut state.edges_tombstoned);
        }
        state
    }
}

impl Segment {
    /// Opens the postings columns; their pages are checked on first use by a query.
    pub(crate) fn words(&self) -> Result<PostingsView<View<'_, u8>>, Damage> {
        let columns = WordColumnsRef {
            dictionary: self.view(WORD_DICTIONARY)?,
            entries: self.view(WORD_ENTRIES)?,
            blocks: self.view(WORD_BLOCKS)?,
            postings: self.view(WORD_POSTINGS)?,
            lengths: self.view(WORD_LENGTHS)?,
        };
        let open = if self.is_of_heap { PostingsView::open_on_heap } else { PostingsView::open };
        open(columns, self.header().items).map_err(|damage| self.words_damage(damage))
    }

    /// Adds the file's name to a corruption of the postings; a corrupt page's error has the name already.
    pub(crate) fn words_damage(&self, damage: Damage) -> Damage {
        if damage.rule.starts_with("WRD") { damage.within(self.name()) } else { damage }
    }
}

/// Merged segment on the heap that is not installed yet.
#[derive(Debug)]
pub(crate) struct HeapMerged {
    segment: Arc<Segment>,
    merged: Merged,
}

impl HeapMerged {
    /// Merges all rows of `parts`, whose states may still change until the merged segment replaces the parts.
    pub(crate) fn of(parts: &[Part]) -> Result<Self, Damage> {
        let segments: Vec<_> = parts.iter().map(|part| part.segment.clone()).collect();
        // Slightly more than needed: headers and common names are written once.
        let room = segments.iter().map(|segment| segment.file_bytes()).sum();
        let mut bytes = AlignedBytes::with_room(room);
        let merged = rows::kept(&segments, &Erased::default())
            .and_then(|rows| write(&segments, rows, Stay::OnHeap, &mut bytes))
            .map_err(on_heap)?;
        Ok(Self { segment: Arc::new(Segment::held(bytes)), merged })
    }

    /// Attaches the states that the inputs have now.
    pub(crate) fn part(self, now: &[Part]) -> Part {
        Part { segment: self.segment, state: Arc::new(self.merged.carry_states(now)) }
    }
}

/// Merges all rows of `parts` and their states into one segment on the heap.
pub(crate) fn merge(parts: &[Part]) -> Result<Part, Damage> {
    Ok(HeapMerged::of(parts)?.part(parts))
}

/// Maps an error of a merge on the heap to corruption: the tail is sealed at a small part of a segment's capacity, and
/// writes to the heap cannot fail.
fn on_heap(error: MergeError) -> Damage {
    match error {
        MergeError::Damaged(damage) => damage,
        other => Damage::new("SEG-21", other.to_string()),
    }
}

/// Encodes a heap segment in the layout of a segment file.
pub(crate) fn as_file(segment: &Arc<Segment>) -> Result<AlignedBytes, Damage> {
    let mut bytes = AlignedBytes::with_room(segment.file_bytes());
    let segments = std::slice::from_ref(segment);
    merge_to(segments, &Erased::default(), &mut bytes).map_err(on_heap)?;
    Ok(bytes)
}

/// Merges `segments`, which are in commit order, into one segment without the `erased` rows. The heap holds only the
/// postings, the symbols and one index at a time.
pub(crate) fn merge_to(
    segments: &[Arc<Segment>],
    erased: &Erased,
    sink: &mut dyn Sink,
) -> Result<Merged, MergeError> {
    let rows = rows::kept(segments, erased)?;
    write(segments, rows, Stay::InFile(None), sink)
}

/// Rewrites a segment with new embeddings: one for each existing embedding, in their order.
pub(crate) fn with_embeddings(
    segment: &Arc<Segment>,
    embeddings: &Embeddings,
    sink: &mut dyn Sink,
) -> Result<Merged, MergeError> {
    let had = segment.header().vectors;
    assert_eq!(embeddings.vectors.count(), had, "an embedding for each that there was");
    let segments = std::slice::from_ref(segment);
    let rows = rows::kept(segments, &Erased::default())?;
    write(segments, rows, Stay::InFile(Some(embeddings)), sink)
}

/// Embeddings of a new model.
#[derive(Debug)]
pub(crate) struct Embeddings {
    /// Dimensions of each embedding.
    pub(crate) dimensions: u32,
    /// Embeddings, in row order.
    pub(crate) vectors: Vectors,
}

/// Destination of the merged segment.
#[derive(Clone, Copy)]
enum Stay<'a> {
    /// The heap, until the next merge.
    OnHeap,
    /// A file, optionally with new embeddings.
    InFile(Option<&'a Embeddings>),
}

fn write(
    segments: &[Arc<Segment>],
    rows: Vec<RowMap>,
    stay: Stay<'_>,
    sink: &mut dyn Sink,
) -> Result<Merged, MergeError> {
    let symbols = symbols::Renamed::of(segments, &rows)?;
    let mut header = header(segments, &rows, symbols.count())?;
    let embeddings = match stay {
        Stay::OnHeap => None,
        Stay::InFile(embeddings) => embeddings,
    };
    if let Some(others) = embeddings.filter(|_| header.vectors > 0) {
        header.dimensions = others.dimensions;
    }
    let words = merge_words(segments, &rows, header.items, stay, &mut || sink.worked())?;
    let inputs = segments.iter().zip(&rows).zip(&symbols.codes);
    let inputs: Vec<Input<'_>> =
        inputs.map(|((segment, rows), codes)| Input { segment, rows, codes }).collect();
    let mut copier = Copier { inputs: &inputs, file: FileWriter::begin(sink, &header)? };
    copier.file.column(SYMBOL_OFFSETS, &symbols.offsets)?;
    copier.file.column(SYMBOL_BYTES, &symbols.bytes)?;
    copier.items()?;
    copier.sources()?;
    copier.edges()?;
    copier.tombstones()?;
    copier.ends()?;
    copier.erased_successors()?;
    match embeddings {
        None => copier.vectors(header.dimensions)?,
        Some(others) => others.vectors.write(&mut copier.file)?,
    }
    copier.file.words(&words)?;
    let bytes = copier.file.finish()?;
    Ok(Merged { header, bytes, rows })
}

fn header(
    segments: &[Arc<Segment>],
    rows: &[RowMap],
    symbols: usize,
) -> Result<Header, MergeError> {
    let count = |table: Table| {
        let total: u64 = rows.iter().map(|map| u64::from(map.of(table).kept())).sum();
        row_count(table, total)
    };
    let mut dimensions = None;
    for (segment, map) in segments.iter().zip(rows) {
        let width = segment.header().dimensions;
        if map.vectors.kept() > 0 && *dimensions.get_or_insert(width) != width {
            let detail = format!("embeddings {width} wide beside {dimensions:?}");
            return Err(Damage::new("MAN-06", detail).within(segment.name()).into());
        }
    }
    // A segment without commits, from an empty tail, has 0 for both commits.
    let covered = segments.iter().map(|segment| segment.header()).filter(|it| it.last_seq > 0);
    Ok(Header {
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
    stay: Stay<'_>,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<WordColumns, MergeError> {
    let mut views = Vec::with_capacity(segments.len());
    for (segment, map) in segments.iter().zip(rows) {
        views.push((segment.words()?, |row| map.items.new_row(row)));
    }
    let merged = match stay {
        Stay::OnHeap => words::merge_on_heap(&views, items),
        Stay::InFile(_) => words::merge_while(&views, items, goes_on),
    };
    merged.map_err(|error| match error {
        words::MergeError::Damaged(damage) => {
            let names: Vec<_> = segments.iter().map(|segment| segment.name()).collect();
            damage.within(&names.join(" or ")).into()
        }
        words::MergeError::Cancelled => MergeError::Cancelled,
        other => MergeError::TooLarge(other.to_string()),
    })
}
