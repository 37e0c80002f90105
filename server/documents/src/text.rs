//! Plain text: paragraphs, underlined titles, bare URLs.

use super::adorned::titles;
use super::document::{Document, HEADING_CHARS_MAX, Links, Source, line_starts, tidy, tile};
use super::format::Format;
use super::mentions::mentions;

/// Bytes of the longest first line that counts as a title.
const TITLE_BYTES_MAX: usize = 100;

pub(super) fn read(text: String) -> Document {
    let starts = line_starts(&text);
    let mut links = Links::default();
    mentions(&text, 0, &starts, &mut links);
    let headings = titles(&text, |_| false);
    let title =
        headings.first().map(|h| tidy(&h.title, HEADING_CHARS_MAX)).or_else(|| first_line(&text));
    let mut notes = Vec::new();
    let sections = tile(text.len(), headings, &mut notes);
    Document {
        title: title.unwrap_or_default(),
        format: Format::Text,
        modality: Format::Text.modality(),
        sections,
        keep: Vec::new(),
        links: links.finish(),
        fields: Vec::new(),
        notes,
        lost: None,
        source: Source::Verbatim,
        text,
    }
}

/// Returns the first line if a blank line follows and the line reads like a title rather than data or a sentence.
fn first_line(text: &str) -> Option<String> {
    let mut rest = text.trim_start_matches(['\n', '\r']).lines();
    let first = rest.next()?.trim();
    let alone = rest.next().is_none_or(|next| next.trim().is_empty());
    let wordy = first.chars().filter(|c| c.is_alphabetic() || *c == ' ').count() * 4
        >= first.chars().count() * 3;
    let ends_open = first.ends_with(['.', ',', ';', ':', '{', '[', '(']);
    (alone && wordy && !ends_open && !first.is_empty() && first.len() <= TITLE_BYTES_MAX)
        .then(|| tidy(first, HEADING_CHARS_MAX))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_lone_first_line_is_the_title() {
        assert_eq!(read("Shopping for winter\n\n- socks\n".into()).title, "Shopping for winter");
        assert_eq!(read("a,b,c\n1,2,3\n".into()).title, "");
        assert_eq!(read("This is a sentence.\n\nAnd more.\n".into()).title, "");
    }

    #[test]
    fn underlined_titles_make_sections() {
        let doc = read("Notes\n=====\n\nOne\n---\ntext https://a.b/c\n".into());
        assert_eq!(doc.title, "Notes");
        assert_eq!(doc.sections[1].heading_path, ["Notes", "One"]);
        assert_eq!((doc.links[0].target.as_str(), doc.links[0].line), ("https://a.b/c", 6));
    }
}
