//! Damaged full-text columns: opening, searching, verifying, merging, and counting without some of the rows end in
//! damage or in rows of the segment.

use std::sync::OnceLock;

use engine::words::{
    Analyzer, Bytes, Found, Kept, Parameters, Phrases, PostingsBuilder, PostingsView, Query,
    Ranker, RowSet, Score, Scratch, Stats, Without, WordColumns, merge,
};
use engine::{SearchError, Stop, Top};

/// Enough for postings of several blocks.
const ROWS: u32 = 300;

fn good() -> &'static WordColumns {
    static GOOD: OnceLock<WordColumns> = OnceLock::new();
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
    let Ok(view) = PostingsView::open(columns.as_ref(), ROWS) else { return };
    let _damaged = view.verify();
    // Merged with a good segment; every other row is dropped.
    let other = PostingsView::open(good().as_ref(), ROWS).expect("nobody changed it");
    let place = |first: u32| move |row: u32| row.is_multiple_of(2).then_some(first + row / 2);
    if let Ok(merged) = merge(&[(view, place(0)), (other, place(ROWS / 2))], ROWS) {
        PostingsView::open(merged.as_ref(), ROWS).expect("what a merge makes can be opened");
    }
    let Ok(view) = PostingsView::open(columns.as_ref(), ROWS) else { return };
    let query = Query::parse(&mut Analyzer::new(), "the storm by the harbour lamp7 lamp7x");
    let mut stats = Stats::new(&query);
    if let Ok(found) = stats.add(view, &query) {
        rank(&query, &stats, &found);
    }
    let _damaged = rank_without(&view, &query);
    let phrases = Phrases::parse(&mut Analyzer::new(), "\"the storm came\" \"lamp7 burned\"");
    if let Ok(rows) = view.rows_having(&phrases, &Stop::default()) {
        assert!(rows.iter().all(|row| *row < ROWS));
    }
}

/// Searches for the best rows, then scores rows of each block one by one, and one row out of order.
fn rank<B: Bytes>(query: &Query, stats: &Stats, found: &Found<B>) {
    let ranker = Ranker::new(query, stats, Parameters::default());
    let mut top: Top<Score, u32> = Top::new(10);
    let searched = ranker.search(found, &mut Scratch::default(), |_| true, |row| row, &mut top);
    if searched.is_ok() {
        assert!(top.into_sorted().iter().all(|(_, row)| *row < ROWS));
    }
    let Ok(mut given) = ranker.given(found) else { return };
    for row in (0..ROWS).step_by(7).chain([1, ROWS, u32::MAX]) {
        let Ok(matches) = given.matched(row) else { continue };
        assert!(matches.iter().all(|matched| matched.term < query.terms().len()));
        assert!(row < ROWS || matches.is_empty());
    }
}

/// Ranks with every other row excluded: first with new statistics, then with the cached ones.
fn rank_without<B: Bytes>(view: &PostingsView<B>, query: &Query) -> Result<(), SearchError> {
    let (rows, kept, stop) = (EveryOther, Kept::default(), Stop::default());
    let (documents, length_total) = view.words_of(&rows, &stop)?;
    assert!(documents <= ROWS / 2);
    let without = Without { rows: &rows, documents, length_total, kept: &kept };
    for _ in 0..2 {
        let mut stats = Stats::new(query);
        let found = stats.add_without(*view, query, without, &stop)?;
        rank(query, &stats, &found);
    }
    Ok(())
}

struct EveryOther;

impl RowSet for EveryOther {
    fn has(&self, row: u32) -> bool {
        row.is_multiple_of(2)
    }

    fn next(&self, row: u32) -> Option<u32> {
        row.checked_next_multiple_of(2)
    }
}
