//! The result of a reader: the text of a file and the structure found in it.
//!
//! The sections must tile the text.

use std::ops::Range;

use super::format::Format;

/// Sections per document; text below later headings stays in the last section.
pub(crate) const SECTIONS_MAX: usize = 10_000;
/// Characters of one heading, title, label or field name.
pub(crate) const HEADING_CHARS_MAX: usize = 200;
/// Deepest heading level; deeper headings count as this level.
pub(crate) const HEADING_DEPTH_MAX: u8 = 12;
/// Links per document; the first ones are retained.
pub const LINKS_MAX: usize = 2_000;
/// Bytes of one link target; longer targets (data URLs) are dropped.
pub(crate) const LINK_TARGET_BYTES_MAX: usize = 1_024;
/// Front matter or header fields per document.
pub(crate) const FIELDS_MAX: usize = 64;
/// Characters of a field's value.
pub(crate) const FIELD_CHARS_MAX: usize = 2_000;

/// A file as title, text, sections, links and fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Title of the document: a title field, the first heading, or the file name.
    pub title: String,
    /// Format as which the file was read.
    pub format: Format,
    /// `text`, `code`, `pdf` or `image`: a filter of recall.
    pub modality: &'static str,
    /// Text that is split into chunks: the decoded file, or the text extracted from it.
    pub text: String,
    /// Sections in order of `span`; the spans tile `text` without gap or overlap.
    pub sections: Vec<Section>,
    /// Ranges of `text` that are not split if they fit a chunk: fences, literal blocks, tables. Sorted, disjoint.
    pub keep: Vec<Range<usize>>,
    /// Links in order of appearance, at most `LINKS_MAX`.
    pub links: Vec<Link>,
    /// Front matter or header fields in order, at most `FIELDS_MAX`.
    pub fields: Vec<(String, String)>,
    /// Remarks for the ingest report: lossy decoding, limits reached.
    pub notes: Vec<String>,
    /// Description of the parts that could not be read although the rest could, such as broken lines.
    pub lost: Option<String>,
    /// Mapping from positions in `text` to positions in the decoded file.
    pub source: Source,
}

/// A heading and the text up to the next heading of any level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Headings from the outermost to this one; empty before the first heading.
    pub heading_path: Vec<String>,
    /// Byte range in `Document::text`.
    pub level: u8,
    /// For code: the full name of the symbol, such as `Roots::resolve`.
    pub symbol: Option<String>,
    /// Bytes of `Document::text`.
    pub span: Range<usize>,
    /// Start of the text below the heading, within `span`.
    pub body_start: usize,
}

/// A reference to another document or URL, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Kind of target, by which link candidates are found.
    pub kind: LinkKind,
    /// The target as written.
    pub target: String,
    /// Line in the file, from 1.
    pub line: u32,
    /// Link text; may be empty.
    pub label: String,
}

/// Interpretation of a link target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkKind {
    /// A path or URL.
    Path,
    /// `[[Name]]`: the name of a note.
    Wiki,
    /// The number of a PEP.
    Pep,
    /// A Sphinx document name without its extension.
    Doc,
    /// A Sphinx label, defined only within its own project.
    Label,
}

/// Mapping from `Document::text` to the decoded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The text equals the decoded file.
    Verbatim,
    /// The text was extracted from the file.
    Extracted {
        /// Runs of text, sorted by `text_start`.
        runs: Vec<Run>,
        /// Byte offset of each line of the decoded file.
        line_starts: Vec<usize>,
    },
}

/// A run of extracted text and its bytes in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First byte in `Document::text`.
    pub text_start: usize,
    /// First byte in the decoded file.
    pub source_start: usize,
    /// One past the last byte in the decoded file.
    pub source_end: usize,
}

/// Byte offsets of line starts; the first is always 0.
pub(crate) fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

/// Returns the 1-based number of the line with byte `at`, given the starts of all lines.
pub(crate) fn line_of(starts: &[usize], at: usize) -> u32 {
    u32::try_from(starts.partition_point(|&start| start <= at).max(1)).unwrap_or(u32::MAX)
}

/// Lines of `text` as byte ranges, each with its line end.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        start..at
    })
}

/// Returns `text` with white space collapsed, cut to `chars_max` characters.
pub(super) fn tidy(text: &str, chars_max: usize) -> String {
    let mut out = String::new();
    let mut left = chars_max;
    for word in text.split_whitespace() {
        if !out.is_empty() && left > 0 {
            out.push(' ');
            left -= 1;
        }
        for letter in word.chars().take(left) {
            out.push(letter);
            left -= 1;
        }
        if left == 0 {
            break;
        }
    }
    out
}

/// Collects links within the limits, each target once per kind.
#[derive(Debug, Default)]
pub(super) struct Links {
    found: Vec<Link>,
    seen: std::collections::HashSet<(LinkKind, String)>,
}

impl Links {
    pub(super) fn add(&mut self, kind: LinkKind, target: &str, line: u32, label: &str) {
        let target = target.trim();
        // A fragment of the document itself is not a link to another one.
        let here = kind == LinkKind::Path && target.starts_with('#');
        let long = target.len() > LINK_TARGET_BYTES_MAX;
        if target.is_empty() || here || long || self.found.len() >= LINKS_MAX {
            return;
        }
        if self.seen.insert((kind, target.to_owned())) {
            let label = tidy(label, HEADING_CHARS_MAX);
            self.found.push(Link { kind, target: target.to_owned(), line, label });
        }
    }

    /// Returns the links in order of their lines.
    pub(super) fn finish(mut self) -> Vec<Link> {
        self.found.sort_by_key(|link| link.line);
        self.found
    }
}

/// A heading as a reader finds it.
#[derive(Debug, Clone)]
pub(super) struct Heading {
    /// First byte of the heading, including decoration and doc comments.
    pub(super) at: usize,
    /// One past the heading's own lines.
    pub(super) body_start: usize,
    /// Level from 1; clamped to `HEADING_DEPTH_MAX`.
    pub(super) level: u8,
    pub(super) title: String,
    pub(super) symbol: Option<String>,
}

/// Turns headings (sorted by `at`) into sections that tile `0..text_bytes`.
pub(super) fn tile(
    text_bytes: usize,
    headings: Vec<Heading>,
    notes: &mut Vec<String>,
) -> Vec<Section> {
    if text_bytes == 0 {
        return Vec::new();
    }
    if headings.len() > SECTIONS_MAX {
        notes.push(format!(
            "{} headings; only the first {SECTIONS_MAX} open sections",
            headings.len()
        ));
    }
    let lead = headings.first().map_or(text_bytes, |first| first.at);
    let mut sections = Vec::with_capacity(headings.len().min(SECTIONS_MAX) + 1);
    if lead > 0 {
        sections.push(Section {
            heading_path: Vec::new(),
            level: 0,
            symbol: None,
            span: 0..lead,
            body_start: 0,
        });
    }
    let mut open: Vec<(u8, String)> = Vec::new();
    let ends: Vec<usize> =
        headings.iter().skip(1).map(|next| next.at).take(SECTIONS_MAX - 1).collect();
    for (i, heading) in headings.into_iter().take(SECTIONS_MAX).enumerate() {
        let level = heading.level.clamp(1, HEADING_DEPTH_MAX);
        while open.last().is_some_and(|(above, _)| *above >= level) {
            open.pop();
        }
        open.push((level, tidy(&heading.title, HEADING_CHARS_MAX)));
        let end = ends.get(i).copied().unwrap_or(text_bytes);
        // Readers sort their headings; two headings at one position would make an empty section.
        if end > heading.at {
            sections.push(Section {
                heading_path: open
                    .iter()
                    .map(|(_, title)| title.clone())
                    .filter(|t| !t.is_empty())
                    .collect(),
                level,
                symbol: heading.symbol,
                span: heading.at..end,
                body_start: heading.body_start.clamp(heading.at, end),
            });
        }
    }
    sections
}

/// Adds a field within the limits.
pub(super) fn add_field(fields: &mut Vec<(String, String)>, name: &str, value: &str) {
    if fields.len() < FIELDS_MAX && !name.trim().is_empty() {
        fields.push((tidy(name, HEADING_CHARS_MAX), tidy(value, FIELD_CHARS_MAX)));
    }
}

/// Returns the value of the first field named `name` (ASCII case-insensitive), if the value is not empty.
pub(super) fn field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields
        .iter()
        .find(|(n, v)| n.eq_ignore_ascii_case(name) && !v.is_empty())
        .map(|(_, v)| v.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heading(at: usize, level: u8, title: &str) -> Heading {
        Heading { at, body_start: at + 1, level, title: title.into(), symbol: None }
    }

    #[test]
    fn sections_tile_and_carry_their_path() {
        let found = tile(
            50,
            vec![heading(5, 1, "a"), heading(10, 3, "b"), heading(20, 2, "c")],
            &mut Vec::new(),
        );
        let spans: Vec<_> = found.iter().map(|s| s.span.clone()).collect();
        assert_eq!(spans, [0..5, 5..10, 10..20, 20..50]);
        assert_eq!(found[2].heading_path, ["a", "b"]);
        assert_eq!(found[3].heading_path, ["a", "c"]);
    }

    #[test]
    fn too_many_headings_stay_in_the_last_section_with_a_note() {
        let many = (0..SECTIONS_MAX + 5).map(|i| heading(i, 1, "h")).collect();
        let mut notes = Vec::new();
        let found = tile(SECTIONS_MAX + 5, many, &mut notes);
        assert_eq!(found.len(), SECTIONS_MAX);
        assert_eq!(found.last().unwrap().span.end, SECTIONS_MAX + 5);
        assert_eq!(notes.len(), 1);
    }

    #[test]
    fn lines_are_counted_from_one() {
        let starts = line_starts("a\nb\n\nc");
        assert_eq!(starts, [0, 2, 4, 5]);
        assert_eq!(
            (line_of(&starts, 0), line_of(&starts, 1), line_of(&starts, 2), line_of(&starts, 5)),
            (1, 1, 2, 4)
        );
    }

    #[test]
    fn tidy_collapses_and_bounds() {
        assert_eq!(tidy("  a \n b\tc ", 100), "a b c");
        assert_eq!(tidy("abcdef", 3), "abc");
    }
}
