//! Damaged full-text columns: opening, searching, verifying, merging, and counting without some of the rows end in
//! damage or in rows of the segment.

use std::sync::OnceLock;

use engine::fulltext::{
    Analyzer, Bm25Parameters, Bm25Weight, CollectionStats, ColumnBytes, ExcludedRows,
    FrequencyCache, FulltextColumns, Phrases, PostingsBuilder, PostingsReader, Query, RowSet,
    Score, SearchScratch, SegmentTerms, merge,
};
use engine::{CancelToken, SearchError, TopK};

/// Enough for postings of several blocks.
const ROWS: u32 = 300;

fn good() -> &'static FulltextColumns {
    static GOOD: OnceLock<FulltextColumns> = OnceLock::new();
    GOOD.get_or_init(|| {
        let mut builder = PostingsBuilder::new();
        for row in 0..ROWS {
            let text = format!("the storm came by night {} and lamp{} burned", row % 7, row % 50);
            builder.add(row, "the harbour log", &text).expect("a few rows");
        }
        builder.finish(ROWS)
    })
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Some((&which, patches)) = data.split_first() else { return };
    let mut columns = good().clone();
    let column = match which % 5 {
        0 => &mut columns.dictionary,
        1 => &mut columns.entries,
        2 => &mut columns.blocks,
        3 => &mut columns.postings,
        _ => &mut columns.lengths,
    };
    *column = crate::patched(column, patches);
    let Ok(view) = PostingsReader::open(columns.as_ref(), ROWS) else { return };
    let _damaged = view.verify();
    // Merged with a good segment; every other row is dropped.
    let other = PostingsReader::open(good().as_ref(), ROWS).expect("nobody changed it");
    let place = |first: u32| move |row: u32| row.is_multiple_of(2).then_some(first + row / 2);
    if let Ok(merged) = merge(&[(view, place(0)), (other, place(ROWS / 2))], ROWS) {
        PostingsReader::open(merged.as_ref(), ROWS).expect("what a merge makes can be opened");
    }
    let Ok(view) = PostingsReader::open(columns.as_ref(), ROWS) else { return };
    let query = Query::parse(&mut Analyzer::new(), "the storm by the harbour lamp7 lamp7x");
    let mut stats = CollectionStats::new(&query);
    if let Ok(found) = stats.add(view, &query) {
        rank(&query, &stats, &found);
    }
    let _damaged = rank_without(&view, &query);
    let phrases = Phrases::parse(&mut Analyzer::new(), "\"the storm came\" \"lamp7 burned\"");
    if let Ok(rows) = view.rows_with_phrases(&phrases, &CancelToken::default()) {
        assert!(rows.iter().all(|row| *row < ROWS));
    }
}

/// Searches for the best rows, then scores rows of each block one by one, and one row out of order.
fn rank<B: ColumnBytes>(query: &Query, stats: &CollectionStats, found: &SegmentTerms<B>) {
    let ranker = Bm25Weight::new(query, stats, Bm25Parameters::default());
    let mut top: TopK<Score, u32> = TopK::new(10);
    let searched =
        ranker.search(found, &mut SearchScratch::default(), |_| true, |row| row, &mut top);
    if searched.is_ok() {
        assert!(top.into_sorted().iter().all(|(_, row)| *row < ROWS));
    }
    let Ok(mut given) = ranker.row_scorer(found) else { return };
    for row in (0..ROWS).step_by(7).chain([1, ROWS, u32::MAX]) {
        let Ok(matches) = given.matches(row) else { continue };
        assert!(matches.iter().all(|matched| matched.term < query.terms().len()));
        assert!(row < ROWS || matches.is_empty());
    }
}

/// Ranks with every other row excluded: first with new statistics, then with the cached ones.
fn rank_without<B: ColumnBytes>(
    view: &PostingsReader<B>,
    query: &Query,
) -> Result<(), SearchError> {
    let (rows, kept, stop) = (EveryOther, FrequencyCache::default(), CancelToken::default());
    let (documents, length_total) = view.count_words(&rows, &stop)?;
    assert!(documents <= ROWS / 2);
    let without = ExcludedRows { rows: &rows, documents, length_total, cache: &kept };
    for _ in 0..2 {
        let mut stats = CollectionStats::new(query);
        let found = stats.add_excluding(*view, query, without, &stop)?;
        rank(query, &stats, &found);
    }
    Ok(())
}

struct EveryOther;

impl RowSet for EveryOther {
    fn has_row(&self, row: u32) -> bool {
        row.is_multiple_of(2)
    }

    fn next_row_from(&self, row: u32) -> Option<u32> {
        row.checked_next_multiple_of(2)
    }
}
