//! Writer of a segment's file: header, columns, directory, page checksums, trailer.
//!
//! Owns offsets and checksums, computed while bytes pass, so at most a part of a column must be in memory. The meaning
//! of the columns is left to the caller.

use bytemuck::NoUninit;

use super::adjacency::PackedAdjacency;
use super::column_builders::{ListColumn, TextColumn, row_number};
use super::header::SegmentHeader;
use super::sink::Sink;
use crate::byte_reader::ByteWriter;
use crate::error::DiskError;
use crate::fulltext::FulltextColumns;
use crate::layout::*;

/// Endpoints of the edges: nodes, and the start and end node of each edge.
pub(crate) struct EdgeEndpoints<'a> {
    /// Ids of the nodes, ascending.
    pub(crate) nodes: &'a [u128],
    /// Item row of each node.
    pub(crate) rows: &'a [u32],
    /// Start node of each edge.
    pub(crate) from: &'a [u32],
    /// End node of each edge.
    pub(crate) to: &'a [u32],
}

/// Writes a segment's file into a [`Sink`].
pub(crate) struct SegmentFileWriter<'s> {
    sink: &'s mut dyn Sink,
    bytes: u64,
    /// CRC-32C of the current page.
    page_crc: u32,
    page_fill: usize,
    checks: Vec<u8>,
    directory: Vec<u8>,
    /// Current column and its start offset.
    column: Option<(Column, u64)>,
}

impl<'s> SegmentFileWriter<'s> {
    /// Begins a file with this header.
    pub(crate) fn begin(sink: &'s mut dyn Sink, header: &SegmentHeader) -> Result<Self, DiskError> {
        let mut file = Self {
            sink,
            bytes: 0,
            page_crc: 0,
            page_fill: 0,
            checks: Vec::new(),
            directory: Vec::new(),
            column: None,
        };
        file.put(&header.encode())?;
        Ok(file)
    }

    /// Starts the next column. Columns must be written in ascending order of their numbers (SEG-07).
    pub(crate) fn start(&mut self, column: Column) -> Result<(), DiskError> {
        self.end_column()?;
        self.column = Some((column, self.bytes));
        Ok(())
    }

    /// Appends cells to the current column.
    pub(crate) fn cells<T: NoUninit>(&mut self, cells: &[T]) -> Result<(), DiskError> {
        let (column, _) = self.column.expect("cells belong to a column");
        let spec = column.spec();
        assert_eq!(size_of::<T>(), usize::from(spec.cell_bytes), "cell of {}", spec.name);
        self.put(bytemuck::cast_slice(cells))
    }

    /// Writes a whole column.
    pub(crate) fn column<T: NoUninit>(
        &mut self,
        column: Column,
        cells: &[T],
    ) -> Result<(), DiskError> {
        self.start(column)?;
        self.cells(cells)
    }

    /// Writes a column of texts.
    pub(super) fn texts(
        &mut self,
        offsets: Column,
        bytes: Column,
        texts: &TextColumn,
    ) -> Result<(), DiskError> {
        self.column(offsets, &texts.offsets)?;
        self.column(bytes, &texts.bytes)
    }

    /// Writes a column of lists.
    pub(super) fn lists<T: NoUninit>(
        &mut self,
        offsets: Column,
        cells: Column,
        lists: &ListColumn<T>,
    ) -> Result<(), DiskError> {
        self.column(offsets, &lists.offsets)?;
        self.column(cells, &lists.cells)
    }

    /// Writes the columns of nodes and of the edges at each node. If the lists exceed the range of the offsets, returns
    /// `None` (SEG-21), and the file must be discarded.
    pub(crate) fn endpoints(&mut self, ends: &EdgeEndpoints<'_>) -> Result<Option<()>, DiskError> {
        let nodes = ends.nodes.len();
        let out = PackedAdjacency::pack(nodes, ends.from);
        let (Some(out), Some(back)) = (out, PackedAdjacency::pack(nodes, ends.to)) else {
            return Ok(None);
        };
        self.column(NODE_ID, ends.nodes)?;
        self.column(NODE_ROW, ends.rows)?;
        self.column(EDGE_FROM_NODE, ends.from)?;
        self.column(EDGE_TO_NODE, ends.to)?;
        self.column(OUT_OFFSETS, &out.offsets)?;
        self.column(OUT_BYTES, &out.bytes)?;
        self.column(IN_OFFSETS, &back.offsets)?;
        self.column(IN_BYTES, &back.bytes)?;
        Ok(Some(()))
    }

    /// Writes the columns of the full-text index.
    pub(crate) fn words(&mut self, words: &FulltextColumns) -> Result<(), DiskError> {
        self.column(WORD_DICTIONARY, &words.dictionary)?;
        self.column(WORD_ENTRIES, &words.entries)?;
        self.column(WORD_BLOCKS, &words.blocks)?;
        self.column(WORD_POSTINGS, &words.postings)?;
        self.column(WORD_LENGTHS, &words.lengths)
    }

    /// Writes everything after the columns and returns the length of the file.
    pub(crate) fn finish(mut self) -> Result<u64, DiskError> {
        self.end_column()?;
        let directory_at = self.bytes;
        let directory = std::mem::take(&mut self.directory);
        self.put(&directory)?;
        let checks_at = self.bytes;
        if self.page_fill > 0 {
            self.finish_page();
        }
        let mut trailer = Vec::with_capacity(TRAILER_BYTES);
        trailer.put(&directory_at.to_le_bytes());
        trailer.put(&row_number(directory.len() / ENTRY_BYTES).to_le_bytes());
        trailer.put(&row_number(PAGE_BYTES).to_le_bytes());
        trailer.put(&checks_at.to_le_bytes());
        trailer.put(&row_number(self.checks.len() / 4).to_le_bytes());
        trailer.put(&crc32c::crc32c(&self.checks).to_le_bytes());
        let file_bytes = checks_at + self.checks.len() as u64 + TRAILER_BYTES as u64;
        trailer.put(&file_bytes.to_le_bytes());
        trailer.put(&[0; TRAILER_RESERVED_BYTES]);
        trailer.put(&crc32c::crc32c(&trailer).to_le_bytes());
        trailer.put(SEGMENT_END_MAGIC);
        self.sink.put(&self.checks)?;
        self.sink.put(&trailer)?;
        Ok(file_bytes)
    }

    /// Closes the current column, if any: adds its directory entry and the padding after the column (SEG-24).
    fn end_column(&mut self) -> Result<(), DiskError> {
        if let Some((column, start)) = self.column.take() {
            let spec = column.spec();
            self.directory.put(&spec.number.to_le_bytes());
            self.directory.put(&spec.cell_bytes.to_le_bytes());
            self.directory.put(&[0; 4]);
            self.directory.put(&start.to_le_bytes());
            self.directory.put(&(self.bytes - start).to_le_bytes());
            self.directory.put(&[0; 8]);
        }
        let past = usize::try_from(self.bytes % COLUMN_ALIGN as u64).expect("below COLUMN_ALIGN");
        let padding = (COLUMN_ALIGN - past) % COLUMN_ALIGN;
        self.put(&[0; COLUMN_ALIGN][..padding])
    }

    /// Writes bytes that page checksums cover.
    fn put(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (here, next) = rest.split_at(rest.len().min(PAGE_BYTES - self.page_fill));
            self.page_crc = crc32c::crc32c_append(self.page_crc, here);
            self.page_fill += here.len();
            if self.page_fill == PAGE_BYTES {
                self.finish_page();
            }
            rest = next;
        }
        self.bytes += bytes.len() as u64;
        self.sink.put(bytes)
    }

    fn finish_page(&mut self) {
        self.checks.put(&self.page_crc.to_le_bytes());
        (self.page_crc, self.page_fill) = (0, 0);
    }
}
