//! Merge of the word columns of several segments, without their texts.
//!
//! Owns the simultaneous iteration over several dictionaries. The caller's mapping defines the new row of each row, or
//! drops the row.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::block::Decoded;
use super::bytes::Bytes;
use super::columns::ColumnsWriter;
use super::layout::{SEGMENT_POSTINGS_MAX, WordColumns};
use super::posting::Posting;
use super::postings::Full;
use super::view::PostingsView;
use crate::error::Damage;

/// Postings merged between two polls of `goes_on`: about a millisecond.
const POSTINGS_TOGETHER: usize = 1 << 13;

/// Failure of a merge. Nothing was written.
#[derive(Debug)]
#[non_exhaustive]
pub enum MergeError {
    /// A source breaks a rule of the format.
    Damaged(Damage),
    /// The result would exceed the limits of a segment.
    Full(Full),
    /// The merge was cancelled.
    Cancelled,
}

impl std::fmt::Display for MergeError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged(damage) => write!(out, "a segment to merge is damaged: {damage}"),
            Self::Full(full) => write!(out, "the merged segment is too large: {full}"),
            Self::Cancelled => write!(out, "it was called off"),
        }
    }
}

impl std::error::Error for MergeError {}

impl From<Damage> for MergeError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

/// Next term of a source. The smallest term is merged first, equal terms in order of the sources. The first bytes of
/// the term as a number decide most comparisons.
type Next = Reverse<(u64, Vec<u8>, usize)>;

fn first_bytes(term: &[u8]) -> u64 {
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
/// [`MergeError`] if a source is damaged or the result is too large.
///
/// # Panics
/// If a mapping yields a row outside the new segment, or one row twice.
pub fn merge<B: Bytes, M: Fn(u32) -> Option<u32>>(
    sources: &[(PostingsView<B>, M)],
    rows: u32,
) -> Result<WordColumns, MergeError> {
    merge_while(sources, rows, &mut || true)
}

/// Merges like [`merge`], and polls `goes_on`: if it returns false, the merge is cancelled.
pub(crate) fn merge_while<B: Bytes, M: Fn(u32) -> Option<u32>>(
    sources: &[(PostingsView<B>, M)],
    rows: u32,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<WordColumns, MergeError> {
    merge_into(ColumnsWriter::new(merge_lengths(sources, rows)?), sources, rows, goes_on)
}

/// Merges like [`merge`] for rows of the tail: the heap dictionary must not be written to a file.
pub(crate) fn merge_on_heap<B: Bytes, M: Fn(u32) -> Option<u32>>(
    sources: &[(PostingsView<B>, M)],
    rows: u32,
) -> Result<WordColumns, MergeError> {
    merge_into(ColumnsWriter::on_heap(merge_lengths(sources, rows)?), sources, rows, &mut || true)
}

fn merge_into<B: Bytes, M: Fn(u32) -> Option<u32>>(
    mut writer: ColumnsWriter,
    sources: &[(PostingsView<B>, M)],
    rows: u32,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<WordColumns, MergeError> {
    let mut lists: Vec<_> = sources.iter().map(|(view, _)| (view.lists(), None)).collect();
    let mut queue: BinaryHeap<Next> = BinaryHeap::with_capacity(sources.len());
    for (source, (lists, list)) in lists.iter_mut().enumerate() {
        if let Some((term, first)) = lists.next()? {
            *list = Some(first);
            queue.push(Reverse((first_bytes(term), term.to_vec(), source)));
        }
    }
    let (mut least, mut postings, mut decoded) = (Vec::new(), Vec::new(), Decoded::default());
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
                    next.0.0 = first_bytes(term);
                    next.0.1.clear();
                    next.0.1.extend_from_slice(term);
                }
                None => drop(PeekMut::pop(next)),
            }
        }
        total += postings.len();
        since_asked += postings.len();
        if since_asked >= POSTINGS_TOGETHER {
            since_asked = 0;
            if !goes_on() {
                return Err(MergeError::Cancelled);
            }
        }
        if total > SEGMENT_POSTINGS_MAX {
            return Err(MergeError::Full(Full));
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

fn merge_lengths<B: Bytes, M: Fn(u32) -> Option<u32>>(
    sources: &[(PostingsView<B>, M)],
    rows: u32,
) -> Result<Vec<u8>, Damage> {
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
