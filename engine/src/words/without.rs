//! Rows whose words do not count.
//!
//! Owns what the statistics of a segment are without some of its rows: the same as if they had never been
//! there. Must not know why they do not count.

use super::Damage;
use super::block::Decoded;
use super::bytes::Bytes;
use super::layout::{BLOCK_ROWS, decode_length};
use super::view::{Entry, PostingsView};

/// A set of rows.
pub trait RowSet {
    /// Whether it has `row`.
    fn has(&self, row: u32) -> bool;

    /// Its first row at or after `row`.
    fn next(&self, row: u32) -> Option<u32>;
}

/// Rows of one segment, and what the columns count of them.
#[derive(Debug)]
pub struct Without<'a, R> {
    /// The rows.
    pub rows: &'a R,
    /// How many of them have words.
    pub documents: u32,
    /// The sum of their lengths, in words as stored.
    pub length_total: u64,
}

impl<R> Clone for Without<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Without<'_, R> {}

impl<B: Bytes> PostingsView<B> {
    /// How many of `rows` have words, and the sum of their lengths.
    ///
    /// # Errors
    /// [`Damage`] in the lengths.
    pub fn words_of(&self, rows: &impl RowSet) -> Result<(u32, u64), Damage> {
        let lengths = self.lengths()?;
        let (mut documents, mut total) = (0, 0);
        let mut at = rows.next(0);
        while let Some(row) = at {
            let Some(&code) = lengths.get(row as usize) else { break };
            documents += u32::from(code != 0);
            total += u64::from(decode_length(code));
            at = row.checked_add(1).and_then(|row| rows.next(row));
        }
        Ok((documents, total))
    }

    /// How many postings of an entry are of `rows`. Blocks without any of these are not unpacked.
    pub(super) fn postings_of(&self, entry: Entry, rows: &impl RowSet) -> Result<u32, Damage> {
        let list = self.list(entry)?;
        let mut count = 0;
        let mut decoded = Decoded::default();
        let mut met = rows.next(0);
        for block in 0..self.block_count(&list) {
            let Some(row) = met else { break };
            if self.last_row_of(&list, block)?.is_some_and(|last| last < row) {
                continue;
            }
            self.decode(&list, block, false, &mut decoded)?;
            debug_assert!(decoded.count <= BLOCK_ROWS);
            let here = &decoded.rows[..decoded.count];
            count += here.iter().map(|&row| u32::from(rows.has(row))).sum::<u32>();
            met = here.last().and_then(|last| rows.next(last.saturating_add(1)));
        }
        Ok(count)
    }
}
