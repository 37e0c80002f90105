//! LUT sums: sums of table entries that half-bytes select, for many rows at once.
//!
//! This module defines the layout of the tables and of the rows' bytes. A block has [`LOOKUP_ROWS`] rows. For each byte
//! position, the bytes of all rows of the block lie side by side. So one register shuffle looks up one half-byte of
//! every row (Andre, Kermarrec and Le Scouarnec 2015, "Cache locality is not enough: high-performance nearest neighbor
//! search with product quantization fast scan"). The meaning of the entries is the caller's.

use crate::workspace::CacheLine;

/// Rows of a block.
pub const LOOKUP_ROWS: usize = 32;
/// Largest entry: the sum of two entries fits an unsigned byte.
pub const LOOKUP_MAX: u8 = 127;
/// Multiple of the bytes of a row: a wide register reads two bytes of each row of a block.
pub const LOOKUP_BYTES: usize = 2;

/// Entries of a table: one for each half-byte value.
const ENTRIES: usize = 16;
/// Tables of a register of 64 bytes: two bytes of a row, two half-bytes each.
const TABLES: usize = 2 * LOOKUP_BYTES;

/// Tables of 16 entries, one for each half-byte of a row, the low half of a byte before the high one.
pub struct LookupTables {
    /// For every two bytes of a row, the tables of their low halves and those of their high halves. Each table is
    /// stored twice, as wide registers need it.
    pub(crate) lines: Vec<[CacheLine; 2]>,
}

impl LookupTables {
    /// Stores tables for the kernels.
    ///
    /// # Panics
    /// The tables are not of a multiple of [`LOOKUP_BYTES`] bytes, or an entry is above [`LOOKUP_MAX`].
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
