//! Columns of a few rows, for the tests of this directory.

use super::layout::FulltextColumns;
use super::postings_builder::PostingsBuilder;
use super::postings_reader::PostingsReader;

/// Title and text.
pub(super) type RowTexts = (String, String);

pub(super) fn build(rows: &[RowTexts]) -> FulltextColumns {
    let mut builder = PostingsBuilder::new();
    for (row, (title, text)) in (0..).zip(rows) {
        builder.add(row, title, text).unwrap();
    }
    builder.finish(u32::try_from(rows.len()).unwrap())
}

pub(super) fn open<'a>(
    columns: &'a FulltextColumns,
    rows: &[RowTexts],
) -> PostingsReader<&'a [u8]> {
    PostingsReader::open(columns.as_ref(), u32::try_from(rows.len()).unwrap()).unwrap()
}
