//! Splits a document into chunks at the breaks that a person would choose.
//!
//! Decides which sections share a chunk and which heading a chunk has; `pieces` splits a run of sections. The chunks of
//! a document, concatenated in order, equal its text byte for byte, so the document can be restored from its chunks.

use std::ops::Range;

use crate::document::{Document, Section, Source, line_of, line_starts};
use crate::format::Format;
use crate::limits::{CHUNK_CHARS_MAX, CHUNK_CHARS_TARGET, CHUNK_CHARS_TINY};
use crate::pieces;

/// A parent section that is not longer than its heading line joins its first child.
const HEADING_ONLY_CHARS_MAX: usize = 100;
/// A section with at least this share of a chunk (three quarters) names the chunk.
const MOSTLY: usize = 3;
const MOSTLY_OF: usize = 4;

/// A stretch of a document that is embedded and returned as one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Headings above this chunk, outermost first; if the chunk has several sections, their common prefix.
    pub heading_path: Vec<String>,
    /// For code: the full name of the (largest) symbol in the chunk.
    pub symbol: Option<String>,
    /// Verbatim slice of `Document::text`.
    pub text: String,
    /// First byte in the decoded file.
    pub byte_start: u64,
    /// One past the last byte in the decoded file.
    pub byte_end: u64,
    /// First line, from 1.
    pub line_start: u32,
    /// Last line, from 1, inclusive.
    pub line_end: u32,
    /// Index among the document's chunks, from 0.
    pub ordinal: u32,
}

/// Splits a document into chunks; an empty document has none.
pub fn chunk(document: &Document) -> Vec<Chunk> {
    let counts: Vec<usize> = document
        .sections
        .iter()
        .map(|section| document.text[section.span.clone()].chars().count())
        .collect();
    let mut cuts: Vec<Range<usize>> = Vec::new();
    for group in groups(document, &counts) {
        let fresh = pieces::cut(document, group);
        cuts.extend(fresh);
    }
    join_blank(&document.text, &mut cuts);
    let places = Places::of(document);
    let mut first = 0;
    let mut chunks = Vec::with_capacity(cuts.len());
    for (ordinal, cut) in cuts.into_iter().enumerate() {
        while document.sections[first].span.end <= cut.start {
            first += 1;
        }
        let held = &document.sections[first..];
        let held = &held[..held.partition_point(|section| section.span.start < cut.end)];
        let (heading_path, symbol) = called(held, &cut);
        let bytes = places.bytes(&cut);
        chunks.push(Chunk {
            heading_path,
            symbol,
            text: document.text[cut].to_owned(),
            byte_start: bytes.start as u64,
            byte_end: bytes.end as u64,
            line_start: line_of(&places.starts, bytes.start),
            line_end: line_of(&places.starts, bytes.end.saturating_sub(1).max(bytes.start)),
            ordinal: u32::try_from(ordinal).unwrap_or(u32::MAX),
        });
    }
    chunks
}

/// Headings returned per document.
pub(crate) const HEADINGS_MAX: usize = 1_000;
/// Characters of a returned heading.
const HEADING_CHARS_MAX: usize = 200;

/// A heading: its level from 1, its line in the file from 1, its text.
pub(super) type Heading = (u8, u32, String);

/// Returns the headings of a document in order, and true if the document has more than `HEADINGS_MAX`.
pub fn headings(document: &Document) -> (Vec<Heading>, bool) {
    let places = Places::of(document);
    let titled = document.sections.iter().filter_map(|section| {
        let title = section.symbol.as_ref().or(section.heading_path.last())?;
        let line = line_of(&places.starts, places.bytes(&section.span).start);
        Some((section.level.max(1), line, title.chars().take(HEADING_CHARS_MAX).collect()))
    });
    let mut headings: Vec<Heading> = titled.take(HEADINGS_MAX + 1).collect();
    let is_cut = headings.len() > HEADINGS_MAX;
    headings.truncate(HEADINGS_MAX);
    (headings, is_cut)
}

/// Returns the runs of sections that are split together.
fn groups(document: &Document, counts: &[usize]) -> Vec<Range<usize>> {
    let sections = &document.sections;
    // A page is a location that results cite, so even a short page remains a chunk of its own.
    let are_pages = document.format == Format::Pdf;
    let mut found: Vec<(Range<usize>, usize)> = Vec::new();
    let mut at = 0;
    while at < sections.len() {
        let (mut end, mut chars) = (at + 1, counts[at]);
        if document.modality == "code" {
            (end, chars) = whole_item(sections, counts, at);
        }
        match found.last_mut() {
            Some((group, have))
                if !are_pages
                    && ((document.modality == "code"
                        && gathers(sections, counts, group, *have, at, chars))
                        || joins(sections, counts, group, *have, at..end, chars)) =>
            {
                group.end = end;
                *have += chars;
            }
            _ => found.push((at..end, chars)),
        }
        at = end;
    }
    found.into_iter().map(|(group, _)| group).collect()
}

/// Returns the end and length of section `at` with its descendants if they fit the target, else of the section alone: a
/// small class reads best whole.
fn whole_item(sections: &[Section], counts: &[usize], at: usize) -> (usize, usize) {
    let level = sections[at].level;
    let mut chars = counts[at];
    let mut end = at + 1;
    while end < sections.len() && sections[end].level > level && level > 0 {
        chars += counts[end];
        if chars > CHUNK_CHARS_TARGET {
            return (at + 1, counts[at]);
        }
        end += 1;
    }
    (end, chars)
}

/// Returns true if a tiny item joins the tiny items before it, so that a run of constants is one chunk.
fn gathers(
    sections: &[Section],
    counts: &[usize],
    group: &Range<usize>,
    have: usize,
    at: usize,
    chars: usize,
) -> bool {
    let last = group.end - 1;
    let tiny = counts[last] < CHUNK_CHARS_TINY && chars < CHUNK_CHARS_TINY;
    tiny && sections[last].level == sections[at].level && have + chars <= CHUNK_CHARS_TARGET
}

/// Returns true if the sections `next` join the preceding `group`.
fn joins(
    sections: &[Section],
    counts: &[usize],
    group: &Range<usize>,
    have: usize,
    next: Range<usize>,
    chars: usize,
) -> bool {
    let (head, last, new) =
        (&sections[group.start], &sections[group.end - 1], &sections[next.start]);
    let sibling = new.level == head.level;
    // A chain of headings, each the only one above the next, counts as one parent.
    let child = new.level > last.level && head.level <= last.level;
    let only_headings = group.clone().all(|i| {
        counts[i] <= HEADING_ONLY_CHARS_MAX && sections[i].body_start > sections[i].span.start
    });
    let tiny = have < CHUNK_CHARS_TINY;
    if tiny && child {
        return only_headings || have + chars <= CHUNK_CHARS_MAX;
    }
    if tiny && sibling {
        return have + chars <= CHUNK_CHARS_MAX;
    }
    // A tiny last sibling has no following section to join, so it joins the group before it.
    let last_sibling = sections.get(next.end).is_none_or(|after| after.level < new.level);
    sibling && last_sibling && chars < CHUNK_CHARS_TINY && have + chars <= CHUNK_CHARS_TARGET
}

/// Joins a cut of white space alone to the cut before it, unless the result exceeds `CHUNK_CHARS_MAX`.
fn join_blank(text: &str, cuts: &mut Vec<Range<usize>>) {
    cuts.dedup_by(|next, before| {
        let blank = text[next.clone()].trim().is_empty();
        let fits = || text[before.start..next.end].chars().nth(CHUNK_CHARS_MAX).is_none();
        let joined = blank && fits();
        if joined {
            before.end = next.end;
        }
        joined
    });
}

/// Returns the heading path and symbol of a cut that overlaps the sections `held`.
fn called(held: &[Section], cut: &Range<usize>) -> (Vec<String>, Option<String>) {
    let above = |a: &Section, b: &Section| {
        a.heading_path.len() < b.heading_path.len() && b.heading_path.starts_with(&a.heading_path)
    };
    let chain = held.windows(2).take_while(|pair| above(&pair[0], &pair[1])).count();
    let rest = &held[chain.min(held.len().saturating_sub(1))..];
    let overlap = |s: &Section| -> usize { s.span.end.min(cut.end) - s.span.start.max(cut.start) };
    // Reversed, because `max_by_key` returns the last of equal sections and the first is wanted.
    let Some(largest) = rest.iter().rev().max_by_key(|section| overlap(section)) else {
        return (Vec::new(), None);
    };
    let total: usize = rest.iter().map(overlap).sum();
    let mostly = overlap(largest) * MOSTLY_OF >= total * MOSTLY;
    let shared = rest.iter().fold(largest.heading_path.as_slice(), |path, section| {
        let same = path.iter().zip(&section.heading_path).take_while(|(a, b)| a == b).count();
        &path[..same]
    });
    if mostly || shared.is_empty() || shared.len() == largest.heading_path.len() {
        return (largest.heading_path.clone(), largest.symbol.clone());
    }
    let holder = held.iter().find(|section| section.heading_path == shared);
    (
        shared.to_vec(),
        holder.and_then(|section| section.symbol.clone()).or_else(|| largest.symbol.clone()),
    )
}

/// Maps positions in the text to positions in the file.
struct Places<'a> {
    document: &'a Document,
    starts: Vec<usize>,
}

impl<'a> Places<'a> {
    fn of(document: &'a Document) -> Self {
        let starts = match &document.source {
            Source::Verbatim => line_starts(&document.text),
            Source::Extracted { line_starts, .. } => line_starts.clone(),
        };
        Self { document, starts }
    }

    /// Returns the bytes of the decoded file from which a cut was extracted.
    fn bytes(&self, cut: &Range<usize>) -> Range<usize> {
        let Source::Extracted { runs, .. } = &self.document.source else { return cut.clone() };
        let first = runs.partition_point(|run| run.text_start <= cut.start).saturating_sub(1);
        let end =
            runs.partition_point(|run| run.text_start < cut.end).max(first + 1).min(runs.len());
        let held = runs.get(first..end).unwrap_or(&[]);
        let start = held.first().map_or(0, |run| run.source_start);
        start..held.last().map_or(start, |run| run.source_end.max(start))
    }
}
