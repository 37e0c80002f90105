//! Sums of table entries that the halves of bytes choose, for many rows at once.
//!
//! Owns the form of the tables and of the rows' bytes: a block has [`LOOKUP_ROWS`] rows, and for each
//! byte of a row those of all its rows side by side, so that one shuffle of a register looks up one
//! half-byte of every row (Andre, Kermarrec and Le Scouarnec 2015, "Cache locality is not enough:
//! high-performance nearest neighbor search with product quantization fast scan"). What the entries
//! count for is not known here.

use crate::workspace::CacheLine;

/// Rows of a block.
pub const LOOKUP_ROWS: usize = 32;
/// The largest entry: two of them fit a byte without a sign.
pub const LOOKUP_MAX: u8 = 127;
/// A row has a multiple of so many bytes: a wide register takes two of each row of a block.
pub const LOOKUP_BYTES: usize = 2;

/// Entries of a table: one for each half-byte.
const ENTRIES: usize = 16;
/// Tables of a register of 64 bytes: two bytes of a row, two halves each.
const TABLES: usize = 2 * LOOKUP_BYTES;

/// One table of 16 entries for each half-byte of a row, the low half of a byte before the high one.
pub struct LookupTables {
    /// For every two bytes of a row: the tables of the low halves, those of the high ones, each table
    /// twice, so that a register of any width meets its own.
    pub(crate) lines: Vec<[CacheLine; 2]>,
}

impl LookupTables {
    /// # Panics
    /// If the tables are not of a multiple of [`LOOKUP_BYTES`] bytes, or an entry is above [`LOOKUP_MAX`].
    pub fn new(tables: &[[u8; ENTRIES]]) -> Self {
        let (pairs, rest) = tables.as_chunks::<TABLES>();
        assert!(rest.is_empty(), "tables of a multiple of LOOKUP_BYTES bytes");
        let entries = tables.iter().flatten();
        assert!(entries.max().is_none_or(|&most| most <= LOOKUP_MAX), "entries up to LOOKUP_MAX");
        let line = |first: &[u8; ENTRIES], second: &[u8; ENTRIES]| {
            let tables = [first, first, second, second];
            CacheLine(std::array::from_fn(|at| tables[at / ENTRIES][at % ENTRIES]))
        };
        let lines = pairs.iter().map(|[a, b, c, d]| [line(a, c), line(b, d)]);
        Self { lines: lines.collect() }
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.lines.len() * LOOKUP_BYTES
    }
}
