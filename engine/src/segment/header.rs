use crate::byte_reader::{ByteReader, ByteWriter};
use crate::error::CorruptionError;
use crate::ids::Seq;
use crate::layout::{HEADER_BYTES, READ_VERSION, SEGMENT_MAGIC, Table, WRITE_VERSION};
use crate::limits::{DIMENSIONS_MAX, SEGMENT_ROWS_MAX};

/// End of the two version fields, in every version.
const VERSIONS_END: usize = 12;
const RESERVED_BYTES: usize = 8;

/// Fields of a segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SegmentHeader {
    pub(crate) dimensions: u32,
    pub(crate) items: u32,
    pub(crate) sources: u32,
    pub(crate) edges: u32,
    pub(crate) tombstones: u32,
    pub(crate) vectors: u32,
    pub(crate) symbols: u32,
    pub(crate) first_seq: Seq,
    pub(crate) last_seq: Seq,
}

/// Returns the lowest version that can read the file. The caller has verified the checksum of the first page.
pub(super) fn read_version(header: &[u8; HEADER_BYTES]) -> u16 {
    u16::from_le_bytes([header[8], header[9]])
}

impl SegmentHeader {
    /// Number of rows of all tables to which commits add.
    pub(crate) fn row_total(&self) -> u64 {
        let tables = [self.items, self.sources, self.edges, self.tombstones];
        tables.into_iter().map(u64::from).sum()
    }

    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, CorruptionError> {
        let mut fields = ByteReader::new(bytes, "SEG-01");
        fields.read_slice(VERSIONS_END)?;
        let header = Self {
            dimensions: fields.u32()?,
            items: fields.u32()?,
            sources: fields.u32()?,
            edges: fields.u32()?,
            tombstones: fields.u32()?,
            vectors: fields.u32()?,
            symbols: fields.u32()?,
            first_seq: fields.u64()?,
            last_seq: fields.u64()?,
        };
        if fields.array::<RESERVED_BYTES>()? != [0; RESERVED_BYTES] {
            return Err(CorruptionError::new(
                "SEG-17",
                "reserved bytes of the header are not zero",
            ));
        }
        let tables = [header.items, header.sources, header.edges, header.tombstones];
        let rows = tables.into_iter().chain([header.vectors, header.symbols]).max();
        if rows.is_some_and(|rows| rows as usize > SEGMENT_ROWS_MAX) {
            let detail =
                format!("a table has {rows:?} rows, at most {SEGMENT_ROWS_MAX} are allowed");
            return Err(CorruptionError::new("SEG-21", detail));
        }
        if header.dimensions > DIMENSIONS_MAX {
            let detail = format!("embeddings {} wide, at most {DIMENSIONS_MAX}", header.dimensions);
            return Err(CorruptionError::new("SEG-21", detail));
        }
        Ok(header)
    }

    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.put(SEGMENT_MAGIC);
        header.put(&READ_VERSION.to_le_bytes());
        header.put(&WRITE_VERSION.to_le_bytes());
        let tables = [self.items, self.sources, self.edges, self.tombstones];
        for number in [self.dimensions].iter().chain(&tables).chain(&[self.vectors, self.symbols]) {
            header.put(&number.to_le_bytes());
        }
        header.put(&self.first_seq.to_le_bytes());
        header.put(&self.last_seq.to_le_bytes());
        header.put(&[0; RESERVED_BYTES]);
        header.try_into().expect("the fields above are 64 bytes")
    }

    /// Number of rows of a table. The header does not count nodes, so `nodes` comes from their column.
    pub(super) fn rows(&self, table: Table, nodes: usize) -> usize {
        match table {
            Table::Symbols => self.symbols as usize,
            Table::Items => self.items as usize,
            Table::Sources => self.sources as usize,
            Table::Edges => self.edges as usize,
            Table::Tombstones => self.tombstones as usize,
            Table::Vectors => self.vectors as usize,
            Table::Nodes => nodes,
        }
    }
}
