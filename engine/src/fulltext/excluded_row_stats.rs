//! Statistics of a segment without some of its rows, equal to those of a segment that never had these rows.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::column_bytes::ColumnBytes;
use super::layout::{BLOCK_ROWS, decode_length};
use super::postings_block::DecodedBlock;
use super::postings_reader::{PostingsReader, TermEntry};
use crate::cancel::CancelToken;
use crate::error::SearchError;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of terms per segment whose counts are cached for later queries; at the maximum, the cache is
    /// cleared. A count takes some 20 bytes. Only lists of several blocks are cached, because other lists have only one
    /// block to decode.
    const TERMS_KEPT_MAX: usize = 1024;
}

/// Rows processed between two polls of the cancel token.
const ROWS_PER_CANCEL_CHECK: u32 = 1 << 14;
/// Blocks of one list decoded between two polls of the cancel token.
const BLOCKS_PER_CANCEL_CHECK: u32 = 256;

/// Set of rows.
pub trait RowSet {
    /// Returns true if the set contains `row`.
    fn has_row(&self, row: u32) -> bool;

    /// Returns the first row of the set at or after `row`.
    fn next_row_from(&self, row: u32) -> Option<u32>;
}

/// Excluded rows of one segment, with their statistics.
#[derive(Debug)]
pub struct ExcludedRows<'a, R> {
    /// Excluded rows.
    pub rows: &'a R,
    /// Number of excluded rows with words.
    pub documents: u32,
    /// Sum of the stored lengths of the excluded rows, in words.
    pub length_total: u64,
    /// Cached counts of these rows.
    pub cache: &'a FrequencyCache,
}

/// Cache of the number of excluded postings per term, for the terms queried so far. Valid for one segment and one set
/// of its rows.
#[derive(Debug, Default)]
pub struct FrequencyCache(Mutex<HashMap<TermEntry, u32>>);

impl FrequencyCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<TermEntry, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, entry: TermEntry) -> Option<u32> {
        self.lock().get(&entry).copied()
    }

    fn put(&self, entry: TermEntry, count: u32) {
        let mut kept = self.lock();
        if kept.len() == TERMS_KEPT_MAX {
            kept.clear();
        }
        kept.insert(entry, count);
    }
}

impl<R> Clone for ExcludedRows<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for ExcludedRows<'_, R> {}

impl<B: ColumnBytes> PostingsReader<B> {
    /// Returns the number of `rows` that have words, and the sum of their lengths.
    ///
    /// # Errors
    /// [`SearchError`] on damage in the lengths, or on cancellation.
    pub fn count_words(
        &self,
        rows: &impl RowSet,
        stop: &CancelToken,
    ) -> Result<(u32, u64), SearchError> {
        let lengths = self.lengths()?;
        let (mut documents, mut total) = (0, 0);
        let mut steps = stop.every(ROWS_PER_CANCEL_CHECK);
        let mut at = rows.next_row_from(0);
        while let Some(row) = at {
            steps.tick()?;
            let Some(&code) = lengths.get(row as usize) else { break };
            documents += u32::from(code != 0);
            total += u64::from(decode_length(code));
            at = row.checked_add(1).and_then(|row| rows.next_row_from(row));
        }
        Ok((documents, total))
    }

    /// Returns the number of an entry's postings in excluded rows, from the cache if possible.
    pub(super) fn excluded_frequency(
        &self,
        entry: TermEntry,
        without: &ExcludedRows<'_, impl RowSet>,
        stop: &CancelToken,
    ) -> Result<u32, SearchError> {
        if (entry.rows as usize) <= BLOCK_ROWS {
            return self.postings_within(entry, without.rows, stop);
        }
        if let Some(count) = without.cache.get(entry) {
            return Ok(count);
        }
        let count = self.postings_within(entry, without.rows, stop)?;
        without.cache.put(entry, count);
        Ok(count)
    }

    /// Returns the number of an entry's postings in `rows`. Blocks without any of these rows are not decoded.
    fn postings_within(
        &self,
        entry: TermEntry,
        rows: &impl RowSet,
        stop: &CancelToken,
    ) -> Result<u32, SearchError> {
        let list = self.list(entry)?;
        let mut count = 0;
        let mut decoded = DecodedBlock::default();
        let mut steps = stop.every(BLOCKS_PER_CANCEL_CHECK);
        let mut met = rows.next_row_from(0);
        for block in 0..self.block_count(&list) {
            let Some(row) = met else { break };
            steps.tick()?;
            if self.known_last_row(&list, block)?.is_some_and(|last| last < row) {
                continue;
            }
            self.decode(&list, block, false, &mut decoded)?;
            let here = &decoded.rows[..decoded.count];
            count += here.iter().map(|&row| u32::from(rows.has_row(row))).sum::<u32>();
            met = here.last().and_then(|last| rows.next_row_from(last.saturating_add(1)));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use proptest::prelude::*;

    use super::super::fixtures::{RowTexts, build, open};
    use super::super::{Analyzer, CollectionStats, FulltextColumns, Phrases, Query};
    use super::*;

    impl RowSet for BTreeSet<u32> {
        fn has_row(&self, row: u32) -> bool {
            self.contains(&row)
        }

        fn next_row_from(&self, row: u32) -> Option<u32> {
            self.range(row..).next().copied()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

        /// Covers lists of many blocks, of one block, and of a single posting.
        #[test]
        fn statistics_equal_those_of_a_segment_without_excluded_rows(
            seed in any::<u64>(), every in prop::sample::select(vec![1_u64, 2, 7, 150, 900]),
        ) {
            let draw = |row: u64, salt: u64| {
                (row ^ seed.rotate_left(17)).wrapping_add(salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33
            };
            let rows: Vec<RowTexts> = (0..1500)
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
            let kept: Vec<RowTexts> =
                rows.iter().enumerate().filter(|(row, _)| is_kept(*row)).map(|(_, row)| row.clone()).collect();
            let query = Query::parse(&mut Analyzer::new(), "ash bay cod dee elm");
            let (columns, fewer) = (build(&rows), build(&kept));
            let (view, wanted_view) = (open(&columns, &rows), open(&fewer, &kept));
            let stop = CancelToken::default();
            let (documents, length_total) = view.count_words(&hidden, &stop).unwrap();
            let kept = FrequencyCache::default();
            let without = ExcludedRows { rows: &hidden, documents, length_total, cache: &kept };
            let mut wanted = CollectionStats::new(&query);
            wanted.add(wanted_view, &query).unwrap();
            // The second iteration uses the cached counts.
            for _ in 0..2 {
                let mut stats = CollectionStats::new(&query);
                stats.add_excluding(view, &query, without, &stop).unwrap();
                prop_assert_eq!(&stats, &wanted);
            }

            let phrases = Phrases::parse(&mut Analyzer::new(), "\"ash cod\" \"bay\"");
            let having = view.rows_with_phrases(&phrases, &CancelToken::default()).unwrap();
            let has = |text: &str| ["ash", "bay", "cod"].iter().all(|word| text.contains(word));
            let all: Vec<u32> = (0..).zip(&rows).filter(|(_, row)| has(&row.1)).map(|(at, _)| at).collect();
            prop_assert_eq!(having, all);
        }
    }

    /// Set of the even rows, with a counter of membership tests.
    #[derive(Default)]
    struct Even(Cell<u32>);

    impl RowSet for Even {
        fn has_row(&self, row: u32) -> bool {
            self.0.set(self.0.get() + 1);
            row.is_multiple_of(2)
        }

        fn next_row_from(&self, row: u32) -> Option<u32> {
            Some(row.next_multiple_of(2)).filter(|row| *row < LONG_ROWS)
        }
    }

    const LONG_ROWS: u32 = 60_000;

    fn long() -> (FulltextColumns, Vec<RowTexts>) {
        let rows = vec![(String::new(), "ash bay".to_owned()); LONG_ROWS as usize];
        (build(&rows), rows)
    }

    #[test]
    fn long_list_is_unpacked_once_for_repeated_queries() {
        let (columns, rows) = long();
        let view = open(&columns, &rows);
        let (even, kept) = (Even::default(), FrequencyCache::default());
        let without = ExcludedRows {
            rows: &even,
            documents: LONG_ROWS / 2,
            length_total: u64::from(LONG_ROWS),
            cache: &kept,
        };
        let query = Query::parse(&mut Analyzer::new(), "ash bay");
        for unpacked in [2 * LONG_ROWS, 0] {
            even.0.set(0);
            let mut stats = CollectionStats::new(&query);
            stats.add_excluding(view, &query, without, &CancelToken::default()).unwrap();
            assert_eq!(stats.frequencies(), [u64::from(LONG_ROWS / 2); 2]);
            assert_eq!(even.0.get(), unpacked);
        }
    }

    #[test]
    fn frequency_cache_is_bounded() {
        let kept = FrequencyCache::default();
        let entry = |place: usize| {
            let place = u32::try_from(place).unwrap();
            TermEntry { rows: 500, place, detail: 0 }
        };
        for place in 0..TERMS_KEPT_MAX {
            kept.put(entry(place), 1);
        }
        assert_eq!((kept.get(entry(0)), kept.lock().len()), (Some(1), TERMS_KEPT_MAX));
        kept.put(entry(TERMS_KEPT_MAX), 2);
        assert_eq!((kept.get(entry(0)), kept.get(entry(TERMS_KEPT_MAX))), (None, Some(2)));
    }

    #[test]
    fn excluded_row_count_ends_on_cancel() {
        let (columns, rows) = long();
        let view = open(&columns, &rows);
        let query = Query::parse(&mut Analyzer::new(), "ash bay");
        let count = |last: u32| {
            let asked = Arc::new(AtomicU32::new(0));
            let counted = Arc::clone(&asked);
            let stop =
                CancelToken::from_fn(move || counted.fetch_add(1, Ordering::Relaxed) + 1 >= last);
            let even = Even::default();
            let counted = view.count_words(&even, &stop).and_then(|(documents, length_total)| {
                let kept = &FrequencyCache::default();
                let without = ExcludedRows { rows: &even, documents, length_total, cache: kept };
                CollectionStats::new(&query).add_excluding(view, &query, without, &stop).map(drop)
            });
            (counted, asked.load(Ordering::Relaxed))
        };
        let (whole, asked) = count(u32::MAX);
        assert_eq!(whole, Ok(()));
        assert!(asked >= 6, "{asked} times, of two lists of 469 blocks and 30,000 rows");
        for last in 1..=asked {
            assert_eq!(count(last), (Err(SearchError::Interrupted), last));
        }
    }
}
