//! Titles marked by a line of punctuation below, or above and below (title adornments).
//!
//! reStructuredText and plain text share the rule: the (character, overlined) style sets the level, in order of first
//! appearance (docutils, "Sections").

use std::ops::Range;

use super::document::{HEADING_CHARS_MAX, HEADING_DEPTH_MAX, Heading, lines};

/// Minimum length of an adornment that is shorter than its title.
const ADORNMENT_CHARS_MIN: usize = 4;

/// Returns every adorned title in `text`, in order. `skip` returns true for line starts within blocks without titles.
pub(super) fn titles(text: &str, skip: impl Fn(usize) -> bool) -> Vec<Heading> {
    let all: Vec<Range<usize>> = lines(text).collect();
    let mut found = Vec::new();
    let mut styles: Vec<(char, bool)> = Vec::new();
    let mut free = true; // whether a title may start here: after a blank line, a title or a transition
    let mut i = 0;
    while i < all.len() {
        let hit = if free && !skip(all[i].start) { title_at(text, &all[i..]) } else { None };
        let Some((title, style, taken)) = hit else {
            free = text[all[i].clone()].trim().is_empty()
                || adornment(&text[all[i].clone()]).is_some();
            i += 1;
            continue;
        };
        let known = styles.iter().position(|s| *s == style).unwrap_or_else(|| {
            if styles.len() < usize::from(HEADING_DEPTH_MAX) {
                styles.push(style);
            }
            styles.len() - 1
        });
        found.push(Heading {
            at: all[i].start,
            body_start: all[i + taken - 1].end,
            level: u8::try_from(known + 1).unwrap_or(HEADING_DEPTH_MAX),
            title: title.to_owned(),
            symbol: None,
        });
        i += taken;
    }
    found
}

/// Returns the title that starts at the first line of `rest`, its style, and its number of lines.
fn title_at<'a>(text: &'a str, rest: &[Range<usize>]) -> Option<(&'a str, (char, bool), usize)> {
    let line = |n: usize| rest.get(n).map(|range| text[range.clone()].trim_end());
    let first = line(0)?;
    if let Some((mark, width)) = adornment(first) {
        let title = line(1)?;
        let (below, below_width) = adornment(line(2)?)?;
        let fits = mark == below
            && width == below_width
            && width >= title.trim().chars().count().min(HEADING_CHARS_MAX);
        return (fits && names_something(title)).then(|| (title.trim(), (mark, true), 3));
    }
    let (mark, width) = adornment(line(1)?)?;
    let indented = first.starts_with([' ', '\t']);
    let fits =
        width >= ADORNMENT_CHARS_MIN || width >= first.chars().take(ADORNMENT_CHARS_MIN).count();
    (fits && !indented && names_something(first) && first.len() <= HEADING_CHARS_MAX * 4)
        .then_some((first, (mark, false), 2))
}

fn names_something(title: &str) -> bool {
    adornment(title).is_none() && title.chars().any(char::is_alphanumeric)
}

/// Returns the character and width of a line that is one punctuation character repeated at least twice.
pub(super) fn adornment(line: &str) -> Option<(char, usize)> {
    let line = line.trim_end();
    let mark = line.chars().next().filter(char::is_ascii_punctuation)?;
    (line.len() >= 2 && line.bytes().all(|byte| char::from(byte) == mark))
        .then_some((mark, line.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(text: &str) -> Vec<(u8, String)> {
        titles(text, |_| false).into_iter().map(|h| (h.level, h.title)).collect()
    }

    #[test]
    fn levels_follow_the_order_of_styles() {
        let text = "====\nBook\n====\n\nOne\n===\nText.\n\nA\n--\n\nTwo\n===\n\nB\n--\n";
        let want = [(1, "Book"), (2, "One"), (3, "A"), (2, "Two"), (3, "B")]
            .map(|(l, t)| (l, t.to_owned()));
        assert_eq!(outline(text), want);
    }

    #[test]
    fn transitions_and_paragraph_ends_are_no_titles() {
        assert_eq!(outline("Para one\nline two\n----\n\nmore\n\n------\n\nText.\n"), []);
        assert_eq!(outline("Long title here\n---\n"), []);
    }
}
