//! Suggestions for misspelt names.

use crate::limits::MISSPELT_CHARS_MAX;

/// A name is a misspelling of another if at most one in this many of its characters is wrong; one error is always
/// allowed.
const CHARS_TO_AN_ERROR: usize = 3;

/// Returns the name in `known` with the smallest edit distance to `given`, if near enough. Edits are insertions,
/// deletions, substitutions and transpositions of neighbours. Case and separators are ignored, so that `documentId`
/// equals `document_id`.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = plain(given);
    let distances = known.into_iter().map(|name| {
        let plain = plain(name);
        let longest = given.chars().count().max(plain.chars().count());
        (name, strsim::osa_distance(&given, &plain), (longest / CHARS_TO_AN_ERROR).max(1))
    });
    let near = distances.filter(|(_, distance, allowed)| distance <= allowed);
    near.min_by_key(|(_, distance, _)| *distance).map(|(name, ..)| name)
}

/// Returns the letters and digits among a name's first characters, in lower case.
fn plain(name: &str) -> String {
    let first = name.chars().take(MISSPELT_CHARS_MAX);
    first.filter(|char| char.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Truncates a client's text for an error.
pub fn cut(text: &str) -> String {
    text.chars().take(MISSPELT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_known_again_and_another_one_is_not() {
        const KNOWN: [&str; 5] = ["query", "document_id", "tags", "uri", "get_document_tool"];
        for (given, meant) in [
            ("quary", Some("query")),
            ("qeury", Some("query")),
            ("Query", Some("query")),
            ("documentId", Some("document_id")),
            ("document", Some("document_id")),
            ("url", Some("uri")),
            ("get-documents-tool", Some("get_document_tool")),
            ("get_document", Some("get_document_tool")),
            ("limit", None),
            ("text", None),
            ("", None),
            ("\u{e9}", None),
        ] {
            assert_eq!(nearest(given, KNOWN), meant, "{given}");
        }
        assert_eq!(nearest(&"query".repeat(1000), KNOWN), None);
        assert_eq!(nearest("query", []), None);
    }
}
