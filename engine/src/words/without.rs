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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::tests::{Row, build, open};
    use super::super::{Analyzer, Phrases, Query, Stats};
    use super::*;
    use crate::stop::Stop;

    impl RowSet for BTreeSet<u32> {
        fn has(&self, row: u32) -> bool {
            self.contains(&row)
        }

        fn next(&self, row: u32) -> Option<u32> {
            self.range(row..).next().copied()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        /// With lists of many blocks, of one, and of a single posting.
        #[test]
        fn statistics_are_those_of_a_segment_without_the_rows(
            seed in any::<u64>(), every in prop::sample::select(vec![1_u64, 2, 7, 150, 900]),
        ) {
            let draw = |row: u64, salt: u64| {
                (row ^ seed.rotate_left(17)).wrapping_add(salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33
            };
            let rows: Vec<Row> = (0..1500)
                .map(|row| {
                    let mut text = String::new();
                    for (salt, (word, of)) in
                        (1..).zip([("ash", 1), ("bay", 2), ("cod", 40), ("dee", 700)])
                    {
                        if draw(row, salt).is_multiple_of(of) {
                            text.push_str(word);
                            text.push(' ');
                        }
                    }
                    (String::new(), text)
                })
                .collect();
            let mut hidden: BTreeSet<u32> =
                (0..1500).filter(|&row| draw(u64::from(row), 9).is_multiple_of(every)).collect();
            hidden.insert(127); // the last row of a block
            let is_kept = |row: usize| !hidden.contains(&u32::try_from(row).unwrap());
            let kept: Vec<Row> =
                rows.iter().enumerate().filter(|(row, _)| is_kept(*row)).map(|(_, row)| row.clone()).collect();
            let query = Query::parse(&mut Analyzer::new(), "ash bay cod dee elm");
            let (columns, fewer) = (build(&rows), build(&kept));
            let (view, wanted_view) = (open(&columns, &rows), open(&fewer, &kept));
            let (documents, length_total) = view.words_of(&hidden).unwrap();
            let without = Without { rows: &hidden, documents, length_total };
            let (mut stats, mut wanted) = (Stats::new(&query), Stats::new(&query));
            stats.add_without(view, &query, Some(without)).unwrap();
            wanted.add(wanted_view, &query).unwrap();
            prop_assert_eq!(stats, wanted);

            let phrases = Phrases::parse(&mut Analyzer::new(), "\"ash cod\" \"bay\"");
            let having = view.rows_having(&phrases, &Stop::default()).unwrap();
            let has = |text: &str| ["ash", "bay", "cod"].iter().all(|word| text.contains(word));
            let all: Vec<u32> = (0..).zip(&rows).filter(|(_, row)| has(&row.1)).map(|(at, _)| at).collect();
            prop_assert_eq!(having, all);
        }
    }
}
