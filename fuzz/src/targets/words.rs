//! Damaged word columns: opening, searching, verifying and merging end in damage or in rows of the
//! segment.

use std::sync::OnceLock;

use engine::Top;
use engine::words::{
    Analyzer, Parameters, PostingsBuilder, PostingsView, Query, Ranker, Score, Scratch, Stats,
    WordColumns, merge,
};

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

/// One input.
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
    // Beside a good segment, every other row dropped.
    let other = PostingsView::open(good().as_ref(), ROWS).expect("nobody changed it");
    let place = |first: u32| move |row: u32| row.is_multiple_of(2).then_some(first + row / 2);
    if let Ok(merged) = merge(&[(view, place(0)), (other, place(ROWS / 2))], ROWS) {
        PostingsView::open(merged.as_ref(), ROWS).expect("what a merge makes can be opened");
    }
    let Ok(view) = PostingsView::open(columns.as_ref(), ROWS) else { return };
    let query = Query::parse(&mut Analyzer::new(), "the storm by the harbour lamp7 lamp7x");
    let mut stats = Stats::new(&query);
    let Ok(found) = stats.add(view, &query) else { return };
    let ranker = Ranker::new(&query, &stats, Parameters::default());
    let mut top: Top<Score, u32> = Top::new(10);
    let searched = ranker.search(&found, &mut Scratch::default(), |_| true, |row| row, &mut top);
    if searched.is_ok() {
        assert!(top.into_sorted().iter().all(|(_, row)| *row < ROWS));
    }
}
