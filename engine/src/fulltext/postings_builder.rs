//! Builder of postings: analysed rows to columns.
//!
//! Owns the counting of terms per row and the inversion from rows to terms. Bytes are written by columns.rs and read by
//! view.rs.

use std::cell::RefCell;

use super::analyzer::{Analyzer, TermKind};
use super::columns_writer::ColumnsWriter;
use super::layout::{FulltextColumns, ROW_TERMS_MAX, SEGMENT_POSTINGS_MAX, length_code};
use super::posting::Posting;
use super::term_table::TermTable;

/// The segment has no room for the row: the caller seals the segment and starts another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentFullError;

impl std::fmt::Display for SegmentFullError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "a segment holds at most {SEGMENT_POSTINGS_MAX} postings; seal it and start another"
        )
    }
}

impl std::error::Error for SegmentFullError {}

/// Posting before the inversion; its position implies the row.
#[derive(Debug, Clone, Copy)]
struct RowTermCount {
    term: u32,
    body: u8,
    title: u8,
}

thread_local! {
    /// Analyzer of a writing thread, which caches the stems of common words between batches.
    static ANALYZER: RefCell<Analyzer> = RefCell::default();
}

/// Collects the terms of rows and converts them to columns.
#[derive(Default)]
pub struct PostingsBuilder {
    terms: TermTable,
    /// Last index in `counts` of each term. An index below the row's start means that the row does not have the term
    /// yet.
    last_count: Vec<usize>,
    counts: Vec<RowTermCount>,
    /// Each row and the end of its counts.
    rows: Vec<(u32, usize)>,
    lengths: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TextField {
    Title,
    Body,
}

impl PostingsBuilder {
    /// Creates an empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row, which must be greater than all earlier rows. At most [`ROW_TERMS_MAX`] words are indexed, the title
    /// first.
    ///
    /// # Errors
    /// [`SegmentFullError`] if the segment cannot take another row of maximum size; the row was not added.
    ///
    /// # Panics
    /// If `row` is not greater than all earlier rows.
    pub fn add(&mut self, row: u32, title: &str, text: &str) -> Result<(), SegmentFullError> {
        assert!(self.rows.last().is_none_or(|(last, _)| *last < row), "rows come in rising order");
        // The factor 2 covers the words and an equal number of wholes over them.
        if self.counts.len() + ROW_TERMS_MAX * 2 > SEGMENT_POSTINGS_MAX {
            return Err(SegmentFullError);
        }
        let start = self.counts.len();
        let mut length = 0;
        ANALYZER.with_borrow_mut(|analyzer| {
            for (field, text) in [(TextField::Title, title), (TextField::Body, text)] {
                analyzer.tokens(text, |emit| {
                    length += usize::from(emit.kind.counts());
                    let room =
                        length <= ROW_TERMS_MAX && self.counts.len() - start < ROW_TERMS_MAX * 2;
                    if room {
                        self.count(emit.term, field, start);
                    }
                    room
                });
            }
        });
        self.rows.push((row, self.counts.len()));
        self.lengths.resize(row as usize, 0);
        self.lengths.push(length_code(
            u32::try_from(length.min(ROW_TERMS_MAX)).expect("at most ROW_TERMS_MAX"),
        ));
        Ok(())
    }

    /// Returns the columns of a segment of `rows` rows; rows that were not added have no words.
    ///
    /// # Panics
    /// If a row at or above `rows` was added.
    pub fn finish(self, rows: u32) -> FulltextColumns {
        self.finish_as(rows, ColumnsWriter::new)
    }

    /// Returns the columns for rows of the tail: the heap dictionary must not be written to a file.
    pub(crate) fn finish_on_heap(self, rows: u32) -> FulltextColumns {
        self.finish_as(rows, ColumnsWriter::on_heap)
    }

    fn finish_as(
        mut self,
        rows: u32,
        begin: impl FnOnce(Vec<u8>) -> ColumnsWriter,
    ) -> FulltextColumns {
        assert!(self.lengths.len() <= rows as usize, "the segment has fewer rows than were added");
        self.lengths.resize(rows as usize, 0);
        let (starts, turned) = invert(self.last_count.len(), &self.counts, &self.rows);
        let mut writer = begin(self.lengths);
        for number in self.terms.sorted() {
            let at = number as usize;
            writer.term(self.terms.get(number), &turned[starts[at]..starts[at + 1]]);
        }
        writer.finish()
    }

    /// Approximate memory in use in bytes, for a caller that seals by size.
    pub fn memory_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<RowTermCount>()
            + self.terms.len() * 80
            + self.lengths.len()
    }

    fn count(&mut self, term: &str, field: TextField, start: usize) {
        let next = self.counts.len();
        let id = self.terms.number(term.as_bytes());
        if id as usize == self.last_count.len() {
            self.last_count.push(usize::MAX);
        }
        let latest = &mut self.last_count[id as usize];
        if *latest == usize::MAX || *latest < start {
            *latest = next;
            self.counts.push(RowTermCount { term: id, body: 0, title: 0 });
        }
        let count = &mut self.counts[*latest];
        let times = if field == TextField::Title { &mut count.title } else { &mut count.body };
        *times = times.saturating_add(1);
    }
}

/// Inverts counts by row to postings by term. The counting sort preserves the order of rows.
fn invert(
    terms: usize,
    counts: &[RowTermCount],
    rows: &[(u32, usize)],
) -> (Vec<usize>, Vec<Posting>) {
    let mut starts = vec![0; terms + 1];
    for count in counts {
        starts[count.term as usize + 1] += 1;
    }
    for id in 0..terms {
        starts[id + 1] += starts[id];
    }
    let mut turned = vec![Posting { row: 0, body: 0, title: 0 }; counts.len()];
    let (mut next, mut from) = (starts.clone(), 0);
    for (row, end) in rows {
        for count in &counts[from..*end] {
            let slot = &mut next[count.term as usize];
            turned[*slot] = Posting { row: *row, body: count.body, title: count.title };
            *slot += 1;
        }
        from = *end;
    }
    (starts, turned)
}

impl TermKind {
    /// Returns true if the term adds to the length of its row.
    pub(super) fn counts(self) -> bool {
        matches!(self, TermKind::Word | TermKind::Part)
    }
}
