//! reStructuredText: adorned titles, a field list at the top, literal blocks, directives, references.
//!
//! Finds blocks (docutils, "reStructuredText Markup Specification") and inline references; `adorned` finds titles.
//! Nothing is rendered and nothing is included.

use std::collections::HashMap;
use std::ops::Range;

use super::adorned::titles;
use super::document::{
    Document, HEADING_CHARS_MAX, Heading, LinkKind, Links, Source, add_field, field, line_of,
    line_starts, lines, tidy, tile,
};
use super::format::Format;
use super::mentions::{mentions, number};

/// Longest inline reference in bytes, which bounds the cost of a stray backtick.
const REFERENCE_BYTES_MAX: usize = 600;
/// Lines searched for the end of a table; a longer table is split like any text.
const TABLE_LINES_MAX: usize = 400;

/// Targets above a title that are included in its section.
const ANCHORS_MAX: usize = 8;

pub(super) fn read(text: String) -> Document {
    let starts = line_starts(&text);
    let blocks = blocks(&text);
    let in_block = |at: usize| {
        let i = blocks.partition_point(|block| block.span.end <= at);
        blocks.get(i).is_some_and(|block| block.span.contains(&at))
    };
    let mut headings = titles(&text, in_block);
    for heading in &mut headings {
        heading.at = anchored(&text, &blocks, heading.at);
    }
    let mut fields = header_fields(&text, 0);
    if let (true, Some(first)) = (fields.is_empty(), headings.first()) {
        fields = header_fields(&text, first.body_start);
    }
    let links = references(&text, &blocks, &starts);
    let title = title(&fields, &headings);
    let mut notes = Vec::new();
    let sections = tile(text.len(), headings, &mut notes);
    Document {
        title,
        format: Format::Rst,
        modality: Format::Rst.modality(),
        sections,
        keep: blocks.into_iter().map(|block| block.span).collect(),
        links,
        fields,
        notes,
        lost: None,
        source: Source::Verbatim,
        text,
    }
}

/// Returns the start of a title including the targets directly above (`.. _name:`), because these name the title.
fn anchored(text: &str, blocks: &[Block], title_at: usize) -> usize {
    let above = &blocks[..blocks.partition_point(|block| block.span.end <= title_at)];
    let mut at = title_at;
    for block in above.iter().rev().take(ANCHORS_MAX) {
        let names = text[block.span.clone()].trim();
        let touches = text[block.span.end..at].trim().is_empty();
        if !touches || !names.starts_with(".. _") || !names.ends_with(':') {
            break;
        }
        at = block.span.start;
    }
    at
}

/// Returns `PEP 8: Style Guide` if the header has a PEP number, else the title field, else the first heading.
fn title(fields: &[(String, String)], headings: &[Heading]) -> String {
    let named =
        field(fields, "title").or(headings.first().map(|h| h.title.as_str())).unwrap_or_default();
    let title = match field(fields, "pep").and_then(number) {
        Some(pep) if field(fields, "title").is_some() => format!("PEP {pep}: {named}"),
        _ => named.to_owned(),
    };
    tidy(&title, HEADING_CHARS_MAX)
}

/// Reads `Name: value` or `:Name: value` lines with indented continuations, from byte `from` (blank lines skipped) to
/// the next blank line. Empty if any line has another form.
fn header_fields(text: &str, from: usize) -> Vec<(String, String)> {
    let mut open: Vec<(String, String)> = Vec::new();
    for line in text[from..].lines().skip_while(|line| line.trim().is_empty()) {
        let plain = line.strip_prefix(':').unwrap_or(line);
        if line.trim().is_empty() {
            break;
        }
        if line.starts_with([' ', '\t']) {
            let Some((_, value)) = open.last_mut() else { return Vec::new() };
            if value.len() < crate::document::FIELD_CHARS_MAX * 4 {
                value.push(' ');
                value.push_str(line.trim());
            }
            continue;
        }
        let named = plain.split_once(':').filter(|(name, value)| {
            let blank_after = value.is_empty() || value.starts_with([' ', '\t']);
            let word =
                |c: char| c.is_alphanumeric() || c == '-' || (c == ' ' && plain.len() < line.len());
            !name.is_empty() && blank_after && name.chars().all(word)
        });
        match named {
            Some((name, value)) => open.push((name.to_owned(), value.trim().to_owned())),
            None => return Vec::new(),
        }
    }
    let mut fields = Vec::new();
    for (name, value) in &open {
        add_field(&mut fields, name, value);
    }
    fields
}

/// A stretch without titles that should not be split.
struct Block {
    span: Range<usize>,
    /// True for code or a comment, in which references have no meaning.
    literal: bool,
}

/// Directives whose content is prose with references.
const PROSE_DIRECTIVES: &[&str] = &[
    "note",
    "warning",
    "tip",
    "important",
    "caution",
    "attention",
    "hint",
    "seealso",
    "admonition",
    "topic",
    "rubric",
];

/// Returns literal blocks, explicit markup (`.. `) and tables, in order.
fn blocks(text: &str) -> Vec<Block> {
    let all: Vec<Range<usize>> = lines(text).collect();
    let mut found = Vec::new();
    let mut i = 0;
    while i < all.len() {
        let line = text[all[i].clone()].trim_end();
        let indent = indent_of(line);
        let bare = line.trim_start();
        let (first, next, literal) = if bare.starts_with(".. ") || bare == ".." {
            (i, deeper(text, &all, i + 1, indent), !holds_prose(bare))
        } else if bare.ends_with("::") {
            (i + 1, deeper(text, &all, i + 1, indent), true)
        } else if is_table_border(bare) {
            (i, table_end(text, &all, i), false)
        } else {
            i += 1;
            continue;
        };
        if next > first {
            found.push(Block { span: all[first].start..all[next - 1].end, literal });
        }
        i = next.max(i + 1);
    }
    found
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Returns one past the last line, from line `from`, that is blank or indented deeper than `indent`, without trailing
/// blank lines.
fn deeper(text: &str, all: &[Range<usize>], from: usize, indent: usize) -> usize {
    let mut end = from;
    for (i, range) in all.iter().enumerate().skip(from) {
        let line = text[range.clone()].trim_end();
        if line.is_empty() {
            continue;
        }
        if indent_of(line) <= indent {
            break;
        }
        end = i + 1;
    }
    end
}

/// Returns true if an explicit markup block has readable text: footnotes, targets, admonitions.
fn holds_prose(bare: &str) -> bool {
    let rest = bare.strip_prefix(".. ").unwrap_or("").trim_start();
    let directive = rest.split_once("::").map(|(name, _)| name);
    rest.starts_with(['[', '_', '|'])
        || directive.is_some_and(|name| PROSE_DIRECTIVES.contains(&name))
}

/// Returns true for `+----+` of a grid table, or `==== ====` of a simple table.
fn is_table_border(bare: &str) -> bool {
    let grid = bare.len() > 3 && bare.starts_with('+') && bare.ends_with('+');
    let simple = bare.starts_with("==") && bare.contains(' ');
    (grid && bare.bytes().all(|b| matches!(b, b'+' | b'-' | b'=')))
        || (simple && bare.bytes().all(|b| b == b'=' || b == b' '))
}

/// Returns one past the last line of the table that starts at `first`. Grid tables end at a blank line, simple tables
/// at a border followed by a blank line.
fn table_end(text: &str, all: &[Range<usize>], first: usize) -> usize {
    let line = |i: usize| all.get(i).map_or("", |range| text[range.clone()].trim());
    let grid = line(first).starts_with('+');
    for i in first + 1..all.len().min(first + TABLE_LINES_MAX) {
        let blank_next = line(i + 1).is_empty();
        if blank_next && (grid || is_table_border(line(i))) {
            return i + 1;
        }
    }
    first + 1
}

/// Returns every reference outside literal blocks.
fn references(text: &str, blocks: &[Block], starts: &[usize]) -> Vec<crate::document::Link> {
    let mut links = Links::default();
    let targets = explicit_targets(text);
    let mut from = 0;
    let ends = blocks.iter().filter(|block| block.literal).map(|block| block.span.clone());
    for hole in ends.chain(std::iter::once(text.len()..text.len())) {
        let part = &text[from..hole.start];
        backticked(part, from, starts, &targets, &mut links);
        mentions(part, from, starts, &mut links);
        from = hole.end;
    }
    for (name, (url, at)) in &targets {
        links.add(LinkKind::Path, url, line_of(starts, *at), name);
    }
    links.finish()
}

/// Maps the names of `.. _name: url` lines, in lower case, to the URL and its position.
fn explicit_targets(text: &str) -> HashMap<String, (String, usize)> {
    let mut found = HashMap::new();
    for range in lines(text) {
        let Some(rest) = text[range.clone()].trim().strip_prefix(".. _") else { continue };
        let named = match rest.strip_prefix('`') {
            Some(quoted) => quoted.split_once("`:"),
            None => rest.split_once(": "),
        };
        if let (true, Some((name, url))) = (found.len() < crate::document::LINKS_MAX, named)
            && !url.trim().is_empty()
        {
            found.insert(
                tidy(name, HEADING_CHARS_MAX).to_lowercase(),
                (url.trim().to_owned(), range.start),
            );
        }
    }
    found
}

/// Adds roles, named references and embedded URLs, which are written between backticks.
fn backticked(
    part: &str,
    base: usize,
    starts: &[usize],
    targets: &HashMap<String, (String, usize)>,
    links: &mut Links,
) {
    let mut at = 0;
    while let Some(open) = part[at..].find('`').map(|n| at + n) {
        let width = part[open..].len() - part[open..].trim_start_matches('`').len();
        let inner = open + width;
        let window = &part[inner..part.floor_char_boundary(inner + REFERENCE_BYTES_MAX)];
        let window = window.split("\n\n").next().unwrap_or(window);
        let mark = if width == 1 { "`" } else { "``" };
        let Some(close) = window.find(mark).filter(|_| width <= 2) else {
            at = inner;
            continue;
        };
        let after = inner + close + mark.len();
        if width == 1 {
            let line = line_of(starts, base + open);
            let role = role_before(&part[..open]);
            let named = part[after..].starts_with('_');
            one_reference(role, named, &window[..close], line, targets, links);
        }
        at = after;
    }
}

fn one_reference(
    role: Option<&str>,
    named: bool,
    content: &str,
    line: u32,
    targets: &HashMap<String, (String, usize)>,
    links: &mut Links,
) {
    let (label, target) =
        match content.rsplit_once('<').and_then(|(l, t)| Some((l, t.strip_suffix('>')?))) {
            Some((label, target)) => (label.trim(), target.trim()),
            None => (content, content.trim()),
        };
    match role {
        Some("pep") => {
            let number = number(target.split('#').next().unwrap_or(target)).unwrap_or_default();
            links.add(LinkKind::Pep, number, line, label);
        }
        Some("doc") => links.add(LinkKind::Doc, target, line, label),
        Some("ref") => links.add(LinkKind::Label, target, line, label),
        Some(_) => {}
        None if !named => {}
        None if content.trim_end().ends_with('>') && !target.ends_with('_') => {
            links.add(LinkKind::Path, target, line, label);
        }
        None => {
            if let Some((url, _)) =
                targets.get(&tidy(target.trim_end_matches('_'), HEADING_CHARS_MAX).to_lowercase())
            {
                links.add(LinkKind::Path, url, line, label);
            }
        }
    }
}

/// Returns the last part of the role directly before a backtick: `pep` of `:pep:`, `doc` of `:std:doc:`.
fn role_before(before: &str) -> Option<&str> {
    let name = before.strip_suffix(':')?;
    let last = name
        .rsplit(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | '+' | '.'))
        .next()?;
    let colon = name[..name.len() - last.len()].ends_with(':');
    (colon && !last.is_empty()).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEP: &str = "PEP: 9999\nTitle: A Sample of\n  Things\nStatus: Draft\n\nAbstract\n========\n\n\
        See :pep:`387` and :pep:`style <8#x>`, PEP 20, :doc:`/guide/start`, `text here\n<https://a.b/c>`__, `Named`_.\n\n\
        Code::\n\n    Not a title\n    ===========\n    :pep:`1`\n\nAfter\n-----\n\n.. code-block:: python\n\n   x = `1`\n\n\
        .. _named: https://n.m/o\n\n===== =====\na     b\n===== =====\n1     2\n===== =====\n\nEnd.\n";

    #[test]
    fn the_header_names_the_document() {
        let doc = read(PEP.into());
        assert_eq!(doc.title, "PEP 9999: A Sample of Things");
        assert_eq!(doc.fields[2], ("Status".into(), "Draft".into()));
    }

    #[test]
    fn titles_are_found_outside_literal_blocks() {
        let paths: Vec<_> =
            read(PEP.into()).sections.iter().map(|s| s.heading_path.join("/")).collect();
        assert_eq!(paths, ["", "Abstract", "Abstract/After"]);
    }

    #[test]
    fn references_are_told_apart() {
        let got: Vec<_> =
            read(PEP.into()).links.into_iter().map(|l| (l.kind, l.target, l.line)).collect();
        let want = [
            (LinkKind::Pep, "387", 9),
            (LinkKind::Pep, "8", 9),
            (LinkKind::Doc, "/guide/start", 9),
            (LinkKind::Path, "https://a.b/c", 9),
            (LinkKind::Path, "https://n.m/o", 10),
            (LinkKind::Pep, "20", 9),
        ];
        for (kind, target, line) in want {
            assert!(got.contains(&(kind, target.into(), line)), "{target} in {got:?}");
        }
        assert_eq!(got.len(), want.len());
    }

    #[test]
    fn literal_blocks_directives_and_tables_are_kept_whole() {
        let doc = read(PEP.into());
        let kept: Vec<_> = doc.keep.iter().map(|k| PEP[k.clone()].trim()).collect();
        assert!(kept[0].starts_with("Not a title") && kept[0].ends_with(":pep:`1`"));
        assert!(kept[1].starts_with(".. code-block") && kept[1].ends_with("`1`"));
        assert!(kept.iter().any(|k| k.starts_with("=====") && k.contains("1     2")));
    }

    #[test]
    fn targets_go_with_the_title_they_name() {
        let text = "Aa\n==\n\nText.\n\n.. _b:\n.. _c:\n\nBb\n==\n\nMore.\n\n.. _d: https://x.y\n\nDd\n==\n";
        let doc = read(text.into());
        let starts: Vec<_> =
            doc.sections.iter().map(|s| text[s.span.clone()].lines().next().unwrap()).collect();
        assert_eq!(starts, ["Aa", ".. _b:", "Dd"]);
    }

    #[test]
    fn a_comment_above_a_rule_is_no_title() {
        assert_eq!(read("Aa\n==\n\n.. comment\n----------\n\nText.\n".into()).sections.len(), 1);
    }

    #[test]
    fn a_role_may_follow_any_character() {
        let found = |text: &str| {
            read(text.into()).links.iter().map(|l| l.target.clone()).collect::<Vec<_>>()
        };
        assert_eq!(found("\u{FFFD}a:`x` \u{FFFD}:pep:`8`"), ["8"]);
    }

    #[test]
    fn docinfo_may_follow_the_title() {
        let doc = read("Guide\n=====\n\n:Author: Me\n:Last update: now\n\nText.\n".into());
        assert_eq!((doc.title.as_str(), doc.fields.len()), ("Guide", 2));
    }
}
