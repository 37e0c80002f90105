//! Magic numbers, versions, file names and columns. Mirror of `format-spec/`; `engine/tests/it/spec.rs` compares the
//! two.

#[cfg(target_endian = "big")]
compile_error!("stored numbers are viewed in place and are little-endian");

/// Lowest version that can read the files of this build, and the highest version that this build reads.
pub const READ_VERSION: u16 = 2;
/// Lowest version that can write to a store that this build has written.
pub const WRITE_VERSION: u16 = 2;

pub(crate) const SEGMENT_MAGIC: &[u8; 8] = b"RCLDSEG\0";
pub(crate) const SEGMENT_END_MAGIC: &[u8; 8] = b"RCLDEND\0";
pub(crate) const LOG_MAGIC: &[u8; 8] = b"RCLDLOG\0";
pub(crate) const STATE_MAGIC: &[u8; 8] = b"RCLDSTA\0";
pub(crate) const INDEX_MAGIC: &[u8; 8] = b"RCLDIDX\0";

pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const TRAILER_BYTES: usize = 64;
pub(crate) const TRAILER_RESERVED_BYTES: usize = 12;
pub(crate) const ENTRY_BYTES: usize = 32;
pub(crate) const COLUMN_ALIGN: usize = 64; // one cache line, and one AVX-512 load
pub(crate) const PAGE_BYTES: usize = 64 << 10;
/// Marker of an absent row: `item_embedding` of an item without embedding, `node_row` of a node in another segment.
pub(crate) const NO_ROW: u32 = u32::MAX;
/// Marker of an absent time.
pub(crate) const NO_TIME: i64 = i64::MIN;
/// Tombstone flag: the bytes of the target are to be erased.
pub(crate) const FLAG_ERASE: u8 = 1;
/// Tombstone flag: the target was already erased when the tombstone was written.
pub(crate) const FLAG_TARGET_ERASED: u8 = 2;

const _: () = assert!(HEADER_BYTES.is_multiple_of(COLUMN_ALIGN));
const _: () = assert!(PAGE_BYTES.is_multiple_of(COLUMN_ALIGN));

/// Decimal digits of a number in a file name.
const NUMBER_DIGITS: usize = 20;
/// Suffix of a file that is still being written.
pub(crate) const UNFINISHED_SUFFIX: &str = ".new";
/// Suffix of a partially present file. Before the suffix come the name of the complete file and a dot.
pub const PARTIAL_SUFFIX: &str = ".part";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Manifest,
    Log,
    Segment,
    Index,
}

impl FileKind {
    const ALL: [Self; 4] = [Self::Manifest, Self::Log, Self::Segment, Self::Index];

    fn stem(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Log => "log",
            Self::Segment => "segment",
            Self::Index => "index",
        }
    }
}

pub(crate) fn file_name(kind: FileKind, number: u64) -> String {
    format!("{}-{number:020}", kind.stem())
}

pub(crate) fn state_name(segment: u64, generation: u64) -> String {
    format!("state-{segment:020}-{generation:020}")
}

/// Returns the number of a file of this kind; `None` for any other name.
pub(crate) fn file_number(kind: FileKind, name: &str) -> Option<u64> {
    let digits = name.strip_prefix(kind.stem())?.strip_prefix('-')?;
    if is_number(digits) { digits.parse().ok() } else { None }
}

fn is_number(digits: &str) -> bool {
    digits.len() == NUMBER_DIGITS && digits.bytes().all(|b| b.is_ascii_digit())
}

fn is_state_name(name: &str) -> bool {
    let generation = |rest: &str| rest.strip_prefix('-').is_some_and(is_number);
    let rest = name.strip_prefix("state-").and_then(|rest| rest.split_at_checked(NUMBER_DIGITS));
    rest.is_some_and(|(segment, rest)| is_number(segment) && generation(rest))
}

/// Returns the largest number in the name of a store file; `None` for any other name.
pub(crate) fn largest_file_number(name: &str) -> Option<u64> {
    let name = name.strip_suffix(UNFINISHED_SUFFIX).unwrap_or(name);
    if !is_state_name(name) {
        return FileKind::ALL.iter().find_map(|&kind| file_number(kind, name));
    }
    name.split('-').filter_map(|digits| digits.parse().ok()).max()
}

/// Returns true for a store file, complete or still being written.
pub(crate) fn is_store_file(name: &str) -> bool {
    largest_file_number(name).is_some()
}

/// Returns true for a file of rows, row state or an index. If no manifest lists the segment, the file is useless.
pub(crate) fn is_segment_data(name: &str) -> bool {
    is_mapped(name) || is_state_name(name)
}

/// Returns true for a file that is memory-mapped: under its final name, the file is never written again.
pub(crate) fn is_mapped(name: &str) -> bool {
    [FileKind::Segment, FileKind::Index].iter().any(|&kind| file_number(kind, name).is_some())
}

/// Returns true if the file `part` is a partial copy of the file `name`.
pub(crate) fn is_partial_of(part: &str, name: &str) -> bool {
    let rest = part.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
    rest.is_some_and(|rest| rest.ends_with(PARTIAL_SUFFIX))
}

/// Returns true for a store file that is still being written.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.strip_suffix(UNFINISHED_SUFFIX).is_some_and(|name| {
        is_state_name(name) || FileKind::ALL.iter().any(|&kind| file_number(kind, name).is_some())
    })
}

/// Number of cells in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cells {
    /// Any number.
    Any,
    /// A cell for each row of the table.
    Of(Table),
    /// A cell for each row of the table, and a last one for the end.
    OffsetsOf(Table),
    /// Either one cell for each row of the table, or no cell at all.
    OfOrNone(Table),
    /// For each vector as many cells as the embedding has dimensions (version 1).
    Unpadded,
    /// For each vector the embedding's dimensions rounded up to a multiple of 32.
    Halves,
    /// For each vector the embedding's dimensions rounded up to a multiple of 64.
    Codes,
}

/// Cells of `vector_halves` per row: a multiple of 64 bytes.
pub(crate) fn halves_per_row(dimensions: u32) -> usize {
    (dimensions as usize).next_multiple_of(32)
}

/// Cells of `vector_codes` per row: a multiple of 64 bytes.
pub(crate) fn codes_per_row(dimensions: u32) -> usize {
    (dimensions as usize).next_multiple_of(64)
}

/// Tables of a segment; each column describes the rows of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Interned names of kinds, modalities, tags, relations and principals.
    Symbols,
    /// Memory items.
    Items,
    /// Sources of items.
    Sources,
    /// Links between items.
    Edges,
    /// Items that have an edge.
    Nodes,
    /// Tombstones of items and edges.
    Tombstones,
    /// Embeddings of items.
    Vectors,
}

/// Number, name and cell format of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Column number in the segment directory.
    pub number: u16,
    /// Column name in segment.md.
    pub name: &'static str,
    /// Bytes of one cell.
    pub cell_bytes: u16,
    /// Number of cells.
    pub cells: Cells,
}

macro_rules! columns {
    ($($constant:ident = $number:literal, $cell:literal, $cells:expr;)*) => {
        $(pub(crate) const $constant: Column = Column($number);)*

        /// All columns of a segment, in ascending order of their numbers.
        pub const COLUMNS: &[ColumnSpec] = &[$(ColumnSpec {
            number: $number,
            name: stringify!($constant),
            cell_bytes: $cell,
            cells: $cells,
        }),*];
    };
}

/// Column number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Column(pub(crate) u16);

impl Column {
    pub(crate) fn spec(self) -> &'static ColumnSpec {
        let at = COLUMNS.binary_search_by_key(&self.0, |spec| spec.number);
        &COLUMNS[at.expect("columns are made from the table")]
    }
}

use Cells::{Any, Codes, Halves, Of, OfOrNone, OffsetsOf};
use Table::{Edges, Items, Nodes, Sources, Symbols, Tombstones, Vectors};

columns! {
    SYMBOL_OFFSETS = 1, 8, OffsetsOf(Symbols);
    SYMBOL_BYTES = 2, 1, Any;
    ITEM_ID = 10, 16, Of(Items);
    ITEM_BY_ID = 11, 4, OfOrNone(Items);
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
    SOURCE_BY_ID = 61, 4, OfOrNone(Sources);
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
    EDGE_BY_ID = 81, 4, OfOrNone(Edges);
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
    TOMBSTONE_FLAGS = 107, 1, Of(Tombstones);
    TOMBSTONE_SUPERSEDES_OFFSETS = 108, 4, OffsetsOf(Tombstones);
    TOMBSTONE_SUPERSEDES_IDS = 109, 16, Any;
    NODE_ID = 110, 16, Of(Nodes);
    NODE_ROW = 111, 4, Of(Nodes);
    EDGE_FROM_NODE = 112, 4, Of(Edges);
    EDGE_TO_NODE = 113, 4, Of(Edges);
    OUT_OFFSETS = 114, 4, OffsetsOf(Nodes);
    OUT_BYTES = 115, 1, Any;
    IN_OFFSETS = 116, 4, OffsetsOf(Nodes);
    IN_BYTES = 117, 1, Any;
    TOMBSTONE_SUCCESSOR_TARGET = 118, 16, Any;
    TOMBSTONE_SUCCESSOR_ROW = 119, 4, Any;
    VECTOR_HALVES = 120, 2, Halves;
    VECTOR_NORM = 121, 4, Of(Vectors);
    VECTOR_ITEM = 122, 4, Of(Vectors);
    VECTOR_CODES = 123, 1, Codes;
    VECTOR_SCALE = 124, 4, Of(Vectors);
    VECTOR_ERROR = 125, 4, Of(Vectors);
    WORD_DICTIONARY = 140, 1, Any;
    WORD_ENTRIES = 141, 1, Any;
    WORD_BLOCKS = 142, 1, Any;
    WORD_POSTINGS = 143, 1, Any;
    WORD_LENGTHS = 144, 1, Any;
}
