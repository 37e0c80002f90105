//! References in prose: bare URLs and `PEP 123`.

use super::document::{LINK_TARGET_BYTES_MAX, LinkKind, Links, line_of};

/// Digits in the longest PEP number.
const PEP_DIGITS_MAX: usize = 4;

/// Adds every URL and PEP in `text`, which begins at byte `base` of a text with line starts `starts`.
pub(super) fn mentions(text: &str, base: usize, starts: &[usize], links: &mut Links) {
    for (at, _) in text.match_indices("://") {
        if let Some((start, url)) = url_around(text, at) {
            links.add(LinkKind::Path, url, line_of(starts, base + start), "");
        }
    }
    for (at, _) in text.match_indices("PEP") {
        let glued = text[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        if let (false, Some(number)) = (glued, pep_number(&text[at + 3..])) {
            links.add(LinkKind::Pep, number, line_of(starts, base + at), "");
        }
    }
}

/// Returns the number after `PEP` without leading zeros: ` 8` or `-0008`; a line break may precede the number.
fn pep_number(rest: &str) -> Option<&str> {
    let rest = rest.strip_prefix('-').or_else(|| {
        let trimmed = rest.trim_start_matches([' ', '\n', '\r']);
        (trimmed.len() < rest.len()).then_some(trimmed)
    })?;
    number(rest)
}

/// Returns the leading digits of `text` as a PEP number without leading zeros; `None` if there are none or too many.
pub(super) fn number(text: &str) -> Option<&str> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number = text[..digits].trim_start_matches('0');
    (digits <= PEP_DIGITS_MAX && !number.is_empty()).then_some(number)
}

/// Returns the http(s) URL whose `://` is at `at`, without closing punctuation, and its start.
fn url_around(text: &str, at: usize) -> Option<(usize, &str)> {
    let scheme = ["https", "http"].into_iter().find(|scheme| text[..at].ends_with(scheme))?;
    let start = at - scheme.len();
    let ends = |c: char| {
        c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"' | '`' | '|' | '{' | '}')
    };
    // A URL longer than the longest stored target is not a link; the bounded window limits the work per mention.
    let window = &text[start..text.floor_char_boundary(start + LINK_TARGET_BYTES_MAX + 1)];
    let end = match window.find(ends) {
        None if window.len() > LINK_TARGET_BYTES_MAX => return None,
        found => found.unwrap_or(window.len()),
    };
    let mut url = window[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', '\'', '*']);
    // A closing bracket belongs to the URL only if its opening bracket does.
    for (open, close) in [('(', ')'), ('[', ']')] {
        while url.ends_with(close) && url.matches(close).count() > url.matches(open).count() {
            url = url[..url.len() - 1].trim_end_matches(['.', ',', ';']);
        }
    }
    (url.len() > scheme.len() + 3).then_some((start, url))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut links = Links::default();
        mentions(text, 0, &crate::document::line_starts(text), &mut links);
        links.finish().into_iter().map(|l| l.target).collect()
    }

    #[test]
    fn urls_lose_the_punctuation_around_them() {
        assert_eq!(
            found("(see https://a.b/c_(d)), <http://x.y/z>. xhttp:// https://e.f."),
            ["https://a.b/c_(d)", "http://x.y/z", "https://e.f"]
        );
    }

    #[test]
    fn peps_are_named_by_number() {
        assert_eq!(
            found("PEP 8, PEP 0387 and PEP-12; PEP8 xPEP 9 PEP 123456 PEPs 7 PEP\n20"),
            ["8", "387", "12", "20"]
        );
    }
}
