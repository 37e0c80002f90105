//! Splits one run of sections into pieces of about the target length.
//!
//! Break points are sections, then paragraphs, then lines and sentences, then any character. The text is first split
//! into atoms, each at most as long as a chunk. Atoms are then packed into pieces, each of which ends at the cheapest
//! break near its share of the remaining text.

use std::ops::Range;

use crate::document::Document;
use crate::limits::{CHUNK_CHARS_MAX, CHUNK_CHARS_TARGET, CHUNK_CHARS_TINY};

/// Cost of ending a piece at a break, in characters of distance from the ideal length.
mod cost {
    pub(super) const SECTION: usize = 0;
    pub(super) const PARAGRAPH: usize = 100;
    pub(super) const INSIDE_KEPT: usize = 250;
    pub(super) const LIST_ITEM: usize = 200;
    pub(super) const SENTENCE: usize = 250;
    pub(super) const LINE: usize = 350;
    pub(super) const WORD: usize = 500;
    pub(super) const LETTER: usize = 700;
    /// Added if the piece would end on words that announce the text after it.
    pub(super) const ANNOUNCING: usize = 300;
    /// Added if the piece would end on a heading.
    pub(super) const AFTER_HEADING: usize = 800;
    /// Added if the piece or the remaining text would be tiny.
    pub(super) const TINY: usize = 600;
}

/// Characters of the shortest run of words that becomes an atom, if a sentence is too long.
const WORDS_CHARS_MIN: usize = 100;
/// Characters of the longest word that is not split.
const WORD_CHARS_MAX: usize = 400;

const _: () = assert!(WORDS_CHARS_MIN + WORD_CHARS_MAX < CHUNK_CHARS_MAX);

/// A stretch of text with a possible break at its end.
struct Atom {
    end: usize,
    chars: usize,
    cost: usize,
}

/// Splits the text of the sections `group` into ranges of at most `CHUNK_CHARS_MAX` characters.
pub(super) fn cut(document: &Document, group: Range<usize>) -> Vec<Range<usize>> {
    let sections = &document.sections[group];
    let (Some(first), Some(last)) = (sections.first(), sections.last()) else { return Vec::new() };
    let whole = first.span.start..last.span.end;
    if document.text[whole.clone()].chars().nth(CHUNK_CHARS_MAX).is_none() {
        return vec![whole];
    }
    let mut atoms = Vec::new();
    for section in sections {
        paragraphs(document, section.span.clone(), section.body_start, &mut atoms);
        if let Some(atom) = atoms.last_mut() {
            atom.cost = cost::SECTION;
        }
    }
    pack(&document.text, whole.start, atoms)
}

/// Adds the atoms of one section: unsplittable blocks whole, else paragraphs, each with the blank lines after it.
fn paragraphs(document: &Document, span: Range<usize>, body_start: usize, atoms: &mut Vec<Atom>) {
    let text = &document.text;
    let mut kept = document.keep[document.keep.partition_point(|keep| keep.end <= span.start)..]
        .iter()
        .peekable();
    let mut start = span.start;
    let mut blank = false; // whether the line before was blank, so the next words start an atom
    let mut at = span.start;
    while at < span.end {
        let line_end = text[at..span.end].find('\n').map_or(span.end, |n| at + n + 1);
        while kept.next_if(|keep| keep.end <= at).is_some() {}
        if let Some(keep) = kept
            .peek()
            .filter(|keep| keep.start >= at && keep.start < line_end && keep.end <= span.end)
        {
            add(text, start..keep.start, cost::PARAGRAPH, body_start, atoms);
            let end = blank_after(text, keep.end, span.end);
            add(text, keep.start..end, cost::PARAGRAPH, body_start, atoms);
            (at, start, blank) = (end, end, false);
            continue;
        }
        let empty = text[at..line_end].trim().is_empty();
        if blank && !empty && text[start..at].contains(|c: char| !c.is_whitespace()) {
            add(text, start..at, cost::PARAGRAPH, body_start, atoms);
            start = at;
        }
        blank = empty;
        at = line_end;
    }
    add(text, start..span.end, cost::PARAGRAPH, body_start, atoms);
}

/// Returns the end of the blank lines after `from`.
fn blank_after(text: &str, from: usize, end: usize) -> usize {
    let mut at = from;
    while at < end {
        let line_end = text[at..end].find('\n').map_or(end, |n| at + n + 1);
        if !text[at..line_end].trim().is_empty() {
            break;
        }
        at = line_end;
    }
    at
}

/// Adds `range` as one atom if it fits, else its lines.
fn add(text: &str, range: Range<usize>, price: usize, body_start: usize, atoms: &mut Vec<Atom>) {
    let words = &text[range.clone()];
    if words.is_empty() {
        return;
    }
    let chars = words.chars().take(CHUNK_CHARS_MAX + 1).count();
    if chars <= CHUNK_CHARS_MAX {
        // Blank lines after a heading belong to the heading's atom.
        let words_after = &text[body_start.clamp(range.start, range.end)..range.end];
        let bare = range.start < body_start && words_after.trim().is_empty();
        let heading = if bare { cost::AFTER_HEADING } else { 0 };
        let announcing = if words.trim_end().ends_with(':') { cost::ANNOUNCING } else { 0 };
        atoms.push(Atom { end: range.end, chars, cost: price + heading + announcing });
        return;
    }
    add_lines(text, range, CHUNK_CHARS_MAX, atoms);
    if let Some(last) = atoms.last_mut() {
        last.cost = cost::PARAGRAPH;
    }
}

/// Adds the lines of `range` as atoms of at most `limit` characters.
fn add_lines(text: &str, range: Range<usize>, limit: usize, atoms: &mut Vec<Atom>) {
    let mut at = range.start;
    let mut each = text[range].split_inclusive('\n').peekable();
    while let Some(line) = each.next() {
        let end = at + line.len();
        let next = each.peek().map_or("", |next| next.trim());
        let price = if line.trim().is_empty() {
            cost::INSIDE_KEPT
        } else if starts_list_item(next) {
            cost::LIST_ITEM
        } else if line.trim_end().ends_with(['.', '!', '?', ';']) {
            cost::SENTENCE
        } else {
            cost::LINE
        };
        add_line(text, at..end, price, limit, atoms);
        at = end;
    }
}

fn starts_list_item(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = rest.len() < line.len() && (rest.starts_with(". ") || rest.starts_with(") "));
    numbered || ["- ", "* ", "+ ", "\u{2022} "].iter().any(|mark| line.starts_with(mark))
}

/// Adds one line; a line that is too long is split at sentences, then at words, then anywhere.
fn add_line(text: &str, line: Range<usize>, price: usize, limit: usize, atoms: &mut Vec<Atom>) {
    if text[line.clone()].chars().nth(limit).is_none() {
        let chars = text[line.clone()].chars().count();
        atoms.push(Atom { end: line.end, chars, cost: price });
        return;
    }
    let (mut chars, mut stop) = (0, false); // `stop`: the last word character ended a sentence
    let mut start = line.start;
    let mut letters = text[line.clone()].char_indices().peekable();
    while let Some((offset, letter)) = letters.next() {
        chars += 1;
        let end = line.start + offset + letter.len_utf8();
        let space = letter.is_whitespace();
        let word_next = letters.peek().is_some_and(|(_, next)| !next.is_whitespace());
        stop = if space {
            stop
        } else {
            matches!(letter, '.' | '!' | '?' | '\u{3002}' | '\u{FF01}' | '\u{FF1F}')
        };
        let price = if space && word_next && stop && chars > 1 {
            cost::SENTENCE
        } else if space && chars >= WORDS_CHARS_MIN {
            cost::WORD
        } else if chars >= WORD_CHARS_MAX {
            cost::LETTER
        } else {
            continue;
        };
        atoms.push(Atom { end, chars, cost: price });
        (start, chars) = (end, 0);
    }
    if start < line.end {
        atoms.push(Atom { end: line.end, chars, cost: price });
    } else if let Some(last) = atoms.last_mut() {
        last.cost = price;
    }
}

/// Packs atoms into ranges, each ending at the cheapest break near an equal share of the remaining text.
fn pack(text: &str, from: usize, mut atoms: Vec<Atom>) -> Vec<Range<usize>> {
    let mut left: usize = atoms.iter().map(|atom| atom.chars).sum();
    let mut start = from;
    let mut cuts = Vec::new();
    atoms.reverse(); // the next atom is the last, so taking and splitting are cheap
    while !atoms.is_empty() {
        let mut taken = atoms.len();
        if left > CHUNK_CHARS_MAX {
            taken = best_break(&atoms, left);
            if split_after_tiny(text, &mut atoms, taken) {
                taken = best_break(&atoms, left);
            }
        }
        let mut end = start;
        for atom in atoms.drain(atoms.len() - taken..).rev() {
            left -= atom.chars;
            end = atom.end;
        }
        cuts.push(start..end);
        start = end;
    }
    cuts
}

/// Splits the atom after the next piece if the piece is tiny only because that atom does not fit behind it: a heading
/// without its text is not a useful chunk. Returns true if the atom was split.
fn split_after_tiny(text: &str, atoms: &mut Vec<Atom>, taken: usize) -> bool {
    let piece = &atoms[atoms.len() - taken..];
    let chars: usize = piece.iter().map(|atom| atom.chars).sum();
    let Some(at) = atoms.len().checked_sub(taken + 1) else { return false };
    let (next, before) = (&atoms[at], &atoms[at + 1]);
    if chars >= CHUNK_CHARS_TINY || chars + next.chars <= CHUNK_CHARS_MAX {
        return false;
    }
    let mut finer = Vec::new();
    let price = next.cost;
    add_lines(text, before.end..next.end, CHUNK_CHARS_TARGET, &mut finer);
    if let Some(last) = finer.last_mut() {
        last.cost = price;
    }
    atoms.splice(at..=at, finer.into_iter().rev());
    true
}

/// Returns the number of atoms (next one last) for the next piece, at least one, when `left` characters remain.
fn best_break(atoms: &[Atom], left: usize) -> usize {
    let count =
        left.div_ceil(CHUNK_CHARS_MAX).max((left + CHUNK_CHARS_TARGET / 2) / CHUNK_CHARS_TARGET);
    let share = left / count.max(1);
    let (mut chars, mut best, mut best_cost) = (0, 1, usize::MAX);
    for (i, atom) in atoms.iter().rev().enumerate() {
        chars += atom.chars;
        if chars > CHUNK_CHARS_MAX {
            break;
        }
        let tiny = chars < CHUNK_CHARS_TINY || left - chars < CHUNK_CHARS_TINY;
        let price = chars.abs_diff(share) + atom.cost + if tiny { cost::TINY } else { 0 };
        if price <= best_cost {
            (best, best_cost) = (i + 1, price);
        }
    }
    best
}
