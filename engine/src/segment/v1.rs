//! Segments of format version 1 (`format-spec/history.md`): opened with their own column table and rewritten as version
//! 2.
//!
//! Owns everything that differs in version 1; the rest of the engine never sees such a file.

use half::f16;

use super::Segment;
use super::reader::{SegmentLayout, advise_lookup};
use super::writer::SegmentBuilder;
use crate::error::{CorruptionError, OpenError};
use crate::fulltext::FulltextColumns;
use crate::ids::{ItemId, Row};
use crate::layout::Cells::{Any, Of, OffsetsOf, Unpadded};
use crate::layout::Table::{Edges, Items, Sources, Symbols, Tombstones, Vectors};
use crate::layout::{
    COLUMNS, Column, ColumnSpec, VECTOR_HALVES, WORD_BLOCKS, WORD_DICTIONARY, WORD_ENTRIES,
    WORD_LENGTHS, WORD_POSTINGS,
};
use crate::os::mmap::{AlignedBytes, FileBytes};

const VERSION: u16 = 1;

/// Opened segment of any version.
#[derive(Debug)]
pub(crate) struct OpenedSegment {
    pub(crate) segment: Segment,
    /// True if the file is of an older version and `segment` is its conversion on the heap.
    pub(crate) is_upgraded: bool,
}

/// Opens a segment of any version that this build reads. A file of an older version is converted on the heap.
pub(crate) fn open_any(name: &str, bytes: FileBytes) -> Result<OpenedSegment, OpenError> {
    advise_lookup(&bytes);
    let frame = SegmentLayout::read(name, &bytes)?;
    if frame.version != VERSION {
        let segment = Segment::open_as(name, bytes, &frame, COLUMNS)?;
        segment.advise_queries();
        return Ok(OpenedSegment { segment, is_upgraded: false });
    }
    let upgraded = upgrade(name, bytes)?;
    Ok(OpenedSegment { segment: Segment::from_heap_named(name, upgraded), is_upgraded: true })
}

/// Converts a version 1 file to version 2: the rows pass through the builder, and the words are copied unchanged.
pub(crate) fn upgrade(name: &str, bytes: FileBytes) -> Result<AlignedBytes, OpenError> {
    let frame = SegmentLayout::read(name, &bytes)?;
    if frame.version != VERSION {
        let detail = format!("version {} where {VERSION} is wanted", frame.version);
        return Err(CorruptionError::new("SEG-02", detail).in_file(name).into());
    }
    let old = Segment::open_as(name, bytes, &frame, COLUMNS_V1)?;
    Ok(rewrite(&old)?)
}

fn rewrite(old: &Segment) -> Result<AlignedBytes, CorruptionError> {
    let header = *old.header();
    let mut builder = SegmentBuilder::default();
    builder.note_commit(header.first_seq);
    builder.note_commit(header.last_seq);
    for row in 0..header.sources {
        let source = old.source(row)?;
        builder.push_source(source.seq, &source.to_draft());
    }
    for row in 0..header.items {
        let item = old.item(row)?;
        let mut draft = item.to_draft();
        if let Some(row) = item.embedding {
            draft.embedding = embedding(old, row)?.to_vec();
        }
        builder.push_item(item.seq, &draft, item.content_sha256);
    }
    let (from, to) = (old.column::<u128>(EDGE_FROM)?, old.column::<u128>(EDGE_TO)?);
    for row in 0..header.edges {
        let at = row as usize;
        let edge = old.edge_between(row, ItemId(from.get(at)?), ItemId(to.get(at)?))?;
        builder.push_edge(edge.seq, &edge.to_draft());
    }
    for row in 0..header.tombstones {
        let stone = old.tombstone_v1(row)?;
        builder.push_tombstone(stone.seq, &stone.to_draft());
    }
    let bytes = |column| Ok::<_, CorruptionError>(old.column::<u8>(column)?.all()?.to_vec());
    Ok(builder.finish_with(&FulltextColumns {
        dictionary: bytes(WORD_DICTIONARY)?,
        entries: bytes(WORD_ENTRIES)?,
        blocks: bytes(WORD_BLOCKS)?,
        postings: bytes(WORD_POSTINGS)?,
        lengths: bytes(WORD_LENGTHS)?,
    }))
}

/// Returns an embedding of version 1, whose rows are not padded.
fn embedding(old: &Segment, row: Row) -> Result<&[f16], CorruptionError> {
    let width = old.header().dimensions as usize;
    old.column(VECTOR_HALVES)?.range(row as usize * width, (row as usize + 1) * width)
}

pub(super) const EDGE_FROM: Column = Column(82);
pub(super) const EDGE_TO: Column = Column(84);

macro_rules! columns {
    ($($name:ident = $number:literal, $cell:literal, $cells:expr;)*) => {
        /// All columns of a version 1 segment, in ascending order of their numbers.
        pub(super) const COLUMNS_V1: &[ColumnSpec] = &[$(ColumnSpec {
            number: $number,
            name: stringify!($name),
            cell_bytes: $cell,
            cells: $cells,
        }),*];
    };
}

columns! {
    SYMBOL_OFFSETS = 1, 8, OffsetsOf(Symbols);
    SYMBOL_BYTES = 2, 1, Any;
    ITEM_ID = 10, 16, Of(Items);
    ITEM_BY_ID = 11, 4, Of(Items);
    ITEM_SEQ = 12, 8, Of(Items);
    ITEM_KIND = 13, 4, Of(Items);
    ITEM_MODALITY = 14, 4, Of(Items);
    ITEM_RECORDED_BY = 15, 4, Of(Items);
    ITEM_VIA = 16, 4, Of(Items);
    ITEM_FLAGS = 17, 1, Of(Items);
    ITEM_SENSITIVITY = 18, 1, Of(Items);
    TITLE_OFFSETS = 19, 8, OffsetsOf(Items);
    TITLE_BYTES = 20, 1, Any;
    TEXT_OFFSETS = 21, 8, OffsetsOf(Items);
    TEXT_BYTES = 22, 1, Any;
    ATTRIBUTE_OFFSETS = 23, 8, OffsetsOf(Items);
    ATTRIBUTE_BYTES = 24, 1, Any;
    REF_OFFSETS = 25, 8, OffsetsOf(Items);
    REF_BYTES = 26, 1, Any;
    ITEM_BY_REF = 27, 4, Any;
    TAG_OFFSETS = 28, 4, OffsetsOf(Items);
    TAG_CODES = 29, 4, Any;
    GATE_OFFSETS = 30, 4, OffsetsOf(Items);
    GATE_CODES = 31, 4, Any;
    SUPERSEDES_OFFSETS = 32, 4, OffsetsOf(Items);
    SUPERSEDES_IDS = 33, 16, Any;
    SUCCESSOR_TARGET = 34, 16, Any;
    SUCCESSOR_ROW = 35, 4, Any;
    ITEM_SOURCE = 36, 16, Of(Items);
    ITEM_BY_SOURCE = 37, 4, Any;
    SPAN_BYTES = 38, 16, Of(Items);
    SPAN_LINES = 39, 8, Of(Items);
    ITEM_RECORDED_AT = 40, 8, Of(Items);
    ITEM_VALID_FROM = 41, 8, Of(Items);
    ITEM_VALID_TO = 42, 8, Of(Items);
    ITEM_SHA256 = 43, 32, Of(Items);
    ITEM_EMBEDDING = 44, 4, Of(Items);
    SOURCE_ID = 60, 16, Of(Sources);
    SOURCE_BY_ID = 61, 4, Of(Sources);
    SOURCE_KIND = 62, 4, Of(Sources);
    SOURCE_URI_OFFSETS = 63, 8, OffsetsOf(Sources);
    SOURCE_URI_BYTES = 64, 1, Any;
    SOURCE_BY_URI = 65, 4, Of(Sources);
    SOURCE_TITLE_OFFSETS = 66, 8, OffsetsOf(Sources);
    SOURCE_TITLE_BYTES = 67, 1, Any;
    SOURCE_SHA256 = 68, 32, Of(Sources);
    SOURCE_BYTES = 69, 8, Of(Sources);
    SOURCE_RECORDED_AT = 70, 8, Of(Sources);
    SOURCE_RECORDED_BY = 71, 4, Of(Sources);
    SOURCE_VIA = 72, 4, Of(Sources);
    SOURCE_SEQ = 73, 8, Of(Sources);
    EDGE_ID = 80, 16, Of(Edges);
    EDGE_BY_ID = 81, 4, Of(Edges);
    EDGE_FROM = 82, 16, Of(Edges);
    EDGE_BY_FROM = 83, 4, Of(Edges);
    EDGE_TO = 84, 16, Of(Edges);
    EDGE_BY_TO = 85, 4, Of(Edges);
    EDGE_RELATION = 86, 4, Of(Edges);
    EDGE_WEIGHT = 87, 4, Of(Edges);
    EDGE_SOURCE = 88, 16, Of(Edges);
    EDGE_RECORDED_AT = 89, 8, Of(Edges);
    EDGE_RECORDED_BY = 90, 4, Of(Edges);
    EDGE_VALID_FROM = 91, 8, Of(Edges);
    EDGE_VALID_TO = 92, 8, Of(Edges);
    EDGE_NOTE_OFFSETS = 93, 8, OffsetsOf(Edges);
    EDGE_NOTE_BYTES = 94, 1, Any;
    EDGE_SEQ = 95, 8, Of(Edges);
    TOMBSTONE_TARGET = 100, 16, Of(Tombstones);
    TOMBSTONE_BY_TARGET = 101, 4, Of(Tombstones);
    TOMBSTONE_AT = 102, 8, Of(Tombstones);
    TOMBSTONE_BY = 103, 4, Of(Tombstones);
    TOMBSTONE_REASON_OFFSETS = 104, 8, OffsetsOf(Tombstones);
    TOMBSTONE_REASON_BYTES = 105, 1, Any;
    TOMBSTONE_SEQ = 106, 8, Of(Tombstones);
    VECTOR_HALVES = 120, 2, Unpadded;
    VECTOR_NORM = 121, 4, Of(Vectors);
    VECTOR_ITEM = 122, 4, Of(Vectors);
    WORD_DICTIONARY = 140, 1, Any;
    WORD_ENTRIES = 141, 1, Any;
    WORD_BLOCKS = 142, 1, Any;
    WORD_POSTINGS = 143, 1, Any;
    WORD_LENGTHS = 144, 1, Any;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden() -> Vec<(String, Vec<u8>)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../format-spec/vectors/v1-small");
        let names = ["segment-00000000000000000002", "segment-00000000000000000004"];
        names
            .map(|name| (name.to_owned(), std::fs::read(format!("{folder}/{name}")).unwrap()))
            .into()
    }

    #[test]
    fn version_1_segment_upgrades_with_equal_rows() {
        for (name, bytes) in golden() {
            let frame = SegmentLayout::read(&name, &bytes[..]).unwrap();
            let old =
                Segment::open_as(&name, FileBytes::copy_from(&bytes), &frame, COLUMNS_V1).unwrap();
            let new = open_any(&name, FileBytes::copy_from(&bytes)).unwrap();
            assert!(new.is_upgraded);
            let (header, new) = (*old.header(), new.segment);
            assert_eq!(*new.header(), header);
            assert_eq!(new.name(), name);
            for row in 0..header.items {
                assert_eq!(new.item(row).unwrap(), old.item(row).unwrap());
                assert_eq!(new.row_of_item(old.item_id(row).unwrap()).unwrap(), Some(row));
            }
            for row in 0..header.vectors {
                assert_eq!(new.vector(row).unwrap(), embedding(&old, row).unwrap());
            }
            for row in 0..header.sources {
                assert_eq!(new.source(row).unwrap(), old.source(row).unwrap());
            }
            for row in 0..header.edges {
                let ends = [EDGE_FROM, EDGE_TO]
                    .map(|column| ItemId(old.column(column).unwrap().get(row as usize).unwrap()));
                let edge = old.edge_between(row, ends[0], ends[1]).unwrap();
                assert_eq!(new.edge(row).unwrap(), edge);
                assert!(new.edge_rows_from(edge.from).unwrap().contains(&row));
                assert!(new.edge_rows_to(edge.to).unwrap().contains(&row));
            }
            for row in 0..header.tombstones {
                assert_eq!(new.tombstone(row).unwrap(), old.tombstone_v1(row).unwrap());
            }
            let words = |segment: &Segment| {
                segment.column::<u8>(WORD_POSTINGS).unwrap().all().unwrap().to_vec()
            };
            assert_eq!(words(&new), words(&old));
            new.check_padding().unwrap();
        }
    }

    #[test]
    fn segment_versions_are_not_interchangeable() {
        for (name, bytes) in golden() {
            let why = Segment::open(&name, FileBytes::copy_from(&bytes)).unwrap_err().to_string();
            assert!(why.contains("SEG-02") && why.contains(&name), "{why}");
            let new = upgrade(&name, FileBytes::copy_from(&bytes)).unwrap();
            let again = upgrade(&name, FileBytes::copy_from(new.as_slice())).map(drop).unwrap_err();
            assert!(again.to_string().contains("SEG-02"), "{again}");
            assert!(!open_any(&name, FileBytes::from_heap(new)).unwrap().is_upgraded);
        }
    }

    #[test]
    fn version_1_segment_byte_flips_are_detected() {
        let (name, bytes) = golden().remove(0);
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            let found = open_any(&name, FileBytes::copy_from(&bad)).map(drop);
            assert!(matches!(found, Err(OpenError::Damaged(_))), "byte {at}: {found:?}");
        }
    }
}
