//! One block of postings: its head and its packed numbers.
//!
//! Owns the decoding of a block (format-spec/words.md, blocks and postings). Must not know where a
//! term's blocks lie nor how rows are ranked.

use super::bytes::{Bytes, part};
use super::layout::{
    BLOCK_BYTES, BLOCK_ROWS, COUNT_BITS_MAX, IMPACT_CLASSES, Impact, ROW_BITS_MAX,
};
use super::pack::{packed_bytes, unpack};
use super::posting::Posting;
use super::{Damage, damage};

/// Where a block's numbers lie and how wide they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) count: usize,
    /// The row after the block before.
    pub(super) from: u32,
    /// Known for blocks of long lists.
    pub(super) last_row: Option<u32>,
    pub(super) offset: usize,
    /// Width of a row step, a body count and a title count.
    pub(super) bits: [u8; 3],
}

/// The head of a block of a long list.
pub(super) struct Head {
    pub(super) block: Block,
    pub(super) last_row: u32,
    pub(super) impacts: [Impact; IMPACT_CLASSES],
}

impl Head {
    /// Reads the head of a block of `count` postings, none before row `from`, in a segment of
    /// `rows` rows.
    pub(super) fn read(
        raw: &[u8; BLOCK_BYTES],
        count: usize,
        from: u32,
        rows: u32,
    ) -> Result<Self, Damage> {
        let last_row = last_row(raw);
        if last_row < from || last_row >= rows {
            return Err(damage(
                "WRD-21",
                format!("a block ends at row {last_row} of {rows}, starts at {from} or later"),
            ));
        }
        let offset = u32::from_le_bytes([raw[4], raw[5], raw[6], raw[7]]) as usize;
        if raw[11] != 0 {
            return Err(damage("WRD-12", format!("reserved byte of a block is {}", raw[11])));
        }
        let bits = [raw[8], raw[9], raw[10]];
        let impacts = std::array::from_fn(|class| {
            let at = 12 + 3 * class;
            Impact { body: raw[at], title: raw[at + 1], length: raw[at + 2] }
        });
        let block = Block { count, from, last_row: Some(last_row), offset, bits };
        Ok(Self { block, last_row, impacts })
    }
}

/// The last row that a head states, unchecked.
pub(super) fn last_row(raw: &[u8; BLOCK_BYTES]) -> u32 {
    u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]])
}

/// Rows and counts of one decoded block; the first `count` of each are valid.
#[derive(Debug, Clone)]
pub(super) struct Decoded {
    pub(super) rows: [u32; BLOCK_ROWS],
    pub(super) bodies: [u32; BLOCK_ROWS],
    pub(super) titles: [u32; BLOCK_ROWS],
    pub(super) count: usize,
    /// Whether any title count may differ from 0.
    pub(super) titled: bool,
}

impl Default for Decoded {
    fn default() -> Self {
        let zeros = [0; BLOCK_ROWS];
        Self { rows: zeros, bodies: zeros, titles: zeros, count: 0, titled: false }
    }
}

impl Decoded {
    pub(super) fn posting(&self, i: usize) -> Posting {
        let narrow = |count: u32| u8::try_from(count).unwrap_or(u8::MAX);
        Posting { row: self.rows[i], body: narrow(self.bodies[i]), title: narrow(self.titles[i]) }
    }

    /// All of them.
    pub(super) fn postings(&self) -> impl Iterator<Item = Posting> {
        (0..self.count).map(|i| self.posting(i))
    }

    /// Where `row` is among the rows.
    pub(super) fn find(&self, row: u32) -> Option<usize> {
        self.rows[..self.count].binary_search(&row).ok()
    }

    /// Becomes a single posting.
    pub(super) fn set_one(&mut self, posting: Posting) {
        self.count = 1;
        self.titled = posting.title != 0;
        self.rows[0] = posting.row;
        self.bodies[0] = u32::from(posting.body);
        self.titles[0] = u32::from(posting.title);
    }

    /// Unpacks a block; `rows` are those of the segment.
    pub(super) fn set_block<B: Bytes>(
        &mut self,
        block: &Block,
        postings: &B,
        rows: u32,
    ) -> Result<(), Damage> {
        let packed = block.packed(postings)?;
        let (count, [row_bits, body_bits, title_bits]) = (block.count, block.bits);
        let (steps, packed) = packed.split_at(packed_bytes(count, row_bits));
        let (bodies, titles) = packed.split_at(packed_bytes(count, body_bits));
        unpack(steps, count, row_bits, &mut self.rows);
        // Steps are not negative, so the last row is the greatest: one check stands for all.
        let steps: u64 = self.rows[..count].iter().map(|step| u64::from(*step)).sum();
        let last = u64::from(block.from) + steps + count as u64 - 1;
        if !block.last_row.map_or(last < u64::from(rows), |row| u64::from(row) == last) {
            return Err(damage(
                "WRD-30",
                format!("a block ends at row {last}, {:?} stated", block.last_row),
            ));
        }
        let mut next = block.from;
        for row in &mut self.rows[..count] {
            *row = row.wrapping_add(next);
            next = row.wrapping_add(1);
        }
        unpack(bodies, count, body_bits, &mut self.bodies);
        self.titled = title_bits != 0;
        if self.titled || body_bits == 0 {
            unpack(titles, count, title_bits, &mut self.titles);
        } else {
            self.titles[..count].fill(0);
        }
        self.count = count;
        let counts = self.bodies[..count].iter().zip(&self.titles[..count]);
        if counts.map(|(body, title)| body | title == 0).fold(false, |any, none| any | none) {
            return Err(damage("WRD-31", "a posting counts 0"));
        }
        Ok(())
    }
}

impl Block {
    /// The packed bytes: row steps, body counts, title counts.
    pub(super) fn packed<'b, B: Bytes>(&self, postings: &'b B) -> Result<&'b [u8], Damage> {
        let [row_bits, body_bits, title_bits] = self.bits;
        if row_bits > ROW_BITS_MAX || body_bits > COUNT_BITS_MAX || title_bits > COUNT_BITS_MAX {
            return Err(damage("WRD-22", format!("widths {row_bits}, {body_bits}, {title_bits}")));
        }
        let bytes = self.bits.iter().map(|bits| packed_bytes(self.count, *bits)).sum();
        part(postings, self.offset, bytes)?.ok_or_else(|| {
            damage("WRD-22", format!("packed numbers at {} pass the end of postings", self.offset))
        })
    }
}
