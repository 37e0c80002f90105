//! HTML: the visible text with headings and links, mapped to the source lines.
//!
//! Turns tokens into text; html5gum tokenizes (WHATWG HTML, section 13.2.5). No tree is built: an unclosed element can
//! at most hide the rest of the page's text.

use std::ops::Range;

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};

use super::document::{
    Document, HEADING_CHARS_MAX, Heading, LinkKind, Links, Run, Source, add_field, line_of,
    line_starts, tidy, tile,
};
use super::format::Format;

/// Elements that start and end on a line of their own.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "caption",
    "dd",
    "details",
    "dialog",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "html",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "tbody",
    "tfoot",
    "thead",
    "tr",
    "ul",
];
/// Block elements that are also separated by a blank line.
const SPACED: &[&str] = &[
    "article",
    "blockquote",
    "dl",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "ul",
];
/// Elements whose content is not shown.
const HIDDEN: &[&str] =
    &["script", "style", "template", "noscript", "svg", "math", "iframe", "object", "select"];

/// Link texts that generators use for a heading's permalink.
const PERMALINK_MARKS: &[&str] = &["#", "\u{b6}", "\u{a7}", "\u{1F517}"];

/// Reads decoded HTML.
pub(super) fn read(source: &str) -> Document {
    let starts = line_starts(source);
    let mut page = Page { source, starts: &starts, ..Page::default() };
    let mut emitter = DefaultEmitter::<usize>::new_with_span();
    emitter.naively_switch_states(true);
    for token in Tokenizer::new_with_emitter(source, emitter) {
        match token {
            Ok(Token::StartTag(tag)) => page.enter(&tag),
            Ok(Token::EndTag(tag)) => page.leave(&name_of(&tag.name)),
            Ok(Token::String(words)) => {
                page.words(
                    &String::from_utf8_lossy(&words.value),
                    words.span.start..words.span.end,
                );
            }
            Ok(_) => {}
            Err(never) => match never {},
        }
    }
    page.close_heading();
    page.close_link();
    page.finish_pre();
    let Page { out, runs, headings, keep, links, title, fields, .. } = page;
    let title = tidy(&title, HEADING_CHARS_MAX);
    let first = headings.iter().find(|h| h.level == 1).or_else(|| headings.first());
    let title =
        if title.is_empty() { first.map(|h| h.title.clone()).unwrap_or_default() } else { title };
    let mut notes = Vec::new();
    let sections = tile(out.len(), headings, &mut notes);
    Document {
        title,
        format: Format::Html,
        modality: Format::Html.modality(),
        text: out,
        sections,
        keep,
        links: links.finish(),
        fields,
        notes,
        lost: None,
        source: Source::Extracted { runs, line_starts: starts },
    }
}

fn name_of(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).to_ascii_lowercase()
}

fn attribute(tag: &StartTag<usize>, name: &[u8]) -> Option<String> {
    tag.attributes.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

/// The text extracted so far.
#[derive(Default)]
struct Page<'a> {
    source: &'a str,
    starts: &'a [usize],
    out: String,
    runs: Vec<Run>,
    headings: Vec<Heading>,
    keep: Vec<Range<usize>>,
    links: Links,
    title: String,
    fields: Vec<(String, String)>,
    /// The enclosing hidden element and the number of open elements of its name.
    hidden: Option<(String, usize)>,
    in_title: bool,
    /// Line ends to insert before the next text.
    breaks: usize,
    /// True if a space is due before the next text.
    space: bool,
    /// True after a list item's bullet, whose text follows on the same line.
    bullet: bool,
    /// Start of the open preformatted block in `out`.
    pre: Option<usize>,
    /// The open heading: level, and its start in `out`.
    heading: Option<(u8, usize)>,
    /// The open link: target, position in the source, and start of its text in `out`.
    link: Option<(String, usize, usize)>,
}

impl Page<'_> {
    fn enter(&mut self, tag: &StartTag<usize>) {
        let name = name_of(&tag.name);
        if let Some((hiding, depth)) = &mut self.hidden {
            *depth += usize::from(*hiding == name && !tag.self_closing);
            return;
        }
        if HIDDEN.contains(&name.as_str()) {
            if !tag.self_closing {
                self.hidden = Some((name, 1));
            }
            return;
        }
        self.break_for(&name);
        let at = tag.span.start;
        match name.as_str() {
            "title" => self.in_title = self.title.is_empty(),
            "br" => self.breaks = self.breaks.max(1),
            "td" | "th" if !self.out.is_empty() && self.breaks == 0 => self.put(" | ", at..at),
            "li" => {
                self.bullet = false;
                self.put("- ", at..tag.span.end);
                self.bullet = true;
            }
            "pre" => self.pre = self.pre.or(Some(self.out.len())),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.close_heading();
                self.settle();
                self.heading = Some((name.as_bytes()[1] - b'0', self.out.len()));
            }
            "a" => {
                self.close_link();
                if let Some(target) = attribute(tag, b"href") {
                    self.link = Some((target, at, self.out.len()));
                }
            }
            "img" => {
                let alt = attribute(tag, b"alt").unwrap_or_default();
                if let Some(target) = attribute(tag, b"src") {
                    self.links.add(LinkKind::Path, &target, line_of(self.starts, at), &alt);
                }
                self.flowing(&alt, at..tag.span.end);
            }
            "meta" => {
                let named = attribute(tag, b"name").or_else(|| attribute(tag, b"property"));
                if let (Some(named), Some(content)) = (named, attribute(tag, b"content")) {
                    add_field(&mut self.fields, &named, &content);
                }
            }
            _ => {}
        }
    }

    fn leave(&mut self, name: &str) {
        if let Some((hiding, depth)) = &mut self.hidden {
            *depth -= usize::from(hiding == name);
            if *depth == 0 {
                self.hidden = None;
            }
            return;
        }
        match name {
            "title" => self.in_title = false,
            "li" => self.bullet = false,
            "a" => self.close_link(),
            "pre" => self.finish_pre(),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.close_heading(),
            _ => {}
        }
        self.break_for(name);
    }

    fn break_for(&mut self, name: &str) {
        if BLOCKS.contains(&name) {
            self.breaks = self.breaks.max(if SPACED.contains(&name) { 2 } else { 1 });
        }
    }

    fn words(&mut self, words: &str, at: Range<usize>) {
        if self.hidden.is_some() {
            return;
        }
        if self.in_title {
            if self.title.len() < HEADING_CHARS_MAX * 4 {
                self.title.push_str(&words[..words.floor_char_boundary(HEADING_CHARS_MAX * 4)]);
            }
            return;
        }
        // Entities change the length of a text but rarely its line count, so each line of the token maps to its own
        // line of the source.
        let at = at.start.min(self.source.len())..at.end.min(self.source.len());
        let raw = self.source.get(at.clone()).unwrap_or("");
        let aligned = raw.matches('\n').count() == words.matches('\n').count();
        let mut from = at.start;
        let mut raw_lines = raw.split_inclusive('\n');
        for line in words.split_inclusive('\n') {
            let bytes = if aligned { raw_lines.next().map_or(0, str::len) } else { 0 };
            let place = if aligned { from..from + bytes } else { at.clone() };
            from += bytes;
            if self.pre.is_some() { self.verbatim(line, place) } else { self.flowing(line, place) }
        }
    }

    /// Appends text with white space collapsed.
    fn flowing(&mut self, line: &str, place: Range<usize>) {
        self.space |= line.starts_with(char::is_whitespace);
        let mut first = true;
        for word in line.split_whitespace() {
            self.space |= !first;
            self.put(word, place.clone());
            first = false;
        }
        self.space |= line.ends_with(char::is_whitespace);
    }

    /// Appends preformatted text unchanged.
    fn verbatim(&mut self, line: &str, place: Range<usize>) {
        self.put(line, place);
    }

    /// Appends text after pending line ends or a pending space, and records the source position.
    fn put(&mut self, piece: &str, place: Range<usize>) {
        if piece.is_empty() {
            return;
        }
        self.settle();
        let run =
            Run { text_start: self.out.len(), source_start: place.start, source_end: place.end };
        if self.runs.last().is_none_or(|last| {
            last.source_start != run.source_start || last.source_end != run.source_end
        }) {
            self.runs.push(run);
        }
        self.out.push_str(piece);
        self.space = false;
    }

    /// Inserts the pending line ends or space.
    fn settle(&mut self) {
        if self.out.is_empty() {
            (self.breaks, self.space) = (0, false);
        }
        let have = self.out.len() - self.out.trim_end_matches('\n').len();
        if self.breaks > have && !self.bullet {
            self.out.extend(std::iter::repeat_n('\n', self.breaks - have));
        } else if self.breaks == 0 && self.space && !self.out.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
        (self.breaks, self.space, self.bullet) = (0, false, false);
    }

    fn close_heading(&mut self) {
        let Some((level, at)) = self.heading.take() else { return };
        let title = tidy(&self.out[at.min(self.out.len())..], HEADING_CHARS_MAX);
        if !title.is_empty() {
            self.headings.push(Heading {
                at,
                body_start: self.out.len(),
                level,
                title,
                symbol: None,
            });
        }
    }

    fn close_link(&mut self) {
        if let Some((target, at, from)) = self.link.take() {
            let label = tidy(&self.out[from.min(self.out.len())..], HEADING_CHARS_MAX);
            if target.starts_with('#') && PERMALINK_MARKS.contains(&label.as_str()) {
                self.take_back(from);
            }
            self.links.add(LinkKind::Path, &target, line_of(self.starts, at), &label);
        }
    }

    /// Removes the text from byte `from` on.
    fn take_back(&mut self, from: usize) {
        // Text of blocks already closed stays, because their ranges must remain valid.
        let closed = self.headings.last().map_or(0, |heading| heading.body_start);
        let kept = self.keep.last().map_or(0, |keep| keep.end);
        if from >= closed.max(kept).max(self.pre.unwrap_or(0)) {
            self.out.truncate(from);
            // A heading opened inside the removed link now begins at the link's start.
            if let Some((_, at)) = &mut self.heading {
                *at = (*at).min(from);
            }
            self.runs.truncate(self.runs.partition_point(|run| run.text_start < from));
        }
    }

    fn finish_pre(&mut self) {
        if let Some(at) = self.pre.take().filter(|at| *at < self.out.len()) {
            self.keep.push(at..self.out.len());
            self.breaks = 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<!doctype html>\n<html><head><title>A &amp; B</title>\n<style>p { }</style>\n\
        <script>let x = '<h1>no</h1>';</script></head>\n<body>\n<h1>Top <em>one</em></h1>\n<p>First &lt;para&gt;\n\
        goes   on.</p><ul><li>one<li><p>two</p></ul>\n<h2>Sub</h2><pre>a\n  b</pre>\n\
        <p><a href=\"x.html#f\">the link</a> <img src=i.png alt=\"A cat\"></p></body></html>";

    #[test]
    fn what_is_shown_is_kept_and_the_rest_is_not() {
        let doc = read(PAGE);
        assert_eq!(doc.title, "A & B");
        assert_eq!(
            doc.text,
            "Top one\n\nFirst <para> goes on.\n\n- one\n- two\n\nSub\n\na\n  b\n\nthe link A cat"
        );
    }

    #[test]
    fn headings_and_links_are_found() {
        let doc = read(PAGE);
        let paths: Vec<_> = doc.sections.iter().map(|s| s.heading_path.join("/")).collect();
        assert_eq!(paths, ["Top one", "Top one/Sub"]);
        let links: Vec<_> =
            doc.links.iter().map(|l| (l.target.as_str(), l.label.as_str(), l.line)).collect();
        assert_eq!(links, [("x.html#f", "the link", 11), ("i.png", "A cat", 11)]);
    }

    #[test]
    fn runs_lead_back_to_the_source_lines() {
        let doc = read(PAGE);
        let Source::Extracted { runs, line_starts } = &doc.source else { panic!("extracted") };
        let line = |needle: &str| {
            let at = doc.text.find(needle).unwrap();
            let run = runs[runs.partition_point(|r| r.text_start <= at) - 1];
            line_of(line_starts, run.source_start)
        };
        assert_eq!(
            [line("Top"), line("First"), line("goes"), line("  b"), line("A cat")],
            [6, 7, 8, 10, 11]
        );
    }

    #[test]
    fn marks_of_a_heading_for_itself_are_no_text() {
        let doc = read("<h2>C# <a href='#c'>#</a></h2><p>See <a href='#c'>above</a>.</p>");
        assert_eq!(
            (doc.text.as_str(), doc.sections[0].heading_path[0].as_str()),
            ("C#\n\nSee above.", "C#")
        );
        assert_eq!(doc.links, []);
    }

    #[test]
    fn unclosed_and_nested_hiding_does_not_panic() {
        assert_eq!(read("<svg><svg></svg>x").text, "");
        assert_eq!(read("a<template><template></template>b</template>c").text, "ac");
        assert_eq!(read("<h1>").sections, []);
    }
}
