//! Markdown: CommonMark headings, fences, tables, links and wiki links, and front matter.
//!
//! Maps parser events to sections; pulldown-cmark parses. A heading inside a list or quotation is content and starts no
//! section.

use std::ops::Range;

use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

use super::document::{
    Document, HEADING_CHARS_MAX, Heading, LinkKind, Links, Source, add_field, field, line_of,
    line_starts, lines, tidy, tile,
};
use super::format::Format;

/// Lines of front matter that are searched for the closing mark.
const FRONT_LINES_MAX: usize = 200;
/// If this many further headings have the first level, none of them is the title.
const TOP_HEADINGS_MAX: usize = 4;

pub(super) fn read(text: String) -> Document {
    let starts = line_starts(&text);
    let (fields, body) = front_matter(&text);
    let mut walk = Walk { text: &text, base: body, starts: &starts, ..Walk::default() };
    let options = Options::ENABLE_TABLES | Options::ENABLE_WIKILINKS | Options::ENABLE_FOOTNOTES;
    for (event, range) in Parser::new_ext(&text[body..], options).into_offset_iter() {
        walk.step(event, range.start + body..range.end + body);
    }
    let Walk { headings, mut keep, links, .. } = walk;
    if body > 0 {
        keep.insert(0, 0..body);
    }
    let title =
        field(&fields, "title").map(str::to_owned).or_else(|| title(&text, body, &headings));
    let title = tidy(&title.unwrap_or_default(), HEADING_CHARS_MAX);
    let links = links.finish();
    let mut notes = Vec::new();
    let sections = tile(text.len(), headings, &mut notes);
    Document {
        title,
        format: Format::Markdown,
        modality: Format::Markdown.modality(),
        sections,
        keep,
        links,
        fields,
        notes,
        lost: None,
        source: Source::Verbatim,
        text,
    }
}

/// Returns the first heading of the first level, written as Markdown or HTML, else the first heading. If every other
/// heading is of the first level, as in a change log, the headings name parts and none is the title.
fn title(text: &str, body: usize, headings: &[Heading]) -> Option<String> {
    let head = &text[body..headings.first().map_or(text.len(), |first| first.at)];
    if let Some(inner) = head.split_once("<h1").and_then(|(_, rest)| rest.split_once("</h1>")) {
        let words = without_tags(inner.0.split_once('>').map_or("", |(_, words)| words));
        return Some(words).filter(|words| !words.trim().is_empty());
    }
    let mut tops = headings.iter().filter(|h| h.level == 1);
    let top = tops.next().or_else(|| headings.first())?;
    (tops.count() < TOP_HEADINGS_MAX).then(|| top.title.clone())
}

/// Returns `html` without tags.
fn without_tags(html: &str) -> String {
    let mut inside = false;
    html.chars()
        .take(HEADING_CHARS_MAX * 8)
        .filter(|c| {
            let shown = !inside && *c != '<';
            inside = (inside || *c == '<') && *c != '>';
            shown
        })
        .collect()
}

/// Reads `key: value` (or `key = value`) lines between two `---` (or `+++`) lines at the very start. Returns the fields
/// and the start of the text after the closing mark.
fn front_matter(text: &str) -> (Vec<(String, String)>, usize) {
    let mut rest = lines(text).take(FRONT_LINES_MAX);
    let first = rest.next().map(|range| text[range].trim_end());
    let (mark, sign) = match first {
        Some("---") => ("---", ':'),
        Some("+++") => ("+++", '='),
        _ => return (Vec::new(), 0),
    };
    let mut fields = Vec::new();
    for range in rest {
        let line = text[range.clone()].trim_end();
        if line == mark || (mark == "---" && line == "...") {
            return if fields.is_empty() { (fields, 0) } else { (fields, range.end) };
        }
        let list_item = line.trim_start().strip_prefix("- ");
        match (line.split_once(sign), list_item, fields.last_mut()) {
            (_, Some(item), Some((_, value))) if line.starts_with([' ', '-']) => {
                let comma = if value.is_empty() { "" } else { ", " };
                *value = tidy(
                    &format!("{value}{comma}{}", unquote(item)),
                    crate::document::FIELD_CHARS_MAX,
                );
            }
            (Some((name, value)), ..) if !line.starts_with([' ', '\t', '#']) => {
                add_field(&mut fields, unquote(name), unquote(value));
            }
            _ => {}
        }
    }
    (Vec::new(), 0)
}

fn unquote(value: &str) -> &str {
    let value = value.trim();
    let inner = |mark: char| value.strip_prefix(mark).and_then(|v| v.strip_suffix(mark));
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

/// State of the walk through the events.
#[derive(Default)]
struct Walk<'a> {
    text: &'a str,
    base: usize,
    starts: &'a [usize],
    headings: Vec<Heading>,
    keep: Vec<Range<usize>>,
    links: Links,
    /// Number of lists and quotations around the current event.
    nested: usize,
    /// The open heading.
    heading: Option<Heading>,
    /// Open links and images, innermost last: kind, target, start, label so far.
    open: Vec<(LinkKind, String, usize, String)>,
}

impl Walk<'_> {
    fn step(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.enter(tag, range),
            Event::End(tag) => self.leave(tag),
            Event::Text(words) | Event::Code(words) => self.words(&words),
            Event::SoftBreak | Event::HardBreak => self.words(" "),
            _ => {}
        }
    }

    fn enter(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::Heading { level, .. } if self.nested == 0 => {
                let (at, body_start) = (self.line_start(range.start), self.line_end(range.end));
                self.heading = Some(Heading {
                    at,
                    body_start,
                    level: level as u8,
                    title: String::new(),
                    symbol: None,
                });
            }
            Tag::BlockQuote(_) | Tag::List(_) | Tag::FootnoteDefinition(_) => self.nested += 1,
            Tag::CodeBlock(_) | Tag::Table(_) | Tag::HtmlBlock => {
                let whole = self.line_start(range.start)..self.line_end(range.end);
                if self.keep.last().is_none_or(|last| last.end <= whole.start) && !whole.is_empty()
                {
                    self.keep.push(whole);
                }
            }
            Tag::Link { link_type, dest_url, .. } => {
                let wiki = matches!(link_type, LinkType::WikiLink { .. });
                let kind = if wiki { LinkKind::Wiki } else { LinkKind::Path };
                self.open.push((kind, dest_url.into_string(), range.start, String::new()));
            }
            Tag::Image { dest_url, .. } => {
                self.open.push((
                    LinkKind::Path,
                    dest_url.into_string(),
                    range.start,
                    String::new(),
                ));
            }
            _ => {}
        }
    }

    fn leave(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => self.headings.extend(self.heading.take()),
            TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::FootnoteDefinition => {
                self.nested = self.nested.saturating_sub(1);
            }
            TagEnd::Link | TagEnd::Image => {
                if let Some((kind, target, at, label)) = self.open.pop() {
                    self.links.add(kind, &target, line_of(self.starts, at), &label);
                    if let Some((.., outer)) = self.open.last_mut() {
                        push_bounded(outer, &label);
                    }
                }
            }
            _ => {}
        }
    }

    fn words(&mut self, words: &str) {
        if let Some(heading) = &mut self.heading {
            push_bounded(&mut heading.title, words);
        }
        if let Some((.., label)) = self.open.last_mut() {
            push_bounded(label, words);
        }
    }

    /// Returns the start of the line with byte `at`, never before the body: blocks may be indented a little.
    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |n| n + 1).max(self.base)
    }

    /// Returns the end of a block's last line; parsers differ on whether a block includes its line end.
    fn line_end(&self, at: usize) -> usize {
        if at > 0 && self.text[..at].ends_with('\n') {
            return at;
        }
        self.text[at..].find('\n').map_or(self.text.len(), |n| at + n + 1)
    }
}

/// Appends `words` while the result stays within a small multiple of the characters retained at the end.
fn push_bounded(out: &mut String, words: &str) {
    if out.len() < HEADING_CHARS_MAX * 4 {
        out.push_str(&words[..words.floor_char_boundary(HEADING_CHARS_MAX * 4)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "---\ntitle: \"A guide\"\ntags:\n  - x\n  - y\n---\n# Intro\n\nText [one](a.md#f).\n\n\
        ```sh\n# not a heading\n```\n\nSetext\n------\n\nSee [[Other Note|that]] and ![pic](p.png).\n\n> # quoted\n";

    #[test]
    fn headings_come_from_atx_and_setext_only_outside_fences_and_quotes() {
        let doc = read(SAMPLE.into());
        let paths: Vec<_> = doc.sections.iter().map(|s| s.heading_path.join("/")).collect();
        assert_eq!(paths, ["", "Intro", "Intro/Setext"]);
        assert!(SAMPLE[doc.sections[2].span.clone()].starts_with("Setext\n------"));
        assert!(SAMPLE[doc.sections[2].body_start..].starts_with("\nSee"));
    }

    #[test]
    fn front_matter_gives_title_and_fields() {
        let doc = read(SAMPLE.into());
        assert_eq!(doc.title, "A guide");
        assert_eq!(doc.fields[1], ("tags".into(), "x, y".into()));
        assert_eq!(read("---\n\ntext\n\n---\n".into()).fields, []);
    }

    #[test]
    fn titles_may_be_html_and_change_logs_have_none() {
        assert_eq!(
            read("<h1 align=c><code>rustix</code> it</h1>\n\n## Use\n".into()).title,
            "rustix it"
        );
        assert_eq!(read("# 5\n# 4\n# 3\n# 2\n# 1\n".into()).title, "");
        assert_eq!(read("# Intro\n# More\n".into()).title, "Intro");
    }

    #[test]
    fn links_keep_kind_line_and_label() {
        let doc = read(SAMPLE.into());
        let got: Vec<_> = doc
            .links
            .iter()
            .map(|l| (l.kind, l.target.as_str(), l.line, l.label.as_str()))
            .collect();
        let want = [
            (LinkKind::Path, "a.md#f", 9, "one"),
            (LinkKind::Wiki, "Other Note", 18, "that"),
            (LinkKind::Path, "p.png", 18, "pic"),
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn fences_are_kept_whole_even_when_never_closed() {
        let doc = read(SAMPLE.into());
        assert!(doc.keep.iter().any(|k| SAMPLE[k.clone()] == *"```sh\n# not a heading\n```\n"));
        let open = read("a\n\n```\n# b\n\nc".into());
        assert_eq!((open.sections.len(), open.keep.len()), (1, 1));
    }
}
