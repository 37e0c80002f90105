//! Merge of the word columns of several segments, without their texts.
//!
//! Owns the simultaneous iteration over several dictionaries. The caller's mapping defines the new row of each row, or
//! drops the row.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::column_bytes::ColumnBytes;
use super::columns_writer::ColumnsWriter;
use super::layout::{FulltextColumns, SEGMENT_POSTINGS_MAX};
use super::posting::Posting;
use super::postings_block::DecodedBlock;
use super::postings_builder::SegmentFullError;
use super::postings_reader::PostingsReader;
use crate::error::CorruptionError;

/// Postings merged between two polls of `goes_on`: about a millisecond.
const POSTINGS_PER_CANCEL_CHECK: usize = 1 << 13;

/// Failure of a merge. Nothing was written.
#[derive(Debug)]
#[non_exhaustive]
pub enum PostingsMergeError {
    /// A source breaks a rule of the format.
    Damaged(CorruptionError),
    /// The result would exceed the limits of a segment.
    Full(SegmentFullError),
    /// The merge was cancelled.
    Cancelled,
}

impl std::fmt::Display for PostingsMergeError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged(damage) => write!(out, "a segment to merge is damaged: {damage}"),
            Self::Full(full) => write!(out, "the merged segment is too large: {full}"),
            Self::Cancelled => write!(out, "it was called off"),
        }
    }
}

impl std::error::Error for PostingsMergeError {}

impl From<CorruptionError> for PostingsMergeError {
    fn from(damage: CorruptionError) -> Self {
        Self::Damaged(damage)
    }
}

/// Next term of a source. The smallest term is merged first, equal terms in order of the sources. The first bytes of
/// the term as a number decide most comparisons.
type NextTerm = Reverse<(u64, Vec<u8>, usize)>;

fn term_prefix(term: &[u8]) -> u64 {
    let first = term.first_chunk().copied().unwrap_or_else(|| {
        let mut first = [0; size_of::<u64>()];
        first[..term.len()].copy_from_slice(term);
        first
    });
    first.into_iter().fold(0, |all, byte| all << 8 | u64::from(byte))
}

/// Merges the words of `sources` into the columns of a segment of `rows` rows.
///
/// Each source has a mapping of its rows: `Some(row)` below `rows`, or `None` for a dropped row. Dropped rows leave no
/// trace: the columns equal, byte for byte, those of a segment built from the other rows.
///
/// # Errors
/// [`PostingsMergeError`] if a source is damaged or the result is too large.
///
/// # Panics
/// If a mapping yields a row outside the new segment, or one row twice.
pub fn merge<B: ColumnBytes, M: Fn(u32) -> Option<u32>>(
    sources: &[(PostingsReader<B>, M)],
    rows: u32,
) -> Result<FulltextColumns, PostingsMergeError> {
    merge_while(sources, rows, &mut || true)
}

/// Merges like [`merge`], and polls `goes_on`: if it returns false, the merge is cancelled.
pub(crate) fn merge_while<B: ColumnBytes, M: Fn(u32) -> Option<u32>>(
    sources: &[(PostingsReader<B>, M)],
    rows: u32,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<FulltextColumns, PostingsMergeError> {
    merge_into(ColumnsWriter::new(merge_lengths(sources, rows)?), sources, rows, goes_on)
}

/// Merges like [`merge`] for rows of the tail: the heap dictionary must not be written to a file.
pub(crate) fn merge_on_heap<B: ColumnBytes, M: Fn(u32) -> Option<u32>>(
    sources: &[(PostingsReader<B>, M)],
    rows: u32,
) -> Result<FulltextColumns, PostingsMergeError> {
    merge_into(ColumnsWriter::on_heap(merge_lengths(sources, rows)?), sources, rows, &mut || true)
}

fn merge_into<B: ColumnBytes, M: Fn(u32) -> Option<u32>>(
    mut writer: ColumnsWriter,
    sources: &[(PostingsReader<B>, M)],
    rows: u32,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<FulltextColumns, PostingsMergeError> {
    let mut lists: Vec<_> = sources.iter().map(|(view, _)| (view.lists(), None)).collect();
    let mut queue: BinaryHeap<NextTerm> = BinaryHeap::with_capacity(sources.len());
    for (source, (lists, list)) in lists.iter_mut().enumerate() {
        if let Some((term, first)) = lists.next()? {
            *list = Some(first);
            queue.push(Reverse((term_prefix(term), term.to_vec(), source)));
        }
    }
    let (mut least, mut postings, mut decoded) = (Vec::new(), Vec::new(), DecodedBlock::default());
    let (mut total, mut since_asked) = (0, 0);
    while let Some(Reverse((_, term, _))) = queue.peek() {
        least.clone_from(term);
        postings.clear();
        while let Some(mut next) = queue.peek_mut().filter(|next| next.0.1 == least) {
            let source = next.0.2;
            let (lists, list) = &mut lists[source];
            if let Some(list) = list.take() {
                let (view, mapping) = &sources[source];
                for block in 0..view.block_count(&list) {
                    view.decode(&list, block, true, &mut decoded)?;
                    postings.extend(decoded.postings().filter_map(|posting| {
                        mapping(posting.row).map(|row| Posting { row, ..posting })
                    }));
                }
            }
            match lists.next()? {
                Some((term, following)) => {
                    *list = Some(following);
                    next.0.0 = term_prefix(term);
                    next.0.1.clear();
                    next.0.1.extend_from_slice(term);
                }
                None => drop(PeekMut::pop(next)),
            }
        }
        total += postings.len();
        since_asked += postings.len();
        if since_asked >= POSTINGS_PER_CANCEL_CHECK {
            since_asked = 0;
            if !goes_on() {
                return Err(PostingsMergeError::Cancelled);
            }
        }
        if total > SEGMENT_POSTINGS_MAX {
            return Err(PostingsMergeError::Full(SegmentFullError));
        }
        write(&mut writer, &least, &mut postings, rows);
    }
    Ok(writer.finish())
}

/// Adds a term, unless all its rows are dropped.
fn write(writer: &mut ColumnsWriter, term: &[u8], postings: &mut [Posting], rows: u32) {
    if !postings.is_sorted_by_key(|posting| posting.row) {
        postings.sort_unstable_by_key(|posting| posting.row);
    }
    let apart = postings.is_sorted_by(|one, other| one.row < other.row);
    assert!(
        apart && postings.last().is_none_or(|last| last.row < rows),
        "a mapping sends two rows to one, or outside"
    );
    if !postings.is_empty() {
        writer.term(term, postings);
    }
}

fn merge_lengths<B: ColumnBytes, M: Fn(u32) -> Option<u32>>(
    sources: &[(PostingsReader<B>, M)],
    rows: u32,
) -> Result<Vec<u8>, CorruptionError> {
    let mut lengths = vec![0; rows as usize];
    for (view, mapping) in sources {
        for (row, code) in (0..).zip(view.lengths()?) {
            if let Some(to) = mapping(row) {
                lengths[to as usize] = *code;
            }
        }
    }
    Ok(lengths)
}
