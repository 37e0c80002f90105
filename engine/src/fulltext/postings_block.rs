//! Decoding of a postings block: head and packed numbers (format-spec/words.md, blocks and postings).
//!
//! The position of a term's blocks and the ranking of rows are left to other modules.

use super::bit_packing::{packed_bytes, unpack, unpack_one};
use super::column_bytes::{ColumnBytes, read_part};
use super::layout::{
    BLOCK_BYTES, BLOCK_ROWS, COUNT_BITS_MAX, IMPACT_CLASSES, Impact, ROW_BITS_MAX,
};
use super::posting::Posting;
use crate::error::CorruptionError;

/// Position and bit widths of a block's packed numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct PostingsBlock {
    pub(super) count: usize,
    /// Smallest row that the block may contain: the last row of the previous block plus one.
    pub(super) from: u32,
    /// Last row; known only for blocks of long lists.
    pub(super) last_row: Option<u32>,
    pub(super) offset: usize,
    /// Bit widths of row steps, body counts and title counts.
    pub(super) bits: [u8; 3],
}

/// Head of a block of a long list.
pub(super) struct BlockHead {
    pub(super) block: PostingsBlock,
    pub(super) last_row: u32,
    pub(super) impacts: [Impact; IMPACT_CLASSES],
}

impl BlockHead {
    /// Reads the head of a block of `count` postings, with rows from `from` on, in a segment of `rows` rows.
    pub(super) fn read(
        raw: &[u8; BLOCK_BYTES],
        count: usize,
        from: u32,
        rows: u32,
    ) -> Result<Self, CorruptionError> {
        let last_row = last_row(raw);
        if last_row < from || last_row >= rows {
            return Err(CorruptionError::new(
                "WRD-21",
                format!("a block ends at row {last_row} of {rows}, starts at {from} or later"),
            ));
        }
        let offset = u32::from_le_bytes([raw[4], raw[5], raw[6], raw[7]]) as usize;
        if raw[11] != 0 {
            return Err(CorruptionError::new(
                "WRD-12",
                format!("reserved byte of a block is {}", raw[11]),
            ));
        }
        let bits = [raw[8], raw[9], raw[10]];
        let impacts = std::array::from_fn(|class| {
            let at = 12 + 3 * class;
            Impact { body: raw[at], title: raw[at + 1], length: raw[at + 2] }
        });
        let block = PostingsBlock { count, from, last_row: Some(last_row), offset, bits };
        Ok(Self { block, last_row, impacts })
    }
}

/// Returns the last row that a head states, unchecked.
pub(super) fn last_row(raw: &[u8; BLOCK_BYTES]) -> u32 {
    u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]])
}

/// Rows and counts of a decoded block. The first `count` rows are valid; the counts are valid unless they are pending.
#[derive(Debug, Clone)]
pub(super) struct DecodedBlock {
    pub(super) rows: [u32; BLOCK_ROWS],
    pub(super) bodies: [u32; BLOCK_ROWS],
    pub(super) titles: [u32; BLOCK_ROWS],
    pub(super) count: usize,
    /// True if a title count may differ from 0.
    pub(super) has_titles: bool,
    /// Block whose rows are unpacked and whose counts are pending.
    counts_pending: Option<PostingsBlock>,
}

impl Default for DecodedBlock {
    fn default() -> Self {
        let zeros = [0; BLOCK_ROWS];
        Self {
            rows: zeros,
            bodies: zeros,
            titles: zeros,
            count: 0,
            has_titles: false,
            counts_pending: None,
        }
    }
}

impl DecodedBlock {
    pub(super) fn posting(&self, i: usize) -> Posting {
        assert!(self.counts_pending.is_none(), "counts of another block");
        Posting { row: self.rows[i], body: narrow(self.bodies[i]), title: narrow(self.titles[i]) }
    }

    /// All postings of the block.
    pub(super) fn postings(&self) -> impl Iterator<Item = Posting> {
        (0..self.count).map(|i| self.posting(i))
    }

    /// Returns the index of `row`. Counting the smaller rows is faster than a binary search, in which each step depends
    /// on the previous step. The gain is largest in a full block, whose length is a constant.
    pub(super) fn find(&self, row: u32) -> Option<usize> {
        let before = |rows: &[u32]| rows.iter().map(|other| u32::from(*other < row)).sum::<u32>();
        let rows = &self.rows[..self.count];
        let at = match rows.as_array::<BLOCK_ROWS>() {
            Some(full) => before(full),
            None => before(rows),
        };
        rows.get(at as usize).is_some_and(|found| *found == row).then_some(at as usize)
    }

    /// Replaces the content by a single posting.
    pub(super) fn set_single(&mut self, posting: Posting) {
        (self.count, self.counts_pending) = (1, None);
        self.has_titles = posting.title != 0;
        self.rows[0] = posting.row;
        self.bodies[0] = u32::from(posting.body);
        self.titles[0] = u32::from(posting.title);
    }

    /// Unpacks a block, or only its rows, which suffice for a lookup. `rows` is the number of rows of the segment.
    pub(super) fn set_block<B: ColumnBytes>(
        &mut self,
        block: &PostingsBlock,
        postings: &B,
        rows: u32,
        with_counts: bool,
    ) -> Result<(), CorruptionError> {
        let [steps, bodies, titles] = block.packed(postings)?;
        self.unpack_rows(block, steps, rows)?;
        if with_counts { self.unpack_counts(block, bodies, titles) } else { Ok(()) }
    }

    /// Unpacks the pending counts of the current block.
    pub(super) fn set_counts<B: ColumnBytes>(
        &mut self,
        postings: &B,
    ) -> Result<(), CorruptionError> {
        let Some(block) = self.counts_pending else { return Ok(()) };
        let [_, bodies, titles] = block.packed(postings)?;
        self.unpack_counts(&block, bodies, titles)
    }

    fn unpack_rows(
        &mut self,
        block: &PostingsBlock,
        steps: &[u8],
        rows: u32,
    ) -> Result<(), CorruptionError> {
        (self.count, self.counts_pending) = (0, None);
        unpack(steps, block.count, block.bits[0], &mut self.rows);
        let last = add_steps(&mut self.rows[..block.count], block.from);
        // Steps are not negative, so the last row is the greatest, and one check is enough.
        if !block.last_row.map_or(last < u64::from(rows), |row| u64::from(row) == last) {
            return Err(CorruptionError::new(
                "WRD-30",
                format!("a block ends at row {last}, {:?} stated", block.last_row),
            ));
        }
        (self.count, self.counts_pending) = (block.count, Some(*block));
        Ok(())
    }

    fn unpack_counts(
        &mut self,
        block: &PostingsBlock,
        bodies: &[u8],
        titles: &[u8],
    ) -> Result<(), CorruptionError> {
        let count = block.count;
        let [_, body_bits, title_bits] = block.bits;
        unpack(bodies, count, body_bits, &mut self.bodies);
        self.has_titles = title_bits != 0;
        if self.has_titles || body_bits == 0 {
            unpack(titles, count, title_bits, &mut self.titles);
        } else {
            self.titles[..count].fill(0);
        }
        let counts = self.bodies[..count].iter().zip(&self.titles[..count]);
        if counts.map(|(body, title)| body | title == 0).fold(false, |any, none| any | none) {
            return Err(zero_count_error());
        }
        self.counts_pending = None;
        Ok(())
    }

    /// Returns one posting of the current block; unpacks only its counts if they are pending.
    pub(super) fn load_posting<B: ColumnBytes>(
        &self,
        i: usize,
        postings: &B,
    ) -> Result<Posting, CorruptionError> {
        let Some(block) = self.counts_pending else { return Ok(self.posting(i)) };
        let ([_, bodies, titles], [_, body_bits, title_bits]) =
            (block.packed(postings)?, block.bits);
        let body = narrow(unpack_one(bodies, block.count, body_bits, i));
        let title = narrow(unpack_one(titles, block.count, title_bits, i));
        if (body, title) == (0, 0) {
            return Err(zero_count_error());
        }
        Ok(Posting { row: self.rows[i], body, title })
    }
}

fn zero_count_error() -> CorruptionError {
    CorruptionError::new("WRD-31", "a posting counts 0")
}

/// Narrows a count, which is packed in at most [`COUNT_BITS_MAX`] bits.
fn narrow(count: u32) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

/// Replaces the steps by rows, the first at least `from`, and returns the last row, which may exceed `u32`. Works on
/// four steps at a time, so that each group waits for only one addition.
#[expect(
    clippy::cast_possible_truncation,
    reason = "where a row passes 32 bits the last does, which is checked"
)]
fn add_steps(steps: &mut [u32], from: u32) -> u64 {
    let mut next = u64::from(from);
    let (fours, rest) = steps.as_chunks_mut::<4>();
    for four in fours {
        let [a, b, c, d] = four.map(u64::from);
        let second = a + b + 1;
        let last = second + (c + d + 2);
        *four = [next + a, next + second, next + second + c + 1, next + last].map(|row| row as u32);
        next += last + 1;
    }
    for step in rest {
        let row = next + u64::from(*step);
        *step = row as u32;
        next = row + 1;
    }
    next - 1
}

impl PostingsBlock {
    /// Returns the packed bytes: row steps, body counts, title counts.
    fn packed<'b, B: ColumnBytes>(
        &self,
        postings: &'b B,
    ) -> Result<[&'b [u8]; 3], CorruptionError> {
        let [row_bits, body_bits, title_bits] = self.bits;
        if row_bits > ROW_BITS_MAX || body_bits > COUNT_BITS_MAX || title_bits > COUNT_BITS_MAX {
            return Err(CorruptionError::new(
                "WRD-22",
                format!("widths {row_bits}, {body_bits}, {title_bits}"),
            ));
        }
        let [steps, bodies, titles] = self.bits.map(|bits| packed_bytes(self.count, bits));
        let packed =
            read_part(postings, self.offset, steps + bodies + titles)?.ok_or_else(|| {
                CorruptionError::new(
                    "WRD-22",
                    format!("packed numbers at {} pass the end of postings", self.offset),
                )
            })?;
        let (steps, counts) = packed.split_at(steps);
        let (bodies, titles) = counts.split_at(bodies);
        Ok([steps, bodies, titles])
    }
}

#[cfg(test)]
mod tests {
    use super::super::bit_packing::{pack, width};
    use super::*;

    /// Returns rows 10, 13, 16, ..., each with a body count of 2, except for the posting at `none` with a count of 0.
    fn packed(count: usize, none: usize) -> (PostingsBlock, Vec<u8>) {
        let steps = vec![2; count];
        let bodies: Vec<u32> = (0..count).map(|i| if i == none { 0 } else { 2 }).collect();
        let bits = [width(2), width(2), 0];
        let mut postings = Vec::new();
        pack(&steps, bits[0], &mut postings);
        pack(&bodies, bits[1], &mut postings);
        (PostingsBlock { count, from: 8, last_row: None, offset: 0, bits }, postings)
    }

    #[test]
    fn posting_with_zero_counts_is_corruption_when_read() {
        for (count, none) in [(BLOCK_ROWS, 77), (BLOCK_ROWS, 127), (5, 0), (1, 0)] {
            let (block, postings) = packed(count, none);
            let (postings, mut decoded) = (&postings[..], DecodedBlock::default());
            decoded.set_block(&block, &postings, 1000, false).unwrap();
            for i in 0..count {
                let row = 10 + 3 * u32::try_from(i).unwrap();
                assert_eq!(decoded.find(row), Some(i));
                assert_eq!(decoded.find(row - 1), None);
                match decoded.load_posting(i, &postings) {
                    Ok(posting) => assert_eq!(posting, Posting { row, body: 2, title: 0 }),
                    Err(damage) => assert_eq!((i, damage.rule), (none, "WRD-31")),
                }
            }
            assert!(decoded.load_posting(none, &postings).is_err());
            let after = 10 + 3 * u32::try_from(count).unwrap();
            assert_eq!((decoded.find(after), decoded.find(u32::MAX)), (None, None));
            assert_eq!(decoded.set_counts(&postings).unwrap_err().rule, "WRD-31");
            let whole = decoded.set_block(&block, &postings, 1000, true);
            assert_eq!(whole.unwrap_err().rule, "WRD-31");
            let one = Posting { row: 3, body: 1, title: 0 };
            decoded.set_single(one);
            assert_eq!((decoded.find(3), decoded.find(10)), (Some(0), None));
            assert_eq!(decoded.load_posting(0, &postings).unwrap(), one);
        }
    }
}
