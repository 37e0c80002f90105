//! Evidence: the location of a recalled item in its source file, verified against the present file.

use engine::{CorruptionError, ItemView, Snapshot, Span};

use recalld_fs_util::roots::Roots;
use recalld_fs_util::uri;

/// Location of an item in a file, for `map_evidence`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapEvidence {
    /// Path of the file.
    pub path: String,
    /// First line, 1-based.
    pub line_start: u32,
    /// Last line, inclusive.
    pub line_end: u32,
    /// SHA-256 of the present file, or of the ingested content if the file cannot be read.
    pub file_sha256: [u8; 32],
    /// Result of the comparison of the file with its ingested content.
    pub witness: Witness,
}

/// Comparison of a file with its ingested content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witness {
    /// The file is unchanged; the lines are valid.
    Unchanged,
    /// The file changed; the item's text is at the reported lines.
    Moved,
    /// The file changed; the item's text is not in it, or more than once.
    Changed,
    /// The file is missing, or cannot be read under the allowed roots.
    Missing,
}

impl Witness {
    /// Name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Moved => "moved",
            Self::Changed => "changed",
            Self::Missing => "missing",
        }
    }
}

/// Returns the evidence for an item from a file, `None` for any other item.
///
/// # Errors
/// Corruption.
pub fn map_evidence(
    snapshot: &Snapshot,
    roots: &Roots,
    item: &ItemView<'_>,
) -> Result<Option<MapEvidence>, CorruptionError> {
    let (Some(id), Some(span)) = (item.source, item.span) else { return Ok(None) };
    let Some(source) = snapshot.source(id)? else { return Ok(None) };
    let Some(path) = uri::to_path(source.uri) else { return Ok(None) };
    let evidence = |span: Span, file_sha256, witness| {
        let (line_start, line_end) = (span.line_start, span.line_end);
        let path = path.clone();
        Some(MapEvidence { path, line_start, line_end, file_sha256, witness })
    };
    let Some(now) = uri::contents(roots, &path) else {
        return Ok(evidence(span, source.content_sha256, Witness::Missing));
    };
    let sha256 = uri::sha256(&now);
    if sha256 == source.content_sha256 {
        return Ok(evidence(span, sha256, Witness::Unchanged));
    }
    Ok(match find_lines(&String::from_utf8_lossy(&now), item.text) {
        Some((line_start, line_end)) => {
            let span = Span { line_start, line_end, ..span };
            evidence(span, sha256, Witness::Moved)
        }
        None => evidence(span, sha256, Witness::Changed),
    })
}

/// Returns the first and last line of `part` within `whole`, if it occurs exactly once.
fn find_lines(whole: &str, part: &str) -> Option<(u32, u32)> {
    let part = part.trim_matches('\n');
    let at = whole.find(part).filter(|_| !part.is_empty())?;
    if whole[at..].match_indices(part).nth(1).is_some() {
        return None;
    }
    let lines = |text: &str| u32::try_from(text.matches('\n').count()).ok();
    let first = lines(&whole[..at])? + 1;
    Some((first, first + lines(part)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_text_are_found_where_it_stands_once() {
        assert_eq!(find_lines("a\nb\nc\nd\n", "b\nc\n"), Some((2, 3)));
        assert_eq!(find_lines("a\nb\n", "a"), Some((1, 1)));
        assert_eq!(find_lines("a\na\n", "a"), None);
        assert_eq!(find_lines("a\n", "x"), None);
        assert_eq!(find_lines("a\n", "\n"), None);
    }
}
