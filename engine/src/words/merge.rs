//! Many segments' words into one, without their texts.
//!
//! Owns the walk through several dictionaries at once. Must not know why rows go: the caller's
//! mapping says where each row lands, or that it is dropped.

use super::Damage;
use super::columns::ColumnsWriter;
use super::layout::{SEGMENT_POSTINGS_MAX, WordColumns};
use super::postings::{Full, Posting};
use super::view::{List, Lists, PostingsView};

/// Why words were not merged. Nothing was written.
#[derive(Debug)]
#[non_exhaustive]
pub enum MergeError {
    /// A source breaks a rule of the format.
    Damaged(Damage),
    /// The result would exceed the bounds of a segment.
    Full(Full),
}

impl std::fmt::Display for MergeError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged(damage) => write!(out, "a segment to merge is damaged: {damage}"),
            Self::Full(full) => write!(out, "the merged segment is too large: {full}"),
        }
    }
}

impl std::error::Error for MergeError {}

impl From<Damage> for MergeError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

/// One source's dictionary and the term it stands at.
struct Head<'a> {
    lists: Lists<'a>,
    term: Option<(Vec<u8>, List)>,
}

impl Head<'_> {
    fn advance(&mut self) -> Result<(), Damage> {
        self.term = self.lists.next()?.map(|(term, list)| (term.to_vec(), list));
        Ok(())
    }
}

/// Merges the words of `sources` into the columns of a segment of `rows` rows.
///
/// Each source comes with where its rows go: `Some(row)` below `rows`, or `None` for a row that is
/// dropped.
///
/// # Errors
/// [`MergeError`] when a source is damaged or the result too large.
///
/// # Panics
/// When a mapping leaves the new segment or sends two rows to one.
pub fn merge<M: Fn(u32) -> Option<u32>>(
    sources: &[(PostingsView<'_>, M)],
    rows: u32,
) -> Result<WordColumns, MergeError> {
    let mut writer = ColumnsWriter::new(merge_lengths(sources, rows));
    let mut heads = Vec::with_capacity(sources.len());
    for (view, _) in sources {
        let mut head = Head { lists: view.lists(), term: None };
        head.advance()?;
        heads.push(head);
    }
    let (mut postings, mut total): (Vec<Posting>, usize) = (Vec::new(), 0);
    while let Some(least) =
        heads.iter().filter_map(|head| head.term.as_ref()).map(|(term, _)| term).min().cloned()
    {
        postings.clear();
        for (head, (view, mapping)) in heads.iter_mut().zip(sources) {
            let Some((_, list)) = head.term.as_ref().filter(|(term, _)| *term == least) else {
                continue;
            };
            for posting in view.iterate(*list) {
                let posting = posting?;
                postings.extend(mapping(posting.row).map(|row| Posting { row, ..posting }));
            }
            head.advance()?;
        }
        total += postings.len();
        if total > SEGMENT_POSTINGS_MAX {
            return Err(MergeError::Full(Full));
        }
        if !postings.is_sorted_by_key(|posting| posting.row) {
            postings.sort_unstable_by_key(|posting| posting.row);
        }
        let apart = postings.windows(2).all(|pair| pair[0].row < pair[1].row);
        assert!(
            apart && postings.last().is_none_or(|last| last.row < rows),
            "a mapping sends two rows to one, or outside"
        );
        if !postings.is_empty() {
            writer.term(&least, &postings);
        }
    }
    Ok(writer.finish())
}

fn merge_lengths<M: Fn(u32) -> Option<u32>>(
    sources: &[(PostingsView<'_>, M)],
    rows: u32,
) -> Vec<u8> {
    let mut lengths = vec![0; rows as usize];
    for (view, mapping) in sources {
        for (row, code) in (0..).zip(view.lengths()) {
            if let Some(to) = mapping(row) {
                lengths[to as usize] = *code;
            }
        }
    }
    lengths
}
