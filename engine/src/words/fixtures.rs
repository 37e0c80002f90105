//! Columns of a few rows, for the tests of this directory.

use super::layout::WordColumns;
use super::postings::PostingsBuilder;
use super::view::PostingsView;

/// Title and text.
pub(super) type Row = (String, String);

pub(super) fn build(rows: &[Row]) -> WordColumns {
    let mut builder = PostingsBuilder::new();
    for (row, (title, text)) in (0..).zip(rows) {
        builder.add(row, title, text).unwrap();
    }
    builder.finish(u32::try_from(rows.len()).unwrap())
}

pub(super) fn open<'a>(columns: &'a WordColumns, rows: &[Row]) -> PostingsView<&'a [u8]> {
    PostingsView::open(columns.as_ref(), u32::try_from(rows.len()).unwrap()).unwrap()
}
