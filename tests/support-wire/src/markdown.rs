//! A Markdown parser for tests of documents: code blocks, words in backticks, headings and links.
//!
//! The parser MUST NOT depend on specific documents.

use std::collections::BTreeMap;

/// A fenced code block.
#[derive(Debug)]
pub struct Block {
    /// Info string of the opening fence, such as `sh no-run`.
    pub kind: String,
    /// Lines of the block.
    pub code: String,
    /// Line number of the opening fence, from 1.
    pub line: usize,
    /// The comments (`<!-- -->`) directly above.
    pub above: String,
}

/// Lines of a document, each with its number and true if it belongs to a code block.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut fence: Option<usize> = None;
    (1..).zip(text.lines()).map(move |(number, line)| {
        let ticks = line.trim_start().chars().take_while(|c| *c == '`').count();
        let is_code = match fence {
            Some(open) => {
                if ticks >= open && line.trim().chars().all(|c| c == '`') {
                    fence = None;
                }
                true
            }
            None if ticks >= 3 => {
                fence = Some(ticks);
                true
            }
            None => false,
        };
        (number, line, is_code)
    })
}

/// The fenced blocks of a document.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let (mut above, mut open) = (String::new(), None);
    for (number, line, is_code) in lines(text) {
        let ticks = line.trim_start().starts_with("```");
        match (&mut open, is_code) {
            (None, true) => {
                let kind = line.trim().trim_start_matches('`').to_owned();
                let above = std::mem::take(&mut above);
                open = Some(Block { kind, code: String::new(), line: number, above });
            }
            (Some(_), true) if ticks => found.extend(open.take()),
            (Some(block), true) => {
                block.code.push_str(line.trim_start_matches("    "));
                block.code.push('\n');
            }
            (_, false) => comments(&mut above, line),
        }
    }
    found
}

/// Collects comments until another line follows.
fn comments(above: &mut String, line: &str) {
    let goes_on = above.rfind("<!--").is_some_and(|at| !above[at..].contains("-->"));
    if goes_on || line.trim_start().starts_with("<!--") {
        above.push_str(line);
        above.push('\n');
    } else if !line.trim().is_empty() {
        above.clear();
    }
}

/// Texts in backticks outside of blocks, with their line numbers.
pub fn quoted(text: &str) -> Vec<(usize, &str)> {
    let plain = lines(text).filter(|(_, _, is_code)| !is_code);
    plain
        .flat_map(|(number, line, _)| {
            line.split('`').skip(1).step_by(2).map(move |quoted| (number, quoted))
        })
        .collect()
}

/// The document without its code and its comments.
fn prose(text: &str) -> String {
    let plain = lines(text).filter(|(_, _, is_code)| !is_code);
    let plain = plain.fold(String::new(), |mut prose, (_, line, _)| {
        prose.extend(line.split('`').step_by(2));
        prose.push('\n');
        prose
    });
    let mut parts = plain.split("<!--");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |prose, part| prose + part.split_once("-->").map_or("", |(_, rest)| rest))
}

/// Targets of links and images, without web addresses.
pub fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let starts = prose.match_indices("](").map(|(at, _)| &prose[at + 2..]);
    let targets = starts.filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    local.map(str::to_owned).collect()
}

/// The anchors of the headings, as repository hosts and mdBook generate them.
pub fn anchors(text: &str) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let headings = lines(text).filter(|(_, line, is_code)| !is_code && is_heading(line));
    headings
        .map(|(_, line, _)| {
            let slug = slug(line.trim_start_matches('#').trim());
            let count = counts.entry(slug.clone()).or_default();
            *count += 1;
            if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
        })
        .collect()
}

fn is_heading(line: &str) -> bool {
    let signs = line.chars().take_while(|c| *c == '#').count();
    (1..=6).contains(&signs) && line[signs..].starts_with(' ')
}

fn slug(title: &str) -> String {
    let lower = title.to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A `b` c\n\n<!-- not run: it is long -->\n```sh no-run\nrecalld x  # [no](link.md)\n```\n\
        ## A b c\nwords `recalld y` and [a link](other.md#a-b) ![picture](p.png) [web](https://a.example)\n\
        <!-- [gone](gone.md) -->\nwords\n```text\n# no heading\n```\n";

    #[test]
    fn blocks_have_their_kind_their_line_and_what_is_said_above() {
        let found = blocks(PAGE);
        let seen: Vec<_> = found.iter().map(|b| (b.kind.as_str(), b.line)).collect();
        assert_eq!(seen, [("sh no-run", 4), ("text", 11)]);
        assert_eq!(found[0].code, "recalld x  # [no](link.md)\n");
        assert!(found[0].above.contains("it is long") && found[1].above.is_empty());
    }

    #[test]
    fn links_and_headings_are_those_outside_of_code() {
        assert_eq!(links(PAGE), ["other.md#a-b", "p.png"]);
        assert_eq!(anchors(PAGE), ["a-b-c", "a-b-c-1"]);
        assert_eq!(quoted(PAGE), [(1, "b"), (8, "recalld y")]);
    }
}
